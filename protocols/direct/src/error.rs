//! The errors that end a connection, and the GOODBYE that reports each to the peer.
//!
//! An error of a single request is not among them: the answer's status reports it.

use crate::wire::{NO_TAG, Opcode, Status};

/// The peer violated the protocol, or ended the connection. The session is closing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PeerError {
    /// The connection did not begin with a HELLO of this protocol.
    #[error("the connection does not speak the direct protocol")]
    NotDirect,
    /// No version in common.
    #[error(
        "the peer speaks versions {min} to {max} of the direct protocol, not {}",
        crate::wire::VERSION
    )]
    Version { min: u16, max: u16 },
    /// A field cannot be what it is.
    #[error("{}: header field at byte {offset} is invalid", .opcode.name())]
    HeaderField { opcode: Opcode, offset: u32 },
    /// The payload of a message of the session is invalid.
    #[error("{}: the payload at byte {offset} is invalid", .opcode.name())]
    PayloadField { opcode: Opcode, offset: u32 },
    /// Not the time for such a message.
    #[error("{} is out of sequence", .0.name())]
    Sequence(Opcode),
    /// A header was damaged.
    #[error("header digest {received:#010x}, computed {computed:#010x}")]
    HeaderDigest { received: u32, computed: u32 },
    /// The payload of a message of the session was damaged.
    #[error("{}: the data digest does not match", .0.name())]
    DataDigest(Opcode),
    /// Two requests in flight with one tag.
    #[error("tag {0} is in flight already")]
    DuplicateTag(u32),
    /// A tag that is not below the credits.
    #[error("tag {tag} is not below the {credits} credits of the session")]
    CreditsExceeded { tag: u32, credits: u32 },
    /// The client has no key although one is required, or its proof is wrong.
    #[error("the client did not prove that it knows the secret of its key")]
    Unauthenticated,
    /// The client has proved one key by TLS, and names another one.
    #[error("HELLO names another key than the one that TLS has proved")]
    OtherTlsKey,
    /// The node's own proof is wrong: it does not know the secret.
    #[error("the node did not prove that it knows the secret of the key")]
    Impostor,
    /// The client proved its identity, but its credential has expired.
    #[error("the credential has expired: create a new one")]
    CredentialExpired,
    /// The key, or the address of clients without one, has its share of the connections of a core.
    #[error("the client has its share of the node's connections already: close some")]
    ShareTaken,
    /// An answer that matches no request, or not the request's opcode.
    #[error("{}: the answer matches no request", .0.name())]
    Unasked(Opcode),
    /// The rings have invalid contents.
    #[error("the ring memory has an invalid index or entry")]
    RingBroken,
    /// The handshake did not end in time.
    #[error("the handshake did not complete in time")]
    Silent,
    /// This end is shutting down.
    #[error("this end is shutting down")]
    ShuttingDown,
    /// The peer said goodbye.
    #[error("the peer ended the connection: {0}")]
    Goodbye(Status),
}

impl PeerError {
    /// Status, tag and value of the GOODBYE that reports the error; `None` when none is sent.
    pub(crate) fn goodbye(&self) -> Option<(Status, u32, u64)> {
        let bare = |status| Some((status, NO_TAG, 0));
        match *self {
            Self::NotDirect | Self::Goodbye(_) => None,
            Self::Version { .. } => {
                Some((Status::VERSION, NO_TAG, u64::from(crate::wire::VERSION)))
            }
            Self::HeaderField { offset, .. } | Self::PayloadField { offset, .. } => {
                Some((Status::INVALID_FIELD, NO_TAG, u64::from(offset)))
            }
            Self::Sequence(_) | Self::Unasked(_) => bare(Status::SEQUENCE),
            Self::HeaderDigest { computed, .. } => {
                Some((Status::HEADER_DIGEST, NO_TAG, u64::from(computed)))
            }
            Self::DataDigest(_) => bare(Status::DATA_DIGEST),
            Self::DuplicateTag(tag) => Some((Status::DUPLICATE_TAG, tag, 0)),
            Self::CreditsExceeded { tag, credits } => {
                Some((Status::CREDITS_EXCEEDED, tag, u64::from(credits)))
            }
            Self::Unauthenticated | Self::OtherTlsKey | Self::Impostor => {
                bare(Status::AUTHENTICATION_FAILED)
            }
            Self::CredentialExpired => bare(Status::CREDENTIAL_EXPIRED),
            Self::ShareTaken => bare(Status::BUSY),
            Self::RingBroken => bare(Status::RING_BROKEN),
            Self::Silent => bare(Status::TIMEOUT),
            Self::ShuttingDown => bare(Status::SHUTTING_DOWN),
        }
    }
}
