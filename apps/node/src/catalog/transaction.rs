//! A change of the catalog as a value: the generation that it was decided on, the records that it
//! writes and the records that it deletes. Any store that can compare one number and write several
//! keys in one step can apply it.

use std::collections::BTreeMap;
use std::fmt::Display;

use nearflash_access::{Accounts, ChapAccount, Credential, Grant, Grants, HostVolumes, VolumeList};
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_space::{Home, Name, Space, Volume};
use redb::TableDefinition;
use serde::Serialize;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::chap_record::ChapRecord;
use super::grant_record::{CredentialRecord, GrantRecord};
use super::host_record::HostRecord;
use super::host_volumes_record::HostVolumesRecord;
use super::record::{DeviceRecord, VolumeRecord};
use super::token_record::TokenRecord;
use super::{HAD_ACCOUNT, HAD_CREDENTIAL, HAD_LIST};
use crate::records::Records;
use crate::tokens::{Token, Tokens};

/// The table that keeps a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Table {
    /// Values by name: `schema`, `node`, `generation`, `last_grant`, `last_job`, `ordinal`,
    /// `cluster_seen`, `had_credential`, `had_account`, `had_list`.
    Meta,
    /// [`DeviceRecord`] by name.
    Devices,
    /// [`VolumeRecord`] by UUID.
    Volumes,
    /// The UUID of a volume by its name.
    VolumeNames,
    /// [`CredentialRecord`] by key id.
    Credentials,
    /// [`GrantRecord`] by number.
    Grants,
    /// [`ChapRecord`] by user.
    ChapAccounts,
    /// [`TokenRecord`] by name.
    Tokens,
    /// [`HostRecord`] by NQN, also of hosts whose keys were removed.
    NvmeHosts,
    /// [`HostVolumesRecord`] by the name of the host.
    HostVolumes,
    /// The names of volumes that were removed, with the generation of the removal.
    RemovedVolumes,
}

impl Table {
    pub(super) const ALL: [Self; 11] = [
        Self::Meta,
        Self::Devices,
        Self::Volumes,
        Self::VolumeNames,
        Self::Credentials,
        Self::Grants,
        Self::ChapAccounts,
        Self::Tokens,
        Self::NvmeHosts,
        Self::HostVolumes,
        Self::RemovedVolumes,
    ];

    pub(super) const fn definition(self) -> TableDefinition<'static, &'static str, &'static str> {
        TableDefinition::new(match self {
            Self::Meta => "meta",
            Self::Devices => "devices",
            Self::Volumes => "volumes",
            Self::VolumeNames => "volume_names",
            Self::Credentials => "credentials",
            Self::Grants => "grants",
            Self::ChapAccounts => "chap_accounts",
            Self::Tokens => "tokens",
            Self::NvmeHosts => "nvme_hosts",
            Self::HostVolumes => "host_volumes",
            Self::RemovedVolumes => "removed_volumes",
        })
    }
}

/// A record to write. It may hold a secret.
pub(super) struct Put {
    pub(super) table: Table,
    pub(super) key: String,
    pub(super) value: Zeroizing<String>,
}

/// A change of the catalog.
#[derive(Default)]
pub(crate) struct Transaction {
    /// The generation of the records that the change was decided on.
    pub(super) expected: u64,
    pub(super) puts: Vec<Put>,
    pub(super) deletes: Vec<(Table, String)>,
}

