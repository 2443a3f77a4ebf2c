//! Jobs: who carries them on, and what is left when they are cancelled or overtaken.

use nearflash_planner::model::{begin, grow};
use nearflash_planner::{Begin, CLUSTER_JOBS_MAX, ENDED_CLUSTER_JOBS_MAX};
use nearflash_records::record::{FEATURE_LEVEL, JobKind, JobRecord, JobState, VolumeState, Worker};

use super::*;

fn mirrored(number: u16, len: ByteLen) -> VolumeSpec {
    VolumeSpec { replicas: 2, ..volume(number, len) }
}

fn job(model: &Model, number: u64) -> JobRecord {
    model.state().jobs()[&number].clone()
}

/// The transactions that bring this change about, one after the other.
fn txns(model: &mut Model, change: impl Fn(&Model) -> Option<Change>) -> usize {
    let mut count = 0;
    while let Some(change) = change(model) {
        let Ok(Step::Submit(txn)) = change.plan(&model.state(), true) else { break };
        assert!(model.txn(&txn) && !model.txn(&txn), "a copy takes effect, too");
        count += 1;
    }
    count
}

/// The next change of the volume's job, or of a node that has zeroed a place.
fn next(model: &Model, volume: Uuid) -> Option<Change> {
    let state = model.state();
    state.volumes().get(&volume)?.job?;
    let place = state.places_to_zero().next();
    Some(place.map_or_else(|| model.carry_on(volume), |it| Change::NoteZeroed { places: vec![it] }))
}

#[test]
fn a_volume_is_ready_when_every_place_is_noted_as_zeroed() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(4 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    let begun = job(&model, 2);
    assert_eq!(
        (begun.kind, begun.state, begun.volume),
        (JobKind::CreateVolume, JobState::Running, spec.uuid)
    );
    assert_eq!((begun.worker, begun.total_bytes), (begin(1).worker, 8 * GIB));
    let mut places: Vec<_> = model.state().places_to_zero().collect();
    let last = places.pop().unwrap();
    model.carry_out(&Change::NoteZeroed { places }).unwrap();
    model.carry_out(&model.carry_on(spec.uuid)).unwrap();
    assert_eq!(record(&model, &spec).state, VolumeState::Making, "a place is missing");
    model.carry_out(&Change::NoteZeroed { places: vec![last] }).unwrap();
    model.carry_out(&model.carry_on(spec.uuid)).unwrap();
    let (made, ended) = (record(&model, &spec), job(&model, 2));
    assert_eq!((made.state, made.job, made.zeroed_rows), (VolumeState::Ready, None, made.rows));
    assert_eq!((ended.state, ended.ended), (JobState::Done, Some(2)));
    assert_eq!(model.state().zeroed().count(), 0);
    check_store(&model);
}

#[test]
fn only_the_worker_of_a_job_carries_it_on_and_another_one_takes_it_over_once() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(4 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    let Ok(Step::Submit(late)) = model.carry_on(spec.uuid).plan(
        &{
            model.zero_all().unwrap();
            model.state()
        },
        false,
    ) else {
        unreachable!()
    };
    let other = Change::CarryOn { job: 2, by: begin(2) };
    assert_eq!(other.plan(&model.state(), false), Ok(Step::Done));
    let take = |to: u16| Change::TakeJob { job: 2, from: begin(1).worker, to: begin(to).worker };
    model.carry_out(&take(2)).unwrap();
    assert_eq!(take(3).plan(&model.state(), false), Ok(Step::Done), "it has another worker");
    assert!(!model.txn(&late), "the first worker has lost the job");
    model.carry_out(&other).unwrap();
    assert_eq!(record(&model, &spec).state, VolumeState::Ready);
}

#[test]
fn a_creation_that_is_cancelled_after_any_step_leaves_nothing() {
    let spec = mirrored(1, ByteLen(100 * GIB));
    let fresh = || {
        let mut model = cluster_of(2, ByteLen(200 * GIB));
        model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
        model
    };
    let steps = txns(&mut fresh(), |model| next(model, spec.uuid));
    assert!(steps >= 5, "{steps} steps");
    for (stop, removes) in (0..steps).flat_map(|stop| [(stop, false), (stop, true)]) {
        let mut model = fresh();
        for _ in 0..stop {
            let Ok(Step::Submit(txn)) = next(&model, spec.uuid).unwrap().plan(&model.state(), true)
            else {
                unreachable!()
            };
            assert!(model.txn(&txn));
        }
        let end = if removes { remove(spec.uuid) } else { Change::CancelJob { job: 2 } };
        model.carry_out(&end).unwrap();
        assert_eq!(model.state().places_to_zero().count(), 0, "nobody zeroes for it any more");
        txns(&mut model, |model| next(model, spec.uuid));
        assert_eq!(job(&model, 2).state, JobState::Cancelled, "after {stop}");
        let left = |key: &String| {
            let kept = ["/job/", "/last/", "/node/", "/slice/", "/room/", "/alive/"];
            !kept.iter().any(|it| key.contains(it))
        };
        let left: Vec<_> = model.records.keys().filter(|key| left(key)).collect();
        assert!(
            left.iter().all(|key| key.ends_with("/cluster") || key.contains("/ordinal/")),
            "{left:?}"
        );
        check_store(&model);
    }
}

