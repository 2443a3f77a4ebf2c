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
use nearflash_layout::{BlockIo, IoKind, IoResult};
use nearflash_request::{BlockRange, BufferId, Operation, Outcome, Request, VolumeId};
use nearflash_space::VolumeTable;
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, index};

use crate::engine::Engine;
use crate::fence::Fenced;
use crate::job::{Job, Stage};
use crate::pool::Pool;

/// The number of volume blocks in one device block, as a power of two, by volume number.
#[derive(Debug, Default)]
pub(crate) struct Units(Box<[u8]>);

impl Units {
    pub(crate) fn new(volumes: &VolumeTable, devices: &[DeviceProperties]) -> Self {
        let mut shifts = Vec::new();
        for (id, entry) in volumes.iter() {
            let of = |device: nearflash_device::DeviceId| devices.get(index(device.0));
            let largest = entry.map.devices().filter_map(of).map(|it| it.block_size.shift()).max();
            shifts.resize(index(id.0), 0);
            shifts.push(largest.unwrap_or(0).saturating_sub(entry.block_size.shift()));
        }
        Self(shifts.into_boxed_slice())
    }

    #[inline]
    fn of(&self, volume: VolumeId) -> u8 {
        self.0.get(index(volume.0)).copied().unwrap_or(0)
    }
}

