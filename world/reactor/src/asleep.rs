//! Whether the owner of a mailbox sleeps, so that only then a sender pays for waking it.
//!
//! The owner says that it sleeps, and looks into its queue once more; a sender queues its message, and looks
//! whether the owner sleeps. Each of those four steps takes part in the one order of all such steps, so one of
//! the two sees the other: no message waits for an owner that sleeps. `scripts/loom` goes through every
//! interleaving.

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Asleep(AtomicBool);

impl Asleep {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The owner is about to sleep, and looks into its queue after this. An exchange and not a store: one
    /// that comes after a sender's sees the sender's message.
    pub(crate) fn begin(&self) {
        self.0.swap(true, Ordering::SeqCst);
    }

    /// The owner is awake.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether the owner is to be woken, by who asks. A message was queued before this.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::Asleep;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The queue as the owner's last look sees it: the counter that a push advances. Its order is that of
    /// `ArrayQueue`'s tail.
    struct Mailbox {
        queued: AtomicUsize,
        asleep: Asleep,
        /// As an eventfd, it keeps a wake-up.
        wake: Mutex<bool>,
        woken: Condvar,
    }

    impl Mailbox {
        fn send(&self) {
            self.queued.fetch_add(1, Ordering::SeqCst);
            if self.asleep.take() {
                *self.wake.lock().expect("nothing panics") = true;
                self.woken.notify_one();
            }
        }

        /// Sleeps until messages come; a lost wake-up is a deadlock, which the model finds.
        fn receive(&self, count: usize) {
            loop {
                // All that there is has been taken.
                let taken = self.queued.load(Ordering::SeqCst);
                if taken >= count {
                    return;
                }
                self.asleep.begin();
                if self.queued.load(Ordering::SeqCst) == taken {
                    let mut wake = self.wake.lock().expect("nothing panics");
                    while !std::mem::take(&mut *wake) {
                        wake = self.woken.wait(wake).expect("nothing panics");
                    }
                }
                self.asleep.end();
            }
        }
    }

    fn deliver(senders: usize, each: usize) {
        loom::model(move || {
            let mailbox = Arc::new(Mailbox {
                queued: AtomicUsize::new(0),
                asleep: Asleep::new(),
                wake: Mutex::new(false),
                woken: Condvar::new(),
            });
            let sending = (0..senders).map(|_| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || (0..each).for_each(|_| mailbox.send()))
            });
            let sending: Vec<_> = sending.collect();
            mailbox.receive(senders * each);
            for sender in sending {
                sender.join().expect("it has no panic");
            }
        });
    }

    #[test]
    fn loom_an_owner_that_sleeps_is_woken_by_every_first_message() {
        deliver(1, 2);
    }

    #[test]
    fn loom_two_senders_wake_the_owner_between_them() {
        deliver(2, 1);
    }
}
