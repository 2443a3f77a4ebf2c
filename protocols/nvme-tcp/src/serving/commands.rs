//! Command capsules: from a command to a request for the engine or an admin command to hand out.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2 (location of a command's data), NVMe Base 2.0, 4.1.2 (SGLs) and 6
//! (Fabrics commands).

use std::ops::RangeInclusive;

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::io::{self, IoCommand, IoOperation, Transfer, VolumeCommand};
use nearflash_nvme::{Command, CommandId, FabricsType, Placement, Status};
use nearflash_request::{BlockRange, ChangeKind, Operation, VolumeId};
use nearflash_units::ByteLen;

use super::slots::{Kind, PayloadUse, Stage};
use super::{AdminDemand, SMALL_DATA_LEN_MAX, Sink, State, TargetSession};
use crate::error::PeerError;
use crate::length;

/// A valid command that has no slot yet.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) cid: CommandId,
    pub(super) kind: Kind,
    /// The length of its data, in either direction.
    pub(super) len: u32,
    pub(super) placement: Placement,
}

impl TargetSession {
    /// Handles a command of an I/O queue.
    #[inline]
    pub(super) fn on_io_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.check_room()?;
        if !self.waiting.is_something()
            && self.framer.body.data_left() == 0
            && !self.slots.has(command.command_id())
            && let Some(read) = io::plain_read(command, self.namespaces())
        {
            let io::PlainRead { volume, range, len } = read;
            let index = self.slots.take_read(command.command_id(), volume, range, len);
            self.hand_out(index);
        } else if command.flags & FUSE_BITS != 0 || self.waiting.is_something() {
            self.on_fused_command(command);
        } else {
            self.on_single_command(command);
        }
        Ok(())
    }

    /// Handles a command that is neither part of a fused operation nor a Read of the usual form.
    pub(super) fn on_single_command(&mut self, command: &Command) {
        if let Err(status) = self.take_single(command) {
            self.refuse(command.command_id(), status);
        }
    }

    fn take_single(&mut self, command: &Command) -> Result<(), Status> {
        let cid = command.command_id();
        if command.is_fabrics() && command.fabrics_type() == FabricsType::DISCONNECT {
            self.check_usual(command)?;
            self.disconnect(cid);
            return Ok(());
        }
        if self.is_authentication(command) {
            return self.take_authentication(command);
        }
        let decoded = match self.read_command(command)? {
            IoCommand::Volume(decoded) => decoded,
            IoCommand::FlushAll => {
                self.check_no_data()?;
                self.flush_all(cid);
                return Ok(());
            }
        };
        let VolumeCommand { volume, range, .. } = decoded;
        match decoded.operation {
            IoOperation::Read => {
                let len = self.check_to_host(command, decoded.transfer)?;
                let index = self.slots.take_read(cid, volume, range, len);
                self.hand_out(index);
            }
            IoOperation::ReservationReport => {
                let len = self.check_to_host(command, decoded.transfer)?;
                let stage = Stage::Submitted { pending: 1 };
                let index = self.slots.take(cid, Kind::Taken, len, stage);
                self.hand_out_change(index, volume, ChangeKind::Report);
            }
            IoOperation::Flush => self.take_plain(cid, volume, range, Operation::Flush)?,
            IoOperation::WriteZeroes { deallocate, force_unit_access } => {
                let operation = Operation::WriteZeroes { deallocate, force_unit_access };
                self.take_plain(cid, volume, range, operation)?;
            }
            _ => {
                let prepared = self.prepare(command, decoded)?;
                self.begin(prepared);
            }
        }
        Ok(())
    }

    /// Hands out an operation without data.
    fn take_plain(
        &mut self,
        cid: CommandId,
        volume: VolumeId,
        range: BlockRange,
        operation: Operation,
    ) -> Result<(), Status> {
        self.check_no_data()?;
        let kind = Kind::Plain { volume, range, operation };
        let index = self.slots.take(cid, kind, 0, Stage::Submitted { pending: 1 });
        self.hand_out(index);
        Ok(())
    }

    /// The length of a command's data to the host, for which its buffer is.
    fn check_to_host(&self, command: &Command, transfer: Transfer) -> Result<u32, Status> {
        let len = data_len(transfer)?;
        command.sgl.check_to_host(u64::from(len), self.framer.body.data_left())?;
        Ok(len)
    }

    /// Decodes a command, if it is allowed on this queue.
    #[inline]
    pub(super) fn read_command(&self, command: &Command) -> Result<IoCommand, Status> {
        self.check_usual(command)?;
        if command.is_fabrics() {
            return Err(match command.fabrics_type() {
                FabricsType::DISCONNECT => Status::INVALID_FIELD,
                FabricsType::CONNECT => Status::COMMAND_SEQUENCE_ERROR,
                _ => Status::INVALID_OPCODE,
            }
            .dnr());
        }
        io::decode(command, self.namespaces())
    }

    /// Checks that the identifier is not in flight, and that the command uses an SGL.
    pub(super) fn check_usual(&self, command: &Command) -> Result<(), Status> {
        if self.slots.has(command.command_id()) {
            return Err(Status::COMMAND_ID_CONFLICT.dnr());
        }
        if command.uses_sgl() { Ok(()) } else { Err(Status::INVALID_FIELD.dnr()) }
    }

    /// Validates a command with data from the host, and locates the data.
    pub(super) fn prepare(
        &self,
        command: &Command,
        decoded: VolumeCommand,
    ) -> Result<Prepared, Status> {
        let cid = command.command_id();
        let VolumeCommand { volume, range, operation, transfer } = decoded;
        let len = data_len(transfer)?;
        let payload = |payload_use| Kind::Payload { volume, range, payload_use };
        let (kind, expected) = match operation {
            IoOperation::Write { force_unit_access } => {
                (payload(PayloadUse::Write { force_unit_access }), len..=len)
            }
            IoOperation::Compare => (payload(PayloadUse::Compare), len..=len),
            // The data may be longer than the list. Linux always sends the maximum length.
            IoOperation::DatasetManagement { deallocate } => {
                let kind = Kind::Ranges { volume, deallocate, len, data: Vec::new() };
                (kind, len..=RANGES_LEN_MAX)
            }
            IoOperation::Reservation(command) => {
                self.check_can_register()?;
                (Kind::Reservation { volume, command, data: Vec::new() }, len..=len)
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let (placement, len) = self.locate(command, expected)?;
        Ok(Prepared { cid, kind, len, placement })
    }

    /// Stores a command in a slot and starts the transfer of its data.
    #[inline]
    pub(super) fn begin(&mut self, prepared: Prepared) -> u16 {
        let Prepared { cid, mut kind, len, placement } = prepared;
        // Without data from the host, the length is that of the host's buffer, which has no limit
        // here.
        if placement != Placement::None
            && let Some(small) = kind.small_data()
        {
            small.reserve_exact(length(len));
        }
        let has_payload = kind.has_payload();
        match placement {
            Placement::InCapsule => {
                let index = self.slots.take(cid, kind, len, Stage::ReceivingCapsule);
                self.sink = Sink::Slot(index);
                index
            }
            Placement::Transport if has_payload => {
                let index = self.slots.take(cid, kind, len, Stage::AwaitingBuffer);
                self.awaiting_buffer.push(index, ByteLen(u64::from(len)));
                index
            }
            Placement::Transport => {
                let index = self.slots.take(cid, kind, len, Stage::ReceivingRequested);
                self.request_data(index);
                index
            }
            Placement::None => {
                let index = self.slots.take(cid, kind, len, Stage::Held);
                self.submit(index);
                index
            }
        }
    }

    /// NVMe Base 2.0, 6.4: the host deletes this queue. Commands in flight are not completed.
    fn disconnect(&mut self, cid: CommandId) {
        self.refuse(cid, Status::SUCCESS);
        self.stop();
    }

    /// Handles a command of an admin queue, which is handed out unchanged with its data.
    pub(super) fn on_admin_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.check_room()?;
        if self.is_authentication(command) {
            self.on_authentication(command);
            return Ok(());
        }
        match self.prepare_admin(command) {
            Ok(prepared) => {
                self.begin(prepared);
            }
            Err(status) => self.refuse(command.command_id(), status),
        }
        Ok(())
    }

    fn prepare_admin(&self, command: &Command) -> Result<Prepared, Status> {
        let cid = command.command_id();
        self.check_usual(command)?;
        if command.flags & FUSE_BITS != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let data_len = command.sgl.length.get();
        let kind = Kind::Admin(Box::new(AdminDemand { command: *command, data: Vec::new() }));
        if data_len > 0 && command.opcode_moves_from_host() {
            let (placement, len) = self.locate(command, 0..=SMALL_DATA_LEN_MAX)?;
            return Ok(Prepared { cid, kind, len, placement });
        }
        self.check_no_data()?;
        Ok(Prepared { cid, kind, len: data_len, placement: Placement::None })
    }

    /// Handles the first command of a connection, which must be a Connect. NVMe Base 2.0, 6.3.
    pub(super) fn on_first_command(&mut self, command: &Command) -> Result<(), PeerError> {
        let cid = command.command_id();
        if !command.is_fabrics() || command.fabrics_type() != FabricsType::CONNECT {
            return self.on_early_command(command);
        }
        let prepared = self.prepare_connect(command);
        match prepared {
            Ok(prepared) => {
                self.state = State::Connecting;
                self.begin(prepared);
            }
            Err(status) => self.refuse(cid, status),
        }
        Ok(())
    }

    fn prepare_connect(&self, command: &Command) -> Result<Prepared, Status> {
        if !command.uses_sgl() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let len = ConnectData::LEN.try_into().expect("1024");
        let (placement, len) = self.locate(command, len..=len)?;
        let demand = AdminDemand { command: *command, data: Vec::new() };
        let kind = Kind::Connect(Box::new(demand));
        Ok(Prepared { cid: command.command_id(), kind, len, placement })
    }

    /// Refuses a command on a connection that is not a queue yet.
    pub(super) fn on_early_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.refuse(command.command_id(), Status::COMMAND_SEQUENCE_ERROR.dnr());
        Ok(())
    }

    /// NVMe Base 2.0, 3.3.2.1: if a host has more commands in flight than the queue has entries,
    /// the connection ends.
    #[inline]
    pub(super) fn check_room(&self) -> Result<(), PeerError> {
        if self.slots.is_full() {
            let entries = u16::try_from(self.slots.count()).expect("entries are 16 bits");
            return Err(PeerError::QueueOverrun(entries));
        }
        Ok(())
    }

    /// Checks that the capsule of a command without data from the host has no data.
    pub(super) fn check_no_data(&self) -> Result<(), Status> {
        if self.framer.body.data_left() > 0 {
            return Err(Status::SGL_TYPE_INVALID.dnr());
        }
        Ok(())
    }

    /// Locates a command's data from the host.
    #[inline]
    pub(super) fn locate(
        &self,
        command: &Command,
        expected: RangeInclusive<u32>,
    ) -> Result<(Placement, u32), Status> {
        command.sgl.locate_from_host(expected, self.framer.body.data_left())
    }
}

/// The length of a command's data. A table that allows more than 32 bits exceeds NVMe/TCP's fields.
#[inline]
fn data_len(transfer: Transfer) -> Result<u32, Status> {
    u32::try_from(transfer.len().0).map_err(|_| Status::INVALID_FIELD.dnr())
}

/// The longest list of ranges: 256 ranges of 16 bytes. NVM Command Set 1.0, 3.2.3.
const RANGES_LEN_MAX: u32 = 4096;

/// FUSE in a command's flags.
pub(super) const FUSE_BITS: u8 = 0b11;
