//! What an I/O command asks: from 64 bytes to an operation on a volume.
//!
//! Spec: NVM Command Set 1.0, 3. A command that cannot be meant is refused here with its exact
//! status; whether the range lies within the volume is the engine's to say. Fields of features that
//! are not there (protection information, directives, hints) are passed over, as hosts expect of a
//! namespace without them. Where the data is, is the descriptor's to say ([`SglDescriptor`]).

use nearflash_request::{BlockRange, VolumeId};
use nearflash_units::{Blocks, ByteLen, Lba};
use zerocopy::FromBytes;

use crate::reservation::{EXTENDED, ReservationCommand};
use crate::{
    Command, DsmRange, Fused, IoOpcode, NamespaceEntry, NamespaceId, NamespaceTable, SglDescriptor,
    Status,
};

/// Dword 12, bit 30: force unit access.
const FUA: u32 = 1 << 30;
/// Dword 12 of Write Zeroes, bit 25: the blocks may be deallocated (DEAC).
const DEALLOCATE: u32 = 1 << 25;

/// A decoded I/O command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IoCommand {
    /// Asks something of one volume.
    Volume(VolumeCommand),
    /// Flush of NSID FFFFFFFFh: one flush for each namespace of the table, and one answer.
    FlushAll,
}

/// An I/O command to one namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VolumeCommand {
    /// The volume behind its namespace.
    pub volume: VolumeId,
    /// Which blocks; empty for a Flush and a Dataset Management.
    pub range: BlockRange,
    /// What is to be done.
    pub operation: IoOperation,
    /// What data goes with it.
    pub transfer: Transfer,
}

/// What an I/O command does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IoOperation {
    /// Blocks to the host.
    Read,
    /// Blocks from the host.
    Write {
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// What was answered before is durable before the answer.
    Flush,
    /// The range reads as zeroes.
    WriteZeroes {
        /// DEAC: the blocks may be released.
        deallocate: bool,
        /// Durable before the answer.
        force_unit_access: bool,
    },
    /// The data holds ranges, see [`dsm_ranges`].
    DatasetManagement {
        /// AD: the ranges are no longer needed. Otherwise the command is only a hint.
        deallocate: bool,
    },
    /// The blocks equal those from the host?
    Compare,
    /// Registers, reserves or ends one of both; the data holds keys.
    Reservation(ReservationCommand),
    /// Who is registered and what is reserved goes to the host.
    ReservationReport,
}

/// A command's data: which way, and exactly how much.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// None.
    None,
    /// From the controller to the host.
    ToHost(ByteLen),
    /// From the host to the controller.
    FromHost(ByteLen),
}

impl Transfer {
    /// How many bytes.
    pub const fn len(self) -> ByteLen {
        match self {
            Self::None => ByteLen(0),
            Self::ToHost(len) | Self::FromHost(len) => len,
        }
    }
}

/// A Read of the form that all but a few have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlainRead {
    /// Which volume.
    pub volume: VolumeId,
    /// Which blocks.
    pub range: BlockRange,
    /// How many bytes that is.
    pub len: u32,
}

/// `command`, if it is a Read that is not fused and whose descriptor names exactly its bytes.
/// [`decode`] judges everything else, and would say the same of this.
#[inline]
pub fn plain_read(command: &Command, table: &NamespaceTable) -> Option<PlainRead> {
    if command.opcode != IoOpcode::READ.0 || command.flags != Command::PSDT_SGL {
        return None;
    }
    let entry = table.get(command.namespace_id())?;
    let range = block_range(command);
    let len = range.count.0 << entry.block_size.shift();
    let is_usual = command.sgl.identifier == SglDescriptor::TRANSPORT
        && len == u64::from(command.sgl.length.get())
        && len <= table.transfer_len_max().0;
    let len = command.sgl.length.get();
    is_usual.then_some(PlainRead { volume: entry.volume, range, len })
}

