//! A layout over two devices whose operations end in any order.

use std::sync::Arc;

use nearflash_device::{
    Cause, DOUBT_MAX, DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult,
    Health, OperationId,
};
use nearflash_request::{BlockRange, BufferId, Outcome, SentIn, VolumeId};
use nearflash_space::{Epoch, Extent, GRANULE, Map, Stripes, VolumeTable};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, Nanos};
use proptest::prelude::*;

use crate::{BlockIo, IoId, IoKind, IoResult, Layout, OPERATIONS_PER_IO_MAX};

/// Blocks of an extent of one granule.
const GRANULE_BLOCKS: u64 = 256;
const BUFFER: BufferId = BufferId(0);
const READ: IoKind = IoKind::Read { buffer: Some(BUFFER) };
const WRITE: IoKind = IoKind::Write { buffer: BUFFER, durable: false };

const DEVICE: DeviceProperties = DeviceProperties {
    len: ByteLen(1 << 30),
    block_size: BlockSize::B4096,
    volatile_cache: true,
    reads_as_zeroes: false,
    deallocates: true,
};

fn range(start: u64, count: u64) -> BlockRange {
    BlockRange { start: Lba(start), count: Blocks(count) }
}

fn io(id: u32, range: BlockRange, kind: IoKind) -> BlockIo {
    let (id, volume, more) = (IoId(id), VolumeId(0), Box::default());
    BlockIo { id, volume, range, more, kind, buffer_offset: ByteLen(0), cause: Cause::NONE }
}

/// A volume whose granules lie on the two devices in turn.
fn table(granules: u64) -> Arc<VolumeTable> {
    let extent = |granule: u64| Extent {
        device: DeviceId(u32::from(granule % 2 == 1)),
        start: ByteOffset((1 + granule) * GRANULE.0),
        len: GRANULE,
    };
    let extents: Vec<Extent> = (0..granules).map(extent).collect();
    let blocks = Blocks(granules * GRANULE_BLOCKS);
    let map = Map::new(Epoch(1), BlockSize::B4096, blocks, &extents).unwrap();
    Arc::new(VolumeTable::new([(VolumeId(0), map)]))
}

/// A volume of rows of one granule on each of three devices, striped by 4 KiB.
fn striped(rows: u64) -> Layout {
    let extent = |row, device| {
        let start = ByteOffset((1 + row) * GRANULE.0);
        Extent { device: DeviceId(device), start, len: GRANULE }
    };
    let extents: Vec<Extent> =
        (0..rows).flat_map(|row| [0, 1, 2].map(|d| extent(row, d))).collect();
    let (unit, device_block_size) = (ByteLen(4096), BlockSize::B4096);
    let stripes = Stripes { width: 3, unit, device_block_size };
    let size = (BlockSize::B4096, Blocks(rows * 3 * GRANULE_BLOCKS));
    let map = Map::striped(Epoch(1), size, stripes, &extents).unwrap();
    let health = Arc::new([Arc::default(), Arc::default(), Arc::default()]);
    Layout::new([DEVICE; 3].into(), health, Arc::new(VolumeTable::new([(VolumeId(0), map)])))
}

fn layout(granules: u64) -> Layout {
    layout_over(granules, &healthy())
}

fn healthy() -> Arc<[Arc<Health>]> {
    Arc::new([Arc::default(), Arc::default()])
}

fn layout_over(granules: u64, health: &Arc<[Arc<Health>]>) -> Layout {
    Layout::new([DEVICE; 2].into(), Arc::clone(health), table(granules))
}

fn submitted(layout: &mut Layout) -> Vec<DeviceRequest> {
    let next = || {
        let peeked = layout.peek_device().copied();
        let submitted = layout.poll_device().map(|(request, _)| request);
        assert!(peeked.is_none() || peeked == submitted);
        submitted
    };
    std::iter::from_fn(next).collect()
}

