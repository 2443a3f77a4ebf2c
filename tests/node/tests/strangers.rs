//! Peers that prove nothing, and one host that wants everything: others find a place nevertheless.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use nearflash_node_tests::{
    Admin, Host, Node, Place, Wire, assert_serves, connect_command, eventually,
};
use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{ControllerId, Nqn, Status};
use nearflash_nvme_tcp::Digests;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uuid::Uuid;

/// This process holds one end of many connections.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// The taken places of a kind.
fn taken(node: &Node<'_>, kind: &str) -> u64 {
    let status = node.command(&["status"]);
    let places = status["places"].as_array().unwrap();
    let of_kind = places.iter().find(|it| it["kind"] == kind).unwrap();
    of_kind["used"].as_u64().unwrap()
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    !matches!(stream.read(&mut [0]), Ok(1..))
}

#[test]
fn a_stranger_with_idle_discovery_controllers_keeps_no_host_out() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let host: Nqn = "nqn.2014-08.org.nvmexpress:uuid:stranger".parse().unwrap();
    let data = ConnectData::new(Uuid::nil(), ControllerId::DYNAMIC, &Nqn::discovery(), &host);
    let discover = || {
        let mut wire = Wire::agree(node.address(), Digests::NONE);
        assert!(wire.connect(connect_command(0, 32), &data).status().is_success());
        wire
    };
    let mut idle: Vec<Wire> = (0..300).map(|_| discover()).collect();
    idle[0].closed();
    assert_eq!(taken(&node, "nvme-discovery-controllers"), 256);
    assert_eq!(taken(&node, "nvme-controllers"), 0);
    assert_serves(&node);
}

#[test]
fn a_host_has_a_share_of_the_controllers_and_the_log_says_who_has_most() {
    raise_open_files_limit();
    let place = Place::new();
    let node = Node::in_memory(&place);
    let greedy = Admin::join(&node, "data");
    let mut data = greedy.connect_data();
    data.controller_id = ControllerId::DYNAMIC.0.into();
    let one_more = || {
        let mut wire = Wire::agree(node.address(), Digests::NONE);
        let status = wire.connect(connect_command(0, 32), &data).status();
        (wire, status)
    };
    let more: Vec<Wire> = (1..256).map(|_| one_more().0).collect();
    assert_eq!(one_more().1, Status::CONNECT_CONTROLLER_BUSY);
    let holder = greedy.host_nqn();
    eventually("the log names the host", || {
        let log = place.log();
        let line = log.lines().find(|line| line.contains("a peer got no place"));
        line.is_some_and(|line| line.contains(&holder) && line.contains("256"))
    });
    assert_serves(&node);
    drop(more);
    eventually("the places are free again", || taken(&node, "nvme-controllers") == 1);
    one_more();
}

#[test]
fn silent_connections_give_way_to_newer_ones() {
    raise_open_files_limit();
    let place = Place::new();
    let volume = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"];
    let node = Node::start(&place, &[&volume[..], &["--login-timeout", "5m"]].concat());
    let mut host = Host::connect(&node, "data");
    let connect = || TcpStream::connect(node.address()).unwrap();
    let mut silent: Vec<TcpStream> = (0..1100).map(|_| connect()).collect();
    assert!(is_closed(&mut silent[0]), "the oldest ends without a time-out");
    host.assert_works();
    assert_serves(&node);
    assert!(taken(&node, "unproved-connections") <= 1024);
}

#[test]
fn a_crowd_of_connections_leaves_descriptors_to_the_control_socket() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let mut host = Host::connect(&node, "data");
    let files = u64::try_from(node.usage().files).unwrap();
    node.limit(Resource::Nofile, (files + 80).max(160));
    let mut crowd: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(node.address()).unwrap()).collect();
    assert!(is_closed(crowd.last_mut().unwrap()), "what finds no descriptor is closed at once");
    assert!(taken(&node, "connections") < 100);
    host.assert_works();
    let warnings = || place.log().matches("cannot accept a connection").count();
    eventually("the log has warnings", || warnings() > 0);
    let warnings = warnings();
    assert!((1..10).contains(&warnings), "{warnings} lines");
}