#[test]
fn a_growth_that_is_cancelled_after_any_step_leaves_the_volume_as_it_was() {
    let spec = mirrored(1, ByteLen(GIB));
    let wanted = Blocks(150 * GIB / 4096);
    let fresh = || {
        let mut model = cluster_of(2, ByteLen(200 * GIB));
        create(&mut model, &spec).unwrap();
        model.carry_out(&grow(spec.uuid, wanted)).unwrap();
        model
    };
    let before = {
        let mut model = cluster_of(2, ByteLen(200 * GIB));
        create(&mut model, &spec).unwrap();
        compile(&model.state(), node(1)).volumes
    };
    let steps = txns(&mut fresh(), |model| next(model, spec.uuid));
    for stop in 0..steps {
        let mut model = fresh();
        for _ in 0..stop {
            let change = next(&model, spec.uuid).unwrap();
            let Ok(Step::Submit(txn)) = change.plan(&model.state(), true) else { unreachable!() };
            assert!(model.txn(&txn));
            assert_eq!(compile(&model.state(), node(1)).volumes, before, "hosts see no part of it");
        }
        model.carry_out(&Change::CancelJob { job: 4 }).unwrap();
        assert_eq!(model.state().places_to_zero().count(), 0, "nobody zeroes for it any more");
        txns(&mut model, |model| next(model, spec.uuid));
        assert_eq!(job(&model, 4).state, JobState::Cancelled);
        let found = record(&model, &spec);
        assert_eq!((found.rows, found.zeroed_rows, found.blocks), (1, 1, spec.blocks.0));
        assert_eq!((found.planned, found.job, model.state().zeroed().count()), (None, None, 0));
        check_store(&model);
    }
}

#[test]
fn a_place_that_was_zeroed_for_an_earlier_use_does_not_count() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    let wanted = grow(spec.uuid, Blocks(3 * GIB / 4096));
    model.carry_out(&wanted).unwrap();
    let early: Vec<_> = model.state().places_to_zero().collect();
    model.carry_out(&Change::CancelJob { job: 4 }).unwrap();
    model.finish(spec.uuid).unwrap();
    model.carry_out(&wanted).unwrap();
    let again: Vec<_> = model.state().places_to_zero().collect();
    let place =
        |it: &nearflash_records::state::NewPlace| (it.mirror, it.ordinal, it.slice, it.start);
    assert_eq!(
        early.iter().map(place).collect::<Vec<_>>(),
        again.iter().map(place).collect::<Vec<_>>()
    );
    let late = Change::NoteZeroed { places: early };
    assert_eq!(late.plan(&model.state(), false), Ok(Step::Done), "it was another use of the place");
}

#[test]
fn a_late_note_does_not_bring_the_note_of_a_counted_row_back() {
    let mut model = cluster_of(2, ByteLen(200 * GIB));
    let spec = mirrored(1, ByteLen(150 * GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    let places = model.state().places_to_zero().collect();
    let Ok(Step::Submit(late)) = (Change::NoteZeroed { places }).plan(&model.state(), false) else {
        unreachable!()
    };
    assert!(model.txn(&late));
    model.carry_out(&model.carry_on(spec.uuid)).unwrap();
    let counted = record(&model, &spec);
    assert_eq!(
        (counted.rows, counted.zeroed_rows, job(&model, 2).state),
        (2, 1, JobState::Running)
    );
    assert!(!model.txn(&late));
    assert_eq!(model.state().zeroed().count(), 0);
}

#[test]
fn a_row_is_not_dropped_by_somebody_who_does_not_know_that_a_place_is_noted() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    let places = |model: &Model| model.state().places_to_zero().collect::<Vec<_>>();
    model.carry_out(&grow(spec.uuid, Blocks(3 * GIB / 4096))).unwrap();
    let note = Change::NoteZeroed { places: places(&model) };
    let mut behind = model.clone();
    behind.carry_out(&Change::CancelJob { job: 4 }).unwrap();
    let Ok(Step::Submit(drop)) = behind.carry_on(spec.uuid).plan(&behind.state(), false) else {
        unreachable!()
    };
    // The same, except that the node of the places has noted them just before.
    model.carry_out(&note).unwrap();
    model.carry_out(&Change::CancelJob { job: 4 }).unwrap();
    let is_about = |key: &Key| matches!(key, Key::Zeroed(mirror, _) if mirror.volume == spec.uuid);
    assert!(drop.compares.iter().filter(|it| is_about(&it.key)).count() >= 2, "{drop:?}");
    assert!(!model.txn(&drop));
    model.finish(spec.uuid).unwrap();
    assert_eq!(model.state().zeroed().count(), 0);
}

#[test]
fn a_step_that_fails_has_the_job_undone_with_its_reason() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    let error = "device flash failed: ".repeat(100);
    model.carry_out(&Change::FailJob { job: 2, error }).unwrap();
    model.finish(spec.uuid).unwrap();
    let ended = job(&model, 2);
    assert_eq!(ended.state, JobState::Failed);
    assert!(ended.error.unwrap().starts_with("device flash failed"));
    assert!(model.state().volumes().is_empty());
    assert_eq!(Change::CancelJob { job: 2 }.plan(&model.state(), false), Ok(Step::Done));
}