fn end(layout: &mut Layout, id: OperationId, result: DeviceResult) -> Vec<(IoId, IoResult)> {
    let first = layout.handle_device(id, result);
    first.into_iter().chain(std::iter::from_fn(|| layout.poll_ended())).collect()
}

#[test]
fn an_io_ends_with_its_last_operation_and_the_first_failure_counts() {
    let mut layout = layout(2);
    assert_eq!(layout.submit(io(0, range(GRANULE_BLOCKS - 1, 2), READ)), None);
    let asked = submitted(&mut layout);
    let devices: Vec<DeviceId> = asked.iter().map(|it| it.device).collect();
    assert_eq!(devices, [DeviceId(0), DeviceId(1)]);
    assert_ne!(asked[0].id, asked[1].id);
    assert_eq!(end(&mut layout, asked[1].id, DeviceResult::MediumError), []);
    let failed = IoResult::Failed(Outcome::UnrecoveredRead);
    assert_eq!(end(&mut layout, asked[0].id, DeviceResult::Gone), [(IoId(0), failed)]);
    assert!(!layout.is_busy(IoId(0)));
}

#[test]
#[should_panic(expected = "is of an IO that has ended")]
fn a_completion_of_an_earlier_use_of_the_number_is_caught() {
    let mut layout = layout(1);
    layout.submit(io(0, range(0, 1), READ));
    let late = submitted(&mut layout)[0];
    end(&mut layout, late.id, DeviceResult::Done);
    layout.submit(io(0, range(7, 1), WRITE));
    submitted(&mut layout);
    end(&mut layout, late.id, DeviceResult::Done);
}

#[test]
#[should_panic(expected = "ends once")]
fn a_completion_that_comes_twice_is_caught_while_its_io_waits_for_others() {
    let mut layout = layout(2);
    layout.submit(io(0, range(GRANULE_BLOCKS - 1, 2), WRITE));
    let asked = submitted(&mut layout);
    end(&mut layout, asked[1].id, DeviceResult::Done);
    end(&mut layout, asked[1].id, DeviceResult::Done);
}

#[test]
#[should_panic(expected = "one IO at a time")]
fn a_number_that_is_used_twice_is_caught() {
    let mut layout = layout(1);
    layout.submit(io(0, range(0, 1), READ));
    layout.submit(io(0, range(1, 1), READ));
}

#[test]
fn an_io_of_many_pieces_has_a_bounded_number_of_operations_at_a_time() {
    let granules = 3 * u64::from(OPERATIONS_PER_IO_MAX) / 2;
    let mut layout = layout(granules);
    let all = io(0, range(1, granules * GRANULE_BLOCKS - 1), IoKind::Zero { deallocate: true });
    layout.submit(BlockIo { more: [range(0, 1)].into(), ..all });
    let (mut bytes, mut ended) = (0, Vec::new());
    for operations in [OPERATIONS_PER_IO_MAX, OPERATIONS_PER_IO_MAX / 2 + 1] {
        assert_eq!(ended, []);
        let asked = submitted(&mut layout);
        assert_eq!(asked.len(), usize::from(operations));
        for request in asked {
            bytes += request.len.0;
            ended = end(&mut layout, request.id, DeviceResult::Done);
        }
    }
    assert_eq!(ended, [(IoId(0), IoResult::Done)]);
    assert_eq!(bytes, granules * GRANULE.0);
}

