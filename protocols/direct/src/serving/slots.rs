//! The requests in flight of one connection. A request's tag is its slot's number.
//!
//! Invariant: nothing is allocated per request.

use nearflash_request::{SentIn, VolumeId};
use nearflash_units::BlockSize;

use super::runs::Runs;
use crate::wire::{CREDITS_MAX, DIGEST_KEY_LEN, Status};

/// The kind of a request, with the operands of an atomic operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    Zero {
        deallocate: bool,
    },
    CompareAndSwap {
        expected: u64,
        new: u64,
    },
    FetchAdd {
        addend: u64,
    },
    /// The range is not the header's: its length comes with the key.
    Digest {
        range_len: u32,
        key: [u8; DIGEST_KEY_LEN],
    },
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) is_taken: bool,
    pub(super) kind: Kind,
    pub(super) durable: bool,
    /// The handle it came with.
    pub(super) handle: u16,
    /// The seal that allowed it, by [`super::handles::Handle::serial`].
    pub(super) serial: u32,
    /// The generation of the exports that allowed it.
    pub(super) generation: u32,
    pub(super) volume: VolumeId,
    pub(super) block_size: BlockSize,
    /// Devices transfer to and from the client's memory in multiples of this number.
    pub(super) unit: BlockSize,
    /// Another node has the blocks of its volume.
    pub(super) is_remote: bool,
    /// From the first byte of the handle.
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Where its bytes lie in the volume.
    pub(super) runs: Runs,
    /// The offset of its payload in the data area of the rings.
    pub(super) place: u32,
    /// Segments that are not over.
    pub(super) pending: u32,
    /// On a face of a mirror: when it was sent.
    pub(super) sent_in: Option<SentIn>,
    /// The segments of which the client is to be told that they were accepted, and which were not yet.
    pub(super) unaccepted: u32,
    /// The status of its first failure, which its answer will have; OK if nothing has failed.
    pub(super) failed: Status,
    /// The epoch that made it stale.
    pub(super) value: u64,
}

impl Slot {
    const FREE: Self = Self {
        is_taken: false,
        kind: Kind::Flush,
        durable: false,
        handle: 0,
        serial: 0,
        generation: 0,
        volume: VolumeId(0),
        block_size: BlockSize::B512,
        unit: BlockSize::B512,
        is_remote: false,
        offset: 0,
        len: 0,
        runs: Runs::WHOLE,
        place: 0,
        pending: 0,
        sent_in: None,
        unaccepted: 0,
        failed: Status::OK,
        value: 0,
    };

    /// Records a failure. Only the first is reported.
    pub(super) fn fail(&mut self, status: Status, value: u64) {
        if self.failed.is_ok() {
            (self.failed, self.value) = (status, value);
        }
    }
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    taken: usize,
}

impl Slots {
    /// Those of a client that has not proved who it is: they would be most of the memory of its connection.
    pub(super) fn none() -> Self {
        Self { slots: Box::default(), taken: 0 }
    }

    /// # Panics
    /// When `credits` is zero or too large.
    pub(super) fn new(credits: u32) -> Self {
        assert!((1..=CREDITS_MAX).contains(&credits), "a session has 1 to {CREDITS_MAX} credits");
        Self { slots: vec![Slot::FREE; crate::length(credits)].into_boxed_slice(), taken: 0 }
    }

    /// Tags are below this.
    pub(super) const fn count(&self) -> usize {
        self.slots.len()
    }

    pub(super) const fn in_use(&self) -> usize {
        self.taken
    }

    /// Limits the tags to those below `count`, which must not exceed the previous limit.
    pub(super) fn shrink(&mut self, count: usize) {
        assert!(self.taken == 0 && count <= self.slots.len(), "slots in use stay");
        self.slots = vec![Slot::FREE; count].into_boxed_slice();
    }

    /// Whether a request with this tag is allowed now; `None` if the tag is not below the count.
    #[inline]
    pub(super) fn is_free(&self, tag: u32) -> Option<bool> {
        self.slots.get(crate::length(tag)).map(|slot| !slot.is_taken)
    }

    /// The slot of a new request, without a failure.
    #[inline]
    pub(super) fn take(&mut self, tag: u32) -> &mut Slot {
        self.taken += 1;
        let slot = &mut self.slots[crate::length(tag)];
        assert!(!slot.is_taken, "a tag names one request at a time");
        slot.is_taken = true;
        slot.failed = Status::OK;
        slot.value = 0;
        slot
    }

    /// The request is answered.
    #[inline]
    pub(super) fn give_back(&mut self, tag: u32) {
        let slot = &mut self.slots[crate::length(tag)];
        assert!(slot.is_taken, "a tag is given back once");
        slot.is_taken = false;
        self.taken -= 1;
    }
}

/// A tag that was checked.
impl std::ops::Index<u32> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, tag: u32) -> &Slot {
        &self.slots[crate::length(tag)]
    }
}

impl std::ops::IndexMut<u32> for Slots {
    #[inline]
    fn index_mut(&mut self, tag: u32) -> &mut Slot {
        &mut self.slots[crate::length(tag)]
    }
}
