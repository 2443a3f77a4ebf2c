//! From a command capsule to a request for the engine or a command for the controller.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2 (where a command's data is), NVMe Base 2.0, 4.1.2 (SGLs) and 6
//! (Fabrics commands).

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{Command, CommandId, FabricsType, Sgl, Status, io};
use nearflash_request::{BlockRange, Operation, Request, Tag, VolumeId};
use nearflash_units::{Blocks, Lba};
use zerocopy::FromBytes;

use super::operation::{self, Asked};
use super::slots::{Kind, PayloadUse, Stage};
use super::{
    AdminDemand, ConnectDemand, Demand, SMALL_DATA_LEN_MAX, Sink, State, TargetSession, length,
};
use crate::error::PeerError;

/// How a command's data from the host comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transfer {
    /// It has none.
    None,
    /// In its capsule.
    InCapsule,
    /// After an R2T.
    Requested,
}

/// A command that will have a slot.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) cid: CommandId,
    pub(super) kind: Kind,
    /// Of its data, either way.
    pub(super) len: u32,
    pub(super) transfer: Transfer,
}

/// A range where a request's own is ignored.
const NO_RANGE: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };

impl TargetSession {
    /// A command of an I/O queue.
    #[inline]
    pub(super) fn on_io_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.check_room()?;
        if command.flags & FUSE_BITS != 0 || self.waiting.is_something() {
            self.on_fused_command(command);
        } else {
            self.on_single_command(command);
        }
        Ok(())
    }

    /// A command that is no part of a fused operation.
    #[inline]
    pub(super) fn on_single_command(&mut self, command: &Command) {
        let cid = command.command_id();
        let asked = match self.read_command(command) {
            Ok(asked) => asked,
            Err(status) => return self.refuse(cid, status),
        };
        match asked {
            Asked::Read { volume, range, len } => match self.check_to_host(command, len) {
                Ok(()) => {
                    let stage = Stage::Submitted { pending: 1 };
                    let index = self.slots.take(cid, Kind::Read, len, stage);
                    self.demand(index, volume, range, Operation::Read);
                }
                Err(status) => self.refuse(cid, status),
            },
            asked => self.on_other_command(command, asked),
        }
    }

    /// What a command asks, if it may be asked here at all.
    #[inline]
    pub(super) fn read_command(&self, command: &Command) -> Result<Asked, Status> {
        if self.slots.has(command.command_id()) {
            return Err(Status::COMMAND_ID_CONFLICT.dnr());
        }
        if !command.uses_sgl() {
            return Err(Status::INVALID_FIELD.dnr());
        }
        operation::read(command, self.namespaces())
    }

    /// Everything but reads.
    fn on_other_command(&mut self, command: &Command, asked: Asked) {
        let cid = command.command_id();
        match asked {
            Asked::Plain { volume, range, operation } => match self.check_no_data() {
                Ok(()) => {
                    let stage = Stage::Submitted { pending: 1 };
                    let index = self.slots.take(cid, Kind::Plain, 0, stage);
                    self.demand(index, volume, range, operation);
                }
                Err(status) => self.refuse(cid, status),
            },
            Asked::FlushAll => match self.check_no_data() {
                Ok(()) => self.flush_all(cid),
                Err(status) => self.refuse(cid, status),
            },
            Asked::Disconnect => self.disconnect(cid),
            asked => match self.prepare(command, asked) {
                Ok(prepared) => {
                    self.begin(prepared);
                }
                Err(status) => self.refuse(cid, status),
            },
        }
    }

    /// A command with data from the host, and how that comes.
    pub(super) fn prepare(&self, command: &Command, asked: Asked) -> Result<Prepared, Status> {
        let cid = command.command_id();
        let (kind, len) = match asked {
            Asked::Payload { volume, range, payload_use, len } => {
                (Kind::Payload { volume, range, payload_use }, len)
            }
            Asked::Ranges { volume, deallocate, len } => {
                (Kind::Ranges { volume, deallocate, data: Vec::new() }, len)
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        };
        let transfer = self.check_from_host(command, Some(len))?;
        Ok(Prepared { cid, kind, len, transfer })
    }

    /// Puts a command into a slot and has its data come.
    #[inline]
    pub(super) fn begin(&mut self, prepared: Prepared) -> usize {
        let Prepared { cid, mut kind, len, transfer } = prepared;
        if let Some(small) = kind.small_data() {
            small.reserve_exact(length(len));
        }
        let has_payload = kind.has_payload();
        match transfer {
            Transfer::InCapsule => {
                let index = self.slots.take(cid, kind, len, Stage::ReceivingCapsule);
                self.sink = Sink::Slot(index);
                index
            }
            Transfer::Requested if has_payload => {
                let index = self.slots.take(cid, kind, len, Stage::AwaitingBuffer);
                self.awaiting_buffer.push_back(index);
                index
            }
            Transfer::Requested => {
                let index = self.slots.take(cid, kind, len, Stage::ReceivingRequested);
                self.request_data(index);
                index
            }
            Transfer::None => {
                let index = self.slots.take(cid, kind, len, Stage::Held);
                self.submit(index);
                index
            }
        }
    }

    /// A command's data is there, or failed to come.
    #[inline]
    pub(super) fn submit(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(status) = slot.failed {
            return self.answer(index, status);
        }
        slot.stage = Stage::Submitted { pending: 1 };
        if let Kind::Payload { volume, range, payload_use } = slot.kind {
            let payload = slot.buffer.take().expect("payload was received into a buffer");
            let operation = match payload_use {
                PayloadUse::Write { force_unit_access } => {
                    Operation::Write { payload, force_unit_access }
                }
                PayloadUse::Compare => Operation::Compare { payload },
            };
            self.demand(index, volume, range, operation);
        } else {
            self.submit_small(index);
        }
    }

    /// A command whose data is not payload: it is in the slot.
    fn submit_small(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        match std::mem::replace(&mut slot.kind, Kind::AdminHandedOut) {
            Kind::Ranges { volume, deallocate, data } => {
                slot.kind = Kind::Plain;
                match io::dsm_ranges(&data) {
                    Ok(ranges) if deallocate => {
                        self.demand(index, volume, NO_RANGE, Operation::Deallocate(ranges));
                    }
                    Ok(_) => self.answer(index, Status::SUCCESS),
                    Err(status) => self.answer(index, status),
                }
            }
            Kind::Admin(demand) => {
                // A command with data from the host has room for none to it.
                if slot.received > 0 {
                    slot.len = 0;
                }
                self.demands.push_back(Demand::Admin(demand));
            }
            Kind::Connect(demand) => self.submit_connect(index, &demand),
            Kind::Read
            | Kind::Plain
            | Kind::Payload { .. }
            | Kind::AdminHandedOut
            | Kind::ConnectHandedOut { .. } => unreachable!("only commands with small data"),
        }
    }

    fn submit_connect(&mut self, index: usize, demand: &AdminDemand) {
        let command = demand.command;
        let Ok(data) = ConnectData::read_from_bytes(&demand.data) else {
            self.state = State::AwaitingConnect;
            return self.answer(index, Status::SGL_LENGTH_INVALID.dnr());
        };
        let flow_control = !command.as_connect().disables_sq_flow_control();
        self.slots[index].kind = Kind::ConnectHandedOut { flow_control };
        let demand = ConnectDemand { command, data: Box::new(data) };
        self.demands.push_back(Demand::Connect(Box::new(demand)));
    }

    /// Hands a request out.
    #[inline]
    pub(super) fn demand(
        &mut self,
        index: usize,
        volume: VolumeId,
        range: BlockRange,
        operation: Operation,
    ) {
        let tag = tag_of(index, 0);
        self.demands.push_back(Demand::Request(Request { tag, volume, range, operation }));
    }

    /// A flush of every namespace is one command and a request for each.
    fn flush_all(&mut self, cid: CommandId) {
        let namespaces = std::sync::Arc::clone(self.namespaces());
        let index = self.slots.take(cid, Kind::Plain, 0, Stage::Held);
        let mut pending = 0;
        for volume in operation::volumes(&namespaces).take(usize::from(u16::MAX)) {
            let tag = tag_of(index, pending);
            let operation = Operation::Flush;
            let request = Request { tag, volume, range: NO_RANGE, operation };
            self.demands.push_back(Demand::Request(request));
            pending += 1;
        }
        if pending == 0 {
            self.answer(index, Status::SUCCESS);
        } else {
            self.slots[index].stage = Stage::Submitted { pending };
        }
    }

    /// NVMe Base 2.0, 6.4: the host deletes this queue. Whatever was in flight is not answered.
    fn disconnect(&mut self, cid: CommandId) {
        self.refuse(cid, Status::SUCCESS);
        self.state = State::Closing;
    }

    /// A command of an admin queue: handed out as it is, with its data.
    pub(super) fn on_admin_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.check_room()?;
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
        if self.slots.has(cid) {
            return Err(Status::COMMAND_ID_CONFLICT.dnr());
        }
        if !command.uses_sgl() || command.flags & FUSE_BITS != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let data_len = command.sgl.length.get();
        let kind = Kind::Admin(Box::new(AdminDemand { command: *command, data: Vec::new() }));
        if data_len > 0 && command.opcode_moves_from_host() {
            let transfer = self.check_from_host(command, None)?;
            return Ok(Prepared { cid, kind, len: data_len, transfer });
        }
        self.check_no_data()?;
        Ok(Prepared { cid, kind, len: data_len, transfer: Transfer::None })
    }

    /// The first command of a connection must be a Connect. NVMe Base 2.0, 6.3.
    pub(super) fn on_first_command(&mut self, command: &Command) -> Result<(), PeerError> {
        let cid = command.command_id();
        if !command.is_fabrics() || command.fabrics_type() != FabricsType::CONNECT {
            return self.on_early_command(command);
        }
        if !command.uses_sgl() {
            self.refuse(cid, Status::INVALID_FIELD.dnr());
            return Ok(());
        }
        let len = ConnectData::LEN.try_into().expect("1024");
        match self.check_from_host(command, Some(len)) {
            Ok(transfer) => {
                let demand = AdminDemand { command: *command, data: Vec::new() };
                let kind = Kind::Connect(Box::new(demand));
                self.state = State::Connecting;
                self.begin(Prepared { cid, kind, len, transfer });
            }
            Err(status) => self.refuse(cid, status),
        }
        Ok(())
    }

    /// A command while the connection is no queue yet.
    pub(super) fn on_early_command(&mut self, command: &Command) -> Result<(), PeerError> {
        self.refuse(command.command_id(), Status::COMMAND_SEQUENCE_ERROR.dnr());
        Ok(())
    }

    /// NVMe Base 2.0, 3.3.2.1: a host has at most as many commands in flight as the queue has
    /// entries, or the connection ends.
    #[inline]
    fn check_room(&self) -> Result<(), PeerError> {
        if self.slots.is_full() {
            let entries = u16::try_from(self.slots.count()).expect("entries are 16 bits");
            return Err(PeerError::QueueOverrun { entries });
        }
        Ok(())
    }

    /// Whether a command that returns `len` bytes says so, and brings none.
    #[inline]
    fn check_to_host(&self, command: &Command, len: u32) -> Result<(), Status> {
        match command.sgl.decode() {
            _ if self.framer.body.data_left() > 0 => Err(Status::SGL_TYPE_INVALID.dnr()),
            Sgl::Transport { length } if length == len => Ok(()),
            Sgl::Transport { .. } => Err(Status::SGL_LENGTH_INVALID.dnr()),
            Sgl::InCapsule { .. } | Sgl::Other { .. } => Err(Status::SGL_TYPE_INVALID.dnr()),
        }
    }

    /// Whether a command without data from the host brings none in its capsule.
    fn check_no_data(&self) -> Result<(), Status> {
        if self.framer.body.data_left() > 0 {
            return Err(Status::SGL_TYPE_INVALID.dnr());
        }
        Ok(())
    }

    /// How the data of a command from the host comes. `expected` is how much it must be; `None`
    /// for whatever small data it says.
    #[inline]
    fn check_from_host(
        &self,
        command: &Command,
        expected: Option<u32>,
    ) -> Result<Transfer, Status> {
        let in_capsule = self.framer.body.data_left();
        let (len, transfer) = match command.sgl.decode() {
            Sgl::InCapsule { offset, .. } if offset != 0 => {
                return Err(Status::SGL_OFFSET_INVALID.dnr());
            }
            Sgl::InCapsule { length: len, .. } if length(len) == in_capsule => {
                (len, Transfer::InCapsule)
            }
            Sgl::InCapsule { .. } => return Err(Status::SGL_LENGTH_INVALID.dnr()),
            Sgl::Transport { length } if in_capsule == 0 => (length, Transfer::Requested),
            Sgl::Transport { .. } | Sgl::Other { .. } => {
                return Err(Status::SGL_TYPE_INVALID.dnr());
            }
        };
        let fits = expected.map_or(len <= SMALL_DATA_LEN_MAX, |expected| len == expected);
        if fits { Ok(transfer) } else { Err(Status::SGL_LENGTH_INVALID.dnr()) }
    }
}

/// FUSE in a command's flags.
pub(super) const FUSE_BITS: u8 = 0b11;

/// The request's tag: the slot, and which request of its command.
#[inline]
pub(super) fn tag_of(index: usize, request: u32) -> Tag {
    let index = u32::try_from(index).expect("there are at most 65,535 slots");
    Tag(request << 16 | index)
}
