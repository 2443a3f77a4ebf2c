//! Replicas that move to other nodes, in real processes, under a load that verifies every read.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::time::Duration;

use nearflash_node_tests::{Kind, Load, LoadSize, Machine, Mirrored, eventually};
use serde_json::Value;

const SIZE: LoadSize = LoadSize { writers: 1, readers: 1, pause: Duration::from_micros(500) };

fn machines(count: usize) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..count).map(|_| Machine::new()).collect();
    Mirrored::unite(&machines);
    machines
}

/// Waits until every thread at a node has done some more.
fn goes_on(load: &Load, node: usize) {
    for kind in [Kind::Writer, Kind::Reader] {
        let before = load.done_by_each(node, kind);
        eventually("the load goes on", || load.done_by_each(node, kind) >= before + 40);
    }
    assert_eq!(load.violations().count(), 0, "{}", load.violations());
}

/// Ends the load: nothing is lost, and both replicas are the same.
fn assert_sound(load: Load, nodes: &Mirrored<'_>, asked: usize) {
    nodes.heals(asked);
    let violations = load.end(&nodes.addresses()).unwrap();
    assert_eq!(violations.count(), 0, "{violations}");
    nodes.assert_replicas_agree(asked);
}

/// A job that a node begins, and its number.
fn begin(nodes: &Mirrored<'_>, asked: usize, command: &[&str]) -> u64 {
    let answer = nodes.node(asked).command(&[command, &["--no-wait"]].concat());
    answer["job"]["id"].as_u64().unwrap()
}

fn job(nodes: &Mirrored<'_>, asked: usize, id: u64) -> Value {
    nodes.node(asked).command(&["job", "show", &id.to_string()])["job"].clone()
}

/// The number of replicas of the volume on a node, as another one sees it.
fn replicas_on(nodes: &Mirrored<'_>, asked: usize, node: usize) -> usize {
    let mirrors = nodes.mirrors(asked);
    mirrors.iter().flat_map(|mirror| &mirror.replicas).filter(|it| it.node == node).count()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_is_drained_under_load_and_its_data_is_on_the_others() {
    let machines = machines(3);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "96MiB", "--width", "3"]);
    eventually("three nodes", || nodes.verdict(0) == "ok");
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    (0..3).for_each(|node| goes_on(&load, node));
    assert_eq!(replicas_on(&nodes, 0, 1), 2);
    let id = begin(&nodes, 0, &["cluster", "drain", "n1"]);
    let shown = job(&nodes, 2, id);
    assert_eq!((&shown["kind"], &shown["volume"]), (&"node-drain".into(), &"n1".into()), "{shown}");
    assert_eq!(shown["total_bytes"], 64 << 20, "{shown}");
    eventually("the end of the job", || job(&nodes, 2, id)["state"] == "done");
    for asked in 0..3 {
        eventually("nothing is left", || replicas_on(&nodes, asked, 1) == 0);
        goes_on(&load, asked);
    }
    // It comes back by a move of the volume.
    let new = ["volume", "create", "other", "--replicas", "2", "--size", "16MiB"];
    nodes.node(1).command(&new);
    let shown = nodes.node(1).command(&["volume", "show", "other"])["layout"].to_string();
    assert!(!shown.contains("\"n1\""), "{shown}");
    let undone = nodes.node(2).command(&["cluster", "drain", "n1", "--undo"]);
    assert_eq!(undone["node"], "n1", "{undone}");
    let id = begin(&nodes, 1, &["volume", "move", "data", "--from", "n2", "--to", "n1"]);
    eventually("the end of the job", || job(&nodes, 0, id)["state"] == "done");
    assert_eq!((replicas_on(&nodes, 0, 2), replicas_on(&nodes, 0, 1)), (0, 3));
    (0..3).for_each(|node| goes_on(&load, node));
    assert_sound(load, &nodes, 0);
    let (moved, said) = nodes.attempt(0, &["volume", "move", "data", "--from", "n2", "--to", "n1"]);
    assert!(!moved && said.contains("has no replica on node 'n2'"), "{said}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_drain_goes_on_when_the_node_that_carries_it_on_is_killed() {
    let machines = machines(4);
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "128MiB", "--width", "4"]);
    eventually("four nodes", || nodes.verdict(0) == "ok");
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    (0..4).for_each(|node| goes_on(&load, node));
    let id = begin(&nodes, 3, &["cluster", "drain", "n1"]);
    nodes.crash(3);
    // Mirrors with a replica on the node that was killed wait for that node.
    let is_left = |nodes: &Mirrored<'_>| {
        let is_on = |node: usize, it: &nearflash_node_tests::Mirror| {
            it.replicas.iter().any(|replica| replica.node == node)
        };
        nodes.mirrors(0).iter().any(|it| is_on(1, it) && !is_on(3, it))
    };
    eventually("another node carries it on", || !is_left(&nodes));
    nodes.serve(3);
    eventually("the end of the job", || job(&nodes, 0, id)["state"] == "done");
    assert_eq!(replicas_on(&nodes, 3, 1), 0);
    [0, 1, 2].into_iter().for_each(|node| goes_on(&load, node));
    assert_sound(load, &nodes, 0);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_move_that_is_cancelled_leaves_the_replicas_where_they_were() {
    let machines = machines(3);
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    eventually("three nodes", || nodes.verdict(0) == "ok");
    let mirror = nodes.mirror(0);
    let (primary, secondary) = (mirror.primary(), mirror.secondary());
    let third = (0..3).find(|it| ![primary, secondary].contains(it)).unwrap();
    let load = Load::start(&nodes.addresses(), "data", SIZE);
    goes_on(&load, primary);
    // It gets a place, and takes nothing.
    nodes.freeze(third, Duration::from_secs(1), || {
        let from = format!("n{secondary}");
        let id = begin(&nodes, primary, &["volume", "move", "data", "--from", &from]);
        eventually("a third place", || nodes.mirror(primary).replicas.len() == 3);
        let shown = nodes.node(secondary).command(&["job", "cancel", &id.to_string()]);
        assert_eq!(shown["job"]["state"], "cancelled", "{shown}");
        assert_eq!(nodes.mirror(secondary).replicas.len(), 2);
    });
    eventually("the load goes on", || load.violations().count() == 0 && nodes.is_whole(third));
    goes_on(&load, secondary);
    assert_sound(load, &nodes, primary);
    let now = nodes.mirror(third);
    assert!(now.replicas.iter().all(|it| it.node != third), "{now:?}");
}
