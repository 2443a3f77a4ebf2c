//! What a target session is told, what it asks for, and what it gives for rings.

use nearflash_request::{BlockRange, BufferId, Operation, Request, Tag, VolumeId};
use nearflash_units::{BlockSize, Nanos};

use super::claim::Lineage;
use crate::Digests;
use crate::wire::{LEN_MAX, NONCE_LEN};

/// The limits of one session, and its door's.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Clients without a key have full access, as long as no credential exists.
    pub anonymous: bool,
    /// The client is on this machine: ATTACH is offered.
    pub local: bool,
    /// The most bytes that a request may read or write: at most [`LEN_MAX`].
    pub len_max: u32,
    /// How many requests a client may have in flight: 1 to [`crate::wire::CREDITS_MAX`].
    pub credits: u32,
    /// What every device writes at once or in multiples of. Devices take a client's memory for such
    /// pieces of a volume alone.
    pub unit: BlockSize,
    /// How many volumes a client may have open: 1 to 65,535.
    pub handles_max: u16,
    /// The digests that a client may have if it wants them.
    pub digests: Digests,
    /// How long a client may take from the connection's first byte until it is in.
    pub handshake_timeout: Nanos,
    /// Drawn at random for this connection: never used twice.
    pub nonce: [u8; NONCE_LEN],
}

impl SessionConfig {
    /// A door that serves whom a credential lets in, with this nonce.
    pub fn with_nonce(nonce: [u8; NONCE_LEN]) -> Self {
        Self {
            anonymous: false,
            local: false,
            len_max: LEN_MAX,
            credits: 256,
            unit: BlockSize::B512,
            handles_max: 64,
            digests: Digests::BOTH,
            handshake_timeout: Nanos::from_secs(10),
            nonce,
        }
    }
}

/// What a session wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// By the engine; answered with [`nearflash_session::ServingEnd::handle_completion`].
    Request(Request),
    /// Earlier connections of the lineage are to be ended; answered with
    /// [`super::TargetSession::handle_claimed`], when nothing of theirs is under way any more.
    Claim(Lineage),
    /// Rings are to be made; answered with [`super::TargetSession::handle_attached`].
    Attach(AttachDemand),
    /// By the engine, with a foreign buffer over a place of the data area; answered as a request.
    Lend(LendDemand),
    /// By the engine, once bytes are copied out of the data area; answered as a request.
    CopyIn(CopyInDemand),
}

/// The rings that a client wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachDemand {
    /// Of the submission ring: a power of two, not above the session's credits.
    pub entries: u32,
    /// Of the data area, in bytes: a multiple of the page, not 0.
    pub data_len: u64,
}

/// A part of the data area of the rings: always within it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
}

/// A request whose payload goes straight between the device and the client's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LendDemand {
    /// What the foreign buffer is to be over.
    pub place: Place,
    /// The request's number.
    pub tag: Tag,
    /// Which volume.
    pub volume: VolumeId,
    /// Which blocks: exactly as many bytes as the place has.
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
        Request { tag, volume, range, operation }
    }
}

/// A write that is not of whole blocks, or whose place a device cannot use: its bytes are copied
/// into a pool buffer, and then it is a request like any other.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyInDemand {
    /// From where in the data area, and how much.
    pub place: Place,
    /// To which pool buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset: usize,
    /// What to submit then.
    pub request: Request,
}

/// What is to be done for a client with rings, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RingOutput {
    /// Copy bytes of a pool buffer into the data area, and give the buffer back.
    Copy {
        /// From which buffer.
        buffer: BufferId,
        /// From where in it.
        offset: usize,
        /// To where, and how much.
        place: Place,
    },
    /// Give a foreign buffer back: its request is over.
    Release(BufferId),
    /// Make the place zeroes.
    Zeroes(Place),
    /// Put this entry into the completion ring.
    Entry([u8; crate::wire::HEADER_LEN]),
}
