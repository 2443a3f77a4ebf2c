//! A queue pair: operations in, completions out, in any order, by the thread that owns it.

mod post;
mod reconnect;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nearflash_direct::Status;
use nearflash_direct::client::{ClientCompletion, ClientEvent, VolumeInfo as OpenVolume};
use nearflash_direct::wire::Rights;
use nearflash_request::BufferId;

use super::buffer::Buffer;
use super::client::Shared;
use super::completion::{Completion, Token};
use super::error::{Error, Lost};
use super::link::{Link, LinkIdentity};
use super::options::QueueOptions;
use super::silence::Silence;
use super::slots::{DEPTH_MAX, Slot, Slots};
use super::volume::VolumeInfo;

/// The queue pair. It may be given to another thread, and belongs to one at a time. A buffer in
/// flight is the queue pair's; dropping it drops them, and whether writes in flight take effect is
/// unknown then.
///
/// When the connection is lost, every operation in flight completes with
/// [`Error::ConnectionLost`], or [`Error::Unknown`] where it might have changed the volume;
/// [`Self::reconnect`] makes the queue pair usable again, and returns when none of them is under way
/// any more: what took no effect until then takes none later.
pub struct QueuePair {
    link: Link,
    shared: Arc<Shared>,
    name: Box<str>,
    identity: LinkIdentity,
    /// Memory to share with a node of this machine.
    shared_len: usize,
    volume: OpenVolume,
    silence: Silence,
    /// Set once the connection is gone.
    lost: Option<Lost>,
    /// What was in flight then and was not polled yet.
    orphans: Vec<Completion>,
    /// Refused for their epoch, which had no effect: to be submitted again with the current one.
    stale: Vec<BufferId>,
    is_refreshing: bool,
    /// The last poll brought more than one completion.
    is_in_burst: bool,
    /// The last poll left completions for the next one, perhaps.
    has_more: bool,
    /// Posted since the doorbell was last rung.
    unsent: u32,
}

impl QueuePair {
    pub(super) fn connect(
        shared: Arc<Shared>,
        name: &str,
        options: QueueOptions,
    ) -> Result<Self, Error> {
        Self::connect_as(LinkIdentity::draw()?, shared, name, options)
    }

    fn connect_as(
        identity: LinkIdentity,
        shared: Arc<Shared>,
        name: &str,
        options: QueueOptions,
    ) -> Result<Self, Error> {
        let slots = Slots::new(options.depth.clamp(1, DEPTH_MAX));
        let shared_len = options.shared_len;
        let mut link = Link::connect(&shared, identity, slots, shared_len)?;
        // Tokens' indices stay below this, also over later connections.
        let depth = link.slots().depth().min(link.credits_max()).max(1);
        *link.slots_mut() = Slots::new(depth);
        let volume = link.open(&shared, name)?;
        Ok(Self {
            link,
            name: name.into(),
            identity,
            shared_len,
            volume,
            silence: Silence::new(shared.options.silence_max),
            shared,
            lost: None,
            orphans: Vec::new(),
            stale: Vec::new(),
            is_refreshing: false,
            is_in_burst: false,
            has_more: false,
            unsent: 0,
        })
    }

    /// The volume's size and properties, as of the last answer.
    pub fn info(&self) -> VolumeInfo {
        let OpenVolume { bytes, block_size, epoch, uuid, rights, .. } = self.volume;
        let (is_readable, is_writable) = (rights.has(Rights::READ), rights.has(Rights::WRITE));
        VolumeInfo { len: bytes, block_size, uuid, epoch, is_readable, is_writable }
    }

    /// How many operations may be in flight.
    pub fn depth(&self) -> u32 {
        self.link.slots().depth().min(self.link.credits_max())
    }

    /// How many are: posted, and their completion not polled.
    pub fn in_flight(&self) -> u32 {
        let orphans = u32::try_from(self.orphans.len()).expect("at most DEPTH_MAX");
        self.link.slots().in_flight() + orphans
    }

    /// Whether the connection was lost, and [`Self::reconnect`] is needed.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The longest operation, in bytes.
    pub fn len_max(&self) -> u32 {
        self.link.len_max()
    }

    /// A buffer of `len` bytes where the node reaches it best.
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

    /// Sends what was posted. Posting does so by itself when nothing else is in flight and the last
    /// poll brought one completion at most, and so does [`Self::poll`]: many posts between two polls
    /// are sent together. So are those between polls of completions that came together, up to half of what
    /// is in flight: one post for each completion costs no call of its own.
    ///
    /// # Errors
    /// When the connection is lost; [`Self::poll`] tells what became of the operations.
    pub fn submit(&mut self) -> Result<(), Error> {
        if self.lost.is_none() {
            self.ring_doorbell();
        }
        self.lost.map_or(Ok(()), |lost| Err(Error::ConnectionLost(lost)))
    }

    /// Sends what was posted, takes what was answered and appends what is over to `completions`;
    /// how many those are. Never waits.
    ///
    /// # Errors
    /// When the connection is lost and all that was in flight has completed.
    #[inline]
    pub fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<usize, Error> {
        self.poll_up_to(completions, usize::MAX)
    }

    /// The same, but for `most` completions at most; those left are for the next poll. For who posts
    /// again for each completion, and polls half of what is in flight at a time: so the node works on
    /// one half while this side works on the other, where otherwise each waits for the other's.
    ///
    /// # Errors
    /// As of [`Self::poll`].
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

