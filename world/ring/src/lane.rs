//! One ring for one direction, with a producer and a consumer.
//!
//! The producer writes entries and then its tail; the consumer reads entries and then writes its
//! head. Each side keeps a private copy of its own index, and accepts the other's only in the valid
//! range: from its last value to the largest that is possible.

use crate::geometry::{Entry, Lane};
use crate::memory::Memory;
use crate::sync::Ordering;

/// The other side wrote an impossible index. The ring's contents are meaningless from then on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the ring is broken: the other side wrote an invalid index")]
pub struct Broken;

/// The side that adds entries.
#[derive(Debug)]
pub(crate) struct Producer {
    lane: Lane,
    tail: u32,
    /// The last seen index of the other side; it is read again only when the ring seems full.
    head_seen: u32,
}

impl Producer {
    pub(crate) fn new(lane: Lane) -> Self {
        Self { lane, tail: 0, head_seen: 0 }
    }

    /// Adds an entry, which the other side does not see before [`Self::publish`]. Returns whether
    /// there was room.
    #[inline]
    pub(crate) fn push(&mut self, memory: &Memory, entry: &Entry) -> Result<bool, Broken> {
        if self.tail.wrapping_sub(self.head_seen) == self.lane.entries {
            self.look(memory)?;
            if self.tail.wrapping_sub(self.head_seen) == self.lane.entries {
                return Ok(false);
            }
        }
        memory.store_entry(self.lane.place(self.tail), entry);
        self.tail = self.tail.wrapping_add(1);
        Ok(true)
    }

    /// Publishes the added entries.
    #[inline]
    pub(crate) fn publish(&self, memory: &Memory) {
        memory.word(self.lane.tail_at).store(self.tail.to_le(), Ordering::Release);
    }

    /// Reads the other side's index, which may move forward, but not past this side's.
    fn look(&mut self, memory: &Memory) -> Result<(), Broken> {
        // Acquire: the other side's reads of these entries come before this side's writes.
        let head = u32::from_le(memory.word(self.lane.head_at).load(Ordering::Acquire));
        if head.wrapping_sub(self.head_seen) > self.tail.wrapping_sub(self.head_seen) {
            return Err(Broken);
        }
        self.head_seen = head;
        Ok(())
    }
}

/// The side that takes entries.
#[derive(Debug)]
pub(crate) struct Consumer {
    lane: Lane,
    head: u32,
}

impl Consumer {
    pub(crate) fn new(lane: Lane) -> Self {
        Self { lane, head: 0 }
    }

    /// The number of entries that can be taken.
    #[inline]
    pub(crate) fn available(&self, memory: &Memory) -> Result<u32, Broken> {
        let tail = u32::from_le(memory.word(self.lane.tail_at).load(Ordering::Acquire));
        let available = tail.wrapping_sub(self.head);
        if available <= self.lane.entries { Ok(available) } else { Err(Broken) }
    }

    /// Appends up to `max` entries, each of which is copied once. Returns their number.
    #[inline]
    pub(crate) fn take(
        &mut self,
        memory: &Memory,
        max: u32,
        entries: &mut Vec<Entry>,
    ) -> Result<u32, Broken> {
        let count = self.available(memory)?.min(max);
        if count == 0 {
            return Ok(0);
        }
        for n in 0..count {
            let place = self.lane.place(self.head.wrapping_add(n));
            entries.push(memory.load_entry(place));
        }
        self.head = self.head.wrapping_add(count);
        memory.word(self.lane.head_at).store(self.head.to_le(), Ordering::Release);
        Ok(count)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{ENTRY_LEN, Geometry};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn lane() -> (Memory, Lane) {
        let geometry = Geometry::new(4, 4096).unwrap();
        let (memory, _fd) = Memory::create(geometry).unwrap();
        (memory, geometry.submission_lane())
    }

    fn entry(n: u32) -> Entry {
        let mut entry = [0xA5; ENTRY_LEN];
        entry[..4].copy_from_slice(&n.to_le_bytes());
        entry
    }

    #[test]
    fn what_was_put_in_is_seen_once_it_is_shown() {
        let (memory, lane) = lane();
        let (mut producer, mut consumer) = (Producer::new(lane), Consumer::new(lane));
        producer.push(&memory, &entry(1)).unwrap();
        assert_eq!(consumer.available(&memory), Ok(0));
        producer.publish(&memory);
        let mut taken = Vec::new();
        assert_eq!(consumer.take(&memory, 9, &mut taken), Ok(1));
        assert_eq!(taken, [entry(1)]);
    }

    #[test]
    fn a_tail_further_on_than_the_ring_is_long_breaks_it() {
        let (memory, lane) = lane();
        let mut consumer = Consumer::new(lane);
        for tail in [5u32, 1 << 31, u32::MAX] {
            memory.word(lane.tail_at).store(tail.to_le(), Ordering::Relaxed);
            assert_eq!(consumer.take(&memory, 9, &mut Vec::new()), Err(Broken), "{tail}");
        }
    }

    #[test]
    fn a_head_that_goes_back_or_past_the_tail_breaks_the_ring() {
        let (memory, lane) = lane();
        for head in [5u32, 1 << 31, u32::MAX] {
            let mut producer = Producer::new(lane);
            for n in 0..4 {
                assert_eq!(producer.push(&memory, &entry(n)), Ok(true));
            }
            memory.word(lane.head_at).store(head.to_le(), Ordering::Relaxed);
            assert_eq!(producer.push(&memory, &entry(4)), Err(Broken), "{head}");
        }
    }

    proptest! {
        /// For any sequence of steps, and across the wrap of indices, a ring is a bounded queue.
        #[test]
        fn a_ring_equals_a_queue(
            start in prop_oneof![Just(0u32), Just(u32::MAX - 6), any::<u32>()],
            steps in prop::collection::vec((any::<bool>(), 0u32..6), 1..200),
        ) {
            let (memory, lane) = lane();
            let mut producer = Producer { lane, tail: start, head_seen: start };
            let mut consumer = Consumer { lane, head: start };
            memory.word(lane.head_at).store(start.to_le(), Ordering::Relaxed);
            producer.publish(&memory);
            let (mut model, mut next) = (VecDeque::new(), 0);
            for (fills, count) in steps {
                if fills {
                    for _ in 0..count {
                        let has_room = model.len() < 4;
                        prop_assert_eq!(producer.push(&memory, &entry(next)), Ok(has_room));
                        if has_room {
                            model.push_back(entry(next));
                            next += 1;
                        }
                    }
                    producer.publish(&memory);
                } else {
                    let mut taken = Vec::new();
                    consumer.take(&memory, count, &mut taken).unwrap();
                    let expected: Vec<Entry> =
                        model.drain(..model.len().min(count as usize)).collect();
                    prop_assert_eq!(taken, expected);
                }
            }
        }
    }
}
