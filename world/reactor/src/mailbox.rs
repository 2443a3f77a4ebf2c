//! Messages between cores: each core has a bounded queue, and an eventfd that wakes it when it
//! sleeps.
//!
//! The owner announces its sleep; a sender pays for a wake-up only then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};

use crate::asleep::Asleep;

/// The capacity of a mailbox. A sender that finds it full keeps its message and tries again in its
/// next turn.
const MESSAGES_MAX: usize = 4096;

#[derive(Debug)]
struct Shared<M> {
    queue: ArrayQueue<M>,
    asleep: Asleep,
    wake: OwnedFd,
}

/// The receiving end, which the core owns.
#[derive(Debug)]
pub(crate) struct Mailbox<M>(Arc<Shared<M>>);

/// The sending end, for every other thread.
#[derive(Debug)]
pub struct Sender<M>(Arc<Shared<M>>);

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Mailbox<M> {
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let queue = ArrayQueue::new(MESSAGES_MAX);
        Ok(Self(Arc::new(Shared { queue, asleep: Asleep::new(), wake })))
    }

    pub(crate) fn sender(&self) -> Sender<M> {
        Sender(Arc::clone(&self.0))
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<M> {
        self.0.queue.pop()
    }

    /// A descriptor that becomes readable when a message arrives while the owner sleeps.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// Announces that the owner is about to sleep; `false` when a message is already queued.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.0.asleep.begin();
        self.0.queue.is_empty()
    }

    pub(crate) fn end_sleep(&self) {
        self.0.asleep.end();
    }

    /// Clears the wake-up.
    pub(crate) fn clear_wake(&self) {
        // An empty counter is not an error: the wake-up was for an earlier sleep.
        let _ = rustix::io::read(&self.0.wake, &mut [0u8; 8]);
    }
}

impl<M> Sender<M> {
    /// Sends a message, or returns it when the queue is full.
    ///
    /// # Errors
    /// The message, when the queue is full.
    pub fn send(&self, message: M) -> Result<(), M> {
        self.0.queue.push(message)?;
        if self.0.asleep.take() {
            // This fails only when the counter is at its maximum, and then a wake-up is pending
            // anyway.
            let _ = rustix::io::write(&self.0.wake, &1u64.to_le_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_sent_while_the_owner_sleeps_wakes_it_once() {
        let mailbox = Mailbox::new().unwrap();
        let sender = mailbox.sender();
        assert!(mailbox.begin_sleep());
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let mut wakes = [0; 8];
        assert_eq!(rustix::io::read(mailbox.wake_fd(), &mut wakes).unwrap(), 8);
        assert_eq!(u64::from_le_bytes(wakes), 1);
        assert_eq!((mailbox.take(), mailbox.take(), mailbox.take()), (Some(1), Some(2), None));
    }

    #[test]
    fn an_owner_with_a_message_does_not_sleep() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.sender().send(1).unwrap();
        assert!(!mailbox.begin_sleep());
    }

    #[test]
    fn a_full_mailbox_hands_the_message_back() {
        let mailbox = Mailbox::new().unwrap();
        let sender = mailbox.sender();
        for n in 0..MESSAGES_MAX {
            sender.send(n).unwrap();
        }
        assert_eq!(sender.send(9), Err(9));
    }
}
