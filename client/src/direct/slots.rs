//! The operations in flight of one queue pair, and their buffers.
//!
//! Invariant: a buffer in a slot is the queue pair's alone, from post to completion.

use std::time::Instant;

use nearflash_direct::client::{ClientOperation, RequestTag};
use nearflash_request::BufferId;

use super::buffer::Buffer;
use super::handle::Handle;
use crate::stream;

/// The number of low bits of a token that hold the slot's number; the number of the post is above
/// them.
pub(super) const SLOT_BITS: u32 = 12;
/// The largest depth of a queue pair.
pub(super) const DEPTH_MAX: u32 = 1 << SLOT_BITS;

/// The memory of one operation.
#[derive(Debug, Default)]
pub(super) struct Payload {
    /// The bytes that the link reads or writes.
    pub(super) buffer: Option<Buffer>,
    /// The caller's buffers if there are several, or none of the caller's: then `buffer` belongs to
    /// the queue pair.
    pub(super) parts: Option<Vec<Buffer>>,
}

impl Payload {
    const NONE: Self = Self { buffer: None, parts: None };
}

impl From<Buffer> for Payload {
    #[inline]
    fn from(buffer: Buffer) -> Self {
        Self { buffer: Some(buffer), parts: None }
    }
}

/// One operation.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) token: u64,
    pub(super) operation: ClientOperation,
    /// The handle of the volume or the sealed object.
    pub(super) handle: Handle,
    pub(super) payload: Payload,
    /// The time at which the caller gives it up.
    deadline: Option<Instant>,
    in_flight: bool,
}

impl Slot {
    const IDLE: Self = Self {
        token: 0,
        operation: ClientOperation::Flush,
        handle: Handle::OWN,
        payload: Payload::NONE,
        deadline: None,
        in_flight: false,
    };

    /// Whether the operation may change the volume.
    pub(super) fn changes_volume(&self) -> bool {
        !matches!(self.operation, ClientOperation::Read { .. } | ClientOperation::Flush)
    }
}

/// The slots of a queue pair.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// The slot's number, by request tag.
    by_tag: Vec<u32>,
    posts: u64,
}

impl Slots {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            slots: (0..depth).map(|_| Slot::IDLE).collect(),
            free: (0..depth).rev().collect(),
            by_tag: Vec::new(),
            posts: 0,
        }
    }

    /// The same number of empty slots, whose tokens continue after these.
    pub(super) fn successor(&self) -> Self {
        Self { posts: self.posts, ..Self::new(self.depth()) }
    }

    pub(super) fn depth(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("a queue pair has at most DEPTH_MAX slots")
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        let free = u32::try_from(self.free.len()).expect("there are at most DEPTH_MAX slots");
        self.depth() - free
    }

    /// The slot for the next operation; `None` when all are in use.
    #[inline]
    pub(super) fn next(&self) -> Option<BufferId> {
        self.free.last().map(|slot| BufferId(*slot))
    }

    /// Fills the slot that [`Self::next`] returned. Returns its token.
    #[inline]
    pub(super) fn fill(
        &mut self,
        (operation, handle): (ClientOperation, Handle),
        payload: Payload,
        deadline: Option<Instant>,
    ) -> u64 {
        let number = self.free.pop().expect("next() named a slot");
        self.posts += 1;
        let token = self.posts << SLOT_BITS | u64::from(number);
        self.slots[index(number)] =
            Slot { token, operation, handle, payload, deadline, in_flight: true };
        token
    }

    #[inline]
    pub(super) fn get(&self, slot: BufferId) -> &Slot {
        &self.slots[index(slot.0)]
    }

    /// The buffer of an operation with payload.
    #[inline]
    pub(super) fn buffer_mut(&mut self, slot: BufferId) -> &mut Buffer {
        self.slots[index(slot.0)].payload.buffer.as_mut().expect("payload has a buffer")
    }

    /// Returns the buffer of an operation in flight, which continues with a copy. It is a buffer on
    /// the heap: the link accesses it by its slot only.
    #[cfg(feature = "tokio")]
    pub(super) fn take_back(&mut self, slot: BufferId) -> Option<Buffer> {
        let buffer = self.slots[index(slot.0)].payload.buffer.as_mut()?;
        assert!(!buffer.is_lent(), "the node may still write to it");
        let copy = Buffer::from(&**buffer);
        Some(std::mem::replace(buffer, copy))
    }

    /// The earliest deadline of the operations in flight.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|slot| slot.deadline).min()
    }

    /// Records the tag of a slot's request.
    #[inline]
    pub(super) fn tagged(&mut self, tag: RequestTag, slot: BufferId) {
        let at = index(tag.0);
        if self.by_tag.len() <= at {
            self.by_tag.resize(at + 1, u32::MAX);
        }
        self.by_tag[at] = slot.0;
    }

    #[inline]
    pub(super) fn of_tag(&self, tag: RequestTag) -> BufferId {
        BufferId(self.by_tag[index(tag.0)])
    }

    /// Empties the slot of a completed operation, and returns the operation with its buffer.
    #[inline]
    pub(super) fn empty(&mut self, slot: BufferId) -> Slot {
        let slot_was = std::mem::replace(&mut self.slots[index(slot.0)], Slot::IDLE);
        assert!(slot_was.in_flight, "an operation ends once");
        self.free.push(slot.0);
        slot_was
    }

    /// Empties the slots of all operations in flight, and returns them in the order of their posts.
    pub(super) fn empty_all(&mut self) -> Vec<Slot> {
        let in_flight = |slot: &&Slot| slot.in_flight;
        let mut tokens: Vec<u64> =
            self.slots.iter().filter(in_flight).map(|slot| slot.token).collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|token| self.empty(slot_of(token))).collect()
    }
}

