//! The remote devices that a table does not name any more.
//!
//! A replica that was dropped is left at once. The answers of an earlier primary may be on their way: one
//! that has stopped for a handover refuses what it gets, so that the operation goes to the next one, and
//! what it has done it has answered before that. So it is left a moment later, unless it has become the
//! primary again.
//!
//! The other nodes of a mirror that is gone end its requests when they hear of it, too. Until then, its
//! faces are not left, because the connections that they share with other mirrors would be closed.

use std::collections::VecDeque;

use nearflash_device::DeviceId;
use nearflash_units::Nanos;

use crate::table::{MirrorId, MirrorTable, Remote};

/// The time for which answers of an earlier primary are waited for.
const ANSWERS: Nanos = Nanos::from_millis(5);

/// The time for which answers of the other nodes of a mirror that is gone are waited for.
const LAST_ANSWERS: Nanos = Nanos::from_secs(2);

/// A face of a mirror that is left later: that of an earlier primary, or any face of one that is gone.
#[derive(Clone, Copy, Debug)]
struct Former {
    mirror: MirrorId,
    device: DeviceId,
    until: Nanos,
}

/// The remote devices that are left.
#[derive(Debug, Default)]
pub(super) struct Faces {
    formers: Vec<Former>,
    /// Remote devices that are not needed any more.
    abandoned: VecDeque<DeviceId>,
}

impl Faces {
    /// The next remote device that is not needed any more.
    pub(super) fn poll_abandoned(&mut self) -> Option<DeviceId> {
        self.abandoned.pop_front()
    }

    /// Leaves the remote devices that only the table before this one names.
    pub(super) fn leave(&mut self, before: &MirrorTable, table: &MirrorTable, now: Nanos) {
        for (mirror, old) in before.entries() {
            let Some(new) = table.entry(mirror) else {
                let until = now.plus(LAST_ANSWERS);
                let remotes = old.remotes.iter().flatten().map(|remote| remote.device);
                let faces = old.primary.into_iter().chain(remotes);
                self.formers.extend(faces.map(|device| Former { mirror, device, until }));
                continue;
            };
            let until = now.plus(ANSWERS);
            let is_left =
                |old: &&Remote| new.remote_in(old.session).map(|it| it.device) != Some(old.device);
            let remotes = old.remotes.iter().flatten().filter(is_left);
            let primary = old.primary.filter(|old| new.primary != Some(*old));
            self.abandoned.extend(remotes.map(|remote| remote.device));
            self.formers.extend(primary.map(|device| Former { mirror, device, until }));
        }
    }

    /// Leaves the faces whose time is over. Returns when the next one is left.
    pub(super) fn look(&mut self, table: &MirrorTable, now: Nanos) -> Option<Nanos> {
        let Self { formers, abandoned } = self;
        for Former { mirror, device, .. } in formers.extract_if(.., |it| it.until <= now) {
            let entry = table.entry(mirror);
            let is_used = entry.is_some_and(|entry| {
                let mut remotes = entry.remotes.iter().flatten();
                entry.primary == Some(device) || remotes.any(|remote| remote.device == device)
            });
            if !is_used {
                abandoned.push_back(device);
            }
        }
        self.formers.iter().map(|former| former.until).min()
    }
}
