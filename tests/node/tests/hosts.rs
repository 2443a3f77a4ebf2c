//! Hosts with a list of volumes: an NVMe/TCP host and an iSCSI initiator see the same volumes, with the same
//! rights, while they are connected and after a restart of the node.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash::nvme_tcp::{
    Controller, HostIdentity, Io, NamespaceId, Options, QueueId, QueueOptions, QueuePair, Status,
    discover,
};
use nearflash_iscsi::initiator::{CommandData, Status as ScsiStatus, cdb};
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_node_tests::{Host, Initiator, Node, Place, Who, eventually, subsystem};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use serde_json::Value;
use uuid::Uuid;

/// Two volumes of one subsystem, and one of its own.
const VOLUMES: [&str; 8] = [
    "--device",
    "r=ram:32MiB",
    "--volume",
    "a=4MiB@r,subsystem=both",
    "--volume",
    "b=4MiB@r,subsystem=both",
    "--volume",
    "c=4MiB@r",
];

fn start<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    Node::with_iscsi(place, &[&VOLUMES[..], flags].concat())
}

/// The same NVMe host in every connection.
fn identity() -> HostIdentity {
    HostIdentity::from_uuid(Uuid::from_u128(0x5EED))
}

fn options(node: &Node<'_>, volume: &str) -> Options {
    let long = Nanos::from_secs(120);
    Options::new(node.address(), subsystem(volume), identity()).keep_alive(long).timeout(long)
}

/// A host with one queue, at one namespace.
fn connect(node: &Node<'_>, volume: &str, nsid: u32) -> Host {
    let mut controller = Controller::connect(&options(node, volume)).unwrap();
    let namespace = controller.namespace(NamespaceId(nsid)).unwrap();
    controller.request_queue_pairs(1).unwrap();
    let queue_options = QueueOptions::for_ops(8, ByteLen(8192));
    let pair = QueuePair::connect(&controller, QueueId(1), queue_options).unwrap();
    Host { controller, namespace, queues: vec![pair] }
}

fn seen(host: &mut Host) -> Vec<u32> {
    host.controller.active_namespaces().unwrap().iter().map(|nsid| nsid.0).collect()
}

fn allow(node: &Node<'_>, who: &str, volumes: &[&str]) -> Value {
    node.command(&[&["host", "allow", who], volumes].concat())["list"]["volumes"].take()
}

/// The status of a command with a buffer.
fn run(host: &mut Host, io: impl FnOnce(nearflash::nvme_tcp::BufferId) -> Io) -> Status {
    let buffer = host.queues[0].take_buffer(ByteLen(4096)).unwrap();
    let status = host.run(0, io(buffer));
    host.queues[0].give_back(buffer);
    status
}

#[test]
fn a_host_sees_only_the_volumes_of_its_list_while_others_see_all() {
    let place = Place::new();
    let node = start(&place, &["--unlisted-hosts", "all"]);
    let nqn = identity().nqn.to_string();
    let list = allow(&node, &nqn, &["b"]);
    assert_eq!(list[0]["volume"], "b");
    let found = discover(&options(&node, "both")).unwrap();
    let found = found.iter().filter(|it| it.is_nvm);
    let found: Vec<String> = found.map(|it| it.subsystem.to_string()).collect();
    assert_eq!(found, [subsystem("both").to_string()]);
    assert!(Controller::connect(&options(&node, "c")).is_err());
    let mut host = connect(&node, "both", 2);
    assert_eq!(seen(&mut host), [2]);
    host.assert_works();
    // By the number of another namespace, it neither reads nor writes.
    host.namespace.id = NamespaceId(1);
    assert_eq!(host.read(0, 1).0, Status::INVALID_NAMESPACE.dnr());
    assert_eq!(host.write(0, &[1; 4096]), Status::INVALID_NAMESPACE.dnr());
    assert!(host.controller.namespace(NamespaceId(1)).is_err());
    // A host without a list sees every volume.
    let mut other = Host::connect(&node, "both");
    assert_eq!(seen(&mut other), [1, 2]);
    Host::connect(&node, "c").assert_works();
    node.terminate();
}

#[test]
fn a_host_that_may_only_read_is_refused_all_writes_and_the_initiator_likewise() {
    let place = Place::new();
    let node = start(&place, &["--unlisted-hosts", "all"]);
    let nqn = identity().nqn.to_string();
    allow(&node, &nqn, &["c:r"]);
    allow(&node, "iqn.2026-11.test:reader", &["c:r"]);
    let mut writer = Host::connect(&node, "c");
    assert!(writer.write(0, &[7; 4096]).is_success());
    let mut host = connect(&node, "c", 1);
    let (start, count) = (Lba(0), Blocks(1));
    let refused = Status::NAMESPACE_WRITE_PROTECTED.dnr();
    let write = |buffer| Io::Write { start, count, buffer, force_unit_access: false };
    assert_eq!(run(&mut host, write), refused);
    for deallocate in [false, true] {
        assert_eq!(host.run(0, Io::WriteZeroes { start, count, deallocate }), refused);
    }
    let compare = |buffer| Io::Compare { start, count, buffer };
    assert_ne!(run(&mut host, compare), refused);
    assert_eq!(host.flush(), Status::SUCCESS);
    assert_eq!(host.read(0, 1), (Status::SUCCESS, vec![7; 4096]));

    let mut initiator = Initiator::login(&node, "c", &Who::named("reader")).unwrap();
    assert_eq!(initiator.write_refused(0, &[1; 4096]), Some((7, 0x27, 0)));
    assert_eq!(initiator.read(0), [7; 4096]);
    // Nothing of it arrived, and the writer still writes.
    assert_eq!(writer.read(0, 1), (Status::SUCCESS, vec![7; 4096]));
    assert!(writer.write(0, &[8; 4096]).is_success());
    node.terminate();
}

