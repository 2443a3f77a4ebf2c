//! Connecting again, after the connection was lost.

#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_direct::Status;

use super::super::error::{Error, LATE, Lost};
use super::super::link::Link;
#[cfg(feature = "tokio")]
use super::super::options::QueueOptions;
use super::QueuePair;
use crate::backoff::Backoff;

impl QueuePair {
    /// A function that makes this connection again, on any thread.
    #[cfg(feature = "tokio")]
    pub(in super::super) fn reconnector(
        &self,
    ) -> impl FnOnce() -> Result<Self, Error> + Send + 'static {
        let (shared, source) = (Arc::clone(&self.shared), self.handles.own_source().clone());
        let (depth, shared_len) = (self.link.slots().depth(), self.shared_len);
        let (descriptor_min, guards) = (self.descriptor_min, self.guards_descriptors);
        let (uuid, identity) = (self.handles.own_info().uuid, self.identity);
        move || {
            let options = QueueOptions::default().depth(depth).shared_len(shared_len);
            let options = options.descriptor_min(descriptor_min).guards_descriptors(guards);
            persist(shared.options.reconnect_max, || {
                let (shared, own) = (Arc::clone(&shared), source.clone());
                let pair = Self::connect_as(identity, shared, own, options, None)?;
                same_volume(source.name(), uuid, pair.handles.own_info().uuid)?;
                Ok(pair)
            })
        }
    }

    /// Whether the descriptors are those that the queue pair has made, if it
    /// [guards](crate::QueueOptions::guards_descriptors) them and has shared memory. If not, it must neither be
    /// used nor be dropped: the descriptors are other code's.
    pub fn has_descriptors(&self) -> bool {
        self.link.has_descriptors()
    }

    /// Connects again after the connection was lost, for at most
    /// [`Options::reconnect_max`](crate::direct::Options::reconnect_max), with increasing delays.
    /// The next poll completes the operations that were in flight, as lost. When this returns, each
    /// of them has taken effect or never will, so none takes effect after an operation that is
    /// posted from then on.
    ///
    /// # Errors
    /// When the node cannot be reached in that time, or refuses.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        self.reconnect_until(self.deadline)
    }

    /// [`Self::reconnect`], given up at `deadline`.
    pub(in super::super) fn reconnect_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        if self.lost.is_none() {
            self.lose(Lost::Closed);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let span = self.shared.options.reconnect_max;
        let span = left.map_or(span, |left| left.min(span));
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let connected = persist(span, || self.try_reconnect(deadline));
        connected.map_err(|error| if is_late() { LATE } else { error })
    }

    /// [`Self::reconnect`] with one attempt.
    #[cfg(feature = "ownership")]
    pub(in super::super) fn reconnect_once(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        if self.lost.is_none() {
            self.lose(Lost::Closed);
        }
        self.try_reconnect(deadline)
    }

    fn try_reconnect(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let slots = self.link.slots().successor();
        let shared = self.shared.until(deadline);
        let mut link = Link::connect(&shared, self.identity, slots, self.shared_len)?;
        link.raise_descriptors(self.descriptor_min);
        if self.guards_descriptors {
            link.guard_descriptors();
        }
        let handles = self.handles.reopened(&mut link, &self.shared.until(deadline))?;
        (self.link, self.handles, self.lost) = (link, handles, None);
        self.silence.broken();
        Ok(())
    }
}

/// Tries to connect for `span`, with increasing delays, until an error is not transient.
fn persist<T>(span: Duration, mut connect: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let end = Instant::now() + span;
    let mut backoff = Backoff::default();
    loop {
        let error = match connect() {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        let left = end.saturating_duration_since(Instant::now());
        if !error.is_transient() || left.is_zero() {
            return Err(error);
        }
        std::thread::sleep(backoff.next_wait().to_duration().min(left));
    }
}

/// Checks the UUID: another volume of the same name does not have the data written to the first.
pub(super) fn same_volume(name: &str, was: [u8; 16], is: [u8; 16]) -> Result<(), Error> {
    if was == is {
        return Ok(());
    }
    Err(Error::Open { volume: name.to_owned(), status: Status::NO_SUCH_VOLUME })
}
