//! Each fault has its level, its reason and its remedy.

use std::collections::BTreeMap;

use nearflash_device::MirrorKey;
use nearflash_planner::model::{CLUSTER, GIB, Model, cluster_of, node, open_slice, volume};
use nearflash_planner::{Change, VolumeSpec};
use nearflash_records::key::Key;
use nearflash_records::record::{AliveRecord, MirrorRecord, Record, Schema};
use nearflash_records::store::RolledBack;
use nearflash_records::store::StoreStatus;
use nearflash_units::ByteLen;

use super::*;

fn healthy() -> StoreHealth {
    StoreHealth {
        is_read: true,
        silent_since: None,
        failures: BTreeMap::new(),
        status: Some(StoreStatus { voters: 3, healthy: 3, ..StoreStatus::default() }),
        is_outcome_unknown: false,
        other_run: None,
        rolled_back: None,
        is_accepted: false,
    }
}

fn served() -> Model {
    cluster_with(2, &volume(1, ByteLen(4 * GIB)))
}

/// A volume of three mirrors with two replicas each, on three nodes.
fn mirrored() -> Model {
    cluster_with(3, &VolumeSpec { replicas: 2, ..volume(1, ByteLen(4 * GIB)) })
}

fn cluster_with(nodes: u16, spec: &VolumeSpec) -> Model {
    let mut model = cluster_of(nodes, ByteLen(80 * GIB));
    add(&mut model, spec);
    (1..=nodes).for_each(|number| start(&mut model, number));
    model
}

fn add(model: &mut Model, spec: &VolumeSpec) {
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    model.finish(spec.uuid).unwrap();
}

fn start(model: &mut Model, number: u16) {
    let record = AliveRecord { schema: Schema, run: 1, access: None };
    model.write(vec![(Key::Alive(node(number)).path(CLUSTER), Some(record.encode()))]);
}

fn stop(model: &mut Model, number: u16) {
    model.write(vec![(Key::Alive(node(number)).path(CLUSTER), None)]);
}

/// The replicas on a node's slice are dropped from the mirrors of volume 1, as after a failover.
fn drop_replicas(model: &mut Model, number: u16) {
    let (state, slice) = (model.state(), nearflash_planner::model::slice(number));
    for view in state.mirrors().unwrap() {
        let is_left = |ordinal: u32| {
            let replica = view.replicas.replicas.iter().find(|it| it.ordinal == ordinal);
            replica.is_some_and(|it| it.slice != slice)
        };
        let mut record: MirrorRecord = view.mirror.clone();
        record.in_sync.retain(|it| is_left(it.replica));
        record.primary = record.in_sync[0].replica;
        record.term += 1;
        model.write(vec![(Key::Mirror(view.key).path(CLUSTER), Some(record.encode()))]);
    }
}

fn say(health: &StoreHealth, model: &Model) -> (Level, String) {
    let endpoints = ["e1".to_owned(), "e2".to_owned()];
    let verdict = verdict(Nanos::from_secs(100), health, &endpoints, &model.state());
    (verdict.level(), verdict.to_string())
}

#[test]
fn a_cluster_without_a_fault_is_ok() {
    assert_eq!(say(&healthy(), &served()), (Level::Ok, "ok".to_owned()));
    assert_eq!(Level::Ok.exit_code(), 0);
}

#[test]
fn a_silent_store_puts_the_cluster_at_risk_and_says_since_when() {
    let failures = [(1, "connection refused".to_owned())].into();
    let health = StoreHealth { failures, ..healthy() };
    let (level, said) = say(&health, &served());
    assert!(level == Level::Degraded && said.contains("e2 (connection refused)"), "{said}");
    let health = StoreHealth { silent_since: Some(Nanos::from_secs(60)), ..health };
    let (level, said) = say(&health, &served());
    assert!(level == Level::AtRisk && said.contains("unreachable for 40 s"), "{said}");
    let health = StoreHealth { is_read: false, ..health };
    assert_eq!(say(&health, &served()).0, Level::Unavailable);
}

