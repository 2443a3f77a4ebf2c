//! Nodes that are removed, and the replicas that take the place of theirs.

use nearflash_device::MirrorKey;
use nearflash_planner::{Affected, lost_by_removal};
use nearflash_records::record::{InSyncRecord, ReplicasRecord};
use nearflash_records::state::MirrorView;

use super::replicas::{any_cluster, any_volume, mirrored, more_space, rewrite};
use super::*;

fn remove(number: u16) -> Change {
    Change::RemoveNode { node: node(number), gives_up: false }
}

fn give_up(number: u16) -> Change {
    Change::RemoveNode { node: node(number), gives_up: true }
}

/// A cluster whose nodes all run, with one mirrored volume.
fn running(nodes: u16) -> Model {
    let mut model = cluster_of(nodes, ByteLen(64 * GIB));
    create(&mut model, &mirrored(1, ByteLen(4 * GIB))).unwrap();
    (1..=nodes).for_each(|number| model.set_alive(number, true));
    model
}

fn on_node(model: &Model, view: &MirrorView<'_>, number: u16) -> Option<u32> {
    let state = model.state();
    let mut replicas = view.replicas.replicas.iter();
    Some(replicas.find(|it| state.node_of(&it.slice) == Some(node(number)))?.ordinal)
}

/// A node ends, and the others drop its replicas, where another one is in sync.
fn fail(model: &mut Model, number: u16) {
    model.set_alive(number, false);
    let state = model.state();
    for view in state.mirrors().unwrap() {
        let gone = on_node(model, &view, number);
        let is_left = |it: &InSyncRecord| Some(it.replica) != gone;
        if gone.is_none() || !view.mirror.in_sync.iter().any(is_left) {
            continue;
        }
        rewrite(model, view.key, |record| {
            record.in_sync.retain(is_left);
            (record.primary, record.term) = (record.in_sync[0].replica, record.term + 1);
        });
    }
}

/// All replicas whose nodes run are in sync again.
fn heal(model: &mut Model) {
    let state = model.state();
    for view in state.mirrors().unwrap() {
        let element = |it: &nearflash_records::record::ReplicaRecord| {
            let slice = state.slices().get(&it.slice)?;
            let runs = state.alive().contains_key(&slice.node);
            runs.then_some(InSyncRecord { replica: it.ordinal, incarnation: slice.incarnation })
        };
        let in_sync: Vec<InSyncRecord> =
            view.replicas.replicas.iter().filter_map(element).collect();
        rewrite(model, view.key, |record| {
            let is_missing = |it: &InSyncRecord| !in_sync.contains(it);
            if !record.in_sync.iter().any(is_missing) && record.in_sync.len() < in_sync.len() {
                (record.in_sync, record.term) = (in_sync.clone(), record.term + 1);
            }
        });
    }
}

fn memberships(model: &Model) -> Vec<(String, u64)> {
    let records = model.records.iter().filter(|(key, _)| key.contains("/mirror/"));
    records.map(|(key, (_, revision))| (key.clone(), *revision)).collect()
}

#[test]
fn the_replicas_of_a_removed_node_get_places_on_other_nodes_and_ordinals_of_their_own() {
    let mut model = running(3);
    fail(&mut model, 3);
    let (before, known) = (model.state(), memberships(&model));
    model.carry_out(&remove(3)).unwrap();
    check_store(&model);
    assert_eq!(memberships(&model), known, "only replicas in sync change a membership");
    let after = model.state();
    assert!(!after.nodes().contains_key(&node(3)) && !after.slices().contains_key(&slice(3)));
    assert_eq!(after.removed()[&node(3)].slices, [slice(3)]);
    assert!(compile(&after, node(1)).left_out.is_empty());
    let mut replaced = 0;
    for (old, new) in before.mirrors().unwrap().iter().zip(after.mirrors().unwrap()) {
        let (old, new) = (&old.replicas.replicas, &new.replicas.replicas);
        let Some(gone) = old.iter().find(|it| it.slice == slice(3)) else {
            assert_eq!(old, new);
            continue;
        };
        let stays = old.iter().find(|it| it.ordinal != gone.ordinal).unwrap();
        assert_eq!((new.len(), new[0], new[1].ordinal), (2, *stays, 2));
        replaced += 1;
    }
    assert_eq!(replaced, 2);
    assert_eq!(remove(3).plan(&after, false), Ok(Step::Done), "it can be repeated");
    assert_eq!(Change::Repair.plan(&after, false), Ok(Step::Done));
}

