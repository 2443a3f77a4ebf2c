//! The configuration of a client session, its events and its results.

use crate::Digests;
use crate::secret::Secret;
use crate::wire::{NONCE_LEN, Rights, SealKey, Status};

/// The configuration of a client session.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The key's name and its secret; `None` for an anonymous client.
    pub key: Option<(Box<str>, Secret)>,
    /// The digests to request. Those that the node does not grant are not used.
    pub digests: Digests,
    /// Whether to use rings, if the node offers them.
    pub rings: bool,
    /// Random, generated for this connection and never used twice.
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
    /// Distinguishes the volume from a later one of the same name.
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
    /// The node supports [`super::ClientOperation::Zero`].
    pub zero: bool,
    /// The node supports seals: [`super::ClientSession::seal_key`].
    pub seals: bool,
    /// Another number than at the last connection: writes that were answered, and that no answered
    /// flush followed, may have been lost. 0: the node does not say.
    pub boot: u64,
    /// The maximum number of bytes that a request may read or write.
    pub len_max: u32,
    /// The maximum number of requests in flight, which never grows.
    pub credits_max: u32,
}

impl Agreed {
    /// The number of requests for which there must be room.
    pub(super) fn slots(&self) -> u16 {
        u16::try_from(self.credits_max).expect("a session has few credits")
    }
}

/// A request's number, which its completion returns: an index below [`Agreed::credits_max`].
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
    /// The tag that [`super::ClientSession::submit`] returned.
    pub tag: RequestTag,
    /// The node's answer, or [`Status::DATA_DIGEST`] for data that was damaged on the way to the
    /// client.
    pub status: Status,
    /// The word before an atomic operation; the epoch with [`Status::STALE_EPOCH`]; otherwise 0.
    pub value: u64,
}

/// A seal key that the node has confirmed.
#[derive(Clone, Debug)]
pub struct GrantedKey {
    /// The key.
    pub key: SealKey,
    /// The node's time in seconds when it answered.
    pub seconds: u64,
}

/// Two keys are not compared, only their names.
impl PartialEq for GrantedKey {
    fn eq(&self, other: &Self) -> bool {
        let name =
            |granted: &Self| (granted.key.volume(), granted.key.generation(), granted.seconds);
        name(self) == name(other)
    }
}

impl Eq for GrantedKey {}

/// An event other than a completion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientEvent {
    /// The handshake is complete: volumes can be opened.
    Ready,
    /// The answer to [`super::ClientSession::open`], [`super::ClientSession::open_sealed`] and
    /// [`super::ClientSession::refresh`].
    Opened {
        /// As the call returned it.
        number: u32,
        /// The volume or the object, or why not.
        result: Result<VolumeInfo, Status>,
    },
    /// The answer to [`super::ClientSession::attach`]; the descriptors came with its bytes.
    Attached(Result<(), Status>),
    /// The answer to [`super::ClientSession::claim`]; `INVALID_OPCODE` from a node that does not
    /// support it.
    Claimed(Result<(), Status>),
    /// The answer to [`super::ClientSession::seal_key`].
    SealKey {
        /// As `seal_key` returned it.
        number: u32,
        /// The key, or why not.
        result: Result<GrantedKey, Status>,
    },
    /// The answer to [`super::ClientSession::revoke`].
    Revoked {
        /// As `revoke` returned it.
        number: u32,
        /// Whether nothing that the seals allowed is under way.
        result: Result<(), Status>,
    },
    /// The answer to [`super::ClientSession::files`].
    Files {
        /// As `files` returned it.
        number: u32,
        /// The owner's answer, or the status with which the node refuses the message.
        result: Result<Box<[u8]>, Status>,
    },
    /// The answer to [`super::ClientSession::ping`].
    Pong,
    /// The node has accepted this write on the replica face of a mirror, and will apply it. Its completion
    /// follows; take events before completions.
    Received(RequestTag),
}

/// Error: a request was not accepted, and nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The maximum number of requests is in flight: wait for a completion.
    #[error("the session has no free credit: wait for a completion")]
    NoCredit,
    /// The handshake is not complete, or the connection has ended.
    #[error("the session is not connected")]
    NotConnected,
    /// The volume is not open in this session.
    #[error("the volume is not open in this session")]
    NotOpen,
    /// The length is 0, or exceeds the node's limit.
    #[error("a request has 1 to {0} bytes")]
    Length(u32),
    /// The request belongs to the other transport (stream or rings), or rings cannot be attached.
    #[error("the session uses the other transport: stream or rings")]
    WrongTransport,
    /// The node is older than the operation: [`Agreed::zero`].
    #[error("the node does not know the operation: write zeroes instead")]
    NotAgreed,
}
