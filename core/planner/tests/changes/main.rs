//! Changes on a model store: alone, at the same time, and with transactions that arrive late.
#![allow(clippy::unwrap_used)] // a failed test says where

mod access;
mod away;
mod jobs;
mod moves;
mod replace;
mod replicas;
mod users;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use nearflash_cluster::compile;
use nearflash_planner::model::{
    CLUSTER, GIB, Model, check_store, cluster_of, create_cluster, grow, node, open_slice, register,
    remove, slice, volume,
};
use nearflash_planner::{Change, NodeSpec, Refusal, SliceSpec, Step, VolumeSpec};
use nearflash_records::Key;
use nearflash_records::record::{
    Door, Placement, Record as _, RecordError, RemovedRecord, Schema, TRACT_LEN, VolumeRecord,
};
use nearflash_records::store::Txn;
use nearflash_units::{Blocks, ByteLen, KIB};
use proptest::prelude::*;
use uuid::Uuid;

fn create(model: &mut Model, spec: &VolumeSpec) -> Result<(), Refusal> {
    model.carry_out(&Change::CreateVolume(spec.clone()))?;
    model.finish(spec.uuid)
}

fn record(model: &Model, spec: &VolumeSpec) -> VolumeRecord {
    model.state().volumes()[&spec.uuid].clone()
}

#[test]
fn a_tebibyte_over_three_nodes_is_six_rows_of_three_mirrors() {
    let mut model = cluster_of(3, ByteLen(512 * GIB));
    let spec = volume(1, ByteLen(1024 * GIB));
    create(&mut model, &spec).unwrap();
    check_store(&model);
    let tables = compile(&model.state(), node(1));
    let layout = &tables.volumes[0];
    assert_eq!((layout.rows.len(), layout.rows[0].mirrors.len()), (6, 3));
    let nodes: BTreeSet<Uuid> = layout.rows[0].mirrors.iter().map(|it| it.slice).collect();
    assert_eq!(nodes.len(), 3, "each mirror of a row is on another node");
    let held: u64 = layout.rows.iter().map(|row| row.len.0 * 3).sum();
    assert!((1024 * GIB..1024 * GIB + 3 * TRACT_LEN.0).contains(&held));
    assert!(tables.slices[&slice(1)].is_local && !tables.slices[&slice(2)].is_local);
}

#[test]
fn a_central_volume_is_on_its_node_alone() {
    let mut model = cluster_of(3, ByteLen(64 * GIB));
    let placement = Placement::Central(node(2));
    create(&mut model, &VolumeSpec { placement, ..volume(1, ByteLen(8 * GIB)) }).unwrap();
    let tables = compile(&model.state(), node(2));
    assert_eq!(tables.slices.keys().collect::<Vec<_>>(), [&slice(2)]);
}

#[test]
fn a_volume_grows_by_rows_and_its_epoch_grows_with_it() {
    let mut model = cluster_of(2, ByteLen(64 * GIB));
    let spec = volume(1, ByteLen(4 * GIB));
    create(&mut model, &spec).unwrap();
    let blocks = Blocks(10 * GIB / 4096);
    let grow = grow(spec.uuid, blocks);
    model.carry_out(&grow).unwrap();
    let found = record(&model, &spec);
    assert_eq!((found.blocks, found.rows, found.zeroed_rows), (spec.blocks.0, 2, 1));
    assert_eq!(compile(&model.state(), node(1)).volumes[0].rows.len(), 1);
    model.finish(spec.uuid).unwrap();
    let found = record(&model, &spec);
    assert_eq!((found.blocks, found.rows, found.epoch), (blocks.0, 2, 2));
    assert_eq!(grow.plan(&model.state(), true), Ok(Step::Done));
    check_store(&model);
}

#[test]
fn the_space_of_a_removed_volume_is_free_again() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = volume(1, ByteLen(70 * GIB));
    for _ in 0..3 {
        create(&mut model, &spec).unwrap();
        model.remove(spec.uuid).unwrap();
        check_store(&model);
    }
    assert!(!model.records.keys().any(|key| key.contains("/mirror/") || key.contains("/nsid/")));
}

