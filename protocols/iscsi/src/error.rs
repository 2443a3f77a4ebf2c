//! What the peer can do wrong that ends its connection.
//!
//! Spec: RFC 7143, 7.1 (error recovery level 0: the connection ends, and with it its tasks). Errors
//! of one command are no errors here: they are answered with that command's status or a Reject.

use crate::pdu::Opcode;

/// The peer broke the protocol, or ended the connection. The session is closing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// A header field cannot be what it is.
    #[error("{}: header field at byte {offset} is invalid", .opcode.name())]
    HeaderField {
        /// Of what.
        opcode: Opcode,
        /// The field's place in the header.
        offset: u32,
    },
    /// Not the time for such a PDU, or not one that this end receives.
    #[error("{} is out of sequence", .opcode.name())]
    Sequence {
        /// Which.
        opcode: Opcode,
    },
    /// A header was damaged.
    #[error("header digest {received:#010x}, computed {computed:#010x}")]
    HeaderDigest {
        /// As it stood on the wire.
        received: u32,
        /// Over the header as received.
        computed: u32,
    },
    /// Data was damaged, where nothing smaller than the connection can be given up for it.
    #[error("{}: data digest {received:#010x}, computed {computed:#010x}", .opcode.name())]
    DataDigest {
        /// Of what.
        opcode: Opcode,
        /// As it stood on the wire.
        received: u32,
        /// Over the data as received.
        computed: u32,
    },
    /// More data in a PDU than this end declared that it takes.
    #[error("{}: {len} bytes of data where {max} are taken", .opcode.name())]
    TooLong {
        /// Of what.
        opcode: Opcode,
        /// DataSegmentLength, or the length of all additional headers.
        len: u32,
        /// What is taken.
        max: u32,
    },
    /// Data that does not continue what the command or R2T covers.
    #[error("{}: data of {len} bytes at {offset} where {expected} was next", .opcode.name())]
    DataOutOfRange {
        /// Of what.
        opcode: Opcode,
        /// BufferOffset.
        offset: u32,
        /// DataSegmentLength.
        len: u32,
        /// The offset that was next.
        expected: u32,
    },
    /// A serial number that is not the next one.
    #[error("{}: number {received} where {expected} was next", .opcode.name())]
    Serial {
        /// Of what.
        opcode: Opcode,
        /// StatSN, DataSN or R2TSN as received.
        received: u32,
        /// What was next.
        expected: u32,
    },
    /// More commands than the window allows.
    #[error("more commands than the command window of {window} allows")]
    WindowOverrun {
        /// How many fit.
        window: u32,
    },
    /// A PDU that answers no task of this end.
    #[error("{}: no task has the tag {tag:#010x}", .opcode.name())]
    UnknownTask {
        /// Of what.
        opcode: Opcode,
        /// ITT or TTT.
        tag: u32,
    },
    /// Text keys are not what they have to be.
    #[error("text: {0}")]
    Text(#[from] crate::text::TextError),
    /// The two ends cannot agree.
    #[error("negotiation: {0}")]
    Param(#[from] crate::params::ParamError),
    /// The login was refused, by this end or by the peer.
    #[error("login refused: {0}")]
    Login(crate::login::LoginStatus),
    /// The other end did not prove that it knows its secret.
    #[error("the target did not prove that it knows the secret of its CHAP account")]
    Impostor,
    /// The peer refused something of this end that it cannot do without.
    #[error("the peer rejects {}: {reason}", .opcode.name())]
    Rejected {
        /// Of what.
        opcode: Opcode,
        /// Why.
        reason: crate::pdu::RejectReason,
    },
    /// The peer gives the connection or the session up.
    #[error("the peer ended the connection: {0}")]
    Ended(crate::pdu::AsyncEvent),
    /// The login, or an answer to a ping, did not come in time.
    #[error("nothing was heard in time")]
    Silent,
    /// Another connection of the same session took this one's place.
    #[error("the initiator logged in again in this connection's place")]
    Reinstated,
    /// This end goes down.
    #[error("this end is going down")]
    ShuttingDown,
}