#[test]
fn the_bytes_of_a_striped_write_go_to_their_devices_a_bounded_number_at_a_time() {
    let (mut layout, first, before) = (striped(1), 5, ByteLen(8192));
    let write = io(0, range(first, GRANULE_BLOCKS), WRITE);
    layout.submit(BlockIo { buffer_offset: before, ..write });
    let (mut found, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..GRANULE_BLOCKS / u64::from(OPERATIONS_PER_IO_MAX) {
        assert_eq!(ended, []);
        let asked = submitted(&mut layout);
        assert_eq!(asked.len(), usize::from(OPERATIONS_PER_IO_MAX));
        for it in asked {
            let DeviceOperation::Write { buffer_offset, .. } = it.operation else { panic!() };
            found.push((it.device, it.offset.0, it.len, buffer_offset));
            ended = end(&mut layout, it.id, DeviceResult::Done);
        }
    }
    assert_eq!(ended, [(IoId(0), IoResult::Done)]);
    let expected = (0..GRANULE_BLOCKS).map(|block| {
        let unit = first + block;
        let device = DeviceId(u32::try_from(unit % 3).unwrap());
        let (offset, at) = (GRANULE.0 + unit / 3 * 4096, ByteLen(before.0 + block * 4096));
        (device, offset, ByteLen(4096), at)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn the_zeroes_and_discards_of_a_striped_range_take_one_operation_for_each_extent() {
    let rows = u64::from(OPERATIONS_PER_IO_MAX) / 3 + 1;
    let blocks = rows * 3 * GRANULE_BLOCKS;
    for kind in [IoKind::Zero { deallocate: false }, IoKind::Discard] {
        let mut layout = striped(rows);
        layout.submit(BlockIo { more: [range(0, 1)].into(), ..io(0, range(1, blocks - 1), kind) });
        let whole_rows = submitted(&mut layout);
        assert_eq!(u64::try_from(whole_rows.len()).unwrap(), 3 * (rows - 1));
        let mut len = 0;
        for it in whole_rows {
            len += it.len.0;
            assert_eq!(end(&mut layout, it.id, DeviceResult::Done), []);
        }
        let (last, mut ended) = (submitted(&mut layout), Vec::new());
        assert_eq!(last.len(), 3 + 1);
        for it in last {
            len += it.len.0;
            ended = end(&mut layout, it.id, DeviceResult::Done);
        }
        assert_eq!(ended, [(IoId(0), IoResult::Done)]);
        assert_eq!(len, blocks * 4096);
    }
}

#[test]
fn a_flush_of_a_striped_volume_reaches_each_device_once() {
    let mut layout = striped(4);
    layout.submit(io(0, range(0, 0), IoKind::Flush));
    let asked = submitted(&mut layout);
    assert_eq!(asked.iter().map(|it| it.device.0).collect::<Vec<_>>(), [0, 1, 2]);
    let mut ended = Vec::new();
    for it in asked {
        assert_eq!(std::mem::take(&mut ended), []);
        ended = end(&mut layout, it.id, DeviceResult::Done);
    }
    assert_eq!(ended, [(IoId(0), IoResult::Done)]);
}

#[test]
fn the_allocation_of_a_striped_range_is_that_of_its_first_unit() {
    let mut layout = striped(1);
    assert_eq!(layout.submit(io(0, range(4, 100), IoKind::Allocation)), None);
    let asked = submitted(&mut layout);
    let (device, offset) = (DeviceId(1), ByteOffset(GRANULE.0 + 4096));
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].device, asked[0].offset, asked[0].len), (device, offset, ByteLen(4096)));
    let run = IoResult::Run { mapped: false, len: ByteLen(4096) };
    assert_eq!(end(&mut layout, asked[0].id, DeviceResult::Unmapped(100)), [(IoId(0), run)]);
}

#[test]
fn a_volume_that_goes_away_ends_what_is_not_yet_laid_out() {
    let granules = u64::from(OPERATIONS_PER_IO_MAX) + 1;
    let mut layout = layout(granules);
    layout.submit(io(0, range(0, granules * GRANULE_BLOCKS), IoKind::Discard));
    layout.set_volumes(Arc::new(VolumeTable::default()));
    let asked = submitted(&mut layout);
    let ended: Vec<_> =
        asked.iter().flat_map(|it| end(&mut layout, it.id, DeviceResult::Unsupported)).collect();
    assert_eq!(ended, [(IoId(0), IoResult::Failed(Outcome::VolumeGone))]);
}

#[test]
fn flushes_of_a_device_join_the_one_that_is_not_yet_submitted() {
    let mut layout = layout(1);
    for id in 0..1000 {
        assert_eq!(layout.submit(io(id, range(0, 0), IoKind::Flush)), None);
    }
    let first = submitted(&mut layout);
    assert_eq!(first.len(), 1);
    for id in 1000..2000 {
        assert_eq!(layout.submit(io(id, range(0, 0), IoKind::Flush)), None);
    }
    assert_eq!(submitted(&mut layout), [], "one is under way, one waits");
    let ids = |ended: Vec<(IoId, IoResult)>| ended.iter().map(|(io, _)| io.0).collect::<Vec<_>>();
    let ended = end(&mut layout, first[0].id, DeviceResult::Done);
    assert_eq!(ids(ended), (0..1000).collect::<Vec<_>>());
    let second = submitted(&mut layout);
    assert_eq!(second.len(), 1);
    let ended = end(&mut layout, second[0].id, DeviceResult::Done);
    assert_eq!(ids(ended), (1000..2000).collect::<Vec<_>>());
}

#[test]
fn a_device_that_failed_a_flush_is_believed_on_no_core_until_it_is_cleared() {
    const DURABLE: IoKind = IoKind::Write { buffer: BUFFER, durable: true };
    let fault = IoResult::Failed(Outcome::WriteFault);
    let all = range(0, GRANULE_BLOCKS);
    for (how, result) in [
        (IoKind::Flush, DeviceResult::MediumError),
        (IoKind::Flush, DeviceResult::NoSpace),
        (DURABLE, DeviceResult::MediumError),
    ] {
        let health = healthy();
        let (mut one, mut other) = (layout_over(1, &health), layout_over(1, &health));
        // Both are under way when one fails: the other's success cannot be trusted.
        one.submit(io(0, all, how));
        other.submit(io(0, all, IoKind::Flush));
        let (failing, passing) = (submitted(&mut one)[0].id, submitted(&mut other)[0].id);
        assert_ne!(end(&mut one, failing, result), [(IoId(0), IoResult::Done)]);
        assert_eq!(end(&mut other, passing, DeviceResult::Done), [(IoId(0), fault)]);
        for layout in [&mut one, &mut other] {
            for kind in [IoKind::Flush, DURABLE] {
                assert_eq!(layout.submit(io(0, all, kind)), Some(fault));
            }
            assert_eq!(layout.submit(io(0, all, WRITE)), None, "what promises nothing goes on");
            let write = submitted(layout)[0].id;
            assert_eq!(end(layout, write, DeviceResult::Done), [(IoId(0), IoResult::Done)]);
        }
        assert!(health[0].clear() && !health[1].is_suspect());
        assert_eq!(other.submit(io(0, all, IoKind::Flush)), None);
        let flush = submitted(&mut other)[0].id;
        assert_eq!(end(&mut other, flush, DeviceResult::Done), [(IoId(0), IoResult::Done)]);
    }
}

#[test]
fn a_success_waits_for_what_another_core_has_under_way_and_fails_with_it() {
    const DURABLE: IoKind = IoKind::Write { buffer: BUFFER, durable: true };
    let (all, fault) = (range(0, GRANULE_BLOCKS), IoResult::Failed(Outcome::WriteFault));
    for kind in [IoKind::Flush, DURABLE] {
        for (result, expected) in
            [(DeviceResult::Done, IoResult::Done), (DeviceResult::MediumError, fault)]
        {
            let health = healthy();
            let (mut one, mut other) = (layout_over(1, &health), layout_over(1, &health));
            one.submit(io(0, all, IoKind::Flush));
            other.submit(io(0, all, kind));
            let (first, second) = (submitted(&mut one)[0].id, submitted(&mut other)[0].id);
            // The device may have failed the first flush, and its core not know yet.
            assert_eq!(end(&mut other, second, DeviceResult::Done), []);
            other.prove();
            assert!(other.poll_ended().is_none() && other.awaits_others());
            end(&mut one, first, result);
            // Also when the failure is cleared meanwhile.
            health[0].clear();
            other.prove();
            assert_eq!(other.poll_ended(), Some((IoId(0), expected)));
            assert!(!other.awaits_others() && !other.is_busy(IoId(0)));
        }
    }
}

#[test]
fn a_success_does_not_wait_for_an_operation_that_hangs() {
    for is_suspect in [false, true] {
        let health = healthy();
        let (mut one, mut other) = (layout_over(1, &health), layout_over(1, &health));
        one.submit(io(0, range(0, GRANULE_BLOCKS), IoKind::Flush));
        other.submit(io(0, range(0, GRANULE_BLOCKS), IoKind::Flush));
        let (_hangs, second) = (submitted(&mut one)[0].id, submitted(&mut other)[0].id);
        other.set_now(Nanos(5));
        assert_eq!(end(&mut other, second, DeviceResult::Done), []);
        other.set_now(DOUBT_MAX);
        other.prove();
        assert_eq!(other.poll_ended(), None);
        if is_suspect {
            health[0].note_failure();
        }
        other.set_now(Nanos(5).plus(DOUBT_MAX));
        other.prove();
        let expected =
            if is_suspect { IoResult::Failed(Outcome::WriteFault) } else { IoResult::Done };
        assert_eq!(other.poll_ended(), Some((IoId(0), expected)));
    }
}

#[test]
fn successes_of_one_core_wait_for_its_own_operations_too_and_end_with_the_last() {
    const DURABLE: IoKind = IoKind::Write { buffer: BUFFER, durable: true };
    let mut layout = layout(1);
    for id in 0..3 {
        assert_eq!(layout.submit(io(id, range(0, 1), DURABLE)), None);
    }
    let asked = submitted(&mut layout);
    assert_eq!(end(&mut layout, asked[1].id, DeviceResult::Done), []);
    assert_eq!(end(&mut layout, asked[0].id, DeviceResult::Done), []);
    let mut ended = end(&mut layout, asked[2].id, DeviceResult::Done);
    ended.sort_by_key(|(io, _)| *io);
    assert_eq!(ended, [0, 1, 2].map(|id| (IoId(id), IoResult::Done)));
}

#[test]
fn a_write_that_promises_nothing_and_a_device_that_refuses_leave_it_believed() {
    let health = healthy();
    let mut layout = layout_over(1, &health);
    const DURABLE: IoKind = IoKind::Write { buffer: BUFFER, durable: true };
    for (kind, result) in [
        (WRITE, DeviceResult::MediumError),
        (IoKind::Flush, DeviceResult::Unsupported),
        (DURABLE, DeviceResult::NoSpace),
        (DURABLE, DeviceResult::WornOut),
    ] {
        layout.submit(io(0, range(0, 1), kind));
        let asked = submitted(&mut layout)[0].id;
        assert_ne!(end(&mut layout, asked, result), [(IoId(0), IoResult::Done)]);
        assert!(!health[0].is_suspect());
    }
}

/// The next step of the model: a new IO, the submissions of a turn, or a result of a device.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(IoKind, bool, u64),
    Submit,
    End(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(IoKind::Flush), Just(WRITE), Just(READ)];
    let ask = (kind, any::<bool>(), 0..2 * GRANULE_BLOCKS - 8);
    prop_oneof![
        ask.prop_map(|(kind, is_alone, start)| Step::Ask(kind, is_alone, start)),
        Just(Step::Submit),
        any::<usize>().prop_map(Step::End),
    ]
}