#[test]
fn the_members_of_the_store_count() {
    let with = |voters, healthy_ones, alarms: &[&str]| {
        let alarms = alarms.iter().map(|it| (*it).to_owned()).collect();
        let status =
            Some(StoreStatus { voters, healthy: healthy_ones, alarms, is_external: false });
        say(&StoreHealth { status, ..healthy() }, &served())
    };
    assert_eq!(with(3, 1, &[]).0, Level::AtRisk);
    let (level, line) = with(3, 3, &["Nospace"]);
    assert_eq!(level, Level::AtRisk);
    assert!(line.contains("etcd's database is full") && line.contains("cluster status"), "{line}");
    assert_eq!(with(3, 3, &["Corrupt"]).0, Level::AtRisk);
    assert_eq!(with(3, 2, &[]).0, Level::Degraded);
    assert!(with(2, 2, &[]).1.contains("survives no failure"));
    assert_eq!(say(&StoreHealth { status: None, ..healthy() }, &served()).0, Level::AtRisk);
}

#[test]
fn another_process_of_the_node_and_an_unknown_outcome_are_risks() {
    let health = StoreHealth { other_run: Some(5), ..healthy() };
    assert_eq!(say(&health, &served()).0, Level::AtRisk);
    let health = StoreHealth { is_outcome_unknown: true, ..healthy() };
    assert_eq!(say(&health, &served()).0, Level::AtRisk);
    let health = StoreHealth { rolled_back: Some(RolledBack::History), ..healthy() };
    assert_eq!(say(&health, &served()).0, Level::AtRisk);
    let (level, said) = say(&StoreHealth { is_read: false, ..health }, &served());
    assert_eq!(level, Level::Unavailable);
    assert!(said.contains("older snapshot") && said.contains("accept-restored"), "{said}");
}

#[test]
fn a_node_with_the_only_copy_of_data_is_missed_by_name() {
    let mut model = served();
    model.write(vec![(Key::Alive(node(2)).path(CLUSTER), None)]);
    let (level, said) = say(&healthy(), &model);
    assert_eq!((level, level.exit_code()), (Level::Unavailable, 5));
    assert!(
        said.contains("parts of v1 have their only copy on n2") && said.contains("start n2"),
        "{said}"
    );
}

#[test]
fn data_that_was_lost_with_a_removed_node_is_named_until_its_volume_is_removed() {
    let mut model = served();
    stop(&mut model, 2);
    model.carry_out(&Change::RemoveNode { node: node(2), gives_up: true }).unwrap();
    let (level, said) = say(&healthy(), &model);
    assert_eq!(level, Level::Unavailable);
    assert!(
        said.contains("parts of v1 were lost with n2, which was removed: `nearflash"),
        "{said}"
    );
    model.remove(volume(1, ByteLen(GIB)).uuid).unwrap();
    assert_eq!(say(&healthy(), &model).0, Level::Ok);
}

#[test]
fn a_mirror_without_a_second_replica_is_degraded_and_the_command_that_repairs_it_is_named() {
    let mut model = cluster_with(2, &VolumeSpec { replicas: 2, ..volume(1, ByteLen(4 * GIB)) });
    stop(&mut model, 2);
    drop_replicas(&mut model, 2);
    model.carry_out(&Change::RemoveNode { node: node(2), gives_up: false }).unwrap();
    let (level, said) = say(&healthy(), &model);
    assert_eq!(level, Level::Degraded);
    assert!(said.contains("2 of 2 mirrors have one copy in sync: start a further node"), "{said}");
    assert!(said.ends_with("`nearflash cluster repair`"), "{said}");
}

#[test]
fn a_node_that_is_down_leaves_mirrors_with_one_copy_and_is_named() {
    let mut model = mirrored();
    assert_eq!(say(&healthy(), &model), (Level::Ok, "ok".to_owned()));
    stop(&mut model, 2);
    // A node counts as running for longer than a takeover takes.
    let (level, said) = say(&healthy(), &model);
    assert_eq!(level, Level::Unavailable);
    let expected = "mirror 1 of v1 cannot be used: nothing is served without n2, and ";
    assert!(said.contains(expected) && said.ends_with("has not taken over: start n2"), "{said}");
    let expected = "degraded: 2 of 3 mirrors have one copy in sync: start n2".to_owned();
    drop_replicas(&mut model, 2);
    assert_eq!(say(&healthy(), &model), (Level::Degraded, expected));
    start(&mut model, 2);
    let copying = "degraded: 2 of 3 mirrors have one copy in sync: wait until the others are \
                   compared and copied; a node that has just ended is named within seconds";
    assert_eq!(say(&healthy(), &model), (Level::Degraded, copying.to_owned()));
}

