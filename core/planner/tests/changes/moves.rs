//! Replicas that move to other nodes, by jobs.

use std::collections::BTreeMap;

use nearflash_device::MirrorKey;
use nearflash_planner::MOVES_MAX;
use nearflash_planner::model::begin;
use nearflash_records::record::{
    InSyncRecord, JobKind, JobState, MovesRecord, ReplicaRecord, RoomState,
};
use nearflash_records::state::MirrorView;

use super::replicas::{mirrored, rewrite};
use super::*;

/// The first jobs are those of the volumes.
const JOB: u64 = 6;

fn carry_on(model: &mut Model) {
    model.carry_out(&Change::CarryOn { job: JOB, by: begin(1) }).unwrap();
    check_store(model);
    check_moves(model);
}

fn drain(number: u16) -> Change {
    Change::DrainNode { node: node(number), begin: begin(1) }
}

fn state_of(model: &Model) -> JobState {
    model.state().jobs()[&JOB].state
}

/// A cluster with two mirrored volumes over all nodes.
fn cluster(nodes: u16) -> (Model, VolumeSpec) {
    let mut model = cluster_of(nodes, ByteLen(64 * GIB));
    let spec = mirrored(1, ByteLen(8 * GIB));
    create(&mut model, &spec).unwrap();
    create(&mut model, &mirrored(9, ByteLen(8 * GIB))).unwrap();
    (model, spec)
}

/// The number of replicas on a node.
fn replicas_on(model: &Model, number: u16) -> usize {
    model.state().replicas_on(slice(number)).count()
}

/// No membership names a replica without a place, and no node moves too much at a time.
fn check_moves(model: &Model) {
    let state = model.state();
    let mut busy: BTreeMap<Uuid, usize> = BTreeMap::new();
    for view in state.mirrors().unwrap() {
        view.check_in_sync().unwrap();
        let Some(moving) = view.replicas.moving else { continue };
        let places = &view.replicas.replicas;
        assert!(state.jobs().contains_key(&moving.job) && places.len() == 3);
        let from = places.iter().find(|it| it.ordinal == moving.leaves).unwrap();
        for place in [from, &places[2]] {
            *busy.entry(state.node_of(&place.slice).unwrap()).or_default() += 1;
        }
    }
    assert!(busy.values().all(|count| *count <= MOVES_MAX), "{busy:?}");
    assert!(compile(&state, node(1)).left_out.is_empty());
}

/// The next change of a membership: the primary hands over, adds a replica, or exchanges one.
fn advance(model: &mut Model, view: &MirrorView<'_>, chosen: usize) {
    let state = model.state();
    let element = |it: &ReplicaRecord| {
        let incarnation = state.slices()[&it.slice].incarnation;
        InSyncRecord { replica: it.ordinal, incarnation }
    };
    let leaves = view.replicas.moving.map(|it| it.leaves);
    let is_in =
        |it: &&ReplicaRecord| view.mirror.in_sync.iter().any(|one| one.replica == it.ordinal);
    let (inside, out): (Vec<&ReplicaRecord>, Vec<&ReplicaRecord>) =
        view.replicas.replicas.iter().partition(is_in);
    rewrite(model, view.key, |record| {
        record.term += 1;
        let primary = record.primary;
        match (&inside[..], &out[..]) {
            ([_, _], []) => {}
            ([_, _], _) if leaves == Some(primary) => {
                record.in_sync.retain(|it| it.replica != primary);
                record.primary = record.in_sync[0].replica;
            }
            ([one, other], [new]) if leaves.is_some_and(|it| it != new.ordinal) => {
                let stays = if one.ordinal == primary { one } else { other };
                let gone = if one.ordinal == primary { other } else { one };
                if leaves == Some(gone.ordinal) {
                    record.in_sync = vec![element(stays), element(new)];
                }
            }
            ([_], [_, ..]) => record.in_sync.push(element(out[chosen % out.len()])),
            _ => {}
        }
    });
}

fn advance_all(model: &mut Model) {
    let state = model.state();
    for view in state.mirrors().unwrap() {
        advance(model, &view, 0);
    }
}

#[test]
fn a_drained_node_has_no_replica_and_gets_no_new_ones_until_it_is_opened_again() {
    let (mut model, spec) = cluster(3);
    let before = replicas_on(&model, 1);
    assert!(before > MOVES_MAX);
    model.carry_out(&drain(1)).unwrap();
    assert_eq!(drain(1).plan(&model.state(), false), Ok(Step::Done), "it can be repeated");
    let job = model.state().jobs()[&JOB].clone();
    assert_eq!(
        (job.kind, job.name.as_str(), job.worker),
        (JobKind::DrainNode, "n1", begin(1).worker)
    );
    for _ in 0..40 {
        carry_on(&mut model);
        advance_all(&mut model);
    }
    assert_eq!((replicas_on(&model, 1), state_of(&model)), (0, JobState::Done));
    let state = model.state();
    assert!(state.mirrors().unwrap().iter().all(|view| view.replicas.moving.is_none()));
    assert_eq!(state.rooms()[&slice(1)].state, RoomState::Draining);
    create(&mut model, &mirrored(2, ByteLen(4 * GIB))).unwrap();
    assert_eq!(replicas_on(&model, 1), 0);
    model.carry_out(&Change::UndrainNode { node: node(1) }).unwrap();
    assert_eq!(model.state().rooms()[&slice(1)].state, RoomState::In);
    create(&mut model, &mirrored(3, ByteLen(4 * GIB))).unwrap();
    assert!(replicas_on(&model, 1) > 0);
    model.remove(spec.uuid).unwrap();
    check_store(&model);
}

