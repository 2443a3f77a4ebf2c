//! Volumes with two replicas: where they lie, and what is refused.

use nearflash_cluster::compile::{
    MirrorLayout, Tables, face_name, face_uuid, part_name, part_uuid,
};
use nearflash_device::MirrorKey;
use nearflash_records::record::{
    InSyncRecord, MirrorRecord, ReplicaRecord, ReplicasRecord, WIDTH_MAX,
};
use nearflash_records::state::ClusterState;
use nearflash_records::store::TXN_OPERATIONS_MAX;

use super::*;

pub(super) fn mirrored(number: u16, len: ByteLen) -> VolumeSpec {
    VolumeSpec { replicas: 2, ..volume(number, len) }
}

fn tables(model: &Model) -> Tables {
    compile(&model.state(), node(1))
}

/// The nodes of the replicas of a mirror.
fn nodes(tables: &Tables, mirror: &MirrorLayout) -> Vec<Uuid> {
    mirror.replicas.iter().map(|it| tables.slices[&it.slice].node).collect()
}

/// Writes a mirror's record as its replicas would.
pub(super) fn rewrite(model: &mut Model, key: MirrorKey, change: impl Fn(&mut MirrorRecord)) {
    let path = Key::Mirror(key).path(CLUSTER);
    let mut record = MirrorRecord::decode(&model.records[&path].0).unwrap();
    change(&mut record);
    model.write(vec![(path, Some(record.encode()))]);
}

/// A further slice of a node.
pub(super) fn more_space(at: u16, number: u16, len: ByteLen) -> Change {
    let Change::OpenSlice(spec) = open_slice(at, len, 1) else { unreachable!() };
    Change::OpenSlice(SliceSpec { uuid: slice(number), ..spec })
}

#[test]
fn replicas_begin_in_sync_and_every_node_has_as_many_as_the_others() {
    let mut model = cluster_of(3, ByteLen(1024 * GIB));
    model.carry_out(&open_slice(2, ByteLen(1024 * GIB), 7)).unwrap();
    let spec = mirrored(1, ByteLen(1024 * GIB));
    create(&mut model, &spec).unwrap();
    check_store(&model);
    let tables = tables(&model);
    assert_eq!((tables.mirrors.len(), tables.volumes[0].rows.len()), (18, 6));
    assert_eq!(tables.volumes[0].replicas, 2);
    for row in tables.mirrors.chunks(3) {
        for ordinal in [0, 1] {
            let dealt: BTreeSet<Uuid> = row.iter().map(|it| nodes(&tables, it)[ordinal]).collect();
            assert_eq!(dealt.len(), 3, "one of ordinal {ordinal} is on each node");
        }
    }
    for mirror in &tables.mirrors {
        let incarnation = |slice: &Uuid| model.state().slices()[slice].incarnation;
        let in_sync = mirror
            .replicas
            .iter()
            .map(|it| InSyncRecord { replica: it.ordinal, incarnation: incarnation(&it.slice) });
        assert_eq!(mirror.record.in_sync, in_sync.collect::<Vec<_>>());
        assert_eq!((mirror.record.term, mirror.record.primary), (1, 0));
        assert!(mirror.is_zeroed && mirror.len == mirror.record.len);
    }
}

#[test]
fn two_nodes_hold_a_volume_of_one_nodes_length_and_not_more() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let before = model.revision;
    let refused = create(&mut model, &mirrored(1, ByteLen(41 * GIB))).unwrap_err().to_string();
    assert!(refused.contains("(replicas: 2)") && refused.contains("n1 "), "{refused}");
    assert_eq!(model.revision, before);
    create(&mut model, &mirrored(1, ByteLen(39 * GIB))).unwrap();
    check_store(&model);
    assert!(matches!(
        create(&mut model, &mirrored(2, ByteLen(2 * GIB))),
        Err(Refusal::Full { .. })
    ));
    model.remove(mirrored(1, ByteLen(GIB)).uuid).unwrap();
    assert!(!model.records.keys().any(|key| key.contains("/on/") || key.contains("/replicas/")));
    create(&mut model, &mirrored(2, ByteLen(39 * GIB))).unwrap();
    check_store(&model);
}