impl Transaction {
    /// The change from the old records to the new ones. Only records that differ are written.
    pub(crate) fn between(old: &Records, new: &Records) -> Self {
        let mut it = Self { expected: old.generation, ..Self::default() };
        let (old_space, new_space) = (&old.space, &new.space);
        it.differences(Table::Volumes, (by_uuid(old_space), by_uuid(new_space)), |volume| {
            to_json(&VolumeRecord::of(volume, new_space))
        });
        it.differences(Table::VolumeNames, (by_name(old_space), by_name(new_space)), |volume| {
            Zeroizing::new(volume.uuid.to_string())
        });
        it.remember_removed(&by_name(old_space), &by_name(new_space));
        it.differences(
            Table::Credentials,
            (credentials(&old.grants), credentials(&new.grants)),
            |credential| to_json(&CredentialRecord::of(credential)),
        );
        it.differences(Table::Grants, (grants(&old.grants), grants(&new.grants)), |grant| {
            to_json(&GrantRecord::of(grant))
        });
        it.differences(
            Table::ChapAccounts,
            (accounts(&old.accounts), accounts(&new.accounts)),
            |account| to_json(&ChapRecord::of(account)),
        );
        it.differences(Table::Tokens, (tokens(&old.tokens), tokens(&new.tokens)), |token| {
            to_json(&TokenRecord::of(token))
        });
        let (old_hosts, new_hosts) = (hosts(&old.hosts), hosts(&new.hosts));
        it.differences(Table::NvmeHosts, (by_ref(&old_hosts), by_ref(&new_hosts)), |keys| {
            to_json(&keys.map_or_else(HostRecord::of_removed, HostRecord::of))
        });
        it.differences(
            Table::HostVolumes,
            (lists(&old.host_volumes), lists(&new.host_volumes)),
            |list| to_json(&HostVolumesRecord::of(list)),
        );
        it.fact("last_grant", old.grants.last_number(), new.grants.last_number());
        it.fact("last_job", old.last_job, new.last_job);
        for ((key, old), (_, new)) in has_had(old).into_iter().zip(has_had(new)) {
            it.fact(key, old.into(), new.into());
        }
        it
    }

    /// Writes the records of the devices that are given now, and deletes the others.
    pub(super) fn with_devices(
        mut self,
        old: &BTreeMap<Name, DeviceRecord>,
        new: &BTreeMap<Name, DeviceRecord>,
    ) -> Self {
        self.differences(Table::Devices, (old.iter().collect(), new.iter().collect()), to_json);
        self
    }

    /// Whether the change is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Remembers the names of volumes that are gone, so that no start makes empty ones in their place, and
    /// forgets those of new volumes. Nobody has seen a volume that was never completed.
    fn remember_removed(&mut self, old: &BTreeMap<&Name, &Volume>, new: &BTreeMap<&Name, &Volume>) {
        let generation = self.expected + 1;
        for (name, volume) in old {
            if !new.contains_key(name) && !volume.is_empty() {
                let (key, value) = (name.to_string(), Zeroizing::new(generation.to_string()));
                self.puts.push(Put { table: Table::RemovedVolumes, key, value });
            }
        }
        let made = new.keys().filter(|name| !old.contains_key(*name));
        self.deletes.extend(made.map(|name| (Table::RemovedVolumes, name.to_string())));
    }

    /// Adds the differences between two sets of records. A record whose serialized form is the same
    /// is not written.
    fn differences<K: Display + Ord, T: PartialEq>(
        &mut self,
        table: Table,
        (old, new): (BTreeMap<K, &T>, BTreeMap<K, &T>),
        text: impl Fn(&T) -> Zeroizing<String>,
    ) {
        for (key, record) in &new {
            let before = old.get(key);
            if before.is_some_and(|before| before == record) {
                continue;
            }
            let value = text(record);
            if before.is_none_or(|before| text(before) != value) {
                self.puts.push(Put { table, key: key.to_string(), value });
            }
        }
        let gone = old.keys().filter(|key| !new.contains_key(key));
        self.deletes.extend(gone.map(|key| (table, key.to_string())));
    }

    fn fact(&mut self, key: &str, old: u64, new: u64) {
        if old != new {
            let value = Zeroizing::new(new.to_string());
            self.puts.push(Put { table: Table::Meta, key: key.to_owned(), value });
        }
    }
}

fn by_uuid(space: &Space) -> BTreeMap<Uuid, &Volume> {
    recorded(space).map(|volume| (volume.uuid, volume)).collect()
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

fn by_ref<'a, T>(records: &'a BTreeMap<&'a str, T>) -> BTreeMap<&'a str, &'a T> {
    records.iter().map(|(key, record)| (*key, record)).collect()
}

/// The kinds of keys that the node has had at least once, by the key of the fact.
fn has_had(records: &Records) -> [(&'static str, bool); 3] {
    [
        (HAD_CREDENTIAL, records.grants.has_had_credential()),
        (HAD_ACCOUNT, records.accounts.has_had_account()),
        (HAD_LIST, records.host_volumes.has_had_list()),
    ]
}

fn lists(lists: &HostVolumes) -> BTreeMap<&str, &VolumeList> {
    lists.iter().map(|(host, list)| (host.as_str(), list)).collect()
}

fn to_json<T: Serialize>(record: &T) -> Zeroizing<String> {
    Zeroizing::new(serde_json::to_string(record).expect("records are plain data"))
}