proptest! {
    /// A flush is answered after a flush of every device that was submitted after it was asked for.
    #[test]
    fn a_flush_is_answered_by_flushes_that_began_after_it(
        steps in prop::collection::vec(any_step(), 1..200)
    ) {
        let mut layout = layout(2);
        let mut in_flight: Vec<(usize, DeviceRequest)> = Vec::new();
        // When each IO was asked for, and what of it has not ended.
        let mut asked: Vec<(usize, IoKind)> = Vec::new();
        let mut unanswered = 0;
        // When the last flush of each device that has ended was submitted.
        let mut flushed = [None; 2];
        let rest = steps.len();
        let drain = std::iter::repeat_n([Step::Submit, Step::End(0)], 3 * rest);
        for (now, step) in steps.into_iter().chain(drain.flatten()).enumerate() {
            match step {
                Step::Ask(kind, is_alone, start) => {
                    let id = u32::try_from(asked.len()).unwrap();
                    asked.push((now, kind));
                    let sent = SentIn { term: 1, session: 0, is_digest: false };
                    let cause = Cause { sent_in: is_alone.then_some(sent), ..Cause::NONE };
                    let io = BlockIo { cause, ..io(id, range(start, 8), kind) };
                    prop_assert_eq!(layout.submit(io), None);
                    unanswered += 1;
                }
                Step::Submit => in_flight.extend(submitted(&mut layout).into_iter().map(|it| (now, it))),
                Step::End(_) if in_flight.is_empty() => {}
                Step::End(which) => {
                    let (at, request) = in_flight.swap_remove(which % in_flight.len());
                    let device = usize::try_from(request.device.0).unwrap();
                    if request.operation == DeviceOperation::Flush {
                        flushed[device] = flushed[device].max(Some(at));
                    }
                    for (id, result) in end(&mut layout, request.id, DeviceResult::Done) {
                        prop_assert_eq!(result, IoResult::Done);
                        unanswered -= 1;
                        let (since, kind) = asked[usize::try_from(id.0).unwrap()];
                        let is_covered = flushed.iter().all(|at| *at > Some(since));
                        prop_assert!(kind != IoKind::Flush || is_covered);
                    }
                    let flushes = |device| in_flight.iter().filter(move |(_, it)| {
                        let is_shared = it.id.io >= 1 << 31;
                        it.operation == DeviceOperation::Flush && is_shared && it.device == DeviceId(device)
                    });
                    prop_assert!(flushes(0).count() <= 1 && flushes(1).count() <= 1);
                }
            }
        }
        prop_assert_eq!(unanswered, 0, "every IO ends");
        prop_assert!(in_flight.is_empty());
    }
}

