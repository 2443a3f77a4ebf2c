//! The remote devices that a table does not name any more.
//!
//! A replica that was dropped is left at once. The answers of an earlier primary may be on their way: one
//! that has stopped for a handover refuses what it gets, so that the operation goes to the next one, and
//! what it has done it has answered before that. So it is left a moment later, unless it has become the
//! primary again.

use nearflash_device::DeviceId;
use nearflash_units::Nanos;

use super::Mirrors;
use crate::table::{MirrorId, MirrorTable};

/// The time for which answers of an earlier primary are waited for.
const ANSWERS: Nanos = Nanos::from_millis(5);

/// The earlier primary of a mirror.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    mirror: MirrorId,
    device: DeviceId,
    until: Nanos,
}

impl Mirrors {
    /// Leaves the remote devices that only the table before this one names.
    pub(super) fn leave_faces(&mut self, before: &MirrorTable) {
        let until = self.now.plus(ANSWERS);
        for (mirror, old) in before.entries() {
            let new = self.table.entry(mirror);
            let remote = old.remote.filter(|old| new.and_then(|new| new.remote) != Some(*old));
            let primary = old.primary.filter(|old| new.and_then(|new| new.primary) != Some(*old));
            self.abandoned.extend(remote.map(|remote| remote.device));
            self.formers.extend(primary.map(|device| Former { mirror, device, until }));
        }
    }

    /// Leaves earlier primaries whose time is over.
    pub(super) fn look_at_formers(&mut self) {
        let Self { formers, abandoned, table, now, .. } = self;
        for Former { mirror, device, .. } in formers.extract_if(.., |it| it.until <= *now) {
            let primary = table.entry(mirror).and_then(|entry| entry.primary);
            if primary != Some(device) {
                abandoned.push_back(device);
            }
        }
        let next = self.formers.iter().map(|former| former.until);
        self.look_at = self.look_at.into_iter().chain(next).min();
    }
}
