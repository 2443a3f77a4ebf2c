//! The catalog: the state that a node must find again after a restart. It holds the node's
//! identity, the devices that hold volumes, the extents of each volume, and the access rights to
//! them.
//!
//! The catalog is one `redb` file in the data directory. A change is a [`Transaction`]: the
//! generation that it was decided on, and the records that it writes and deletes. A change is
//! durable before any client hears of it. Records are JSON. A volume's key is its UUID, with an
//! index of the names, and its record names devices by UUID, since a device's path may change.
//! Secrets are among the records, so only the owner can read the file.
//!
//! Each block of the file has a checksum ([`Store`]), so a damaged file is an error that names it, and the
//! database never reads it. A commit that has failed leaves the last state, and the next one can succeed.
//!
//! The file has a schema number. A file of a later schema is refused; a file of an earlier schema
//! is upgraded when it is opened, by one function for each step. A table or a field that this
//! version does not know is refused too: to ignore it would be to serve without, say, a reservation
//! that a host relies on, and to lose it with the next change. A version that adds anything which
//! earlier versions must not overlook therefore has a new schema; where it does not, earlier
//! versions refuse the unknown part rather than drop it.

mod chap_record;
mod contents;
mod error;
mod grant_record;
mod host_record;
mod host_volumes_record;
mod record;
mod reservation_record;
mod store;
mod token_record;
mod transaction;
mod upgrade;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_data_dir::{DataDirError, Lock, make_private_dir, make_private_file, sync_dir};
use nearflash_records::kept::SeenRecord;
use redb::{
    Database, ReadTransaction, ReadableTable, ReadableTableMetadata, TableHandle, WriteTransaction,
};
use uuid::Uuid;
use zeroize::Zeroizing;

use store::{Kind, Store};
use transaction::{Put, Table};
use upgrade::{UPGRADES, Upgrade};

pub(crate) use contents::{Contents, HasHad};
pub use error::CatalogError;
pub(crate) use transaction::Transaction;

/// The removed volumes whose names are remembered: as many as a node can have volumes.
const REMOVED_MAX: u64 = 4096;

/// The key of the node's cluster and its number in it.
const ORDINAL: &str = "ordinal";

/// The keys of the facts that the node has had a credential, an account, a list of a host: 1, or absent.
const HAD_CREDENTIAL: &str = "had_credential";
const HAD_ACCOUNT: &str = "had_account";
const HAD_LIST: &str = "had_list";

/// The key of what the node has seen of its cluster's store.
const SEEN: &str = "cluster_seen";

/// A record before a change; `None` if there was none. It may hold a secret.
type Former = (Table, String, Option<Zeroizing<String>>);

/// A change whose commit has failed: its effect is unknown.
struct Doubt {
    /// The generation before it.
    generation: u64,
    undo: Vec<Former>,
}

/// The node of a data directory, and what it has seen of its cluster's store. A machine without a node has no
/// catalog, and its node is nil.
///
/// # Errors
/// When a node runs, or the catalog cannot be read.
pub fn kept(
    data_dir: &Path,
) -> Result<(Uuid, Option<SeenRecord>), Box<dyn std::error::Error + Send + Sync>> {
    if !data_dir.join("catalog.redb").exists() {
        return Ok((Uuid::nil(), None));
    }
    let catalog = Catalog::open(data_dir, Uuid::new_v4())?;
    Ok((catalog.node(), catalog.seen()?))
}

/// The catalog of one node, open and locked.
pub struct Catalog {
    store: Store,
    path: PathBuf,
    node: Uuid,
    doubt: Mutex<Option<Doubt>>,
    /// Held until the catalog is dropped. `None` in tests of the database alone.
    lock: Option<Lock>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Opens the catalog in that directory, and creates both when they are absent. A new catalog
    /// takes `fresh` as the node's identity.
    ///
    /// # Errors
    /// When another node holds the lock, a later version wrote the catalog, or the system returns
    /// an error.
    pub fn open(data_dir: &Path, fresh: Uuid) -> Result<Self, CatalogError> {
        Self::open_with(data_dir, fresh, &UPGRADES)
    }

