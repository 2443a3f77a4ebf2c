//! Whether the owner of a mailbox sleeps, so that a sender pays for a wake-up only then.
//!
//! The owner announces that it sleeps, and then checks its queue once more; a sender queues its
//! message, and then checks whether the owner sleeps. All four steps are sequentially consistent,
//! so at least one of the two sees the other: no message waits for an owner that sleeps.
//! `scripts/loom` checks every interleaving.

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

    /// Announces that the owner is about to sleep; it checks its queue after this. This is an
    /// exchange and not a store, so that an exchange after a sender's sees the sender's message.
    pub(crate) fn begin(&self) {
        self.0.swap(true, Ordering::SeqCst);
    }

    /// Announces that the owner is awake.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether the caller must wake the owner. The caller has queued a message before this.
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

    /// The queue as the owner's last check sees it: the counter that a push advances, with the
    /// memory order of `ArrayQueue`'s tail.
    struct Mailbox {
        queued: AtomicUsize,
        asleep: Asleep,
        /// It keeps a wake-up, as an eventfd does.
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

        /// Sleeps until messages come; a lost wake-up is a deadlock, which the model detects.
        fn receive(&self, count: usize) {
            loop {
                // Every queued message has been taken.
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