#[test]
fn a_volume_moves_to_the_node_that_is_named() {
    let (mut model, spec) = cluster(4);
    let moves = MovesRecord { from: node(1), to: Some(node(4)) };
    let change = Change::MoveVolume { volume: spec.uuid, moves, begin: begin(1) };
    // A mirror whose other replica is there already has no place.
    let on_both = |view: &MirrorView<'_>| {
        let mut slices = view.replicas.replicas.iter().map(|it| it.slice);
        slices.clone().any(|it| it == slice(1)) && slices.any(|it| it == slice(4))
    };
    let is_of_volume = |view: &&MirrorView<'_>| view.key.volume == spec.uuid;
    let state = model.state();
    let views = state.mirrors().unwrap();
    let both = views.iter().filter(is_of_volume).filter(|view| on_both(view)).count();
    model.carry_out(&change).unwrap();
    for _ in 0..100 {
        model.carry_out(&Change::CarryOn { job: JOB, by: begin(1) }).unwrap_or_else(|refused| {
            assert!(matches!(refused, Refusal::NoPlaceToMove { .. }) && both > 0, "{refused}");
        });
        advance_all(&mut model);
    }
    let state = model.state();
    let of_volume = |(key, ..): &(MirrorKey, u32, _)| key.volume == spec.uuid;
    assert_eq!(state.replicas_on(slice(1)).filter(of_volume).count(), both);
}

#[test]
fn what_cannot_move_is_refused_by_name() {
    let (mut model, spec) = cluster(3);
    let name = |text: &str| text.parse::<nearflash_space::Name>().unwrap();
    let move_to = |to: u16, from: u16| Change::MoveVolume {
        volume: spec.uuid,
        moves: MovesRecord { from: node(from), to: Some(node(to)) },
        begin: begin(1),
    };
    let refused = |model: &Model, change: &Change| change.plan(&model.state(), false).unwrap_err();
    assert_eq!(refused(&model, &move_to(1, 1)), Refusal::MoveToItself(name("n1")));
    assert_eq!(refused(&model, &move_to(1, 7)), Refusal::NoNode(node(7)));
    create(&mut model, &volume(2, ByteLen(4 * GIB))).unwrap();
    let single = refused(&model, &drain(1));
    let volumes = [name("v2")].into();
    assert_eq!(single, Refusal::OneReplica { node: name("n1"), volumes });
    model.remove(Uuid::from_u128(0x302)).unwrap();
    model.set_level(3);
    let low = Refusal::LevelTooLow { level: 3, needed: 4 };
    assert_eq!(refused(&model, &drain(1)), low);
    model.set_level(4);
    // Two nodes have no third place.
    let (mut two, _) = cluster(2);
    assert!(matches!(refused(&two, &drain(1)), Refusal::NoPlaceToMove { .. }));
    two.set_alive(2, false);
    assert!(matches!(refused(&two, &drain(2)), Refusal::NoPlaceToMove { .. }));
}

#[test]
fn a_mirror_that_lacks_a_replica_gets_it_before_the_other_one_moves() {
    let (mut model, _) = cluster(3);
    let state = model.state();
    let view = state.mirrors().unwrap()[0];
    let (stays, gone) = (view.replicas.replicas[0], view.replicas.replicas[1]);
    rewrite(&mut model, view.key, |record| {
        record.in_sync.retain(|it| it.replica == stays.ordinal);
        record.primary = stays.ordinal;
    });
    let number = (1..=3).find(|it| slice(*it) == stays.slice).unwrap();
    model.carry_out(&drain(number)).unwrap();
    let moving = |model: &Model, key: MirrorKey| {
        let state = model.state();
        state.mirrors().unwrap().iter().find(|it| it.key == key).unwrap().replicas.moving
    };
    (0..20).for_each(|_| carry_on(&mut model));
    assert_eq!(moving(&model, view.key), None, "{gone:?} is not in sync");
    for _ in 0..40 {
        advance_all(&mut model);
        carry_on(&mut model);
    }
    assert_eq!((replicas_on(&model, number), state_of(&model)), (0, JobState::Done));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 60 }))]
    #[test]
    fn a_drain_that_is_cancelled_at_any_time_leaves_two_places_of_each_mirror(
        steps in prop::collection::vec((0..6usize, 0..64usize), 1..80),
        cancel in 0..80usize,
    ) {
        let (mut model, _) = cluster(3);
        model.carry_out(&drain(1)).unwrap();
        for (number, (step, chosen)) in steps.iter().copied().enumerate() {
            if number == cancel {
                // It may have ended.
                let _ = model.carry_out(&Change::CancelJob { job: JOB });
            }
            match step {
                0 => carry_on(&mut model),
                _ => {
                    let state = model.state();
                    let views = state.mirrors().unwrap();
                    advance(&mut model, &views[chosen % views.len()], chosen / 7);
                }
            }
            check_moves(&model);
        }
        for _ in 0..40 {
            carry_on(&mut model);
            advance_all(&mut model);
        }
        let (state, ended) = (model.state(), state_of(&model));
        for view in state.mirrors().unwrap() {
            prop_assert_eq!((view.replicas.replicas.len(), view.replicas.moving), (2, None));
            prop_assert_eq!(view.mirror.in_sync.len(), 2);
        }
        let room = state.rooms()[&slice(1)].state;
        match ended {
            JobState::Done => {
                prop_assert_eq!((replicas_on(&model, 1), room), (0, RoomState::Draining));
            }
            JobState::Cancelled => prop_assert_eq!(room, RoomState::In),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