    /// [`Self::open`] of a version that has these upgrade steps.
    fn open_with(data_dir: &Path, fresh: Uuid, upgrades: &[Upgrade]) -> Result<Self, CatalogError> {
        let refused = |source| DataDirError::Unusable { path: data_dir.to_owned(), source };
        make_private_dir(data_dir).map_err(refused)?;
        let lock = Lock::take(data_dir)?;
        let path = data_dir.join("catalog.redb");
        if !path.exists() {
            Self::make(data_dir, &path, |_| Ok(()))?;
        }
        match store::kind_of(&path).map_err(refused)? {
            Kind::Empty => return Err(CatalogError::Empty { path }),
            Kind::Plain => Self::guard(data_dir, &path)?,
            Kind::Guarded => {}
        }
        let store = Store::in_file(&path).map_err(|e| CatalogError::of(&path, e))?;
        let catalog = Self::over(store, path, fresh, upgrades)?;
        Ok(Self { lock: Some(lock), ..catalog })
    }

    /// Makes a catalog under another name first, since a power cut can leave a partial file, which
    /// no database opens. The final name is durable before any device is labelled: the identity in
    /// a label must not outlive the catalog.
    fn make(
        data_dir: &Path,
        path: &Path,
        fill: impl FnOnce(Database) -> Result<(), redb::Error>,
    ) -> Result<(), CatalogError> {
        let refused = |source| DataDirError::Unusable { path: data_dir.to_owned(), source };
        let part = data_dir.join("catalog.redb.part");
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(refused(error).into());
            }
            _ => {}
        }
        let failed = |error| CatalogError::of(&part, error);
        let database = store::create(&part).map_err(failed)?;
        make_private_file(&part).map_err(refused)?;
        fill(database).map_err(failed)?;
        std::fs::rename(&part, path).map_err(refused)?;
        Ok(sync_dir(data_dir).map_err(refused)?)
    }

    /// Gives a catalog of an earlier build the checksums of its blocks.
    fn guard(data_dir: &Path, path: &Path) -> Result<(), CatalogError> {
        let plain = Database::open(path).map_err(|e| CatalogError::of(path, e.into()))?;
        Self::make(data_dir, path, |database| store::copy(&plain, &database))
    }

    /// A catalog over an open database, without a lock.
    fn over(
        store: Store,
        path: PathBuf,
        fresh: Uuid,
        upgrades: &[Upgrade],
    ) -> Result<Self, CatalogError> {
        let mut catalog = Self { store, path, node: fresh, doubt: Mutex::default(), lock: None };
        catalog.node = catalog.prepare(fresh, upgrades)?;
        Ok(catalog)
    }

    /// The identity of the installation, which the labels on its devices carry.
    pub fn node(&self) -> Uuid {
        self.node
    }

    /// The previous owner of the data directory, if it was killed rather than stopped.
    pub(crate) fn ended(&self) -> Option<u32> {
        self.lock.as_ref().and_then(Lock::ended)
    }

    /// From now on, operations may be in flight on the node's devices.
    pub(crate) fn serve(&self) {
        self.lock.iter().for_each(Lock::serve);
    }

    /// Records that the node's devices are released: the next process need not wait for them.
    pub(crate) fn devices_released(&self) {
        self.lock.iter().for_each(Lock::forget_owner);
    }

    /// Creates the tables of a new catalog, or upgrades an old one, in one transaction. Returns the
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
                let steps = &mut upgrades[schema - 1..].iter();
                let made = steps.try_for_each(|upgrade| upgrade(&transaction));
                made.map_err(|error| error.at(&self.path))?;
            }
            Some(_) => {
                let found = schema.unwrap_or_default().into();
                return Err(CatalogError::Schema { path: self.path.clone(), found });
            }
        }
        self.check_tables(&transaction)?;
        // Opening a table creates it if it is absent, as a newer table is in an older file.
        for table in Table::ALL {
            transaction.open_table(table.definition()).map_err(|e| self.failed(e))?;
        }
        self.set_meta(&transaction, "schema", &current.to_string())?;
        let node = self.meta(&transaction, "node")?.and_then(|text| text.parse().ok());
        let node = node.ok_or_else(|| self.damaged("node"))?;
        transaction.commit().map_err(|e| self.failed(e))?;
        Ok(node)
    }

    /// Refuses a table that this version does not know.
    fn check_tables(&self, transaction: &WriteTransaction) -> Result<(), CatalogError> {
        let is_known =
            |name: &str| Table::ALL.iter().any(|table| table.definition().name() == name);
        let mut found = transaction.list_tables().map_err(|e| self.failed(e))?;
        match found.find(|table| !is_known(table.name())) {
            None => Ok(()),
            Some(table) => {
                let (path, table) = (self.path.clone(), table.name().into());
                Err(CatalogError::Table { path, table })
            }
        }
    }

    /// Every record of the catalog.
    pub(crate) fn read(&self) -> Result<Contents, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let contents = Contents {
            path: self.path.clone(),
            generation: self.number(&transaction, "generation")?,
            devices: self.records(&transaction, Table::Devices)?,
            volumes: self.records(&transaction, Table::Volumes)?,
            credentials: self.records(&transaction, Table::Credentials)?,
            grants: self.records(&transaction, Table::Grants)?,
            last_grant: self.number(&transaction, "last_grant")?,
            last_job: self.number(&transaction, "last_job")?,
            has_had: HasHad {
                credential: self.number(&transaction, HAD_CREDENTIAL)? != 0,
                account: self.number(&transaction, HAD_ACCOUNT)? != 0,
                list: self.number(&transaction, HAD_LIST)? != 0,
            },
            accounts: self.records(&transaction, Table::ChapAccounts)?,
            tokens: self.records(&transaction, Table::Tokens)?,
            hosts: self.records(&transaction, Table::NvmeHosts)?,
            host_volumes: self.records(&transaction, Table::HostVolumes)?,
            removed_volumes: self.records(&transaction, Table::RemovedVolumes)?,
        };
        let names = self.texts(&transaction, Table::VolumeNames)?;
        contents.check_names(&names)?;
        Ok(contents)
    }

    fn records<K: FromStr + Ord, T: serde::de::DeserializeOwned>(
        &self,
        transaction: &ReadTransaction,
        table: Table,
    ) -> Result<BTreeMap<K, T>, CatalogError> {
        let table = transaction.open_table(table.definition()).map_err(|e| self.failed(e))?;
        let entries = table.iter().map_err(|e| self.failed(e))?;
        let record = |name: &str, text: &str| {
            let parsed = name.parse().ok().zip(serde_json::from_str(text).ok());
            parsed.ok_or_else(|| self.damaged(name))
        };
        entries
            .map(|entry| {
                let (name, text) = entry.map_err(|e| self.failed(e))?;
                record(name.value(), text.value())
            })
            .collect()
    }

    /// The entries of a table whose values are not JSON.
    fn texts(
        &self,
        transaction: &ReadTransaction,
        table: Table,
    ) -> Result<BTreeMap<String, String>, CatalogError> {
        let table = transaction.open_table(table.definition()).map_err(|e| self.failed(e))?;
        let entries = table.iter().map_err(|e| self.failed(e))?;
        entries
            .map(|entry| {
                let (key, text) = entry.map_err(|e| self.failed(e))?;
                Ok((key.value().to_owned(), text.value().to_owned()))
            })
            .collect()
    }

    /// The number under `key` in the table `meta`; 0 before the first write.
    fn number(&self, transaction: &ReadTransaction, key: &str) -> Result<u64, CatalogError> {
        let table = transaction.open_table(Table::Meta.definition()).map_err(|e| self.failed(e))?;
        let text = table.get(key).map_err(|e| self.failed(e))?;
        text.map_or(Ok(0), |text| text.value().parse().map_err(|_| self.damaged(key)))
    }

    /// The number that the node has in a cluster, as it last learned it. The cluster never changes it.
    pub(crate) fn ordinal(&self, cluster: Uuid) -> Result<Option<u16>, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let table = transaction.open_table(Table::Meta.definition()).map_err(|e| self.failed(e))?;
        let Some(text) = table.get(ORDINAL).map_err(|e| self.failed(e))? else { return Ok(None) };
        let (of, ordinal) = text.value().split_once(' ').ok_or_else(|| self.damaged(ORDINAL))?;
        if of != cluster.to_string() {
            return Ok(None);
        }
        ordinal.parse().map(Some).map_err(|_| self.damaged(ORDINAL))
    }

    /// Keeps the number that the node has in a cluster, for a start without the cluster's store.
    pub(crate) fn keep_ordinal(&self, cluster: Uuid, ordinal: u16) -> Result<(), CatalogError> {
        if self.ordinal(cluster)? == Some(ordinal) {
            return Ok(());
        }
        let transaction = self.begin()?;
        self.set_meta(&transaction, ORDINAL, &format!("{cluster} {ordinal}"))?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    /// The newest state of its cluster's store that the node has seen.
    pub(crate) fn seen(&self) -> Result<Option<SeenRecord>, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let table = transaction.open_table(Table::Meta.definition()).map_err(|e| self.failed(e))?;
        let text = table.get(SEEN).map_err(|e| self.failed(e))?;
        let record = text.map(|it| serde_json::from_str(it.value())).transpose();
        record.map_err(|_| self.damaged(SEEN))
    }

    /// Keeps what the node has seen of its cluster's store, so that a store that goes back is known.
    pub(crate) fn keep_seen(&self, record: &SeenRecord) -> Result<(), CatalogError> {
        if self.seen()?.is_some_and(|kept| !record.replaces(&kept)) {
            return Ok(());
        }
        let text = serde_json::to_string(record).expect("the record has no maps");
        let transaction = self.begin()?;
        self.set_meta(&transaction, SEEN, &text)?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    /// Makes the change durable, as a whole or not at all, and returns the generation of the
    /// records after it. An empty change is not written.
    pub(crate) fn commit(&self, change: &Transaction) -> Result<u64, CatalogError> {
        if change.is_empty() {
            return Ok(change.expected);
        }
        self.settle()?;
        let committed = self.try_commit(change);
        if committed.is_err() {
            // If the file still fails, the next change does this.
            let _ = self.settle();
        }
        committed
    }

    fn try_commit(&self, change: &Transaction) -> Result<u64, CatalogError> {
        let expected = change.expected;
        let transaction = self.begin()?;
        let found = self.meta(&transaction, "generation")?;
        if found.as_deref().unwrap_or("0").parse() != Ok(expected) {
            let found = found.unwrap_or_default().into();
            return Err(CatalogError::Overtaken { path: self.path.clone(), expected, found });
        }
        let undo = self.apply(&transaction, change)?;
        self.set_meta(&transaction, "generation", &(expected + 1).to_string())?;
        *self.doubt() = Some(Doubt { generation: expected, undo });
        transaction.commit().map_err(|e| self.failed(e))?;
        *self.doubt() = None;
        Ok(expected + 1)
    }

    /// Deletes and writes the records of a change. Returns what they were, the last one first.
    fn apply(
        &self,
        transaction: &WriteTransaction,
        change: &Transaction,
    ) -> Result<Vec<Former>, CatalogError> {
        let open =
            |table: Table| transaction.open_table(table.definition()).map_err(|e| self.failed(e));
        let mut undo = Vec::new();
        for (table, key) in &change.deletes {
            let mut opened = open(*table)?;
            let former = opened.remove(key.as_str()).map_err(|e| self.failed(e))?;
            undo.push((*table, key.clone(), former.map(|text| text.value().to_owned().into())));
        }
        for Put { table, key, value } in &change.puts {
            let mut opened = open(*table)?;
            let former = opened.insert(key.as_str(), value.as_str()).map_err(|e| self.failed(e))?;
            undo.push((*table, key.clone(), former.map(|text| text.value().to_owned().into())));
        }
        if change.puts.iter().any(|put| put.table == Table::RemovedVolumes) {
            self.forget_removed(transaction, &mut undo)?;
        }
        undo.reverse();
        Ok(undo)
    }

    /// Forgets the names that were removed first, of more than [`REMOVED_MAX`].
    fn forget_removed(
        &self,
        transaction: &WriteTransaction,
        undo: &mut Vec<Former>,
    ) -> Result<(), CatalogError> {
        let of = Table::RemovedVolumes;
        let mut table = transaction.open_table(of.definition()).map_err(|e| self.failed(e))?;
        while table.len().map_err(|e| self.failed(e))? > REMOVED_MAX {
            let mut first: Option<(u64, String)> = None;
            for entry in table.iter().map_err(|e| self.failed(e))? {
                let (name, generation) = entry.map_err(|e| self.failed(e))?;
                let generation = generation.value().parse().unwrap_or(0);
                if first.as_ref().is_none_or(|(lowest, _)| generation < *lowest) {
                    first = Some((generation, name.value().to_owned()));
                }
            }
            let (_, name) = first.expect("it has more than none");
            let former = table.remove(name.as_str()).map_err(|e| self.failed(e))?;
            let former = former.map(|text| text.value().to_owned().into());
            undo.push((of, name, former));
        }
        Ok(())
    }

    /// After a change of which it is unknown whether it took effect, and which was reported as failed: undoes
    /// it if it did.
    fn settle(&self) -> Result<(), CatalogError> {
        let mut doubt = self.doubt();
        let Some(Doubt { generation, undo }) = &*doubt else { return Ok(()) };
        let transaction = self.begin()?;
        let found = self.meta(&transaction, "generation")?;
        if found.as_deref().and_then(|found| found.parse().ok()) == Some(generation + 1) {
            for (table, key, former) in undo {
                let table = transaction.open_table(table.definition());
                let mut table = table.map_err(|e| self.failed(e))?;
                let changed = match former {
                    Some(value) => table.insert(key.as_str(), value.as_str()).map(drop),
                    None => table.remove(key.as_str()).map(drop),
                };
                changed.map_err(|e| self.failed(e))?;
            }
            self.set_meta(&transaction, "generation", &generation.to_string())?;
            transaction.commit().map_err(|e| self.failed(e))?;
        }
        *doubt = None;
        Ok(())
    }

    fn doubt(&self) -> MutexGuard<'_, Option<Doubt>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<WriteTransaction, CatalogError> {
        self.store.begin_write().map_err(|e| self.failed(e))
    }

    fn meta(
        &self,
        transaction: &WriteTransaction,
        key: &str,
    ) -> Result<Option<String>, CatalogError> {
        let table = transaction.open_table(Table::Meta.definition()).map_err(|e| self.failed(e))?;
        let value = table.get(key).map_err(|e| self.failed(e))?;
        Ok(value.map(|value| value.value().to_owned()))
    }

    fn set_meta(
        &self,
        transaction: &WriteTransaction,
        key: &str,
        value: &str,
    ) -> Result<(), CatalogError> {
        let mut table =
            transaction.open_table(Table::Meta.definition()).map_err(|e| self.failed(e))?;
        table.insert(key, value).map_err(|e| self.failed(e))?;
        Ok(())
    }

    fn damaged(&self, what: &str) -> CatalogError {
        CatalogError::Damaged { path: self.path.clone(), what: what.into() }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> CatalogError {
        let error = CatalogError::of(&self.path, error.into());
        if error.is_of_file() {
            self.store.close();
        }
        error
    }
}

#[cfg(test)]
mod tests;
