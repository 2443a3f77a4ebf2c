//! The parameters that the two ends of a session negotiate.
//!
//! Spec: RFC 7143, 6.2 (negotiation) and 13 (keys). Both ends use [`Negotiation`]. The module
//! `login` handles the names of initiator and target, and authentication.

mod keys;
mod negotiation;
#[cfg(test)]
mod tests;

pub use keys::SessionParams;
pub use negotiation::{Negotiation, ParamError, answer_in_full_feature_phase};

use crate::Digests;

/// The lowest valid MaxRecvDataSegmentLength or burst length.
pub const LEN_MIN: u32 = 512;
/// The highest.
pub const LEN_MAX: u32 = (1 << 24) - 1;
/// MaxRecvDataSegmentLength of an end that declares none.
pub const RECEIVE_LEN_DEFAULT: u32 = 8192;

/// Parameters of one connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionParams {
    /// The negotiated digests.
    pub digests: Digests,
    /// MaxRecvDataSegmentLength of this end: the most data in a PDU that it takes.
    pub receive_len_max: u32,
    /// MaxRecvDataSegmentLength of the peer: the most data in a PDU that is sent.
    pub send_len_max: u32,
}

impl Default for ConnectionParams {
    fn default() -> Self {
        Self {
            digests: Digests::NONE,
            receive_len_max: RECEIVE_LEN_DEFAULT,
            send_len_max: RECEIVE_LEN_DEFAULT,
        }
    }
}

/// The digests that an end accepts for header or data, the preferred one first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DigestWish {
    /// None.
    #[default]
    None,
    /// None rather than CRC-32C.
    PreferNone,
    /// CRC-32C rather than none.
    PreferCrc,
    /// CRC-32C only.
    Crc,
}

/// The values that one end offers or accepts in a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offer {
    /// The session's parameters. Where a responder has no preference, it offers the highest value
    /// that it accepts.
    pub session: SessionParams,
    /// MaxRecvDataSegmentLength that this end declares.
    pub receive_len_max: u32,
    /// HeaderDigest.
    pub header_digest: DigestWish,
    /// DataDigest.
    pub data_digest: DigestWish,
}

/// The keys that may be negotiated in a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scope {
    /// A discovery session, where most keys are irrelevant.
    pub is_discovery: bool,
    /// The first connection of a session: the session's keys are negotiated only here.
    pub is_leading: bool,
}
