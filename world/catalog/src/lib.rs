//! The catalog: the state that a node must find again after a restart. It holds the node's
//! identity, the devices that hold volumes, the extents of each volume, and the access rights to
//! them.
//!
//! The catalog is one `redb` file in the data directory. Its table `records` has the value of each
//! [`Key`]: the revision of its last change, as 8 bytes in little-endian order, and the
//! record, which is JSON. The table `meta` has, by name, the schema, the node's identity, the generation, which is
//! the revision of the last change, and what the node knows of its cluster. A change is a [`Txn`], durable before
//! any client hears of it. Secrets are among the records, so only the owner can read the file.
//!
//! Each block of the file has a checksum (`store.rs`), so a damaged file is an error that names it, and the
//! database never reads it. A commit that has failed leaves the last state, and the next one can succeed.
//!
//! The file has a schema number. A file of a later schema is refused; a file of an earlier schema
//! is upgraded when it is opened, by one function for each step. A table, a key or a field that this
//! version does not know is refused too: to ignore it would be to serve without, say, a reservation
//! that a host relies on, and to lose it with the next change. A version that adds anything which
//! earlier versions must not overlook therefore has a new schema; where it does not, earlier
//! versions refuse the unknown part rather than drop it.

mod commit;
mod error;
mod former;
mod store;
mod upgrade;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nearflash_data_dir::{DataDirError, Lock, make_private_dir, make_private_file, sync_dir};
use nearflash_records::kept::SeenRecord;
use nearflash_records::local::Content;
use nearflash_records::record::Record as _;
use nearflash_records::store::ModRevision;
use nearflash_records::{AccessRecords, Compare, Key, Put, Txn};
use redb::{
    Database, ReadTransaction, ReadableTable, TableDefinition, TableHandle, WriteTransaction,
};
use uuid::Uuid;
use zeroize::Zeroizing;

use commit::{Doubt, parse_value};
use store::{Kind, Store};
use upgrade::{UPGRADES, Upgrade};

pub use error::CatalogError;

/// The values of the keys.
const RECORDS: TableDefinition<'static, &'static str, &'static [u8]> =
    TableDefinition::new("records");

/// Values by name: `schema`, `node`, `generation`, `ordinal`, `cluster_seen`.
const META: TableDefinition<'static, &'static str, &'static str> = TableDefinition::new("meta");

/// The key of the node's cluster and its number in it.
const ORDINAL: &str = "ordinal";

