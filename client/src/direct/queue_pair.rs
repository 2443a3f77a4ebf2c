//! A queue pair: the owning thread posts operations and polls completions, in any order.

mod handles;
mod on_handle;
mod post;
mod reconnect;
mod timed;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_direct::Status;
use nearflash_direct::client::{ClientCompletion, ClientEvent};
use nearflash_request::BufferId;

use handles::Handles;
pub(super) use handles::Source;
pub use on_handle::OnHandle;
use reconnect::same_volume;
pub use timed::WithTimeout;

use super::buffer::Buffer;
use super::completion::Completion;
use super::error::{Error, Lost};
use super::handle::Handle;
use super::link::{Link, LinkIdentity};
use super::options::QueueOptions;
use super::shared::Shared;
use super::silence::Silence;
use super::slots::{DEPTH_MAX, Slots};
use super::volume_info::VolumeInfo;

/// A queue pair. It can be sent to another thread, and one thread uses it at a time. Buffers in
/// flight belong to the queue pair; when it is dropped, they are dropped, and it is unknown whether
/// writes in flight take effect.
///
/// When the connection is lost, every operation in flight completes with [`Error::ConnectionLost`],
/// or with [`Error::Unknown`] if it may have changed the volume. [`Self::reconnect`] makes the
/// queue pair usable again. It returns when none of these operations is under way any more: an
/// operation that has not taken effect by then never will.
pub struct QueuePair {
    link: Link,
    shared: Arc<Shared>,
    identity: LinkIdentity,
    /// The length of the memory to share with a node on this machine.
    shared_len: usize,
    /// The lowest number of its descriptors.
    descriptor_min: u32,
    guards_descriptors: bool,
    handles: Handles,
    silence: Silence,
    /// The cause, once the connection is lost.
    lost: Option<Lost>,
    /// Completions of the operations in flight at that time, not polled yet.
    orphans: Vec<Completion>,
    /// Operations refused for their epoch, which had no effect; they are submitted again with the
    /// current epoch.
    stale: Vec<BufferId>,
    /// Whether the last poll returned more than one completion.
    is_in_burst: bool,
    /// Whether the last poll may have left completions for the next one.
    has_more: bool,
    /// The number of posts since the last doorbell.
    unsent: u32,
    /// The handle that posts use.
    target: Handle,
    /// The deadline of operations that are posted now.
    deadline: Option<Instant>,
    /// No operation in flight has an earlier deadline.
    next_deadline: Option<Instant>,
}

impl QueuePair {
    /// Connects, and opens a volume or a sealed object as its own; given up at `deadline`.
    pub(super) fn connect_until(
        shared: Arc<Shared>,
        source: Source,
        options: QueueOptions,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        let identity = LinkIdentity::given_or_drawn(options.identity)?;
        Self::connect_as(identity, shared, source, options, deadline)
    }

    fn connect_as(
        identity: LinkIdentity,
        shared: Arc<Shared>,
        source: Source,
        options: QueueOptions,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        let slots = Slots::new(options.depth.clamp(1, DEPTH_MAX));
        let shared_len = options.shared_len;
        let mut link = Link::connect(&shared.until(deadline), identity, slots, shared_len)?;
        link.raise_descriptors(options.descriptor_min);
        if options.guards_descriptors {
            link.guard_descriptors();
        }
        // Token indices stay below this depth over later connections, too.
        let depth = link.slots().depth().min(link.credits_max()).max(1);
        *link.slots_mut() = Slots::new(depth);
        let own = source.open(&mut link, &shared.until(deadline), None)?;
        Ok(Self {
            link,
            identity,
            shared_len,
            descriptor_min: options.descriptor_min,
            guards_descriptors: options.guards_descriptors,
            handles: Handles::new(source, own),
            silence: Silence::new(shared.options.silence_max),
            shared,
            lost: None,
            orphans: Vec::new(),
            stale: Vec::new(),
            is_in_burst: false,
            has_more: false,
            unsent: 0,
            target: Handle::OWN,
            deadline: None,
            next_deadline: None,
        })
    }

    /// The volume's name; empty for a sealed object.
    pub fn name(&self) -> &str {
        self.handles.own_source().name()
    }

