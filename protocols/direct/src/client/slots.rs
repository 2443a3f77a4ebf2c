//! The requests in flight of one connection. A request's tag is its slot's number.
//!
//! Invariant: nothing is allocated per request after the handshake.

use nearflash_request::BufferId;

use super::config::RequestTag;
use crate::wire::{Opcode, Status};

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Stage {
    /// No request.
    #[default]
    Free,
    /// The node has not answered.
    InFlight,
    /// The node has answered before all of the request's buffer was sent.
    AnsweredEarly,
    /// It is over; how is in the slot.
    Completed,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) stage: Stage,
    pub(super) opcode: Opcode,
    /// Where a read's payload goes.
    pub(super) buffer: Option<BufferId>,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// The segments of a read that have come, one bit each.
    pub(super) segments: u32,
    /// Where in the stream the request's own buffer ends.
    pub(super) sent_until: u64,
    pub(super) status: Status,
    pub(super) value: u64,
}

impl Slot {
    const FREE: Self = Self {
        stage: Stage::Free,
        opcode: Opcode::FLUSH,
        buffer: None,
        offset: 0,
        len: 0,
        segments: 0,
        sent_until: 0,
        status: Status::OK,
        value: 0,
    };
}

/// The slots of a connection.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Those not in use; the last one back is the first one out, as its memory is warm.
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self {
            slots: vec![Slot::FREE; crate::length(count)].into_boxed_slice(),
            free: (0..count).rev().collect(),
        }
    }

    /// How many are in flight.
    #[inline]
    pub(super) const fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The slot of a new request, of which nothing has come or is sent; `None` when none is free.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(RequestTag, &mut Slot)> {
        let tag = self.free.pop()?;
        let slot = &mut self.slots[crate::length(tag)];
        slot.stage = Stage::InFlight;
        slot.segments = 0;
        slot.sent_until = 0;
        slot.status = Status::OK;
        slot.value = 0;
        Some((RequestTag(tag), slot))
    }

    /// A request is over and was told about.
    #[inline]
    pub(super) fn give_back(&mut self, tag: RequestTag) {
        self.slots[crate::length(tag.0)].stage = Stage::Free;
        self.free.push(tag.0);
    }

    /// The request in flight of this opcode under a number that the peer chose.
    #[inline]
    pub(super) fn in_flight(&self, tag: u32, opcode: Opcode) -> Option<&Slot> {
        let slot = self.slots.get(crate::length(tag))?;
        (slot.stage == Stage::InFlight && slot.opcode == opcode).then_some(slot)
    }

    /// Every request that was not answered.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = RequestTag> {
        let numbered = (0..).zip(&self.slots);
        numbered
            .filter(|(_, slot)| slot.stage == Stage::InFlight)
            .map(|(index, _)| RequestTag(index))
    }
}

impl std::ops::Index<RequestTag> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, tag: RequestTag) -> &Slot {
        &self.slots[crate::length(tag.0)]
    }
}

impl std::ops::IndexMut<RequestTag> for Slots {
    #[inline]
    fn index_mut(&mut self, tag: RequestTag) -> &mut Slot {
        &mut self.slots[crate::length(tag.0)]
    }
}
