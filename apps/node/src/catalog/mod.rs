//! The catalog: what a node must find again after a restart. Its own identity, the devices that it
//! has volumes on, where each volume lies, and who may use what of them.
//!
//! One `redb` file in the data directory; every change is one durable transaction, so that what is
//! found is what was last answered for. Records are JSON, one for each name, and carry what a
//! device is called by its label rather than by its place, which changes. Secrets are among them,
//! so the file is for its owner alone.
//!
//! The file has a schema number. One written by a later version is refused; an earlier one is
//! brought up to date when it is opened, by one function for each step. Whatever this version does
//! not know is refused too, be it a table or a field of a record: to pass over it would be to serve
//! without a reservation that somebody relies on, and to lose it with the next change. So a version
//! that adds anything which earlier ones must not overlook has a new schema; and where it does not,
//! they refuse what they do not know rather than drop it.

mod chap_record;
mod error;
mod grant_record;
mod lock;
mod record;
mod reservation_record;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nearflash_access::{Accounts, ChapUser, Credential, Grant, Grants};
use nearflash_device::DeviceId;
use nearflash_media::{Device, DeviceSpec, KnownDevice};
use nearflash_space::{Name, Space, Volume};
use nearflash_units::ByteLen;
use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle, WriteTransaction,
};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::NodeError;
use crate::records::Records;
use chap_record::ChapRecord;
use grant_record::{CredentialRecord, GrantRecord};
use lock::Lock;
use record::{DeviceRecord, VolumeRecord};

pub use error::CatalogError;

/// Facts by name: `schema`, `node`, `generation`, `last_grant`.
const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
/// [`DeviceRecord`] by name.
const DEVICES: TableDefinition<'_, &str, &str> = TableDefinition::new("devices");
/// [`VolumeRecord`] by name.
const VOLUMES: TableDefinition<'_, &str, &str> = TableDefinition::new("volumes");
/// [`CredentialRecord`] by key id.
const CREDENTIALS: TableDefinition<'_, &str, &str> = TableDefinition::new("credentials");
/// [`GrantRecord`] by number.
const GRANTS: TableDefinition<'_, &str, &str> = TableDefinition::new("grants");
/// [`ChapRecord`] by user.
const CHAP_ACCOUNTS: TableDefinition<'_, &str, &str> = TableDefinition::new("chap_accounts");

/// What this version writes.
const SCHEMA: usize = 1;

/// Step `n` brings a catalog of schema `n + 1` to the next one.
type Upgrade = fn(&WriteTransaction) -> Result<(), CatalogError>;
const UPGRADES: [Upgrade; SCHEMA - 1] = [];

/// Every table but [`META`].
const TABLES: [TableDefinition<'_, &str, &str>; 5] =
    [DEVICES, VOLUMES, CREDENTIALS, GRANTS, CHAP_ACCOUNTS];

/// The catalog of one node, open and locked.
#[derive(Debug)]
pub struct Catalog {
    database: Database,
    path: PathBuf,
    node: Uuid,
    /// Held until the catalog is dropped.
    _lock: Lock,
}

/// What a catalog holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// For messages.
    path: PathBuf,
    devices: Vec<(Name, DeviceRecord)>,
    volumes: Vec<(Name, VolumeRecord)>,
    credentials: Vec<(Name, CredentialRecord)>,
    grants: Vec<(Name, GrantRecord)>,
    last_grant: u64,
    accounts: Vec<(ChapUser, ChapRecord)>,
}

impl Catalog {
    /// Opens the catalog in that folder, making both when they are absent. `fresh` becomes the
    /// identity of a node that has none.
    ///
    /// # Errors
    /// When another node has it, it is of a later version, or the system refuses.
    pub fn open(data_dir: &Path, fresh: Uuid) -> Result<Self, CatalogError> {
        Self::open_with(data_dir, fresh, &UPGRADES)
    }