    /// The volume's size in bytes, as of the last answer.
    #[expect(clippy::len_without_is_empty, reason = "no volume is empty")]
    pub fn len(&self) -> u64 {
        self.handles.own_info().bytes
    }

    /// The size of a logical block, in bytes.
    pub fn block_size(&self) -> u32 {
        self.handles.own_info().block_size
    }

    /// The volume's properties, as the node reports them.
    pub fn info(&self) -> VolumeInfo {
        (*self.handles.own_info()).into()
    }

    /// The maximum number of operations that may be in flight.
    pub fn depth(&self) -> u32 {
        self.link.slots().depth().min(self.link.credits_max())
    }

    /// The number of operations in flight: posted, and their completion not yet polled.
    pub fn in_flight(&self) -> u32 {
        let orphans = u32::try_from(self.orphans.len()).expect("at most DEPTH_MAX");
        self.link.slots().in_flight() + orphans
    }

    /// Whether the connection is lost, so that [`Self::reconnect`] is needed.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The number by which the node tells whether it may have lost writes; 0 if it does not.
    pub(super) fn boot(&self) -> u64 {
        self.link.boot()
    }

    /// The longest operation, in bytes.
    pub fn len_max(&self) -> u32 {
        self.link.len_max()
    }

    /// Whether the node zeroes blocks without receiving their bytes. A node of an older version does
    /// not.
    pub fn can_zero(&self) -> bool {
        self.link.can_zero()
    }

