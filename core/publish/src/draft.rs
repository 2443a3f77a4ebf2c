//! A change of the node's state as the records that differ.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_access::{
    Accounts, ChapAccount, Credential, Grant, Grants, HostVolumes, Token, Tokens, VolumeList,
    recorded,
};
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_records::Key;
use nearflash_records::key::{Closing, Numbered, Text};
use nearflash_records::local::{
    DeviceRecord, FactRecord, HostRecord, JobKind, JobRecord, JobState, LastRecord,
    ReservationsRecord, Revisions, RightsRecord, Subject, VolumeRecord,
};
use nearflash_records::record::{OwnerRecord, Record, RoomRecord, RoomState, Schema};
use nearflash_records::store::{Put, Txn};
use nearflash_space::{Home, Name, Space, Volume};
use serde::Serialize;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::records::Records;

/// The removed volumes whose names are remembered: as many as a node can have volumes.
const REMOVED_MAX: usize = 4096;

/// The records that a change writes and deletes.
#[derive(Debug, Default)]
pub struct Draft {
    puts: Vec<Put>,
    deletes: Vec<Key>,
}

/// Two sets of values, before and after a change.
type Both<'a, K, T> = (BTreeMap<K, &'a T>, BTreeMap<K, &'a T>);

impl Draft {
    /// The change from the old records to the new ones. Only records that differ are written.
    pub fn between(old: &Records, new: &Records, known: &Revisions) -> Self {
        let mut it = Self::default();
        it.volumes(&old.space, &new.space, known);
        it.access(old, new);
        it.last(Numbered::Job, old.last_job, new.last_job);
        it.had(old, new);
        match (old.list, new.list) {
            (Some(_), None) => it.deletes.push(Key::Access),
            (old, Some(list)) if old != Some(list) => it.put(Key::Access, &list),
            _ => {}
        }
        it
    }

    /// The change of access alone: what is written, and what is deleted.
    pub fn of_access(old: &Records, new: &Records) -> (Vec<Put>, Vec<Key>) {
        let mut it = Self::default();
        it.access(old, new);
        it.had(old, new);
        (it.puts, it.deletes)
    }

    fn access(&mut self, old: &Records, new: &Records) {
        self.differences(
            (credentials(&old.grants), credentials(&new.grants)),
            |id| Key::Credential((*id).clone()),
            |credential| to_json(&recorded::credential_record(credential)),
        );
        self.differences(
            (grants(&old.grants), grants(&new.grants)),
            |number| Key::Grant(*number),
            |grant| to_json(&recorded::grant_record(grant)),
        );
        self.differences(
            (accounts(&old.accounts), accounts(&new.accounts)),
            |user| Key::Chap(Text::new(user)),
            |account| to_json(&recorded::chap_record(account)),
        );
        self.differences(
            (tokens(&old.tokens), tokens(&new.tokens)),
            |name| Key::Token((*name).clone()),
            |token| to_json(&token.record()),
        );
        let (old_hosts, new_hosts) = (hosts(&old.hosts), hosts(&new.hosts));
        self.differences(
            (by_ref(&old_hosts), by_ref(&new_hosts)),
            |host| Key::Host(Text::new(host)),
            |keys| to_json(&keys.map_or_else(HostRecord::of_removed, recorded::host_record)),
        );
        self.differences(
            (lists(&old.host_volumes), lists(&new.host_volumes)),
            |host| Key::List(Text::new(host)),
            |list| to_json(&recorded::list_record(list)),
        );
        self.last(Numbered::Grant, old.grants.last_number(), new.grants.last_number());
    }

    fn had(&mut self, old: &Records, new: &Records) {
        for ((kind, old), (_, new)) in has_had(old).into_iter().zip(has_had(new)) {
            match (old, new) {
                (false, true) => self.put(Key::Had(kind), &FactRecord { schema: Schema }),
                (true, false) => self.deletes.push(Key::Had(kind)),
                _ => {}
            }
        }
    }

    /// Writes the records of the devices that are given now, and deletes the others.
    pub fn with_devices(
        mut self,
        old: &BTreeMap<Name, DeviceRecord>,
        new: &BTreeMap<Name, DeviceRecord>,
        known: &Revisions,
    ) -> Self {
        let both = (old.iter().collect(), new.iter().collect());
        self.differences(both, |name: &&Name| Key::Device((*name).clone()), to_json);
        let is_there = |uuid: &Uuid| new.values().any(|device| device.uuid == *uuid);
        for uuid in old.values().map(|device| device.uuid).filter(|uuid| !is_there(uuid)) {
            self.forget(Key::Room(uuid), known);
        }
        self
    }

    /// The change as a transaction on what is known.
    pub fn into_txn(self, known: &Revisions) -> Txn {
        known.txn(self.puts, self.deletes)
    }