#[test]
fn a_local_volume_has_its_first_replicas_on_its_node_and_the_second_ones_elsewhere() {
    let mut model = cluster_of(3, ByteLen(64 * GIB));
    model.carry_out(&more_space(2, 9, ByteLen(64 * GIB))).unwrap();
    let spec = VolumeSpec { placement: Placement::Local(node(2)), ..mirrored(1, ByteLen(8 * GIB)) };
    create(&mut model, &spec).unwrap();
    check_store(&model);
    let tables = tables(&model);
    let found: Vec<Vec<Uuid>> = tables.mirrors.iter().map(|it| nodes(&tables, it)).collect();
    assert_eq!(found.len(), 2, "a mirror for each slice of the node");
    assert!(found.iter().all(|it| it[0] == node(2)), "{found:?}");
    assert_ne!(found[0][1], found[1][1]);
    let (width, placement) = (Some(3), spec.placement);
    let wide = VolumeSpec { width, placement, ..mirrored(2, ByteLen(GIB)) };
    assert_eq!(create(&mut model, &wide), Err(Refusal::Width { wanted: 3, slices: 2 }));
}

#[test]
fn a_row_is_as_long_as_the_slice_that_takes_two_of_its_replicas_has_room_for() {
    let mut model = cluster_of(1, ByteLen(31 * GIB));
    model.carry_out(&more_space(1, 9, ByteLen(10 * GIB))).unwrap();
    model.carry_out(&register(2)).unwrap();
    model.set_alive(2, true);
    for number in [2, 3] {
        model.carry_out(&more_space(2, number, ByteLen(80 * GIB))).unwrap();
    }
    let spec = VolumeSpec { width: Some(2), ..mirrored(1, ByteLen(36 * GIB)) };
    create(&mut model, &spec).unwrap();
    check_store(&model);
    let lens: Vec<u64> = tables(&model).mirrors.iter().map(|it| it.len.0).collect();
    let tracts = |gib: u64| gib * GIB / TRACT_LEN.0;
    let row = tracts(31) - 2;
    assert_eq!(lens[..2], [row / 2 * TRACT_LEN.0; 2], "half of the slice's data area");
    assert_eq!(lens.len(), 4, "a second row has the rest, on the other slice");
}

#[test]
fn two_creations_that_share_only_a_slice_of_second_replicas_exclude_each_other() {
    let mut model = cluster_of(3, ByteLen(10 * GIB));
    model.carry_out(&open_slice(2, ByteLen(20 * GIB), 1)).unwrap();
    let plan = |number: u16, home: u16| {
        let (placement, nsid) = (Placement::Local(node(home)), Some(number.into()));
        let spec = VolumeSpec { placement, nsid, ..mirrored(number, ByteLen(GIB)) };
        let Ok(Step::Submit(txn)) = Change::CreateVolume(spec).plan(&model.state(), false) else {
            unreachable!()
        };
        assert!(txn.puts.iter().any(|it| it.key == Key::Room(slice(2))), "n2 has the most space");
        txn
    };
    let (first, second) = (plan(1, 1), plan(2, 3));
    assert!(model.txn(&first));
    assert!(!model.txn(&second));
}

#[test]
fn replicas_without_nodes_for_them_are_refused_with_the_remedy() {
    let mut model = cluster_of(1, ByteLen(64 * GIB));
    model.carry_out(&register(2)).unwrap();
    let spec = mirrored(1, ByteLen(GIB));
    let refusal = |model: &mut Model, spec: VolumeSpec| create(model, &spec).unwrap_err();
    let said = refusal(&mut model, spec.clone()).to_string();
    assert!(said.starts_with("2 replicas need slices on 2 nodes, and only 'n1' has one"), "{said}");
    let local = VolumeSpec { placement: Placement::Local(node(1)), ..spec.clone() };
    assert!(matches!(refusal(&mut model, local), Refusal::FewNodes { .. }));
    let elsewhere = VolumeSpec { placement: Placement::Local(node(2)), ..spec.clone() };
    let no_slice = Refusal::NoSliceOn("n2".parse().unwrap());
    assert_eq!(refusal(&mut model, elsewhere), no_slice);
    let central = VolumeSpec { placement: Placement::Central(node(1)), ..spec.clone() };
    let said = refusal(&mut model, central).to_string();
    assert!(said.contains("1 replica, or placement local:n1"), "{said}");
    let three = refusal(&mut model, VolumeSpec { replicas: 3, ..spec.clone() });
    assert_eq!(three.to_string(), "3 replicas are not supported yet: use 1 or 2");
    assert_eq!(refusal(&mut model, VolumeSpec { replicas: 0, ..spec }), Refusal::Replicas(0));
}