#[test]
fn rights_change_while_hosts_are_connected_and_last_over_a_restart() {
    let place = Place::new();
    let device = place.flash("32MiB");
    let flags = ["--device", &device, "--volume", "c=4MiB@flash", "--volume", "d=4MiB@flash"];
    let node = Node::with_iscsi(&place, &[&flags[..], &["--unlisted-hosts", "all"]].concat());
    let nqn = identity().nqn.to_string();
    let (who, iqn) = (Who::named("App"), "iqn.2026-11.test:app");
    let mut host = connect(&node, "c", 1);
    let mut initiator = Initiator::login(&node, "c", &who).unwrap();
    initiator.hear_all();
    host.assert_works();
    // Only reading. The answer to the command says that it is in force.
    for name in [&nqn[..], iqn] {
        allow(&node, name, &["c:r"]);
    }
    let refused = Status::NAMESPACE_WRITE_PROTECTED.dnr();
    assert_eq!(host.write(0, &[1; 4096]), refused);
    assert!(host.read(0, 1).0.is_success());
    assert_eq!(initiator.attention(), Some((0x2A, 1)));
    assert_eq!(initiator.write_refused(0, &[1; 4096]), Some((7, 0x27, 0)));
    // Nothing any more: the connections stay.
    for name in [&nqn[..], iqn] {
        let list = node.command(&["host", "deny", name, "c"])["list"]["volumes"].take();
        assert_eq!(list, serde_json::json!([]));
    }
    assert_eq!(host.read(0, 1).0, Status::INVALID_NAMESPACE.dnr());
    assert_eq!(seen(&mut host), [0; 0]);
    let done = initiator.command(&cdb::test_unit_ready(), &CommandData::None);
    assert_eq!(done.sense.map(|sense| (sense.key, sense.asc)), Some((5, 0x25)));
    assert!(Controller::connect(&options(&node, "c")).is_err());
    assert_eq!(
        Initiator::refused(&node, "c", &Who { isid: 2, ..who.clone() }),
        LoginStatus::NOT_FOUND
    );
    // And back.
    allow(&node, &nqn, &["c"]);
    node.command(&["host", "unlist", iqn]);
    host.assert_works();
    initiator.hear_all();
    assert_eq!(initiator.write(0, &[3; 4096]), ScsiStatus::GOOD);
    drop((host, initiator));
    allow(&node, &nqn, &["d:r", "--only"]);
    node.terminate();

    let node = Node::with_iscsi(&place, &flags[..2]);
    let lists = &node.command(&["host", "list"])["lists"];
    assert_eq!(lists[0]["volumes"], serde_json::json!([{"volume": "d", "rights": "r"}]));
    assert!(Controller::connect(&options(&node, "c")).is_err());
    assert_eq!(connect(&node, "d", 1).write(0, &[1; 4096]), refused);
    node.terminate();
}

#[test]
fn with_unlisted_hosts_none_only_hosts_with_a_list_see_volumes() {
    let place = Place::new();
    let node = start(&place, &["--unlisted-hosts", "none"]);
    assert!(Controller::connect(&options(&node, "c")).is_err());
    let found = discover(&options(&node, "c")).unwrap();
    assert!(!found.iter().any(|it| it.is_nvm), "{found:?}");
    let who = Who::named("a");
    assert_eq!(Initiator::refused(&node, "c", &who), LoginStatus::NOT_FOUND);
    let nqn = identity().nqn.to_string();
    allow(&node, &nqn, &["c"]);
    allow(&node, &who.name, &["c"]);
    connect(&node, "c", 1).assert_works();
    let mut initiator = Initiator::login(&node, "c", &who).unwrap();
    assert_eq!(initiator.write(0, &[3; 4096]), ScsiStatus::GOOD);
    node.terminate();
}

#[test]
fn a_volume_that_is_made_anew_under_its_name_is_not_in_the_list() {
    let place = Place::new();
    let node = start(&place, &[]);
    let nqn = identity().nqn.to_string();
    allow(&node, &nqn, &["c"]);
    node.command(&["volume", "remove", "c", "--yes"]);
    node.command(&["volume", "create", "c=4MiB@r"]);
    eventually("the volume", || {
        node.command(&["volume", "list"])["volumes"].as_array().unwrap().len() == 3
    });
    assert!(Controller::connect(&options(&node, "c")).is_err());
    assert_eq!(node.command(&["host", "list"])["lists"][0]["volumes"], serde_json::json!([]));
    node.terminate();
}