    /// A buffer of `len` bytes, in memory shared with the node if there is any.
    ///
    /// # Errors
    /// When the memory shared with the node is used up.
    pub fn buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        self.link.buffer(len).ok_or_else(|| no_memory(len))
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        self.unsent = 0;
        if let Err(lost) = self.link.send() {
            self.lose(lost);
        }
    }

    /// Sends the posted operations. A post sends itself when no other operation is in flight and
    /// the last poll returned at most one completion; [`Self::poll`] sends, too, so that many posts
    /// between two polls are sent together. Posts between polls of completions that arrived
    /// together are also sent together, up to half of the operations in flight: one post for each
    /// completion needs no system call of its own.
    ///
    /// # Errors
    /// When the connection is lost; [`Self::poll`] reports the results of the operations.
    pub fn submit(&mut self) -> Result<(), Error> {
        if self.lost.is_none() {
            self.ring_doorbell();
        }
        self.lost.map_or(Ok(()), |lost| Err(Error::ConnectionLost(lost)))
    }

    /// Sends the posted operations, and appends the completed ones to `completions`. Returns their
    /// number. Never waits.
    ///
    /// # Errors
    /// When the connection is lost and every operation that was in flight has completed.
    #[inline]
    pub fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        self.poll_up_to(completions, usize::MAX)
    }

    /// [`Self::poll`] with at most `most` completions; the next poll returns the rest. A caller
    /// that posts again for each completion can poll half of the operations in flight at a time:
    /// then the node works on one half while the client works on the other. Otherwise each side
    /// waits for the other.
    ///
    /// # Errors
    /// As [`Self::poll`].
    #[inline]
    pub fn poll_up_to(
        &mut self,
        completions: &mut Vec<Completion>,
        most: usize,
    ) -> Result<usize, Error> {
        let before = completions.len();
        if self.lost.is_none() {
            self.turn(completions, most);
        }
        if !self.orphans.is_empty() {
            completions.append(&mut self.orphans);
        }
        let count = completions.len() - before;
        self.is_in_burst = count > 1;
        match (self.lost, count) {
            (Some(lost), 0) => Err(Error::ConnectionLost(lost)),
            (_, count) => Ok(count),
        }
    }

    /// Makes one turn, and records a lost connection. Returns whether there was progress.
    #[inline]
    pub(super) fn turn(&mut self, completions: &mut Vec<Completion>, most: usize) -> bool {
        if self.has_more && self.hand_over_rest(completions, most) {
            return true;
        }
        self.unsent = 0;
        let moved = self.link.turn();
        // After the connection is lost, every received completion is taken now.
        self.take_completions(completions, if moved.is_err() { usize::MAX } else { most });
        match moved {
            Ok(true) => {
                self.silence.broken();
                self.handle_events();
            }
            Ok(false) if self.link.slots().in_flight() > 0 => self.look_at_clock(),
            Ok(false) => {}
            Err(lost) => self.lose(lost),
        }
        if self.next_deadline.is_some() {
            self.look_at_deadlines();
        }
        moved.unwrap_or(true)
    }

    /// Returns completions that earlier turns have received first, without a system call, so that
    /// the posts in reply to each of them also leave in one call. Rings the doorbell once half
    /// of the operations in flight are unsent, so that the node has work meanwhile. Returns whether
    /// there were any completions. With shared memory there are no system calls to save.
    #[inline]
    fn hand_over_rest(&mut self, completions: &mut Vec<Completion>, most: usize) -> bool {
        if self.link.has_rings() {
            return false;
        }
        if self.unsent > 0 && 2 * self.unsent >= self.link.slots().in_flight() {
            self.ring_doorbell();
        }
        let before = completions.len();
        if self.lost.is_none() {
            self.take_completions(completions, most);
        }
        self.lost.is_some() || completions.len() > before
    }

    #[inline]
    fn take_completions(&mut self, completions: &mut Vec<Completion>, most: usize) {
        let most = completions.len().saturating_add(most);
        self.has_more = true;
        while completions.len() < most {
            let Some((slot, done)) = self.link.poll_completion() else {
                self.has_more = false;
                break;
            };
            self.complete(slot, done, completions);
        }
    }

    #[inline]
    fn complete(
        &mut self,
        slot: BufferId,
        done: ClientCompletion,
        completions: &mut Vec<Completion>,
    ) {
        if done.status == Status::STALE_EPOCH {
            let handle = self.link.slots().get(slot).handle;
            if self.handles.repeats(handle) {
                return self.became_stale(slot, handle);
            }
        }
        let ended = self.link.slots_mut().empty(slot);
        let result = match done.status {
            status if status.is_ok() => Ok(done.value),
            status => Err(Error::Status(status)),
        };
        completions.push(Completion::of(ended, result));
    }

    /// Keeps an operation that had no effect since the volume's layout has changed, and requests
    /// the new properties.
    #[cold]
    fn became_stale(&mut self, slot: BufferId, handle: Handle) {
        self.stale.push(slot);
        self.handles.refresh(handle, &mut self.link);
    }

    #[inline]
    fn handle_events(&mut self) {
        while let Some(event) = self.link.poll_event() {
            if let ClientEvent::Opened { number, result } = event
                && let Some((handle, status)) = self.handles.refreshed(number, result)
            {
                self.end_stale(|of| of == handle, &Error::Status(status));
            }
        }
        if !self.stale.is_empty() {
            self.submit_stale();
        }
    }

    /// Submits the stale operations again, up to the available credits, unless the properties of their
    /// volumes are still to come.
    #[cold]
    fn submit_stale(&mut self) {
        let mut left = Vec::new();
        for slot in std::mem::take(&mut self.stale) {
            let handle = self.link.slots().get(slot).handle;
            match self.handles.of_node(handle) {
                Ok(of_node) if !self.handles.is_refreshing(handle) => {
                    if self.link.submit(of_node, slot).is_err() {
                        left.push(slot);
                    }
                }
                Ok(_) => left.push(slot),
                Err(status) => self.end_one(slot, Err(Error::Status(status))),
            }
        }
        self.stale = left;
        self.ring_doorbell();
    }

    #[cold]
    fn end_stale(&mut self, is_meant: impl Fn(Handle) -> bool, error: &Error) {
        let slots = self.link.slots();
        let (ended, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stale)
            .into_iter()
            .partition(|slot| is_meant(slots.get(*slot).handle));
        self.stale = left;
        for slot in ended {
            self.end_one(slot, Err(error.clone()));
        }
    }

    fn end_one(&mut self, slot: BufferId, result: Result<u64, Error>) {
        let ended = self.link.slots_mut().empty(slot);
        self.orphans.push(Completion::of(ended, result));
    }

    /// Sends a PING to a node that owes an answer and is silent, and later gives up on it.
    #[inline]
    fn look_at_clock(&mut self) {
        if self.silence.is_ping_due() {
            self.link.ping();
            self.ring_doorbell();
        }
        if let Some(within) = self.silence.is_over() {
            self.lose(Lost::Silent { within });
        }
    }

    /// Gives the connection up, which ends every operation in flight.
    #[cold]
    pub(super) fn lose(&mut self, lost: Lost) {
        self.lost = Some(lost);
        self.next_deadline = None;
        self.handles.lose();
        self.end_stale(|_| true, &Error::ConnectionLost(lost));
        for slot in self.link.give_up() {
            let result = Err(Error::ConnectionLost(lost).after_changes(slot.changes_volume()));
            self.orphans.push(Completion::of(slot, result));
        }
    }

    /// Whether the node shares memory with this queue pair, and the node's core runs on the processor of the
    /// calling thread. The core answers only while this thread waits: a [`Self::poll`] without a completion
    /// gives the processor up, and a caller that spins should call [`Self::wait`] instead. Operations take longer
    /// than with two processors. The remedy is another processor for the program (`taskset`) or for the node
    /// (`--cores`).
    ///
    /// A call costs a few nanoseconds, and no system call. The result is `false` if the node does not state its
    /// processor.
    #[inline]
    pub fn shares_processor(&mut self) -> bool {
        self.link.shares_processor()
    }

    /// Sends the posted operations and sleeps until there may be a completion, for at most
    /// `timeout`. It is for a caller that has spun as long as that pays. Returns whether there may
    /// be a completion.
    ///
    /// # Errors
    /// When the connection is lost and every operation that was in flight has completed.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Error> {
        if self.lost.is_none() {
            self.ring_doorbell();
        }
        match self.lost {
            Some(lost) if self.orphans.is_empty() => Err(Error::ConnectionLost(lost)),
            Some(_) => Ok(true),
            None if self.has_more || !self.orphans.is_empty() => Ok(true),
            None => Ok(self.sleep(timeout)),
        }
    }

    fn sleep(&mut self, timeout: Duration) -> bool {
        let span = match self.link.slots().in_flight() {
            0 => timeout,
            _ => timeout.min(self.patience()),
        };
        let has_something = self.link.wait(span);
        if self.link.slots().in_flight() > 0 {
            self.look_at_clock();
        }
        if matches!(has_something, Ok(false)) {
            self.look_at_deadlines();
        }
        match has_something {
            Ok(has_something) => has_something || self.lost.is_some(),
            Err(lost) => {
                self.lose(lost);
                true
            }
        }
    }

    /// Prepares a sleep by other means than [`Self::wait`], such as on many queue pairs at once. It
    /// sends the posted operations, and returns whether there is nothing to poll. Only then may the
    /// caller sleep, until [`Self::socket`] or [`Self::bell`] is ready. [`Self::awake`] must follow
    /// in any case.
    pub fn doze(&mut self) -> bool {
        // The next poll reports the results after a lost connection.
        let is_whole = self.submit().is_ok();
        let is_idle = is_whole && !self.has_more && self.orphans.is_empty();
        self.link.doze() && is_idle
    }

    /// Ends the sleep after [`Self::doze`].
    pub fn awake(&mut self) {
        self.link.awake();
    }

    /// A descriptor that becomes readable when answers arrive in shared memory, between
    /// [`Self::doze`] and [`Self::awake`]; `None` without shared memory.
    pub fn bell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.link.bell()
    }

    /// A descriptor that becomes readable when there may be completions, for a caller that waits by
    /// other means than [`Self::wait`]. With shared memory, [`Self::bell`] signals them instead. A
    /// reconnect replaces the descriptor.
    pub fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.link.socket()
    }

    /// Whether there is data to send that the socket has not accepted yet.
    pub fn has_unsent(&self) -> bool {
        self.link.has_unsent()
    }

    /// Whether the next poll can receive without anything arriving at the socket, so that nobody may wait
    /// for the socket now.
    #[cfg(feature = "tokio")]
    pub(super) fn holds_input(&self) -> bool {
        self.link.holds_input()
    }

    /// The time until the next poll is due, so that a silent node or a late operation is detected;
    /// `None` when no operation is in flight.
    pub fn patience_left(&self) -> Option<Duration> {
        (self.link.slots().in_flight() > 0).then(|| self.patience())
    }
}

fn no_memory(len: usize) -> Error {
    Error::NoMemory { len: u64::try_from(len).expect("usize is at most 64 bits wide") }
}

/// Shows the volume and the number of operations: the contents are the application's data.
impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("url", &self.shared.url.to_string())
            .field("volume", &self.name())
            .field("in_flight", &self.in_flight())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}