#[test]
fn the_widest_row_is_one_transaction_of_an_etcd_that_nobody_has_configured() {
    let mut model = cluster_of(32, ByteLen(64 * GIB));
    let spec = VolumeSpec { width: Some(WIDTH_MAX), ..mirrored(1, ByteLen(64 * GIB)) };
    let fits_within = |change: &Change, state: &ClusterState, least: usize| {
        let Ok(Step::Submit(txn)) = change.plan(state, false) else { unreachable!() };
        assert!(txn.compares.len() <= TXN_OPERATIONS_MAX, "{} compares", txn.compares.len());
        let changed = txn.puts.len() + txn.deletes.len();
        assert!((least..=TXN_OPERATIONS_MAX).contains(&changed), "{changed} keys");
        txn
    };
    let fits = |change: &Change, state: &ClusterState| fits_within(change, state, 96);
    let zeroed =
        |model: &Model| Change::NoteZeroed { places: model.state().places_to_zero().collect() };
    let creation = fits(&Change::CreateVolume(spec.clone()), &model.state());
    assert!(model.txn(&creation));
    let used: BTreeSet<Uuid> = tables(&model).slices.keys().copied().collect();
    assert_eq!(used.len(), 32, "nodes without a first replica take the second ones");
    let noted = fits_within(&zeroed(&model), &model.state(), 32);
    assert!(model.txn(&noted));
    let counted = fits_within(&model.carry_on(spec.uuid), &model.state(), 34);
    assert!(counted.deletes.len() == 32 && model.txn(&counted));
    model.carry_out(&remove(spec.uuid)).unwrap();
    fits(&model.carry_on(spec.uuid), &model.state());
}

#[test]
fn a_creation_that_was_decided_before_a_slice_was_opened_anew_has_no_effect() {
    for number in [1, 2] {
        let mut model = cluster_of(2, ByteLen(40 * GIB));
        let change = Change::CreateVolume(mirrored(1, ByteLen(GIB)));
        let Ok(Step::Submit(txn)) = change.plan(&model.state(), false) else { unreachable!() };
        model.carry_out(&open_slice(number, ByteLen(40 * GIB), 2)).unwrap();
        assert!(!model.txn(&txn), "its replica on slice {number} would not be in sync");
    }
}

#[test]
fn a_late_copy_of_a_creation_does_not_bring_a_removed_mirrored_volume_back() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    let change = Change::CreateVolume(spec.clone());
    let Ok(Step::Submit(txn)) = change.plan(&model.state(), false) else { unreachable!() };
    model.carry_out(&change).unwrap();
    model.remove(spec.uuid).unwrap();
    assert!(!model.txn(&txn));
}

#[test]
fn a_removal_waits_for_no_membership_and_overwrites_none() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    model.carry_out(&remove(spec.uuid)).unwrap();
    let next = model.carry_on(spec.uuid);
    let Ok(Step::Submit(row)) = next.plan(&model.state(), false) else { unreachable!() };
    rewrite(&mut model, MirrorKey { volume: spec.uuid, number: 0 }, |it| it.term = 2);
    assert!(!model.txn(&row), "it was decided on the earlier membership");
    model.finish(spec.uuid).unwrap();
    check_store(&model);
}

#[test]
fn a_failover_changes_the_membership_and_no_place() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(4 * GIB));
    create(&mut model, &spec).unwrap();
    let before = tables(&model);
    let key = before.mirrors[0].key;
    rewrite(&mut model, key, |it| {
        it.in_sync.remove(0);
        (it.term, it.primary) = (2, 1);
    });
    let after = tables(&model);
    assert_eq!((&after.volumes, &after.slices), (&before.volumes, &before.slices));
    assert_eq!((after.mirrors[0].record.primary, after.mirrors[0].record.term), (1, 2));
    assert_eq!(after.mirrors[0].revision, model.revision);
    assert_eq!(after.mirrors[1..], before.mirrors[1..]);
    let (place, first) = (after.volumes[0].rows[0].mirrors[0], after.mirrors[0].replicas[0]);
    assert_eq!((place.slice, place.start, first.ordinal), (first.slice, first.start, 0));
}

