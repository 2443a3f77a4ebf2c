//! Volumes whose blocks are smaller than the blocks of their devices.
//!
//! A range of such a volume is whole blocks of the device, its *body*, and an *edge* at either end
//! that is a part of one. Edges are read into a buffer of their own, one range after the other. A
//! write changes them there and writes the whole blocks back. A deallocation leaves edges as they
//! are.
//!
//! Invariant: a job that writes edges holds a fence over the device blocks that contain them.

use std::collections::VecDeque;
use std::ops::Range;

use nearflash_device::{Cause, DeviceProperties};
use nearflash_layout::{BlockIo, IoKind};
use nearflash_request::{BlockRange, BufferId, Operation, Request, VolumeId};
use nearflash_space::VolumeTable;
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, index};

use crate::need::Spare;
use crate::pool::Pool;

/// Which volumes leave edges, and the buffers for them.
#[derive(Debug)]
pub(crate) struct Edges {
    /// The number of volume blocks in one device block, as a power of two, by volume number.
    shifts: Box<[u8]>,
    /// The length of a buffer, and a spare one; `None` if no device of the node needs one.
    buffers: Option<(ByteLen, Spare)>,
}

impl Edges {
    /// Takes one short buffer of the pool if a device has large blocks.
    pub(crate) fn new(
        volumes: &VolumeTable,
        devices: &[DeviceProperties],
        pool: &mut Pool,
    ) -> Self {
        let largest = devices.iter().map(|device| device.block_size).max();
        let largest = largest.filter(|largest| *largest > BlockSize::B512);
        let len = largest.map(|largest| ByteLen(2 * u64::from(largest.bytes())));
        let buffers = len.map(|len| (len, Spare::new(len, pool)));
        let mut edges = Self { shifts: Box::default(), buffers };
        edges.set(volumes, devices);
        edges
    }

    /// The volumes or the devices have changed.
    pub(crate) fn set(&mut self, volumes: &VolumeTable, devices: &[DeviceProperties]) {
        let mut shifts = Vec::new();
        for (id, entry) in volumes.iter() {
            let of = |device: nearflash_device::DeviceId| devices.get(index(device.0));
            let largest = entry.map.devices().filter_map(of).map(|it| it.block_size.shift()).max();
            shifts.resize(index(id.0), 0);
            shifts.push(largest.unwrap_or(0).saturating_sub(entry.block_size.shift()));
        }
        self.shifts = shifts.into_boxed_slice();
    }

    #[inline]
    pub(crate) fn shift(&self, volume: VolumeId) -> u8 {
        self.shifts.get(index(volume.0)).copied().unwrap_or(0)
    }

    /// Every device block in which the ranges have blocks, and those between them.
    pub(crate) fn covers(&self, volume: VolumeId, ranges: &[BlockRange]) -> BlockRange {
        let unit = 1_u64 << self.shift(volume);
        let start = ranges.iter().map(|range| range.start.0).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.start.0 + range.count.0).max().unwrap_or(0);
        let (start, end) = (start & !(unit - 1), end.next_multiple_of(unit));
        BlockRange { start: Lba(start), count: Blocks(end - start) }
    }

    /// Whether any of the ranges has a part of a block of the device.
    pub(crate) fn cut(&self, volume: VolumeId, ranges: &[BlockRange]) -> bool {
        let shift = self.shift(volume);
        shift > 0 && ranges.iter().any(|range| !Cut::new(*range, shift).is_whole())
    }

    /// Whether some IO of a request may be over a part of a block of a device.
    #[inline]
    pub(crate) fn may_have(&self, request: &Request) -> bool {
        if self.buffers.is_none() {
            return false;
        }
        let shift = self.shift(request.volume);
        let is_cut = |range: &BlockRange, shift: u8| !is_aligned(range, shift);
        match &request.operation {
            Operation::Flush | Operation::Allocation | Operation::Admit(_) => false,
            // The kept parts of its first and last blocks are read separately.
            Operation::WriteBytes { .. } => shift > 0,
            Operation::Deallocate { ranges, zeroes } => {
                *zeroes && ranges.iter().any(|range| is_cut(range, shift))
            }
            Operation::Copy { source, from } => {
                is_cut(&request.range, shift) || is_cut(from, self.shift(*source))
            }
            _ => is_cut(&request.range, shift),
        }
    }

    pub(crate) fn take(&mut self, pool: &mut Pool) -> Option<BufferId> {
        let buffers = self.buffers.as_mut();
        let (len, spare) = buffers.expect("only devices with large blocks leave edges");
        spare.take(*len, pool)
    }

    pub(crate) fn give_back(&mut self, buffer: BufferId, pool: &mut Pool) {
        let buffers = self.buffers.as_mut();
        let (_, spare) = buffers.expect("only devices with large blocks leave edges");
        spare.give_back(buffer, pool);
    }
}

