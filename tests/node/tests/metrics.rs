//! The metrics of a node that serves.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_node_tests::{Admin, Node, Place, eventually};
use nearflash_nvme::{Command, NamespaceId};
use nearflash_units::Lba;

const NSID: NamespaceId = NamespaceId(1);

/// The sum of the samples of this name that have this label.
fn sum(text: &str, name: &str, label: &str) -> f64 {
    let is_meant = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') && rest.contains(label))
    };
    let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    text.lines().filter(is_meant).map(value).sum()
}

#[test]
fn the_metrics_have_the_requests_of_hosts_and_the_connections_and_the_time_of_cores() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let text = || node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
    let connections = || sum(&text(), "nearflash_core_connections", "protocol=\"nvme-tcp\"");
    assert_eq!(connections(), 0.0);
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 16);
    for lba in 0..5 {
        assert!(io.read(&Command::read(NSID, Lba(lba), 0, 4096)).0.is_success());
    }
    // A core shows its figures at the end of the turn that answers.
    eventually("an admin queue and an I/O queue are connected", || connections() == 2.0);
    let answered = "nearflash_core_answered_requests_total";
    eventually("the core has answered", || sum(&text(), answered, "\"nvme-tcp\"") == 5.0);
    let text_now = text();
    let sum = |name: &str, label: &str| sum(&text_now, name, label);
    let host = format!("host=\"{}\"", admin.host_nqn());
    assert_eq!(sum("nearflash_volume_operations_total", &host), 5.0);
    assert_eq!(sum("nearflash_volume_bytes_total", &host), 5.0 * 4096.0);
    assert_eq!(sum("nearflash_volume_latency_seconds_count", "volume=\"data\""), 5.0);
    assert_eq!(sum("nearflash_core_operations_total", "op=\"read\""), 5.0);
    let (busy, turns) = ("nearflash_core_busy_seconds_total", "nearflash_core_turns_total");
    assert!(sum(busy, "core=") > 0.0 && sum(turns, "core=") > 5.0, "{text_now}");
    assert!(sum("nearflash_core_pool_free_bytes", "core=") > 0.0);
    drop((io, admin));
    eventually("nobody is connected", || connections() == 0.0);
}
