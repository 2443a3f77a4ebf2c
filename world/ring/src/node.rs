//! The node's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::bell::Bell;
use crate::geometry::{CLIENT_SLEEPS_AT, Geometry, NODE_SLEEPS_AT};
use crate::lane::{Broken, Consumer, Entry, Producer};
use crate::memory::Memory;
use crate::sleep::{say_sleeping, wake};

/// The node's end. Unmapped when dropped.
#[derive(Debug)]
pub struct NodeEnd {
    memory: Memory,
    submissions: Consumer,
    completions: Producer,
    bell: Bell,
}

/// What goes to the client: nothing of it is kept.
#[derive(Debug)]
pub struct Handover {
    /// The memory.
    pub memory: OwnedFd,
    /// The client's end of the bell.
    pub bell: OwnedFd,
}

impl Handover {
    /// In the order in which a client expects them.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.memory.as_fd(), self.bell.as_fd()]
    }
}

impl NodeEnd {
    /// New rings, and what the client needs of them.
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

    /// Appends up to `max` entries that the client submitted. How many.
    ///
    /// # Errors
    /// When the client broke the ring.
    #[inline]
    pub fn take(&mut self, max: u32, entries: &mut Vec<Entry>) -> Result<u32, Broken> {
        self.submissions.take(&self.memory, max, entries)
    }

    /// Shows the client these answers, and wakes it if it sleeps.
    ///
    /// # Errors
    /// When the ring is full or broken: a client has no more in flight than its ring has entries,
    /// and there is room for twice as many answers.
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

    /// From now on the client rings the bell when it submits. `false` when there is something to
    /// take already (also when what is there is broken).
    pub fn begin_sleep(&self) -> bool {
        say_sleeping(&self.memory, NODE_SLEEPS_AT);
        self.submissions.available(&self.memory) == Ok(0)
    }

    /// No bell is needed any more.
    pub fn end_sleep(&self) {
        self.memory.word(NODE_SLEEPS_AT).store(0, Ordering::Relaxed);
    }

    /// Rings when the client submitted something while this end slept.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes what rang. Whether the client still has its end.
    pub fn silence_bell(&self) -> bool {
        self.bell.silence()
    }

    /// Where a device reads or writes that part of the data area; `None` when it is not within. The
    /// client may write there at any time: never to be made a reference.
    #[inline]
    pub fn data(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        self.memory.data(offset, len)
    }

    /// Copies bytes of the data area out: one look at what may change at any time.
    ///
    /// # Panics
    /// When they are not within it, as with the others: our own fault.
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

    /// Makes bytes of the data area zeroes.
    ///
    /// # Panics
    /// As [`Self::copy_out`].
    #[inline]
    pub fn zero(&self, offset: u64, len: usize) {
        self.memory.zero(offset, len);
    }
}
