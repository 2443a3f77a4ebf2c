//! The commands in flight of one queue. A command's identifier is its slot's number.
//!
//! Invariant: nothing is allocated per command after the queue was connected, but for small data.

use nearflash_nvme::{CommandId, CompletionEntry};
use nearflash_request::BufferId;

/// A command's data and where it goes or comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Data {
    #[default]
    None,
    ToHost(BufferId),
    FromHost(BufferId),
    SmallToHost(Vec<u8>),
    SmallFromHost(Vec<u8>),
}

/// How far a command is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Stage {
    /// No command.
    #[default]
    Free,
    /// The controller has not answered.
    InFlight,
    /// The controller has answered before all of the command's buffer was sent.
    AnsweredEarly,
    /// It is over; the answer is in the slot.
    Completed,
}

/// One command.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) stage: Stage,
    /// Data came damaged.
    pub(super) damaged: bool,
    pub(super) data: Data,
    /// Of the data.
    pub(super) len: u32,
    /// How much of it was received, or asked for by the controller.
    pub(super) moved: u32,
    /// Where in the stream the last part of the command's own buffer ends.
    pub(super) sent_until: u64,
    /// The controller's answer.
    pub(super) entry: CompletionEntry,
}

impl Slot {
    #[cold]
    fn take_small(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.data) {
            Data::SmallToHost(data) => data,
            _ => Vec::new(),
        }
    }
}

/// The slots of a queue.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    free: Vec<u16>,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        Self {
            slots: vec![Slot::default(); usize::from(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
        }
    }

    /// How many are in flight.
    #[inline]
    pub(super) const fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A free slot, not in flight yet.
    #[inline]
    pub(super) fn take(&mut self) -> Option<CommandId> {
        self.free.pop().map(CommandId)
    }

    /// A command is on its way.
    #[inline]
    pub(super) fn put_in_flight(&mut self, cid: CommandId, data: Data, len: u32) {
        let slot = &mut self.slots[usize::from(cid.0)];
        slot.stage = Stage::InFlight;
        slot.data = data;
        slot.len = len;
    }

    /// Its command is over and was told about. Small data is taken out.
    #[inline]
    pub(super) fn give_back(&mut self, cid: CommandId) -> Vec<u8> {
        self.free.push(cid.0);
        let slot = &mut self.slots[usize::from(cid.0)];
        slot.stage = Stage::Free;
        slot.damaged = false;
        slot.moved = 0;
        slot.sent_until = 0;
        match slot.data {
            // Nothing in it must go.
            Data::None | Data::ToHost(_) | Data::FromHost(_) => Vec::new(),
            Data::SmallToHost(_) | Data::SmallFromHost(_) => slot.take_small(),
        }
    }

    /// The command in flight under a number that the peer chose.
    #[inline]
    pub(super) fn in_flight(&self, cid: u16) -> Option<&Slot> {
        self.slots.get(usize::from(cid)).filter(|slot| slot.stage == Stage::InFlight)
    }

    /// Every command that has not completed.
    pub(super) fn all_in_flight(&self) -> impl Iterator<Item = CommandId> {
        let numbered = (0..=u16::MAX).zip(&self.slots);
        numbered
            .filter(|(_, slot)| matches!(slot.stage, Stage::InFlight | Stage::AnsweredEarly))
            .map(|(index, _)| CommandId(index))
    }
}

impl std::ops::Index<CommandId> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, cid: CommandId) -> &Slot {
        &self.slots[usize::from(cid.0)]
    }
}

impl std::ops::IndexMut<CommandId> for Slots {
    #[inline]
    fn index_mut(&mut self, cid: CommandId) -> &mut Slot {
        &mut self.slots[usize::from(cid.0)]
    }
}
