//! Errors of the peer that end the connection, and the termination requests that report them.
//!
//! Spec: NVMe/TCP 1.1, 3.5 (error handling) and the FES tables of 3.6.2.4 and 3.6.2.5. An error of
//! a single command is not one of these: it is the status of the command's completion.

use nearflash_session::Output;
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::pdu::{FatalStatus, PduType, TermReq};

/// The peer violated the protocol or ended the connection. The session is closing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PeerError {
    /// A header field has an invalid value. Sent as FES 01h with `offset` as FEI.
    #[error("{}: header field at byte {offset} is invalid", .pdu.name())]
    HeaderField { pdu: PduType, offset: u32 },
    /// The PDU is not allowed in this state. Sent as FES 02h.
    #[error("{} is out of sequence", .0.name())]
    Sequence(PduType),
    /// A wrong header digest. Sent as FES 03h with `received` as FEI.
    #[error("header digest {received:#010x}, computed {computed:#010x}")]
    HeaderDigest { received: u32, computed: u32 },
    /// Data that does not continue the command's or R2T's data. Sent as FES 04h.
    #[error("{len} bytes of data at offset {offset}, expected {expected}")]
    DataOutOfRange { offset: u32, len: u32, expected: u32 },
    /// More data in a PDU than MAXH2CDATA, or more R2Ts than MAXR2T. Sent as FES 05h.
    #[error("{} exceeds the limit that was agreed", .0.name())]
    LimitExceeded(PduType),
    /// A parameter that this end does not support. Sent as FES 06h with `offset` as FEI.
    #[error("{}: the parameter at byte {offset} is not supported", .pdu.name())]
    UnsupportedParameter { pdu: PduType, offset: u32 },
    /// More commands in flight than the submission queue allows. Sent as FES 02h.
    #[error("more than {0} commands in flight")]
    QueueOverrun(u16),
    /// The peer sent a termination request.
    #[error(
        "the peer ended the connection: fatal error status {status:#04x}, information {information:#x}"
    )]
    Terminated { status: u16, information: u32 },
    /// The handshake timed out. The connection is closed without a termination request.
    #[error("the host did not connect a queue in time")]
    Silent,
}

impl PeerError {
    /// FES and FEI of the termination request for the peer; `None` if none is sent.
    pub const fn fatal_status(&self) -> Option<(FatalStatus, u32)> {
        match *self {
            Self::HeaderField { offset, .. } => Some((FatalStatus::INVALID_HEADER_FIELD, offset)),
            Self::Sequence(_) | Self::QueueOverrun(_) => Some((FatalStatus::SEQUENCE, 0)),
            Self::HeaderDigest { received, .. } => Some((FatalStatus::HEADER_DIGEST, received)),
            Self::DataOutOfRange { .. } => Some((FatalStatus::DATA_OUT_OF_RANGE, 0)),
            Self::LimitExceeded(_) => Some((FatalStatus::LIMIT_EXCEEDED, 0)),
            Self::UnsupportedParameter { offset, .. } => {
                Some((FatalStatus::UNSUPPORTED_PARAMETER, offset))
            }
            Self::Terminated { .. } | Self::Silent => None,
        }
    }

    /// Queues the termination request for this error, if it has one, with the invalid header.
    pub(crate) fn push_request(&self, output: &mut Output, pdu_type: PduType, header: &[u8]) {
        if let Some((status, information)) = self.fatal_status() {
            let header = &header[..header.len().min(TermReq::DATA_LEN_MAX)];
            let header_len = u8::try_from(header.len()).expect("at most 128 bytes");
            let request = TermReq::new(pdu_type, status, information, header_len);
            output.push_bytes(request.as_bytes());
            output.push_bytes(header);
        }
    }

    /// The peer's reason for ending the connection: its termination request.
    #[cold]
    pub(crate) fn of_request(head: &[u8]) -> Self {
        let (request, _) = TermReq::ref_from_prefix(head).expect("the framer checked the length");
        let (status, information) = (request.status.0.get(), request.information.get());
        Self::Terminated { status, information }
    }
}