    fn volumes(&mut self, old_space: &Space, new_space: &Space, known: &Revisions) {
        let (old, new) = (by_uuid(old_space), by_uuid(new_space));
        self.nsids(&nsids(&old), &nsids(&new));
        self.rooms((&old, old_space), (&new, new_space), known);
        self.rights(&old, &new, known);
        self.jobs(&old, &new);
        self.differences(
            (old, new),
            |uuid| Key::Volume(*uuid),
            |volume| VolumeRecord::of(volume, new_space).encode().into(),
        );
        let owner =
            |volume: &Volume| OwnerRecord { schema: Schema, owner: volume.uuid }.encode().into();
        let (old, new) = (by_name(old_space), by_name(new_space));
        self.remember_removed(&old, &new, known);
        self.differences((old, new), |name| Key::VolumeName((*name).clone()), owner);
    }

    fn nsids(&mut self, old: &BTreeSet<(&Name, u32, Uuid)>, new: &BTreeSet<(&Name, u32, Uuid)>) {
        let key =
            |(subsystem, nsid, _): &(&Name, u32, Uuid)| Key::Nsid((*subsystem).clone(), *nsid);
        let mut taken = BTreeSet::new();
        for it in new.difference(old) {
            self.put(key(it), &OwnerRecord { schema: Schema, owner: it.2 });
            taken.insert(key(it));
        }
        let gone = old.difference(new).map(key).filter(|key| !taken.contains(key));
        self.deletes.extend(gone);
    }

    /// Each allocation and each release on a device changes its room.
    fn rooms(
        &mut self,
        (old, old_space): (&BTreeMap<Uuid, &Volume>, &Space),
        (new, new_space): (&BTreeMap<Uuid, &Volume>, &Space),
        known: &Revisions,
    ) {
        let mut changed = BTreeSet::new();
        let uuids: BTreeSet<&Uuid> = old.keys().chain(new.keys()).collect();
        for uuid in uuids {
            let extents = [old.get(uuid), new.get(uuid)].map(|it| it.map(|it| &it.extents));
            if extents[0] != extents[1] {
                for (extents, space) in extents.into_iter().zip([old_space, new_space]) {
                    let extents = extents.into_iter().flatten();
                    changed.extend(extents.map(|extent| space.device(extent.device).uuid));
                }
            }
        }
        let room = RoomRecord { schema: Schema, state: RoomState::In, version: known.newest() + 1 };
        changed.into_iter().for_each(|device| self.put(Key::Room(device), &room));
    }

    /// The record of the rights on a volume stays until the volume is gone, so that its version only grows.
    fn rights(
        &mut self,
        old: &BTreeMap<Uuid, &Volume>,
        new: &BTreeMap<Uuid, &Volume>,
        known: &Revisions,
    ) {
        for (uuid, volume) in new {
            let before = old.get(uuid).map(|it| &it.reservations);
            if before == Some(&volume.reservations) {
                continue;
            }
            let reservations = ReservationsRecord::of(&volume.reservations);
            if before.and_then(ReservationsRecord::of) != reservations {
                let version = known.newest() + 1;
                let rights = RightsRecord { schema: Schema, version, reservations };
                self.put(Key::Rights(*uuid), &rights);
            }
        }
        for uuid in old.keys().filter(|uuid| !new.contains_key(uuid)) {
            self.forget(Key::Rights(*uuid), known);
        }
    }

    fn jobs(&mut self, old: &BTreeMap<Uuid, &Volume>, new: &BTreeMap<Uuid, &Volume>) {
        let record = |volume: &&Volume| {
            let number = volume.preparing?.job;
            let kind = match volume.is_empty() {
                true => JobKind::CreateVolume,
                false => JobKind::GrowVolume,
            };
            let (subject, state) = (Subject::Volume(volume.uuid), JobState::Running);
            Some((number, JobRecord { schema: Schema, kind, subject, state }))
        };
        let old: BTreeMap<u64, JobRecord> = old.values().filter_map(record).collect();
        let new: BTreeMap<u64, JobRecord> = new.values().filter_map(record).collect();
        self.differences(
            (by_ref(&old), by_ref(&new)),
            |number| Key::Job(*number),
            |job: &JobRecord| job.encode().into(),
        );
    }

