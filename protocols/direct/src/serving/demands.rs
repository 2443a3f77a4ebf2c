//! The demands of a session, made from the slots when the caller polls.

use nearflash_request::{BlockRange, BufferId, Operation, Request, Tag};
use nearflash_units::{BlockSize, Blocks, Lba};

use super::slots::{Kind, Slot};
use super::{Demand, TargetSession};
use crate::segments::{self, Segment};

/// A segment of a request to hand out, with its payload from the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) tag: Tag,
    pub(super) buffer: Option<BufferId>,
}

impl Ready {
    #[inline]
    pub(super) const fn new(tag: u32, segment: u32, buffer: Option<BufferId>) -> Self {
        Self { tag: tag_of(tag, segment), buffer }
    }
}

/// The whole blocks around a segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Span {
    /// From where in them the segment begins.
    pub(super) skip: usize,
    /// How long they are.
    pub(super) buffer_len: usize,
}

impl Span {
    /// Around a segment of a request.
    #[inline]
    pub(super) fn of(slot: &Slot, segment: Segment) -> Self {
        let Around { skip, range, .. } = Around::of(slot, segment);
        let len = range.count.0 << slot.block_size.shift();
        Self { skip: crate::length(skip), buffer_len: usize_of(len) }
    }
}

/// A range as whole blocks of the volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    pub(super) range: BlockRange,
    pub(super) skip: u32,
    /// The segment is exactly these blocks.
    pub(super) is_whole: bool,
}

impl Around {
    #[inline]
    pub(super) fn of(slot: &Slot, segment: Segment) -> Self {
        let (shift, mask) = (slot.block_size.shift(), mask(slot.block_size));
        let start = slot.runs.place(slot.offset + u64::from(segment.start));
        let end = start + u64::from(segment.len);
        let first = start >> shift;
        let count = ((end + mask) >> shift) - first;
        let skip = u32::try_from(start & mask).expect("less than a block");
        let range = BlockRange { start: Lba(first), count: Blocks(count) };
        Self { range, skip, is_whole: (start | end) & mask == 0 }
    }
}

/// The range of a request whose own range is ignored.
const NO_RANGE: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };

/// Tags are below 2^12, segments below 2^4.
const SEGMENT_SHIFT: u32 = 16;

impl TargetSession {
    /// The next demand, oldest first.
    #[inline]
    pub fn poll_demand(&mut self) -> Option<Demand> {
        while let Some(Ready { tag, buffer }) = self.ready.pop_front() {
            let (number, segment) = parts_of(tag);
            if self.slots[number].generation != self.generation
                && let Err((status, value)) = self.check_again(number)
            {
                self.output.orphan_all(buffer);
                self.slots[number].fail(status, value);
                self.end_part(number);
                continue;
            }
            let slot = &self.slots[number];
            if self.rings.is_some() {
                if let Some(demand) = self.ring_demand(tag, segment, buffer) {
                    return Some(demand);
                }
                continue;
            }
            if slot.kind == Kind::Read {
                let segment = segments::segment(slot.offset, slot.len, segment);
                let range = Around::of(slot, segment).range;
                return Some(Demand::Request(Request {
                    tag,
                    volume: slot.volume,
                    range,
                    operation: Operation::Read,
                    sent_in: slot.sent_in,
                }));
            }
            if let Some(request) = self.request_of(tag, segment, buffer) {
                return Some(Demand::Request(request));
            }
        }
        self.attach
            .take()
            .map(Demand::Attach)
            .or_else(|| self.claim_demand())
            .or_else(|| self.seals_demand())
            .or_else(|| self.files.made.pop_front().map(Demand::Files))
            .or_else(|| self.refused.made.pop_front().map(Demand::Refused))
    }

