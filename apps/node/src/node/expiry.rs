//! Credentials and grants that end by themselves: a thread that waits for the next to end, and
//! then shows the cores what is left.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime};

use nearflash_space::UnixTime;

use super::{Node, Served, now};
use crate::exports::direct_access;

/// Longest wait: the calendar may be set, which no waiting thread is told.
const WAIT_MAX: Duration = Duration::from_secs(10);

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

    /// Ends the thread. What it is telling the cores, it tells to the end.
    pub(crate) fn stop(self) {
        self.node.served().is_ending = true;
        self.node.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches for what expires had panicked");
        }
    }
}

impl Node {
    fn watch(&self) {
        let mut served = self.served();
        while !served.is_ending {
            self.expire(&mut served, now());
            let wait = wait_for(&served);
            let waited = self.changed.wait_timeout(served, wait);
            served = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Shows the cores what is left, if anything has ended since they were told.
    fn expire(&self, served: &mut Served, now: UnixTime) {
        let direct = Arc::new(direct_access(&served.space, &served.grants, now));
        if direct != served.direct {
            tracing::info!("a credential or a grant has expired");
            self.runtime.publish_direct(Arc::clone(&direct));
            served.direct = direct;
        }
    }
}

/// Until when nothing ends.
fn wait_for(served: &Served) -> Duration {
    let next = served.grants.next_expiry(now());
    let at = next.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at.0)));
    let left = at.and_then(|at| at.duration_since(SystemTime::now()).ok());
    left.map_or(WAIT_MAX, |left| left.min(WAIT_MAX))
}
