//! The records of a node's own store. JSON, as those of a cluster's store.
//!
//! The names and meanings of the fields are permanent; a field that a later version adds has a default. The
//! records of rights stand as they stood before this store had keys, without a schema.

mod reservations;
mod state;
mod volume;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::key::Key;
use crate::record::{Record, Schema};
use crate::store::{Compare, ModRevision, Put, Txn};

pub use crate::access::{
    ChapRecord, CredentialRecord, GrantRecord, HostRecord, HostVolumesRecord, TokenRecord,
    TokenScopeRecord,
};
pub use crate::record::{FactRecord, LastRecord};
pub use reservations::{ReservationsRecord, RightsRecord};
pub use state::{Content, LocalState};
pub use volume::{Layout, Runs, VolumeRecord, VolumeSchema};

/// A device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRecord {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its length.
    pub bytes: u64,
    /// Whether a label on the device identifies it; RAM and the null device have none.
    pub labelled: bool,
    /// It failed to make something durable, and nobody has cleared that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspect: bool,
}

/// A job that has not ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// The schema.
    pub schema: Schema,
    /// Its kind.
    pub kind: JobKind,
    /// The thing that it changes.
    pub subject: Subject,
    /// Its progress.
    pub state: JobState,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// It zeroes the blocks of a new volume.
    CreateVolume,
    /// It zeroes further blocks of a volume.
    GrowVolume,
}

/// The subject of a record.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A volume, by its UUID.
    Volume(Uuid),
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It has begun.
    Running,
}

impl Record for JobRecord {}

impl JobRecord {
    /// Whether the job changes that volume.
    pub fn is_of(&self, volume: Uuid) -> bool {
        self.subject == Subject::Volume(volume)
    }
}

/// The known revisions of the keys of a node's own store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Revisions {
    newest: u64,
    keys: BTreeMap<Key, ModRevision>,
}

impl Revisions {
    /// The revision of the last change.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The revision of a key's last change; 0 if it does not exist.
    pub fn of(&self, key: &Key) -> ModRevision {
        self.keys.get(key).copied().unwrap_or_default()
    }

    /// The known keys, in ascending order, with their revisions.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, ModRevision)> {
        self.keys.iter().map(|(key, revision)| (key, *revision))
    }

    /// The transaction that makes these changes of what is known: it compares every key that it changes.
    pub fn txn(&self, puts: Vec<Put>, deletes: Vec<Key>) -> Txn {
        let keys = puts.iter().map(|put| &put.key).chain(&deletes);
        let compare = |key: &Key| Compare { key: key.clone(), mod_revision: self.of(key) };
        Txn { compares: keys.map(compare).collect(), puts, deletes }
    }

    /// The store has carried out that transaction, at this revision.
    pub fn note(&mut self, txn: &Txn, revision: u64) {
        self.newest = revision;
        for key in &txn.deletes {
            self.keys.remove(key);
        }
        let puts = txn.puts.iter().map(|put| (put.key.clone(), ModRevision(revision)));
        self.keys.extend(puts);
    }
}
