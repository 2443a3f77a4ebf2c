//! Errors of the peer that end the connection.
//!
//! Spec: RFC 7143, 7.1 (error recovery level 0: the connection ends, and with it its tasks). Errors
//! of one command are not among them: they are answered with that command's status or a Reject.

use crate::pdu::Opcode;

/// The peer violated the protocol, or ended the connection. The session is closing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PeerError {
    /// A header field has a value that is not valid.
    #[error("{}: header field at byte {offset} is invalid", .opcode.name())]
    HeaderField { opcode: Opcode, offset: u32 },
    /// A PDU that is not allowed in this state, or that this end never receives.
    #[error("{} is out of sequence", .0.name())]
    Sequence(Opcode),
    /// A header was damaged.
    #[error("header digest {received:#010x}, computed {computed:#010x}")]
    HeaderDigest { received: u32, computed: u32 },
    /// Data was damaged in a PDU for which no single command can fail.
    #[error("{}: data digest {received:#010x}, computed {computed:#010x}", .opcode.name())]
    DataDigest { opcode: Opcode, received: u32, computed: u32 },
    /// More data in a PDU than this end's declared limit.
    #[error("{}: {len} bytes of data, at most {max} are allowed", .opcode.name())]
    TooLong {
        opcode: Opcode,
        /// DataSegmentLength, or the length of all additional headers.
        len: u32,
        max: u32,
    },
    /// Data that does not continue the sequence of the command or R2T.
    #[error("{}: {len} bytes of data at offset {offset}, expected {expected}", .opcode.name())]
    DataOutOfRange { opcode: Opcode, offset: u32, len: u32, expected: u32 },
    /// A serial number that is not the next one.
    #[error("{}: sequence number {received}, expected {expected}", .opcode.name())]
    Serial { opcode: Opcode, received: u32, expected: u32 },
    /// More commands than the window allows.
    #[error("more commands than the command window of {0} allows")]
    WindowOverrun(u32),
    /// A PDU whose tag names no task of this end.
    #[error("{}: no task has the tag {tag:#010x}", .opcode.name())]
    UnknownTask { opcode: Opcode, tag: u32 },
    /// Text keys that are not valid.
    #[error("text: {0}")]
    Text(#[from] crate::text::TextError),
    /// The two ends cannot agree.
    #[error("negotiation: {0}")]
    Param(#[from] crate::params::ParamError),
    /// The login was refused, by this end or by the peer.
    #[error("login refused: {0}")]
    Login(crate::pdu::LoginStatus),
    /// The other end did not prove that it knows its secret.
    #[error("the target did not prove that it knows the secret of its CHAP account")]
    Impostor,
    /// The peer rejected a PDU that this end cannot continue without.
    #[error("the peer rejects {}: {reason}", .opcode.name())]
    Rejected { opcode: Opcode, reason: crate::pdu::RejectReason },
    /// The peer gave up the connection or the session.
    #[error("the peer ended the connection: {0}")]
    Ended(crate::pdu::AsyncEvent),
    /// The login, or an answer to a ping, did not come in time.
    #[error("the peer did not answer in time")]
    Silent,
    /// This end is shutting down.
    #[error("this end is shutting down")]
    ShuttingDown,
}
