//! Threads that end together, and whose end is awaited for a bounded time: a device or a core may
//! hang.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Threads with one task.
pub(crate) struct Crew {
    threads: Vec<JoinHandle<()>>,
    /// Each thread has a clone until its end. Nothing is sent.
    alive: Sender<Infallible>,
    ended: Receiver<Infallible>,
}

impl Default for Crew {
    fn default() -> Self {
        Self::new()
    }
}

impl Crew {
    /// No threads yet.
    pub(crate) fn new() -> Self {
        let (alive, ended) = channel();
        Self { threads: Vec::new(), alive, ended }
    }

    /// Starts a thread.
    pub(crate) fn start(
        &mut self,
        name: impl Into<String>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let alive = self.alive.clone();
        let run = move || {
            let _alive = alive;
            work();
        };
        self.threads.push(Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }

    /// Waits until all threads have ended, for at most `patience`. Returns whether they have.
    pub(crate) fn join(self, patience: Duration) -> bool {
        let Self { threads, alive, ended } = self;
        drop(alive);
        if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        for thread in threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!("the thread {name} has panicked");
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_is_awaited_for_a_bounded_time() {
        let (open, gate) = channel::<()>();
        let mut crew = Crew::new();
        crew.start("hangs", move || assert!(gate.recv().is_err())).unwrap();
        crew.start("ends", || {}).unwrap();
        assert!(!crew.join(Duration::from_millis(1)));
        drop(open);
    }

    #[test]
    fn threads_that_end_or_panic_are_joined() {
        let mut crew = Crew::new();
        crew.start("ends", || {}).unwrap();
        crew.start("panics", || panic!("for the test")).unwrap();
        assert!(crew.join(Duration::from_secs(60)));
        assert!(Crew::new().join(Duration::ZERO), "no thread has ended, since there is none");
    }
}
