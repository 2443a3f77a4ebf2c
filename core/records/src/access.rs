//! The records of access: who may use which volumes. A node without a cluster has them in its own store; the nodes
//! of a cluster share one list in the cluster's store, of which each keeps a copy in its own.

mod record;

use std::collections::BTreeMap;

use nearflash_space::Name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::key::{Closing, Key, Numbered, Text};
use crate::record::{FactRecord, LastRecord, Record, RecordError, Schema, VALUE_LEN_MAX};
use crate::store::Put;

pub use record::{
    ChapRecord, CredentialRecord, GrantRecord, HostRecord, HostVolumesRecord, TokenRecord,
    TokenScopeRecord,
};

/// The version of the list of a cluster. Each transaction that changes a record of access compares and raises it,
/// so a change is decided on the whole list, and its deletions are no sign of a store that has gone back.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRecord {
    /// The schema.
    pub schema: Schema,
    /// The cluster. The copy of a node says by it whose list the node has.
    pub cluster: Uuid,
    /// The version: 1 after the first transaction.
    pub version: u64,
    /// The change that made the transaction. A change with several transactions goes on by it.
    pub change: Uuid,
}

impl Record for AccessRecord {}

/// A record with a secret as etcd has it: sealed, because etcd's files and snapshots show every value.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SealedRecord {
    /// The schema.
    pub schema: Schema,
    /// The number of the sealing key. Key 1 is derived from the secret in the token of the cluster.
    pub key: u32,
    /// The nonce, in Base64.
    pub nonce: String,
    /// The sealed value with its tag, in Base64.
    pub sealed: String,
}

impl Record for SealedRecord {
    const LEN_MAX: usize = 2 * VALUE_LEN_MAX;
}

/// All records of access of a store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccessRecords {
    /// The version; `None` in a store without a list of a cluster.
    pub list: Option<AccessRecord>,
    /// The credentials.
    pub credentials: BTreeMap<Name, CredentialRecord>,
    /// The grants, by number.
    pub grants: BTreeMap<u64, GrantRecord>,
    /// The CHAP accounts, by user.
    pub accounts: BTreeMap<Text, ChapRecord>,
    /// The keys of hosts, by NQN.
    pub hosts: BTreeMap<Text, HostRecord>,
    /// The lists of hosts.
    pub lists: BTreeMap<Text, HostVolumesRecord>,
    /// The tokens.
    pub tokens: BTreeMap<Name, TokenRecord>,
    last_grant: Option<LastRecord>,
    had: BTreeMap<Closing, FactRecord>,
}

impl AccessRecords {
    /// The version of the list; 0 before the first change.
    pub fn version(&self) -> u64 {
        self.list.map_or(0, |it| it.version)
    }

    /// The version as a record: version 0 of this cluster before the first change.
    pub fn list_of(&self, cluster: Uuid) -> AccessRecord {
        let first = AccessRecord { schema: Schema, cluster, version: 0, change: Uuid::nil() };
        self.list.unwrap_or(first)
    }

    /// The highest number of a grant that was given out.
    pub fn last_grant(&self) -> u64 {
        self.last_grant.map_or(0, |it| it.number)
    }

    /// Whether there has been one at least once.
    pub fn has_had(&self, kind: Closing) -> bool {
        self.had.contains_key(&kind)
    }

    /// Takes the value of a key of access. The earlier one stays if the value is damaged.
    ///
    /// # Errors
    /// When the value is not a record of that key.
    pub fn set(&mut self, key: &Key, value: &[u8]) -> Result<(), RecordError> {
        match key {
            Key::Access => self.list = Some(AccessRecord::decode(value)?),
            Key::Credential(id) => put(&mut self.credentials, id, value)?,
            Key::Grant(number) => put(&mut self.grants, number, value)?,
            Key::Chap(user) => put(&mut self.accounts, user, value)?,
            Key::Host(host) => put(&mut self.hosts, host, value)?,
            Key::List(host) => put(&mut self.lists, host, value)?,
            Key::Token(name) => put(&mut self.tokens, name, value)?,
            Key::Last(Numbered::Grant) => self.last_grant = Some(LastRecord::decode(value)?),
            Key::Had(kind) => drop(self.had.insert(*kind, FactRecord::decode(value)?)),
            _ => {}
        }
        Ok(())
    }

    /// The key of access is gone.
    pub fn forget(&mut self, key: &Key) {
        match key {
            Key::Access => self.list = None,
            Key::Credential(id) => drop(self.credentials.remove(id)),
            Key::Grant(number) => drop(self.grants.remove(number)),
            Key::Chap(user) => drop(self.accounts.remove(user)),
            Key::Host(host) => drop(self.hosts.remove(host)),
            Key::List(host) => drop(self.lists.remove(host)),
            Key::Token(name) => drop(self.tokens.remove(name)),
            Key::Last(Numbered::Grant) => self.last_grant = None,
            Key::Had(kind) => drop(self.had.remove(kind)),
            _ => {}
        }
    }

