//! What the two ends of a session agree on.
//!
//! Spec: RFC 7143, 6.2 (negotiation) and 13 (keys). [`Negotiation`] is either end's. Names of
//! initiator and target, and authentication, are the login's.

mod keys;
mod negotiation;
#[cfg(test)]
mod tests;

pub use negotiation::{Negotiation, ParamError, answer_in_full_feature_phase};

use crate::Digests;

/// The lowest that MaxRecvDataSegmentLength and burst lengths may be.
pub const LEN_MIN: u32 = 512;
/// The highest.
pub const LEN_MAX: u32 = (1 << 24) - 1;
/// MaxRecvDataSegmentLength of an end that declares none.
pub const RECEIVE_LEN_DEFAULT: u32 = 8192;

/// Parameters that all connections of a session share. What an end offers, and what comes out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionParams {
    /// MaxConnections: the lower of both. 1 to 65535.
    pub max_connections: u32,
    /// InitialR2T: no unsolicited Data-Out; if either end wants it so.
    pub initial_r2t: bool,
    /// ImmediateData: data in the command's PDU; if both ends do.
    pub immediate_data: bool,
    /// MaxBurstLength: the most data that one R2T asks for, and in one sequence of Data-In.
    pub max_burst_len: u32,
    /// FirstBurstLength: the most unsolicited data of a command, immediate data among it.
    pub first_burst_len: u32,
    /// DefaultTime2Wait, in seconds: the higher of both. 0 to 3600.
    pub time_to_wait: u32,
    /// DefaultTime2Retain, in seconds: the lower of both. 0 to 3600.
    pub time_to_retain: u32,
    /// MaxOutstandingR2T: R2Ts of a task at a time. 1 to 65535.
    pub max_outstanding_r2t: u32,
    /// DataPDUInOrder.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder.
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel: the lower of both, and 0 here.
    pub error_recovery_level: u32,
    /// iSCSIProtocolLevel (RFC 7144): the lower of both.
    pub protocol_level: u32,
}

impl Default for SessionParams {
    /// What holds when nothing is said. RFC 7143, 13.
    fn default() -> Self {
        Self {
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_burst_len: 262_144,
            first_burst_len: 65_536,
            time_to_wait: 2,
            time_to_retain: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}

/// Parameters of one connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionParams {
    /// The digests agreed.
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

/// Which digests an end takes, for header or data, the one it would rather have first.
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

/// What one end brings into a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offer {
    /// The session's parameters. Those that a responder has no wish about are as high as it takes.
    pub session: SessionParams,
    /// MaxRecvDataSegmentLength that it declares.
    pub receive_len_max: u32,
    /// HeaderDigest.
    pub header_digest: DigestWish,
    /// DataDigest.
    pub data_digest: DigestWish,
}

/// Which keys may be agreed on in a login.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scope {
    /// A discovery session, where most keys mean nothing.
    pub is_discovery: bool,
    /// The first connection of a session: the session's keys are agreed on here only.
    pub is_leading: bool,
}