/// The length of a buffer for the edges of a range, if any device needs one.
pub(crate) fn edges_len(devices: &[DeviceProperties]) -> Option<ByteLen> {
    let largest = devices.iter().map(|device| device.block_size).max()?;
    (largest > BlockSize::B512).then(|| ByteLen(2 * u64::from(largest.bytes())))
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

impl Engine {
    /// The blocks of a job's fence: every device block that it changes, in part or whole.
    pub(crate) fn covers(&self, job: &Job) -> Fenced {
        let shift = self.units.of(job.volume);
        let Fenced { volume, range } = match &job.operation {
            Operation::Deallocate { ranges, .. } => {
                Fenced { volume: job.volume, range: hull(ranges) }
            }
            _ => job.covers(),
        };
        let unit = 1_u64 << shift;
        let start = range.start.0 >> shift << shift;
        let end = (range.start.0 + range.count.0).next_multiple_of(unit);
        Fenced { volume, range: BlockRange { start: Lba(start), count: Blocks(end - start) } }
    }

    /// Whether a job writes a part of a block of the device.
    #[inline]
    pub(crate) fn writes_edges(&self, job: &Job) -> bool {
        let shift = self.units.of(job.volume);
        if shift == 0 || !job.writes() {
            return false;
        }
        let has_edges = |range: &BlockRange| !Cut::new(*range, shift).is_whole();
        match &job.operation {
            Operation::Deallocate { ranges, zeroes } => *zeroes && ranges.iter().any(has_edges),
            _ => has_edges(&job.range),
        }
    }

    #[inline]
    pub(crate) fn start(&mut self, index: usize, stage: Stage, io: BlockIo, pool: &mut Pool) {
        self.jobs[index].stage = stage;
        let shift = self.units.of(io.volume);
        if shift == 0 || is_whole(&io, shift) {
            return self.submit_io(index, io, pool);
        }
        if io.kind == IoKind::Discard {
            return self.discard_bodies(index, io, shift, pool);
        }
        self.start_parts(index, io, pool);
    }

    fn submit_io(&mut self, index: usize, io: BlockIo, pool: &mut Pool) {
        if let Some(result) = self.layout.submit(io) {
            self.end_io(index, result, pool);
        }
    }

    fn discard_bodies(&mut self, index: usize, io: BlockIo, shift: u8, pool: &mut Pool) {
        let ranges = std::iter::once(&io.range).chain(&io.more);
        let bodies = ranges.map(|range| Cut::new(*range, shift).body);
        let mut bodies = bodies.filter(|body| body.count.0 > 0);
        match bodies.next() {
            None => self.end_io(index, IoResult::Done, pool),
            Some(range) => {
                let more = bodies.collect();
                self.submit_io(index, BlockIo { range, more, ..io }, pool);
            }
        }
    }

    fn start_parts(&mut self, index: usize, io: BlockIo, pool: &mut Pool) {
        let Some(edges) = self.jobs[index].edges else {
            // The volume's layout has changed since the request was admitted.
            return self.end(index, Outcome::VolumeGone, pool);
        };
        let rest = io.more.iter().copied().collect();
        let (range, phase) = (io.range, Phase::ReadingEdges);
        let cut = Cut::new(range, self.units.of(io.volume));
        let parts = Parts { io, rest, range, cut, phase, at: 0, edges };
        self.jobs[index].parts = Some(Box::new(parts));
        self.begin_phase(index, pool);
    }

    /// Whether some IO of a request may be over a part of a block of a device.
    #[inline]
    pub(crate) fn may_have_edges(&self, request: &Request) -> bool {
        if self.edges_len.is_none() {
            return false;
        }
        let shift = self.units.of(request.volume);
        let is_cut = |range: &BlockRange, shift: u8| !is_aligned(range, shift);
        match &request.operation {
            Operation::Flush | Operation::Allocation | Operation::Admit(_) => false,
            // The kept parts of its first and last blocks are read separately.
            Operation::WriteBytes { .. } => shift > 0,
            Operation::Deallocate { ranges, zeroes } => {
                *zeroes && ranges.iter().any(|range| is_cut(range, shift))
            }
            Operation::Copy { source, from } => {
                is_cut(&request.range, shift) || is_cut(from, self.units.of(*source))
            }
            _ => is_cut(&request.range, shift),
        }
    }

    pub(crate) fn take_edges(&mut self, pool: &mut Pool) -> Option<BufferId> {
        let len = self.edges_len.expect("only devices with large blocks leave edges");
        let leaves_enough = pool.would_leave(Pool::FRONT_LEN, len);
        let taken = if leaves_enough { pool.take(len) } else { None };
        taken.or_else(|| self.edges_reserve.take())
    }

    pub(crate) fn give_back_edges(&mut self, edges: BufferId, pool: &mut Pool) {
        if self.edges_reserve.is_none() {
            self.edges_reserve = Some(edges);
        } else {
            pool.give_back(edges);
        }
    }

    /// Starts the IO of the phase, if there is any.
    fn begin_phase(&mut self, index: usize, pool: &mut Pool) {
        let parts = self.jobs[index].parts.as_deref().expect("an IO that is done in parts");
        let mut blocks = parts.cut.edges.iter().flatten().map(|edge| edge.block);
        let (kind, range, more) = match (parts.phase, parts.io.kind) {
            (Phase::Body, kind) => (kind, Some(parts.cut.body), Box::default()),
            (Phase::ReadingEdges, _) => {
                let kind = IoKind::Read { buffer: Some(parts.edges) };
                (kind, blocks.next(), blocks.collect())
            }
            (Phase::WritingEdges, kind) => {
                let durable = matches!(kind, IoKind::Write { durable: true, .. });
                let kind = IoKind::Write { buffer: parts.edges, durable };
                (kind, blocks.next(), blocks.collect())
            }
        };
        let Some(range) = range.filter(|range| range.count.0 > 0) else {
            return self.end_phase(index, pool);
        };
        let buffer_offset = match parts.phase {
            Phase::Body => self.len_of_blocks(&parts.io, parts.at + parts.cut.body_at),
            Phase::ReadingEdges | Phase::WritingEdges => ByteLen(0),
        };
        let BlockIo { id, volume, cause, .. } = parts.io;
        let cause = Cause { is_whole: false, ..cause };
        let io = BlockIo { id, volume, range, more, kind, buffer_offset, cause };
        self.submit_io(index, io, pool);
    }

    /// A part of a job's IO has ended.
    pub(crate) fn end_phase(&mut self, index: usize, pool: &mut Pool) {
        let Some(parts) = self.jobs[index].parts.as_deref() else { return };
        if parts.phase == Phase::ReadingEdges {
            self.move_edges(parts, pool);
        }
        let is_read = matches!(parts.io.kind, IoKind::Read { .. });
        let parts = self.jobs[index].parts.as_deref_mut().expect("it was there above");
        parts.phase = match parts.phase {
            Phase::ReadingEdges => Phase::Body,
            Phase::Body if !is_read => Phase::WritingEdges,
            Phase::Body | Phase::WritingEdges => {
                parts.at += parts.range.count.0;
                let Some(range) = parts.rest.pop_front() else {
                    return self.end_parts(index, pool);
                };
                parts.range = range;
                parts.cut = Cut::new(range, self.units.of(parts.io.volume));
                Phase::ReadingEdges
            }
        };
        self.begin_phase(index, pool);
    }

    fn end_parts(&mut self, index: usize, pool: &mut Pool) {
        self.jobs[index].parts = None;
        self.end_io(index, IoResult::Done, pool);
    }

    /// Edges have been read: copies them to the buffer of a read, or from the buffer of a write.
    fn move_edges(&self, parts: &Parts, pool: &mut Pool) {
        let bytes = |blocks: u64| self.len_of_blocks(&parts.io, blocks).to_usize();
        let mut before = 0;
        for edge in parts.cut.edges.iter().flatten() {
            let start = before + bytes(edge.skip);
            let inner = start..start + bytes(edge.count);
            let start = bytes(parts.at + edge.at);
            let outer = start..start + bytes(edge.count);
            before += bytes(edge.block.count.0);
            match parts.io.kind {
                IoKind::Read { buffer: Some(buffer) } => {
                    let (read, edges) = pool.pair_mut(buffer, parts.edges);
                    read[outer].copy_from_slice(&edges[inner]);
                }
                IoKind::Write { buffer, .. } => {
                    let (edges, written) = pool.pair_mut(parts.edges, buffer);
                    edges[inner].copy_from_slice(&written[outer]);
                }
                IoKind::Zero { .. } => pool.bytes_mut(parts.edges)[inner].fill(0),
                // A volume of another node has no edges.
                IoKind::WritePart { .. }
                | IoKind::Read { buffer: None }
                | IoKind::Discard
                | IoKind::Flush
                | IoKind::Allocation => {}
            }
        }
    }

    /// Zero once the volume is gone.
    fn len_of_blocks(&self, io: &BlockIo, blocks: u64) -> ByteLen {
        let entry = self.volumes.get(io.volume);
        entry.and_then(|entry| entry.block_size.len(Blocks(blocks))).unwrap_or_default()
    }
}

#[inline]
fn is_whole(io: &BlockIo, shift: u8) -> bool {
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

/// From the first block of any of the ranges to the last.
fn hull(ranges: &[BlockRange]) -> BlockRange {
    let start = ranges.iter().map(|range| range.start.0).min().unwrap_or(0);
    let end = ranges.iter().map(|range| range.start.0 + range.count.0).max().unwrap_or(0);
    BlockRange { start: Lba(start), count: Blocks(end - start) }
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
