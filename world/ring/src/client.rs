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
use crate::geometry::{CLIENT_SLEEPS_AT, Geometry, NODE_SLEEPS_AT};
use crate::lane::{Broken, Consumer, Entry, Producer};
use crate::memory::{Memory, OpenError};
use crate::sleep::{say_sleeping, wake};

/// A longer wait is as good as one without an end.
const TIMEOUT_MAX: Timespec = Timespec { tv_sec: i64::MAX >> 8, tv_nsec: 0 };

/// The client's end. What of it a [`crate::Slice`] needs outlives it.
#[derive(Debug)]
pub struct ClientEnd {
    memory: Arc<Memory>,
    submissions: Producer,
    completions: Consumer,
    flights: Flights,
    bell: Bell,
}

impl ClientEnd {
    /// The end that a node gave when it was asked for `geometry`, and its data area.
    ///
    /// # Errors
    /// When it is not what was asked for, or cannot be mapped.
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
        };
        Ok((end, area))
    }

    /// Puts a request in, not yet to be seen, with the place of its payload. Whether there was room; if
    /// there was none, the payload counts as in flight all the same.
    ///
    /// # Errors
    /// When the ring is broken.
    ///
    /// # Panics
    /// When the payload is shorter than the request says, is of another data area, or is missing; or the
    /// tag is that of another request in flight, or not below the ring's entries.
    #[inline]
    pub fn push(&mut self, entry: &Entry, payload: Payload<'_>) -> Result<bool, Broken> {
        let entry = self.flights.depart(entry, payload);
        self.submissions.push(&self.memory, &entry)
    }

    /// The slice of a request whose answer was taken; `None` when there is no such request, or it had
    /// none.
    #[inline]
    pub fn reclaim(&mut self, tag: u32) -> Option<Slice> {
        self.flights.reclaim(tag)
    }

    /// Copies the bytes of a slice in flight, as many as there are, for who does not expect an answer any
    /// more. Whether there is such a slice.
    pub fn copy_out(&self, tag: u32, into: &mut [u8]) -> bool {
        self.flights.copy_out(tag, into)
    }

    /// Shows the node what was put in, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        self.submissions.publish(&self.memory);
        wake(&self.memory, NODE_SLEEPS_AT, &self.bell);
    }

    /// Appends up to `max` answers. How many.
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

    /// Sleeps until there may be answers, or bytes or the end of `socket`, or room in it if
    /// `is_writing`, `timeout` at most. Whether there may be.
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

    /// Tells the node to ring the bell from now on, for who sleeps by other means than
    /// [`Self::wait`]: on [`Self::bell`] and on the socket. Whether there is no answer yet; if there
    /// is, nobody may sleep. [`Self::awake`] follows in any case.
    pub fn doze(&mut self) -> bool {
        say_sleeping(&self.memory, CLIENT_SLEEPS_AT);
        matches!(self.completions.available(&self.memory), Ok(0))
    }

    /// Becomes readable when the node rings it.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Nobody sleeps any more, and the bell is silent.
    pub fn awake(&mut self) {
        self.memory.word(CLIENT_SLEEPS_AT).store(0, Ordering::Relaxed);
        // A node that is gone is found out by its socket.
        self.bell.silence();
    }
}
