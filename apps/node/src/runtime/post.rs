//! The control side's messages to the cores, whose mailboxes are bounded.
//!
//! [`Post::send`] does not give up while the node serves, because no message may be lost:
//!
//! - A table (`Volumes`, `Exports`, `Direct`, `Iscsi`) belongs to a change that is recorded already.
//!   A core that missed it would serve volumes, rights and reservations that are no longer in force,
//!   and nothing would correct it before the next change.
//! - An answer (`Changed`) ends a command of a session, and its place among the pending changes of
//!   the volume. Nothing else ends them.
//! - `Raise` aborts the commands that a reset or a preemption ends. If it were lost, the change
//!   would be answered while they still run.
//! - `Quiesce` ends the ticket of a change. If it were lost, space that the change has freed would
//!   remain reserved until the node restarts.
//!
//! Instead, the work that can queue behind a message is bounded. A core that takes no message for
//! [`PATIENCE`](super::replies::PATIENCE) counts as silent. Calls of the control socket that wait for
//! the lock of changes then fail without effect and name the core, and so do new ones. The message
//! itself delays one thread: the one that makes the change, an expiry or an answer. Reservations of
//! sessions queue behind it within the bound of each volume (`CHANGES_PER_VOLUME_MAX`).
//!
//! `Drain` and `Stop` are the exception: they are given up, since the process ends anyway.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearflash_reactor::Sender;
use tracing::error;

/// How long a full mailbox is left alone. A core empties its mailbox in each turn, so a mailbox is
/// full for microseconds as a rule.
const FULL_PAUSE: Duration = Duration::from_micros(100);

/// A bounded mailbox.
pub(super) trait Mailbox<M> {
    /// Puts a message in, or returns it because the mailbox is full.
    fn put(&self, message: M) -> Result<(), M>;
}

impl<M> Mailbox<M> for Sender<M> {
    fn put(&self, message: M) -> Result<(), M> {
        self.send(message)
    }
}

#[derive(Debug)]
struct Addressee<B> {
    mailbox: B,
    /// The core's processor, which names it.
    processor: usize,
    /// The messages that have waited for room for longer than the patience.
    late: AtomicUsize,
}

/// The mailboxes of all cores, in order.
#[derive(Debug)]
pub(super) struct Post<B> {
    addressees: Vec<Addressee<B>>,
    /// After this time without room in its mailbox, a core is silent.
    patience: Duration,
}

impl<B> Post<B> {
    pub(super) fn new(mailboxes: Vec<B>, processors: &[usize], patience: Duration) -> Self {
        let addressee = |(mailbox, processor): (B, &usize)| Addressee {
            mailbox,
            processor: *processor,
            late: AtomicUsize::new(0),
        };
        Self {
            addressees: mailboxes.into_iter().zip(processors).map(addressee).collect(),
            patience,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.addressees.len()
    }

    /// The processor of a core that has taken no message for longer than the patience.
    pub(super) fn silent(&self) -> Option<usize> {
        let is_silent = |core: &&Addressee<B>| core.late.load(Ordering::Acquire) > 0;
        self.addressees.iter().find(is_silent).map(|core| core.processor)
    }

    /// Sends a message to a core, however long that takes.
    pub(super) fn send<M>(&self, core: usize, message: M)
    where
        B: Mailbox<M>,
    {
        let to = &self.addressees[core];
        let Err(mut message) = to.mailbox.put(message) else { return };
        let mut complains_at = Instant::now() + self.patience;
        let mut is_late = false;
        while let Err(unsent) = to.mailbox.put(message) {
            message = unsent;
            if Instant::now() >= complains_at {
                if !is_late {
                    is_late = true;
                    to.late.fetch_add(1, Ordering::AcqRel);
                }
                error!(
                    "a change waits for the core on processor {}, which takes no messages: a device \
                     may hang",
                    to.processor
                );
                complains_at += self.patience;
            }
            thread::sleep(FULL_PAUSE);
        }
        if is_late {
            to.late.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Sends a message to every core, however long that takes. A core that takes none delays no
    /// other.
    pub(super) fn send_all<M>(&self, message: impl Fn() -> M)
    where
        B: Mailbox<M>,
    {
        for (core, unsent) in self.offer_all(message) {
            self.send(core, unsent);
        }
    }

    /// Sends a message to every core that has room for it before the deadline.
    pub(super) fn send_all_before<M>(&self, deadline: Instant, message: impl Fn() -> M)
    where
        B: Mailbox<M>,
    {
        let mut left = self.offer_all(message);
        while !left.is_empty() && Instant::now() < deadline {
            thread::sleep(FULL_PAUSE);
            let again = left.into_iter();
            let put = |(core, message)| Some((core, self.offer(core, message).err()?));
            left = again.filter_map(put).collect();
        }
    }

    /// Sends a message to a core, or returns it because the core has no room for it.
    pub(super) fn offer<M>(&self, core: usize, message: M) -> Result<(), M>
    where
        B: Mailbox<M>,
    {
        self.addressees[core].mailbox.put(message)
    }

    /// Sends a message to every core that has room. Returns those of the others.
    fn offer_all<M>(&self, message: impl Fn() -> M) -> Vec<(usize, M)>
    where
        B: Mailbox<M>,
    {
        let unsent = |core| Some((core, self.offer(core, message()).err()?));
        (0..self.len()).filter_map(unsent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A mailbox with room for one message.
    #[derive(Default)]
    struct Small(Mutex<Option<u32>>);

    impl Small {
        fn take(&self) -> Option<u32> {
            self.0.lock().unwrap().take()
        }
    }

    impl Mailbox<u32> for &Small {
        fn put(&self, message: u32) -> Result<(), u32> {
            let mut held = self.0.lock().unwrap();
            if held.is_some() {
                return Err(message);
            }
            *held = Some(message);
            Ok(())
        }
    }

    fn until(is_true: impl Fn() -> bool) {
        while !is_true() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_core_that_takes_no_messages_is_silent_until_it_takes_them_and_misses_none() {
        let small = [Small::default(), Small::default()];
        let post = Post::new(small.iter().collect(), &[4, 6], Duration::ZERO);
        post.send(1, 10);
        assert_eq!(post.silent(), None, "it was not late");
        thread::scope(|scope| {
            scope.spawn(|| post.send(1, 11));
            until(|| post.silent() == Some(6));
            assert_eq!(small[1].take(), Some(10));
            until(|| post.silent().is_none());
            assert_eq!(small[1].take(), Some(11));
        });
    }

    #[test]
    fn a_core_that_takes_no_messages_delays_those_of_no_other_core() {
        let small = [Small::default(), Small::default()];
        let post = Post::new(small.iter().collect(), &[0, 1], Duration::ZERO);
        post.send(0, 10);
        thread::scope(|scope| {
            scope.spawn(|| post.send_all(|| 11));
            until(|| small[1].take() == Some(11));
            assert_eq!(small[0].take(), Some(10));
            until(|| small[0].take() == Some(11));
        });
    }

    #[test]
    fn a_message_with_a_deadline_is_given_up() {
        let small = [Small::default(), Small::default()];
        let post = Post::new(small.iter().collect(), &[0, 1], Duration::ZERO);
        post.send(0, 10);
        post.send_all_before(Instant::now(), || 11);
        assert_eq!((small[0].take(), small[1].take()), (Some(10), Some(11)));
        assert_eq!(post.silent(), None);
    }
}
