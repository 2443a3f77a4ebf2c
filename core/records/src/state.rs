//! The content of the store as far as it is known: typed records with their revisions.
//!
//! A record that cannot be read is reported by name. If an earlier value of its key could be read,
//! that one stays in the views, so that what is in use goes on; a change that depends on the key is
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nearflash_device::MirrorKey;
use nearflash_space::Name;
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use crate::access::AccessRecords;
use crate::key::{Key, Numbered, ParseKeyError};
use crate::record::{
    ACCESS_LEVEL, AliveRecord, ClusterRecord, HistoryRecord, JobRecord, JobState, LastRecord,
    MirrorRecord, MovesRecord, NodeRecord, OwnerRecord, Placement, Record, RecordError,
    RemovedRecord, ReplicaRecord, ReplicasRecord, RoomRecord, SliceRecord, UsersRecord,
    VolumeRecord, VolumeState,
};
use crate::store::{Found, ModRevision};

/// The known content of the store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterState {
    uuid: Uuid,
    revisions: BTreeMap<Key, ModRevision>,
    /// Texts under the prefix that are not keys, and keys whose values are not records.
    damaged: BTreeMap<String, Damage>,
    cluster: BTreeMap<(), ClusterRecord>,
    history: BTreeMap<(), HistoryRecord>,
    nodes: BTreeMap<Uuid, NodeRecord>,
    owners: BTreeMap<Key, OwnerRecord>,
    slices: BTreeMap<Uuid, SliceRecord>,
    rooms: BTreeMap<Uuid, RoomRecord>,
    volumes: BTreeMap<Uuid, VolumeRecord>,
    /// Each with the revision at which the store had this record. It is not that of the key if the
    /// key was damaged later.
    mirrors: BTreeMap<MirrorKey, (MirrorRecord, ModRevision)>,
    replicas: BTreeMap<MirrorKey, (ReplicasRecord, ModRevision)>,
    removed: BTreeMap<Uuid, RemovedRecord>,
    alive: BTreeMap<Uuid, AliveRecord>,
    /// By volume and node.
    users: BTreeMap<(Uuid, Uuid), UsersRecord>,
    jobs: BTreeMap<u64, JobRecord>,
    last_job: BTreeMap<(), LastRecord>,
    /// The places that have been zeroed: the mirror, and the ordinal of the replica.
    zeroed: BTreeSet<(MirrorKey, u32)>,
    access: Arc<AccessRecords>,
}

/// A key that cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Damage {
    key: Option<Key>,
    reason: Box<str>,
}

/// Error: records contradict each other, or one of them is damaged.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record '{key}' {reason}: restore it, for example from a snapshot of the store")]
pub struct Inconsistent {
    /// The key of the record, without the prefix.
    pub key: Box<str>,
    /// The fault.
    pub reason: Box<str>,
}

/// A place for which a job waits until it has been zeroed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct NewPlace {
    /// The mirror.
    pub mirror: MirrorKey,
    /// The ordinal of the replica.
    pub ordinal: u32,
    /// The slice.
    pub slice: Uuid,
    /// The offset on the slice's device.
    pub start: ByteOffset,
    /// The revision of the mirror's places. If the place is given away and taken again, it has another one.
    pub revision: ModRevision,
}

/// A mirror: its key, its state and the places of its replicas.
#[derive(Clone, Copy, Debug)]
pub struct MirrorView<'a> {
    /// The key.
    pub key: MirrorKey,
    /// The state.
    pub mirror: &'a MirrorRecord,
    /// The revision of that state. A transaction that compares it takes effect on that state only.
    pub revision: ModRevision,
    /// The places.
    pub replicas: &'a ReplicasRecord,
    /// The revision of these places. A transaction that compares it takes effect on these places only.
    pub places_revision: ModRevision,
}

impl Inconsistent {
    /// The error that a record has this fault.
    pub fn of(key: &Key, reason: &str) -> Self {
        Self { key: key.to_string().into(), reason: reason.into() }
    }
}

impl ClusterState {
    /// The state of a store in which nothing has been seen yet.
    pub fn new(cluster: Uuid) -> Self {
        Self { uuid: cluster, ..Self::default() }
    }