#[test]
fn each_node_zeroes_the_replicas_on_its_slices() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(4 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    for number in [1, 2] {
        let tables = compile(&model.state(), node(number));
        assert!(tables.volumes.is_empty() && tables.mirrors.iter().all(|it| !it.is_zeroed));
        assert_eq!((tables.to_zero.len(), tables.parts.len()), (2, 0), "one of each mirror");
        for (it, mirror) in tables.to_zero.iter().zip(&tables.mirrors) {
            assert_eq!((it.place.slice, it.place.mirror), (slice(number), mirror.key));
            assert_eq!(it.len, mirror.len);
        }
    }
    model.finish(spec.uuid).unwrap();
    let grow = grow(spec.uuid, Blocks(6 * GIB / 4096));
    model.carry_out(&grow).unwrap();
    let tables = tables(&model);
    assert_eq!((tables.volumes[0].rows.len(), tables.mirrors.len()), (1, 4));
    assert!(tables.to_zero.len() == 2 && tables.parts.is_empty());
    assert!(tables.to_zero.iter().all(|it| it.place.mirror.number >= 2));
}

#[test]
fn below_level_2_older_programs_zero_the_replicas_through_their_nodes() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(4 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    model.set_level(1);
    let tables = compile(&model.state(), node(1));
    assert!(!tables.parts.is_empty());
    for (part, mirror) in tables.parts.iter().zip(&tables.mirrors) {
        assert_eq!((part.place.slice, part.len), (slice(1), mirror.len));
        assert_eq!(part.name(), part_name(mirror.key, false));
    }
}

#[test]
fn a_damaged_membership_is_never_compared_with_what_was_known_before() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    create(&mut model, &mirrored(1, ByteLen(GIB))).unwrap();
    let mut state = model.state();
    let before = compile(&state, node(1));
    let key = Key::Mirror(before.mirrors[0].key).path(CLUSTER);
    model.write(vec![(key, Some(b"{}".to_vec()))]);
    state.apply(&model.history.last().unwrap().1[0]);
    assert_eq!(compile(&state, node(1)), before, "the record and its revision belong together");
}

#[test]
fn records_that_contradict_two_replicas_are_named() {
    let replicas = |ordinals: &[(u32, u16)]| {
        let replica = |(ordinal, at): &(u32, u16)| ReplicaRecord {
            ordinal: *ordinal,
            slice: slice(*at),
            start: nearflash_records::record::DATA_START,
        };
        let replicas = ordinals.iter().map(replica).collect();
        ReplicasRecord { schema: Schema, replicas, next_ordinal: 0, moving: None }.encode()
    };
    let element = |replica| InSyncRecord { replica, incarnation: 1 };
    let in_sync = |of: &[u32]| {
        let in_sync = of.iter().copied().map(element).collect();
        let (kept_since, token) = (0, 0);
        let (schema, len, term, primary) = (Schema, TRACT_LEN, 1, 0);
        MirrorRecord { schema, len, term, primary, in_sync, kept_since, token }.encode()
    };
    let key = MirrorKey { volume: volume(1, TRACT_LEN).uuid, number: 0 };
    let mirror = key;
    let faults = [
        (Key::Replicas(key), replicas(&[(0, 1)]), "not among its replicas"),
        (Key::Replicas(key), replicas(&[(0, 1), (1, 2), (2, 1)]), "more replicas than"),
        (Key::Replicas(key), replicas(&[(0, 1), (1, 1)]), "two replicas on one node"),
        (Key::Replicas(key), replicas(&[(0, 1), (0, 2)]), "two replicas of one ordinal"),
        (Key::Mirror(key), in_sync(&[0, 5]), "not among its replicas"),
        (Key::Mirror(key), in_sync(&[0, 1, 1]), "in_sync twice"),
    ];
    for (key, value, fault) in faults {
        let mut model = cluster_of(2, ByteLen(40 * GIB));
        create(&mut model, &mirrored(1, TRACT_LEN)).unwrap();
        model.write(vec![(key.path(CLUSTER), Some(value))]);
        let tables = tables(&model);
        let (_, said) = tables.left_out.values().next().expect(fault);
        let said = said.to_string();
        assert!(said.contains(fault) && said.contains(&mirror.to_string()), "{said}");
        assert!(tables.mirrors.is_empty() && tables.volumes.is_empty());
    }
}

