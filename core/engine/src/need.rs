//! The pool bytes that requests need in addition to the buffers that they bring along.
//!
//! They are charged to the connection when its request is admitted. Comparisons and changes always
//! complete, even when the pool is empty: the engine keeps one largest buffer back for them, its
//! reserve.

use nearflash_request::{BufferId, Operation, Request};
use nearflash_space::VolumeEntry;
use nearflash_units::ByteLen;

use crate::engine::Engine;
use crate::job::brought;
use crate::pool::Pool;

/// The pool bytes that the engine takes for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// A buffer that is handed over with the answer.
    Read(ByteLen),
    /// A buffer for the engine alone, as long as the request lasts. When the pool has none, the
    /// engine's reserve serves one request after the other.
    Scratch(ByteLen),
}

impl Need {
    pub(crate) const NOTHING: Self = Self::Read(ByteLen(0));

    /// The length in bytes.
    #[inline]
    pub(crate) const fn len(self) -> ByteLen {
        match self {
            Self::Read(len) | Self::Scratch(len) => len,
        }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.len().0 == 0
    }
}

/// Whether a request brings a buffer with payload. Such a request never waits for the pool: its
/// scratch and its edges have reserves.
#[inline]
pub(crate) fn brings_payload(operation: &Operation) -> bool {
    !matches!(operation, Operation::ReadInto { .. }) && brought(operation) != (None, None)
}

impl Engine {
    /// The pool bytes that a request needs in addition to the buffers that it brings along.
    #[inline]
    pub(crate) fn need(&self, entry: Option<&VolumeEntry>, request: &Request) -> Need {
        match request.operation {
            Operation::Read => Need::Read(self.read_buffer_len(entry, request)),
            Operation::ReadInto { .. }
            | Operation::Write { .. }
            | Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Deallocate { .. }
            | Operation::Allocation
            | Operation::Admit(_) => Need::NOTHING,
            _ => Need::Scratch(scratch_len(entry, request)),
        }
    }

    /// Zero for a device that reads as zeroes.
    #[inline]
    fn read_buffer_len(&self, entry: Option<&VolumeEntry>, request: &Request) -> ByteLen {
        match entry {
            Some(entry) if !self.layout.reads_as_zeroes(request.volume) => {
                Pool::charge(entry.block_size.len(request.range.count).unwrap_or_default())
            }
            _ => ByteLen(0),
        }
    }

    /// A scratch buffer of at least that length: from the pool, or the reserve if the pool would
    /// keep less than [`Pool::FRONT_LEN`] for the front of streams.
    pub(crate) fn scratch(&mut self, len: ByteLen, pool: &mut Pool) -> Option<BufferId> {
        let leaves_enough = pool.would_leave(Pool::FRONT_LEN, len);
        let taken = if leaves_enough { pool.take(len) } else { None };
        taken.or_else(|| self.reserve.take())
    }

    /// Refills the reserve first, so that comparisons and changes can always proceed.
    pub(crate) fn give_back_scratch(&mut self, scratch: BufferId, pool: &mut Pool) {
        if self.reserve.is_none() && pool.len_of(scratch) == Pool::LEN_MAX {
            self.reserve = Some(scratch);
        } else {
            pool.give_back(scratch);
        }
    }
}

/// The scratch bytes of a request: blocks to compare, change or copy, or Write Same's block.
fn scratch_len(entry: Option<&VolumeEntry>, request: &Request) -> ByteLen {
    let Some(entry) = entry else { return ByteLen(0) };
    let block = ByteLen(entry.block_size.bytes().into());
    let len = match &request.operation {
        // The first block and the last, at most.
        Operation::WriteBytes { .. } => ByteLen(2 * block.0),
        Operation::CompareAndSwap { .. } | Operation::FetchAdd { .. } => block,
        // Compares in one step, of at least one block.
        Operation::Compare { .. }
        | Operation::CompareAndWrite { .. }
        | Operation::WriteAndVerify { .. } => {
            entry.block_size.len(request.range.count).unwrap_or_default().max(block)
        }
        _ => entry.block_size.len(request.range.count).unwrap_or_default(),
    };
    if len.0 == 0 { len } else { Pool::charge(len.min(Pool::LEN_MAX)) }
}