    /// The same of the version that has these steps.
    fn open_with(data_dir: &Path, fresh: Uuid, upgrades: &[Upgrade]) -> Result<Self, CatalogError> {
        let refused = |source| CatalogError::DataDir { path: data_dir.to_owned(), source };
        lock::make_private_dir(data_dir).map_err(refused)?;
        let lock = Lock::take(data_dir)?;
        let path = data_dir.join("catalog.redb");
        let database = Database::create(&path).map_err(|e| CatalogError::database(&path, e))?;
        // A fresh file holds no secret yet.
        lock::make_private_file(&path).map_err(refused)?;
        let mut catalog = Self { database, path, node: fresh, _lock: lock };
        catalog.node = catalog.prepare(fresh, upgrades)?;
        Ok(catalog)
    }

    /// The installation's identity: what labels on its devices say.
    pub fn node(&self) -> Uuid {
        self.node
    }

    /// Makes a new catalog's tables, or brings an old one's up to date, whole or not at all. The
    /// node's identity.
    fn prepare(&self, fresh: Uuid, upgrades: &[Upgrade]) -> Result<Uuid, CatalogError> {
        let current = upgrades.len() + 1;
        let transaction = self.begin()?;
        let schema = self.meta(&transaction, "schema")?;
        match schema.as_deref().map(str::parse::<usize>) {
            None => {
                self.set_meta(&transaction, "node", &fresh.to_string())?;
            }
            Some(Ok(schema)) if (1..=current).contains(&schema) => {
                upgrades[schema - 1..].iter().try_for_each(|upgrade| upgrade(&transaction))?;
            }
            Some(_) => {
                let found = schema.unwrap_or_default().into();
                return Err(CatalogError::Schema { path: self.path.clone(), found });
            }
        }
        self.check_tables(&transaction)?;
        // Opening makes those that are not there: the ones that came later, in an older file.
        for table in TABLES {
            transaction.open_table(table).map_err(|e| self.failed(e))?;
        }
        self.set_meta(&transaction, "schema", &current.to_string())?;
        let node = self.meta(&transaction, "node")?.and_then(|text| text.parse().ok());
        let damaged = || CatalogError::Damaged { path: self.path.clone(), what: "node".into() };
        let node = node.ok_or_else(damaged)?;
        transaction.commit().map_err(|e| self.failed(e))?;
        Ok(node)
    }

    /// Refuses a table that this version does not know.
    fn check_tables(&self, transaction: &WriteTransaction) -> Result<(), CatalogError> {
        let is_known = |name: &str| TABLES.iter().chain([&META]).any(|table| table.name() == name);
        let mut found = transaction.list_tables().map_err(|e| self.failed(e))?;
        match found.find(|table| !is_known(table.name())) {
            None => Ok(()),
            Some(table) => {
                let (path, table) = (self.path.clone(), table.name().into());
                Err(CatalogError::Table { path, table })
            }
        }
    }

    /// All that is recorded.
    pub(crate) fn read(&self) -> Result<Contents, CatalogError> {
        let transaction = self.database.begin_read().map_err(|e| self.failed(e))?;
        let table = |definition| transaction.open_table(definition).map_err(|e| self.failed(e));
        let meta = table(META)?;
        let last_grant = meta.get("last_grant").map_err(|e| self.failed(e))?;
        let last_grant = last_grant.and_then(|text| text.value().parse().ok());
        Ok(Contents {
            path: self.path.clone(),
            devices: self.records(&table(DEVICES)?)?,
            volumes: self.records(&table(VOLUMES)?)?,
            credentials: self.records(&table(CREDENTIALS)?)?,
            grants: self.records(&table(GRANTS)?)?,
            last_grant: last_grant.unwrap_or(0),
            accounts: self.records(&table(CHAP_ACCOUNTS)?)?,
        })
    }

    fn records<K: FromStr, T: serde::de::DeserializeOwned>(
        &self,
        table: &impl ReadableTable<&'static str, &'static str>,
    ) -> Result<Vec<(K, T)>, CatalogError> {
        let record = |name: &str, text: &str| {
            let parsed = name.parse().ok().zip(serde_json::from_str(text).ok());
            parsed
                .ok_or_else(|| CatalogError::Damaged { path: self.path.clone(), what: name.into() })
        };
        let entries = table.iter().map_err(|e| self.failed(e))?;
        entries
            .map(|entry| {
                let (name, text) = entry.map_err(|e| self.failed(e))?;
                record(name.value(), text.value())
            })
            .collect()
    }

