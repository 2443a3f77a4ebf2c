//! Requests that process their range in steps, allocation status, and refusals by restrictions.

use nearflash_request::{Access, Change, ChangeKind, Expected, Identity, Modes, ReservationType};
use nearflash_space::{Provisioning, Reservations, VolumeEntry};

use super::*;

fn volume(provisioning: Provisioning, reservations: &Reservations) -> Arc<VolumeTable> {
    let restriction = reservations.restriction().map(Arc::new);
    let entry = VolumeEntry { provisioning, restriction, ..map().into() };
    Arc::new(VolumeTable::new([(VOLUME, entry)]))
}

/// Runs the only request to its answer, and returns the outcome and the payload.
fn ask(node: &mut Node, range: (u64, u64), operation: Operation) -> (Outcome, Payload) {
    node.submit(0, 1, range, operation);
    let (done, _) = node.finish();
    (done.outcome, done.payload)
}

fn write_same(node: &mut Node, range: (u64, u64), fill: u8) -> (Outcome, Payload) {
    let payload = node.payload(0, &[fill; BLOCK]);
    ask(node, range, Operation::WriteSame { payload, force_unit_access: true })
}

#[test]
fn one_block_fills_a_range_longer_than_any_buffer() {
    let mut node = Node::new(1, 1);
    assert_eq!(write_same(&mut node, (3, 2 * SEAM - 4), 7), (Outcome::Success, Payload::None));
    let payload = node.payload(0, &[7; BLOCK]);
    let same = ask(&mut node, (3, 2 * SEAM - 4), Operation::CompareSame { payload });
    assert_eq!(same, (Outcome::Success, Payload::None));
    for (range, differs) in [((0, 2 * SEAM), 0), ((3, 2 * SEAM - 3), (2 * SEAM - 4) * 512)] {
        let payload = node.payload(0, &[7; BLOCK]);
        let differ = ask(&mut node, range, Operation::CompareSame { payload });
        assert_eq!(differ, (Outcome::Miscompare, Payload::Differs(differs)));
    }
    assert_eq!(ask(&mut node, (0, 2 * SEAM), Operation::Verify).0, Outcome::Success);
    node.assert_all_returned();
}

#[test]
fn a_comparison_says_where_the_first_difference_is() {
    let mut node = Node::new(1, 1);
    let mut bytes = vec![0; 2 * BLOCK];
    bytes[700] = 1;
    let (compare, write) = (node.payload(0, &bytes), node.payload(0, &bytes));
    let expected = (Outcome::Miscompare, Payload::Differs(700));
    let operation = Operation::CompareAndWrite { compare, write, force_unit_access: false };
    assert_eq!(ask(&mut node, (SEAM - 1, 2), operation), expected);
    let payload = node.payload(0, &bytes);
    assert_eq!(ask(&mut node, (SEAM - 1, 2), Operation::Compare { payload }), expected);
    node.assert_all_returned();
}

#[test]
fn what_is_written_and_verified_is_there_and_can_be_read() {
    let mut node = Node::new(1, 1);
    for compare in [false, true] {
        let payload = node.payload(0, &[9; 2 * BLOCK]);
        let operation = Operation::WriteAndVerify { payload, compare };
        let verified = ask(&mut node, (SEAM - 1, 2), operation);
        assert_eq!(verified, (Outcome::Success, Payload::None));
        let payload = node.payload(0, &[9; BLOCK]);
        let same = ask(&mut node, (SEAM - 1, 2), Operation::CompareSame { payload });
        assert_eq!(same.0, Outcome::Success);
    }
    node.assert_all_returned();
}

#[test]
fn a_step_that_fails_ends_the_request_and_no_further_one_begins() {
    let mut node = Node::new(1, 1);
    node.submit(0, 1, (0, 2 * SEAM), Operation::Verify);
    node.collect();
    let (_, read) = node.in_flight.pop().unwrap();
    node.engines[0].handle_device(read.id, DeviceResult::MediumError, &mut node.pools[0]);
    assert_eq!(node.finish().0.outcome, Outcome::UnrecoveredRead);
    node.assert_all_returned();
}

#[test]
fn a_volume_that_goes_away_between_two_steps_ends_the_request() {
    let mut node = Node::new(1, 1);
    let payload = node.payload(0, &[1; BLOCK]);
    let operation = Operation::WriteSame { payload, force_unit_access: false };
    node.submit(0, 1, (0, 2 * SEAM), operation);
    node.collect();
    node.engines[0].set_volumes(Arc::new(VolumeTable::default()));
    assert_eq!(node.finish().0.outcome, Outcome::VolumeGone);
    node.assert_all_returned();
}