    /// The cluster's UUID.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Takes a key's new value, or its deletion. An older revision than the known one changes
    /// nothing.
    pub fn apply(&mut self, found: &Found) {
        let parsed = Key::parse(self.uuid, &found.key).and_then(|key| match key.is_of_cluster() {
            true => Ok(key),
            false => Err(ParseKeyError::of(&found.key)),
        });
        let key = match parsed {
            Ok(key) => key,
            Err(refused) => {
                self.damaged.remove(&found.key);
                if found.value.is_some() {
                    let damage = Damage { key: None, reason: refused.to_string().into() };
                    self.damaged.insert(found.key.clone(), damage);
                }
                return;
            }
        };
        if self.revision(&key) > found.mod_revision {
            return;
        }
        self.damaged.remove(&found.key);
        let Some(value) = &found.value else {
            self.forget(&key);
            return;
        };
        self.revisions.insert(key.clone(), found.mod_revision);
        if let Err(error) = self.set(&key, value) {
            let reason = error.to_string().into();
            self.damaged.insert(found.key.clone(), Damage { key: Some(key), reason });
        }
    }

    /// Takes the complete content of the store, read at one revision: what it lacks is gone. Whether it
    /// may be gone has been examined (`continuity`).
    pub fn replace(&mut self, found: &[Found]) {
        let here: Vec<Key> =
            found.iter().filter_map(|it| Key::parse(self.uuid, &it.key).ok()).collect();
        let here: std::collections::BTreeSet<&Key> = here.iter().collect();
        let gone: Vec<Key> =
            self.revisions.keys().filter(|key| !here.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.forget(key));
        self.damaged.clear();
        self.revisions.clear();
        found.iter().for_each(|it| self.apply(it));
    }

    /// Whether these keys and their revisions are those that are known.
    pub fn agrees(&self, found: &BTreeMap<Key, ModRevision>) -> bool {
        *found == self.revisions
    }

    /// The known keys, with the revisions of their last changes.
    pub fn keys(&self) -> impl Iterator<Item = (&Key, ModRevision)> {
        self.revisions.iter().map(|(key, revision)| (key, *revision))
    }

    fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), RecordError> {
        fn put<K: Ord, R: Record>(
            records: &mut BTreeMap<K, R>,
            key: K,
            value: &[u8],
        ) -> Result<(), RecordError> {
            records.insert(key, R::decode(value)?);
            Ok(())
        }
        match key {
            Key::Cluster => put(&mut self.cluster, (), value),
            Key::History => put(&mut self.history, (), value),
            Key::Node(node) => put(&mut self.nodes, *node, value),
            Key::NodeName(_) | Key::Ordinal(_) | Key::VolumeName(_) | Key::Nsid(..) => {
                put(&mut self.owners, key.clone(), value)
            }
            Key::Slice(slice) => put(&mut self.slices, *slice, value),
            Key::Room(slice) => put(&mut self.rooms, *slice, value),
            Key::Volume(volume) => put(&mut self.volumes, *volume, value),
            Key::Mirror(mirror) => {
                let revision = self.revision(key);
                self.mirrors.insert(*mirror, (MirrorRecord::decode(value)?, revision));
                Ok(())
            }
            Key::Replicas(mirror) => {
                let revision = self.revision(key);
                self.replicas.insert(*mirror, (ReplicasRecord::decode(value)?, revision));
                Ok(())
            }
            Key::Removed(node) => put(&mut self.removed, *node, value),
            Key::Alive(node) => put(&mut self.alive, *node, value),
            Key::Users(volume, node) => put(&mut self.users, (*volume, *node), value),
            Key::Job(number) => put(&mut self.jobs, *number, value),
            Key::Last(Numbered::Job) => put(&mut self.last_job, (), value),
            Key::Zeroed(mirror, ordinal) => {
                self.zeroed.insert((*mirror, *ordinal));
                Ok(())
            }
            // Of a key of a node's own store, `apply` has refused the value.
            _ => Arc::make_mut(&mut self.access).set(key, value),
        }
    }

    fn forget(&mut self, key: &Key) {
        self.revisions.remove(key);
        match key {
            Key::Cluster => drop(self.cluster.remove(&())),
            Key::History => drop(self.history.remove(&())),
            Key::Node(node) => drop(self.nodes.remove(node)),
            Key::NodeName(_) | Key::Ordinal(_) | Key::VolumeName(_) | Key::Nsid(..) => {
                self.owners.remove(key);
            }
            Key::Slice(slice) => drop(self.slices.remove(slice)),
            Key::Room(slice) => drop(self.rooms.remove(slice)),
            Key::Volume(volume) => drop(self.volumes.remove(volume)),
            Key::Mirror(mirror) => drop(self.mirrors.remove(mirror)),
            Key::Replicas(mirror) => drop(self.replicas.remove(mirror)),
            Key::Alive(node) => drop(self.alive.remove(node)),
            Key::Removed(node) => drop(self.removed.remove(node)),
            Key::Users(volume, node) => drop(self.users.remove(&(*volume, *node))),
            Key::Job(number) => drop(self.jobs.remove(number)),
            Key::Last(Numbered::Job) => drop(self.last_job.remove(&())),
            Key::Zeroed(mirror, ordinal) => drop(self.zeroed.remove(&(*mirror, *ordinal))),
            _ => Arc::make_mut(&mut self.access).forget(key),
        }
    }

    /// The revision of a key's last change; 0 if it does not exist.
    pub fn revision(&self, key: &Key) -> ModRevision {
        self.revisions.get(key).copied().unwrap_or_default()
    }

    /// The damaged keys, with the faults.
    pub fn damaged(&self) -> impl Iterator<Item = Inconsistent> {
        self.damaged.iter().map(|(path, damage)| {
            let key = damage.key.as_ref().map_or_else(|| path.clone(), Key::to_string);
            Inconsistent { key: key.into(), reason: damage.reason.clone() }
        })
    }

    /// The keys of access whose records are damaged.
    pub fn damaged_access(&self) -> Vec<Key> {
        let keys = self.damaged.values().filter_map(|damage| damage.key.clone());
        keys.filter(Key::is_of_access).collect()
    }

    /// Checks that a key is not damaged.
    ///
    /// # Errors
    /// When it is.
    pub fn check(&self, key: &Key) -> Result<(), Inconsistent> {
        match self.damaged.get(&key.path(self.uuid)) {
            Some(damage) => Err(Inconsistent::of(key, &damage.reason)),
            None => Ok(()),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> Option<&ClusterRecord> {
        self.cluster.get(&())
    }

    /// The history of the store.
    pub fn history(&self) -> Option<&HistoryRecord> {
        self.history.get(&())
    }

    /// The nodes.
    pub fn nodes(&self) -> &BTreeMap<Uuid, NodeRecord> {
        &self.nodes
    }

    /// The owner of a name, an ordinal or a namespace id.
    pub fn owner(&self, key: &Key) -> Option<Uuid> {
        self.owners.get(key).map(|it| it.owner)
    }

    /// The slices.
    pub fn slices(&self) -> &BTreeMap<Uuid, SliceRecord> {
        &self.slices
    }

    /// The rooms on the slices.
    pub fn rooms(&self) -> &BTreeMap<Uuid, RoomRecord> {
        &self.rooms
    }

    /// The volumes.
    pub fn volumes(&self) -> &BTreeMap<Uuid, VolumeRecord> {
        &self.volumes
    }

    /// The volume of a name.
    pub fn volume_named(&self, name: &Name) -> Option<(Uuid, &VolumeRecord)> {
        let uuid = self.owner(&Key::VolumeName(name.clone()))?;
        self.volumes.get(&uuid).map(|it| (uuid, it))
    }

    /// The name of a node, or its UUID if it is gone.
    pub fn name_of_node(&self, node: Uuid) -> String {
        self.nodes.get(&node).map_or_else(|| node.to_string(), |it| it.name.to_string())
    }

    /// A placement, with the name of its node.
    pub fn placement_text(&self, placement: Placement) -> String {
        match placement {
            Placement::Spread => "spread".to_owned(),
            Placement::Local(node) => format!("local:{}", self.name_of_node(node)),
            Placement::Central(node) => format!("central:{}", self.name_of_node(node)),
        }
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<Uuid> {
        let found = self.nodes.iter().find(|(_, node)| node.name.as_str() == name);
        found.map(|(uuid, _)| *uuid)
    }

    /// The nodes that run.
    pub fn alive(&self) -> &BTreeMap<Uuid, AliveRecord> {
        &self.alive
    }

    /// The nodes that were removed.
    pub fn removed(&self) -> &BTreeMap<Uuid, RemovedRecord> {
        &self.removed
    }

    /// The answers of nodes to the last questions who uses which volume, by volume and node.
    pub fn users(&self) -> &BTreeMap<(Uuid, Uuid), UsersRecord> {
        &self.users
    }

    /// The list of access that the nodes share; empty below the feature level that has one.
    pub fn access(&self) -> &Arc<AccessRecords> {
        &self.access
    }

    /// Whether the nodes share one list of access.
    pub fn shares_access(&self) -> bool {
        self.cluster().is_some_and(|it| it.feature_level >= ACCESS_LEVEL)
    }

    /// The jobs, in the order of their numbers.
    pub fn jobs(&self) -> &BTreeMap<u64, JobRecord> {
        &self.jobs
    }

    /// The newest job that changes or has changed a volume.
    pub fn last_job_of(&self, volume: Uuid) -> Option<u64> {
        self.jobs.iter().rev().find(|(_, job)| job.volume == volume).map(|(id, _)| *id)
    }

    /// The bytes that a job has zeroed, or moved. `zeroed` has those of a place that is not noted yet.
    pub fn done_bytes(&self, job: &JobRecord, zeroed: impl Fn(&NewPlace) -> ByteLen) -> u64 {
        let left = if job.state == JobState::Done { 0 } else { self.bytes_to_zero(job, zeroed).0 };
        job.total_bytes.saturating_sub(left)
    }

    /// The bytes that a job has not zeroed, or moved, yet. `zeroed` has those of a place that is not noted yet.
    pub fn bytes_to_zero(&self, job: &JobRecord, zeroed: impl Fn(&NewPlace) -> ByteLen) -> ByteLen {
        if let Some(moves) = job.moves {
            let left = self.replicas_of_move(job.volume, moves);
            return ByteLen(left.map(|(_, len)| len.0).sum());
        }
        let Some(volume) = self.volumes.get(&job.volume) else { return ByteLen(job.total_bytes) };
        let rows = self.rows(job.volume, volume).unwrap_or_default();
        let held: u64 = rows.iter().flatten().map(|view| view.mirror.len.0).sum();
        let wanted = volume.planned.unwrap_or(volume.blocks);
        let wanted = wanted.saturating_mul(u64::from(volume.block_size));
        let missing = wanted.saturating_sub(held).saturating_mul(u64::from(volume.replicas));
        let places = self.places_to_zero().filter(|it| it.mirror.volume == job.volume);
        let left = places.map(|place| {
            let len = self.len_of(place.mirror).unwrap_or_default();
            len.0.saturating_sub(zeroed(&place).0)
        });
        ByteLen(missing.saturating_add(left.sum()))
    }

    /// The mirrors with a replica that such a job moves, and their lengths.
    pub fn replicas_of_move(
        &self,
        volume: Uuid,
        moves: MovesRecord,
    ) -> impl Iterator<Item = (MirrorKey, ByteLen)> {
        let is_meant = move |key: &MirrorKey| volume.is_nil() || key.volume == volume;
        self.replicas.iter().filter_map(move |(key, (record, _))| {
            let mut slices = record.replicas.iter().map(|it| it.slice);
            let is_there = slices.any(|slice| self.node_of(&slice) == Some(moves.from));
            Some((*key, self.len_of(*key)?)).filter(|_| is_there && is_meant(key))
        })
    }

    /// The highest number that a job of the cluster has; 0 if there was none.
    pub fn last_job(&self) -> u64 {
        self.last_job.get(&()).map_or(0, |it| it.number)
    }

    /// Whether this place of a mirror is noted as zeroed.
    pub fn is_zeroed(&self, mirror: MirrorKey, ordinal: u32) -> bool {
        self.zeroed.contains(&(mirror, ordinal))
    }

    /// The places that are noted as zeroed, and whose rows do not count as zeroed yet.
    pub fn zeroed(&self) -> impl Iterator<Item = (MirrorKey, u32)> {
        self.zeroed.iter().copied()
    }

    /// The places that jobs wait for until they have been zeroed.
    pub fn places_to_zero(&self) -> impl Iterator<Item = NewPlace> {
        let goes_on = |volume: &&VolumeRecord| {
            let job = volume.job.and_then(|job| self.jobs.get(&job));
            volume.state != VolumeState::Removing
                && job.is_some_and(|job| job.state == JobState::Running)
        };
        let volumes = self.volumes.iter().filter(move |(_, volume)| goes_on(volume));
        let mirrors = volumes.flat_map(|(volume, record)| {
            let at = |row: u32| MirrorKey { volume: *volume, number: row * record.width };
            self.replicas.range(at(record.zeroed_rows)..at(record.rows))
        });
        let places =
            mirrors.flat_map(|(mirror, (record, revision))| {
                record.replicas.iter().map(move |&ReplicaRecord { ordinal, slice, start }| {
                    NewPlace { mirror: *mirror, ordinal, slice, start, revision: *revision }
                })
            });
        places.filter(|it| !self.is_zeroed(it.mirror, it.ordinal))
    }

    /// The node of a slice.
    pub fn node_of(&self, slice: &Uuid) -> Option<Uuid> {
        self.slices.get(slice).map(|it| it.node)
    }

    /// Whether the node of a slice runs, and has opened the slice. A node registers at each start before it opens its
    /// slices, so the record of an open one is newer than that of its node.
    pub fn is_open(&self, slice: &Uuid) -> bool {
        self.node_of(slice).is_some_and(|node| {
            let registered = self.revision(&Key::Node(node));
            self.alive.contains_key(&node) && self.revision(&Key::Slice(*slice)) > registered
        })
    }

    /// The mirrors of a volume.
    pub fn mirrors_of(&self, volume: Uuid) -> impl Iterator<Item = MirrorKey> {
        let of = |number| MirrorKey { volume, number };
        self.replicas.range(of(0)..=of(u32::MAX)).map(|(key, _)| *key)
    }

    /// The length of a mirror.
    pub fn len_of(&self, mirror: MirrorKey) -> Option<ByteLen> {
        self.mirrors.get(&mirror).map(|(record, _)| record.len)
    }

    /// The slices with replicas of a mirror.
    pub fn slices_under(&self, mirror: MirrorKey) -> impl Iterator<Item = Uuid> {
        let replicas = self.replicas.get(&mirror).into_iter().flat_map(|it| &it.0.replicas);
        replicas.map(|it| it.slice)
    }

    /// The rows of a volume, each with its mirrors in order.
    ///
    /// # Errors
    /// When a mirror is missing or damaged, or the mirrors of a row have several lengths.
    pub fn rows(
        &self,
        uuid: Uuid,
        volume: &VolumeRecord,
    ) -> Result<Vec<Vec<MirrorView<'_>>>, Inconsistent> {
        let row = |row: u32| {
            let numbers = row * volume.width..(row + 1) * volume.width;
            let mirrors: Result<Vec<MirrorView<'_>>, Inconsistent> =
                numbers.map(|number| self.mirror(MirrorKey { volume: uuid, number })).collect();
            let mirrors = mirrors?;
            match mirrors.iter().find(|it| it.mirror.len != mirrors[0].mirror.len) {
                Some(odd) => {
                    Err(Inconsistent::of(&Key::Mirror(odd.key), "has another length than its row"))
                }
                None => Ok(mirrors),
            }
        };
        (0..volume.rows).map(row).collect()
    }

    fn mirror(&self, key: MirrorKey) -> Result<MirrorView<'_>, Inconsistent> {
        let missing =
            |key: Key| self.check(&key).err().unwrap_or(Inconsistent::of(&key, "is missing"));
        let mirror = self.mirrors.get(&key).ok_or_else(|| missing(Key::Mirror(key)))?;
        let (mirror, revision) = (&mirror.0, mirror.1);
        let replicas = self.replicas.get(&key).ok_or_else(|| missing(Key::Replicas(key)))?;
        let (replicas, places_revision) = (&replicas.0, replicas.1);
        Ok(MirrorView { key, mirror, revision, replicas, places_revision })
    }

    /// The mirrors with a replica on a slice, as far as they are known, and the ordinals of these replicas.
    pub fn replicas_on(
        &self,
        slice: Uuid,
    ) -> impl Iterator<Item = (MirrorKey, u32, &MirrorRecord)> {
        self.replicas.iter().filter_map(move |(key, (replicas, _))| {
            let own = replicas.replicas.iter().find(|replica| replica.slice == slice)?;
            let (record, _) = self.mirrors.get(key)?;
            Some((*key, own.ordinal, record))
        })
    }

    /// All mirrors, with the places of their replicas.
    ///
    /// # Errors
    /// When one is damaged or has no counterpart: then it is not known which space is taken.
    pub fn mirrors(&self) -> Result<Vec<MirrorView<'_>>, Inconsistent> {
        let keys = self.revisions.keys().filter_map(|key| match key {
            Key::Mirror(mirror) | Key::Replicas(mirror) => Some((key, *mirror)),
            _ => None,
        });
        let mut views = Vec::new();
        for (key, mirror) in keys {
            self.check(key)?;
            let view = self.mirror(mirror)?;
            if matches!(key, Key::Mirror(_)) {
                views.push(view);
            }
        }
        Ok(views)
    }
}

impl MirrorView<'_> {
    /// Checks that every element of `in_sync` names a replica, and each another one.
    ///
    /// # Errors
    /// When one does not.
    pub fn check_in_sync(&self) -> Result<(), Inconsistent> {
        let fault = |reason| Err(Inconsistent::of(&Key::Mirror(self.key), reason));
        let mut ordinals: Vec<u32> = self.mirror.in_sync.iter().map(|it| it.replica).collect();
        ordinals.sort_unstable();
        let is_replica = |it: &u32| self.replicas.replicas.iter().any(|one| one.ordinal == *it);
        if !ordinals.iter().all(is_replica) {
            return fault("has a replica in_sync that is not among its replicas");
        }
        if ordinals.windows(2).any(|pair| pair[0] == pair[1]) {
            return fault("has a replica in_sync twice");
        }
        Ok(())
    }
}
