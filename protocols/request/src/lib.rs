//! The request type that every protocol produces and the engine answers.
//!
//! NVMe/TCP, iSCSI and direct sessions all turn their commands into a [`Request`] and their
//! answers from a [`Completion`]; permission, layout, devices and metrics exist once, behind it.
//! A request never contains payload, only the [`BufferId`] of the pool buffer that holds it.
//!
//! A change of the state that all sessions of a volume share (reservations, modes) is a [`Change`]. The volumes
//! that a host sees, over every protocol, are a question to [`HostRights`].
//!
//! This crate has no notion of any protocol's wire format, of devices, or of memory.

mod change;
mod host_rights;
mod nexus;
mod support;
mod usage;

pub use change::{
    Addressees, Attention, Change, ChangeKind, ChangeResult, Expected, Identity, Modes, Raised,
    Refusal, Registrant, Report, ReservationType, ResetScope, TaskSet,
};
pub use host_rights::{HostList, HostRight, HostRights, UnlistedHosts};
use nearflash_units::{Blocks, Lba};
pub use nexus::{Access, Nexus};
pub use support::Support;
pub use usage::{Traffic, Usage};

/// A session's number for a request and its [`Completion`], unique among those in flight.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(pub u32);

/// A volume's place in the node's volume table. Never reused while the node runs, so that a late
/// request for a removed volume does not reach another volume.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VolumeId(pub u32);

/// A buffer of the pool, aligned for direct I/O. Only the pool interprets the number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BufferId(pub u32);

/// A run of logical blocks of a volume.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct BlockRange {
    /// The first block.
    pub start: Lba,
    /// The number of blocks; may be zero only in a deallocation.
    pub count: Blocks,
}

/// An operation on a volume. Its tag is a word, so that it can be copied word by word.
///
/// With `force_unit_access`, the data is durable before the answer. `payload` holds exactly the
/// range's bytes, or one block if a block is repeated. It returns to the pool with the completion.
#[derive(Clone, Debug, Eq, PartialEq)]
#[repr(u32)]
#[allow(missing_docs, reason = "fields of several operations mean the same in each")]
pub enum Operation {
    /// Reads blocks. The engine takes the buffer, and hands it over in the completion.
    Read,
    /// Reads blocks into a buffer of the session: memory that a client shares with the node. The
    /// device writes into it, and the node's code does not access it.
    ReadInto {
        /// Has room for the range's bytes. It is in the completion of a success, and is returned
        /// otherwise.
        buffer: BufferId,
    },
    /// Writes blocks; with `force_unit_access`, they are on stable media before the answer.
    Write { payload: BufferId, force_unit_access: bool },
    /// Writes bytes that are not whole blocks. The other bytes of the range's first and last block
    /// are kept, and no other request changes these two blocks in between.
    WriteBytes {
        /// Holds exactly the range's bytes, of which only `skip..skip + len` are new. It returns to
        /// the pool with the completion.
        payload: BufferId,
        /// The offset of the new bytes in the first block; less than a block.
        skip: u32,
        /// The number of new bytes; never zero. They end in the range's last block.
        len: u32,
        force_unit_access: bool,
    },
    /// Replaces the word by `new` if it equals `expected`; no other request changes its block in
    /// between. Words are 8 bytes, little-endian, at a multiple of 8. The answer has the previous
    /// word, [`Payload::Word`], even if it differed ([`Outcome::Miscompare`]).
    CompareAndSwap {
        /// The offset of the word in the range's only block.
        word: u32,
        expected: u64,
        new: u64,
        force_unit_access: bool,
    },
    /// Adds `addend` to the word, modulo 2^64; no other request changes its block in between. The
    /// answer has the previous word.
    FetchAdd {
        /// The offset of the word in the range's only block.
        word: u32,
        addend: u64,
        force_unit_access: bool,
    },
    /// Makes every request that was answered before this one arrived durable on stable media. The
    /// range is ignored.
    Flush,
    /// The range reads as zeroes afterwards.
    WriteZeroes {
        /// The device may release the blocks, as long as they read as zeroes.
        deallocate: bool,
        force_unit_access: bool,
    },
    /// Fills the range, of any length, with the block in `payload`. (WRITE SAME)
    WriteSame { payload: BufferId, force_unit_access: bool },
    /// Writes to stable media, and then reads the range again; succeeds only if it can be read. No
    /// other request changes the range in between. (SCSI WRITE AND VERIFY)
    WriteAndVerify {
        payload: BufferId,
        /// Whether the bytes read again must equal those written: [`Payload::Differs`] if not.
        compare: bool,
    },
    /// Replaces the range's bytes by their bitwise OR with `payload`, atomically. (SCSI ORWRITE)
    OrWrite { payload: BufferId, force_unit_access: bool },
    /// Copies blocks of another range of the same length, from this volume or from another one with
    /// any block size. The range is no longer than a transfer, and both ranges may overlap. (SCSI
    /// EXTENDED COPY, in pieces)
    Copy {
        source: VolumeId,
        /// The blocks to copy, with the same number of bytes as the range.
        from: BlockRange,
    },
    /// Deallocates these ranges, whose contents are no longer needed. The request's own range is
    /// ignored.
    Deallocate {
        ranges: Box<[BlockRange]>,
        /// Whether they read as zeroes afterwards. Otherwise they read as zeroes or as before, and
        /// always the same.
        zeroes: bool,
    },
    /// Succeeds only if the range, of any length, can be read from the medium. (SCSI VERIFY)
    Verify,
    /// Queries the allocation state of the run of blocks that begins with the range's first block
    /// and ends within the range: [`Payload::Allocation`]. The range is not empty. (SCSI GET LBA
    /// STATUS)
    Allocation,
    /// Accesses no block. Succeeds unless a reservation or a write protection forbids such an
    /// access to the requester. The range is ignored.
    Admit(Access),
    /// Succeeds only if the range's bytes equal `payload`; otherwise returns [`Payload::Differs`].
    Compare { payload: BufferId },
    /// Compares each block of a range of any length with the block in `payload`. (SCSI VERIFY with
    /// BYTCHK of 11b)
    CompareSame { payload: BufferId },
    /// Replaces the range's bytes by those in `write` if they equal those in `compare`; no other
    /// request changes the range in between. If they differ, [`Payload::Differs`] has the offset.
    /// (NVMe fused compare and write, SCSI COMPARE AND WRITE)
    CompareAndWrite { compare: BufferId, write: BufferId, force_unit_access: bool },
}

