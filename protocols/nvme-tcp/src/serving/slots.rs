//! The commands in flight of one queue, by a slot number that is also the request's tag and the
//! R2T's.
//!
//! Invariants: a taken slot is named by exactly one command identifier in flight; there are never
//! more slots in use than the submission queue has entries; nothing is allocated per command after
//! the queue was connected.

use std::ops::{Deref, DerefMut};

use nearflash_nvme::reservation::ReservationCommand;
use nearflash_nvme::{CommandId, Status};
use nearflash_request::{BlockRange, BufferId, ChangeKind, Operation, VolumeId};
use nearflash_session::SlotTable;

use super::config::AdminDemand;

/// How far a command is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Its data waits for a buffer before it is asked for.
    AwaitingBuffer,
    /// Its data is coming in the capsule.
    ReceivingCapsule,
    /// Its data is coming: an R2T was sent.
    ReceivingRequested,
    /// Its data is there; the other command of the fused operation is not.
    Held,
    /// Handed out. So many answers are still to come.
    Submitted {
        /// More than one for a flush of all namespaces.
        pending: u32,
    },
}

/// What is done with a command's payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PayloadUse {
    Write { force_unit_access: bool },
    Compare,
}

/// What a command is, as far as its slot needs to know.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Answered with data from a buffer or with zeroes.
    Read { volume: VolumeId, range: BlockRange },
    /// Has no data, or no more.
    Plain { volume: VolumeId, range: BlockRange, operation: Operation },
    /// A flush for each of these.
    FlushAll { volumes: Vec<VolumeId> },
    /// Its data goes into a pool buffer.
    Payload { volume: VolumeId, range: BlockRange, payload_use: PayloadUse },
    /// The first `len` bytes of its data list ranges, to be deallocated or as a hint.
    Ranges { volume: VolumeId, deallocate: bool, len: u32, data: Vec<u8> },
    /// Its data is the keys of something about reservations.
    Reservation { volume: VolumeId, command: ReservationCommand, data: Vec<u8> },
    /// To be handed out for the control side.
    Change { volume: VolumeId, change: ChangeKind },
    /// Was handed out for the control side.
    Changing,
    /// A command of an admin queue, with what data is there so far.
    Admin(Box<AdminDemand>),
    /// The Connect, with what data is there so far.
    Connect(Box<AdminDemand>),
    /// Nothing that anyone needs to know any more.
    Taken,
    /// An admin command that was handed out.
    AdminHandedOut,
    /// The Connect that was handed out, and whether it wants SQ flow control.
    ConnectHandedOut { flow_control: bool },
}

impl Kind {
    /// Where its data is kept, if not in a pool buffer.
    pub(super) fn small_data(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Ranges { data, .. } | Self::Reservation { data, .. } => Some(data),
            Self::Admin(demand) | Self::Connect(demand) => Some(&mut demand.data),
            Self::Read { .. }
            | Self::Plain { .. }
            | Self::FlushAll { .. }
            | Self::Payload { .. }
            | Self::Change { .. }
            | Self::Changing
            | Self::Taken
            | Self::AdminHandedOut
            | Self::ConnectHandedOut { .. } => None,
        }
    }

    /// Whether its data goes into a pool buffer.
    #[inline]
    pub(super) const fn has_payload(&self) -> bool {
        matches!(self, Self::Payload { .. })
    }
}

/// A command's part in a fused operation. NVMe Base 2.0, 3.4.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Alone,
    /// The compare; its partner once that came.
    First(Option<u16>),
    /// The write, and its compare.
    Second(u16),
}

/// One command.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) cid: CommandId,
    pub(super) stage: Stage,
    pub(super) part: Part,
    /// Of the data that the command moves, either way.
    pub(super) len: u32,
    /// Of the data from the host.
    pub(super) received: u32,
    /// Where payload from the host goes.
    pub(super) buffer: Option<BufferId>,
    /// What it will be answered whatever else happens.
    pub(super) failed: Option<Status>,
    pub(super) kind: Kind,
}

impl Slot {
    const FREE: Self = Self {
        cid: CommandId(0),
        stage: Stage::Held,
        part: Part::Alone,
        len: 0,
        received: 0,
        buffer: None,
        failed: None,
        kind: Kind::Taken,
    };

    /// Whether nothing of it was handed out, for want of what the host has yet to send.
    const fn is_incoming(&self) -> bool {
        matches!(
            self.stage,
            Stage::AwaitingBuffer
                | Stage::ReceivingCapsule
                | Stage::ReceivingRequested
                | Stage::Held
        )
    }
}