/// The key of what the node has seen of its cluster's store.
const SEEN: &str = "cluster_seen";

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
        let open = || Store::in_file(&path).map_err(|e| CatalogError::of(&path, e));
        let mut store = open()?;
        let schema = store.schema().map_err(|e| CatalogError::of(&path, e))?;
        if schema.is_some_and(|schema| (1..=upgrades.len()).contains(&schema)) {
            // The copy is of a file that nobody has open.
            drop(store);
            former::keep(&path, schema.unwrap_or_default()).map_err(refused)?;
            store = open()?;
        }
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the installation, which the labels on its devices carry.
    pub fn node(&self) -> Uuid {
        self.node
    }

    /// The previous owner of the data directory, if it was killed rather than stopped.
    pub fn ended(&self) -> Option<u32> {
        self.lock.as_ref().and_then(Lock::ended)
    }

    /// From now on, operations may be in flight on the node's devices.
    pub fn serve(&self) {
        self.lock.iter().for_each(Lock::serve);
    }

    /// Records that the node's devices are released: the next process need not wait for them, and the run has
    /// ended in order.
    pub fn devices_released(&self) {
        self.lock.iter().for_each(Lock::forget_owner);
        former::forget(&self.path);
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
        // Opening a table creates it if it is absent.
        transaction.open_table(RECORDS).map_err(|e| self.failed(e))?;
        self.set_meta(&transaction, "schema", &current.to_string())?;
        let node = self.meta(&transaction, "node")?.and_then(|text| text.parse().ok());
        let node = node.ok_or_else(|| self.damaged("node"))?;
        transaction.commit().map_err(|e| self.failed(e))?;
        Ok(node)
    }

    /// Refuses a table that this version does not know.
    fn check_tables(&self, transaction: &WriteTransaction) -> Result<(), CatalogError> {
        let is_known = |name: &str| [RECORDS.name(), META.name()].contains(&name);
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
    ///
    /// # Errors
    /// When a key is not one of this version, or the file cannot be read.
    pub fn read(&self) -> Result<Content, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let revision = self.number(&transaction, "generation")?;
        let mut content = Content { revision, ..Content::default() };
        let table = transaction.open_table(RECORDS).map_err(|e| self.failed(e))?;
        for entry in table.iter().map_err(|e| self.failed(e))? {
            let (key, value) = entry.map_err(|e| self.failed(e))?;
            let damaged = || self.damaged(key.value());
            let (revision, record) = parse_value(value.value()).ok_or_else(damaged)?;
            let record = Zeroizing::new(record.to_vec());
            let key = key.value().parse().map_err(|_| self.damaged(key.value()))?;
            content.found.insert(key, (record, ModRevision(revision)));
        }
        Ok(content)
    }

    /// The records of access.
    ///
    /// # Errors
    /// When the file cannot be read, or one of the records is damaged.
    pub fn access(&self) -> Result<AccessRecords, CatalogError> {
        let mut access = AccessRecords::default();
        for (key, (value, _)) in &self.read()?.found {
            access.set(key, value).map_err(|_| self.damaged(&key.to_string()))?;
        }
        Ok(access)
    }

    /// Notes that the records of access are a copy of the list of this cluster, of no known version.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note_list(&self, cluster: Uuid) -> Result<(), CatalogError> {
        let content = self.read()?;
        let mod_revision = content.found.get(&Key::Access).map(|(_, it)| *it).unwrap_or_default();
        let record = AccessRecords::default().list_of(cluster);
        let compares = vec![Compare { key: Key::Access, mod_revision }];
        let value = record.encode().into();
        let puts = vec![Put { key: Key::Access, value, lease: None }];
        self.commit(&Txn { compares, puts, deletes: Vec::new() }).map(drop)
    }

    /// The number under `key` in the table `meta`; 0 before the first write.
    fn number(&self, transaction: &ReadTransaction, key: &str) -> Result<u64, CatalogError> {
        let text = self.text(transaction, key)?;
        text.map_or(Ok(0), |text| text.parse().map_err(|_| self.damaged(key)))
    }

    fn text(&self, from: &ReadTransaction, key: &str) -> Result<Option<String>, CatalogError> {
        let table = from.open_table(META).map_err(|e| self.failed(e))?;
        let text = table.get(key).map_err(|e| self.failed(e))?;
        Ok(text.map(|text| text.value().to_owned()))
    }

    /// The number that the node has in a cluster, as it last learned it. The cluster never changes it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn ordinal(&self, cluster: Uuid) -> Result<Option<u16>, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let Some(text) = self.text(&transaction, ORDINAL)? else { return Ok(None) };
        let (of, ordinal) = text.split_once(' ').ok_or_else(|| self.damaged(ORDINAL))?;
        if of != cluster.to_string() {
            return Ok(None);
        }
        ordinal.parse().map(Some).map_err(|_| self.damaged(ORDINAL))
    }

    /// Keeps the number that the node has in a cluster, for a start without the cluster's store.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_ordinal(&self, cluster: Uuid, ordinal: u16) -> Result<(), CatalogError> {
        if self.ordinal(cluster)? == Some(ordinal) {
            return Ok(());
        }
        let transaction = self.begin()?;
        self.set_meta(&transaction, ORDINAL, &format!("{cluster} {ordinal}"))?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    /// The newest state of its cluster's store that the node has seen.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn seen(&self) -> Result<Option<SeenRecord>, CatalogError> {
        let transaction = self.store.begin_read().map_err(|e| self.failed(e))?;
        let text = self.text(&transaction, SEEN)?;
        let record = text.map(|it| serde_json::from_str(&it)).transpose();
        record.map_err(|_| self.damaged(SEEN))
    }

    /// Keeps what the node has seen of its cluster's store, so that a store that goes back is known.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_seen(&self, record: &SeenRecord) -> Result<(), CatalogError> {
        if self.seen()?.is_some_and(|kept| !record.replaces(&kept)) {
            return Ok(());
        }
        let text = serde_json::to_string(record).expect("the record has no maps");
        let transaction = self.begin()?;
        self.set_meta(&transaction, SEEN, &text)?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    fn begin(&self) -> Result<WriteTransaction, CatalogError> {
        self.store.begin_write().map_err(|e| self.failed(e))
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
