//! Whether the store goes on from what is known of it, or has gone back: it was restored from a snapshot, or
//! another store answers.
//!
//! The total revision proves nothing: a store that was restored grows, too, and other programs may write to
//! it. The proofs are these:
//!
//! - etcd's own cluster id, which a restore changes in most cases;
//! - the record `history`, which `nearflash cluster accept-restored` draws anew;
//! - the key `seen` of this node, which no one else writes, and whose revision the node keeps durably;
//! - keys whose revision fell, keys that vanished although nothing shows that they were deleted, and keys
//!   of the time of the last complete read that were not there then.
//!
//! A deletion is *shown* by a record that its transaction changed and that stays: each release of space changes
//! the room of the slice, and the removal of a node leaves `removed`. So a node that has missed deletions,
//! because they were compacted before it saw them, tells what was deleted from what is lost.
//!
//! Invariant: nothing that a node serves is withdrawn because its record is gone, unless its removal was
//! seen or is shown.

use std::collections::BTreeMap;

use nearflash_device::MirrorKey;
use nearflash_records::kept::Seen;
use nearflash_records::key::Key;
use nearflash_records::record::{HistoryRecord, VolumeState};
use nearflash_records::state::ClusterState;
use nearflash_records::store::{ModRevision, RolledBack, StoreId};
use uuid::Uuid;

/// How a store goes on from what is known of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Onward {
    /// It has everything that is known.
    Whole,
    /// It was restored, and an operator has accepted that.
    Accepted,
}

/// Compares a store, as it was read completely, with what the node has seen of it before.
///
/// # Errors
/// When the store has gone back.
pub fn check_start(
    seen: Seen,
    node: Uuid,
    (store, revision): (Option<StoreId>, u64),
    state: &ClusterState,
) -> Result<(), RolledBack> {
    let keys = state.keys().map(|(key, revision)| (key.clone(), revision)).collect();
    let content = Content { store, revision, keys, history: state.history().copied() };
    let (seen, known) = (Some(seen), ClusterState::new(state.uuid()));
    Known { state: &known, revision: 0, complete: 0, seen, node }.check(&content).map(drop)
}

/// The keys of the store at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) store: Option<StoreId>,
    pub(crate) revision: u64,
    pub(crate) keys: BTreeMap<Key, ModRevision>,
    /// If the values were read.
    pub(crate) history: Option<HistoryRecord>,
}

/// The known state when something new is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) state: &'a ClusterState,
    /// The revision up to which the state shows the store; 0 before the first read.
    pub(crate) revision: u64,
    /// The revision of the last complete read: the state was complete then.
    pub(crate) complete: u64,
    pub(crate) seen: Option<Seen>,
    /// The node of the process.
    pub(crate) node: Uuid,
}

