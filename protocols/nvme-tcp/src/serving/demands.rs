//! Demands, which are built from the slots when they are polled. The slots hold everything until
//! then, so nothing is copied on the way.

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{Status, io};
use nearflash_request::{BlockRange, BufferId, Operation, Request, Tag, VolumeId};
use nearflash_units::{Blocks, Lba};
use zerocopy::FromBytes;

use super::slots::{Kind, Part, PayloadUse, Slot, Stage};
use super::{AdminDemand, ConnectDemand, Demand, TargetSession};
use crate::length;

/// A command to hand out, and the index of the request among its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    index: u16,
    request: u16,
}

/// The range of a request that ignores its range.
const NO_RANGE: BlockRange = BlockRange { start: Lba(0), count: Blocks(0) };

impl TargetSession {
    /// The next demand, oldest first.
    #[inline]
    pub fn poll_demand(&mut self) -> Option<Demand> {
        let Ready { index, request } = self.ready.pop_front()?;
        let slot = &mut self.slots[index];
        if let Kind::Read { volume, range } = slot.kind {
            let tag = tag_of(index, 0);
            return Some(Demand::Request(Request {
                tag,
                volume,
                range,
                operation: Operation::Read,
                sent_in: None,
            }));
        }
        Some(self.demand_of(index, request))
    }

    /// Hands out a command.
    #[inline]
    pub(super) fn hand_out(&mut self, index: u16) {
        self.ready.push_back(Ready { index, request: 0 });
    }

    /// Hands out a command as several requests.
    pub(super) fn hand_out_many(&mut self, index: u16, requests: u16) {
        self.ready.extend((0..requests).map(|request| Ready { index, request }));
    }

    /// Submits a command whose data has arrived or failed to arrive.
    #[inline]
    pub(super) fn submit(&mut self, index: u16) {
        let slot = &mut self.slots[index];
        if let Some(status) = slot.failed {
            return self.answer(index, status);
        }
        slot.stage = Stage::Submitted { pending: 1 };
        match slot.kind {
            Kind::Ranges { .. } => self.submit_ranges(index),
            Kind::Reservation { .. } => self.submit_reservation(index),
            Kind::Authentication(_) => self.submit_authentication(index),
            _ => self.hand_out(index),
        }
    }

    fn submit_ranges(&mut self, index: u16) {
        let slot = &mut self.slots[index];
        let Kind::Ranges { volume, deallocate, len, data } =
            std::mem::replace(&mut slot.kind, Kind::Taken)
        else {
            unreachable!("the caller has looked")
        };
        let listed = &data[..data.len().min(length(len))];
        match io::dsm_ranges(listed) {
            Ok(ranges) if deallocate => {
                let operation = Operation::Deallocate { ranges, zeroes: false };
                slot.kind = Kind::Plain { volume, range: NO_RANGE, operation };
                self.hand_out(index);
            }
            Ok(_) => self.answer(index, Status::SUCCESS),
            Err(status) => self.answer(index, status),
        }
    }

    /// The demand for any command except a read.
    fn demand_of(&mut self, index: u16, request: u16) -> Demand {
        let tag = tag_of(index, request);
        let slot = &mut self.slots[index];
        if let Part::First(Some(second)) = slot.part {
            let compare = received(slot);
            return Demand::Request(self.fused_request(tag, compare, second));
        }
        if let Kind::Payload { volume, range, payload_use } = slot.kind {
            let payload = received(slot);
            let operation = match payload_use {
                PayloadUse::Write { force_unit_access } => {
                    Operation::Write { payload, force_unit_access }
                }
                PayloadUse::Compare => Operation::Compare { payload },
            };
            return Demand::Request(Request { tag, volume, range, operation, sent_in: None });
        }
        match std::mem::replace(&mut slot.kind, Kind::Taken) {
            Kind::Plain { volume, range, operation } => {
                Demand::Request(Request { tag, volume, range, operation, sent_in: None })
            }
            Kind::Change { volume, change } => self.change_demand(index, volume, change),
            Kind::FlushAll { volumes } => {
                let volume = volumes[usize::from(request)];
                slot.kind = Kind::FlushAll { volumes };
                let operation = Operation::Flush;
                Demand::Request(Request { tag, volume, range: NO_RANGE, operation, sent_in: None })
            }
            Kind::Admin(demand) => {
                slot.kind = Kind::AdminHandedOut;
                // A command with data from the host returns no data.
                slot.len = if slot.received > 0 { 0 } else { slot.len };
                Demand::Admin(demand)
            }
            Kind::Authentication(send) => self.authentication_demand(index, *send),
            Kind::Connect(demand) => connect_demand(slot, &demand, self.config.anonymous),
            _ => unreachable!("the command was to be handed out"),
        }
    }

    fn fused_request(&mut self, tag: Tag, compare: BufferId, second: u16) -> Request {
        let slot = &mut self.slots[second];
        let Kind::Payload { volume, range, payload_use: PayloadUse::Write { force_unit_access } } =
            slot.kind
        else {
            unreachable!("the second command is a write")
        };
        let write = received(slot);
        let operation = Operation::CompareAndWrite { compare, write, force_unit_access };
        Request { tag, volume, range, operation, sent_in: None }
    }

    /// Submits a flush of all namespaces: one command with one request for each namespace.
    pub(super) fn flush_all(&mut self, cid: nearflash_nvme::CommandId) {
        let volumes: Vec<VolumeId> =
            self.namespaces().iter().map(|(_, entry)| entry.volume).collect();
        let Ok(requests) = u16::try_from(volumes.len()) else {
            return self.refuse(cid, Status::INTERNAL_ERROR);
        };
        if requests == 0 {
            return self.refuse(cid, Status::SUCCESS);
        }
        let stage = Stage::Submitted { pending: u32::from(requests) };
        let index = self.slots.take(cid, Kind::FlushAll { volumes }, 0, stage);
        self.hand_out_many(index, requests);
    }
}

fn connect_demand(slot: &mut Slot, demand: &AdminDemand, anonymous: bool) -> Demand {
    let command = demand.command;
    let flow_control = !command.as_connect().disables_sq_flow_control();
    slot.kind = Kind::ConnectHandedOut { flow_control };
    let data = ConnectData::read_from_bytes(&demand.data).expect("its length was checked");
    Demand::Connect(Box::new(ConnectDemand { command, data: Box::new(data), anonymous }))
}

/// The buffer with the command's payload, which moves to its request.
#[inline]
fn received(slot: &mut Slot) -> BufferId {
    slot.buffer.take().expect("payload was received into a buffer")
}

/// The tag of a request: the slot, and the index among the command's requests.
#[inline]
fn tag_of(index: u16, request: u16) -> Tag {
    Tag(u32::from(request) << 16 | u32::from(index))
}
