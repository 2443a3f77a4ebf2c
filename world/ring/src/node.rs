//! The node's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::bell::Bell;
use crate::geometry::Entry;
use crate::geometry::{CLIENT_SLEEPS_AT, Geometry, NODE_SLEEPS_AT};
use crate::lane::{Broken, Consumer, Producer};
use crate::memory::Memory;
use crate::processor::{Processor, is_client_on, state_node};
use crate::sleep::{say_sleeping, wake};

/// The node's end, unmapped when dropped.
#[derive(Debug)]
pub struct NodeEnd {
    memory: Memory,
    submissions: Consumer,
    completions: Producer,
    bell: Bell,
}

/// The descriptors for the client; the node keeps neither.
#[derive(Debug)]
pub struct Handover {
    /// The memory.
    pub memory: OwnedFd,
    /// The client's end of the bell.
    pub bell: OwnedFd,
}

impl Handover {
    /// The descriptors, in the order in which a client expects them.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.memory.as_fd(), self.bell.as_fd()]
    }
}

impl NodeEnd {
    /// Creates rings, and the descriptors for the client.
    ///
    /// # Errors
    /// When the system has no memory, address space or descriptors for it.
    pub fn new(geometry: Geometry) -> io::Result<(Self, Handover)> {
        let (bell, theirs) = Bell::pair()?;
        let (memory, fd) = Memory::create(geometry)?;
        let end = Self {
            memory,
            submissions: Consumer::new(geometry.submission_lane()),
            completions: Producer::new(geometry.completion_lane()),
            bell,
        };
        Ok((end, Handover { memory: fd, bell: theirs.into_fd() }))
    }

    /// Appends up to `max` entries that the client submitted. Returns their number.
    ///
    /// # Errors
    /// When the client has broken the ring.
    #[inline]
    pub fn take(&mut self, max: u32, entries: &mut Vec<Entry>) -> Result<u32, Broken> {
        self.submissions.take(&self.memory, max, entries)
    }

    /// The number of entries that the client has submitted and that were not taken; 0 if it has broken the ring.
    #[inline]
    pub fn untaken(&self) -> usize {
        let count = self.submissions.available(&self.memory).unwrap_or(0);
        usize::try_from(count).expect("usize is at least 32 bits wide")
    }

    /// Publishes these answers to the client, and wakes it if it sleeps.
    ///
    /// # Errors
    /// When the ring is full or broken: a client has at most as many requests in flight as its
    /// submission ring has entries, and the completion ring has twice as many.
    #[inline]
    pub fn put(&mut self, entries: &[Entry]) -> Result<(), Broken> {
        for entry in entries {
            if !self.completions.push(&self.memory, entry)? {
                return Err(Broken);
            }
        }
        self.completions.publish(&self.memory);
        wake(&self.memory, CLIENT_SLEEPS_AT, &self.bell);
        Ok(())
    }

    /// States the processor of this end.
    pub fn state_processor(&self, processor: Processor) {
        state_node(&self.memory, processor);
    }

    /// Whether the client says that it runs on this processor.
    #[inline]
    pub fn is_client_on(&self, processor: Processor) -> bool {
        is_client_on(&self.memory, processor)
    }

    /// Asks the client to ring the bell on a submission from now on. `false` when there is an entry
    /// to take already, or the ring is broken.
    pub fn begin_sleep(&self) -> bool {
        say_sleeping(&self.memory, NODE_SLEEPS_AT);
        self.submissions.available(&self.memory) == Ok(0)
    }

    /// Ends the request for the bell.
    pub fn end_sleep(&self) {
        self.memory.word(NODE_SLEEPS_AT).store(0, Ordering::Relaxed);
    }

    /// A descriptor that becomes readable when the client submits while this end sleeps.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Clears the bell. Returns whether the client still has its end.
    pub fn silence_bell(&self) -> bool {
        self.bell.silence()
    }

    /// A pointer to this part of the data area, for a device; `None` when it is not within the
    /// area. The client may write there at any time, so no reference may be made from it.
    #[inline]
    pub fn data(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        self.memory.data(offset, len)
    }

    /// Copies bytes out of the data area: a single read of memory that may change at any time.
    ///
    /// # Panics
    /// When they are not within the area, which is a bug of the caller, as in the other methods.
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.memory.copy_out(offset, into);
    }

    /// Copies bytes into the data area.
    ///
    /// # Panics
    /// As [`Self::copy_out`].
    pub fn copy_in(&self, offset: u64, from: &[u8]) {
        self.memory.copy_in(offset, from);
    }

    /// Zeroes bytes of the data area.
    ///
    /// # Panics
    /// As [`Self::copy_out`].
    #[inline]
    pub fn zero(&self, offset: u64, len: usize) {
        self.memory.zero(offset, len);
    }
}
