//! Operations with a time-out: a late one ends with its connection, as every operation in flight.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use super::super::buffer::Buffer;
#[cfg(feature = "tokio")]
use super::super::completion::Token;
use super::super::error::Lost;
#[cfg(feature = "tokio")]
use super::super::slots::slot_of;
use super::QueuePair;

/// A queue pair for posts with a time-out, from [`QueuePair::with_timeout`].
#[derive(Debug)]
pub struct WithTimeout<'a> {
    pair: &'a mut QueuePair,
    before: Option<Instant>,
}

impl QueuePair {
    /// The same queue pair, whose operations posted through this value end after `timeout` from now
    /// at the latest: a poll after that time gives the connection up, and every operation in flight
    /// ends, with [`Lost::TimedOut`]. It is [`Error::Unknown`](crate::Error::Unknown) if the
    /// operation may have changed the volume, and otherwise
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost). Buffers are returned; memory that
    /// the node may still write to is not among them. After [`Self::reconnect`], nothing of these
    /// operations is under way any more.
    ///
    /// A post after that time is refused, and [`Self::reconnect`] ends at that time, both with
    /// [`Lost::TimedOut`].
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), nearflash::Error> {
    /// # let client = nearflash::Client::connect("direct://a", nearflash::Credentials::NONE)?;
    /// # let mut pair = client.queue_pair("data", nearflash::QueueOptions::default())?;
    /// let buffer = pair.buffer(4096)?;
    /// pair.with_timeout(Duration::from_millis(20)).post_read_at(buffer, 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_timeout(&mut self, timeout: Duration) -> WithTimeout<'_> {
        // A time-out beyond the range of the clock never expires.
        let deadline = Instant::now().checked_add(timeout);
        let before = std::mem::replace(&mut self.deadline, deadline);
        WithTimeout { pair: self, before }
    }

    /// Whether a post, or a reconnect, is too late.
    #[inline]
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Records that an operation with the current deadline is in flight.
    #[inline]
    pub(super) fn watch_deadline(&mut self) {
        if let Some(deadline) = self.deadline {
            let next = self.next_deadline.map_or(deadline, |next| next.min(deadline));
            self.next_deadline = Some(next);
        }
    }

    /// Gives the connection up if an operation in flight is late.
    pub(super) fn look_at_deadlines(&mut self) {
        let now = Instant::now();
        let is_over = |next: Option<Instant>| next.is_some_and(|next| now >= next);
        if self.lost.is_none() && is_over(self.next_deadline) {
            // The operation with that deadline may have ended in time.
            self.next_deadline = self.link.slots().next_deadline();
            if is_over(self.next_deadline) {
                self.lose(Lost::TimedOut);
            }
        }
    }

    /// Returns the buffer of an operation in flight, which continues with a copy, and whether the
    /// operation may change the volume.
    #[cfg(feature = "tokio")]
    pub(in super::super) fn take_back(&mut self, token: Token) -> (Option<Buffer>, bool) {
        let slot = slot_of(token.get());
        let slots = self.link.slots_mut();
        (slots.take_back(slot), slots.get(slot).changes_volume())
    }

    /// The time until the node is silent for too long, or an operation is late.
    pub(super) fn patience(&self) -> Duration {
        let silence = self.silence.left();
        let Some(next) = self.next_deadline else { return silence };
        silence.min(next.saturating_duration_since(Instant::now()))
    }
}

impl Deref for WithTimeout<'_> {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        self.pair
    }
}

impl DerefMut for WithTimeout<'_> {
    fn deref_mut(&mut self) -> &mut QueuePair {
        self.pair
    }
}

impl Drop for WithTimeout<'_> {
    fn drop(&mut self) {
        self.pair.deadline = self.before;
    }
}