#[test]
fn a_node_that_runs_or_still_counts_is_not_removed() {
    let mut model = running(3);
    let name = |number: u16| format!("n{number}").parse().unwrap();
    assert_eq!(remove(3).plan(&model.state(), false), Err(Refusal::NodeUp(name(3))));
    model.set_alive(3, false);
    let refused = model.carry_out(&give_up(3)).unwrap_err();
    assert!(matches!(refused, Refusal::StillInSync { .. }), "{refused}");
    assert!(refused.to_string().contains("try again"), "{refused}");
    let unknown = Uuid::from_u128(9);
    let change = Change::RemoveNode { node: unknown, gives_up: true };
    assert_eq!(model.carry_out(&change), Err(Refusal::NoNode(unknown)));
}

#[test]
fn a_transaction_of_a_removal_fails_after_a_change_of_membership_or_a_start_of_the_node() {
    let mut model = running(3);
    fail(&mut model, 3);
    // The rooms are closed first.
    let Ok(Step::Submit(first)) = remove(3).plan(&model.state(), false) else { unreachable!() };
    assert!(model.txn(&first));
    let Ok(Step::Submit(txn)) = remove(3).plan(&model.state(), true) else { unreachable!() };
    let mirror = txn.puts.iter().find_map(|put| match put.key {
        Key::Replicas(mirror) => Some(mirror),
        _ => None,
    });
    let mirror = mirror.expect("a replica is replaced");
    assert!(!txn.puts.iter().any(|put| matches!(put.key, Key::Mirror(_))));
    let mut other = model.clone();
    rewrite(&mut other, mirror, |record| record.term += 1);
    assert!(!other.txn(&txn));
    let mut other = model.clone();
    other.set_alive(3, true);
    assert!(!other.txn(&txn));
    let mut other = model.clone();
    other.remove(mirror.volume).unwrap();
    assert!(!other.txn(&txn));
    assert!(model.txn(&txn) && !model.txn(&txn));
}

#[test]
fn the_only_copy_is_given_up_by_name_and_the_volume_stays_until_it_is_removed() {
    let mut model = running(3);
    let plain = VolumeSpec { nsid: Some(7), ..volume(2, ByteLen(6 * GIB)) };
    create(&mut model, &plain).unwrap();
    let safe = memberships(&model).len();
    fail(&mut model, 3);
    let refused = model.carry_out(&remove(3)).unwrap_err().to_string();
    assert!(
        refused.starts_with("node 'n3' has the only copy of 1 mirror of v2 (2GiB)"),
        "{refused}"
    );
    let lost: Affected = lost_by_removal(&model.state(), node(3)).unwrap();
    assert_eq!((lost.count, lost.volumes.len()), (1, 1));
    model.carry_out(&give_up(3)).unwrap();
    assert_eq!(memberships(&model).len(), safe, "no record of data is removed");
    let tables = compile(&model.state(), node(1));
    assert_eq!(tables.left_out.keys().collect::<Vec<_>>(), [&plain.uuid]);
    assert!(Change::Repair.plan(&model.state(), false) == Ok(Step::Done));
    model.remove(plain.uuid).unwrap();
    check_store(&model);
}

#[test]
fn a_suspect_that_waits_for_the_node_does_not_count_as_a_copy() {
    let mut model = running(2);
    model.set_alive(2, false);
    model.carry_out(&open_slice(1, ByteLen(64 * GIB), 2)).unwrap();
    let refused = model.carry_out(&remove(2)).unwrap_err();
    assert!(matches!(refused, Refusal::OnlyCopies { .. }), "{refused}");
}

