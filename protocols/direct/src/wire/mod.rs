//! The protocol's wire structures. All numbers are little-endian.
//!
//! They are defined in `docs/direct-protocol.md`. This module has no sessions, sockets or memory.

mod handshake;
mod opcode;
mod seal;
mod status;

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};

pub use handshake::{
    AttachRequest, Features, HelloAnswer, HelloRequest, OpenAnswer, Rights, VERSION,
};
pub use opcode::Opcode;
pub use seal::{
    BEARER_GOOD_MAX, BEARER_LEN_MAX, Bearer, BearerError, RevokeRequest, Run, SALT_LEN,
    SEAL_GOOD_MAX, SEAL_LEN_MAX, SEAL_MAC_LEN, SEAL_RUNS_MAX, Seal, SealError, SealKey,
    SealKeyAnswer, SealTerms, SealToken, TokenError, operator_name,
};
pub(crate) use seal::{BearerId, RUN_UNIT, is_operator};
pub use status::Status;

/// The length of every header, and of every entry of a ring.
pub const HEADER_LEN: usize = 32;

/// The maximum length of a segment, the part of a request's payload between two multiples of this
/// number in the volume's bytes. A data digest follows each segment, and each part of a read's
/// answer is one segment.
pub const SEGMENT_LEN_MAX: u32 = 1 << 20;

/// The maximum number of bytes that one request may read or write.
pub const LEN_MAX: u32 = 8 << 20;

/// The longest payload that is not a volume's bytes, except that of FILES.
pub const SMALL_LEN_MAX: u32 = 1024;

/// The longest payload of FILES and of its answer.
pub const FILES_LEN_MAX: u32 = 69_632;

/// The maximum number of requests that a session may have in flight. Tags are below it.
pub const CREDITS_MAX: u32 = 4096;

/// Length and alignment of the word of compare-and-swap and fetch-add.
pub const WORD_LEN: u32 = 8;

/// The longest name of a volume, and of a key, in bytes.
pub const NAME_LEN_MAX: usize = 63;

/// Length of the nonces, in bytes.
pub const NONCE_LEN: usize = 16;

/// Length of proofs, in bytes.
pub const PROOF_LEN: usize = 32;

/// The length of the longest name of this kind in HELLO: of a key or of a bearer, in bytes.
pub(crate) fn key_len_max(key: &[u8]) -> usize {
    if key.starts_with(b"~") { BEARER_LEN_MAX } else { NAME_LEN_MAX }
}

/// Length of the identity in CLAIM, in bytes.
pub const IDENTITY_LEN: usize = 16;

/// The volume field of an OPEN that requests a new handle.
pub const NEW_HANDLE: u16 = 0xFFFF;

/// The length of the blocks of which DIGEST gives the digests.
pub const DIGEST_BLOCK_LEN: u32 = 4096;

/// The longest range of DIGEST, in bytes.
pub const DIGEST_LEN_MAX: u32 = 1 << 20;

/// Length of the key of DIGEST, in bytes.
pub const DIGEST_KEY_LEN: usize = 16;

/// Length of the digest of a block, in bytes.
pub const BLOCK_DIGEST_LEN: u32 = 16;

/// The tag of a GOODBYE that refers to no request.
pub const NO_TAG: u32 = 0xFFFF_FFFF;

wire! {
    /// A request's header.
    #[derive(Default)]
    pub struct RequestHeader: [u8; HEADER_LEN] {
        pub opcode: u8 = "The operation",
        /// [`RequestHeader::DURABLE`], [`RequestHeader::DEALLOCATE`]; the others are 0.
        pub flags: u8,
        pub volume: U16 = "The volume's handle, as returned by OPEN",
        /// Returned with the answer. Below the session's credits for requests on volumes.
        pub tag: U32,
        pub offset: U64 = "The first byte in the volume",
        pub len: U32 = "The length of the range in bytes",
        pub epoch: U32 = "The volume's epoch, as returned by OPEN; on a face of a mirror, the term",
        /// In a ring, the place of the payload in the data area. In a stream: on the replica face of a
        /// mirror, the session, and otherwise 0.
        pub place: U32,
        /// CRC-32C of the preceding 28 bytes, if header digests were agreed; otherwise 0.
        pub digest: U32,
    }
}

impl RequestHeader {
    /// On stable media before the answer.
    pub const DURABLE: u8 = 1;
    /// ZERO: the storage of the blocks may be released.
    pub const DEALLOCATE: u8 = 2;

    /// The header as words, but for its digest: they go from registers to their place.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 4] {
        let start = u64::from(self.tag.get()) << 32
            | u64::from(self.volume.get()) << 16
            | u64::from(self.flags) << 8
            | u64::from(self.opcode);
        let len = u64::from(self.epoch.get()) << 32 | u64::from(self.len.get());
        [start, self.offset.get(), len, u64::from(self.place.get())]
    }
}

wire! {
    /// The payload of DIGEST.
    #[derive(Default)]
    pub struct DigestRequest: [u8; DigestRequest::LEN as usize] {
        pub key: [u8; DIGEST_KEY_LEN] = "The key of the digests: random, and new for each copy of a mirror",
        pub range_len: U32 = "The length of the range in bytes: whole blocks, at most [`DIGEST_LEN_MAX`]",
        pub(crate) reserved: U32,
    }
}

impl DigestRequest {
    /// Its length.
    pub const LEN: u32 = 24;
}

wire! {
    /// An answer's header.
    #[derive(Default)]
    pub struct AnswerHeader: [u8; HEADER_LEN] {
        pub opcode: u8 = "The request's opcode, with [`Opcode::ANSWER`] set",
        pub flags: u8 = "[`AnswerHeader::MORE`], [`AnswerHeader::RECEIVED`]; the others are 0",
        pub status: U16 = "The result of the request. See [`Status`]",
        pub tag: U32 = "The request's",
        /// READ: the offset of this payload in the requested range. COMPARE_AND_SWAP, FETCH_ADD:
        /// the previous word. STALE_EPOCH: the volume's epoch. NOT_PRIMARY, STALE_TERM: the term.
        /// Otherwise 0.
        pub value: U64,
        pub len: U32 = "The length in bytes of the payload that follows",
        pub credits: U32 = "The number of requests that the client may have in flight from now on",
        pub(crate) reserved: U32,
        pub digest: U32 = "As in [`RequestHeader::digest`]",
    }
}

impl AnswerHeader {
    /// Another part of this answer follows, possibly after other answers.
    pub const MORE: u8 = 1;
    /// Not the answer, but the news that a WRITE or ZERO on the replica face of a mirror was accepted and
    /// will be applied. The answer follows.
    pub const RECEIVED: u8 = 2;

    /// The result of the request.
    pub fn status(&self) -> Status {
        Status(self.status.get())
    }

    /// The header as words, but for its digest: they go from registers to their place.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 4] {
        let start = u64::from(self.tag.get()) << 32
            | u64::from(self.status.get()) << 16
            | u64::from(self.flags) << 8
            | u64::from(self.opcode);
        let len = u64::from(self.credits.get()) << 32 | u64::from(self.len.get());
        [start, self.value.get(), len, u64::from(self.reserved.get())]
    }
}
