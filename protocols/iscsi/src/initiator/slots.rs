//! The commands in flight of one connection. A command's number is its slot's.
//!
//! Invariant: nothing is allocated per command after the login, but for small data.

use nearflash_request::BufferId;

use super::config::{Ending, Status, TaskCompletion, TaskId};
use super::sense::Sense;
use crate::pdu::{LunField, Serial};

/// A command's data and where it goes or comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Data {
    #[default]
    None,
    ToInitiator(BufferId),
    FromInitiator(BufferId),
    SmallToInitiator(Vec<u8>),
    SmallFromInitiator(Vec<u8>),
}

/// How far a command is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Stage {
    /// No command.
    #[default]
    Free,
    /// The target has not answered.
    InFlight,
    /// It is over, but for parts of its buffer that are still to be sent.
    AnsweredEarly,
    /// It is over; the answer is in the slot.
    Completed,
}

/// One command.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) stage: Stage,
    /// Data came damaged.
    pub(super) damaged: bool,
    pub(super) data: Data,
    /// Of the data.
    pub(super) len: u32,
    /// How much of it was received, or sent without being asked for, or asked for.
    pub(super) moved: u32,
    /// How many Data-In or R2T there were.
    pub(super) data_sn: u32,
    /// Where in the stream the last part of the command's own buffer ends.
    pub(super) sent_until: u64,
    pub(super) lun: LunField,
    pub(super) cmd_sn: Serial,
    pub(super) ending: Ending,
    pub(super) sense: Option<Sense>,
}

impl Slot {
    const FREE: Self = Self {
        stage: Stage::Free,
        damaged: false,
        data: Data::None,
        len: 0,
        moved: 0,
        data_sn: 0,
        sent_until: 0,
        lun: LunField([0; 8]),
        cmd_sn: Serial(0),
        ending: Ending::Answered(Status::GOOD),
        sense: None,
    };

    #[cold]
    fn take_small(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.data) {
            Data::SmallToInitiator(data) => data,
            _ => Vec::new(),
        }
    }
}

/// A command as it goes out.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) data: Data,
    pub(super) len: u32,
    pub(super) lun: LunField,
    pub(super) cmd_sn: Serial,
}

/// The slots of a connection.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    free: Vec<u16>,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        Self {
            slots: vec![Slot::FREE; usize::from(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
        }
    }

    /// How many are in flight.
    #[inline]
    pub(super) const fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether one is free.
    #[inline]
    pub(super) const fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// A command is on its way.
    ///
    /// # Panics
    /// When none is free.
    #[inline]
    pub(super) fn put_in_flight(&mut self, begun: Begun) -> TaskId {
        let id = TaskId(self.free.pop().expect("the caller has seen that one is free"));
        let slot = &mut self.slots[usize::from(id.0)];
        slot.stage = Stage::InFlight;
        slot.data = begun.data;
        slot.len = begun.len;
        slot.lun = begun.lun;
        slot.cmd_sn = begun.cmd_sn;
        id
    }

    /// Its command is over and is told about. Small data is taken out.
    #[inline]
    pub(super) fn give_back(&mut self, id: TaskId) -> TaskCompletion {
        self.free.push(id.0);
        let slot = &mut self.slots[usize::from(id.0)];
        let data = match slot.data {
            // Nothing in it must go.
            Data::None | Data::ToInitiator(_) | Data::FromInitiator(_) => Vec::new(),
            Data::SmallToInitiator(_) | Data::SmallFromInitiator(_) => slot.take_small(),
        };
        let (ending, sense, moved) = (slot.ending, slot.sense.take(), slot.moved);
        slot.stage = Stage::Free;
        slot.damaged = false;
        slot.moved = 0;
        slot.data_sn = 0;
        slot.sent_until = 0;
        TaskCompletion { id, ending, sense, moved, data }
    }

    /// The command in flight under a number that the peer chose.
    #[inline]
    pub(super) fn in_flight(&self, index: u16) -> Option<&Slot> {
        self.slots.get(usize::from(index)).filter(|slot| slot.stage == Stage::InFlight)
    }

    /// Every command that has not completed.
    pub(super) fn all_in_flight(&self) -> impl Iterator<Item = TaskId> {
        let numbered = (0..=u16::MAX).zip(&self.slots);
        numbered
            .filter(|(_, slot)| matches!(slot.stage, Stage::InFlight | Stage::AnsweredEarly))
            .map(|(index, _)| TaskId(index))
    }
}

impl std::ops::Index<TaskId> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, id: TaskId) -> &Slot {
        &self.slots[usize::from(id.0)]
    }
}

impl std::ops::IndexMut<TaskId> for Slots {
    #[inline]
    fn index_mut(&mut self, id: TaskId) -> &mut Slot {
        &mut self.slots[usize::from(id.0)]
    }
}
