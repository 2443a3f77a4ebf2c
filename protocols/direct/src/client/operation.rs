//! The operations that an application can request.

use nearflash_request::BufferId;

use crate::wire::{Opcode, RequestHeader, WORD_LEN};

/// An operation on a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientOperation {
    /// Bytes into a buffer of the caller's.
    Read {
        /// Must hold `len` bytes until the request completes. Not looked at with rings.
        buffer: BufferId,
        /// From where in the volume.
        offset: u64,
        /// The length in bytes.
        len: u32,
    },
    /// Bytes from a buffer of the caller's.
    Write {
        /// Its bytes stay as they are until the request completes. Not looked at with rings.
        buffer: BufferId,
        /// To where in the volume.
        offset: u64,
        /// The length in bytes.
        len: u32,
        /// On stable media before the answer.
        durable: bool,
    },
    /// Everything answered before is on stable media before the answer.
    Flush,
    /// The contents of these bytes are no longer needed. Only whole blocks are discarded.
    Discard {
        /// From where in the volume.
        offset: u64,
        /// The length in bytes.
        len: u32,
    },
    /// If the word is `expected`, it becomes `new`. Completes with the word that was there.
    CompareAndSwap {
        /// The first byte of the word in the volume: a multiple of 8.
        offset: u64,
        /// The word that must be there.
        expected: u64,
        /// The word that replaces it.
        new: u64,
        /// On stable media before the answer.
        durable: bool,
    },
    /// The word becomes the sum of itself and `addend`. Completes with the word that was there.
    FetchAdd {
        /// The first byte of the word in the volume: a multiple of 8.
        offset: u64,
        /// The number to add.
        addend: u64,
        /// On stable media before the answer.
        durable: bool,
    },
}

/// The fields of a header that an operation decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) opcode: Opcode,
    pub(super) flags: u8,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl ClientOperation {
    /// The operands of an atomic operation as in the data area of rings, and their length.
    pub fn operands(&self) -> ([u8; 16], usize) {
        let mut operands = [0; 16];
        let mut put = |words: &[u64]| {
            for (place, word) in operands.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            words.len() * 8
        };
        let len = match *self {
            Self::CompareAndSwap { expected, new, .. } => put(&[expected, new]),
            Self::FetchAdd { addend, .. } => put(&[addend]),
            Self::Read { .. } | Self::Write { .. } | Self::Flush | Self::Discard { .. } => 0,
        };
        (operands, len)
    }

    #[inline]
    pub(super) fn fields(&self) -> Fields {
        let flags = |durable| if durable { RequestHeader::DURABLE } else { 0 };
        match *self {
            Self::Read { offset, len, .. } => {
                Fields { opcode: Opcode::READ, flags: 0, offset, len }
            }
            Self::Write { offset, len, durable, .. } => {
                Fields { opcode: Opcode::WRITE, flags: flags(durable), offset, len }
            }
            Self::Flush => Fields { opcode: Opcode::FLUSH, flags: 0, offset: 0, len: 0 },
            Self::Discard { offset, len } => {
                Fields { opcode: Opcode::DISCARD, flags: 0, offset, len }
            }
            Self::CompareAndSwap { offset, durable, .. } => Fields {
                opcode: Opcode::COMPARE_AND_SWAP,
                flags: flags(durable),
                offset,
                len: 2 * WORD_LEN,
            },
            Self::FetchAdd { offset, durable, .. } => {
                Fields { opcode: Opcode::FETCH_ADD, flags: flags(durable), offset, len: WORD_LEN }
            }
        }
    }
}
