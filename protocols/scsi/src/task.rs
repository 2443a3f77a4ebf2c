//! Tasks: the results of decoding a command.

use nearflash_request::{Access, BlockRange, BufferId, ChangeKind, Operation, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba};

use crate::{CopyTask, Sense};

/// The execution of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Task {
    /// Nothing: GOOD status without data.
    Good,
    /// GOOD status with this data, which is already truncated to the allocation length.
    DataIn(Vec<u8>),
    /// Request this many bytes of parameters, from 1 to [`crate::limits::PARAMETERS_LEN_MAX`], and
    /// pass them to [`crate::parameters`].
    Parameters(ByteLen),
    /// A request for the engine.
    Request(RequestTask),
    /// A copy, piece by piece: [`crate::Series`].
    Copy(CopyTask),
    /// A change for the control side.
    Change(ChangeTask),
}

/// A request without its buffers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestTask {
    /// The operation.
    pub action: Action,
    /// The blocks.
    pub range: BlockRange,
    /// The length of the data from the initiator.
    pub data_out: ByteLen,
    /// The length of the data to the initiator, or the maximum length of the reply.
    pub data_in: ByteLen,
    /// The sense data for data of another length, where it matters: [`Self::with_data_of`].
    pub exact: Option<Sense>,
    /// The unit's block size, for sense data.
    pub block_size: BlockSize,
    /// The data of the response, in addition to the status.
    pub reply: Reply,
}

/// An [`Operation`] without its buffers.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the operation says what the fields are")]
pub enum Action {
    /// See [`Operation::Read`].
    Read,
    /// See [`Operation::Write`]: one buffer.
    Write { force_unit_access: bool },
    /// See [`Operation::WriteBytes`], from the first byte on: one buffer of the range's length.
    WriteBytes { len: u32, force_unit_access: bool },
    /// See [`Operation::WriteAndVerify`]: one buffer.
    WriteAndVerify {
        /// The data read back must equal the data written.
        compare: bool,
    },
    /// See [`Operation::Flush`].
    Flush,
    /// See [`Operation::Verify`].
    Verify,
    /// See [`Operation::Compare`]: one buffer.
    Compare,
    /// See [`Operation::CompareSame`]: one buffer, of one block.
    CompareSame,
    /// See [`Operation::CompareAndWrite`]: two buffers of equal length, the compare instance first.
    CompareAndWrite { force_unit_access: bool },
    /// See [`Operation::OrWrite`]: one buffer.
    OrWrite { force_unit_access: bool },
    /// See [`Operation::WriteSame`]: one buffer, of one block.
    WriteSame,
    /// See [`Operation::Copy`].
    Copy { source: VolumeId, from: BlockRange },
    /// See [`Operation::WriteZeroes`].
    WriteZeroes {
        /// The blocks may be released.
        deallocate: bool,
    },
    /// See [`Operation::Deallocate`]; the blocks read as zeroes afterwards.
    Deallocate(Box<[BlockRange]>),
    /// See [`Operation::Allocation`].
    Allocation,
    /// See [`Operation::Admit`]: the response is ready if the access is allowed.
    Admit(Access),
}

impl Action {
    /// Whether it changes blocks.
    pub const fn changes_blocks(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::WriteBytes { .. }
            | Self::WriteAndVerify { .. }
            | Self::CompareAndWrite { .. }
            | Self::OrWrite { .. }
            | Self::WriteSame
            | Self::Copy { .. }
            | Self::WriteZeroes { .. }
            | Self::Deallocate(_) => true,
            Self::Read
            | Self::Flush
            | Self::Verify
            | Self::Compare
            | Self::CompareSame
            | Self::Allocation
            | Self::Admit(_) => false,
        }
    }
}

/// The data of a [`RequestTask`]'s response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// No data except the data of a read.
    Status,
    /// This data, if the engine allows the access.
    Data(Vec<u8>),
    /// The parameter data of GET LBA STATUS, truncated to this length.
    LbaStatus {
        /// ALLOCATION LENGTH.
        allocation_len: u32,
    },
}

impl RequestTask {
    /// A request that transfers no data.
    pub fn new(action: Action, range: BlockRange, block_size: BlockSize) -> Self {
        let none = ByteLen(0);
        Self {
            action,
            range,
            data_out: none,
            data_in: none,
            exact: None,
            block_size,
            reply: Reply::Status,
        }
    }

    /// The number of buffers for the initiator's data: none, one, or two of equal length.
    pub fn buffer_count(&self) -> usize {
        match self.action {
            Action::CompareAndWrite { .. } => 2,
            _ => usize::from(self.data_out.0 != 0),
        }
    }

