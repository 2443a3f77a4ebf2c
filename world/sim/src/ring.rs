//! Rings in memory that a simulated client shares with its core.
//!
//! The simulator holds their bytes; the other side sees an entry or a byte at once. As with the
//! doorbells of real rings, a core does not sleep while an entry is left.

use std::collections::VecDeque;

use nearflash_engine::{CoreId, Foreign, Pool};
use nearflash_request::BufferId;
use nearflash_shard::{RingBroken, RingEntry, RingId};

use crate::network::LinkId;

/// Entries taken in one turn.
const ENTRIES_PER_TURN_MAX: usize = 16;

/// The memory of one client.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) link: LinkId,
    pub(crate) core: CoreId,
    entries: usize,
    submissions: VecDeque<RingEntry>,
    completions: VecDeque<RingEntry>,
    data: Vec<u8>,
}

/// All rings of the node.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// By [`RingId`]; ids are never reused, so that a late use is detected.
    rings: Vec<Option<Ring>>,
}

impl Rings {
    pub(crate) fn attach(
        &mut self,
        core: CoreId,
        link: LinkId,
        entries: u32,
        data_len: usize,
    ) -> RingId {
        let entries = usize::try_from(entries).expect("few entries");
        let (submissions, completions) = (VecDeque::new(), VecDeque::new());
        let data = vec![0; data_len];
        self.rings.push(Some(Ring { link, core, entries, submissions, completions, data }));
        RingId(u32::try_from(self.rings.len() - 1).expect("few rings"))
    }

    /// Releases the memory.
    pub(crate) fn detach(&mut self, ring: RingId) {
        let place = &mut self.rings[index(ring.0)];
        assert!(place.take().is_some(), "{ring:?} is detached once");
    }

    pub(crate) fn get_mut(&mut self, ring: RingId) -> &mut Ring {
        let place = self.rings[index(ring.0)].as_mut();
        place.unwrap_or_else(|| panic!("{ring:?} is used after it was given up"))
    }

    /// The rings of a link, if the node still has them.
    pub(crate) fn of_link(&mut self, link: LinkId) -> Option<&mut Ring> {
        self.rings.iter_mut().flatten().find(|ring| ring.link == link)
    }

    /// The place of a buffer's bytes: in the pool, or in a client's memory.
    pub(crate) fn memory<'a>(
        &'a mut self,
        pool: &'a mut Pool,
        buffer: BufferId,
        start: usize,
        len: usize,
    ) -> &'a mut [u8] {
        match pool.foreign(buffer) {
            None => &mut pool.bytes_mut(buffer)[start..start + len],
            Some(Foreign { region, offset, len: lent }) => {
                assert!(start + len <= index(lent), "what is lent is enough for what it is for");
                &mut self.get_mut(RingId(region)).at(offset)[start..start + len]
            }
        }
    }

    /// The number of entries that a client has submitted and that were not taken.
    pub(crate) fn untaken(&self, ring: RingId) -> usize {
        self.rings[index(ring.0)].as_ref().map_or(0, |ring| ring.submissions.len())
    }

    /// Whether a core has an entry to take.
    pub(crate) fn has_work(&self, core: CoreId) -> bool {
        let mut rings = self.rings.iter().flatten();
        rings.any(|ring| ring.core == core && !ring.submissions.is_empty())
    }

    /// The number of rings.
    pub(crate) fn count(&self) -> usize {
        self.rings.iter().flatten().count()
    }

    /// The node is gone.
    pub(crate) fn lose_node(&mut self) {
        self.rings.iter_mut().for_each(|ring| *ring = None);
    }
}

impl Ring {
    /// The data area from `offset` on.
    pub(crate) fn at(&mut self, offset: u64) -> &mut [u8] {
        &mut self.data[usize::try_from(offset).expect("within the data area")..]
    }

    /// The client submits; `false` when there is no room.
    pub(crate) fn submit(&mut self, entry: RingEntry) -> bool {
        let has_room = self.submissions.len() < self.entries;
        if has_room {
            self.submissions.push_back(entry);
        }
        has_room
    }

    /// The client takes an answer.
    pub(crate) fn take_completion(&mut self) -> Option<RingEntry> {
        self.completions.pop_front()
    }

    pub(crate) fn take(&mut self, into: &mut Vec<RingEntry>) {
        let count = self.submissions.len().min(ENTRIES_PER_TURN_MAX);
        into.extend(self.submissions.drain(..count));
    }

    pub(crate) fn put(&mut self, entries: &[RingEntry]) -> Result<(), RingBroken> {
        if self.completions.len() + entries.len() > 2 * self.entries {
            return Err(RingBroken);
        }
        self.completions.extend(entries);
        Ok(())
    }
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
