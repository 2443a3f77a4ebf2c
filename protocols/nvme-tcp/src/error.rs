//! What the peer can do wrong that ends its connection, and what it is told.
//!
//! Spec: NVMe/TCP 1.1, 3.5 (error handling) and the FES tables of 3.6.2.4 and 3.6.2.5. Errors of
//! one command are no errors here: they are answered with that command's status.

use crate::pdu::{FatalStatus, PduType};

/// The peer broke the protocol, or ended the connection. The session is closing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// A header field cannot be what it is. Becomes FES 01h with `offset` as FEI.
    #[error("{}: header field at byte {offset} is invalid", .pdu.name())]
    HeaderField {
        /// Of which PDU.
        pdu: PduType,
        /// The field's place in it.
        offset: u32,
    },
    /// Not the time for such a PDU. Becomes FES 02h.
    #[error("{} is out of sequence", .pdu.name())]
    Sequence {
        /// Which PDU.
        pdu: PduType,
    },
    /// Becomes FES 03h with `received` as FEI.
    #[error("header digest {received:#010x}, computed {computed:#010x}")]
    HeaderDigest {
        /// As it stood on the wire.
        received: u32,
        /// Over the header as received.
        computed: u32,
    },
    /// Data that does not continue what the command or R2T covers. Becomes FES 04h.
    #[error("data of {len} bytes at {offset} where {expected} was next")]
    DataOutOfRange {
        /// DATAO or R2TO.
        offset: u32,
        /// DATAL or R2TL.
        len: u32,
        /// The offset that was next.
        expected: u32,
    },
    /// More data in a PDU than MAXH2CDATA, or more R2Ts than MAXR2T. Becomes FES 05h.
    #[error("{} exceeds the limit that was agreed", .pdu.name())]
    LimitExceeded {
        /// Which PDU.
        pdu: PduType,
    },
    /// A parameter that this end does not support. Becomes FES 06h with `offset` as FEI.
    #[error("{}: the parameter at byte {offset} is not supported", .pdu.name())]
    UnsupportedParameter {
        /// Of which PDU.
        pdu: PduType,
        /// The parameter's place in it.
        offset: u32,
    },
    /// More commands in flight than the submission queue has entries. Becomes FES 02h.
    #[error("more than {entries} commands in flight")]
    QueueOverrun {
        /// The queue's size.
        entries: u16,
    },
    /// The peer sent a termination request.
    #[error(
        "the peer ended the connection: fatal error status {status:#04x}, information {information:#x}"
    )]
    Terminated {
        /// FES.
        status: u16,
        /// FEI.
        information: u32,
    },
    /// The handshake did not end in time. The connection is closed without a word.
    #[error("no queue was connected in time")]
    Silent,
}

impl PeerError {
    /// FES and FEI of the termination request that tells the peer; `None` when it is told nothing.
    pub const fn fatal_status(&self) -> Option<(FatalStatus, u32)> {
        match *self {
            Self::HeaderField { offset, .. } => Some((FatalStatus::INVALID_HEADER_FIELD, offset)),
            Self::Sequence { .. } | Self::QueueOverrun { .. } => Some((FatalStatus::SEQUENCE, 0)),
            Self::HeaderDigest { received, .. } => Some((FatalStatus::HEADER_DIGEST, received)),
            Self::DataOutOfRange { .. } => Some((FatalStatus::DATA_OUT_OF_RANGE, 0)),
            Self::LimitExceeded { .. } => Some((FatalStatus::LIMIT_EXCEEDED, 0)),
            Self::UnsupportedParameter { offset, .. } => {
                Some((FatalStatus::UNSUPPORTED_PARAMETER, offset))
            }
            Self::Terminated { .. } | Self::Silent => None,
        }
    }
}