/// A cluster of up to five nodes with up to three slices each.
pub(super) fn any_cluster() -> impl Strategy<Value = Model> {
    let slices = prop::collection::vec(1..80u64, 0..4);
    prop::collection::vec(slices, 2..6).prop_map(|nodes| {
        let mut model = cluster_of(0, ByteLen(0));
        let mut number = 0;
        for (at, slices) in (1..).zip(nodes) {
            model.carry_out(&register(at)).unwrap();
            for gib in slices {
                number += 1;
                model.carry_out(&more_space(at, number, ByteLen(gib * GIB))).unwrap();
            }
        }
        model
    })
}

pub(super) fn any_volume() -> impl Strategy<Value = VolumeSpec> {
    let width = prop::option::of(1..6u32);
    (1..9u16, 1..100u64, 1..3u8, width, 0..6u16).prop_map(|(number, gib, replicas, width, at)| {
        let placement = if at == 0 { Placement::Spread } else { Placement::Local(node(at)) };
        VolumeSpec { replicas, width, placement, ..volume(number, ByteLen(gib * GIB)) }
    })
}

proptest! {
    /// Whatever the slices are like, replicas are on different nodes and share no space, and rows
    /// are no longer than the slices have room for.
    #[test]
    fn volumes_of_any_shape_are_placed_whole_or_refused(
        mut model in any_cluster(),
        steps in prop::collection::vec((any_volume(), 0..3u8), 1..12),
    ) {
        for (spec, kind) in steps {
            let made = model.state().volumes().contains_key(&spec.uuid);
            let before = model.revision;
            let ended = match kind {
                0 => model.remove(spec.uuid),
                1 if made => {
                    let grow = grow(spec.uuid, spec.blocks);
                    model.carry_out(&grow).and_then(|()| model.finish(spec.uuid))
                }
                _ if made => Ok(()),
                _ => create(&mut model, &spec),
            };
            if ended.is_err() {
                prop_assert_eq!(model.revision, before, "a refusal changes nothing");
            }
            check_store(&model);
            let tables = tables(&model);
            prop_assert!(tables.left_out.is_empty(), "{:?}", tables.left_out);
            for mirror in &tables.mirrors {
                let found = nodes(&tables, mirror);
                prop_assert_ne!(found[0], found[1]);
                let placement = model.state().volumes()[&mirror.key.volume].placement;
                if let Placement::Local(home) = placement {
                    prop_assert_eq!(found[0], home);
                }
            }
        }
    }

    /// Nodes with equal slices get equally many replicas of a row, to one.
    #[test]
    fn rows_are_dealt_evenly_to_equal_nodes(count in 2..9u16, width in 1..9u32) {
        let mut model = cluster_of(count, ByteLen(64 * GIB));
        let width = width.min(count.into());
        let spec = VolumeSpec { width: Some(width), ..mirrored(1, ByteLen(u64::from(width) * GIB)) };
        create(&mut model, &spec).unwrap();
        let tables = tables(&model);
        for ordinal in [0, 1] {
            let found: Vec<Uuid> =
                tables.mirrors.iter().map(|it| nodes(&tables, it)[ordinal]).collect();
            let distinct: BTreeSet<&Uuid> = found.iter().collect();
            prop_assert_eq!(distinct.len(), found.len(), "ordinal {}: {:?}", ordinal, found);
        }
    }

    #[test]
    fn faces_and_parts_have_names_and_identities_of_their_own(
        volume in any::<u128>(), one in any::<u32>(), other in any::<u32>()
    ) {
        let volume = Uuid::from_u128(volume);
        let key = |number| MirrorKey { volume, number };
        for number in [one, other, one.wrapping_add(1)] {
            for is_replica in [false, true] {
                let face = face_uuid(key(one), is_replica);
                let is_zeroed = [false, true].map(|it| part_uuid(key(number), it));
                prop_assert!(face != volume && !is_zeroed.contains(&face));
                let same = (one, is_replica) == (number, true);
                prop_assert_eq!(face == face_uuid(key(number), true), same);
                prop_assert_ne!(face_name(key(one), is_replica), part_name(key(number), false));
            }
        }
        prop_assert_eq!(face_name(key(one), false), part_name(key(one), true));
        let copy = format!("{volume}.{one}.copy");
        prop_assert_eq!(face_name(key(one), true).to_string(), copy);
    }
}
