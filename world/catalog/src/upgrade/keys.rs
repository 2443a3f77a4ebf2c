//! From schema 3 to schema 4. Schema 3 had a table for each kind of record. Schema 4 has one table of keys, each
//! with the revision of its last change, as a cluster's store has: a change of either is the same transaction.
//!
//! The records of rights stay as they are. A volume's record has the form that the volumes of clusters will have,
//! its reservations become a record of their own, and the job that prepares it becomes one.

use std::collections::BTreeSet;

use nearflash_records::Key;
use nearflash_records::key::{Closing, Numbered, Text};
use nearflash_records::local::{
    FactRecord, JobKind, JobRecord, JobState, LastRecord, Layout, ReservationsRecord, RightsRecord,
    Runs, Subject, VolumeRecord, VolumeSchema,
};
use nearflash_records::record::{OwnerRecord, Record, RoomRecord, RoomState, Schema, VolumeState};
use nearflash_space::{Name, Provisioning};
use redb::{ReadableTable as _, Table, TableDefinition, WriteTransaction};
use serde::Deserialize;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    CHAP_ACCOUNTS, CREDENTIALS, Former, HAD_ACCOUNT, HAD_CREDENTIAL, HAD_LIST, HOST_VOLUMES,
    VOLUME_NAMES, VOLUMES, damaged, failed,
};
use crate::commit::value_of;
use crate::{CatalogError, META, RECORDS};

const DEVICES: Former = TableDefinition::new("devices");
const GRANTS: Former = TableDefinition::new("grants");
const TOKENS: Former = TableDefinition::new("tokens");
const NVME_HOSTS: Former = TableDefinition::new("nvme_hosts");
const REMOVED_VOLUMES: Former = TableDefinition::new("removed_volumes");

/// A volume in schema 3.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormerVolume {
    name: Box<str>,
    block_size: u32,
    blocks: u64,
    subsystem: Box<str>,
    nsid: u32,
    epoch: u64,
    extents: Vec<Runs>,
    #[serde(default)]
    provisioning: Option<Box<str>>,
    #[serde(default)]
    preparing: Option<FormerPreparation>,
    #[serde(default)]
    reservations: Option<ReservationsRecord>,
}

/// The blocks of a volume that were not yet visible to hosts.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormerPreparation {
    blocks: u64,
    job: u64,
}

/// Writes records of the new schema.
struct Writer<'txn> {
    transaction: &'txn WriteTransaction,
    records: Table<'txn, &'static str, &'static [u8]>,
    /// Of all records but those that have had one.
    revision: u64,
}

pub(super) fn records_by_key(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    let generation = meta_number(transaction, "generation")?;
    let records = transaction.open_table(RECORDS).map_err(failed)?;
    let mut writer = Writer { transaction, records, revision: generation };
    writer.copy(DEVICES, |text| Some(Key::Device(text.parse().ok()?)))?;
    writer.copy(CREDENTIALS, |text| Some(Key::Credential(text.parse().ok()?)))?;
    writer.copy(GRANTS, |text| Some(Key::Grant(text.parse().ok()?)))?;
    writer.copy(CHAP_ACCOUNTS, |text| Some(Key::Chap(Text::new(text))))?;
    writer.copy(TOKENS, |text| Some(Key::Token(text.parse().ok()?)))?;
    writer.copy(NVME_HOSTS, |text| Some(Key::Host(Text::new(text))))?;
    writer.copy(HOST_VOLUMES, |text| Some(Key::List(Text::new(text))))?;
    writer.volumes()?;
    writer.names()?;
    writer.removed()?;
    for (fact, kind) in [("last_grant", Numbered::Grant), ("last_job", Numbered::Job)] {
        let number = meta_number(transaction, fact)?;
        if number != 0 {
            writer.put(&Key::Last(kind), &LastRecord { schema: Schema, number })?;
        }
    }
    for (fact, kind) in [
        (HAD_CREDENTIAL, Closing::Credential),
        (HAD_ACCOUNT, Closing::Account),
        (HAD_LIST, Closing::List),
    ] {
        if meta_number(transaction, fact)? != 0 {
            writer.put(&Key::Had(kind), &FactRecord { schema: Schema })?;
        }
    }
    let mut meta = transaction.open_table(META).map_err(failed)?;
    for fact in ["last_grant", "last_job", HAD_CREDENTIAL, HAD_ACCOUNT, HAD_LIST] {
        meta.remove(fact).map_err(failed)?;
    }
    Ok(())
}

fn meta_number(transaction: &WriteTransaction, fact: &str) -> Result<u64, CatalogError> {
    let meta = transaction.open_table(META).map_err(failed)?;
    let text = meta.get(fact).map_err(failed)?;
    text.map_or(Ok(0), |text| text.value().parse().map_err(|_| damaged(fact)))
}