/// The IO for the whole blocks of a discard's ranges, if there are any.
pub(crate) fn without_edges(io: BlockIo, shift: u8) -> Option<BlockIo> {
    let ranges = std::iter::once(&io.range).chain(&io.more);
    let bodies = ranges.map(|range| Cut::new(*range, shift).body);
    let mut bodies = bodies.filter(|body| body.count.0 > 0);
    let range = bodies.next()?;
    let more = bodies.collect();
    Some(BlockIo { range, more, ..io })
}

/// A part of a block of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Edge {
    /// The whole block of the device.
    block: BlockRange,
    /// The part, in blocks of the volume from the start of that block.
    skip: u64,
    count: u64,
    /// Its offset in the range, in blocks of the volume.
    at: u64,
}

/// A range, divided into edges and body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Cut {
    edges: [Option<Edge>; 2],
    body: BlockRange,
    /// The offset of the body in the range, in blocks of the volume.
    body_at: u64,
}

impl Cut {
    fn new(range: BlockRange, shift: u8) -> Self {
        let unit = 1_u64 << shift;
        let (start, end) = (range.start.0, range.start.0 + range.count.0);
        let down = |lba: u64| lba >> shift << shift;
        let edge = |part: Range<u64>| {
            let first = down(part.start);
            Edge {
                block: BlockRange { start: Lba(first), count: Blocks(unit) },
                skip: part.start - first,
                count: part.end - part.start,
                at: part.start - start,
            }
        };
        let body = start.next_multiple_of(unit)..down(end);
        let (head, tail) = if body.start > body.end {
            (start..end, end..end)
        } else {
            (start..body.start, body.end..end)
        };
        let edge = |part: Range<u64>| (!part.is_empty()).then(|| edge(part));
        let count = Blocks(body.end.saturating_sub(body.start));
        Self {
            edges: [edge(head), edge(tail)],
            body_at: body.start - start,
            body: BlockRange { start: Lba(body.start), count },
        }
    }

    fn is_whole(&self) -> bool {
        self.edges == [None, None]
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    ReadingEdges,
    Body,
    WritingEdges,
}

/// An IO that is done in parts.
#[derive(Debug)]
pub(crate) struct Parts {
    io: BlockIo,
    /// The ranges that follow the current one.
    rest: VecDeque<BlockRange>,
    range: BlockRange,
    cut: Cut,
    phase: Phase,
    /// The offset of the range's bytes in the buffer, in blocks.
    at: u64,
    edges: BufferId,
}

impl Parts {
    /// An IO whose blocks are parts of blocks of the device, with a buffer for these.
    pub(crate) fn new(io: BlockIo, edges: BufferId, shift: u8) -> Self {
        let (rest, range, phase) =
            (io.more.iter().copied().collect(), io.range, Phase::ReadingEdges);
        Self { io, rest, range, cut: Cut::new(range, shift), phase, at: 0, edges }
    }

    /// The volume of the IO.
    pub(crate) fn volume(&self) -> VolumeId {
        self.io.volume
    }

    /// The IO of the phase, if it has any blocks. The block size is the volume's, if it still exists.
    pub(crate) fn io(&self, block_size: Option<BlockSize>) -> Option<BlockIo> {
        let mut blocks = self.cut.edges.iter().flatten().map(|edge| edge.block);
        let (kind, range, more) = match (self.phase, self.io.kind) {
            (Phase::Body, kind) => (kind, Some(self.cut.body), Box::default()),
            (Phase::ReadingEdges, _) => {
                let kind = IoKind::Read { buffer: Some(self.edges) };
                (kind, blocks.next(), blocks.collect())
            }
            (Phase::WritingEdges, kind) => {
                let durable = matches!(kind, IoKind::Write { durable: true, .. });
                let kind = IoKind::Write { buffer: self.edges, durable };
                (kind, blocks.next(), blocks.collect())
            }
        };
        let range = range.filter(|range| range.count.0 > 0)?;
        let buffer_offset = match self.phase {
            Phase::Body => len_of(block_size, self.at + self.cut.body_at),
            Phase::ReadingEdges | Phase::WritingEdges => ByteLen(0),
        };
        let BlockIo { id, volume, cause, .. } = self.io;
        let cause = Cause { is_whole: false, ..cause };
        Some(BlockIo { id, volume, range, more, kind, buffer_offset, cause })
    }

