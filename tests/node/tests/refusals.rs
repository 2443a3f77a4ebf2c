//! Refused logins: each protocol logs who wanted in, from where, to what, and why not; many of them fill neither the
//! log nor the events, and displace no change.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::Command;

use nearflash::direct::Status as DirectStatus;
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_node_tests::{
    DirectWire, Door, Initiator, Key, Node, Place, Who, Wire, connect_command, eventually,
    nearflash, subsystem,
};
use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{ControllerId, Status};
use nearflash_nvme_tcp::Digests;
use serde_json::Value;
use uuid::Uuid;

const KEYED: &str = "nqn.2026-11.test:keyed";
const STRANGER: &str = "nqn.2026-11.test:stranger";
const SECRET: &str = "sixteen-letters!";

/// A node with every protocol, which admits one host, one initiator and one client.
fn start(place: &Place) -> Node<'_> {
    let flags = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r", "--host", KEYED];
    let doors = ["--direct", "127.0.0.1:0", "--iscsi", "127.0.0.1:0"];
    let socket = ["--direct-local", &place.text("direct.sock")];
    Node::start(place, &[&flags[..], &doors[..], &socket[..]].concat())
}

fn connect(node: &Node<'_>, host: &str, to: &str) -> (Status, Wire) {
    let data = ConnectData::new(
        Uuid::from_u128(1),
        ControllerId::DYNAMIC,
        &subsystem(to),
        &host.parse().unwrap(),
    );
    let mut wire = Wire::agree(node.address(), Digests::NONE);
    let status = wire.connect(connect_command(0, 32), &data).status();
    (status, wire)
}

fn refused(place: &Place) -> Vec<String> {
    let log = place.log();
    let lines = log.lines().filter(|line| line.contains("login refused: "));
    lines.map(|line| line.split_once("login refused: ").unwrap().1.to_owned()).collect()
}

#[test]
fn a_refused_login_is_logged_with_who_wanted_what_from_where_and_why_not() {
    let place = Place::new();
    let node = start(&place);
    let (status, _) = connect(&node, KEYED, "none");
    assert_eq!(status, Status::CONNECT_INVALID_PARAMETERS.dnr());
    std::fs::write(place.path("secret"), SECRET).unwrap();
    node.command(&["chap", "add", "app", "--secret-file", &place.text("secret")]);
    node.command(&["host", "add", KEYED]);
    let key = Key::create(&node, "app", &[]);

    let (status, _) = connect(&node, STRANGER, "data");
    assert_eq!(status, Status::CONNECT_INVALID_HOST.dnr());
    // It has keys, and goes away without a proof.
    let (status, wire) = connect(&node, KEYED, "data");
    assert_eq!(status, Status::SUCCESS);
    drop(wire);
    let wrong = Who::named("a").with_account("guessed", "another secret!!");
    assert_eq!(Initiator::refused(&node, "data", &wrong), LoginStatus::AUTHENTICATION_FAILURE);
    let refusal = key.forged().connect(&node, Door::Tcp).unwrap_err();
    assert_eq!(refusal.status(), Some(DirectStatus::AUTHENTICATION_FAILED));

    eventually("all are logged", || refused(&place).len() >= 5);
    let lines = refused(&place).join("\n");
    for (protocol, rest) in [
        (
            "nvme-tcp",
            "who=\"nqn.2026-11.test:keyed\" user=\"\" what=\"nqn.2026-11.io.nearflash:none\" \
             reason=\"not-found\"",
        ),
        (
            "nvme-tcp",
            "who=\"nqn.2026-11.test:stranger\" user=\"\" what=\"nqn.2026-11.io.nearflash:data\" \
             reason=\"not-admitted\"",
        ),
        (
            "nvme-tcp",
            "who=\"nqn.2026-11.test:keyed\" user=\"\" what=\"nqn.2026-11.io.nearflash:data\" \
             reason=\"abandoned\"",
        ),
        (
            "iscsi",
            "who=\"iqn.2026-11.test:a\" user=\"guessed\" what=\"iqn.2026-11.io.nearflash:data\" \
             reason=\"not-proved\"",
        ),
        ("direct", "who=\"app\" user=\"\" what=\"\" reason=\"not-proved\""),
    ] {
        let is_it = |line: &&str| {
            line.contains(&format!("protocol=\"{protocol}\" peer=127.0.0.1:"))
                && line.contains(rest)
        };
        assert_eq!(lines.lines().filter(is_it).count(), 1, "{rest}: {lines}");
    }
    let text = node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
    for labels in [
        "protocol=\"nvme-tcp\",reason=\"not-admitted\"",
        "protocol=\"nvme-tcp\",reason=\"abandoned\"",
        "protocol=\"iscsi\",reason=\"not-proved\"",
        "protocol=\"direct\",reason=\"not-proved\"",
    ] {
        let sample = format!("nearflash_logins_refused_total{{{labels}}} 1\n");
        assert!(text.contains(&sample), "{sample}: {text}");
    }
    node.terminate();
}