impl Known<'_> {
    /// Examines whether the store goes on from what is known.
    pub(crate) fn check(&self, found: &Content) -> Result<Onward, RolledBack> {
        if self.revision == 0 {
            return self.seen.map_or(Ok(Onward::Whole), |seen| self.check_seen(&seen, found));
        }
        if found.revision < self.revision {
            let (known, found) = (self.revision, found.revision);
            return Err(RolledBack::Revision { known, found });
        }
        if let Some(seen) = &self.seen {
            self.check_own(seen, found)?;
        }
        let at = |key: &Key| found.keys.get(key).copied().unwrap_or_default();
        for (key, known) in self.state.keys() {
            match at(key) {
                ModRevision(0) if self.shows_deletion(key, &at) => {}
                ModRevision(0) => return Err(RolledBack::Gone(key.clone())),
                ModRevision(found) if found < known.0 => {
                    let (key, known) = (key.clone(), known.0);
                    return Err(RolledBack::Key { key, known, found });
                }
                _ => {}
            }
        }
        let read = self.complete;
        let mut early = found.keys.iter().filter(|(_, revision)| revision.0 <= read);
        if let Some((key, ModRevision(found))) =
            early.find(|(key, _)| self.state.revision(key).0 == 0)
        {
            return Err(RolledBack::Back { key: key.clone(), found: *found, read });
        }
        if at(&Key::History) != self.state.revision(&Key::History) {
            return Err(RolledBack::Accepted);
        }
        Ok(Onward::Whole)
    }

    /// The first read of a process, against what an earlier process has kept.
    fn check_seen(&self, seen: &Seen, found: &Content) -> Result<Onward, RolledBack> {
        match (&seen.history, &found.history) {
            // An operator has accepted a restored store.
            (None, Some(_)) => return Ok(Onward::Accepted),
            (Some(known), Some(found)) if found.began > known.began => {
                return Ok(Onward::Accepted);
            }
            (known, found) if known != found => return Err(RolledBack::History),
            _ => {}
        }
        if let Some(store) = found.store.filter(|store| *store != seen.store) {
            return Err(RolledBack::Store { known: seen.store, found: store });
        }
        if found.revision < seen.revision {
            let (known, found) = (seen.revision, found.revision);
            return Err(RolledBack::Revision { known, found });
        }
        self.check_own(seen, found)?;
        Ok(Onward::Whole)
    }

    /// No other node writes this node's key.
    fn check_own(&self, seen: &Seen, found: &Content) -> Result<(), RolledBack> {
        let key = Key::Seen(self.node);
        let at = found.keys.get(&key).map_or(0, |it| it.0);
        let is_removed = found.keys.contains_key(&Key::Removed(self.node));
        if at < seen.revision && !is_removed {
            return Err(RolledBack::Key { key, known: seen.revision, found: at });
        }
        Ok(())
    }

    /// Whether the deletion of a known key was announced, or is shown by what the keys are now.
    pub(crate) fn shows_deletion(&self, key: &Key, at: &dyn Fn(&Key) -> ModRevision) -> bool {
        let is_removed = |node: &Uuid| at(&Key::Removed(*node)).0 != 0;
        match key {
            Key::Cluster | Key::History | Key::Removed(_) | Key::Last(_) | Key::Access => false,
            Key::Node(node) | Key::Seen(node) => is_removed(node),
            Key::Slice(slice) | Key::Room(slice) => {
                self.state.node_of(slice).is_some_and(|node| is_removed(&node))
            }
            Key::Volume(volume) => self.shows_removal(*volume, at),
            Key::Mirror(mirror) | Key::Replicas(mirror) => {
                self.is_removing(mirror.volume) || self.shows_release(*mirror, at)
            }
            // Nothing is withdrawn with these.
            Key::NodeName(_) | Key::Ordinal(_) | Key::VolumeName(_) | Key::Nsid(..) => true,
            Key::On(..) | Key::Alive(_) | Key::Users(..) | Key::Zeroed(..) | Key::Job(_) => true,
            // Each change of access raises the version.
            key if key.is_of_access() => at(&Key::Access) > self.state.revision(&Key::Access),
            // The store of a cluster has no others.
            _ => false,
        }
    }

    /// The removal of a volume was announced, or the space of all its mirrors is released.
    fn shows_removal(&self, volume: Uuid, at: &dyn Fn(&Key) -> ModRevision) -> bool {
        let mut mirrors = self.state.mirrors_of(volume).peekable();
        let is_released =
            mirrors.peek().is_some() && mirrors.all(|mirror| self.shows_release(mirror, at));
        is_released || self.is_removing(volume)
    }

    fn is_removing(&self, volume: Uuid) -> bool {
        let known = self.state.volumes().get(&volume);
        known.is_some_and(|it| it.state == VolumeState::Removing)
    }

    /// The room of each slice under the mirror has changed since the mirror was known to be there.
    fn shows_release(&self, mirror: MirrorKey, at: &dyn Fn(&Key) -> ModRevision) -> bool {
        let of = |key: Key| self.state.revision(&key).0;
        let there = of(Key::Mirror(mirror)).max(of(Key::Replicas(mirror))).max(self.complete);
        let is_released = |slice: Uuid| {
            let node = self.state.node_of(&slice);
            // The slice of a node that was removed has no room.
            of(Key::Room(slice)) == 0
                || at(&Key::Room(slice)).0 > there
                || node.is_some_and(|node| at(&Key::Removed(node)).0 != 0)
        };
        let mut slices = self.state.slices_under(mirror).peekable();
        slices.peek().is_some() && slices.all(is_released)
    }
}