    /// Ends a phase, and begins the next one. Returns `false` if it was the last one.
    pub(crate) fn end_phase(
        &mut self,
        block_size: Option<BlockSize>,
        shift: u8,
        pool: &mut Pool,
    ) -> bool {
        let is_read = matches!(self.io.kind, IoKind::Read { .. });
        self.phase = match self.phase {
            Phase::ReadingEdges => {
                self.move_edges(block_size, pool);
                Phase::Body
            }
            Phase::Body if !is_read => Phase::WritingEdges,
            Phase::Body | Phase::WritingEdges => {
                self.at += self.range.count.0;
                let Some(range) = self.rest.pop_front() else { return false };
                (self.range, self.cut) = (range, Cut::new(range, shift));
                Phase::ReadingEdges
            }
        };
        true
    }

    /// Edges have been read: copies them to the buffer of a read, or from the buffer of a write.
    fn move_edges(&self, block_size: Option<BlockSize>, pool: &mut Pool) {
        let bytes = |blocks: u64| len_of(block_size, blocks).to_usize();
        let mut before = 0;
        for edge in self.cut.edges.iter().flatten() {
            let start = before + bytes(edge.skip);
            let inner = start..start + bytes(edge.count);
            let start = bytes(self.at + edge.at);
            let outer = start..start + bytes(edge.count);
            before += bytes(edge.block.count.0);
            match self.io.kind {
                IoKind::Read { buffer: Some(buffer) } => {
                    let (read, edges) = pool.pair_mut(buffer, self.edges);
                    read[outer].copy_from_slice(&edges[inner]);
                }
                IoKind::Write { buffer, .. } => {
                    let (edges, written) = pool.pair_mut(self.edges, buffer);
                    edges[inner].copy_from_slice(&written[outer]);
                }
                IoKind::Zero { .. } => pool.bytes_mut(self.edges)[inner].fill(0),
                // A volume of another node has no edges.
                IoKind::WritePart { .. }
                | IoKind::Read { buffer: None }
                | IoKind::Discard
                | IoKind::Flush
                | IoKind::Allocation => {}
            }
        }
    }
}

/// Zero once the volume is gone.
fn len_of(block_size: Option<BlockSize>, blocks: u64) -> ByteLen {
    block_size.and_then(|size| size.len(Blocks(blocks))).unwrap_or_default()
}

/// Whether an IO is on whole blocks of the device.
#[inline]
pub(crate) fn is_whole(io: &BlockIo, shift: u8) -> bool {
    if matches!(io.kind, IoKind::Flush | IoKind::Allocation) {
        return true;
    }
    let mut ranges = std::iter::once(&io.range).chain(&io.more);
    ranges.all(|range| is_aligned(range, shift))
}

#[inline]
fn is_aligned(range: &BlockRange, shift: u8) -> bool {
    let mask = (1_u64 << shift) - 1;
    (range.start.0 | range.count.0) & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Edges and body are the range, without gaps, and only the body is whole blocks.
        #[test]
        fn a_range_is_its_edges_and_its_body(start in 0..64_u64, count in 0..64_u64) {
            let range = BlockRange { start: Lba(start), count: Blocks(count) };
            let cut = Cut::new(range, 3);
            prop_assert!(cut.body.count.0.is_multiple_of(8));
            let mut covered: Vec<u64> = Vec::new();
            for edge in cut.edges.iter().flatten() {
                prop_assert!(edge.block.start.0.is_multiple_of(8) && edge.count < 8);
                prop_assert!(edge.skip + edge.count <= 8);
                let first = edge.block.start.0 + edge.skip;
                prop_assert_eq!(first, start + edge.at);
                covered.extend(first..first + edge.count);
            }
            if cut.body.count.0 > 0 {
                prop_assert!(cut.body.start.0.is_multiple_of(8));
                prop_assert_eq!(cut.body.start.0, start + cut.body_at);
                covered.extend(cut.body.start.0..cut.body.start.0 + cut.body.count.0);
            }
            covered.sort_unstable();
            prop_assert_eq!(covered, (start..start + count).collect::<Vec<_>>());
            prop_assert_eq!(cut.is_whole(), start % 8 == 0 && count % 8 == 0 || count == 0);
        }
    }
}