/// Words of 64 bits that hold one bit for each of 65,536 command identifiers.
const CID_WORDS: usize = 1024;

/// The slots of a queue.
#[derive(Debug)]
pub(super) struct Slots {
    table: SlotTable<Slot>,
    /// One bit for each command identifier: set while it is in flight.
    cids: Box<[u64]>,
}

impl Slots {
    /// For a connection that is no queue yet: room for its Connect.
    pub(super) fn for_connect() -> Self {
        Self { table: SlotTable::new(1, || Slot::FREE), cids: Box::default() }
    }

    /// For a queue of so many entries.
    pub(super) fn for_queue(entries: u16) -> Self {
        let cids = vec![0; CID_WORDS].into_boxed_slice();
        Self { table: SlotTable::new(entries, || Slot::FREE), cids }
    }

    /// Whether a command with this identifier is in flight. The one command before the queue is
    /// connected conflicts with nothing.
    #[inline]
    pub(super) fn has(&self, cid: CommandId) -> bool {
        let (word, bit) = cid_place(cid);
        self.cids.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Puts a command into a free slot, at `stage`, with its data to come.
    ///
    /// # Panics
    /// When none is free: the caller asks first.
    #[inline]
    pub(super) fn take(&mut self, cid: CommandId, kind: Kind, len: u32, stage: Stage) -> u16 {
        let index = self.take_free(cid, len, stage);
        self.table[index].kind = kind;
        index
    }

    /// The same for the commonest command, whose few words go from registers to their place.
    #[inline]
    pub(super) fn take_read(
        &mut self,
        cid: CommandId,
        volume: VolumeId,
        range: BlockRange,
        len: u32,
    ) -> u16 {
        let index = self.take_free(cid, len, Stage::Submitted { pending: 1 });
        self.table[index].kind = Kind::Read { volume, range };
        index
    }

    #[inline]
    fn take_free(&mut self, cid: CommandId, len: u32, stage: Stage) -> u16 {
        let index = self.table.take().expect("the caller saw a free slot");
        let (word, bit) = cid_place(cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word |= bit;
        }
        let slot = &mut self.table[index];
        slot.cid = cid;
        slot.stage = stage;
        slot.len = len;
        index
    }

    /// The command is answered. What it still holds is dropped, except for its buffer: see to that
    /// first.
    #[inline]
    pub(super) fn give_back(&mut self, index: u16) {
        self.table.give_back(index);
        let slot = &mut self.table[index];
        assert!(slot.buffer.is_none(), "a buffer outlives its slot");
        let (word, bit) = cid_place(slot.cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word &= !bit;
        }
        slot.part = Part::Alone;
        slot.received = 0;
        slot.failed = None;
        // A read holds nothing that must go.
        if !matches!(slot.kind, Kind::Read { .. }) {
            slot.kind = Kind::Taken;
        }
    }

    /// Whether a command waits for data that its host was asked for.
    pub(super) fn any_awaits_data(&self) -> bool {
        self.table.iter().any(|(_, slot)| slot.stage == Stage::ReceivingRequested)
    }

    /// The slot of a command that was handed out under this identifier.
    pub(super) fn handed_out(&self, cid: CommandId) -> Option<u16> {
        let is_meant = |slot: &Slot| {
            let is_out = matches!(slot.kind, Kind::AdminHandedOut | Kind::ConnectHandedOut { .. });
            slot.cid == cid && is_out
        };
        self.table.iter().find(|(_, slot)| is_meant(slot)).map(|(index, _)| index)
    }

    /// Takes the buffers of commands that have not all their data, or not their other half.
    pub(super) fn take_incoming_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        let incoming = self.table.iter_mut().filter(|(_, slot)| slot.is_incoming());
        incoming.filter_map(|(_, slot)| slot.buffer.take())
    }

    /// Takes every buffer that a command has received data into.
    pub(super) fn take_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        self.table.iter_mut().filter_map(|(_, slot)| slot.buffer.take())
    }
}

impl Deref for Slots {
    type Target = SlotTable<Slot>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

#[inline]
fn cid_place(cid: CommandId) -> (usize, u64) {
    (usize::from(cid.0 >> 6), 1 << (cid.0 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_in_flight_from_its_command_to_its_answer() {
        let mut slots = Slots::for_queue(2);
        for cid in [0, 63, 64, 0xFFFF].map(CommandId) {
            assert!(!slots.has(cid));
            let index = slots.take(cid, Kind::Taken, 512, Stage::Submitted { pending: 1 });
            assert!(slots.has(cid));
            slots.give_back(index);
            assert!(!slots.has(cid));
        }
    }
}