    /// Remembers the names of volumes that are gone, so that no start makes empty ones in their place, and
    /// forgets those of new volumes. Nobody has seen a volume that was never completed.
    fn remember_removed(
        &mut self,
        old: &BTreeMap<&Name, &Volume>,
        new: &BTreeMap<&Name, &Volume>,
        known: &Revisions,
    ) {
        let is_gone =
            |(name, volume): &(&&Name, &&Volume)| !new.contains_key(*name) && !volume.is_empty();
        let gone: BTreeSet<Key> = old
            .iter()
            .filter(is_gone)
            .map(|(name, _)| Key::RemovedVolume((*name).clone()))
            .collect();
        for name in new.keys().filter(|name| !old.contains_key(*name)) {
            self.forget(Key::RemovedVolume((*name).clone()), known);
        }
        if gone.is_empty() {
            return;
        }
        // The names that were removed first are forgotten, of more than this number.
        let is_kept = |(key, _): &(&Key, _)| {
            matches!(key, Key::RemovedVolume(_))
                && !gone.contains(key)
                && !self.deletes.contains(key)
        };
        let mut kept: Vec<_> = known.iter().filter(is_kept).collect();
        kept.sort_by_key(|(_, revision)| *revision);
        let excess = (kept.len() + gone.len()).saturating_sub(REMOVED_MAX);
        let first: Vec<Key> = kept.into_iter().take(excess).map(|(key, _)| key.clone()).collect();
        self.deletes.extend(first);
        gone.into_iter().for_each(|key| self.put(key, &FactRecord { schema: Schema }));
    }

    /// Adds the differences between two sets of records. A record whose serialized form is the same
    /// is not written.
    fn differences<K: Ord, T: PartialEq>(
        &mut self,
        (old, new): Both<'_, K, T>,
        key: impl Fn(&K) -> Key,
        value: impl Fn(&T) -> Zeroizing<Vec<u8>>,
    ) {
        for (at, record) in &new {
            let before = old.get(at);
            if before.is_some_and(|before| before == record) {
                continue;
            }
            let text = value(record);
            if before.is_none_or(|before| value(before) != text) {
                self.puts.push(Put { key: key(at), value: text, lease: None });
            }
        }
        self.deletes.extend(old.keys().filter(|at| !new.contains_key(at)).map(key));
    }

    fn put<R: Record>(&mut self, key: Key, record: &R) {
        self.puts.push(Put { key, value: record.encode().into(), lease: None });
    }

    /// Deletes a key if it is there.
    fn forget(&mut self, key: Key, known: &Revisions) {
        if known.of(&key).0 != 0 {
            self.deletes.push(key);
        }
    }

    fn last(&mut self, kind: Numbered, old: u64, number: u64) {
        if old != number {
            self.put(Key::Last(kind), &LastRecord { schema: Schema, number });
        }
    }
}

fn by_uuid(space: &Space) -> BTreeMap<Uuid, &Volume> {
    recorded(space).map(|volume| (volume.uuid, volume)).collect()
}

/// The namespaces of volumes, with their owners.
fn nsids<'a>(volumes: &BTreeMap<Uuid, &'a Volume>) -> BTreeSet<(&'a Name, u32, Uuid)> {
    volumes.iter().map(|(uuid, it)| (&it.subsystem, it.nsid, *uuid)).collect()
}

fn by_name(space: &Space) -> BTreeMap<&Name, &Volume> {
    recorded(space).map(|volume| (&volume.name, volume)).collect()
}

/// The volumes whose record is this node's.
fn recorded(space: &Space) -> impl Iterator<Item = &Volume> {
    space.volumes().filter(|volume| volume.home == Home::Node)
}

fn credentials(grants: &Grants) -> BTreeMap<&Name, &Credential> {
    grants.credentials().map(|credential| (&credential.id, credential)).collect()
}

fn grants(grants: &Grants) -> BTreeMap<u64, &Grant> {
    grants.grants().map(|grant| (grant.number.0, grant)).collect()
}

fn accounts(accounts: &Accounts) -> BTreeMap<&str, &ChapAccount> {
    accounts.iter().map(|account| (account.user.as_str(), account)).collect()
}

fn tokens(tokens: &Tokens) -> BTreeMap<&Name, &Token> {
    tokens.iter().map(|token| (&token.name, token)).collect()
}

/// The hosts with keys, and those whose keys were removed.
fn hosts(hosts: &HostTable) -> BTreeMap<&str, Option<&HostSecrets>> {
    let keyed = hosts.iter().map(|(host, keys)| (host.as_str(), Some(keys)));
    keyed.chain(hosts.removed().map(|host| (host.as_str(), None))).collect()
}

fn by_ref<K: Copy + Ord, T>(records: &BTreeMap<K, T>) -> BTreeMap<K, &T> {
    records.iter().map(|(key, record)| (*key, record)).collect()
}

/// The kinds of keys that the node has had at least once.
fn has_had(records: &Records) -> [(Closing, bool); 3] {
    [
        (Closing::Credential, records.grants.has_had_credential()),
        (Closing::Account, records.accounts.has_had_account()),
        (Closing::List, records.host_volumes.has_had_list()),
    ]
}

fn lists(lists: &HostVolumes) -> BTreeMap<&str, &VolumeList> {
    lists.iter().map(|(host, list)| (host.as_str(), list)).collect()
}

fn to_json<T: Serialize>(record: &T) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(serde_json::to_vec(record).expect("records are plain data"))
}