    /// Has the records of an earlier copy in place of those that are damaged and not known. Without one, nobody gets
    /// in by the damage: a host does not enter without keys, a credential has no grants, and what was closed stays
    /// closed.
    pub fn mend(&mut self, damaged: &[Key], copy: &Self) {
        let copied = copy.puts();
        let unknown: Vec<&Key> = damaged.iter().filter(|key| !self.has(key)).collect();
        for key in unknown {
            if let Some(put) = copied.iter().find(|put| put.key == *key) {
                // It has been read before.
                let _ = self.set(key, &put.value);
                continue;
            }
            match key {
                Key::Host(host) => drop(self.hosts.insert(host.clone(), HostRecord::of_removed())),
                Key::Credential(id) => self.grants.retain(|_, it| it.credential != id.as_str()),
                Key::Had(kind) => drop(self.had.insert(*kind, FactRecord { schema: Schema })),
                _ => {}
            }
        }
    }

    /// Whether the key of access has this value.
    pub fn holds(&self, key: &Key, value: &[u8]) -> bool {
        match key {
            Key::Credential(id) => is_same(&self.credentials, id, value),
            Key::Grant(number) => is_same(&self.grants, number, value),
            Key::Chap(user) => is_same(&self.accounts, user, value),
            Key::Host(host) => is_same(&self.hosts, host, value),
            Key::List(host) => is_same(&self.lists, host, value),
            Key::Token(name) => is_same(&self.tokens, name, value),
            Key::Last(Numbered::Grant) => self.last_grant == LastRecord::decode(value).ok(),
            Key::Had(kind) => self.has_had(*kind),
            _ => false,
        }
    }

    /// Whether there is a record of that key.
    pub fn has(&self, key: &Key) -> bool {
        match key {
            Key::Credential(id) => self.credentials.contains_key(id),
            Key::Grant(number) => self.grants.contains_key(number),
            Key::Chap(user) => self.accounts.contains_key(user),
            Key::Host(host) => self.hosts.contains_key(host),
            Key::List(host) => self.lists.contains_key(host),
            Key::Token(name) => self.tokens.contains_key(name),
            Key::Had(kind) => self.has_had(*kind),
            _ => false,
        }
    }

    /// Whether there is a grant that is equal to the one of this number in other records.
    pub fn has_grant_like(&self, number: u64, others: &Self) -> bool {
        others.grants.get(&number).is_some_and(|it| self.grants.values().any(|own| own == it))
    }

    /// Whether the holder of that grant is a seal, which names the number.
    pub fn is_seal(&self, number: u64) -> bool {
        self.grants.get(&number).is_some_and(|it| it.seal.is_some())
    }

    /// All records of access, without the version of the list.
    pub fn puts(&self) -> Vec<Put> {
        let mut puts = Vec::new();
        all(&mut puts, &self.credentials, |id| Key::Credential(id.clone()));
        all(&mut puts, &self.grants, |number| Key::Grant(*number));
        all(&mut puts, &self.accounts, |user| Key::Chap(user.clone()));
        all(&mut puts, &self.hosts, |host| Key::Host(host.clone()));
        all(&mut puts, &self.lists, |host| Key::List(host.clone()));
        all(&mut puts, &self.tokens, |name| Key::Token(name.clone()));
        all(&mut puts, &self.had, |kind| Key::Had(*kind));
        puts
    }

    /// The grants on a volume.
    pub fn grants_on(&self, volume: Uuid) -> impl Iterator<Item = u64> {
        self.grants.iter().filter(move |(_, it)| it.volume == volume).map(|(number, _)| *number)
    }

    /// The lists that name a volume, as they are without it.
    pub fn lists_without(&self, volume: Uuid) -> impl Iterator<Item = Put> {
        let named = self.lists.iter().filter(move |(_, it)| it.volumes.contains_key(&volume));
        named.map(move |(host, record)| {
            let mut record = record.clone();
            record.volumes.remove(&volume);
            let value = serde_json::to_vec(&record).expect("records are plain data");
            Put { key: Key::List(host.clone()), value: value.into(), lease: None }
        })
    }
}

fn all<K, R: Serialize>(puts: &mut Vec<Put>, records: &BTreeMap<K, R>, key: impl Fn(&K) -> Key) {
    let value = |record| serde_json::to_vec(record).expect("records are plain data").into();
    puts.extend(records.iter().map(|(at, it)| Put { key: key(at), value: value(it), lease: None }));
}

fn is_same<K: Ord, R: DeserializeOwned + Eq>(
    records: &BTreeMap<K, R>,
    at: &K,
    value: &[u8],
) -> bool {
    records
        .get(at)
        .is_some_and(|record| serde_json::from_slice::<R>(value).is_ok_and(|it| it == *record))
}

/// These records have no schema. The error has no part of the value, which may be a secret.
fn put<K: Clone + Ord, R: DeserializeOwned>(
    records: &mut BTreeMap<K, R>,
    at: &K,
    value: &[u8],
) -> Result<(), RecordError> {
    if value.len() > VALUE_LEN_MAX {
        return Err(RecordError::TooLong(value.len()));
    }
    if SealedRecord::decode(value).is_ok() {
        return Err(RecordError::Sealed);
    }
    let record = serde_json::from_slice(value);
    let record =
        record.map_err(|_| RecordError::Range("a field is missing, unknown or of another type"))?;
    records.insert(at.clone(), record);
    Ok(())
}