#[test]
fn a_second_job_of_a_volume_and_the_cancelling_of_a_removal_are_refused() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(GIB));
    create(&mut model, &spec).unwrap();
    model.carry_out(&grow(spec.uuid, Blocks(2 * GIB / 4096))).unwrap();
    let other = model.carry_out(&grow(spec.uuid, Blocks(3 * GIB / 4096))).unwrap_err();
    assert_eq!(other, Refusal::JobUnderWay { name: spec.name.clone(), id: 4 });
    model.carry_out(&remove(spec.uuid)).unwrap();
    let refused = model.carry_out(&Change::CancelJob { job: 6 }).unwrap_err();
    assert_eq!(refused, Refusal::RemovalGoesOn { id: 6, name: spec.name });
    assert_eq!(model.carry_out(&Change::CancelJob { job: 8 }), Err(Refusal::NoJob { id: 8 }));
    assert_eq!(job(&model, 4).state, JobState::Cancelled);
}

#[test]
fn unfinished_jobs_are_bounded_and_the_oldest_ended_ones_are_forgotten() {
    let mut model = cluster_of(2, ByteLen(60 * GIB));
    for number in 1..=u16::try_from(CLUSTER_JOBS_MAX).unwrap() {
        model.carry_out(&Change::CreateVolume(volume(number, ByteLen(4096)))).unwrap();
    }
    let more = Change::CreateVolume(volume(99, ByteLen(4096)));
    assert_eq!(model.carry_out(&more), Err(Refusal::TooManyJobs));
    for number in 1..=u16::try_from(CLUSTER_JOBS_MAX).unwrap() {
        model.finish(volume(number, ByteLen(0)).uuid).unwrap();
    }
    model.carry_out(&more).unwrap();
    let state = model.state();
    assert_eq!(state.jobs().len(), ENDED_CLUSTER_JOBS_MAX);
    assert!(!state.jobs().contains_key(&2) && state.last_job() == 130);
}

#[test]
fn jobs_need_level_2_which_every_program_must_know() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    model.set_level(1);
    let change = Change::CreateVolume(mirrored(1, ByteLen(GIB)));
    let refused = model.carry_out(&change).unwrap_err();
    assert_eq!(refused, Refusal::LevelTooLow { level: 1, needed: 2 });
    assert!(refused.to_string().contains("nearflash cluster upgrade"), "{refused}");
    let Change::RegisterNode(spec) = register(2) else { unreachable!() };
    let old = NodeSpec { version: "0.1.0".to_owned(), ..spec };
    model.carry_out(&Change::RegisterNode(old)).unwrap();
    let refused = model.carry_out(&Change::RaiseLevel).unwrap_err();
    assert!(
        matches!(&refused, Refusal::OldProgram { node, .. } if node.as_str() == "n2"),
        "{refused}"
    );
    model.carry_out(&register(2)).unwrap();
    model.carry_out(&open_slice(2, ByteLen(40 * GIB), 2)).unwrap();
    for _ in 0..2 {
        model.carry_out(&Change::RaiseLevel).unwrap();
    }
    model.carry_out(&change).unwrap();
    assert_eq!(model.state().cluster().unwrap().feature_level, FEATURE_LEVEL);
}

#[test]
fn below_level_2_a_volume_is_removed_without_a_job() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = mirrored(1, ByteLen(100 * 1024 * 1024));
    create(&mut model, &spec).unwrap();
    model.set_level(1);
    model.carry_out(&remove(spec.uuid)).unwrap();
    assert!(model.state().volumes().is_empty() && model.state().last_job() == 2);
    check_store(&model);
}

#[test]
fn a_job_whose_volume_was_deleted_by_hand_ends() {
    let mut model = cluster_of(2, ByteLen(40 * GIB));
    let spec = volume(1, ByteLen(GIB));
    model.carry_out(&Change::CreateVolume(spec.clone())).unwrap();
    let next = model.carry_on(spec.uuid);
    model.write(vec![(Key::Volume(spec.uuid).path(CLUSTER), None)]);
    model.carry_out(&next).unwrap();
    assert_eq!(job(&model, 2).state, JobState::Failed);
    let worker = Worker { node: node(9), run: 9 };
    let by = Begin { worker, now: 0 };
    assert_eq!(Change::CarryOn { job: 77, by }.plan(&model.state(), false), Ok(Step::Done));
}
