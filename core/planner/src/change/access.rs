//! The list of access that the nodes of a cluster share.
//!
//! A caller decides on the whole list, as of one version, and names the records that differ afterwards. Each
//! transaction compares the version and raises it, so nothing is decided on a list that has changed meanwhile.

use std::fmt;

use nearflash_records::access::{AccessRecord, AccessRecords};
use nearflash_records::key::{Key, Numbered};
use nearflash_records::record::{
    ACCESS_LEVEL, LastRecord, Record, RecordError, Schema, VALUE_LEN_MAX,
};
use nearflash_records::state::ClusterState;
use nearflash_records::store::Put;
use uuid::Uuid;

use super::{Draft, Step};
use crate::refusal::Refusal;

/// The most records that one transaction changes. Compares of the cluster's own keys come on top.
const RECORDS_MAX: usize = 100;

/// A change of the list. Its `Debug` output hides the values, which may be secrets.
#[derive(Clone, Eq, PartialEq)]
pub struct AccessChange {
    /// Its own number: a change with several transactions goes on by it.
    pub id: Uuid,
    /// The version of the list that it was decided on.
    pub on: u64,
    /// The records to write.
    pub puts: Vec<Put>,
    /// The records to delete.
    pub deletes: Vec<Key>,
}

impl fmt::Debug for AccessChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessChange")
            .field("on", &self.on)
            .field("puts", &self.puts)
            .field("deletes", &self.deletes)
            .finish_non_exhaustive()
    }
}

/// See [`super::Change::Access`]. Grants are deleted before their credentials: if a change with several
/// transactions is interrupted, the list has fewer rights than before, and none without its holder.
pub(super) fn change(state: &ClusterState, change: &AccessChange) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    check_level(state)?;
    let list = state.access();
    let is_own = list.list.is_some_and(|it| it.change == change.id);
    let is_there = |key: &&Key| state.revision(key).0 != 0;
    let (grants, others): (Vec<&Key>, Vec<&Key>) =
        change.deletes.iter().filter(is_there).partition(|key| matches!(key, Key::Grant(_)));
    let is_open = |put: &&Put| !list.holds(&put.key, &put.value);
    let puts: Vec<&Put> = change.puts.iter().filter(is_open).collect();
    if grants.is_empty() && others.is_empty() && puts.is_empty() {
        // Perhaps another change has come since.
        return Ok(Step::Done);
    }
    if list.version() != change.on && !is_own {
        return Err(Refusal::AccessChanged);
    }
    let mut left = RECORDS_MAX;
    for key in grants.into_iter().chain(others).take(left) {
        left -= 1;
        draft.delete_access(key.clone());
    }
    for put in puts.into_iter().take(left) {
        draft.put_access(put.clone())?;
    }
    draft.raise_access(change.id)?;
    draft.submit()
}

/// Deletes rights on a volume that is being removed. Returns whether there were any.
pub(super) fn forget_rights(draft: &mut Draft<'_>, volume: Uuid) -> Result<bool, Refusal> {
    let list = draft.state.access();
    let grants: Vec<Key> = list.grants_on(volume).map(Key::Grant).take(RECORDS_MAX / 2).collect();
    let lists: Vec<Put> = list.lists_without(volume).take(RECORDS_MAX / 2).collect();
    if grants.is_empty() && lists.is_empty() {
        return Ok(false);
    }
    grants.into_iter().for_each(|key| draft.delete_access(key));
    lists.into_iter().try_for_each(|put| draft.put_access(put))?;
    draft.raise_access(volume)?;
    Ok(true)
}

/// The records that a node adds to the list when it gives up its own. Records that are equal fall together, a grant
/// whose number is taken gets the next one, and what closes the doors of one node closes those of all.
///
/// # Errors
/// The keys whose records differ. A seal names its number, so it needs that one.
pub fn adopted(list: &AccessRecords, own: &AccessRecords) -> Result<Vec<Put>, Vec<Key>> {
    let (mut puts, mut contradictions) = (Vec::new(), Vec::new());
    let mut last = list.last_grant().max(own.last_grant());
    for put in own.puts() {
        let is_taken = match &put.key {
            Key::Grant(number) if list.has_grant_like(*number, own) => continue,
            Key::Last(_) => continue,
            _ if list.holds(&put.key, &put.value) => continue,
            key => list.has(key),
        };
        match (&put.key, is_taken) {
            (_, false) => puts.push(put),
            (Key::Grant(number), true) if !own.is_seal(*number) => {
                last += 1;
                puts.push(Put { key: Key::Grant(last), ..put });
            }
            (key, true) => contradictions.push(key.clone()),
        }
    }
    if !contradictions.is_empty() {
        return Err(contradictions);
    }
    if last > list.last_grant() {
        let record = LastRecord { schema: Schema, number: last };
        let (key, value) = (Key::Last(Numbered::Grant), record.encode().into());
        puts.push(Put { key, value, lease: None });
    }
    Ok(puts)
}

fn check_level(state: &ClusterState) -> Result<(), Refusal> {
    match state.cluster() {
        Some(cluster) if cluster.feature_level < ACCESS_LEVEL => {
            Err(Refusal::LevelTooLow { level: cluster.feature_level, needed: ACCESS_LEVEL })
        }
        _ => Ok(()),
    }
}

impl Draft<'_> {
    /// Deletes a record of access, also a damaged one.
    fn delete_access(&mut self, key: Key) {
        self.compare(key.clone());
        self.txn.deletes.push(key);
    }

    /// Writes a record of access, also in place of a damaged one. One that no node could read again is refused.
    fn put_access(&mut self, put: Put) -> Result<(), Refusal> {
        self.compare(put.key.clone());
        if put.value.len() > VALUE_LEN_MAX {
            let error = RecordError::TooLong(put.value.len());
            return Err(Refusal::Unreadable { key: put.key.path(self.state.uuid()).into(), error });
        }
        self.txn.puts.push(put);
        Ok(())
    }

    /// The list has another version after this transaction.
    fn raise_access(&mut self, change: Uuid) -> Result<(), Refusal> {
        let (cluster, version) = (self.state.uuid(), self.state.access().version() + 1);
        let record = AccessRecord { schema: Schema, cluster, version, change };
        self.put(Key::Access, &record)
    }
}
