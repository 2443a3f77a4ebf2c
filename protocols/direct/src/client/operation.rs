//! The operations that an application can request.

use nearflash_request::BufferId;
use zerocopy::little_endian::U32;

use crate::block_digest::digests_len;
use crate::wire::{DIGEST_KEY_LEN, DigestRequest, Opcode, RequestHeader, WORD_LEN};

/// An operation on a volume.
///
/// `offset` and `len` are in bytes; the offset of a word is a multiple of 8. With `durable`, the
/// data is on stable media before the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "fields of several operations mean the same in each")]
pub enum ClientOperation {
    /// Bytes into a buffer of the caller's.
    Read {
        /// Must hold `len` bytes until the request completes. Ignored with rings.
        buffer: BufferId,
        offset: u64,
        len: u32,
    },
    /// Bytes from a buffer of the caller's.
    Write {
        /// Its bytes must not change until the request completes. Ignored with rings.
        buffer: BufferId,
        offset: u64,
        len: u32,
        durable: bool,
    },
    /// Makes every request that was answered before durable on stable media.
    Flush,
    /// The contents of these bytes are no longer needed. Only whole blocks are discarded.
    Discard { offset: u64, len: u32 },
    /// Zeroes whole blocks. Allowed only if the node agreed to it: [`super::Agreed::zero`].
    Zero {
        offset: u64,
        len: u32,
        /// The storage of the blocks may be released.
        deallocate: bool,
        durable: bool,
    },
    /// Replaces the word by `new` if it equals `expected`. Completes with the previous word.
    CompareAndSwap { offset: u64, expected: u64, new: u64, durable: bool },
    /// Adds `addend` to the word. Completes with the previous word.
    FetchAdd { offset: u64, addend: u64, durable: bool },
    /// The digests of blocks into a buffer of the caller's: [`crate::block_digest`]. Only on the replica
    /// face of a mirror, by the stream.
    Digest {
        /// Must hold [`crate::digests_len`] of `len` bytes until the request completes.
        buffer: BufferId,
        offset: u64,
        len: u32,
        key: [u8; DIGEST_KEY_LEN],
    },
}

/// The fields of a header that depend on the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) opcode: Opcode,
    pub(super) flags: u8,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl ClientOperation {
    /// The operands of an atomic operation in the form of the rings' data area, and their length.
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
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Flush
            | Self::Discard { .. }
            | Self::Zero { .. }
            | Self::Digest { .. } => 0,
        };
        (operands, len)
    }

    /// The payload of a DIGEST.
    pub(super) fn digest_request(&self) -> Option<DigestRequest> {
        let Self::Digest { len, key, .. } = *self else { return None };
        Some(DigestRequest { key, range_len: U32::new(len), ..DigestRequest::default() })
    }

    /// The length of the data of the request, or of its answer.
    #[inline]
    pub(super) fn data_len(&self, fields: &Fields) -> u32 {
        if let Self::Digest { len, .. } = *self { digests_len(len) } else { fields.len }
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
            Self::Zero { offset, len, deallocate, durable } => {
                let deallocate = if deallocate { RequestHeader::DEALLOCATE } else { 0 };
                Fields { opcode: Opcode::ZERO, flags: flags(durable) | deallocate, offset, len }
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
            Self::Digest { offset, .. } => {
                Fields { opcode: Opcode::DIGEST, flags: 0, offset, len: DigestRequest::LEN }
            }
        }
    }
}