/// The slot of a token's operation.
#[inline]
pub(super) fn slot_of(token: u64) -> BufferId {
    let number = token & u64::from(DEPTH_MAX - 1);
    BufferId(u32::try_from(number).expect("SLOT_BITS are below 32"))
}

impl stream::Memory for Slots {
    #[inline]
    fn bytes(&self, buffer: BufferId) -> &[u8] {
        self.slots[index(buffer.0)].payload.buffer.as_deref().expect("payload has a buffer")
    }

    #[inline]
    fn bytes_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        self.slots[index(buffer.0)].payload.buffer.as_deref_mut().expect("payload has a buffer")
    }

    #[inline]
    fn all_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        Buffers(self.slots.iter_mut())
    }
}

/// The buffers of all slots. Unlike `map`, this iterator forwards `nth`.
struct Buffers<'a>(std::slice::IterMut<'a, Slot>);

impl<'a> Iterator for Buffers<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    #[inline]
    fn nth(&mut self, count: usize) -> Option<Self::Item> {
        self.0.nth(count).map(|slot| slot.payload.buffer.as_deref_mut().unwrap_or_default())
    }
}

#[inline]
fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(slots: &mut Slots) -> u64 {
        slots.fill((ClientOperation::Flush, Handle::OWN), Payload::NONE, None)
    }

    #[test]
    fn tokens_name_their_slot_and_are_never_the_same_twice() {
        let mut slots = Slots::new(2);
        let mut tokens = Vec::new();
        for _ in 0..3 {
            let slot = slots.next().unwrap();
            let token = fill(&mut slots);
            assert_eq!(slot_of(token), slot);
            assert_eq!(slots.empty(slot).token, token);
            tokens.push(token);
        }
        tokens.dedup();
        assert_eq!((tokens.len(), slots.in_flight()), (3, 0));
    }

    #[test]
    fn all_that_is_in_flight_ends_in_the_order_of_its_posts() {
        let mut slots = Slots::new(4);
        let first = fill(&mut slots);
        let posted: Vec<u64> = (0..3).map(|_| fill(&mut slots)).collect();
        assert_eq!(slots.next(), None);
        slots.empty(slot_of(first));
        let again = fill(&mut slots);
        let ended: Vec<u64> = slots.empty_all().iter().map(|slot| slot.token).collect();
        assert_eq!(ended[..3], posted);
        assert_eq!((ended[3], slots.in_flight()), (again, 0));
    }

    #[test]
    #[should_panic(expected = "ends once")]
    fn an_operation_that_ends_twice_is_caught() {
        let mut slots = Slots::new(1);
        let token = fill(&mut slots);
        slots.empty(slot_of(token));
        slots.empty(slot_of(token));
    }
}