/// What `command` asks of the namespaces in `table`.
///
/// # Errors
/// The status to answer with.
pub fn decode(command: &Command, table: &NamespaceTable) -> Result<IoCommand, Status> {
    let opcode = IoOpcode(command.opcode);
    let ask: Ask = match opcode {
        IoOpcode::READ => read,
        IoOpcode::WRITE => write,
        IoOpcode::FLUSH => flush,
        IoOpcode::WRITE_ZEROES => write_zeroes,
        IoOpcode::DATASET_MANAGEMENT => dataset_management,
        IoOpcode::COMPARE => compare,
        IoOpcode::RESERVATION_REGISTER => {
            |command, _| with_keys(ReservationCommand::register(command.cdw10.get())?)
        }
        IoOpcode::RESERVATION_ACQUIRE => {
            |command, _| with_keys(ReservationCommand::acquire(command.cdw10.get())?)
        }
        IoOpcode::RESERVATION_RELEASE => {
            |command, _| with_keys(ReservationCommand::release(command.cdw10.get())?)
        }
        IoOpcode::RESERVATION_REPORT => reservation_report,
        _ => return Err(Status::INVALID_OPCODE.dnr()),
    };
    check_flags(command, opcode)?;
    let namespace = command.namespace_id();
    if opcode == IoOpcode::FLUSH && namespace == NamespaceId::ALL {
        return Ok(IoCommand::FlushAll);
    }
    let entry = table.get(namespace).ok_or(Status::INVALID_NAMESPACE.dnr())?;
    let Asked { range, operation, transfer } = ask(command, entry)?;
    if transfer.len() > table.transfer_len_max() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(IoCommand::Volume(VolumeCommand { volume: entry.volume, range, operation, transfer }))
}

/// PSDT must name an SGL, and the one fused operation there is consists of a Compare and a Write.
fn check_flags(command: &Command, opcode: IoOpcode) -> Result<(), Status> {
    let fused_as_known = match command.fused() {
        Fused::Normal => true,
        Fused::First => opcode == IoOpcode::COMPARE,
        Fused::Second => opcode == IoOpcode::WRITE,
        Fused::Reserved => false,
    };
    let known = command.uses_sgl() && fused_as_known;
    if known { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
}

type Ask = fn(&Command, &NamespaceEntry) -> Result<Asked, Status>;

/// What a command's handler finds in it.
struct Asked {
    range: BlockRange,
    operation: IoOperation,
    transfer: Transfer,
}

fn read(command: &Command, entry: &NamespaceEntry) -> Result<Asked, Status> {
    let range = block_range(command);
    let transfer = Transfer::ToHost(range_len(range, entry)?);
    Ok(Asked { range, operation: IoOperation::Read, transfer })
}

fn write(command: &Command, entry: &NamespaceEntry) -> Result<Asked, Status> {
    check_writable(entry)?;
    let range = block_range(command);
    let operation = IoOperation::Write { force_unit_access: has(command, FUA) };
    Ok(Asked { range, operation, transfer: Transfer::FromHost(range_len(range, entry)?) })
}

fn flush(_: &Command, _: &NamespaceEntry) -> Result<Asked, Status> {
    Ok(Asked { range: EMPTY, operation: IoOperation::Flush, transfer: Transfer::None })
}

fn write_zeroes(command: &Command, entry: &NamespaceEntry) -> Result<Asked, Status> {
    check_writable(entry)?;
    let operation = IoOperation::WriteZeroes {
        deallocate: has(command, DEALLOCATE),
        force_unit_access: has(command, FUA),
    };
    Ok(Asked { range: block_range(command), operation, transfer: Transfer::None })
}

fn dataset_management(command: &Command, entry: &NamespaceEntry) -> Result<Asked, Status> {
    let deallocate = command.cdw11.get() & DsmRange::DEALLOCATE != 0;
    if deallocate {
        check_writable(entry)?;
    }
    let [ranges_zero_based, ..] = command.cdw10.get().to_le_bytes();
    let len = (usize::from(ranges_zero_based) + 1) * DsmRange::LEN;
    Ok(Asked {
        range: EMPTY,
        operation: IoOperation::DatasetManagement { deallocate },
        transfer: Transfer::FromHost(ByteLen::from_usize(len)),
    })
}

fn compare(command: &Command, entry: &NamespaceEntry) -> Result<Asked, Status> {
    let range = block_range(command);
    let transfer = Transfer::FromHost(range_len(range, entry)?);
    Ok(Asked { range, operation: IoOperation::Compare, transfer })
}

fn with_keys(command: ReservationCommand) -> Result<Asked, Status> {
    let len = ByteLen::from_usize(command.data_len());
    let operation = IoOperation::Reservation(command);
    Ok(Asked { range: EMPTY, operation, transfer: Transfer::FromHost(len) })
}

/// NVMe Base 2.0, 7 (Reservation Report): as many dwords as the host wants.
fn reservation_report(command: &Command, _: &NamespaceEntry) -> Result<Asked, Status> {
    if command.cdw11.get() & EXTENDED == 0 {
        return Err(Status::HOST_IDENTIFIER_INCONSISTENT.dnr());
    }
    let len = (u64::from(command.cdw10.get()) + 1) * 4;
    let transfer = Transfer::ToHost(ByteLen(len));
    Ok(Asked { range: EMPTY, operation: IoOperation::ReservationReport, transfer })
}

const EMPTY: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };

