//! Credentials and grants that end by themselves: a thread that waits for the next to end, and
//! then shows the cores what is left.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::{Node, Served, now};
use crate::exports::direct_access;

/// Longest wait: the calendar may be set, which no waiting thread is told.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long the node's end waits for the thread's.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The thread that watches for what expires, until stopped.
pub(crate) struct ExpiryWatch {
    node: Arc<Node>,
    thread: JoinHandle<()>,
}

impl ExpiryWatch {
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        let watched = Arc::clone(&node);
        let thread = Builder::new().name("expiry".to_owned()).spawn(move || watched.watch())?;
        Ok(Self { node, thread })
    }

    /// Ends the thread. What it is telling the cores, it tells to the end; but a core that hangs is
    /// not waited for without end.
    pub(crate) fn stop(self) {
        self.node.served().is_ending = true;
        self.node.changed.notify_all();
        let deadline = Instant::now() + STOP_PATIENCE;
        while !self.thread.is_finished() {
            if Instant::now() > deadline {
                return tracing::warn!("what has expired is still being told to the cores");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches for what expires had panicked");
        }
    }
}

impl Node {
    fn watch(&self) {
        loop {
            if self.health.is_due() {
                self.save_health(true);
            }
            self.expire();
            let served = self.served();
            if served.is_ending {
                return;
            }
            let wait = wait_for(&served);
            // Whether by a change or by the clock: all is looked at anew.
            drop(self.changed.wait_timeout(served, wait).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Shows the cores what is left, if anything has ended since they were told.
    fn expire(&self) {
        let _one = self.one_change();
        let direct = {
            let served = self.served();
            let direct = direct_access(&served.recorded, now());
            if direct == *served.direct {
                return;
            }
            Arc::new(direct)
        };
        tracing::info!("a credential or a grant has expired");
        // Nobody is told when what expired has no effect any more, so that nobody waits for it.
        let _ = self.runtime.publish_direct(Arc::clone(&direct));
        self.served().direct = direct;
    }
}

/// Until when nothing ends.
fn wait_for(served: &Served) -> Duration {
    let next = served.recorded.grants.next_expiry(now());
    let at = next.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at.0)));
    let left = at.and_then(|at| at.duration_since(SystemTime::now()).ok());
    left.map_or(WAIT_MAX, |left| left.min(WAIT_MAX))
}