#[test]
fn what_is_allocated_is_told_run_by_run_and_ends_with_an_extent() {
    let mut node = Node::new(1, 1);
    write_same(&mut node, (4, SEAM), 7);
    let run =
        |mapped, blocks| (Outcome::Success, Payload::Allocation { mapped, blocks: Blocks(blocks) });
    for (range, expected) in [
        ((0, 2 * SEAM), run(false, 4)),
        ((4, 2 * SEAM - 4), run(true, SEAM - 4)),
        ((4, 3), run(true, 3)),
        ((SEAM, SEAM), run(true, 4)),
        ((SEAM + 4, 5), run(false, 5)),
    ] {
        assert_eq!(ask(&mut node, range, Operation::Allocation), expected, "{range:?}");
    }
    assert_eq!(ask(&mut node, (0, 0), Operation::Allocation).0, Outcome::OutOfRange);
    let zero = Operation::Deallocate {
        ranges: [BlockRange { start: Lba(4), count: Blocks(8) }].into(),
        zeroes: true,
    };
    assert_eq!(ask(&mut node, (0, 0), zero).0, Outcome::Success);
    assert_eq!(ask(&mut node, (0, SEAM), Operation::Allocation), run(false, 12));
    node.assert_all_returned();
}

#[test]
fn a_device_that_does_not_know_has_all_of_it() {
    let mut node = Node::new(1, 1);
    node.submit(0, 1, (0, 8), Operation::Allocation);
    node.collect();
    let (_, asked) = node.in_flight.pop().unwrap();
    node.engines[0].handle_device(asked.id, DeviceResult::Unsupported, &mut node.pools[0]);
    let all = Payload::Allocation { mapped: true, blocks: Blocks(8) };
    let (done, _) = node.finish();
    assert_eq!((done.outcome, done.payload), (Outcome::Success, all));
}

#[test]
fn a_thick_volume_keeps_its_storage_whatever_hosts_deallocate() {
    let mut node = Node::new(1, 1);
    node.engines[0].set_volumes(volume(Provisioning::Thick, &Reservations::default()));
    write_same(&mut node, (0, 8), 7);
    let ranges = || Box::from([BlockRange { start: Lba(0), count: Blocks(8) }]);
    let released = |node: &mut Node, zeroes| {
        let done = ask(node, (0, 0), Operation::Deallocate { ranges: ranges(), zeroes });
        assert_eq!(done.0, Outcome::Success);
        let place = usize::try_from(2 * MIB).unwrap();
        (node.mapped[place / BLOCK], node.device[place])
    };
    assert_eq!(released(&mut node, false), (true, 7));
    assert_eq!(released(&mut node, true), (true, 0));
    let operation = Operation::WriteZeroes { deallocate: true, force_unit_access: false };
    assert_eq!(ask(&mut node, (0, 8), operation).0, Outcome::Success);
    let all = Payload::Allocation { mapped: true, blocks: Blocks(SEAM) };
    assert_eq!(ask(&mut node, (0, SEAM), Operation::Allocation).1, all);
}

#[test]
fn a_restriction_refuses_before_anything_is_touched_and_buffers_come_back() {
    let (holder, other) = (Nexus(1), Nexus(2));
    let identity = Identity::Nvme { host_id: [1; 16], controller: 1 };
    let mut reservations = Reservations::default();
    for kind in [
        ChangeKind::Register { expected: Expected::Nothing, new: 5, persist: None },
        ChangeKind::Reserve { key: 5, reservation: ReservationType::WriteExclusive },
        ChangeKind::SetModes(Modes { write_protected: true, descriptor_sense: false }),
    ] {
        let identity = identity.clone();
        reservations.apply(&Change { volume: VOLUME, nexus: holder, identity, kind });
    }
    let mut node = Node::new(1, 1);
    node.engines[0].set_volumes(volume(Provisioning::Thin, &reservations));
    let mut outcome = |nexus, operation| {
        let range = BlockRange { start: Lba(0), count: Blocks(1) };
        let request = Request { tag: Tag(1), volume: VOLUME, range, operation, sent_in: None };
        node.ask(0, nexus, request);
        node.finish().0.outcome
    };
    assert_eq!(outcome(other, Operation::Read), Outcome::Success);
    assert_eq!(outcome(other, Operation::Flush), Outcome::ReservationConflict);
    assert_eq!(outcome(Nexus::NONE, Operation::Admit(Access::Read)), Outcome::Success);
    assert_eq!(outcome(Nexus::NONE, Operation::Admit(Access::Write)), Outcome::ReservationConflict);
    assert_eq!(outcome(holder, Operation::Admit(Access::Write)), Outcome::WriteProtected);
    let payload = node.payload(0, &[1; BLOCK]);
    let request = Request {
        tag: Tag(1),
        volume: VOLUME,
        range: BlockRange { start: Lba(0), count: Blocks(1) },
        operation: Operation::Write { payload, force_unit_access: false },
        sent_in: None,
    };
    node.ask(0, other, request);
    assert_eq!(node.finish().0.outcome, Outcome::ReservationConflict);
    node.assert_all_returned();
}

