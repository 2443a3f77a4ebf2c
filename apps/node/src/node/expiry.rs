//! The expiry of credentials and grants: a thread waits for the next one to expire, and then
//! publishes the remaining access to the cores. It also removes the replaced keys of hosts once they are not valid
//! any more.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use super::{Node, Served, now};
use crate::crew::Crew;

/// The longest wait: the system's clock may be set, and a waiting thread is not notified of that.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The time for which the end of the node waits for the thread.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The thread that watches for expiry, until stopped.
pub(crate) struct ExpiryWatch {
    node: Arc<Node>,
    crew: Crew,
}

impl ExpiryWatch {
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        let (watched, mut crew) = (Arc::clone(&node), Crew::new());
        crew.start("expiry", move || watched.watch())?;
        Ok(Self { node, crew })
    }

    /// Stops the thread. A publication that is under way is finished, but the wait is bounded,
    /// since a core may hang.
    pub(crate) fn stop(self) {
        self.node.served().is_ending = true;
        self.node.changed.notify_all();
        if !self.crew.join(STOP_PATIENCE) {
            tracing::warn!("an expiry is still being published to the cores");
        }
    }
}

impl Node {
    fn watch(&self) {
        loop {
            if self.health.is_due() {
                self.save_health(true);
            }
            nearflash_journal::refusals::write_due(false);
            nearflash_journal::events::report_faults();
            self.expire();
            self.forget_previous_keys();
            let served = self.served();
            if served.is_ending {
                return;
            }
            let wait = wait_for(&served);
            // The state is read again, whether a change or the clock ended the wait.
            drop(self.changed.wait_timeout(served, wait).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Publishes the remaining access to the cores, if anything has expired since the last
    /// publication.
    fn expire(&self) {
        let one = self.one_change();
        let (mut next, now) = (self.next(), now());
        {
            let mut served = self.served();
            if !served.recorded.expire_between(served.shown_at, now) {
                return;
            }
            next.follow_clients(&served.recorded, now);
            served.shown_at = now;
        }
        tracing::info!("a credential or a grant has expired");
        let ticket = self.cores.serve(next, Vec::new(), Vec::new());
        drop(one);
        // No request reports an expiry, so nobody is told if a core does not answer.
        let _ = self.wait_for(&ticket);
        self.end_earlier_rights_on_files();
    }
}

/// The time until the next expiry, at most [`WAIT_MAX`].
fn wait_for(served: &Served) -> Duration {
    let now = now();
    let of_grants = served.recorded.grants.next_expiry(now);
    // A replaced key that could not be removed is tried again after the longest wait.
    let of_keys = served.recorded.hosts.next_expiry().filter(|at| *at > now);
    let next = of_grants.into_iter().chain(of_keys).min();
    let at = next.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at.0)));
    let left = at.and_then(|at| at.duration_since(SystemTime::now()).ok());
    left.map_or(WAIT_MAX, |left| left.min(WAIT_MAX))
}
