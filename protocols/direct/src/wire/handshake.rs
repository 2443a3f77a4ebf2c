//! The payload of the session's own messages: HELLO, OPEN, ATTACH. The payload of PROVE is just a
//! proof.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};

use super::NONCE_LEN;
use crate::Digests;

/// The version of the protocol that this crate implements.
pub const VERSION: u16 = 1;

wire! {
    /// Optional features that both ends can agree on, as bits.
    pub struct Features(pub U32);
}

impl Features {
    /// CRC-32C in every header after the answer to HELLO.
    pub const HEADER_DIGEST: u32 = 1;
    /// CRC-32C after all payload that follows the answer to HELLO.
    pub const DATA_DIGEST: u32 = 2;
    /// ATTACH is supported: rings in shared memory. Offered on Unix sockets.
    pub const RINGS: u32 = 4;
    /// ZERO is supported. Older nodes and clients do not set this bit.
    pub const ZERO: u32 = 8;
    /// SEAL_KEY, OPEN_SEALED and REVOKE are supported. Older nodes and clients do not set this bit.
    pub const SEALS: u32 = 16;

    /// Whether all of `bits` are set.
    pub fn has(self, bits: u32) -> bool {
        self.0.get() & bits == bits
    }

    /// The digests among them.
    pub(crate) fn digests(self) -> Digests {
        Digests { header: self.has(Self::HEADER_DIGEST), data: self.has(Self::DATA_DIGEST) }
    }

    pub(crate) const fn of(digests: Digests) -> u32 {
        let header = if digests.header { Self::HEADER_DIGEST } else { 0 };
        let data = if digests.data { Self::DATA_DIGEST } else { 0 };
        header | data
    }
}

wire! {
    /// HELLO: the client's identity, and the features that it requests. The key's name follows, up
    /// to [`super::NAME_LEN_MAX`] bytes; it is empty for an anonymous client.
    pub struct HelloRequest: [u8; 32] {
        pub magic: [u8; 8] = "[`HelloRequest::MAGIC`]",
        pub version_min: U16 = "The lowest version that the client supports",
        pub version_max: U16 = "The highest",
        pub features: Features = "The features that the client requests",
        pub nonce: [u8; NONCE_LEN] = "Random bytes, fresh for this connection",
    }
}

impl HelloRequest {
    /// The first payload bytes of every connection.
    pub const MAGIC: [u8; 8] = *b"NFDIRECT";
}

wire! {
    /// The answer to HELLO: the agreed version and features, and the node's limits.
    pub struct HelloAnswer: [u8; 48] {
        pub version: U16 = "The version in use from now on",
        pub proof_wanted: u8 = "1 if PROVE must come next; 0 if the client is admitted",
        pub(crate) reserved0: u8,
        pub features: Features = "The agreed features: a subset of those that the client requests",
        pub len_max: U32 = "The maximum number of bytes that a request may read or write",
        pub segment_len_max: U32 = "[`super::SEGMENT_LEN_MAX`]",
        pub credits_max: U32 = "Tags are below this number, which also limits the requests in flight",
        pub handles_max: U32 = "The number of volumes that can be open at a time",
        /// Another number when writes that were answered, and that no answered FLUSH followed, may
        /// have been lost since the last connection. 0: the node does not say.
        pub boot: U64,
        pub nonce: [u8; NONCE_LEN] = "Random, and generated for this connection",
    }

    /// The rights that a client has on at least one byte of a volume: the union of its grants.
    pub struct Rights(pub u8);
}

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// READ.
    pub const READ: Self = Self(1);
    /// WRITE, ZERO, DISCARD and FLUSH; together with [`Rights::READ`] also COMPARE_AND_SWAP and
    /// FETCH_ADD.
    pub const WRITE: Self = Self(2);
    /// Everything.
    pub const READ_WRITE: Self = Self(3);

    /// Whether all of `other` is among them.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

wire! {
    /// The answer to OPEN. The handle is `value` of the header.
    pub struct OpenAnswer: [u8; 40] {
        pub bytes: U64 = "The volume's length in bytes",
        pub block_size: U32 = "The volume's block size in bytes",
        pub epoch: U32 = "Part of every request for this volume",
        pub uuid: [u8; 16] = "Distinguishes the volume from a later one of the same name",
        pub rights: Rights = "The client's rights on the volume",
        pub(crate) reserved: [u8; 7],
    }

    /// ATTACH: the rings that the client requests.
    pub struct AttachRequest: [u8; 16] {
        pub entries: U32 = "Of the submission ring: a power of two, at most the session's credits",
        pub(crate) reserved: U32,
        pub data_len: U64 = "Of the data area, in bytes",
    }
}