#[test]
fn a_replica_that_was_in_sync_before_its_slice_was_opened_anew_is_no_copy() {
    let mut model = mirrored();
    model.carry_out(&open_slice(3, ByteLen(80 * GIB), 2)).unwrap();
    let (level, said) = say(&healthy(), &model);
    assert!(level == Level::Degraded && said.contains("2 of 3 mirrors have one copy"), "{said}");
    model.carry_out(&open_slice(1, ByteLen(80 * GIB), 2)).unwrap();
    assert_eq!(mirrors_by_copies(&model.state()), [1, 2, 0]);
    let (level, said) = say(&healthy(), &model);
    let expected = "2 of 3 mirrors have one copy in sync; without a copy: 1";
    assert!(level == Level::Degraded && said.contains(expected), "{said}");
}

#[test]
fn a_primary_that_was_opened_anew_and_waits_for_the_other_replica_serves_nothing() {
    let mut model = mirrored();
    model.carry_out(&open_slice(1, ByteLen(80 * GIB), 2)).unwrap();
    assert_eq!(say(&healthy(), &model).0, Level::Degraded);
    stop(&mut model, 2);
    stop(&mut model, 3);
    let (level, said) = say(&healthy(), &model);
    assert!(level == Level::Unavailable && said.contains("start n2, n3"), "{said}");
}

#[test]
fn the_node_with_the_newest_copy_of_a_mirror_is_named_if_it_is_down() {
    let mut model = mirrored();
    drop_replicas(&mut model, 2);
    stop(&mut model, 2);
    stop(&mut model, 3);
    // The mirror between the nodes 2 and 3 has its newest copy on 3, where 2 has only an older one.
    let (level, said) = say(&healthy(), &model);
    assert_eq!(level, Level::Unavailable);
    assert!(
        said.contains(" of v1 cannot be used: the newest copy is on n3, which is down: start n3"),
        "{said}"
    );
    start(&mut model, 3);
    assert_eq!(say(&healthy(), &model).0, Level::Degraded);
}

#[test]
fn mirrors_without_any_node_are_listed_with_their_volumes() {
    let mut model = mirrored();
    let second = VolumeSpec { replicas: 2, ..volume(2, ByteLen(4 * GIB)) };
    add(&mut model, &second);
    (1..=3).for_each(|number| stop(&mut model, number));
    let expected = "unavailable: mirrors 0, 1, 2 of v1 and parts of another volume cannot be used: \
                    the newest copies are on n1, n2, n3, which are down: start n1, n2, n3";
    assert_eq!(say(&healthy(), &model), (Level::Unavailable, expected.to_owned()));
}

#[test]
fn a_mirror_that_is_not_used_yet_is_not_missed() {
    let mut model = mirrored();
    let making = VolumeSpec { replicas: 2, ..volume(2, ByteLen(GIB)) };
    model.carry_out(&Change::CreateVolume(making.clone())).unwrap();
    let (level, said) = say(&healthy(), &model);
    assert!(level == Level::Degraded && said.contains("'v2' is being created"), "{said}");
    let key = MirrorKey { volume: making.uuid, number: 0 };
    let state = model.state();
    let mirrors = state.mirrors().unwrap();
    let view = mirrors.iter().find(|it| it.key == key).unwrap();
    let first = view.replicas.replicas[0].slice;
    let mut record = view.mirror.clone();
    record.in_sync.truncate(1);
    let holder = (1..=3).find(|number| nearflash_planner::model::slice(*number) == first).unwrap();
    drop_replicas(&mut model, holder);
    model.write(vec![(Key::Mirror(key).path(CLUSTER), Some(record.encode()))]);
    stop(&mut model, holder);
    assert_eq!(say(&healthy(), &model).0, Level::Degraded);
}

#[test]
fn a_damaged_record_and_a_volume_without_its_mirror_are_named() {
    let mut model = served();
    model.write(vec![(Key::Node(node(7)).path(CLUSTER), Some(b"?".to_vec()))]);
    let (level, said) = say(&healthy(), &model);
    assert!(level == Level::AtRisk && said.contains(&format!("node/{}", node(7))), "{said}");
    let mirror = model.records.keys().find(|key| key.contains("/mirror/")).unwrap().clone();
    model.write(vec![(mirror, None)]);
    let (level, said) = say(&healthy(), &model);
    assert!(level == Level::Unavailable && said.contains("the first is v1"), "{said}");
}
