//! What an I/O command asks, in the words of a slot.

use nearflash_nvme::io::{self, IoCommand, IoOperation, VolumeCommand};
use nearflash_nvme::reservation::ReservationCommand;
use nearflash_nvme::{Command, FabricsType, NamespaceTable, Status};
use nearflash_request::{BlockRange, Operation, VolumeId};
use nearflash_units::ByteLen;

use super::slots::PayloadUse;

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
    /// Something about ranges that come as `len` bytes of data.
    Ranges { volume: VolumeId, deallocate: bool, len: u32 },
    /// Something about reservations, with `len` bytes of keys as data.
    Reservation { volume: VolumeId, command: ReservationCommand, len: u32 },
    /// Who is registered and what is reserved, as `len` bytes of data to the host.
    ReservationReport { volume: VolumeId, len: u32 },
    /// The end of the queue.
    Disconnect,
}

/// What `command` asks of `namespaces`; otherwise the status to answer with.
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

/// The wire's lengths are 32 bits; a table that allows more cannot be kept.
#[inline]
fn data_len(len: ByteLen) -> Result<u32, Status> {
    u32::try_from(len.0).map_err(|_| Status::INVALID_FIELD.dnr())
}
