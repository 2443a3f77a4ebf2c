//! The client's end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::Timespec;

use crate::area::{Area, Slice};
use crate::bell::{Bell, Woken};
use crate::flights::{Flights, Payload};
use crate::geometry::Entry;
use crate::geometry::{CLIENT_SLEEPS_AT, Geometry, NODE_SLEEPS_AT};
use crate::lane::{Broken, Consumer, Producer};
use crate::memory::{Memory, OpenError};
use crate::processor::ClientProcessor;
use crate::sleep::{say_sleeping, wake};

/// The longest time-out that is passed to the system, in effect unlimited.
const TIMEOUT_MAX: Timespec = Timespec { tv_sec: i64::MAX >> 8, tv_nsec: 0 };

/// The client's end. Memory that a [`crate::Slice`] needs outlives it.
#[derive(Debug)]
pub struct ClientEnd {
    memory: Arc<Memory>,
    submissions: Producer,
    completions: Consumer,
    flights: Flights,
    bell: Bell,
    processor: ClientProcessor,
}

impl ClientEnd {
    /// Maps the rings that a node sent in answer to a request for `geometry`, and their data area.
    ///
    /// # Errors
    /// When the memory does not have the requested geometry, or cannot be mapped.
    pub fn new(
        memory: &OwnedFd,
        bell: OwnedFd,
        geometry: Geometry,
    ) -> Result<(Self, Area), OpenError> {
        let memory = Arc::new(Memory::open(memory, geometry)?);
        let mut area = Area::new(Arc::clone(&memory));
        let end = Self {
            submissions: Producer::new(geometry.submission_lane()),
            completions: Consumer::new(geometry.completion_lane()),
            flights: Flights::new(&memory, geometry.entries(), &mut area),
            memory,
            bell: Bell::from_node(bell),
            processor: ClientProcessor::default(),
        };
        Ok((end, area))
    }

    /// Adds a request, with the location of its payload, which the node does not see before
    /// [`Self::publish`]. Returns whether there was room; if not, the payload counts as in flight
    /// all the same.
    ///
    /// # Errors
    /// When the ring is broken.
    ///
    /// # Panics
    /// When the payload is shorter than the request states, is of another data area, or is missing;
    /// or when the tag is that of another request in flight, or not below the ring's number of
    /// entries.
    #[inline]
    pub fn push(&mut self, entry: &Entry, payload: Payload<'_>) -> Result<bool, Broken> {
        let entry = self.flights.depart(entry, payload);
        self.submissions.push(&self.memory, &entry)
    }

    /// Returns the slice of a request whose answer was taken; `None` when there is no such request,
    /// or it had no slice.
    #[inline]
    pub fn reclaim(&mut self, tag: u32) -> Option<Slice> {
        self.flights.reclaim(tag)
    }

    /// Copies the bytes of a slice in flight, up to the length of `into`, for a caller that gives
    /// up waiting for the answer. Returns whether there is such a slice.
    pub fn copy_out(&self, tag: u32, into: &mut [u8]) -> bool {
        self.flights.copy_out(tag, into)
    }

    /// Publishes the added requests to the node, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        // First, so that the node sees it with the requests.
        self.processor.state(&self.memory);
        self.submissions.publish(&self.memory);
        wake(&self.memory, NODE_SLEEPS_AT, &self.bell);
    }

    /// Appends up to `max` answers. Returns their number.
    ///
    /// # Errors
    /// When the ring is broken.
    #[inline]
    pub fn take(&mut self, max: u32, entries: &mut Vec<Entry>) -> Result<u32, Broken> {
        let before = entries.len();
        let count = self.completions.take(&self.memory, max, entries)?;
        self.flights.land(&entries[before..]);
        Ok(count)
    }

    /// Whether the node's end runs on the processor of the calling thread. Spinning would delay it.
    #[inline]
    pub fn shares_processor(&mut self) -> bool {
        self.processor.state(&self.memory)
    }

    /// Sleeps until there may be answers, `socket` is readable, closed, or, if `is_writing`,
    /// writable, or `timeout` has passed. Returns `false` after the time-out.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(
        &mut self,
        socket: BorrowedFd<'_>,
        is_writing: bool,
        timeout: Duration,
    ) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).unwrap_or(TIMEOUT_MAX);
        let woken = match self.doze() {
            true => self.bell.wait(socket, is_writing, timeout),
            false => Ok(Woken::Yes),
        };
        self.awake();
        Ok(woken? == Woken::Yes)
    }

    /// Asks the node to ring the bell from now on, for a caller that waits by other means than
    /// [`Self::wait`]: on [`Self::bell`] and on the socket. Returns whether there is no answer yet;
    /// if there is one, the caller must not sleep. [`Self::awake`] must follow in any case.
    pub fn doze(&mut self) -> bool {
        say_sleeping(&self.memory, CLIENT_SLEEPS_AT);
        matches!(self.completions.available(&self.memory), Ok(0))
    }

    /// A descriptor that becomes readable when the node rings the bell.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Uses another descriptor of the same bell.
    pub fn replace_bell(&mut self, bell: OwnedFd) {
        self.bell = Bell::from_node(bell);
    }

    /// Checks from now on, before each use of the bell's descriptor, that the program has not replaced it.
    /// A replaced one is left alone, and a wait fails.
    pub fn guard_bell(&mut self) {
        self.bell.guard();
    }

    /// Whether the bell's descriptor is the one that was guarded.
    pub fn has_bell(&self) -> bool {
        self.bell.is_original()
    }

    /// Ends the sleep, and clears the bell.
    pub fn awake(&mut self) {
        self.memory.word(CLIENT_SLEEPS_AT).store(0, Ordering::Relaxed);
        // The socket reports a node that has gone.
        self.bell.silence();
    }
}
