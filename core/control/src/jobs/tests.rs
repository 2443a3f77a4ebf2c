use nearflash_device::DeviceId;
use nearflash_request::VolumeId;
use nearflash_space::{Epoch, Home, Preparation, Reservations, Stripes};
use nearflash_units::{BlockSize, Blocks, ByteOffset};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const MIB: u64 = 1 << 20;
const NOW: UnixTime = UnixTime(7);

/// A volume that has `blocks` blocks, and that a job makes 2 MiB long.
fn volume(job: u64, blocks: u64) -> Volume {
    let name: Name = format!("v{job}").parse().unwrap();
    let extent =
        |start| Extent { device: DeviceId(0), start: ByteOffset(start), len: ByteLen(MIB) };
    Volume {
        id: VolumeId(0),
        uuid: Uuid::from_u128(u128::from(job)),
        subsystem: name.clone(),
        name,
        block_size: BlockSize::B4096,
        blocks: Blocks(blocks),
        preparing: Some(Preparation { job, blocks: Blocks(2 * MIB / 4096) }),
        nsid: 1,
        epoch: Epoch(1),
        extents: vec![extent(0), extent(4 * MIB)],
        provisioning: Provisioning::Thick,
        reservations: Reservations::default(),
        home: Home::Node,
        stripes: Stripes::NONE,
    }
}

fn with(count: u64) -> Jobs<&'static str> {
    let mut jobs = Jobs::default();
    (1..=count).for_each(|id| jobs.handle_recorded(&volume(id, 0), id, NOW));
    jobs
}

