//! The remote devices that a table does not name any more.
//!
//! A replica that was dropped is left at once. The answers of an earlier primary may be on their way: one
//! that has stopped for a handover refuses what it gets, so that the operation goes to the next one, and
//! what it has done it has answered before that. So it is left a moment later, unless it has become the
//! primary again.
//!
//! The other nodes of a mirror that is gone end its requests when they hear of it, too. Until then, its
//! faces are not left, because the connections that they share with other mirrors would be closed.

use nearflash_device::DeviceId;
use nearflash_units::Nanos;

use super::Mirrors;
use crate::table::{MirrorId, MirrorTable};

/// The time for which answers of an earlier primary are waited for.
const ANSWERS: Nanos = Nanos::from_millis(5);

/// The time for which answers of the other nodes of a mirror that is gone are waited for.
const LAST_ANSWERS: Nanos = Nanos::from_secs(2);

/// A face of a mirror that is left later: that of an earlier primary, or any face of one that is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    mirror: MirrorId,
    device: DeviceId,
    until: Nanos,
}

impl Mirrors {
    /// Leaves the remote devices that only the table before this one names.
    pub(super) fn leave_faces(&mut self, before: &MirrorTable) {
        for (mirror, old) in before.entries() {
            let Some(new) = self.table.entry(mirror) else {
                let until = self.now.plus(LAST_ANSWERS);
                let faces = old.primary.into_iter().chain(old.remote.map(|remote| remote.device));
                self.formers.extend(faces.map(|device| Former { mirror, device, until }));
                continue;
            };
            let until = self.now.plus(ANSWERS);
            let remote = old.remote.filter(|old| new.remote != Some(*old));
            let primary = old.primary.filter(|old| new.primary != Some(*old));
            self.abandoned.extend(remote.map(|remote| remote.device));
            self.formers.extend(primary.map(|device| Former { mirror, device, until }));
        }
    }

    /// Leaves the faces whose time is over.
    pub(super) fn look_at_formers(&mut self) {
        let Self { formers, abandoned, table, now, .. } = self;
        for Former { mirror, device, .. } in formers.extract_if(.., |it| it.until <= *now) {
            let entry = table.entry(mirror);
            let is_used = entry.is_some_and(|entry| {
                let remote = entry.remote.map(|remote| remote.device);
                entry.primary == Some(device) || remote == Some(device)
            });
            if !is_used {
                abandoned.push_back(device);
            }
        }
        let next = self.formers.iter().map(|former| former.until);
        self.look_at = self.look_at.into_iter().chain(next).min();
    }
}
