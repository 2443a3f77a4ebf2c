//! The messages of a transaction. NVMe Base 2.0, 8.13.5.
//!
//! A message is a header of fixed length, and values whose lengths the header and the agreed hash and group give.

use nearflash_session::{codes, wire};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length of the longest message: a reply with a SHA-512 response, a challenge and an ffdhe8192 value.
pub const MESSAGE_LEN_MAX: usize = size_of::<Reply>() + 2 * 64 + 1024;

/// AuthID of DH-HMAC-CHAP in a protocol descriptor.
pub(super) const DHCHAP_PROTOCOL: u8 = 1;
/// The number of entries of each list in a protocol descriptor.
pub(super) const LIST_LEN: usize = 30;
/// SC_C: no secure channel is concatenated to the authentication.
pub(super) const NO_SECURE_CHANNEL: u8 = 0;

wire! {
    /// The beginning of every message.
    pub(super) struct Header: [u8; 6] {
        pub(super) kind: Kind,
        pub(super) reserved: U16,
        pub(super) transaction: U16 = "T_ID: chosen by the host for each transaction",
    }

    /// AUTH_Negotiate, from the host; protocol descriptors follow.
    pub(super) struct Negotiate: [u8; 8] {
        pub(super) header: Header,
        pub(super) secure_channel: u8 = "SC_C",
        pub(super) descriptors: u8 = "NAPD: the number of descriptors",
    }

    /// A protocol descriptor for DH-HMAC-CHAP: what the host offers.
    pub(super) struct Descriptor: [u8; 64] {
        pub(super) protocol: u8 = "AuthID",
        pub(super) reserved: u8,
        pub(super) hashes: u8 = "HALEN",
        pub(super) groups: u8 = "DHLEN",
        pub(super) hash_ids: [u8; LIST_LEN] = "IDLIST: the hashes",
        pub(super) group_ids: [u8; LIST_LEN] = "IDLIST: the groups",
    }

    /// DH-HMAC-CHAP_Challenge, from the controller; the challenge and the public value follow.
    pub(super) struct Challenge: [u8; 16] {
        pub(super) header: Header,
        pub(super) hash_len: u8 = "HL",
        pub(super) reserved: u8,
        pub(super) hash_id: u8 = "HashID",
        pub(super) group_id: u8 = "DHgID",
        pub(super) value_len: U16 = "DHVLEN",
        pub(super) sequence: U32 = "SEQNUM",
    }

    /// DH-HMAC-CHAP_Reply, from the host; the response, a challenge and the public value follow.
    pub(super) struct Reply: [u8; 16] {
        pub(super) header: Header,
        pub(super) hash_len: u8 = "HL",
        pub(super) reserved: u8,
        pub(super) challenge_valid: u8 = "CVALID: the host challenges the controller",
        pub(super) reserved2: u8,
        pub(super) value_len: U16 = "DHVLEN",
        pub(super) sequence: U32 = "SEQNUM",
    }

    /// DH-HMAC-CHAP_Success1, from the controller; its response follows.
    pub(super) struct Success1: [u8; 16] {
        pub(super) header: Header,
        pub(super) hash_len: u8 = "HL",
        pub(super) reserved: u8,
        pub(super) response_valid: u8 = "RVALID",
        pub(super) reserved2: [u8; 7],
    }

    /// DH-HMAC-CHAP_Success2, from the host.
    pub(super) struct Success2: [u8; 16] {
        pub(super) header: Header,
        pub(super) reserved: [u8; 10],
    }

    /// AUTH_Failure1, from the controller, and AUTH_Failure2, from the host.
    pub(super) struct Failure: [u8; 8] {
        pub(super) header: Header,
        pub(super) reason: u8 = "Reason code",
        pub(super) explanation: u8 = "Reason code explanation",
    }
}

/// The only reason code: the authentication failed.
pub(super) const REASON_FAILED: u8 = 1;

/// AUTH_TYPE and AUTH_ID: which message it is.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub(super) struct Kind(pub(super) [u8; 2]);

impl Kind {
    pub(super) const NEGOTIATE: Self = Self([0x00, 0x00]);
    pub(super) const FAILURE2: Self = Self([0x00, 0xF0]);
    pub(super) const FAILURE1: Self = Self([0x00, 0xF1]);
    pub(super) const CHALLENGE: Self = Self([0x01, 0x01]);
    pub(super) const REPLY: Self = Self([0x01, 0x02]);
    pub(super) const SUCCESS1: Self = Self([0x01, 0x03]);
    pub(super) const SUCCESS2: Self = Self([0x01, 0x04]);

    pub(super) fn header(self, transaction: u16) -> Header {
        Header { kind: self, reserved: U16::ZERO, transaction: transaction.into() }
    }
}

/// Reason code explanation: why an authentication failed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Explanation(pub u8);

codes! { Explanation {
    /// The response is not that of the key, or there is no key.
    FAILED = 1, "authentication failed";
    PROTOCOL_NOT_USABLE = 2, "authentication protocol not usable";
    SECURE_CHANNEL_MISMATCH = 3, "secure channel concatenation mismatch";
    HASH_NOT_USABLE = 4, "hash function not usable";
    GROUP_NOT_USABLE = 5, "Diffie-Hellman group not usable";
    /// A length or a value is not valid.
    INCORRECT_PAYLOAD = 6, "incorrect payload";
    /// The message is not the next one.
    INCORRECT_MESSAGE = 7, "incorrect protocol message";
} }

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known() {
            Some((_, words)) => f.pad(words),
            None => write!(f, "reason {:#04x}", self.0),
        }
    }
}

impl Failure {
    pub(super) fn new(kind: Kind, transaction: u16, explanation: Explanation) -> Self {
        let header = kind.header(transaction);
        Self { header, reason: REASON_FAILED, explanation: explanation.0 }
    }
}

impl Descriptor {
    /// The hashes or groups in the order in which the host lists them.
    pub(super) fn listed(ids: &[u8; LIST_LEN], count: u8) -> &[u8] {
        &ids[..usize::from(count).min(LIST_LEN)]
    }

    pub(super) fn hash_ids(&self) -> &[u8] {
        Self::listed(&self.hash_ids, self.hashes)
    }

    pub(super) fn group_ids(&self) -> &[u8] {
        Self::listed(&self.group_ids, self.groups)
    }
}

/// The values behind a message's header, one after the other.
pub(super) struct Values<'a>(pub(super) &'a [u8]);

impl<'a> Values<'a> {
    /// The next value; `None` if the message is too short.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (value, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(value)
    }
}

/// The message of this type at the beginning of the bytes, and the values behind it.
pub(super) fn read<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
) -> Option<(&T, Values<'_>)> {
    T::ref_from_prefix(bytes).ok().map(|(message, rest)| (message, Values(rest)))
}
