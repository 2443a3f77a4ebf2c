//! Each fault has its level, its reason and its remedy.

use std::collections::BTreeMap;

use nearflash_units::ByteLen;

use super::*;
use crate::change::Change;
use crate::key::Key;
use crate::model::{CLUSTER, GIB, Model, cluster_of, node, volume};
use crate::record::{AliveRecord, Record, Schema};
use crate::store::StoreStatus;

fn healthy() -> StoreHealth {
    StoreHealth {
        is_read: true,
        silent_since: None,
        failures: BTreeMap::new(),
        status: Some(StoreStatus { voters: 3, healthy: 3, ..StoreStatus::default() }),
        is_outcome_unknown: false,
        other_run: None,
        is_rolled_back: false,
    }
}

fn served() -> Model {
    let mut model = cluster_of(2, ByteLen(80 * GIB));
    let spec = volume(1, ByteLen(4 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    model.show(spec.uuid, spec.blocks.0).unwrap();
    for number in [1, 2] {
        let record = AliveRecord { schema: Schema, run: 1 };
        model.write(vec![(Key::Alive(node(number)).path(CLUSTER), Some(record.encode()))]);
    }
    model
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
    assert_eq!(with(3, 3, &["NOSPACE"]).0, Level::AtRisk);
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
    let health = StoreHealth { is_rolled_back: true, ..healthy() };
    assert_eq!(say(&health, &served()).0, Level::AtRisk);
}

#[test]
fn a_node_with_the_only_copy_of_data_is_missed_by_name() {
    let mut model = served();
    model.write(vec![(Key::Alive(node(2)).path(CLUSTER), None)]);
    let (level, said) = say(&healthy(), &model);
    assert_eq!((level, level.exit_code()), (Level::Unavailable, 3));
    assert!(
        said.contains("parts of v1 have their only copy on n2") && said.contains("start n2"),
        "{said}"
    );
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