    /// The length of each of these buffers.
    pub fn buffer_len(&self) -> ByteLen {
        match self.action {
            Action::CompareAndWrite { .. } => ByteLen(self.data_out.0 / 2),
            Action::WriteBytes { .. } => self.block_size.len(self.range.count).unwrap_or_default(),
            _ => self.data_out,
        }
    }

    /// Adapts the request to the length of data that the initiator sends. Excess data is ignored.
    /// With too little data the command is executed for the part that arrived, which SCSI leaves to
    /// the target, and the residual count reports the rest: a plain write to the byte, others to
    /// the block. Without any data nothing is executed.
    ///
    /// # Errors
    /// If the operation needs whole blocks, or [`Self::exact`] is set and the length differs.
    pub fn with_data_of(self, brought: ByteLen) -> Result<Self, Sense> {
        if let Some(sense) = self.exact
            && brought != self.data_out
        {
            return Err(sense);
        }
        if brought >= self.data_out {
            return Ok(self);
        }
        let is_whole = self.block_size.divides(brought);
        let mut count = self.block_size.blocks_in(brought);
        let action = match (brought, self.action) {
            (ByteLen(0), Action::Compare) => Action::Admit(Access::Read),
            (ByteLen(0), _) => Action::Admit(Access::Write),
            (_, action) if is_whole => action,
            (ByteLen(len), Action::Write { force_unit_access }) => {
                count = Blocks(count.0 + 1);
                let len = u32::try_from(len).map_err(|_| Sense::INVALID_INFORMATION_UNIT)?;
                Action::WriteBytes { len, force_unit_access }
            }
            _ => return Err(Sense::INVALID_INFORMATION_UNIT),
        };
        let range = BlockRange { count, ..self.range };
        Ok(Self { action, range, data_out: brought, ..self })
    }

    /// The engine's operation; `None` unless `buffers` has [`Self::buffer_count`] entries.
    pub fn operation(&self, buffers: &[BufferId]) -> Option<Operation> {
        Some(match (&self.action, buffers) {
            (Action::Read, []) => Operation::Read,
            (&Action::Write { force_unit_access }, &[payload]) => {
                Operation::Write { payload, force_unit_access }
            }
            (&Action::WriteBytes { len, force_unit_access }, &[payload]) => {
                Operation::WriteBytes { payload, skip: 0, len, force_unit_access }
            }
            (&Action::WriteAndVerify { compare }, &[payload]) => {
                Operation::WriteAndVerify { payload, compare }
            }
            (Action::Flush, []) => Operation::Flush,
            (Action::Verify, []) => Operation::Verify,
            (Action::Compare, &[payload]) => Operation::Compare { payload },
            (Action::CompareSame, &[payload]) => Operation::CompareSame { payload },
            (&Action::CompareAndWrite { force_unit_access }, &[compare, write]) => {
                Operation::CompareAndWrite { compare, write, force_unit_access }
            }
            (&Action::OrWrite { force_unit_access }, &[payload]) => {
                Operation::OrWrite { payload, force_unit_access }
            }
            (Action::WriteSame, &[payload]) => {
                Operation::WriteSame { payload, force_unit_access: false }
            }
            (&Action::Copy { source, from }, []) => Operation::Copy { source, from },
            (&Action::WriteZeroes { deallocate }, []) => {
                Operation::WriteZeroes { deallocate, force_unit_access: false }
            }
            (Action::Deallocate(ranges), []) => {
                Operation::Deallocate { ranges: ranges.clone(), zeroes: true }
            }
            (Action::Allocation, []) => Operation::Allocation,
            (&Action::Admit(access), []) => Operation::Admit(access),
            _ => return None,
        })
    }
}

/// A change for the control side, and the data of its response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChangeTask {
    /// The change.
    pub kind: ChangeKind,
    /// The data for the initiator after the change.
    pub reply: ReportReply,
}

/// The part of a [`nearflash_request::Report`] for an initiator, and its allocation length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportReply {
    /// No data.
    Status,
    /// PERSISTENT RESERVE IN, READ KEYS.
    Keys(u16),
    /// PERSISTENT RESERVE IN, READ RESERVATION.
    Reservation(u16),
    /// PERSISTENT RESERVE IN, REPORT CAPABILITIES.
    Capabilities(u16),
    /// PERSISTENT RESERVE IN, READ FULL STATUS.
    FullStatus(u16),
}

pub(crate) const NO_BLOCKS: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };
