//! The numbers of this crate's operations.
//!
//! Invariant: a slot is used by one operation after the other, and each use has another generation, so
//! that a late completion matches nothing.

use nearflash_device::OperationId;
use nearflash_units::index;

use crate::OPERATIONS;

/// The generations of the slots of one slab.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<u16>);

impl Slots {
    /// The id of an operation of the slot's present use.
    pub(crate) fn id(&mut self, slot: usize, op: u16) -> OperationId {
        if slot >= self.0.len() {
            self.0.resize(slot + 1, 0);
        }
        let io = u32::try_from(slot).ok().and_then(|slot| OPERATIONS.checked_add(slot));
        let io = io.expect("operations under way are bounded by the pool");
        OperationId { io, op, generation: self.0[slot] }
    }

    /// The slot of an operation, if it is of the slot's present use.
    pub(crate) fn slot_of(&self, id: OperationId) -> Option<usize> {
        let slot = index(id.io.checked_sub(OPERATIONS)?);
        (*self.0.get(slot)? == id.generation).then_some(slot)
    }

    /// The use of the slot has ended.
    pub(crate) fn end(&mut self, slot: usize) {
        self.0[slot] = self.0[slot].wrapping_add(1);
    }
}
