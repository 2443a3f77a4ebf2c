//! The state that all requests share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::calling::Calls;

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) calls: Calls,
    /// Counts changes of the node.
    pub(crate) changes: watch::Receiver<u64>,
    /// True once the node ends.
    pub(crate) ending: watch::Receiver<bool>,
    /// Streams of events that may still begin.
    pub(crate) streams: Arc<Semaphore>,
}