#[test]
fn a_range_that_is_filled_waits_for_the_fences_on_it() {
    let mut node = Node::new(1, 1);
    let add = Operation::FetchAdd { word: 0, addend: 1, force_unit_access: false };
    node.submit(0, 1, (5, 1), add);
    // The fence is held from now on; its read is under way.
    for _ in 0..3 {
        node.collect();
        while let Some(message) =
            node.messages.get_mut(&(0, 0)).and_then(|waiting| waiting.pop_front())
        {
            node.engines[0].handle_fence(message, &mut node.pools[0]);
            node.collect();
        }
    }
    assert_eq!(node.in_flight.len(), 1);
    let payload = node.payload(0, &[9; BLOCK]);
    node.submit(0, 2, (0, 16), Operation::WriteSame { payload, force_unit_access: false });
    node.collect();
    assert_eq!(node.in_flight.len(), 1, "held back");
    node.run();
    let order: Vec<u32> = node.answers.iter().map(|(_, answer)| answer.completion.tag.0).collect();
    assert_eq!(order, [1, 2]);
    let start = usize::try_from(2 * MIB).unwrap() + 5 * BLOCK;
    assert_eq!(node.device[start..start + 8], [9; 8]);
    node.assert_all_returned();
}

/// Bits that several cores OR into one block are all set in the end, in any order.
fn check_bits_are_never_lost(seed: u64) {
    let mut node = Node::new(2, seed);
    for bit in 0..32u32 {
        let core = node.dice.below(2);
        let mut bytes = [0; 2 * BLOCK];
        bytes[BLOCK..BLOCK + 4].copy_from_slice(&(1u32 << bit).to_le_bytes());
        let payload = node.payload(core, &bytes);
        let operation = Operation::OrWrite { payload, force_unit_access: false };
        node.submit(core, bit, (SEAM - 1, 2), operation);
        for _ in 0..node.dice.below(6) {
            node.step(&mut |_, _| {});
        }
    }
    node.run();
    assert_eq!(node.answers.len(), 32);
    // The second extent lies at 1 MiB of the device.
    let start = usize::try_from(MIB).unwrap();
    assert_eq!(node.device[start..start + 4], [0xFF; 4]);
    node.assert_all_returned();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Same,
    Or,
    Verify,
    CompareSame,
    Zero,
}

fn any_step() -> impl Strategy<Value = (Step, u64, u64, u8)> {
    let step = prop_oneof![
        Just(Step::Same),
        Just(Step::Or),
        Just(Step::Verify),
        Just(Step::CompareSame),
        Just(Step::Zero),
    ];
    let count = prop_oneof![3 => 0u64..9, 1 => 0u64..=SEAM];
    (step, SEAM - 9..SEAM, count, prop_oneof![Just(0), Just(1), Just(6)])
}

