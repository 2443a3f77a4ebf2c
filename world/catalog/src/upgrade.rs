//! The steps that upgrade a catalog from an earlier schema to the next one. A step is part of the
//! transaction that opens the catalog: all steps take effect, or none.

mod keys;

use std::path::{Path, PathBuf};

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};
use serde_json::{Map, Value, json};

use super::CatalogError;

/// The schema that this version writes.
pub(crate) const SCHEMA: usize = 4;

/// Step `n` upgrades a catalog from schema `n + 1` to the next one. Its errors name no file; the
/// caller adds the name.
pub(crate) type Upgrade = fn(&WriteTransaction) -> Result<(), CatalogError>;
pub(crate) const UPGRADES: [Upgrade; SCHEMA - 1] =
    [volumes_by_uuid, remembered_rights, keys::records_by_key];

/// The tables up to schema 3.
type Former = TableDefinition<'static, &'static str, &'static str>;

const VOLUMES: Former = TableDefinition::new("volumes");
const VOLUME_NAMES: Former = TableDefinition::new("volume_names");
const CREDENTIALS: Former = TableDefinition::new("credentials");
const CHAP_ACCOUNTS: Former = TableDefinition::new("chap_accounts");
const HOST_VOLUMES: Former = TableDefinition::new("host_volumes");

/// The facts of schema 3 that the node has had a credential, an account, a list of a host: 1, or absent.
const HAD_CREDENTIAL: &str = "had_credential";
const HAD_ACCOUNT: &str = "had_account";
const HAD_LIST: &str = "had_list";

/// Schema 1 keyed a volume by its name, and its record named one device for all extents. Schema 2
/// keys a volume by its UUID, has an index of names, and names the device of each extent.
fn volumes_by_uuid(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    let open = |definition: Former| transaction.open_table(definition).map_err(failed);
    let (mut volumes, mut names) = (open(VOLUMES)?, open(VOLUME_NAMES)?);
    let mut old = Vec::new();
    for entry in volumes.iter().map_err(failed)? {
        let (name, text) = entry.map_err(failed)?;
        old.push((name.value().to_owned(), text.value().to_owned()));
    }
    volumes.retain(|_, _| false).map_err(failed)?;
    for (name, text) in old {
        let (uuid, record) = with_uuid(&name, &text).ok_or_else(|| damaged(&name))?;
        volumes.insert(uuid.as_str(), record.as_str()).map_err(failed)?;
        names.insert(name.as_str(), uuid.as_str()).map_err(failed)?;
    }
    Ok(())
}

/// Schema 3 remembers that the node has had a credential, an account, a list of a host, and which hosts had keys.
/// Earlier versions must not overlook it: they would let in whom this version keeps out.
fn remembered_rights(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    let open = |table: Former| transaction.open_table(table).map_err(failed);
    let mut meta = open(super::META)?;
    for (table, fact) in
        [(CREDENTIALS, HAD_CREDENTIAL), (CHAP_ACCOUNTS, HAD_ACCOUNT), (HOST_VOLUMES, HAD_LIST)]
    {
        if !open(table)?.is_empty().map_err(failed)? {
            meta.insert(fact, "1").map_err(failed)?;
        }
    }
    Ok(())
}

/// A volume's UUID and its record in schema 2. Other fields are unchanged; an unknown field is
/// refused when the record is read.
fn with_uuid(name: &str, text: &str) -> Option<(String, String)> {
    let mut record: Map<String, Value> = serde_json::from_str(text).ok()?;
    let uuid = record.remove("uuid")?.as_str()?.to_owned();
    let (device, runs) = (record.remove("device")?, record.remove("extents")?);
    record.insert("name".to_owned(), name.into());
    record.insert("extents".to_owned(), json!([{ "device": device, "runs": runs }]));
    Some((uuid, Value::Object(record).to_string()))
}

fn damaged(what: &str) -> CatalogError {
    CatalogError::Damaged { path: PathBuf::new(), what: what.into() }
}

fn failed(error: impl Into<redb::Error>) -> CatalogError {
    CatalogError::of(Path::new(""), error.into())
}
