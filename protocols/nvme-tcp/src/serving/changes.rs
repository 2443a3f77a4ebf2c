//! Changes of state that all hosts of a namespace share: registrations and reservations. They go to
//! the control side, which replies asynchronously.

use nearflash_nvme::reservation::{report_data, status_of};
use nearflash_nvme::{CompletionEntry, Status};
use nearflash_request::{Change, ChangeKind, ChangeResult, Nexus, Tag, VolumeId};

use super::slots::Kind;
use super::{CHANGES_IN_FLIGHT_MAX, Demand, State, TargetSession};
use crate::length;

impl TargetSession {
    /// The host's identity for reservations; [`Nexus::NONE`] before the queue is connected.
    pub fn nexus(&self) -> Nexus {
        self.queue.as_ref().map_or(Nexus::NONE, |queue| queue.nexus)
    }

    /// Hosts without an identifier are alike, so they cannot register. NVMe Base 2.0, 8.19.
    pub(super) fn check_can_register(&self) -> Result<(), Status> {
        let known = self.nexus() != Nexus::NONE;
        if known { Ok(()) } else { Err(Status::HOST_IDENTIFIER_INCONSISTENT.dnr()) }
    }

    /// Submits a reservation command whose keys have arrived.
    pub(super) fn submit_reservation(&mut self, index: u16) {
        let slot = &mut self.slots[index];
        let Kind::Reservation { volume, command, data } =
            std::mem::replace(&mut slot.kind, Kind::Taken)
        else {
            unreachable!("the caller has looked")
        };
        match command.change(&data) {
            Ok(change) => self.hand_out_change(index, volume, change),
            Err(status) => self.answer(index, status),
        }
    }

    /// Hands out a command's change to the control side.
    pub(super) fn hand_out_change(&mut self, index: u16, volume: VolumeId, change: ChangeKind) {
        if self.changes_in_flight >= CHANGES_IN_FLIGHT_MAX {
            return self.answer(index, Status::TRANSIENT_TRANSPORT_ERROR);
        }
        self.changes_in_flight += 1;
        self.slots[index].kind = Kind::Change { volume, change };
        self.hand_out(index);
    }

    pub(super) fn change_demand(
        &mut self,
        index: u16,
        volume: VolumeId,
        kind: ChangeKind,
    ) -> Demand {
        self.slots[index].kind = Kind::Changing;
        let queue = self.queue.as_ref().expect("only an I/O queue asks for changes");
        let (nexus, identity) = (queue.nexus, queue.identity.clone());
        Demand::Change(Tag(u32::from(index)), Box::new(Change { volume, nexus, identity, kind }))
    }

    /// Passes in the result of a [`Demand::Change`].
    ///
    /// # Panics
    /// If no such change is in flight.
    pub fn handle_change(&mut self, tag: Tag, result: &ChangeResult) {
        if self.state == State::Closing {
            return;
        }
        let index = u16::try_from(tag.0).expect("tags are slots");
        let slot = self.slots.get(usize::from(index)).expect("a change is answered once");
        assert!(matches!(slot.kind, Kind::Changing), "a change is answered once");
        let (cid, len) = (slot.cid, slot.len);
        self.changes_in_flight -= 1;
        if let ChangeResult::Report(report) = result {
            let data = report_data(report, length(len));
            self.push_own_data(cid, &data, len);
        }
        self.slots.give_back(index);
        self.respond(CompletionEntry::new(cid, status_of(result)));
    }
}
