//! The pool bytes that requests need in addition to the buffers that they bring along.
//!
//! They are charged to the connection when its request is admitted. Comparisons and changes always
//! complete, even when the pool is empty: the engine keeps one largest buffer back for them, its
//! reserve.

use nearflash_layout::Layout;
use nearflash_request::{BufferId, Operation, Request};
use nearflash_space::VolumeEntry;
use nearflash_units::ByteLen;

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

    /// The need of a request on the volume of `entry`.
    #[inline]
    pub(crate) fn of(request: &Request, entry: Option<&VolumeEntry>, layout: &Layout) -> Self {
        match request.operation {
            Operation::Read => Self::Read(read_buffer_len(request, entry, layout)),
            Operation::ReadInto { .. }
            | Operation::Write { .. }
            | Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Deallocate { .. }
            | Operation::Allocation
            | Operation::Admit(_) => Self::NOTHING,
            _ => Self::Scratch(scratch_len(entry, request)),
        }
    }

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

/// A buffer that is kept back from the pool. When payloads of waiting comparisons and changes fill the pool,
/// it lets them proceed one at a time; without it, none could proceed.
#[derive(Debug)]
pub(crate) struct Spare {
    len: ByteLen,
    buffer: Option<BufferId>,
}

impl Spare {
    /// Takes the buffer from the pool, if it has one.
    pub(crate) fn new(len: ByteLen, pool: &mut Pool) -> Self {
        Self { len: Pool::charge(len), buffer: pool.take(len) }
    }

    /// A buffer of at least that length: from the pool, or the spare one if the pool would keep less than
    /// [`Pool::FRONT_LEN`] for the front of streams.
    pub(crate) fn take(&mut self, len: ByteLen, pool: &mut Pool) -> Option<BufferId> {
        let leaves_enough = pool.would_leave(Pool::FRONT_LEN, len);
        let taken = if leaves_enough { pool.take(len) } else { None };
        taken.or_else(|| self.buffer.take())
    }

    /// Takes a buffer back. It becomes the spare one first, so that the next request can always proceed.
    pub(crate) fn give_back(&mut self, buffer: BufferId, pool: &mut Pool) {
        if self.buffer.is_none() && pool.len_of(buffer) == self.len {
            self.buffer = Some(buffer);
        } else {
            pool.give_back(buffer);
        }
    }
}

/// Zero for a device that reads as zeroes.
#[inline]
fn read_buffer_len(request: &Request, entry: Option<&VolumeEntry>, layout: &Layout) -> ByteLen {
    match entry {
        Some(entry) if !layout.reads_as_zeroes(request.volume) => {
            Pool::charge(entry.block_size.len(request.range.count).unwrap_or_default())
        }
        _ => ByteLen(0),
    }
}

/// The buffers that a request brings: of data, and of the bytes that are expected on the device.
#[inline]
pub(crate) fn brought(operation: &Operation) -> (Option<BufferId>, Option<BufferId>) {
    match *operation {
        Operation::ReadInto { buffer: data }
        | Operation::Write { payload: data, .. }
        | Operation::WriteBytes { payload: data, .. }
        | Operation::WriteSame { payload: data, .. }
        | Operation::OrWrite { payload: data, .. } => (Some(data), None),
        Operation::WriteAndVerify { payload: expected, .. }
        | Operation::Compare { payload: expected }
        | Operation::CompareSame { payload: expected } => (None, Some(expected)),
        Operation::CompareAndWrite { compare, write, .. } => (Some(write), Some(compare)),
        Operation::Read
        | Operation::Flush
        | Operation::WriteZeroes { .. }
        | Operation::Copy { .. }
        | Operation::Deallocate { .. }
        | Operation::Verify
        | Operation::Allocation
        | Operation::Admit(_)
        | Operation::CompareAndSwap { .. }
        | Operation::FetchAdd { .. } => (None, None),
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