    /// Records the whole, durably, in one transaction: all of it is there afterwards, or nothing
    /// has changed.
    pub(crate) fn commit(
        &self,
        recorded: &Records,
        devices: &[&Device],
    ) -> Result<(), CatalogError> {
        let Records { space, grants, accounts } = recorded;
        let transaction = self.begin()?;
        let records = devices.iter().map(|d| (d.name().clone(), DeviceRecord::of(d)));
        self.replace(&transaction, DEVICES, records)?;
        let records = space.volumes().map(|v| (v.name.clone(), VolumeRecord::of(v, space)));
        self.replace(&transaction, VOLUMES, records)?;
        let records = grants.credentials().map(|c| (c.id.clone(), CredentialRecord::of(c)));
        self.replace(&transaction, CREDENTIALS, records)?;
        let records = grants.grants().map(|grant| (number_name(grant), GrantRecord::of(grant)));
        self.replace(&transaction, GRANTS, records)?;
        let records = accounts.iter().map(|a| (a.user.clone(), ChapRecord::of(a)));
        self.replace(&transaction, CHAP_ACCOUNTS, records)?;
        self.set_meta(&transaction, "last_grant", &grants.last_number().to_string())?;
        let generation = self.meta(&transaction, "generation")?;
        let generation: u64 = generation.and_then(|text| text.parse().ok()).unwrap_or(0);
        self.set_meta(&transaction, "generation", &(generation + 1).to_string())?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    /// Makes a table hold these records alone, writing only those that changed.
    fn replace<K: FromStr + Ord + Display, T: serde::Serialize>(
        &self,
        transaction: &WriteTransaction,
        definition: TableDefinition<'static, &'static str, &'static str>,
        records: impl Iterator<Item = (K, T)>,
    ) -> Result<(), CatalogError> {
        let mut table = transaction.open_table(definition).map_err(|e| self.failed(e))?;
        let records: std::collections::BTreeMap<K, T> = records.collect();
        let is_recorded = |name: &str| name.parse().is_ok_and(|n: K| records.contains_key(&n));
        table.retain(|name, _| is_recorded(name)).map_err(|e| self.failed(e))?;
        for (name, record) in &records {
            let name = name.to_string();
            let text = serde_json::to_string(record).expect("records are plain data");
            let text = Zeroizing::new(text);
            let old = table.get(name.as_str()).map_err(|e| self.failed(e))?;
            let same = old.is_some_and(|old| old.value() == *text);
            if !same {
                table.insert(name.as_str(), text.as_str()).map_err(|e| self.failed(e))?;
            }
        }
        Ok(())
    }

    fn begin(&self) -> Result<WriteTransaction, CatalogError> {
        self.database.begin_write().map_err(|e| self.failed(e))
    }

    fn meta(
        &self,
        transaction: &WriteTransaction,
        key: &str,
    ) -> Result<Option<String>, CatalogError> {
        let table = transaction.open_table(META).map_err(|e| self.failed(e))?;
        let value = table.get(key).map_err(|e| self.failed(e))?;
        Ok(value.map(|value| value.value().to_owned()))
    }

    fn set_meta(
        &self,
        transaction: &WriteTransaction,
        key: &str,
        value: &str,
    ) -> Result<(), CatalogError> {
        let mut table = transaction.open_table(META).map_err(|e| self.failed(e))?;
        table.insert(key, value).map_err(|e| self.failed(e))?;
        Ok(())
    }

    fn failed(&self, error: impl Into<redb::Error>) -> CatalogError {
        CatalogError::Database { path: self.path.clone(), source: Box::new(error.into()) }
    }
}

impl Contents {
    /// The devices that volumes lie on: what [`nearflash_media::open`] must find there again.
    pub(crate) fn devices_in_use(&self) -> Vec<KnownDevice> {
        let in_use = |device: &DeviceRecord| {
            device.labelled && self.volumes.iter().any(|(_, v)| v.device == device.uuid)
        };
        let devices = self.devices.iter().filter(|(_, device)| in_use(device));
        devices.map(|(name, device)| device.known(name)).collect()
    }