/// A write of a part of its first and its last block has every byte in between once, at the place of a
/// whole write, and no other byte, whether it is laid out at once or in several steps.
#[test]
fn a_write_of_a_part_leaves_out_the_bytes_at_both_ends() {
    let (skip, tail, before) = (100, 300, ByteLen(4096));
    for count in [1, 2, 65, 200] {
        let mut requests =
            [WRITE, IoKind::WritePart { buffer: BUFFER, durable: false, skip, tail }].map(|kind| {
                let mut layout = striped(1);
                layout.submit(BlockIo { buffer_offset: before, ..io(0, range(3, count), kind) });
                let mut all = Vec::new();
                loop {
                    let now = submitted(&mut layout);
                    if now.is_empty() {
                        return all;
                    }
                    now.iter().for_each(|it| drop(end(&mut layout, it.id, DeviceResult::Done)));
                    all.extend(now);
                }
            });
        // Each byte of the buffer, with its place.
        let bytes = |requests: &[DeviceRequest]| -> Vec<(u64, DeviceId, u64)> {
            let bytes_of = |it: &DeviceRequest| {
                let DeviceOperation::Write { buffer_offset, .. } = it.operation else { panic!() };
                let (device, offset) = (it.device, it.offset.0);
                (0..it.len.0).map(move |at| (buffer_offset.0 + at, device, offset + at))
            };
            requests.iter().flat_map(bytes_of).collect()
        };
        let [whole, part] = requests.each_mut().map(|it| bytes(it));
        let (skip, tail) = (usize::try_from(skip).unwrap(), usize::try_from(tail).unwrap());
        assert!(whole[skip..whole.len() - tail] == part, "{count} blocks");
    }
}
