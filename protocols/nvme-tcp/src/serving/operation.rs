//! Decodes I/O commands for slots.

use nearflash_nvme::io::{self, IoCommand, IoOperation, VolumeCommand};
use nearflash_nvme::reservation::ReservationCommand;
use nearflash_nvme::{Command, FabricsType, NamespaceTable, Status};
use nearflash_request::{BlockRange, Operation, VolumeId};
use nearflash_units::ByteLen;

use super::slots::PayloadUse;

/// A decoded I/O command.
#[derive(Debug)]
pub(super) enum Asked {
    /// A read, with data to the host.
    Read { volume: VolumeId, range: BlockRange, len: u32 },
    /// An operation with payload from the host.
    Payload { volume: VolumeId, range: BlockRange, payload_use: PayloadUse, len: u32 },
    /// An operation without data.
    Plain { volume: VolumeId, range: BlockRange, operation: Operation },
    /// A flush of every namespace.
    FlushAll,
    /// An operation on ranges, which are the first `len` bytes of data.
    Ranges { volume: VolumeId, deallocate: bool, len: u32 },
    /// A change of reservations, with `len` bytes of keys as data.
    Reservation { volume: VolumeId, command: ReservationCommand, len: u32 },
    /// A report of registrants and reservation, with `len` bytes of data to the host.
    ReservationReport { volume: VolumeId, len: u32 },
    /// A Disconnect, which deletes the queue.
    Disconnect,
}

/// Decodes `command` against `namespaces`. The error is the status of the completion.
#[inline]
pub(super) fn read(command: &Command, namespaces: &NamespaceTable) -> Result<Asked, Status> {
    if command.is_fabrics() {
        return match command.fabrics_type() {
            FabricsType::DISCONNECT => Ok(Asked::Disconnect),
            FabricsType::CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            _ => Err(Status::INVALID_OPCODE.dnr()),
        };
    }
    let command = match io::decode(command, namespaces)? {
        IoCommand::Volume(command) => command,
        IoCommand::FlushAll => return Ok(Asked::FlushAll),
    };
    let VolumeCommand { volume, range, .. } = command;
    let len = data_len(command.transfer.len())?;
    let plain = |operation| Asked::Plain { volume, range, operation };
    let payload = |payload_use| Asked::Payload { volume, range, payload_use, len };
    Ok(match command.operation {
        IoOperation::Read => Asked::Read { volume, range, len },
        IoOperation::Write { force_unit_access } => {
            payload(PayloadUse::Write { force_unit_access })
        }
        IoOperation::Compare => payload(PayloadUse::Compare),
        IoOperation::Flush => plain(Operation::Flush),
        IoOperation::WriteZeroes { deallocate, force_unit_access } => {
            plain(Operation::WriteZeroes { deallocate, force_unit_access })
        }
        IoOperation::DatasetManagement { deallocate } => Asked::Ranges { volume, deallocate, len },
        IoOperation::Reservation(command) => Asked::Reservation { volume, command, len },
        IoOperation::ReservationReport => Asked::ReservationReport { volume, len },
    })
}

/// Converts a data length. A table that allows more than 32 bits exceeds NVMe/TCP's length fields.
#[inline]
fn data_len(len: ByteLen) -> Result<u32, Status> {
    u32::try_from(len.0).map_err(|_| Status::INVALID_FIELD.dnr())
}
