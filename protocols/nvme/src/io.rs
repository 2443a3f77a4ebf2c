//! Decodes I/O commands: from the 64 bytes of a command to an operation on a volume.
//!
//! Spec: NVM Command Set 1.0, 3. An invalid command is refused here with its exact status. The
//! engine checks whether the range lies within the volume. Fields of unsupported features
//! (protection information, directives, hints) are ignored, as hosts expect of a namespace without
//! them. The [`SglDescriptor`] locates the data.

use nearflash_request::{BlockRange, Support, VolumeId};
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
    /// A command to one volume.
    Volume(VolumeCommand),
    /// Flush of NSID FFFFFFFFh: one flush for each namespace of the table, and one completion.
    FlushAll,
}

/// An I/O command to one namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VolumeCommand {
    /// The volume behind its namespace.
    pub volume: VolumeId,
    /// The logical blocks; empty for a Flush and a Dataset Management.
    pub range: BlockRange,
    /// The operation.
    pub operation: IoOperation,
    /// The direction and length of the data.
    pub transfer: Transfer,
}

/// The operation of an I/O command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum IoOperation {
    /// Blocks to the host.
    Read,
    /// Blocks from the host.
    Write { force_unit_access: bool },
    /// All completed writes are durable before the completion.
    Flush,
    /// The range reads as zeroes afterwards.
    WriteZeroes { deallocate: bool, force_unit_access: bool },
    /// The data holds ranges; see [`dsm_ranges`].
    DatasetManagement {
        /// AD: the ranges are no longer needed. Otherwise the command is only a hint.
        deallocate: bool,
    },
    /// Compares the blocks with the host's data.
    Compare,
    /// Changes registrations or the reservation. The data holds keys.
    Reservation(ReservationCommand),
    /// Returns the registrants and the reservation to the host.
    ReservationReport,
}

/// The direction and exact length of a command's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transfer {
    /// No data.
    None,
    /// From the controller to the host.
    ToHost(ByteLen),
    /// From the host to the controller.
    FromHost(ByteLen),
}

impl Transfer {
    /// The length of the data.
    pub const fn len(self) -> ByteLen {
        match self {
            Self::None => ByteLen(0),
            Self::ToHost(len) | Self::FromHost(len) => len,
        }
    }
}

/// A Read in its usual form: not fused, with a descriptor of exactly its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlainRead {
    /// The volume.
    pub volume: VolumeId,
    /// The logical blocks.
    pub range: BlockRange,
    /// The length of the blocks in bytes.
    pub len: u32,
}

/// Decodes `command` if it is a Read that is not fused and whose descriptor has exactly the length
/// of its blocks. [`decode`] handles every other command and returns the same result for these.
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

/// Decodes `command` against the namespaces in `table`.
///
/// # Errors
/// The status of the completion.
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
            |command, entry| with_keys(ReservationCommand::register(command.cdw10.get())?, entry)
        }
        IoOpcode::RESERVATION_ACQUIRE => {
            |command, entry| with_keys(ReservationCommand::acquire(command.cdw10.get())?, entry)
        }
        IoOpcode::RESERVATION_RELEASE => {
            |command, entry| with_keys(ReservationCommand::release(command.cdw10.get())?, entry)
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
    check_support(command, opcode, entry.support)?;
    let command = ask(command, entry)?;
    if command.transfer.len() > table.transfer_len_max() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(IoCommand::Volume(command))
}

/// Checks that PSDT names an SGL, and that a fused command belongs to Compare and Write.
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