/// SLBA in dwords 10 and 11, NLB in dword 12, bits 15:0.
#[inline]
fn block_range(command: &Command) -> BlockRange {
    let [low, high, ..] = command.cdw12.get().to_le_bytes();
    BlockRange {
        start: Lba(command.cdw10_11()),
        count: Blocks::from_zero_based(u16::from_le_bytes([low, high])),
    }
}

fn range_len(range: BlockRange, entry: &NamespaceEntry) -> Result<ByteLen, Status> {
    entry.block_size.len(range.count).ok_or(Status::INVALID_FIELD.dnr())
}

fn has(command: &Command, bit: u32) -> bool {
    command.cdw12.get() & bit != 0
}

fn check_writable(entry: &NamespaceEntry) -> Result<(), Status> {
    if entry.write_protected { Err(Status::NAMESPACE_WRITE_PROTECTED.dnr()) } else { Ok(()) }
}

/// The ranges in a Dataset Management command's data.
///
/// # Errors
/// Invalid Field when the data is not whole ranges, or more than [`DsmRange::COUNT_MAX`].
pub fn dsm_ranges(data: &[u8]) -> Result<Box<[BlockRange]>, Status> {
    let ranges = <[DsmRange]>::ref_from_bytes(data).map_err(|_| Status::INVALID_FIELD.dnr())?;
    if ranges.len() > DsmRange::COUNT_MAX {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(ranges.iter().map(|range| range.to_range()).collect())
}

/// The commands as hosts build them.
impl Command {
    /// Read blocks, their count 0's based, into `len` bytes moved by the transport.
    pub fn read(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::READ, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Write as many blocks from `len` bytes moved by the transport.
    pub fn write(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::WRITE, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Compare as many blocks with `len` bytes moved by the transport.
    pub fn compare(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::COMPARE, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Make as many blocks read as zeroes.
    pub fn write_zeroes(nsid: NamespaceId, start: Lba, blocks_zero_based: u16) -> Self {
        Self::blocks(IoOpcode::WRITE_ZEROES, nsid, start, blocks_zero_based)
    }

    /// Flush one namespace, or all.
    pub fn flush(nsid: NamespaceId) -> Self {
        Self::new(IoOpcode::FLUSH.0, nsid)
    }

    /// Deallocate the ranges in the data, moved by the transport: 16 bytes each.
    pub fn deallocate(nsid: NamespaceId, ranges_zero_based: u8) -> Self {
        let len = (u32::from(ranges_zero_based) + 1) * 16;
        Self {
            cdw10: u32::from(ranges_zero_based).into(),
            cdw11: DsmRange::DEALLOCATE.into(),
            ..Self::new(IoOpcode::DATASET_MANAGEMENT.0, nsid)
        }
        .with_transport_data(len)
    }

    /// The same command with force unit access.
    #[must_use]
    pub fn with_force_unit_access(self) -> Self {
        Self { cdw12: (self.cdw12.get() | FUA).into(), ..self }
    }

    /// The same command whose blocks may be released; of a Write Zeroes only.
    #[must_use]
    pub fn with_deallocate(self) -> Self {
        Self { cdw12: (self.cdw12.get() | DEALLOCATE).into(), ..self }
    }

    /// The same command with `len` bytes of data by the transport's own PDUs.
    #[must_use]
    pub fn with_transport_data(self, len: u32) -> Self {
        Self { sgl: SglDescriptor::transport(len), ..self }
    }

    /// The same command with `len` bytes of data in the capsule.
    #[must_use]
    pub fn with_capsule_data(self, len: u32) -> Self {
        Self { sgl: SglDescriptor::in_capsule(0, len), ..self }
    }

    fn blocks(opcode: IoOpcode, nsid: NamespaceId, start: Lba, blocks_zero_based: u16) -> Self {
        let mut command = Self::new(opcode.0, nsid);
        command.set_cdw10_11(start.0);
        command.cdw12 = u32::from(blocks_zero_based).into();
        command
    }
}

#[cfg(test)]
mod tests;
