//! A modelled store for tests: one map with revisions.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::key::prefix;
use crate::state::ClusterState;
use crate::store::{Found, ModRevision, Txn};

/// The cluster of a modelled store.
pub const CLUSTER: Uuid = Uuid::from_u128(0xc1);

/// A linearizable map of keys.
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    /// The revision of the last change.
    pub revision: u64,
    /// The values of the keys' whole names, with the revisions of their last changes.
    pub records: BTreeMap<String, (Vec<u8>, u64)>,
    /// The changes of each revision.
    pub history: Vec<(u64, Vec<Found>)>,
}

impl ModelStore {
    /// Carries out a transaction; whether its compares held.
    pub fn txn(&mut self, txn: &Txn) -> bool {
        let revision = |path: &str| self.records.get(path).map_or(0, |(_, revision)| *revision);
        if !txn.compares.iter().all(|it| revision(&it.key.path(CLUSTER)) == it.mod_revision.0) {
            return false;
        }
        let puts = txn.puts.iter().map(|it| (it.key.path(CLUSTER), Some(it.value.to_vec())));
        let deletes = txn.deletes.iter().map(|it| (it.path(CLUSTER), None));
        self.write(puts.chain(deletes).collect());
        true
    }

    /// Writes without a compare, as by hand.
    pub fn write(&mut self, writes: Vec<(String, Option<Vec<u8>>)>) {
        self.revision += 1;
        let mod_revision = ModRevision(self.revision);
        let mut changes = Vec::new();
        for (key, value) in writes {
            match value.clone() {
                Some(value) => drop(self.records.insert(key.clone(), (value, self.revision))),
                None => drop(self.records.remove(&key)),
            }
            changes.push(Found { key, value, mod_revision });
        }
        self.history.push((self.revision, changes));
    }

    /// All keys, in ascending order.
    pub fn range(&self) -> Vec<Found> {
        let records = self.records.range(prefix(CLUSTER)..);
        let found = records.map(|(key, (value, revision))| Found {
            key: key.clone(),
            value: Some(value.clone()),
            mod_revision: ModRevision(*revision),
        });
        found.collect()
    }

    /// The content, as somebody who follows the store knows it.
    pub fn state(&self) -> ClusterState {
        let mut state = ClusterState::new(CLUSTER);
        state.replace(&self.range());
        state
    }
}