impl Operation {
    /// The access that reservations check. Both standards refuse a flush like a write.
    #[inline]
    pub const fn access(&self) -> Access {
        match self {
            Self::Read
            | Self::ReadInto { .. }
            | Self::Verify
            | Self::Allocation
            | Self::Compare { .. }
            | Self::CompareSame { .. } => Access::Read,
            Self::Write { .. }
            | Self::WriteBytes { .. }
            | Self::CompareAndSwap { .. }
            | Self::FetchAdd { .. }
            | Self::WriteZeroes { .. }
            | Self::WriteSame { .. }
            | Self::WriteAndVerify { .. }
            | Self::OrWrite { .. }
            | Self::Copy { .. }
            | Self::Deallocate { .. }
            | Self::CompareAndWrite { .. } => Access::Write,
            Self::Flush => Access::Manage,
            Self::Admit(access) => *access,
        }
    }
}

/// A request for one operation on one volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The session's number for it.
    pub tag: Tag,
    /// The volume.
    pub volume: VolumeId,
    /// The blocks of the volume.
    pub range: BlockRange,
    /// The operation.
    pub operation: Operation,
    /// For a request on a face of a mirror: when it was sent.
    pub sent_in: Option<SentIn>,
}

/// The term, and for a replica the session, in which another node has sent a request on a face of a mirror
/// of this node. Only the mirrors know what they mean.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SentIn {
    /// The term.
    pub term: u32,
    /// The session of the replica; 0 if the request is for the mirror itself.
    pub session: u32,
    /// It is a read for the digests of the blocks, and not for their bytes.
    pub is_digest: bool,
}

/// The outcome of a request. Every protocol maps each of these to its exact status code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Done, and as durable as requested.
    Success,
    /// The volume ends before the range does.
    OutOfRange,
    /// No such volume (any more).
    VolumeGone,
    /// The device is full: its file system or pool has no room.
    CapacityExceeded,
    /// The compared bytes differ. A write that should have followed was not made.
    Miscompare,
    /// The device could not read its medium.
    UnrecoveredRead,
    /// The device could not write its medium.
    WriteFault,
    /// The device cannot be reached any more; a later attempt may succeed.
    DeviceUnavailable,
    /// The connection to the node that has the blocks was lost: the operation has taken effect, or
    /// not, or will do so soon.
    PathLost,
    /// The device does not support this operation.
    Unsupported,
    /// Stopped on request before it took effect.
    Aborted,
    /// Another's reservation forbids it.
    ReservationConflict,
    /// The volume is write-protected for now.
    WriteProtected,
}

/// The place of a command's data in its stream.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Due {
    /// The data is next: the stream stops until there is a buffer.
    Next,
    /// The data is requested once there is a buffer, and arrives later.
    Later,
}

/// The data of an answer, next to its outcome. Its tag is a word, as in [`Operation`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Payload {
    /// Nothing to send.
    None,
    /// Data in a pool buffer. The session owns it from now on, and returns it once it is sent.
    Buffer(BufferId),
    /// All zeroes: no memory was needed (the null device, unwritten blocks).
    Zeroes,
    /// The previous word of an atomic operation.
    Word(u64),
    /// The first difference of a comparison, in bytes from the start of the range.
    Differs(u64),
    /// The allocation state of a run of blocks.
    Allocation {
        /// It has storage of its own; otherwise it reads as zeroes.
        mapped: bool,
        /// The length of the run; at least one block.
        blocks: Blocks,
    },
}

/// The answer to a [`Request`]: exactly one for each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// The request's tag.
    pub tag: Tag,
    /// The outcome.
    pub outcome: Outcome,
    /// The data of a successful read; the previous word of an atomic operation, if it could be
    /// read; the offset of the first difference of a comparison; the state of a run of blocks.
    pub payload: Payload,
}