    /// Everything except reads over the stream. `None` if the request only had to be answered.
    pub(super) fn request_of(
        &mut self,
        tag: Tag,
        segment: u32,
        buffer: Option<BufferId>,
    ) -> Option<Request> {
        let (number, _) = parts_of(tag);
        let slot = &self.slots[number];
        let (volume, force_unit_access, sent_in) = (slot.volume, slot.durable, slot.sent_in);
        let (range, operation) = match slot.kind {
            Kind::Read => {
                let segment = segments::segment(slot.offset, slot.len, segment);
                (Around::of(slot, segment).range, Operation::Read)
            }
            Kind::Write => {
                let segment = segments::segment(slot.offset, slot.len, segment);
                let payload = buffer.expect("a write is handed out with its payload");
                let Around { range, skip, is_whole } = Around::of(slot, segment);
                let len = segment.len;
                let operation = if is_whole {
                    Operation::Write { payload, force_unit_access }
                } else {
                    Operation::WriteBytes { payload, skip, len, force_unit_access }
                };
                (range, operation)
            }
            Kind::Digest { .. } => (around_all(slot).range, Operation::Read),
            Kind::Flush => (NO_RANGE, Operation::Flush),
            Kind::Discard => {
                let ranges: Box<[BlockRange]> = whole_blocks(slot).collect();
                if ranges.is_empty() {
                    self.end_part(number);
                    return None;
                }
                (NO_RANGE, Operation::Deallocate { ranges, zeroes: false })
            }
            Kind::Zero { deallocate } => {
                let range = whole_blocks(slot).nth(crate::length(segment));
                let range = range.expect("its range is whole blocks");
                (range, Operation::WriteZeroes { deallocate, force_unit_access })
            }
            Kind::CompareAndSwap { expected, new } => {
                let Around { range, skip: word, .. } = around_all(slot);
                (range, Operation::CompareAndSwap { word, expected, new, force_unit_access })
            }
            Kind::FetchAdd { addend } => {
                let Around { range, skip: word, .. } = around_all(slot);
                (range, Operation::FetchAdd { word, addend, force_unit_access })
            }
        };
        Some(Request { tag, volume, range, operation, sent_in })
    }

    /// Ends one segment of a request. With the last one, the request is answered without payload.
    #[inline]
    pub(super) fn end_part(&mut self, number: u32) {
        let slot = &mut self.slots[number];
        slot.pending -= 1;
        if slot.pending == 0 {
            let (status, value) = (slot.failed, slot.value);
            self.answer(number, status, value);
        }
    }
}

/// The blocks of a range that is one segment: of a word, or of blocks whose digests are wanted.
fn around_all(slot: &Slot) -> Around {
    Around::of(slot, Segment { start: 0, len: slot.len })
}

/// The whole blocks within a request's range that a DISCARD can deallocate, and a ZERO zeroes: one range
/// for each run.
fn whole_blocks(slot: &Slot) -> impl Iterator<Item = BlockRange> {
    let (shift, mask) = (slot.block_size.shift(), mask(slot.block_size));
    slot.runs.parts(slot.offset, slot.len).filter_map(move |(start, len)| {
        let end = (start + len) >> shift;
        let first = (start + mask) >> shift;
        let count = end.checked_sub(first).filter(|count| *count > 0)?;
        Some(BlockRange { start: Lba(first), count: Blocks(count) })
    })
}

#[inline]
fn mask(block_size: BlockSize) -> u64 {
    u64::from(block_size.bytes()) - 1
}

/// The engine's number for a segment of a request.
#[inline]
const fn tag_of(number: u32, segment: u32) -> Tag {
    Tag(segment << SEGMENT_SHIFT | number)
}

/// The request's tag, and the number of the segment.
#[inline]
pub(super) const fn parts_of(tag: Tag) -> (u32, u32) {
    (tag.0 & ((1 << SEGMENT_SHIFT) - 1), tag.0 >> SEGMENT_SHIFT)
}

#[inline]
fn usize_of(len: u64) -> usize {
    usize::try_from(len).expect("a segment's blocks are at most a mebibyte")
}