#[test]
fn an_older_copy_is_kept_while_the_node_with_the_newest_one_is_down() {
    let mut model = running(2);
    fail(&mut model, 2);
    model.set_alive(1, false);
    let refused = model.carry_out(&remove(2)).unwrap_err().to_string();
    assert!(
        refused.contains("is on node 'n1', which is down, and node 'n2' has an older one"),
        "{refused}"
    );
    model.carry_out(&give_up(2)).unwrap();
    check_store(&model);
}

#[test]
fn without_room_a_mirror_keeps_one_replica_until_a_repair_finds_some() {
    let mut model = running(2);
    fail(&mut model, 2);
    model.carry_out(&remove(2)).unwrap();
    check_store(&model);
    let tables = compile(&model.state(), node(1));
    assert!(tables.left_out.is_empty() && tables.mirrors.iter().all(|it| it.replicas.len() == 1));
    let refused = model.carry_out(&Change::Repair).unwrap_err().to_string();
    assert!(refused.contains("no other node that is up has room for a second"), "{refused}");
    model.carry_out(&more_space(1, 9, ByteLen(64 * GIB))).unwrap();
    assert!(matches!(model.carry_out(&Change::Repair), Err(Refusal::NoPlace(_))), "one node");
    // The ordinal of the removed node stays taken, its name is free.
    let (uuid, name) = (node(7), "n2".parse().unwrap());
    let Change::RegisterNode(spec) = register(7) else { unreachable!() };
    model.carry_out(&Change::RegisterNode(NodeSpec { uuid, name, ..spec })).unwrap();
    assert_eq!(model.state().nodes()[&uuid].ordinal, 3);
    model.carry_out(&open_slice(7, ByteLen(64 * GIB), 1)).unwrap();
    assert!(matches!(model.carry_out(&Change::Repair), Err(Refusal::NoPlace(_))), "it is down");
    model.set_alive(7, true);
    model.carry_out(&Change::Repair).unwrap();
    check_store(&model);
    for view in model.state().mirrors().unwrap() {
        let gone = [0, 1].into_iter().find(|it| view.replicas.replicas[0].ordinal != *it);
        let ordinals: Vec<u32> = view.replicas.replicas.iter().map(|it| it.ordinal).collect();
        assert_eq!(ordinals[1], 2, "and not {gone:?}, which a message under way may name");
    }
}

#[test]
fn a_removed_node_is_refused_by_name_when_it_comes_back() {
    let mut model = running(3);
    let Ok(Step::Submit(late)) = register(3).plan(&cluster_of(2, ByteLen(GIB)).state(), false)
    else {
        unreachable!()
    };
    fail(&mut model, 3);
    model.carry_out(&remove(3)).unwrap();
    let refused = model.carry_out(&register(3)).unwrap_err().to_string();
    assert!(refused.starts_with("node 'n3' was removed from this cluster"), "{refused}");
    let opened = model.carry_out(&open_slice(3, ByteLen(64 * GIB), 2));
    assert_eq!(opened, Err(Refusal::NoNode(node(3))));
    assert!(!model.txn(&late), "nor does a late copy of its first registration");
}

#[test]
fn a_node_that_starts_again_before_its_removal_has_ended_takes_mirrors_as_before() {
    let mut model = running(3);
    fail(&mut model, 3);
    let Ok(Step::Submit(first)) = remove(3).plan(&model.state(), false) else { unreachable!() };
    assert!(model.txn(&first));
    assert_eq!(model.state().rooms()[&slice(3)].state, nearflash_records::record::RoomState::Gone);
    model.carry_out(&open_slice(3, ByteLen(64 * GIB), 2)).unwrap();
    assert_eq!(model.state().rooms()[&slice(3)].state, nearflash_records::record::RoomState::In);
    let again = open_slice(3, ByteLen(64 * GIB), 2);
    assert_eq!(again.plan(&model.state(), false), Ok(Step::Done));
}

