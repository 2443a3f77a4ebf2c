//! The condition of a change: the generation on which its caller decided (`If-Match`, `if_generation`).
//!
//! A change checks it under the lock that serializes changes, so nothing can come between the check and
//! the change. The condition belongs to the call, which one thread executes from its begin to its end,
//! and every change would have to pass it on; therefore the thread keeps it.

use std::cell::Cell;

use nearflash_planner::Refusal;

use super::Node;
use crate::error::NodeError;

thread_local! {
    /// The condition of the call that this thread executes.
    static EXPECTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Ends the condition with the call, also if the call panics.
struct Ended(Option<u64>);

impl Drop for Ended {
    fn drop(&mut self) {
        EXPECTED.set(self.0);
    }
}

/// Executes a call under a condition.
pub(super) fn under<T>(expected: Option<u64>, call: impl FnOnce() -> T) -> T {
    let _ended = Ended(EXPECTED.replace(expected));
    call()
}

/// Refuses a condition for a change that the store of the cluster decides, since the generation is that
/// of the node's catalog.
pub(super) fn check_absent() -> Result<(), Refusal> {
    match EXPECTED.get() {
        None => Ok(()),
        Some(_) => Err(Refusal::NoGeneration),
    }
}

impl Node {
    /// Checks the condition of the call that this thread executes.
    pub(super) fn check_condition(&self) -> Result<(), NodeError> {
        let found = self.served().recorded.generation;
        match EXPECTED.get() {
            Some(expected) if expected != found => {
                Err(Refusal::Overtaken { expected, found }.into())
            }
            _ => Ok(()),
        }
    }
}