/// Refuses what Identify does not claim: reservation commands (RESCAP), and fused commands (FUSES).
fn check_support(command: &Command, opcode: IoOpcode, support: Support) -> Result<(), Status> {
    if IoOpcode::RESERVATIONS.contains(&opcode) && !support.reservations {
        return Err(Status::INVALID_OPCODE.dnr());
    }
    if command.fused() != Fused::Normal && !support.compound {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(())
}

impl VolumeCommand {
    fn new(
        entry: &NamespaceEntry,
        range: BlockRange,
        operation: IoOperation,
        transfer: Transfer,
    ) -> Self {
        Self { volume: entry.volume, range, operation, transfer }
    }
}

type Ask = fn(&Command, &NamespaceEntry) -> Result<VolumeCommand, Status>;

fn read(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    let range = block_range(command);
    let transfer = Transfer::ToHost(range_len(range, entry)?);
    Ok(VolumeCommand::new(entry, range, IoOperation::Read, transfer))
}

fn write(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    check_writable(entry)?;
    let range = block_range(command);
    let operation = IoOperation::Write { force_unit_access: has(command, FUA) };
    let transfer = Transfer::FromHost(range_len(range, entry)?);
    Ok(VolumeCommand::new(entry, range, operation, transfer))
}

fn flush(_: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    Ok(VolumeCommand::new(entry, EMPTY, IoOperation::Flush, Transfer::None))
}

fn write_zeroes(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    check_writable(entry)?;
    let operation = IoOperation::WriteZeroes {
        deallocate: has(command, DEALLOCATE),
        force_unit_access: has(command, FUA),
    };
    Ok(VolumeCommand::new(entry, block_range(command), operation, Transfer::None))
}

fn dataset_management(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    let deallocate = command.cdw11.get() & DsmRange::DEALLOCATE != 0;
    if deallocate {
        check_writable(entry)?;
    }
    let [ranges_zero_based, ..] = command.cdw10.get().to_le_bytes();
    let len = (usize::from(ranges_zero_based) + 1) * DsmRange::LEN;
    let operation = IoOperation::DatasetManagement { deallocate };
    let transfer = Transfer::FromHost(ByteLen::from_usize(len));
    Ok(VolumeCommand::new(entry, EMPTY, operation, transfer))
}

fn compare(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    let range = block_range(command);
    let transfer = Transfer::FromHost(range_len(range, entry)?);
    Ok(VolumeCommand::new(entry, range, IoOperation::Compare, transfer))
}

fn with_keys(command: ReservationCommand, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    let transfer = Transfer::FromHost(ByteLen::from_usize(command.data_len()));
    Ok(VolumeCommand::new(entry, EMPTY, IoOperation::Reservation(command), transfer))
}

/// NVMe Base 2.0, 7 (Reservation Report): NUMD is the number of dwords to return.
fn reservation_report(command: &Command, entry: &NamespaceEntry) -> Result<VolumeCommand, Status> {
    if command.cdw11.get() & EXTENDED == 0 {
        return Err(Status::HOST_IDENTIFIER_INCONSISTENT.dnr());
    }
    let len = (u64::from(command.cdw10.get()) + 1) * 4;
    let transfer = Transfer::ToHost(ByteLen(len));
    Ok(VolumeCommand::new(entry, EMPTY, IoOperation::ReservationReport, transfer))
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

/// Decodes the ranges in a Dataset Management command's data.
///
/// # Errors
/// Invalid Field for a partial range, or more than [`DsmRange::COUNT_MAX`] ranges.
pub fn dsm_ranges(data: &[u8]) -> Result<Box<[BlockRange]>, Status> {
    let ranges = <[DsmRange]>::ref_from_bytes(data).map_err(|_| Status::INVALID_FIELD.dnr())?;
    if ranges.len() > DsmRange::COUNT_MAX {
        return Err(Status::INVALID_FIELD.dnr());
    }
    Ok(ranges.iter().map(|range| range.to_range()).collect())
}

/// Constructors of the commands that hosts send.
impl Command {
    /// Reads blocks into `len` bytes that the transport moves.
    pub fn read(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::READ, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Writes blocks from `len` bytes that the transport moves.
    pub fn write(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::WRITE, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Compares blocks with `len` bytes that the transport moves.
    pub fn compare(nsid: NamespaceId, start: Lba, blocks_zero_based: u16, len: u32) -> Self {
        Self::blocks(IoOpcode::COMPARE, nsid, start, blocks_zero_based).with_transport_data(len)
    }

    /// Makes blocks read as zeroes.
    pub fn write_zeroes(nsid: NamespaceId, start: Lba, blocks_zero_based: u16) -> Self {
        Self::blocks(IoOpcode::WRITE_ZEROES, nsid, start, blocks_zero_based)
    }

    /// Flushes one namespace, or all with [`NamespaceId::ALL`].
    pub fn flush(nsid: NamespaceId) -> Self {
        Self::new(IoOpcode::FLUSH.0, nsid)
    }

    /// Deallocates the ranges in the data, 16 bytes each, which the transport moves.
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

    /// The same command with DEAC. Only valid for a Write Zeroes.
    #[must_use]
    pub fn with_deallocate(self) -> Self {
        Self { cdw12: (self.cdw12.get() | DEALLOCATE).into(), ..self }
    }

    /// The same command with `len` bytes of data in the transport's data PDUs.
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