#[test]
fn a_growth_that_was_not_finished_is_undone_and_a_placement_on_the_node_ends() {
    let mut model = cluster_of(3, ByteLen(64 * GIB));
    let placement = Placement::Local(node(3));
    let spec = VolumeSpec { placement, ..mirrored(1, ByteLen(4 * GIB)) };
    create(&mut model, &spec).unwrap();
    (1..=3).for_each(|number| model.set_alive(number, true));
    let blocks = Blocks(6 * GIB / 4096);
    let grow = grow(spec.uuid, blocks);
    model.carry_out(&grow).unwrap();
    assert_eq!(record(&model, &spec).rows, 2);
    fail(&mut model, 3);
    // The row that is not in use is not served, and so nobody has dropped anything from it.
    let key = MirrorKey { volume: spec.uuid, number: 1 };
    rewrite(&mut model, key, |it| it.in_sync.truncate(1));
    model.carry_out(&remove(3)).unwrap();
    check_store(&model);
    let found = record(&model, &spec);
    assert_eq!((found.rows, found.placement, found.blocks), (1, Placement::Spread, spec.blocks.0));
    model.carry_out(&grow).unwrap();
    model.finish(spec.uuid).unwrap();
    let made = VolumeSpec { nsid: Some(9), ..mirrored(2, ByteLen(GIB)) };
    model.carry_out(&Change::CreateVolume(made)).unwrap();
    model.set_alive(2, false);
    let refused = model.carry_out(&give_up(2)).unwrap_err().to_string();
    assert!(refused.contains("volume 'v2' is being created or removed"), "{refused}");
}

/// A list of replicas with these ordinals.
fn replicas_of(ordinals: &[u32], next_ordinal: u32) -> ReplicasRecord {
    let replica = |ordinal: &u32| nearflash_records::record::ReplicaRecord {
        ordinal: *ordinal,
        slice: slice(1),
        start: nearflash_records::record::DATA_START,
    };
    let replicas = ordinals.iter().map(replica).collect();
    ReplicasRecord { schema: Schema, replicas, next_ordinal, moving: None }
}

const PLACE: Option<(Uuid, nearflash_units::ByteOffset)> =
    Some((Uuid::from_u128(0x777), nearflash_records::record::DATA_START));

#[test]
fn ordinals_are_never_given_twice_and_run_out() {
    let fresh = |ordinals: &[u32], next_ordinal| {
        let record = replicas_of(ordinals, next_ordinal).replaced(|_| true, PLACE);
        let added = record.replicas[ordinals.len()..].first().map(|it| it.ordinal);
        (added, record.next_ordinal)
    };
    assert_eq!(fresh(&[0, 1], 0), (Some(2), 3));
    assert_eq!(fresh(&[0], 2), (Some(2), 3));
    assert_eq!(fresh(&[254], 255), (Some(255), 256));
    assert_eq!(fresh(&[7], u32::MAX - 1), (Some(u32::MAX - 1), u32::MAX));
    assert_eq!(fresh(&[7], u32::MAX), (None, u32::MAX));
}

#[test]
fn a_mirror_gets_a_replica_with_a_new_ordinal_after_a_thousand_replacements() {
    let mut record = replicas_of(&[0, 1], 0);
    let mut given = std::collections::BTreeSet::from([0, 1]);
    for round in 0..1000_u32 {
        let gone = record.replicas[usize::from(round % 2 == 1)].ordinal;
        // Some get a place only later.
        let now = if round % 3 == 0 { None } else { PLACE };
        record = record.replaced(|it| it.ordinal != gone, now);
        if record.replicas.len() < 2 {
            record = record.replaced(|_| true, PLACE);
        }
        assert_eq!(record.replicas.len(), 2);
        assert!(given.insert(record.replicas[1].ordinal), "{record:?} after {round}");
    }
    // A cluster whose mirrors were replaced so often removes a node as any.
    let mut model = running(3);
    for view in model.state().mirrors().unwrap() {
        let aged = ReplicasRecord { next_ordinal: 1002, ..view.replicas.clone() };
        let path = Key::Replicas(view.key).path(CLUSTER);
        model.write(vec![(path, Some(aged.encode()))]);
    }
    fail(&mut model, 3);
    model.carry_out(&remove(3)).unwrap();
    heal(&mut model);
    check_store(&model);
    let state = model.state();
    let counts = |view: &MirrorView<'_>| view.mirror.in_sync.iter().any(|it| it.replica == 1002);
    assert!(state.mirrors().unwrap().iter().any(counts));
}

