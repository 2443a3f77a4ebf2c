//! A node that joins its cluster while it serves volumes of its own: the cluster's store was away when
//! it started.
//!
//! The order is that of any start: the store answers, the node registers, each slice is checked against
//! the store, its new incarnation begins, the store is told of it, and then its blocks are used. Until
//! then, the slices are locked and unchanged. If a step is refused, the node leaves the cluster, so that
//! it counts as down there, and goes on with its own volumes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nearflash_media::{HeldSlice, Slice};

use crate::cluster::{Absence, ChangeError};
use crate::clustered::{Enrolled, REPORT_EVERY, register};
use crate::node::Node;
use crate::start_error::StartError;

/// The time between two attempts, and within which the end of the node is noticed.
const POLL: Duration = Duration::from_millis(100);

/// A change is sent until it is answered, or the follower stops.
const UNTIL_ANSWERED: Duration = Duration::from_secs(u64::MAX);

/// A node that waits for its cluster's store.
pub(crate) struct Joining {
    enrolled: Enrolled,
    node: Arc<Node>,
    held: Vec<HeldSlice>,
}

impl Joining {
    pub(crate) fn new(enrolled: Enrolled, node: Arc<Node>, held: Vec<HeldSlice>) -> Self {
        Self { enrolled, node, held }
    }

    fn run(self) {
        let (follower, receiver) =
            (Arc::clone(&self.enrolled.follower), Arc::clone(&self.enrolled.receiver));
        let name = self.enrolled.spec.name.clone();
        match self.join() {
            Ok(()) => {
                follower.set_absence(None);
                tracing::info!("the node has joined its cluster, and serves its volumes");
            }
            Err(StartError::Change(ChangeError::Stopped)) => {}
            Err(error) => {
                tracing::error!("the node does not join its cluster: {error}");
                let failure = Some(format!("{error}; then restart the node"));
                follower.set_absence(Some(Absence { node: name, failure }));
                receiver.stop(&follower);
            }
        }
    }

    fn join(self) -> Result<(), StartError> {
        let Self { enrolled, node, held } = self;
        wait_for_store(&enrolled)?;
        let ordinal = not_busy(|| register(&enrolled.follower, &enrolled.spec, UNTIL_ANSWERED))?;
        if ordinal != enrolled.ordinal {
            let (served, found) = (enrolled.ordinal, ordinal);
            return Err(StartError::NumberChanged { served, found });
        }
        enrolled.check_access(&node.copy())?;
        for slice in &held {
            let found = (slice.superblock(), slice.notes());
            enrolled.check(slice.device().name(), slice.uuid(), found)?;
        }
        let slices: Vec<Slice> =
            held.into_iter().map(HeldSlice::begin).collect::<Result<_, _>>()?;
        not_busy(|| enrolled.serve(&node, &slices, UNTIL_ANSWERED))
    }
}

/// Starts the thread of a node that joins.
///
/// # Errors
/// When the system has no thread.
pub(crate) fn start(joining: Joining) -> Result<JoinHandle<()>, StartError> {
    let node = joining.enrolled.spec.name.clone();
    joining.enrolled.follower.set_absence(Some(Absence { node, failure: None }));
    let thread = Builder::new().name("cluster-join".to_owned()).spawn(|| joining.run());
    thread.map_err(|source| StartError::System { action: "start a thread", source })
}

/// Waits until the store has been read, or the node ends.
fn wait_for_store(enrolled: &Enrolled) -> Result<(), ChangeError> {
    let mut reported = Instant::now();
    while !enrolled.follower.wait_until_read(POLL) {
        if enrolled.receiver.is_over.load(Ordering::SeqCst) {
            return Err(ChangeError::Stopped);
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            tracing::info!("waiting for etcd: the volumes of the cluster are not served here yet");
        }
    }
    Ok(())
}

/// Repeats a change while others wait: calls of the control socket, which may have come before it.
fn not_busy<T>(change: impl Fn() -> Result<T, StartError>) -> Result<T, StartError> {
    loop {
        match change() {
            Err(StartError::Change(ChangeError::Busy)) => std::thread::sleep(POLL),
            outcome => return outcome,
        }
    }
}
