//! The configuration of a target session, its demands, and its output for rings.

use nearflash_request::{BlockRange, BufferId, Operation, Request, Tag, VolumeId};
use nearflash_units::{BlockSize, Nanos};

use super::claim::ClientIdentity;
use super::files::FilesDemand;
use super::seals::RevokeDemand;
use crate::Digests;
use crate::wire::{LEN_MAX, NONCE_LEN};

/// The limits of a session, and the properties of its listener.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Clients without a key have full access, as long as no credential exists.
    pub anonymous: bool,
    /// The client is on this machine: ATTACH is offered.
    pub local: bool,
    /// The maximum number of bytes that a request may read or write: at most [`LEN_MAX`].
    pub len_max: u32,
    /// The number of requests that a client may have in flight: 1 to [`crate::wire::CREDITS_MAX`].
    pub credits: u32,
    /// The unit in which every device writes. Devices transfer directly to and from a client's
    /// memory only for whole units of a volume.
    pub unit: BlockSize,
    /// The number of volumes and sealed objects that a client may have open: 1 to 65,534.
    pub handles_max: u16,
    /// The digests that a client may request.
    pub digests: Digests,
    /// The time that a client has from the connection's first byte to the end of the handshake.
    pub handshake_timeout: Nanos,
    /// Another number when writes that no flush followed may have been lost:
    /// [`crate::wire::HelloAnswer::boot`].
    pub boot: u64,
    /// Random, generated for this connection and never used twice.
    pub nonce: [u8; NONCE_LEN],
}

/// The number of volumes that another node of the cluster may have open: faces of mirrors are many.
pub const PEER_HANDLES_MAX: u16 = 8192;

impl SessionConfig {
    /// A listener that admits clients by credential, with this nonce.
    pub fn with_nonce(nonce: [u8; NONCE_LEN]) -> Self {
        Self {
            anonymous: false,
            local: false,
            len_max: LEN_MAX,
            credits: 256,
            unit: BlockSize::B512,
            handles_max: 4096,
            digests: Digests::BOTH,
            handshake_timeout: Nanos::from_secs(10),
            boot: 0,
            nonce,
        }
    }
}

/// A demand of a session on its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// A request for the engine; answered with
    /// [`nearflash_session::ServingEnd::handle_completion`].
    Request(Request),
    /// End earlier connections of the identity; answered with
    /// [`super::TargetSession::handle_claimed`] when none of their requests is under way any more.
    Claim(ClientIdentity),
    /// Create rings; answered with [`super::TargetSession::handle_attached`].
    Attach(AttachDemand),
    /// Tell the seals that are void: answered at once with [`super::TargetSession::handle_seals`].
    Seals,
    /// Revoke seals on all cores; answered with [`super::TargetSession::handle_revoked`] when nothing
    /// that they allowed is under way any more.
    Revoke(RevokeDemand),
    /// Pass a message to the owner of the files of a volume; answered with
    /// [`super::TargetSession::handle_files`].
    Files(FilesDemand),
    /// Report that the client may not use a volume of this name. It has its answer.
    Refused(Box<str>),
    /// A request for the engine, with a foreign buffer over a place of the data area; answered like
    /// a request.
    Lend(LendDemand),
    /// A request for the engine, once bytes are copied out of the data area; answered like a
    /// request.
    CopyIn(CopyInDemand),
}

/// The rings that a client wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachDemand {
    /// The entries of the submission ring: a power of two, at most the session's credits.
    pub entries: u32,
    /// The length of the data area in bytes: a multiple of the page size, not 0.
    pub data_len: u64,
}

/// A part of the data area of the rings: always within it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Its first byte in the data area.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A request whose payload goes directly between the device and the client's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LendDemand {
    /// The memory that the foreign buffer covers.
    pub place: Place,
    /// The request's number.
    pub tag: Tag,
    /// The volume.
    pub volume: VolumeId,
    /// The blocks: exactly as many bytes as the place has.
    pub range: BlockRange,
    /// To the device (or from it).
    pub is_write: bool,
    /// On stable media before the answer.
    pub force_unit_access: bool,
}

impl LendDemand {
    /// The request, with the foreign buffer over [`Self::place`].
    #[inline]
    pub fn into_request(self, buffer: BufferId) -> Request {
        let Self { tag, volume, range, is_write, force_unit_access, .. } = self;
        let operation = if is_write {
            Operation::Write { payload: buffer, force_unit_access }
        } else {
            Operation::ReadInto { buffer }
        };
        Request { tag, volume, range, operation, sent_in: None }
    }
}

/// A write of partial blocks, or from a place that a device cannot use. Its bytes are copied into a
/// pool buffer; after that it is a request like any other.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyInDemand {
    /// The place of the bytes in the data area.
    pub place: Place,
    /// To which pool buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// The request to submit after the copy.
    pub request: Request,
}

/// An output for a client with rings. The order of outputs matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum RingOutput {
    /// Copy bytes of a pool buffer into the data area, and return the buffer.
    Copy { buffer: BufferId, offset: usize, place: Place },
    /// Return a foreign buffer, whose request has ended.
    Release(BufferId),
    /// Make the place zeroes.
    Zeroes(Place),
    /// Put this entry into the completion ring.
    Entry([u8; crate::wire::HEADER_LEN]),
}