#[test]
fn of_an_addition_and_a_removal_of_one_replica_only_the_first_takes_effect() {
    for is_added_first in [true, false] {
        let mut model = running(3);
        fail(&mut model, 3);
        let Ok(Step::Submit(rooms)) = remove(3).plan(&model.state(), false) else { unreachable!() };
        model.txn(&rooms);
        let state = model.state();
        let Ok(Step::Submit(plan)) = remove(3).plan(&state, true) else { unreachable!() };
        let mirror = plan
            .puts
            .iter()
            .find_map(|put| match put.key {
                Key::Replicas(mirror) => Some(mirror),
                _ => None,
            })
            .expect("a replica is replaced");
        let rows = state.mirrors().unwrap();
        let view = rows.iter().find(|it| it.key == mirror).expect("it is there");
        let back = on_node(&model, view, 3).expect("it has a place");
        let mut record = view.mirror.clone();
        record.in_sync.push(InSyncRecord { replica: back, incarnation: 1 });
        record.term += 1;
        let compare = |key: Key| nearflash_records::store::Compare {
            mod_revision: state.revision(&key),
            key,
        };
        let add = Txn {
            compares: vec![compare(Key::Mirror(mirror)), compare(Key::Replicas(mirror))],
            puts: vec![nearflash_records::store::Put {
                key: Key::Mirror(mirror),
                value: nearflash_records::record::Record::encode(&record).into(),
                lease: None,
            }],
            deletes: Vec::new(),
        };
        let (first, second) = if is_added_first { (&add, &plan) } else { (&plan, &add) };
        assert_eq!((model.txn(first), model.txn(second)), (true, false));
        assert!(compile(&model.state(), node(1)).left_out.is_empty());
    }
}

proptest! {
    /// Nodes fail, return and are removed in any order: replicas in sync stay, ordinals are not given
    /// twice, and no two replicas of a mirror are on one node.
    #[test]
    fn removals_in_any_order_keep_every_replica_in_sync(
        mut model in any_cluster(),
        volumes in prop::collection::vec(any_volume(), 1..4),
        steps in prop::collection::vec((1..6u16, 0..6u8), 1..16),
    ) {
        (1..6).for_each(|number| model.set_alive(number, true));
        for spec in volumes {
            if !model.state().volumes().contains_key(&spec.uuid) {
                // Volumes of any shape are another test's.
                let _ = create(&mut model, &spec);
            }
        }
        let mut given: BTreeSet<(MirrorKey, u32, Uuid)> = BTreeSet::new();
        for (number, kind) in steps {
            let known = memberships(&model);
            let lost: Vec<Uuid> = compile(&model.state(), node(0)).left_out.into_keys().collect();
            match kind {
                0 => fail(&mut model, number),
                1 => { heal(&mut model); }
                2 => {
                    if model.state().nodes().contains_key(&node(number)) {
                        model.set_alive(number, true);
                    }
                }
                3 => drop(model.carry_out(&Change::Repair)),
                _ => {
                    let removed = model.carry_out(&remove(number));
                    prop_assert_eq!(&memberships(&model), &known);
                    if removed.is_ok() {
                        prop_assert!(!model.state().nodes().contains_key(&node(number)));
                    }
                }
            }
            check_store(&model);
            let state = model.state();
            let tables = compile(&state, node(0));
            prop_assert_eq!(tables.left_out.into_keys().collect::<Vec<_>>(), lost);
            for view in state.mirrors().unwrap() {
                given.extend(view.replicas.replicas.iter().map(|it| (view.key, it.ordinal, it.slice)));
            }
            let distinct: BTreeSet<(MirrorKey, u32)> = given.iter().map(|it| (it.0, it.1)).collect();
            prop_assert_eq!(distinct.len(), given.len(), "an ordinal has two places");
        }
    }
}