#[test]
fn a_volume_that_does_not_fit_is_refused_before_anything_is_written() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let before = model.revision;
    let refused = create(&mut model, &volume(1, ByteLen(90 * GIB))).unwrap_err();
    assert!(refused.to_string().contains("free per node: n1 "), "{refused}");
    assert_eq!(model.revision, before);
}

#[test]
fn what_is_not_possible_is_refused_with_its_remedy() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = volume(1, ByteLen(GIB));
    let mut refused = |spec: VolumeSpec| create(&mut model, &spec).unwrap_err();
    assert_eq!(refused(VolumeSpec { replicas: 3, ..spec.clone() }), Refusal::Replicas(3));
    let unit = ByteLen(3 * KIB);
    assert_eq!(
        refused(VolumeSpec { stripe_unit: unit, ..spec.clone() }),
        Refusal::StripeUnit(unit)
    );
    let width = Refusal::Width { wanted: 3, slices: 2 };
    assert_eq!(refused(VolumeSpec { width: Some(3), ..spec.clone() }), width);
    let blocks = Blocks(u64::MAX);
    assert_eq!(refused(VolumeSpec { blocks, ..spec.clone() }), Refusal::Length(u64::MAX));
    let placement = Placement::Local(Uuid::nil());
    assert_eq!(refused(VolumeSpec { placement, ..spec.clone() }), Refusal::NoNode(Uuid::nil()));
    create(&mut model, &spec).unwrap();
    let again = VolumeSpec { uuid: Uuid::nil(), ..spec.clone() };
    let taken = Refusal::VolumeNameTaken(spec.name.clone());
    assert_eq!(create(&mut model, &again).unwrap_err(), taken);
    let again = VolumeSpec { name: "other".parse().unwrap(), nsid: Some(1), ..again };
    let taken = Refusal::NsidTaken { subsystem: spec.subsystem, nsid: 1 };
    assert_eq!(create(&mut model, &again).unwrap_err(), taken);
}

#[test]
fn two_nodes_cannot_have_one_name() {
    let mut model = cluster_of(1, ByteLen(GIB));
    let Change::RegisterNode(spec) = register(1) else { unreachable!() };
    let taken = Refusal::NodeNameTaken(spec.name.clone());
    let second = Change::RegisterNode(NodeSpec { uuid: node(2), ..spec });
    assert_eq!(model.carry_out(&second), Err(taken));
}

#[test]
fn a_slice_that_was_rolled_back_or_copied_is_refused() {
    let mut model = cluster_of(2, ByteLen(GIB));
    model.carry_out(&open_slice(1, ByteLen(GIB), 5)).unwrap();
    let rolled_back = Refusal::SliceRolledBack { slice: slice(1), recorded: 5, found: 4 };
    assert_eq!(model.carry_out(&open_slice(1, ByteLen(GIB), 4)), Err(rolled_back));
    let Change::OpenSlice(spec) = open_slice(1, ByteLen(GIB), 6) else { unreachable!() };
    let copied = Change::OpenSlice(SliceSpec { node: node(2), ..spec });
    let elsewhere = Refusal::SliceElsewhere { slice: slice(1), node: node(1) };
    assert_eq!(model.carry_out(&copied), Err(elsewhere));
}

#[test]
fn a_cluster_of_a_later_feature_level_is_refused() {
    let mut model = cluster_of(1, ByteLen(GIB));
    let Change::CreateCluster(mut cluster) = create_cluster() else { unreachable!() };
    cluster.feature_level = 9;
    model.write(vec![(Key::Cluster.path(CLUSTER), Some(cluster.encode()))]);
    assert_eq!(model.carry_out(&register(2)), Err(Refusal::FeatureLevel(9)));
}