fn state(jobs: &Jobs<&'static str>, id: u64) -> JobState<&'static str> {
    jobs.get(id).unwrap().state.clone()
}

#[test]
fn a_job_has_the_kind_and_the_length_of_its_change() {
    let mut jobs = with(1);
    jobs.handle_recorded(&volume(2, MIB / 4096), 2, NOW);
    let seen: Vec<_> = jobs.iter().map(|it| (it.kind, it.total.0, it.began)).collect();
    assert_eq!(seen, [(JobKind::Create, 2 * MIB, NOW), (JobKind::Grow, MIB, NOW)]);
}

#[test]
fn jobs_run_in_their_order_and_end_with_their_results() {
    let mut jobs = with(2);
    assert_eq!((jobs.poll_work(), jobs.poll_work(), jobs.poll_work()), (Some(1), Some(2), None));
    assert!(jobs.handle_progress(1, ByteLen(MIB)));
    assert_eq!(jobs.get(1).unwrap().done, ByteLen(MIB));
    assert_eq!(jobs.handle_zeroed(1, Zeroed::All), Next::Show);
    jobs.handle_shown(1, UnixTime(9));
    assert_eq!(jobs.handle_zeroed(2, Zeroed::Failed), Next::Undo);
    jobs.handle_undone(2, Some("the device failed"), UnixTime(9));
    assert_eq!(state(&jobs, 1), JobState::Done);
    assert_eq!(state(&jobs, 2), JobState::Failed("the device failed"));
    assert!(jobs.iter().all(|job| job.is_over() && job.ended == Some(UnixTime(9))));
}

#[test]
fn a_cancelled_job_stops_and_one_that_has_not_begun_never_begins() {
    let mut jobs = with(2);
    assert_eq!(jobs.poll_work(), Some(1));
    assert_eq!(jobs.handle_cancel(1), Ok(false));
    assert_eq!(jobs.handle_cancel(2), Ok(true), "the caller undoes it");
    assert_eq!((jobs.has_work(), jobs.poll_work()), (false, None));
    assert!(!jobs.handle_progress(1, ByteLen(MIB)));
    assert_eq!(jobs.handle_zeroed(1, Zeroed::Stopped), Next::Undo);
    for id in [1, 2] {
        jobs.handle_undone(id, None, NOW);
        assert_eq!(state(&jobs, id), JobState::Cancelled);
        assert_eq!(jobs.handle_cancel(id), Err(CancelError::Over));
    }
    assert_eq!(jobs.handle_cancel(3), Err(CancelError::Unknown));
}

#[test]
fn a_job_whose_last_block_was_zeroed_when_it_was_cancelled_is_done() {
    let mut jobs = with(1);
    jobs.poll_work();
    jobs.handle_cancel(1).unwrap();
    assert_eq!(jobs.handle_zeroed(1, Zeroed::All), Next::Show);
}

#[test]
fn the_end_of_the_node_leaves_jobs_to_the_next_run() {
    let mut jobs = with(2);
    jobs.poll_work();
    jobs.handle_stop();
    assert!(!jobs.handle_progress(1, ByteLen(MIB)) && !jobs.has_work());
    assert_eq!((jobs.handle_zeroed(1, Zeroed::Stopped), jobs.poll_work()), (Next::Leave, None));
    assert_eq!(state(&jobs, 1), JobState::Running);
}

#[test]
fn the_number_of_jobs_has_a_bound_and_the_oldest_ended_ones_are_forgotten() {
    let mut jobs = with(64);
    assert!(!jobs.has_room());
    jobs.handle_cancel(1).unwrap();
    assert!(!jobs.has_room(), "it is not undone yet");
    jobs.handle_undone(1, None, NOW);
    assert!(jobs.has_room());
    for id in 65..=200 {
        jobs.handle_recorded(&volume(id, 0), id, NOW);
        jobs.handle_shown(id, NOW);
    }
    let over: Vec<u64> = jobs.iter().filter(|job| job.is_over()).map(|job| job.id).collect();
    assert_eq!(over, (137..=200).collect::<Vec<_>>());
    assert!((2..=64).all(|id| jobs.get(id).is_some()));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Record,
    Work,
    Progress(u64),
    Zeroed(u64, Zeroed),
    Cancel(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let zeroed = prop_oneof![Just(Zeroed::All), Just(Zeroed::Stopped), Just(Zeroed::Failed)];
    prop_oneof![
        Just(Op::Record),
        Just(Op::Work),
        (1..20_u64).prop_map(Op::Progress),
        (1..20_u64, zeroed).prop_map(|(id, zeroed)| Op::Zeroed(id, zeroed)),
        (1..20_u64).prop_map(Op::Cancel),
    ]
}

proptest! {
    /// Each job is carried on by one worker at most, and the caller undoes it if none has it.
    #[test]
    fn a_job_is_in_one_hand(ops in prop::collection::vec(op(), 0..100)) {
        let mut jobs = Jobs::<()>::default();
        let (mut last, mut at_work, mut given) = (0, Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Record => {
                    last += 1;
                    jobs.handle_recorded(&volume(last, 0), last, NOW);
                }
                Op::Work => if let Some(id) = jobs.poll_work() {
                    prop_assert!(!given.contains(&id));
                    given.push(id);
                    at_work.push(id);
                },
                Op::Progress(id) if at_work.contains(&id) => {
                    let is_cancelled = jobs.get(id).unwrap().is_cancelled;
                    prop_assert_eq!(jobs.handle_progress(id, ByteLen(1)), !is_cancelled);
                }
                Op::Zeroed(id, zeroed) if at_work.contains(&id) => {
                    at_work.retain(|it| *it != id);
                    match jobs.handle_zeroed(id, zeroed) {
                        Next::Show => jobs.handle_shown(id, NOW),
                        Next::Undo => jobs.handle_undone(id, None, NOW),
                        // It is not told to stop before it is cancelled or the node ends.
                        Next::Leave => at_work.push(id),
                    }
                }
                Op::Cancel(id) => if jobs.handle_cancel(id) == Ok(true) {
                    prop_assert!(!given.contains(&id));
                    given.push(id);
                    jobs.handle_undone(id, None, NOW);
                },
                Op::Progress(_) | Op::Zeroed(..) => {}
            }
        }
        let running = jobs.iter().filter(|job| job.state == JobState::Running).map(|job| job.id);
        at_work.sort_unstable();
        prop_assert_eq!(running.collect::<Vec<_>>(), at_work);
        prop_assert!(jobs.iter().all(|job| job.is_over() == job.ended.is_some()));
    }
}