    /// One turn; whether anything moved. That the connection is lost is noted.
    #[inline]
    pub(super) fn turn(&mut self, completions: &mut Vec<Completion>, most: usize) -> bool {
        if self.has_more && self.hand_over_rest(completions, most) {
            return true;
        }
        self.unsent = 0;
        let moved = self.link.turn();
        // Of a connection that is lost nothing is left for later: how it ended is known now.
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
        moved.unwrap_or(true)
    }

    /// Completions that earlier turns have received come first, without a call to the system, so that what
    /// is posted for each of them leaves in one call too. Not in fewer than two, so that the node has work
    /// meanwhile. Whether there were any. Shared memory needs no calls to be saved.
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
            return self.became_stale(slot);
        }
        let Slot { token, buffer, .. } = self.link.slots_mut().empty(slot);
        let result = match done.status {
            status if status.is_ok() => Ok(done.value),
            status => Err(Error::Status(status)),
        };
        completions.push(Completion { token: Token(token), result, buffer });
    }

    /// The volume's layout changed, and this had no effect: the new one is asked for.
    #[cold]
    fn became_stale(&mut self, slot: BufferId) {
        self.stale.push(slot);
        if !self.is_refreshing {
            // A session that is gone is noticed by the next turn.
            self.is_refreshing = self.link.refresh(self.volume.handle).is_ok();
        }
    }

    #[inline]
    fn handle_events(&mut self) {
        while let Some(event) = self.link.poll_event() {
            if let ClientEvent::Opened { result, .. } = event {
                self.is_refreshing = false;
                match result {
                    Ok(volume) => self.volume = volume,
                    Err(status) => self.end_stale(&Error::Status(status)),
                }
            }
        }
        if !self.stale.is_empty() && !self.is_refreshing {
            self.submit_stale();
        }
    }

    /// Those for which there is no credit now are left for later.
    #[cold]
    fn submit_stale(&mut self) {
        let handle = self.volume.handle;
        while let Some(slot) = self.stale.pop() {
            if self.link.submit(handle, slot).is_err() {
                self.stale.push(slot);
                return;
            }
        }
        self.ring_doorbell();
    }

    #[cold]
    fn end_stale(&mut self, error: &Error) {
        for slot in std::mem::take(&mut self.stale) {
            let Slot { token, buffer, .. } = self.link.slots_mut().empty(slot);
            let result = Err(error.clone());
            self.orphans.push(Completion { token: Token(token), result, buffer });
        }
    }

    /// A node that owes an answer and says nothing is asked whether it is there, and then given up.
    #[inline]
    fn look_at_clock(&mut self) {
        if self.silence.is_ping_due() {
            self.link.ping();
            self.ring_doorbell();
        }
        if let Some(seconds) = self.silence.is_over() {
            self.lose(Lost::Silent { seconds });
        }
    }

    /// The connection is gone, and everything in flight is over.
    #[cold]
    fn lose(&mut self, lost: Lost) {
        self.lost = Some(lost);
        self.is_refreshing = false;
        self.end_stale(&Error::ConnectionLost(lost));
        for slot in self.link.give_up() {
            let result = Err(match slot.changes_volume() {
                true => Error::Unknown(lost),
                false => Error::ConnectionLost(lost),
            });
            self.orphans.push(Completion { token: Token(slot.token), result, buffer: slot.buffer });
        }
    }

    /// Sends what was posted and sleeps until there may be something to poll, `timeout` at most.
    /// For a caller that has spun for as long as it pays. Whether there may be something.
    ///
    /// # Errors
    /// When the connection is lost and all that was in flight has completed.
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
            _ => timeout.min(self.silence.left()),
        };
        let has_something = self.link.wait(span);
        if self.link.slots().in_flight() > 0 {
            self.look_at_clock();
        }
        match has_something {
            Ok(has_something) => has_something || self.lost.is_some(),
            Err(lost) => {
                self.lose(lost);
                true
            }
        }
    }

    /// Gets ready for who waits by other means than [`Self::wait`], as on many queue pairs at once:
    /// sends what was posted, and says whether there is nothing to poll. Only then may one sleep, until
    /// [`Self::socket`] or [`Self::bell`] is ready. [`Self::awake`] follows in any case.
    pub fn doze(&mut self) -> bool {
        // What became of a connection that is lost, the next poll tells.
        let is_whole = self.submit().is_ok();
        let is_idle = is_whole && !self.has_more && self.orphans.is_empty();
        self.link.doze() && is_idle
    }

    /// Sleep after [`Self::doze`] is over.
    pub fn awake(&mut self) {
        self.link.awake();
    }

    /// What becomes readable when answers come by shared memory, between [`Self::doze`] and
    /// [`Self::awake`]; `None` without shared memory.
    pub fn bell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.link.bell()
    }

    /// What becomes readable when there may be something to poll, for whoever waits by other means
    /// than [`Self::wait`]. With shared memory answers come there, and [`Self::bell`] tells of them.
    /// Another after a reconnect.
    pub fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.link.socket()
    }

    /// Whether something is to be sent that the socket did not take.
    pub fn has_unsent(&self) -> bool {
        self.link.has_unsent()
    }

    /// When to poll at the latest, so that a silent node is noticed; `None` when nothing is in flight.
    pub fn patience_left(&self) -> Option<Duration> {
        (self.link.slots().in_flight() > 0).then(|| self.silence.left())
    }
}

fn no_memory(len: usize) -> Error {
    Error::NoMemory { len: u64::try_from(len).expect("usize is at most 64 bits wide") }
}

/// Its volume and what is in flight: contents are the application's.
impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("url", &self.shared.url.to_string())
            .field("volume", &self.name)
            .field("in_flight", &self.in_flight())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}
