//! What an I/O command asks, in the words of a slot.

use nearflash_nvme::{Command, Status};
use nearflash_request::{BlockRange, Operation, VolumeId};

use super::slots::PayloadUse;
use crate::NamespaceTable;

/// What an I/O command asks.
#[derive(Debug)]
pub(super) enum Asked {
    /// Data to the host.
    Read { volume: VolumeId, range: BlockRange, len: u32 },
    /// Something with payload from the host.
    Payload { volume: VolumeId, range: BlockRange, payload_use: PayloadUse, len: u32 },
    /// Something without data.
    Plain { volume: VolumeId, range: BlockRange, operation: Operation },
    /// A flush of every namespace.
    FlushAll,
    /// The deallocation of ranges that come as data.
    Ranges { volume: VolumeId, count: usize },
    /// The end of the queue.
    Disconnect,
}

#[inline]
pub(super) fn read(
    _command: &Command,
    _namespaces: &NamespaceTable,
    _transfer_len_max: u32,
) -> Result<Asked, Status> {
    Err(Status::INVALID_OPCODE.dnr())
}

pub(super) fn volumes(_namespaces: &NamespaceTable) -> impl Iterator<Item = VolumeId> {
    std::iter::empty()
}
