//! What a command is turned into.

use nearflash_request::{Access, BlockRange, BufferId, ChangeKind, Operation, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba};

use crate::{CopyTask, Sense};

/// What is to be done for a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Task {
    /// Nothing any more: GOOD, and no data.
    Good,
    /// To be answered at once: GOOD with this data, cut to the allocation length already.
    DataIn(Vec<u8>),
    /// That many bytes of parameters are to be fetched, [`crate::limits::PARAMETERS_LEN_MAX`] at
    /// most and never none, and given to [`crate::parameters`].
    Parameters(ByteLen),
    /// To be asked of the engine.
    Request(RequestTask),
    /// To be copied, piece by piece: [`crate::Series`].
    Copy(CopyTask),
    /// To be asked of the control side.
    Change(ChangeTask),
}

/// A request in the making: its buffers are missing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestTask {
    /// What is to be done.
    pub action: Action,
    /// With which blocks.
    pub range: BlockRange,
    /// How much data the command takes from the initiator.
    pub data_out: ByteLen,
    /// How much data it gives back: what is read, or the answer's length at most.
    pub data_in: ByteLen,
    /// What an initiator is told that does not bring exactly as much, where it has to: the data's
    /// parts depend on its length. See [`Self::with_data_of`].
    pub exact: Option<Sense>,
    /// The size of the unit's blocks, for what sense data says.
    pub block_size: BlockSize,
    /// What the answer has to say beside how it ended.
    pub reply: Reply,
}

/// An [`Operation`] without its buffers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// See [`Operation::Read`].
    Read,
    /// See [`Operation::Write`]: one buffer.
    Write {
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// See [`Operation::WriteBytes`], from the first block's first byte: one buffer, of the range's
    /// bytes.
    WriteBytes {
        /// How many bytes are written.
        len: u32,
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// See [`Operation::WriteAndVerify`]: one buffer.
    WriteAndVerify {
        /// What is read has to be what was written.
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
    /// See [`Operation::CompareAndWrite`]: two buffers of equal length, what must be there first.
    CompareAndWrite {
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// See [`Operation::OrWrite`]: one buffer.
    OrWrite {
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// See [`Operation::WriteSame`]: one buffer, of one block.
    WriteSame,
    /// See [`Operation::Copy`].
    Copy {
        /// The volume that is read.
        source: VolumeId,
        /// What of it.
        from: BlockRange,
    },
    /// See [`Operation::WriteZeroes`].
    WriteZeroes {
        /// The blocks may be released.
        deallocate: bool,
    },
    /// See [`Operation::Deallocate`], with zeroes afterwards.
    Deallocate(Box<[BlockRange]>),
    /// See [`Operation::Allocation`].
    Allocation,
    /// See [`Operation::Admit`]: the answer is ready, if the asker may have it.
    Admit(Access),
}

/// What a [`RequestTask`]'s answer is made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Nothing but the status; of a read, what was read.
    Status,
    /// This, if the engine lets it pass.
    Data(Vec<u8>),
    /// The parameter data of GET LBA STATUS, cut to this length.
    LbaStatus {
        /// ALLOCATION LENGTH.
        allocation_len: u32,
    },
}

impl RequestTask {
    /// One that moves no data.
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

    /// How many buffers the data of the initiator fills: none, one or two. Each is as long.
    pub fn buffer_count(&self) -> usize {
        match self.action {
            Action::CompareAndWrite { .. } => 2,
            _ => usize::from(self.data_out.0 != 0),
        }
    }

    /// How long each of these buffers is.
    pub fn buffer_len(&self) -> ByteLen {
        match self.action {
            Action::CompareAndWrite { .. } => ByteLen(self.data_out.0 / 2),
            Action::WriteBytes { .. } => self.block_size.len(self.range.count).unwrap_or_default(),
            _ => self.data_out,
        }
    }

    /// The same for an initiator that brings another amount of data than the command takes. What is
    /// left over is passed over. Where some is missing, the command is done as far as it comes, which
    /// is a target's choice and which the residual count then tells: a plain write to the byte, others
    /// to the block, and with no data at all nothing is done.
    ///
    /// # Errors
    /// When the data ends within a block of what works by blocks, or has to be [`Self::exact`] and is
    /// another amount.
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

    /// What is to be asked of the engine; `None` if these are not [`Self::buffer_count`] buffers.
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

/// A change in the making, and what its answer is to say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChangeTask {
    /// What is to change.
    pub kind: ChangeKind,
    /// What the initiator is told when it has.
    pub reply: ReportReply,
}

/// What of a [`nearflash_request::Report`] an initiator is told, and how much of it at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportReply {
    /// Nothing.
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

/// No blocks.
pub(crate) const NO_BLOCKS: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };
