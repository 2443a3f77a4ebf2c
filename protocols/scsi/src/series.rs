//! Commands that are executed piece by piece: transfers longer than a buffer, and copies.
//!
//! The engine has one piece at a time. A command therefore holds at most one buffer and can end
//! between two pieces. The checks on requests, such as reservations, apply to each piece.

use nearflash_request::{BlockRange, Completion, Outcome, VolumeId};
use nearflash_units::{BlockSize, ByteLen, Lba};

use crate::copy::{CopyEnd, CopyProgress, CopySegment, CopyState, CopyTask};
use crate::limits::BUFFER_LEN_MAX;
use crate::task::{Action, RequestTask};
use crate::{Failure, Sense};

/// A request for the engine, and its volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Piece {
    /// The volume.
    pub volume: VolumeId,
    /// The request without its buffers. Its data fits into one buffer.
    pub task: RequestTask,
}

/// A command that is executed piece by piece.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Series {
    what: What,
    /// The number of bytes moved.
    pub done: ByteLen,
    /// The current piece, for the engine.
    pub piece: Piece,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum What {
    Transfer(RequestTask),
    Copy {
        task: CopyTask,
        /// The current segment, and the number of its bytes that were copied.
        segment: usize,
        within: ByteLen,
    },
}

impl Series {
    /// A transfer on a volume.
    pub fn of_transfer(volume: VolumeId, task: RequestTask) -> Self {
        let piece = Piece { volume, task: part(&task, ByteLen(0)) };
        Self { what: What::Transfer(task), done: ByteLen(0), piece }
    }

    /// A copy; `None` if all its segments are empty.
    pub fn of_copy(task: CopyTask) -> Option<Self> {
        let segment = first_from(&task.segments, 0)?;
        let piece = piece_of(&task.segments[segment], ByteLen(0));
        let what = What::Copy { task, segment, within: ByteLen(0) };
        Some(Self { what, done: ByteLen(0), piece })
    }

    /// Continues with the next piece. Returns `false` after the last one.
    pub fn advance(&mut self) -> bool {
        let len = self.piece.len();
        self.done.0 += len.0;
        match &mut self.what {
            What::Transfer(task) => {
                if self.done >= len_of(task) {
                    return false;
                }
                self.piece.task = part(task, self.done);
            }
            What::Copy { task, segment, within } => {
                within.0 += len.0;
                if *within >= task.segments[*segment].len {
                    (*segment, *within) = match first_from(&task.segments, *segment + 1) {
                        Some(next) => (next, ByteLen(0)),
                        None => (task.segments.len(), ByteLen(0)),
                    };
                }
                let Some(now) = task.segments.get(*segment) else { return false };
                self.piece = piece_of(now, *within);
            }
        }
        true
    }

    /// The copy; `None` for a transfer.
    pub const fn copy(&self) -> Option<&CopyTask> {
        match &self.what {
            What::Copy { task, .. } => Some(task),
            What::Transfer(_) => None,
        }
    }

    /// The progress of a copy, for RECEIVE COPY RESULTS.
    pub fn progress(&self, state: CopyState) -> CopyProgress {
        let segments = match &self.what {
            What::Copy { segment, .. } => u16::try_from(*segment).unwrap_or(u16::MAX),
            What::Transfer(_) => 0,
        };
        CopyProgress { state, segments, copied: self.done }
    }

    /// The result of the command after a piece.
    ///
    /// # Errors
    /// The status and sense data of a failed piece. Blocks that a copy has changed stay changed, which
    /// COPY ABORTED reports. SPC-4, 6.4.
    pub fn answer(&self, completion: &Completion) -> Result<(), Failure> {
        let answer = self.piece.task.answer(completion).map(|_| ());
        if self.copy().is_none() || completion.outcome == Outcome::Success {
            return answer;
        }
        match completion.outcome {
            Outcome::Aborted => answer,
            Outcome::ReservationConflict | Outcome::WriteProtected if self.done.0 == 0 => answer,
            Outcome::VolumeGone
            | Outcome::DeviceUnavailable
            | Outcome::PathLost
            | Outcome::OutOfRange => Err(Sense::COPY_TARGET_NOT_REACHABLE.into()),
            _ => Err(Sense::COPY_DEVICE_FAILURE.into()),
        }
    }
}

impl Piece {
    /// The number of bytes that it moves.
    fn len(&self) -> ByteLen {
        match self.task.action {
            Action::Copy { .. } => {
                self.task.block_size.len(self.task.range.count).unwrap_or_default()
            }
            _ => len_of(&self.task),
        }
    }
}

/// The data length. Data moves in one direction only.
fn len_of(task: &RequestTask) -> ByteLen {
    task.data_out.max(task.data_in)
}

