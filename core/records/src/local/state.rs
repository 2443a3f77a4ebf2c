//! The content of a node's own store as typed records.

use std::collections::BTreeMap;
use std::fmt;

use nearflash_space::Name;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    DeviceRecord, FactRecord, JobRecord, LastRecord, Revisions, RightsRecord, VolumeRecord,
};
use crate::access::AccessRecords;
use crate::key::{Key, Numbered};
use crate::record::{OwnerRecord, Record, RoomRecord};
use crate::state::Inconsistent;
use crate::store::ModRevision;

/// The content of the store at one revision. Its `Debug` output hides the values, which may be secrets.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Content {
    /// The revision of the last change.
    pub revision: u64,
    /// The values, with the revisions of their last changes.
    pub found: BTreeMap<Key, (Zeroizing<Vec<u8>>, ModRevision)>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.found.iter().map(|(key, (_, revision))| (key, revision));
        f.debug_struct("Content")
            .field("revision", &self.revision)
            .field("keys", &keys.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The typed records. A store of which one record is damaged is refused: a node must not serve without, say, a
/// reservation that a host relies on.
#[derive(Clone, Debug, Default)]
pub struct LocalState {
    /// The revisions of the keys.
    pub revisions: Revisions,
    /// The devices.
    pub devices: BTreeMap<Name, DeviceRecord>,
    /// The volumes.
    pub volumes: BTreeMap<Uuid, VolumeRecord>,
    /// The reservations that persist, by volume.
    pub rights: BTreeMap<Uuid, RightsRecord>,
    /// The records of access.
    pub access: AccessRecords,
    /// The jobs that have not ended.
    pub jobs: BTreeMap<u64, JobRecord>,
    last_job: BTreeMap<Numbered, LastRecord>,
    removed: BTreeMap<Name, FactRecord>,
    owners: BTreeMap<Key, OwnerRecord>,
    rooms: BTreeMap<Uuid, RoomRecord>,
}

impl LocalState {
    /// The typed records of that content.
    ///
    /// # Errors
    /// The key of a record that is damaged, that this store does not have, or that contradicts another one.
    pub fn of(content: &Content) -> Result<Self, Inconsistent> {
        let mut state = Self::default();
        let keys = content.found.iter().map(|(key, (_, revision))| (key.clone(), *revision));
        state.revisions = Revisions { newest: content.revision, keys: keys.collect() };
        for (key, (value, _)) in &content.found {
            state.set(key, value)?;
        }
        state.check_owners()?;
        state.check_jobs()?;
        Ok(state)
    }

    fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), Inconsistent> {
        match key {
            Key::Device(name) => put(&mut self.devices, name, key, plain(value)),
            Key::Volume(volume) => put(&mut self.volumes, volume, key, record(value)),
            Key::Rights(volume) => put(&mut self.rights, volume, key, record(value)),
            key if key.is_of_access() => {
                self.access.set(key, value).map_err(|_| Inconsistent::of(key, "is damaged"))
            }
            Key::Job(number) => put(&mut self.jobs, number, key, record(value)),
            Key::Last(kind) => put(&mut self.last_job, kind, key, record(value)),
            Key::RemovedVolume(name) => put(&mut self.removed, name, key, record(value)),
            Key::VolumeName(_) | Key::Nsid(..) => put(&mut self.owners, key, key, record(value)),
            Key::Room(device) => put(&mut self.rooms, device, key, record(value)),
            _ => Err(Inconsistent::of(key, "is not one of a node's own store")),
        }
    }

    /// Checks that the indexes of names and of namespaces are those of the volumes.
    fn check_owners(&self) -> Result<(), Inconsistent> {
        let mut expected = BTreeMap::new();
        for (uuid, volume) in &self.volumes {
            let nsid = Key::Nsid(volume.subsystem.clone(), volume.nsid);
            for key in [Key::VolumeName(volume.name.clone()), nsid] {
                if self.owners.get(&key).map(|it| it.owner) != Some(*uuid) {
                    return Err(Inconsistent::of(&key, "is not that of the volume"));
                }
                expected.insert(key, ());
            }
        }
        match self.owners.keys().find(|key| !expected.contains_key(key)) {
            Some(key) => Err(Inconsistent::of(key, "is of no volume")),
            None => Ok(()),
        }
    }

    /// Checks that a volume and its job name each other, and that rights are those of a volume.
    fn check_jobs(&self) -> Result<(), Inconsistent> {
        for (uuid, volume) in &self.volumes {
            let is_known = |job| self.jobs.get(&job).is_some_and(|it| it.is_of(*uuid));
            if volume.job.is_some_and(|job| !is_known(job)) {
                return Err(Inconsistent::of(
                    &Key::Volume(*uuid),
                    "names a job that is not its own",
                ));
            }
        }
        let has_job = |number| self.volumes.values().any(|it| it.job == Some(number));
        if let Some(number) = self.jobs.keys().find(|number| !has_job(**number)) {
            return Err(Inconsistent::of(&Key::Job(*number), "is of no volume"));
        }
        match self.rights.keys().find(|volume| !self.volumes.contains_key(volume)) {
            Some(volume) => Err(Inconsistent::of(&Key::Rights(*volume), "is of no volume")),
            None => Ok(()),
        }
    }

    /// The highest number of a job that was given out.
    pub fn last_job(&self) -> u64 {
        self.last_job.get(&Numbered::Job).map_or(0, |it| it.number)
    }

    /// Whether a volume of that name was removed since the last one of that name was created.
    pub fn was_removed(&self, name: &Name) -> bool {
        self.removed.contains_key(name)
    }
}

fn record<R: Record>(value: &[u8]) -> Option<R> {
    R::decode(value).ok()
}

/// A record without a schema.
fn plain<R: DeserializeOwned>(value: &[u8]) -> Option<R> {
    serde_json::from_slice(value).ok()
}

/// The error has no part of the value, which may be a secret.
fn put<K: Clone + Ord, R>(
    records: &mut BTreeMap<K, R>,
    at: &K,
    key: &Key,
    record: Option<R>,
) -> Result<(), Inconsistent> {
    let record = record.ok_or_else(|| Inconsistent::of(key, "is damaged"))?;
    records.insert(at.clone(), record);
    Ok(())
}
