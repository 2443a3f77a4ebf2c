//! SCSI commands, from a header to a slot.
//!
//! Spec: RFC 7143, 11.3. The crate `nearflash-scsi` decodes the CDB; only reads and writes of the
//! common forms are decoded here.

use nearflash_request::{BlockRange, VolumeId};
use nearflash_scsi::{
    Asked, Cdb, CopyTask, Failure, LogicalUnit, RequestTask, Sense, Series, Task, limits,
};
use nearflash_units::{Blocks, ByteLen, Lba};
use zerocopy::IntoBytes;

use super::numbers::Turn;
use super::slots::{Begin, Buffers, Kind, Stage};
use super::{Sink, TargetSession};
use crate::error::PeerError;
use crate::pdu::{Opcode, ScsiCommand, Serial};

/// READ and WRITE, each with a CDB of ten and of sixteen bytes.
const READ_10: u8 = 0x28;
const READ_16: u8 = 0x88;
const WRITE_10: u8 = 0x2A;
const WRITE_16: u8 = 0x8A;
/// DPO is ignored; FUA matters for writes only.
const DISABLE_PAGE_OUT: u8 = 1 << 4;
const FORCE_UNIT_ACCESS: u8 = 1 << 3;

/// A read or write of the common form.
#[derive(Clone, Copy, Debug)]
struct Plain {
    volume: VolumeId,
    range: BlockRange,
    len: u32,
    force_unit_access: bool,
}

/// A decoded command: the slot's kind, the length of its data by its CDB, and the buffers.
struct Planned {
    kind: Kind,
    wanted: u32,
    /// The part of `wanted` that the initiator sends.
    takes: u32,
    buffers: Buffers,
    failed: Option<Failure>,
}

impl Planned {
    /// Whether the command has data for the initiator.
    fn gives(&self) -> bool {
        match &self.kind {
            Kind::Read { .. } => true,
            Kind::Ready { data } => !data.is_empty(),
            Kind::Request { task, .. } => task.data_in.0 > 0,
            Kind::Series(series) => series.piece.task.data_in.0 > 0,
            _ => false,
        }
    }
}

impl TargetSession {
    /// SCSI Command. The data in its PDU, if any, has not been received yet.
    #[inline]
    pub(super) fn on_command(&mut self, command: &ScsiCommand) -> Result<(), PeerError> {
        self.link.sink = Sink::Drop;
        if command.opcode.is_immediate() {
            return self.on_immediate_command(command);
        }
        match self.turn_of(Serial::of(command.cmd_sn)) {
            Turn::Now => {
                self.count_taken();
                self.begin_command(command)?;
                if self.early.is_empty() { Ok(()) } else { self.take_early() }
            }
            Turn::Later => self.hold(command),
            // RFC 7143, 4.2.2.1: silently ignored.
            Turn::Never => Ok(()),
        }
    }

    fn on_immediate_command(&mut self, command: &ScsiCommand) -> Result<(), PeerError> {
        if self.count_immediate(command.as_bytes()) { self.begin_command(command) } else { Ok(()) }
    }

    /// Holds a command before its turn. Its immediate and unsolicited data is received meanwhile.
    fn hold(&mut self, command: &ScsiCommand) -> Result<(), PeerError> {
        if self.tasks.slots.is_full() {
            return Err(PeerError::WindowOverrun(self.shared.numbers.window));
        }
        if command.data_len.get() == 0 && command.is_final() {
            self.hold_command(command);
            return Ok(());
        }
        let index = self.take_slot(command);
        self.hold_slot(Serial::of(command.cmd_sn), index);
        self.begin_data(index, command)
    }

    #[inline]
    pub(super) fn begin_command(&mut self, command: &ScsiCommand) -> Result<(), PeerError> {
        if self.tasks.slots.is_full() {
            return Err(PeerError::WindowOverrun(self.shared.numbers.window));
        }
        let is_bare = command.is_final() && !command.is_write() && command.data_len.get() == 0;
        if is_bare && let Some(plain) = self.plain_read(command) {
            let index = self.tasks.slots.take(begin_of(command, plain.len));
            let Plain { volume, range, .. } = plain;
            self.tasks.slots[index].kind = Kind::Read { volume, range };
            self.tasks.ready.push_back(index);
            return Ok(());
        }
        let index = self.take_slot(command);
        self.begin_data(index, command)
    }

    /// A read of the common form that need not wait.
    #[inline]
    fn plain_read(&self, command: &ScsiCommand) -> Option<Plain> {
        match command.cdb[0] {
            READ_10 | READ_16 if command.is_read() => self.plain(command),
            _ => None,
        }
    }