/// The piece of a transfer after `done` bytes.
fn part(whole: &RequestTask, done: ByteLen) -> RequestTask {
    let left = ByteLen(len_of(whole).0 - done.0);
    let len = left.min(BUFFER_LEN_MAX);
    let action = match whole.action {
        // Only the last piece can end within a block.
        Action::WriteBytes { force_unit_access, .. } if len < left => {
            Action::Write { force_unit_access }
        }
        Action::WriteBytes { force_unit_access, .. } => {
            let len = u32::try_from(len.0).expect("a buffer is far below 4 GiB");
            Action::WriteBytes { len, force_unit_access }
        }
        ref other => other.clone(),
    };
    let if_any = |data: ByteLen| if data.0 > 0 { len } else { data };
    RequestTask {
        action,
        range: range_of(whole.block_size, whole.range.start, done, len),
        data_out: if_any(whole.data_out),
        data_in: if_any(whole.data_in),
        ..whole.clone()
    }
}

fn range_of(block_size: BlockSize, start: Lba, skip: ByteLen, len: ByteLen) -> BlockRange {
    let rounded = ByteLen(len.0 + u64::from(block_size.bytes()) - 1);
    let start = start.checked_add(block_size.blocks_in(skip)).expect("all of it lies in a volume");
    BlockRange { start, count: block_size.blocks_in(rounded) }
}

/// The first segment that is not empty, starting at `index`.
fn first_from(segments: &[CopySegment], index: usize) -> Option<usize> {
    (index..segments.len()).find(|index| segments[*index].len.0 > 0)
}

/// The piece of a segment after `done` bytes. If source and destination are in one volume and the
/// destination is behind the source, the segment is copied from its end, so that no block is
/// overwritten before it is copied.
fn piece_of(segment: &CopySegment, done: ByteLen) -> Piece {
    let CopySegment { source, destination, len: whole } = *segment;
    let len = ByteLen(whole.0 - done.0).min(BUFFER_LEN_MAX);
    let is_backwards = source.volume == destination.volume && source.start.0 < destination.start.0;
    let skip = if is_backwards { ByteLen(whole.0 - done.0 - len.0) } else { done };
    let range = |end: CopyEnd| range_of(end.block_size, end.start, skip, len);
    let action = Action::Copy { source: source.volume, from: range(source) };
    let task = RequestTask::new(action, range(destination), destination.block_size);
    Piece { volume: destination.volume, task }
}

#[cfg(test)]
mod tests {
    use nearflash_units::{Blocks, MIB};

    use super::*;

    fn pieces(mut series: Series) -> Vec<RequestTask> {
        let mut pieces = vec![series.piece.task.clone()];
        while series.advance() {
            pieces.push(series.piece.task.clone());
        }
        pieces
    }

    fn transfer(action: Action, blocks: u64, data_out: ByteLen) -> RequestTask {
        let range = BlockRange { start: Lba(7), count: Blocks(blocks) };
        RequestTask { data_out, ..RequestTask::new(action, range, BlockSize::B512) }
    }

    #[test]
    fn the_pieces_of_a_write_are_its_blocks_in_order_and_the_last_may_end_within_one() {
        let action = Action::WriteBytes { len: 2 * 1024 * 1024 + 700, force_unit_access: true };
        let whole = transfer(action, 4096 + 2, ByteLen(2 * MIB + 700));
        let pieces = pieces(Series::of_transfer(VolumeId(1), whole));
        let of = |piece: &RequestTask| (piece.range.start.0, piece.range.count.0, piece.data_out.0);
        let all: Vec<_> = pieces.iter().map(of).collect();
        assert_eq!(all, [(7, 2048, MIB), (2055, 2048, MIB), (4103, 2, 700)]);
        assert_eq!(pieces[1].action, Action::Write { force_unit_access: true });
        assert_eq!(pieces[2].action, Action::WriteBytes { len: 700, force_unit_access: true });
        assert!(pieces.iter().all(|piece| piece.buffer_len() <= BUFFER_LEN_MAX));
    }

    fn segment(source: u64, destination: u64, len: u64) -> CopySegment {
        let end =
            |start| CopyEnd { volume: VolumeId(1), block_size: BlockSize::B512, start: Lba(start) };
        CopySegment { source: end(source), destination: end(destination), len: ByteLen(len) }
    }

    #[test]
    fn a_copy_goes_by_its_segments_and_each_in_the_direction_that_loses_nothing() {
        let segments = [
            segment(0, 0, 0),
            segment(5000, 100, 2 * MIB + 512),
            segment(9, 9, 0),
            segment(100, 200, MIB + 512),
        ];
        let task = CopyTask { id: None, segments: segments.into() };
        let series = Series::of_copy(task).unwrap();
        assert_eq!(series.progress(CopyState::InProgress).segments, 1);
        let of = |task: RequestTask| match task.action {
            Action::Copy { from, .. } => (from.start.0, task.range.start.0, task.range.count.0),
            other => panic!("{other:?}"),
        };
        let all: Vec<_> = pieces(series).into_iter().map(of).collect();
        let forwards = [(5000, 100, 2048), (7048, 2148, 2048), (9096, 4196, 1)];
        let backwards = [(101, 201, 2048), (100, 200, 1)];
        assert_eq!(all, [&forwards[..], &backwards].concat());
        assert_eq!(Series::of_copy(CopyTask { id: None, segments: [segments[0]].into() }), None);
    }
}
