//! The client's side of operations: the time until they are handed over, and since they have come back.

use nearflash_units::Nanos;

use crate::engine::Slot;
use crate::recorder::SideTimes;

/// Measures the client's side of the operations of one job.
pub(super) struct Sides {
    /// Operations that the engine has not handed over yet.
    queued: Vec<Slot>,
    /// When each operation was handed over, by slot.
    handed_over_at: Vec<Nanos>,
    /// The start of the poll that found the latest completions.
    polled_at: Nanos,
}

impl Sides {
    pub(super) fn new(depth: usize) -> Self {
        let (queued, handed_over_at) = (Vec::with_capacity(depth), vec![Nanos(0); depth]);
        Self { queued, handed_over_at, polled_at: Nanos(0) }
    }

    /// The engine has got an operation.
    pub(super) fn queue(&mut self, slot: Slot) {
        self.queued.push(slot);
    }

    /// Whether the engine has operations that it has not handed over.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// The engine has handed over all operations.
    pub(super) fn handed_over(&mut self, now: Nanos) {
        for slot in self.queued.drain(..) {
            self.handed_over_at[slot] = now;
        }
    }

    /// A poll begins.
    pub(super) fn poll(&mut self, now: Nanos) {
        self.polled_at = now;
    }

    /// The times of an operation that was to begin at that time and is counted now.
    pub(super) fn of(&self, slot: Slot, intended_at: Nanos, now: Nanos) -> SideTimes {
        let handed_over_at = self.handed_over_at[slot];
        SideTimes {
            ops: 1,
            submission: handed_over_at.since(intended_at),
            // An answer can come in the poll that hands the operation over.
            round_trip: self.polled_at.since(handed_over_at),
            completion: now.since(self.polled_at.max(handed_over_at)),
        }
    }
}