    /// Range and volume of a READ or WRITE, if its other fields have their common values.
    #[inline]
    fn plain(&self, command: &ScsiCommand) -> Option<Plain> {
        let cdb = &command.cdb;
        let (start, count, group, control) = if cdb[0] & 0x80 == 0 {
            let [_, _, a, b, c, d, group, e, f, control, ..] = *cdb;
            let start = u64::from(u32::from_be_bytes([a, b, c, d]));
            (start, u64::from(u16::from_be_bytes([e, f])), group, control)
        } else {
            let [_, _, start @ .., _, _, _, _, _, _] = *cdb;
            let [.., a, b, c, d, group, control] = *cdb;
            let count = u32::from_be_bytes([a, b, c, d]);
            (u64::from_be_bytes(start), u64::from(count), group, control)
        };
        let flags = cdb[1] & !(DISABLE_PAGE_OUT | FORCE_UNIT_ACCESS);
        let lun = command.lun.number()?;
        let unit = self.units.get(lun)?;
        let is_usual = flags | group | control == 0
            && count != 0
            && count <= limits::buffer_blocks_max(unit.block_size).0
            && start <= unit.blocks.0
            && count <= unit.blocks.0 - start
            && !self.shared.attentions.is_any_pending(lun);
        is_usual.then(|| Plain {
            volume: unit.volume,
            range: BlockRange { start: Lba(start), count: Blocks(count) },
            len: len32(count << unit.block_size.shift()),
            force_unit_access: cdb[1] & FORCE_UNIT_ACCESS != 0,
        })
    }

    /// A write of the common form that need not wait.
    #[inline]
    fn plain_write(&self, command: &ScsiCommand) -> Option<Planned> {
        if !matches!(command.cdb[0], WRITE_10 | WRITE_16) || command.is_read() {
            return None;
        }
        let unit = self.units.get(command.lun.number()?)?;
        let Plain { volume, range, len, force_unit_access } = self.plain(command)?;
        if unit.is_read_only() || command.transfer_len.get() < len {
            return None;
        }
        let kind = Kind::Write { volume, range, force_unit_access };
        let buffers = Buffers::wanted(1, len);
        Some(Planned { kind, wanted: len, takes: len, buffers, failed: None })
    }

    /// Decodes a command, and puts it into a slot.
    #[inline]
    fn take_slot(&mut self, command: &ScsiCommand) -> u16 {
        let planned = self.plain_write(command).unwrap_or_else(|| self.plan(command));
        let mut begin = begin_of(command, planned.wanted);
        if planned.gives() && !command.is_read() {
            // The initiator has no room for the command's data.
            begin.expected = 0;
        }
        let index = self.tasks.slots.take(begin);
        let slot = &mut self.tasks.slots[index];
        slot.takes = planned.takes;
        slot.kind = planned.kind;
        slot.buffers = planned.buffers;
        slot.failed = planned.failed;
        index
    }

    #[cold]
    fn plan(&self, command: &ScsiCommand) -> Planned {
        let cdb = Cdb(command.cdb);
        let unit = command.lun.number().and_then(|lun| self.units.get(lun));
        let asked = self.asked(&cdb, unit);
        let planned = match nearflash_scsi::interpret(&asked) {
            Ok(task) => planned(task, unit, command.cdb, Some(command)),
            Err(sense) => refused(sense.into(), 0),
        };
        checked(planned, command)
    }

    fn asked<'a>(&'a self, cdb: &'a Cdb, unit: Option<&'a LogicalUnit>) -> Asked<'a> {
        let (attentions, copies) = (&self.shared.attentions, &self.shared.copies);
        Asked { cdb, unit, units: &self.units, attentions, copies }
    }

    /// Decodes a command again, after its parameters have arrived.
    pub(super) fn plan_parameters(&mut self, index: u16, cdb: [u8; 16], data: &[u8]) {
        let lun = self.tasks.slots[index].lun;
        let unit = lun.and_then(|lun| self.units.get(lun));
        let cdb_of = Cdb(cdb);
        let asked = self.asked(&cdb_of, unit);
        let planned = match nearflash_scsi::parameters(&asked, data) {
            Ok(task) => planned(task, unit, cdb, None),
            Err(sense) => refused(sense.into(), 0),
        };
        let slot = &mut self.tasks.slots[index];
        slot.kind = planned.kind;
        slot.failed = slot.failed.or(planned.failed);
    }

    /// Begins the data of a command: immediate data, and unsolicited data that follows.
    #[inline]
    fn begin_data(&mut self, index: u16, command: &ScsiCommand) -> Result<(), PeerError> {
        let data_len = command.data_len.get();
        let is_final = command.is_final();
        let opcode = Opcode::SCSI_COMMAND;
        let slot = &mut self.tasks.slots[index];
        if data_len == 0 && is_final {
            self.go_on(index);
            return Ok(());
        }
        let params = &self.shared.params;
        let burst_end = brought_by(command).min(params.first_burst_len);
        let is_agreed =
            (data_len == 0 || params.immediate_data) && (is_final || !params.initial_r2t);
        if data_len > burst_end {
            let (len, offset, expected) = (data_len, 0, 0);
            return Err(PeerError::DataOutOfRange { opcode, offset, len, expected });
        }
        if !is_agreed {
            // RFC 7143, 11.4.7.2.
            slot.failed.get_or_insert(Failure::Check(Sense::UNEXPECTED_DATA));
        }
        slot.burst_end = burst_end;
        slot.stage = Stage::Unsolicited;
        if is_final {
            slot.burst_end = data_len;
        } else {
            self.tasks.unsolicited.push_back(index);
        }
        if data_len > 0 {
            self.link.sink = Sink::Slot { index, is_last: is_final };
        }
        Ok(())
    }
}

