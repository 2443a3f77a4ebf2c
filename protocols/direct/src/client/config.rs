//! The configuration of a client session, its events and its results.

use crate::Digests;
use crate::secret::Secret;
use crate::wire::{NONCE_LEN, Rights, Status};

/// The configuration of a client session.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The key's name and its secret; `None` for an anonymous client.
    pub key: Option<(Box<str>, Secret)>,
    /// The digests to ask for. What the node does not grant is not used.
    pub digests: Digests,
    /// Rings are wanted, if the node offers them.
    pub rings: bool,
    /// Drawn at random for this connection: never used twice.
    pub nonce: [u8; NONCE_LEN],
}

/// An open volume of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct VolumeHandle(pub u16);

/// The properties of an open volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VolumeInfo {
    /// Its handle in this session.
    pub handle: VolumeHandle,
    /// Its length.
    pub bytes: u64,
    /// The block size in bytes.
    pub block_size: u32,
    /// The epoch of its layout.
    pub epoch: u32,
    /// Tells it from another that has its name later.
    pub uuid: [u8; 16],
    /// The rights that the client has on at least one byte of the volume.
    pub rights: Rights,
}

/// The limits and features that the node agreed to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// The digests in use.
    pub digests: Digests,
    /// [`super::ClientSession::attach`] may be called.
    pub rings: bool,
    /// The node knows [`super::ClientOperation::Zero`].
    pub zero: bool,
    /// The most bytes that a request may read or write.
    pub len_max: u32,
    /// The most requests that may ever be in flight.
    pub credits_max: u32,
}

impl Agreed {
    /// How many requests there must be room for.
    pub(super) fn slots(&self) -> u16 {
        u16::try_from(self.credits_max).expect("a session has few credits")
    }
}

/// A request's number, which its completion has: an index below [`Agreed::credits_max`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestTag(pub u32);

impl RequestTag {
    #[inline]
    pub(super) fn of(index: u16) -> Self {
        Self(index.into())
    }

    #[inline]
    pub(super) fn index(self) -> u16 {
        u16::try_from(self.0).expect("tags are below the credits")
    }
}

/// A request is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientCompletion {
    /// As [`super::ClientSession::submit`] returned it.
    pub tag: RequestTag,
    /// The node's answer; [`Status::DATA_DIGEST`] also for data that was damaged on its way here.
    pub status: Status,
    /// The word before an atomic operation; the epoch with [`Status::STALE_EPOCH`]; otherwise 0.
    pub value: u64,
}

/// An event other than a completion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientEvent {
    /// The handshake is over: volumes can be opened.
    Ready,
    /// The answer to [`super::ClientSession::open`] and [`super::ClientSession::refresh`].
    Opened {
        /// As `open` or `refresh` returned it.
        number: u32,
        /// The volume, or why not.
        result: Result<VolumeInfo, Status>,
    },
    /// The answer to [`super::ClientSession::attach`]; the descriptors came with its bytes.
    Attached(Result<(), Status>),
    /// The answer to [`super::ClientSession::claim`]; `INVALID_OPCODE` by a node without it.
    Claimed(Result<(), Status>),
    /// The answer to [`super::ClientSession::ping`].
    Pong,
}

/// Error: a request was not accepted, and nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests are in flight as the node allows: wait for a completion.
    #[error("the session has no free credit: wait for a completion")]
    NoCredit,
    /// The handshake is not over, or the connection is.
    #[error("the session is not connected")]
    NotConnected,
    /// The volume is not open in this session.
    #[error("the volume is not open in this session")]
    NotOpen,
    /// A length of 0, or above what the node takes.
    #[error("a request has 1 to {0} bytes")]
    Length(u32),
    /// The request belongs to the other transport (stream or rings), or rings cannot be attached.
    #[error("the session uses the other transport: stream or rings")]
    WrongTransport,
    /// The node is older than the operation: [`Agreed::zero`].
    #[error("the node does not know the operation: write zeroes instead")]
    NotAgreed,
}
