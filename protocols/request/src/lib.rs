//! The request type that every protocol produces and the engine answers.
//!
//! NVMe/TCP, iSCSI and direct sessions all turn their commands into a [`Request`] and their
//! answers from a [`Completion`]; permission, layout, devices and metrics exist once, behind it.
//! A request never contains payload, only the [`BufferId`] of the pool buffer that holds it.
//!
//! A change of the state that all sessions of a volume share (reservations, modes) is a [`Change`].
//!
//! This crate has no notion of any protocol's wire format, of devices, or of memory.

mod change;
mod nexus;
mod usage;

pub use change::{
    Addressees, Attention, Change, ChangeKind, ChangeResult, Expected, Identity, Modes, Raised,
    Refusal, Registrant, Report, ReservationType, ResetScope, TaskSet,
};
use nearflash_units::{Blocks, Lba};
pub use nexus::{Access, Nexus};
pub use usage::{Traffic, Usage};

/// A session's number for a request and its [`Completion`], unique among those in flight.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(pub u32);

/// A volume's place in the node's volume table. Never reused while the node runs, so that a late
/// request for a removed volume finds nothing rather than another volume.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VolumeId(pub u32);

/// A buffer of the pool, aligned for direct I/O. The number is the pool's; nobody else reads it.
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

/// An operation on a volume. Its tag is a word, so that a copy goes word by word.
///
/// With `force_unit_access`, it is durable before the answer. `payload` holds exactly the range's
/// bytes, or one block where one is repeated, and returns to the pool with the completion.
#[derive(Clone, Debug, Eq, PartialEq)]
#[repr(u32)]
#[allow(missing_docs, reason = "fields of several operations mean the same in each")]
pub enum Operation {
    /// Blocks to the host. The engine takes the buffer and hands it over in the completion.
    Read,
    /// Blocks into a buffer that the session brings along: memory that a client shares with the
    /// node, which the device writes into and no processor of the node's touches.
    ReadInto {
        /// Has room for the range's bytes; in the completion of a success, otherwise returned.
        buffer: BufferId,
    },
    /// Blocks from the host; with `force_unit_access`, on stable media before the answer.
    Write { payload: BufferId, force_unit_access: bool },
    /// Bytes from the host that are not whole blocks: what else the range's first and last block
    /// hold is kept. Nothing else touches those two in between.
    WriteBytes {
        /// Holds exactly the range's bytes, of which only `skip..skip + len` are the host's;
        /// returns to the pool with the completion.
        payload: BufferId,
        /// The offset of the new bytes in the first block; less than a block.
        skip: u32,
        /// The number of new bytes; never zero. They end in the range's last block.
        len: u32,
        force_unit_access: bool,
    },
    /// If the word equals `expected`, it becomes `new`; nothing else touches its block in between.
    /// Words are 8 bytes, little-endian, at a multiple of 8. The answer has the word as it was,
    /// [`Payload::Word`], also when it was another ([`Outcome::Miscompare`]).
    CompareAndSwap {
        /// The offset of the word in the range's only block.
        word: u32,
        expected: u64,
        new: u64,
        force_unit_access: bool,
    },
    /// The word becomes the sum of itself and `addend`, modulo 2^64; nothing else touches its block
    /// in between. The answer has the word as it was.
    FetchAdd {
        /// The offset of the word in the range's only block.
        word: u32,
        addend: u64,
        force_unit_access: bool,
    },
    /// Everything that was answered before this request came is on stable media before its answer.
    /// The range is ignored.
    Flush,
    /// The range reads as zeroes afterwards.
    WriteZeroes {
        /// The device may release the blocks, as long as they read as zeroes.
        deallocate: bool,
        force_unit_access: bool,
    },
    /// Every block of the range, of any length, becomes the one in `payload`. (WRITE SAME)
    WriteSame { payload: BufferId, force_unit_access: bool },
    /// A write on stable media whose range is then read again: success only if it can be read.
    /// Nothing else touches the range in between. (SCSI WRITE AND VERIFY)
    WriteAndVerify {
        payload: BufferId,
        /// Whether the bytes read again must equal those written: [`Payload::Differs`] if not.
        compare: bool,
    },
    /// The range's bytes become their bitwise OR with `payload`, atomically. (SCSI ORWRITE)
    OrWrite { payload: BufferId, force_unit_access: bool },
    /// The range becomes what as many blocks of another range hold, of this volume or of another
    /// one with blocks of any size. The range is no longer than a transfer, and both ranges may
    /// overlap. (SCSI EXTENDED COPY, piece by piece)
    Copy {
        source: VolumeId,
        /// The blocks to copy; as many bytes as the range has.
        from: BlockRange,
    },
    /// The contents of these ranges are no longer needed. The request's own range is ignored.
    Deallocate {
        ranges: Box<[BlockRange]>,
        /// Afterwards they read as zeroes. Otherwise as zeroes or as before, and always the same.
        zeroes: bool,
    },
    /// Success only if the medium of the range, of any length, can be read. (SCSI VERIFY)
    Verify,
    /// Queries the allocation state of the run of blocks that begins with the range's first block
    /// and ends within the range: [`Payload::Allocation`]. The range is not empty. (SCSI GET LBA
    /// STATUS)
    Allocation,
    /// Touches nothing: success, unless a reservation or a write protection forbids such an access
    /// to the asker. The range is ignored.
    Admit(Access),
    /// Success only if the range's bytes equal `payload`; otherwise [`Payload::Differs`].
    Compare { payload: BufferId },
    /// The same with each block, also of a longer range. (SCSI VERIFY with BYTCHK of 11b)
    CompareSame { payload: BufferId },
    /// If the range's bytes equal those in `compare`, they become those in `write`; nothing else
    /// touches the range in between. Where they do not, [`Payload::Differs`] says from where. (NVMe
    /// fused compare and write, SCSI COMPARE AND WRITE)
    CompareAndWrite { compare: BufferId, write: BufferId, force_unit_access: bool },
}

impl Operation {
    /// The access that reservations check: both standards refuse a flush like a write.
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
    /// The device cannot hold more: its file system or pool is full.
    CapacityExceeded,
    /// The compared bytes differ; where a write was to follow, nothing was written.
    Miscompare,
    /// The device could not read its medium.
    UnrecoveredRead,
    /// The device could not write its medium.
    WriteFault,
    /// The device can no longer be reached; trying again later may help.
    DeviceUnavailable,
    /// The device cannot do this operation at all.
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
    /// It is next: nothing of the stream moves before it has a buffer.
    Next,
    /// It is asked for when there is a buffer, and comes later.
    Later,
}

/// The data of an answer, next to its outcome. Its tag is a word, as in [`Operation`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Payload {
    /// Nothing to send.
    None,
    /// In a pool buffer, which the session owns from now on and gives back once sent.
    Buffer(BufferId),
    /// All zeroes: no memory was needed (the null device, unwritten blocks).
    Zeroes,
    /// The word that was there before an atomic operation.
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