#[inline]
fn begin_of(command: &ScsiCommand, wanted: u32) -> Begin {
    Begin {
        itt: command.itt.get(),
        number: Serial::of(command.cmd_sn),
        is_immediate: command.opcode.is_immediate(),
        lun: command.lun.number(),
        expected: command.transfer_len.get(),
        wanted,
    }
}

/// The length of the data that the initiator must send.
fn brought_by(command: &ScsiCommand) -> u32 {
    if command.is_write() { command.transfer_len.get() } else { 0 }
}

/// `command` is `None` if its data has already arrived.
fn planned(
    task: Task,
    unit: Option<&LogicalUnit>,
    cdb: [u8; 16],
    command: Option<&ScsiCommand>,
) -> Planned {
    let bare = |kind, wanted| Planned {
        kind,
        wanted,
        takes: 0,
        buffers: Buffers::default(),
        failed: None,
    };
    // Only INQUIRY, REPORT LUNS and REQUEST SENSE need no unit, and those are answered at once.
    let volume = unit.map(|unit| unit.volume);
    match (task, volume) {
        (Task::Good, _) => bare(Kind::Ready { data: Vec::new() }, 0),
        (Task::DataIn(data), _) => {
            let wanted = len32(data.len());
            bare(Kind::Ready { data }, wanted)
        }
        (Task::Parameters(len), _) => {
            let len = len32(len.0);
            Planned { takes: len, ..bare(Kind::Parameters { cdb, data: Vec::new() }, len) }
        }
        (Task::Request(task), Some(volume)) => request(task, volume, command),
        (Task::Copy(task), _) => bare(copied(task), 0),
        (Task::Change(task), Some(volume)) => bare(Kind::Change { volume, task }, 0),
        (Task::Request(_) | Task::Change(_), None) => refused(Sense::NO_SUCH_UNIT.into(), 0),
    }
}

/// A command is executed as far as its data reaches; the residual count reports the rest.
fn request(task: RequestTask, volume: VolumeId, command: Option<&ScsiCommand>) -> Planned {
    let wanted = len32(task.data_out.0).max(len32(task.data_in.0));
    let is_flagged_as_read = command.is_some_and(|command| command.is_read());
    if is_flagged_as_read && task.data_out.0 > 0 {
        return refused(Sense::INVALID_INFORMATION_UNIT.into(), wanted);
    }
    let brought = ByteLen(u64::from(command.map_or(0, brought_by)));
    let task = match task.with_data_of(brought) {
        Ok(task) => task,
        Err(sense) => return refused(sense.into(), wanted),
    };
    if task.data_out.max(task.data_in) > limits::BUFFER_LEN_MAX {
        return series(task, volume, wanted);
    }
    let (buffers, takes) = (buffers_of(&task), len32(task.data_out.0));
    let kind = Kind::Request { volume, task: Box::new(task) };
    Planned { kind, wanted, takes, buffers, failed: None }
}

/// A transfer longer than a buffer is executed in pieces.
fn series(task: RequestTask, volume: VolumeId, wanted: u32) -> Planned {
    let takes = len32(task.data_out.0);
    let series = Box::new(Series::of_transfer(volume, task));
    let buffers = buffers_of(&series.piece.task);
    Planned { kind: Kind::Series(series), wanted, takes, buffers, failed: None }
}

/// The buffers for the data that the initiator sends.
pub(super) fn buffers_of(task: &RequestTask) -> Buffers {
    let count = u8::try_from(task.buffer_count()).expect("a command fills at most two buffers");
    Buffers::wanted(count, len32(task.buffer_len().0))
}

fn copied(task: CopyTask) -> Kind {
    match Series::of_copy(task) {
        Some(series) => Kind::Series(Box::new(series)),
        None => Kind::Ready { data: Vec::new() },
    }
}

fn refused(failure: Failure, wanted: u32) -> Planned {
    let kind = Kind::Ready { data: Vec::new() };
    Planned { kind, wanted, takes: 0, buffers: Buffers::default(), failed: Some(failure) }
}

/// Parameters are taken only as a whole, and no command moves data in both directions.
fn checked(planned: Planned, command: &ScsiCommand) -> Planned {
    let is_bidirectional = command.is_read() && command.is_write();
    let are_missing = planned.takes > brought_by(command);
    if planned.failed.is_none() && (are_missing || is_bidirectional) {
        return refused(Sense::INVALID_INFORMATION_UNIT.into(), planned.wanted);
    }
    planned
}

/// Lengths of data are a few mebibytes at most.
#[inline]
pub(super) fn len32(len: impl TryInto<u32>) -> u32 {
    len.try_into().ok().expect("the data of a command is shorter than 4 GiB")
}
