//! The sealed objects that a connection has open, as many as it was used for lately.

use std::sync::Arc;

use nearflash_direct::Seal;

use super::handle::Handle;

/// The most objects of a connection. The node allows more handles.
const OBJECTS_MAX: usize = 256;

/// The objects of a connection.
#[derive(Debug, Default)]
pub(super) struct Objects {
    open: Vec<Open>,
    /// The number of lookups so far.
    lookups: u64,
}

#[derive(Debug)]
struct Open {
    /// Kept, so that no other seal has its address.
    seal: Arc<Seal>,
    handle: Handle,
    /// The number of the last lookup.
    used: u64,
}

impl Objects {
    pub(super) fn find(&mut self, seal: &Arc<Seal>) -> Option<Handle> {
        self.lookups += 1;
        let open = self.open.iter_mut().find(|open| Arc::ptr_eq(&open.seal, seal))?;
        open.used = self.lookups;
        Some(open.handle)
    }

    /// A seal was opened. Returns the handle of another one, which is to be closed, if there are too many.
    pub(super) fn add(&mut self, seal: &Arc<Seal>, handle: Handle) -> Option<Handle> {
        let oldest = (self.open.len() >= OBJECTS_MAX).then(|| {
            let oldest = self.open.iter().enumerate().min_by_key(|(_, open)| open.used);
            let (at, _) = oldest.expect("there are many");
            self.open.swap_remove(at).handle
        });
        self.open.push(Open { seal: Arc::clone(seal), handle, used: self.lookups });
        oldest
    }

    /// A seal is not open any more. Returns its handle.
    pub(super) fn remove(&mut self, seal: &Arc<Seal>) -> Option<Handle> {
        let at = self.open.iter().position(|open| Arc::ptr_eq(&open.seal, seal))?;
        Some(self.open.swap_remove(at).handle)
    }
}