impl Writer<'_> {
    fn put<R: Record>(&mut self, key: &Key, record: &R) -> Result<(), CatalogError> {
        self.put_text(key, &record.encode(), self.revision)
    }

    fn put_text(&mut self, key: &Key, record: &[u8], revision: u64) -> Result<(), CatalogError> {
        let value = value_of(revision, record);
        self.records.insert(key.to_string().as_str(), value.as_slice()).map_err(failed)?;
        Ok(())
    }

    /// The entries of a former table, which is deleted.
    fn take(&mut self, table: Former) -> Result<Vec<(String, Zeroizing<String>)>, CatalogError> {
        let mut taken = Vec::new();
        let opened = self.transaction.open_table(table).map_err(failed)?;
        for entry in opened.iter().map_err(failed)? {
            let (key, text) = entry.map_err(failed)?;
            taken.push((key.value().to_owned(), text.value().to_owned().into()));
        }
        drop(opened);
        self.transaction.delete_table(table).map_err(failed)?;
        Ok(taken)
    }

    /// Records that stay as they are.
    fn copy(
        &mut self,
        table: Former,
        key: impl Fn(&str) -> Option<Key>,
    ) -> Result<(), CatalogError> {
        for (text, record) in self.take(table)? {
            let key = key(&text).ok_or_else(|| damaged(&text))?;
            self.put_text(&key, record.as_bytes(), self.revision)?;
        }
        Ok(())
    }

    fn volumes(&mut self) -> Result<(), CatalogError> {
        let mut in_use = BTreeSet::new();
        for (text, record) in self.take(VOLUMES)? {
            let former: Option<FormerVolume> = serde_json::from_str(&record).ok();
            let uuid: Option<Uuid> = text.parse().ok();
            let (uuid, former) = uuid.zip(former).ok_or_else(|| damaged(&text))?;
            in_use.extend(former.extents.iter().map(|runs| runs.device));
            self.volume(uuid, former).and_then(|it| it.ok_or_else(|| damaged(&text)))?;
        }
        for device in in_use {
            let room = RoomRecord { schema: Schema, state: RoomState::In, version: self.revision };
            self.put(&Key::Room(device), &room)?;
        }
        Ok(())
    }

    /// One volume; `None` when a field holds a value that no version writes.
    fn volume(&mut self, uuid: Uuid, former: FormerVolume) -> Result<Option<()>, CatalogError> {
        let (Ok(name), Ok(subsystem)) = (former.name.parse(), former.subsystem.parse()) else {
            return Ok(None);
        };
        let provisioning = former.provisioning.as_deref().map(str::parse).transpose();
        let Ok(provisioning) = provisioning else { return Ok(None) };
        let name: Name = name;
        let record = VolumeRecord {
            schema: VolumeSchema,
            name,
            subsystem,
            nsid: former.nsid,
            block_size: former.block_size,
            blocks: former.blocks,
            epoch: former.epoch,
            provisioning: provisioning.unwrap_or(Provisioning::Thin),
            state: if former.blocks == 0 { VolumeState::Making } else { VolumeState::Ready },
            planned: former.preparing.map(|it| it.blocks),
            job: former.preparing.map(|it| it.job),
            layout: Layout::Runs(former.extents),
        };
        self.put(&Key::Volume(uuid), &record)?;
        let owner = OwnerRecord { schema: Schema, owner: uuid };
        self.put(&Key::Nsid(record.subsystem.clone(), record.nsid), &owner)?;
        if let Some(FormerPreparation { job, .. }) = former.preparing {
            let kind = match record.state {
                VolumeState::Making => JobKind::CreateVolume,
                VolumeState::Ready | VolumeState::Removing => JobKind::GrowVolume,
            };
            let (subject, state) = (Subject::Volume(uuid), JobState::Running);
            self.put(&Key::Job(job), &JobRecord { schema: Schema, kind, subject, state })?;
        }
        if let Some(reservations) = former.reservations {
            let (version, reservations) = (self.revision, Some(reservations));
            let rights = RightsRecord { schema: Schema, version, reservations };
            self.put(&Key::Rights(uuid), &rights)?;
        }
        Ok(Some(()))
    }

    fn names(&mut self) -> Result<(), CatalogError> {
        for (text, uuid) in self.take(VOLUME_NAMES)? {
            let (name, owner) = (text.parse().ok(), uuid.parse().ok());
            let (name, owner) = name.zip(owner).ok_or_else(|| damaged(&text))?;
            self.put(&Key::VolumeName(name), &OwnerRecord { schema: Schema, owner })?;
        }
        Ok(())
    }

    /// The names of removed volumes had the generation of the removal as their value.
    fn removed(&mut self) -> Result<(), CatalogError> {
        let record = FactRecord { schema: Schema }.encode();
        for (text, generation) in self.take(REMOVED_VOLUMES)? {
            let (name, generation) = (text.parse().ok(), generation.parse().ok());
            let (name, generation) = name.zip(generation).ok_or_else(|| damaged(&text))?;
            self.put_text(&Key::RemovedVolume(name), &record, generation)?;
        }
        Ok(())
    }
}
