//! The commands in flight of one queue, by a slot number that is also the request's tag and the
//! R2T's.
//!
//! Invariants: a slot is free or named by exactly one command identifier in flight; there are never
//! more slots in use than the submission queue has entries; nothing is allocated per command after
//! the queue was connected.

use nearflash_nvme::reservation::ReservationCommand;
use nearflash_nvme::{CommandId, Status};
use nearflash_request::{BlockRange, BufferId, ChangeKind, Operation, VolumeId};

use super::config::AdminDemand;

/// How far a command is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// No command.
    Free,
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
    First(Option<usize>),
    /// The write, and its compare.
    Second(usize),
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
        stage: Stage::Free,
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
    slots: Box<[Slot]>,
    /// Those not in use; the last one back is the first one out, as its memory is warm.
    free: Vec<u16>,
    /// One bit for each command identifier: set while it is in flight.
    cids: Box<[u64]>,
}

impl Slots {
    /// For a connection that is no queue yet: room for its Connect.
    pub(super) fn for_connect() -> Self {
        Self { slots: Box::new([Slot::FREE]), free: vec![0], cids: Box::default() }
    }

    /// For a queue of so many entries.
    pub(super) fn for_queue(entries: u16) -> Self {
        Self {
            slots: vec![Slot::FREE; usize::from(entries)].into_boxed_slice(),
            free: (0..entries).rev().collect(),
            cids: vec![0; CID_WORDS].into_boxed_slice(),
        }
    }

    /// How many slots there are.
    pub(super) const fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many are in use.
    pub(super) const fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is free.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.free.is_empty()
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
    pub(super) fn take(&mut self, cid: CommandId, kind: Kind, len: u32, stage: Stage) -> usize {
        let index = self.take_free(cid, len, stage);
        self.slots[index].kind = kind;
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
    ) -> usize {
        let index = self.take_free(cid, len, Stage::Submitted { pending: 1 });
        self.slots[index].kind = Kind::Read { volume, range };
        index
    }

    #[inline]
    fn take_free(&mut self, cid: CommandId, len: u32, stage: Stage) -> usize {
        let index = usize::from(self.free.pop().expect("the caller saw a free slot"));
        let (word, bit) = cid_place(cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word |= bit;
        }
        let slot = &mut self.slots[index];
        slot.cid = cid;
        slot.stage = stage;
        slot.len = len;
        index
    }

    /// The command is answered. What it still holds is dropped, except for its buffer: see to that
    /// first.
    #[inline]
    pub(super) fn give_back(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        debug_assert!(slot.buffer.is_none(), "a buffer outlives its slot");
        let (word, bit) = cid_place(slot.cid);
        if let Some(word) = self.cids.get_mut(word) {
            *word &= !bit;
        }
        slot.stage = Stage::Free;
        slot.part = Part::Alone;
        slot.received = 0;
        slot.failed = None;
        // A read holds nothing that must go.
        if !matches!(slot.kind, Kind::Read { .. }) {
            slot.kind = Kind::Taken;
        }
        self.free.push(u16::try_from(index).expect("there are at most 65,535 slots"));
    }

    /// The slot of a number that the peer chose; `None` when there is none such.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// Whether a command waits for data that its host was asked for.
    pub(super) fn any_awaits_data(&self) -> bool {
        self.slots.iter().any(|slot| slot.stage == Stage::ReceivingRequested)
    }

    /// The slot of a command that was handed out under this identifier.
    pub(super) fn handed_out(&self, cid: CommandId) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let is_out = matches!(slot.kind, Kind::AdminHandedOut | Kind::ConnectHandedOut { .. });
            slot.stage != Stage::Free && slot.cid == cid && is_out
        })
    }

    /// Takes the buffers of commands that have not all their data, or not their other half.
    pub(super) fn take_incoming_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        self.slots
            .iter_mut()
            .filter(|slot| slot.is_incoming())
            .filter_map(|slot| slot.buffer.take())
    }

    /// Takes every buffer that a command has received data into.
    pub(super) fn take_buffers(&mut self) -> impl Iterator<Item = BufferId> {
        self.slots.iter_mut().filter_map(|slot| slot.buffer.take())
    }
}

/// A slot's own number.
impl std::ops::Index<usize> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, index: usize) -> &Slot {
        &self.slots[index]
    }
}

impl std::ops::IndexMut<usize> for Slots {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
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

    #[test]
    fn there_are_as_many_slots_as_entries() {
        let mut slots = Slots::for_queue(2);
        slots.take(CommandId(1), Kind::Taken, 0, Stage::Held);
        assert!(!slots.is_full());
        slots.take(CommandId(2), Kind::Taken, 0, Stage::Held);
        assert!(slots.is_full());
        assert_eq!(slots.in_use(), 2);
    }
}