/// The volume with its two extents in one row.
fn striped(unit: u64) -> Arc<VolumeTable> {
    let stripes = Stripes { width: 2, unit: ByteLen(unit), device_block_size: BlockSize::B4096 };
    let size = (BlockSize::B512, Blocks(2 * SEAM));
    let map = Map::striped(Epoch(2), size, stripes, &extents()).unwrap();
    Arc::new(VolumeTable::new([(VOLUME, map)]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bits_are_never_lost(seed: u64) {
        check_bits_are_never_lost(seed);
    }

    /// One request at a time, however long, a volume behaves as a plain array, striped or not.
    #[test]
    fn a_volume_equals_an_array_under_long_requests(
        seed: u64,
        unit in prop_oneof![Just(4096), Just(16384), Just(1 << 20)],
        steps in prop::collection::vec(any_step(), 1..12),
    ) {
        let mut node = Node::new(2, seed);
        for engine in &mut node.engines {
            engine.set_volumes(striped(unit));
        }
        let mut model = vec![0u8; 2 << 20];
        for (step, start, count, fill) in steps {
            let first = usize::try_from(start).unwrap() * BLOCK;
            let place = first..first + usize::try_from(count).unwrap() * BLOCK;
            let mut block = [fill; BLOCK];
            block[100] ^= 3;
            let expected = match step {
                Step::CompareSame => {
                    let alike = model[place.clone()].iter().zip(block.iter().cycle());
                    match alike.clone().position(|(a, b)| a != b) {
                        Some(at) => (Outcome::Miscompare, Payload::Differs(at as u64)),
                        None => (Outcome::Success, Payload::None),
                    }
                }
                _ => (Outcome::Success, Payload::None),
            };
            let count_max = usize::try_from(SEAM).unwrap() * BLOCK;
            let operation = match step {
                Step::Same => {
                    model[place.clone()].chunks_mut(BLOCK).for_each(|it| it.copy_from_slice(&block));
                    let payload = node.payload(0, &block);
                    Operation::WriteSame { payload, force_unit_access: false }
                }
                // As long as its payload, which is no longer than a buffer.
                Step::Or if place.is_empty() || place.len() > count_max => continue,
                Step::Or => {
                    let bits = vec![fill; place.len()];
                    model[place.clone()].iter_mut().for_each(|bits| *bits |= fill);
                    let payload = node.payload(0, &bits);
                    Operation::OrWrite { payload, force_unit_access: false }
                }
                Step::Verify => Operation::Verify,
                Step::CompareSame => Operation::CompareSame { payload: node.payload(0, &block) },
                Step::Zero => {
                    model[place.clone()].fill(0);
                    let range = BlockRange { start: Lba(start), count: Blocks(count) };
                    Operation::Deallocate { ranges: [range].into(), zeroes: true }
                }
            };
            prop_assert_eq!(ask(&mut node, (start, count), operation), expected);
        }
        let unit = usize::try_from(unit).unwrap();
        for (number, bytes) in model.chunks(unit).enumerate() {
            let start = ((2 - number % 2) << 20) + number / 2 * unit;
            prop_assert!(node.device[start..start + unit] == *bytes, "unit {}", number);
        }
        node.assert_all_returned();
    }
}

fn fill(node: &mut Node, range: (u64, u64), fill: u8) {
    assert_eq!(write_same(node, range, fill).0, Outcome::Success);
}

fn is_filled(node: &mut Node, range: (u64, u64), fill: u8) -> bool {
    let payload = node.payload(0, &[fill; BLOCK]);
    ask(node, range, Operation::CompareSame { payload }).0 == Outcome::Success
}

/// A copy of the blocks from `start` on to `range`.
fn copy(node: &mut Node, start: u64, range: (u64, u64)) -> Outcome {
    let from = BlockRange { start: Lba(start), count: Blocks(range.1) };
    ask(node, range, Operation::Copy { source: VOLUME, from }).0
}

#[test]
fn a_copy_is_what_was_there_also_where_both_ranges_overlap_and_lie_on_a_seam() {
    let mut node = Node::new(1, 1);
    fill(&mut node, (0, 10), 1);
    fill(&mut node, (10, 10), 2);
    assert_eq!(copy(&mut node, 0, (SEAM - 10, 20)), Outcome::Success);
    assert!(is_filled(&mut node, (SEAM - 10, 10), 1) && is_filled(&mut node, (SEAM, 10), 2));
    assert_eq!(copy(&mut node, 0, (5, 20)), Outcome::Success);
    assert!(is_filled(&mut node, (5, 10), 1) && is_filled(&mut node, (15, 10), 2));
    assert_eq!(copy(&mut node, 0, (2 * SEAM, 0)), Outcome::Success);
    node.assert_all_returned();
}

#[test]
fn a_copy_longer_than_a_buffer_or_out_of_a_volume_is_refused() {
    let mut node = Node::new(1, 1);
    let longest = Pool::LEN_MAX.0 / 512;
    assert_eq!(copy(&mut node, 0, (longest, longest)), Outcome::Success);
    assert_eq!(copy(&mut node, 0, (longest, longest + 1)), Outcome::OutOfRange);
    assert_eq!(copy(&mut node, 2 * SEAM - 1, (0, 2)), Outcome::OutOfRange);
    assert_eq!(copy(&mut node, 0, (2 * SEAM - 1, 2)), Outcome::OutOfRange);
    let from = BlockRange { start: Lba(0), count: Blocks(1) };
    let operation = Operation::Copy { source: VolumeId(77), from };
    assert_eq!(ask(&mut node, (0, 1), operation).0, Outcome::VolumeGone);
    let from = BlockRange { start: Lba(0), count: Blocks(2) };
    let operation = Operation::Copy { source: VOLUME, from };
    assert_eq!(ask(&mut node, (4, 1), operation).0, Outcome::OutOfRange);
    node.assert_all_returned();
}

#[test]
fn a_copy_never_comes_between_compare_and_write() {
    for seed in 0..200 {
        let mut node = Node::new(2, seed);
        fill(&mut node, (100, 2), 9);
        let (compare, write) = (node.payload(0, &[0; BLOCK]), node.payload(0, &[5; BLOCK]));
        let operation = Operation::CompareAndWrite { compare, write, force_unit_access: false };
        let from = BlockRange { start: Lba(100), count: Blocks(2) };
        node.submit(0, 1, (1, 1), operation);
        node.submit(1, 2, (0, 2), Operation::Copy { source: VOLUME, from });
        node.run();
        assert_eq!(node.answers.drain(..).count(), 2, "seed {seed}");
        // Before the copy it is copied over, after it there is nothing to swap.
        assert!(is_filled(&mut node, (0, 2), 9), "seed {seed}");
        node.assert_all_returned();
    }
}

/// An operation with its payload, the byte that fills it, its range, the bytes that are charged, and whether
/// they include scratch.
type Charged<'a> = (&'a dyn Fn(BufferId) -> Operation, u8, (u64, u64), u64, bool);

#[test]
fn scratch_is_charged_beside_what_a_request_brings_and_returned_with_its_answer() {
    let mut node = Node::new(1, 1);
    let (page, most) = (Pool::charge(ByteLen(1)), Pool::LEN_MAX);
    let from = BlockRange { start: Lba(64), count: Blocks(9) };
    let force_unit_access = false;
    let cases: [Charged<'_>; 8] = [
        (&|payload| Operation::Write { payload, force_unit_access }, 7, (0, 1), page.0, false),
        (&|payload| Operation::Compare { payload }, 7, (0, 1), 2 * page.0, true),
        (&|payload| Operation::OrWrite { payload, force_unit_access }, 7, (0, 1), 2 * page.0, true),
        (&|payload| Operation::CompareSame { payload }, 0, (2, 9), 3 * page.0, true),
        (
            &|payload| Operation::WriteSame { payload, force_unit_access },
            7,
            (0, 2 * SEAM),
            page.0 + most.0,
            true,
        ),
        // That zeroes need no buffer is decided later.
        (
            &|payload| Operation::WriteSame { payload, force_unit_access },
            0,
            (0, 2 * SEAM),
            page.0 + most.0,
            true,
        ),
        (&|_| Operation::Verify, 0, (0, SEAM), most.0, true),
        (&|_| Operation::Copy { source: VOLUME, from }, 0, (0, 9), 2 * page.0, true),
    ];
    for (operation, fill, range, charged, has_scratch) in cases {
        let payload = node.payload(0, &[fill; BLOCK]);
        let operation = operation(payload);
        if matches!(operation, Operation::Verify | Operation::Copy { .. }) {
            node.pools[0].give_back(payload);
        }
        let what = format!("{operation:?} of {range:?}");
        node.submit(0, 1, range, operation);
        node.run();
        let (_, answer) = node.answers.pop().unwrap();
        assert_eq!((answer.returned.0, answer.had_scratch), (charged, has_scratch), "{what}");
    }
    node.assert_all_returned();
}

#[test]
fn scratch_leaves_room_for_what_stands_first_in_streams() {
    let mut node = Node::new(1, 1);
    // One largest buffer in addition to the reserve: two requests at a time would take all.
    for tag in 0..4 {
        node.submit(0, tag, (0, SEAM), Operation::Verify);
    }
    let mut left = Vec::new();
    while node.step(&mut |_, _| {}) {
        left.push(node.pools[0].free_len());
    }
    assert_eq!(node.answers.len(), 4);
    assert!(left.iter().all(|left| *left >= Pool::FRONT_LEN), "{left:?}");
    node.answers.clear();
    node.assert_all_returned();
}