    /// The recorded UUID of a device that has no label to say it, if it has been one before.
    pub(crate) fn unlabelled_uuid(&self, name: &Name) -> Option<Uuid> {
        let record = self.devices.iter().find(|(known, device)| known == name && !device.labelled);
        record.map(|(_, device)| device.uuid)
    }

    /// Every device that volumes lie on must be among those given, and no shorter than it was.
    pub(crate) fn check_given(&self, given: &[DeviceSpec]) -> Result<(), CatalogError> {
        for (volume, record) in &self.volumes {
            let device = self.devices.iter().find(|(_, device)| device.uuid == record.device);
            let spec = device.and_then(|(name, _)| given.iter().find(|spec| spec.name == *name));
            let ((name, device), spec) =
                device.zip(spec).ok_or_else(|| self.missing(volume, record))?;
            let is_shorter = |size: &ByteLen| size.0 < device.bytes;
            if let Some(size) = spec.memory_size().filter(is_shorter) {
                return Err(CatalogError::Shrunk {
                    device: name.clone(),
                    size,
                    recorded: ByteLen(device.bytes),
                });
            }
        }
        Ok(())
    }

    /// The recorded volumes, on these devices.
    pub(crate) fn volumes_on(&self, space: &Space) -> Result<Vec<Volume>, CatalogError> {
        let volume = |(name, record): &(Name, VolumeRecord)| {
            let mut devices = (0u32..).zip(space.devices());
            let device = devices.find(|(_, device)| device.uuid == record.device);
            let (device, _) = device.ok_or_else(|| self.missing(name, record))?;
            record.volume(name, DeviceId(device)).ok_or_else(|| CatalogError::Damaged {
                path: self.path.clone(),
                what: name.as_str().into(),
            })
        };
        self.volumes.iter().map(volume).collect()
    }

    /// Whether nobody could be let in by one.
    pub(crate) fn has_no_credential(&self) -> bool {
        self.credentials.is_empty()
    }

    /// The recorded credentials and grants.
    pub(crate) fn grants(&self) -> Result<Grants, NodeError> {
        let damaged = |what: &Name| CatalogError::Damaged {
            path: self.path.clone(),
            what: what.as_str().into(),
        };
        let credential = |(id, record): &(Name, CredentialRecord)| {
            record.credential(id).ok_or_else(|| damaged(id))
        };
        let grant = |(number, record): &(Name, GrantRecord)| {
            record.grant(number).ok_or_else(|| damaged(number))
        };
        let credentials: Result<Vec<Credential>, _> =
            self.credentials.iter().map(credential).collect();
        let grants: Result<Vec<Grant>, _> = self.grants.iter().map(grant).collect();
        Ok(Grants::restore(credentials?, grants?, self.last_grant)?)
    }

    /// The recorded CHAP accounts.
    pub(crate) fn accounts(&self) -> Result<Accounts, CatalogError> {
        let account = |(user, record): &(ChapUser, ChapRecord)| {
            record.account(user).ok_or_else(|| CatalogError::Damaged {
                path: self.path.clone(),
                what: user.as_str().into(),
            })
        };
        let accounts: Result<Vec<_>, _> = self.accounts.iter().map(account).collect();
        Ok(Accounts::restore(accounts?))
    }

    /// Whether no initiator could be let in by one.
    pub(crate) fn has_no_account(&self) -> bool {
        self.accounts.is_empty()
    }

    fn missing(&self, volume: &Name, record: &VolumeRecord) -> CatalogError {
        let device = self.devices.iter().find(|(_, device)| device.uuid == record.device);
        let name = device.map_or("?", |(name, _)| name.as_str());
        let (volume, device) = (volume.clone(), name.into());
        CatalogError::DeviceMissing { volume, device, uuid: record.device }
    }
}

/// What a grant's record is found by.
fn number_name(grant: &Grant) -> Name {
    grant.number.0.to_string().parse().expect("digits are a name")
}

#[cfg(test)]
mod tests;