#[test]
fn a_damaged_record_stops_changes_on_top_of_it_and_nothing_else() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = volume(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    let mut state = model.state();
    let before = compile(&state, node(1));
    let key = Key::Volume(spec.uuid).path(CLUSTER);
    model.write(vec![(key, Some(b"{}".to_vec()))]);
    state.apply(&model.history.last().unwrap().1[0]);
    assert_eq!(compile(&state, node(1)), before, "what is in use goes on");
    let remove = remove(spec.uuid);
    let refused = remove.plan(&state, false).unwrap_err().to_string();
    assert!(refused.contains(&format!("volume/{}", spec.uuid)), "{refused}");
    assert!(register(3).plan(&state, false).is_ok(), "other changes go on");
}

fn register_at(addresses: u16, machine: &str) -> Result<Step, Refusal> {
    let Change::RegisterNode(mut spec) = register(3) else { unreachable!() };
    let address = |port| SocketAddr::new([192, 0, 2, 3].into(), port);
    spec.addresses.insert(Door::Iscsi, (1..=addresses).map(address).collect());
    spec.machine = machine.into();
    Change::RegisterNode(spec).plan(&cluster_of(2, ByteLen(40 * GIB)).state(), false)
}

#[test]
fn a_record_that_no_node_could_read_again_is_not_written() {
    assert!(matches!(register_at(8, "m3"), Ok(Step::Submit(_))));
    let refused = register_at(9, "m3").unwrap_err();
    assert_eq!(refused, Refusal::Addresses { door: Door::Iscsi, count: 9 });
    assert!(refused.to_string().contains("9 addresses for --iscsi"), "{refused}");
    let refused = register_at(8, &"m".repeat(257)).unwrap_err();
    assert!(matches!(refused, Refusal::Unreadable { .. }), "{refused}");
    // Each rule of the reader.
    let long = RemovedRecord {
        schema: Schema,
        name: "n3".parse().unwrap(),
        machine: String::new(),
        slices: vec![node(3); 2000],
    };
    assert!(RemovedRecord::decode(&long.encode()).is_err());
    assert!(matches!(long.encode_readable(), Err(RecordError::TooLong(_))));
}

#[test]
fn a_late_copy_of_a_creation_does_not_bring_a_removed_volume_back() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let change = Change::CreateVolume(volume(1, ByteLen(GIB)));
    let Ok(Step::Submit(txn)) = change.plan(&model.state(), false) else { unreachable!() };
    model.carry_out(&change).unwrap();
    model.remove(volume(1, ByteLen(GIB)).uuid).unwrap();
    assert!(!model.txn(&txn));
}

fn any_change() -> impl Strategy<Value = Change> {
    (0..7u8, 1..4u16, 1..6u16, 1..60u64).prop_map(|(kind, at, number, gib)| {
        let replicas = if number % 2 == 0 { 2 } else { 1 };
        let spec = VolumeSpec { replicas, ..volume(number, ByteLen(gib * GIB)) };
        match kind {
            0 => register(at),
            1 => open_slice(at, ByteLen(50 * GIB), gib),
            2 | 3 => Change::CreateVolume(spec),
            6 => {
                let (volume, node) = (spec.uuid, node(at));
                Change::TellUsers { volume, node, number: gib, users: String::new() }
            }
            4 => grow(spec.uuid, spec.blocks),
            _ => remove(spec.uuid),
        }
    })
}

proptest! {
    /// Planners that look at the store at arbitrary times, whose transactions arrive at arbitrary
    /// times and several times, never break the store.
    #[test]
    fn changes_at_the_same_time_keep_the_store_whole(
        script in prop::collection::vec((any_change(), 0..4usize, 0..3usize), 1..40)
    ) {
        let mut model = cluster_of(2, ByteLen(50 * GIB));
        let mut seen = vec![model.state(); 4];
        let mut late: Vec<Txn> = Vec::new();
        for (change, planner, delay) in script {
            if let Ok(Step::Submit(txn)) = change.plan(&seen[planner], false) {
                late.push(txn);
            }
            seen[planner] = model.state();
            for _ in delay..2 {
                let index = (planner * 7 + delay) % late.len().max(1);
                if let Some(txn) = late.get(index).cloned() {
                    let took_effect = model.txn(&txn);
                    prop_assert!(!took_effect || !model.txn(&txn), "a copy takes effect, too");
                }
            }
            check_store(&model);
        }
    }
}