#[test]
fn many_refused_logins_fill_no_log_and_displace_no_change() {
    let place = Place::new();
    let node = start(&place);
    let key = Key::create(&node, "app", &[]);
    for _ in 0..300 {
        let mut wire = DirectWire::dial(&node);
        wire.send_in_vain(&[b'x'; 64]);
        wire.assert_closed();
    }
    let status = node.command(&["status"]);
    let reasons = status["verdict"]["reasons"].to_string();
    assert!(reasons.contains("300 logins were refused in ten minutes"), "{status}");
    assert!(reasons.contains("the last one from 127.0.0.1"), "{status}");
    let forged = key.forged().connect(&node, Door::Tcp).unwrap_err();
    assert_eq!(forged.status(), Some(DirectStatus::AUTHENTICATION_FAILED));
    eventually("another reason is logged, too", || place.log().contains("who=\"app\""));
    node.terminate();
    let lines = refused(&place);
    assert!(lines.len() <= 20, "{lines:?}");
    let more = place.log().contains("login refused: 284 more in a minute");
    assert!(more || lines.len() > 18, "what was held back is told: {lines:?}");
}

fn changes(place: &Place, flags: &[&str]) -> Vec<Value> {
    let output = Command::new(nearflash())
        .args(["events", "--changes", "--json", "--data-dir", &place.data_dir()])
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn changes_are_recorded_with_who_made_them_and_outlive_the_node() {
    let place = Place::new();
    let node = start(&place);
    node.command(&["volume", "create", "web=4MiB@r"]);
    node.terminate();
    // A change leaves one line. A thread of its own writes the log, which is complete when the node has ended.
    let log = place.log();
    let of_web: Vec<&str> = log.lines().filter(|line| line.contains("\"web\"")).collect();
    assert_eq!(of_web.len(), 1, "{log}");
    let node = start(&place);
    node.command(&["volume", "remove", "web", "--force"]);
    node.terminate();
    let made = changes(&place, &[]);
    let of = |change: &Value| {
        let field = |name: &str| change["fields"][name].as_str().unwrap().to_owned();
        [field("call"), field("subject"), field("result"), field("through")].join(" ")
    };
    let calls: Vec<String> = made.iter().map(of).collect();
    let expected = ["volume-create web ok control socket", "volume-remove web ok control socket"];
    assert_eq!(calls, expected);
    assert!(made[0]["fields"]["who"].as_str().unwrap().starts_with("uid "));
    let after = made[0]["number"].to_string();
    assert_eq!(changes(&place, &["--after", &after]), made[1..]);
}

#[test]
fn a_client_that_asks_for_a_volume_without_a_grant_is_logged_and_counted_at_a_bounded_rate() {
    let place = Place::new();
    let node = start(&place);
    let key = Key::create(&node, "app", &[]);
    let client = key.connect(&node, Door::Tcp).unwrap();
    for volume in ["data", "guessed"] {
        for _ in 0..100 {
            let refusal = client.open(volume).unwrap_err();
            assert_eq!(refusal.status(), Some(DirectStatus::NOT_GRANTED));
        }
    }
    let sample = |count: u64| {
        let labels = "{protocol=\"direct\",reason=\"not-admitted\"}";
        format!("nearflash_logins_refused_total{labels} {count}\n")
    };
    let metrics = || node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
    // The client opens each volume in a connection of its own.
    eventually("the count", || metrics().contains(&sample(200)));
    node.terminate();
    let lines = refused(&place);
    let first = "it has no grant on this volume protocol=\"direct\" peer=127.0.0.1:";
    let names = "who=\"app\" user=\"\" what=\"data\" reason=\"not-admitted\"";
    assert!(lines[0].starts_with(first) && lines[0].ends_with(names), "{lines:?}");
    assert!(lines.len() <= 18, "{lines:?}");
}

#[test]
fn strangers_with_many_names_fill_neither_the_log_nor_the_metrics_of_a_node_with_keys() {
    let place = Place::new();
    let node = start(&place);
    node.command(&["host", "add", KEYED]);
    let key = Key::create(&node, "app", &[]);
    key.grant(&node, "data", &["--rights", "rw"]);
    let lines_of_metrics = || {
        let text = node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
        assert!(!text.contains("stranger"), "{text}");
        text.lines().count()
    };
    let before = lines_of_metrics();
    for number in 0..600 {
        let (status, _) = connect(&node, &format!("{STRANGER}-{number}"), "data");
        assert_eq!(status, Status::CONNECT_INVALID_HOST.dnr());
    }
    // One more for each reason at most.
    assert!(lines_of_metrics() <= before + 4);
    let volume = key.connect(&node, Door::Tcp).unwrap().open("data").unwrap();
    volume.write_at(&[1; 512], 0).unwrap();
    let text = node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
    assert!(text.contains("host=\"app\""), "the client has a meter of its own: {text}");
    node.terminate();
    let lines = refused(&place);
    assert!(lines.len() <= 20, "{lines:?}");
}
