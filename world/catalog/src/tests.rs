mod model;
mod power_cuts;
mod upgrades;

use std::os::unix::fs::PermissionsExt;

use nearflash_records::Key;
use nearflash_records::local::{LastRecord, LocalState, Revisions};
use nearflash_records::record::{Record as _, Schema};
use nearflash_records::store::{Compare, Put, Txn};

use super::*;

const FRESH: Uuid = Uuid::from_u128(1);

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// A change that writes a record whatever it was.
fn put(text: &str, value: &str) -> Txn {
    let puts = vec![Put { key: key(text), value: value.as_bytes().to_vec().into(), lease: None }];
    Txn { puts, ..Txn::default() }
}

/// The JSON text of a record in the file.
fn text(catalog: &Catalog, of: &str) -> String {
    let content = catalog.read().unwrap();
    let (value, _) = &content.found[&key(of)];
    String::from_utf8(value.to_vec()).unwrap()
}

fn last(number: u64) -> String {
    String::from_utf8(LastRecord { schema: Schema, number }.encode()).unwrap()
}

#[test]
fn a_data_directory_in_use_is_refused_with_the_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Catalog::open(folder.path(), FRESH).unwrap();
    let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "data directory {} is in use by another node (process {}): stop that node, or choose \
             another directory with --data-dir",
            folder.path().display(),
            std::process::id()
        )
    );
}

#[test]
fn a_start_that_fails_names_no_process_whose_operations_the_next_one_awaits() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let left = || std::fs::read_to_string(&lock).unwrap();
    drop(Catalog::open(folder.path(), FRESH).unwrap());
    assert_eq!(left(), "");
    // A process that was killed, and whose number no process has.
    std::fs::write(&lock, "4294967295 7\n").unwrap();
    drop(Catalog::open(folder.path(), FRESH).unwrap());
    assert_eq!(left(), "4294967295 7\n");
    let serving = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(serving.ended(), Some(u32::MAX));
    serving.serve();
    drop(serving);
    assert!(left().starts_with(&format!("{} ", std::process::id())), "{}", left());
}

/// A power cut during the very first start leaves such a file.
#[test]
fn a_part_of_a_first_catalog_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.redb.part"), [0; 5000]).unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(catalog.node(), FRESH);
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["catalog.redb", "lock"]);
    let mode = std::fs::metadata(folder.path().join("catalog.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_empty_catalog_is_named_and_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.redb");
    std::fs::write(&path, "").unwrap();
    for _ in 0..2 {
        let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
        assert!(message.contains("catalog.redb is empty: restore the file from a"), "{message}");
        assert!(std::fs::read(&path).unwrap().is_empty(), "it is left alone");
    }
}

#[test]
fn a_damaged_catalog_is_an_error_that_names_it_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.redb");
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    catalog.commit(&put("last/job", &last(3))).unwrap();
    drop(catalog);
    let sound = std::fs::read(&path).unwrap();
    let examine = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Catalog::open(folder.path(), FRESH)?.read().map(|found| found.revision)
    };
    let is_damage = |error: &CatalogError| {
        let message = error.to_string();
        matches!(error, CatalogError::DamagedFile { .. })
            && message.contains("catalog.redb is damaged: ")
            && message.ends_with("stop the node, and restore the file from a backup")
    };
    let (mut damaged, mut count) = (0, 0);
    for at in (0..sound.len()).step_by(4096) {
        if sound[at..at + 4096].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut bytes = sound.clone();
        bytes[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
        count += 1;
        match examine(&bytes) {
            Ok(generation) => assert!(generation == 1 || at < 8192, "at {at}"),
            Err(error) => {
                assert!(is_damage(&error), "at {at}: {error}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 3 && damaged < count, "{damaged} of {count} blocks");
    for len in [100, 4096, 8192, sound.len() - 1, sound.len() - 4096] {
        let error = examine(&sound[..len]).unwrap_err();
        assert!(is_damage(&error), "{len}: {error}");
    }
    assert_eq!(examine(&sound).unwrap(), 1);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_refused() {
    let message = Catalog::open(Path::new("/dev/null/x"), FRESH).unwrap_err().to_string();
    assert!(message.starts_with("data directory /dev/null/x: "), "{message}");
    assert!(message.ends_with("choose another with --data-dir"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let message = Catalog::open(&file, FRESH).unwrap_err().to_string();
    assert!(message.contains("it must be a directory: choose another"), "{message}");
    let path = std::path::PathBuf::from("locked");
    let source = std::io::ErrorKind::PermissionDenied.into();
    let message = CatalogError::from(DataDirError::Unusable { path, source }).to_string();
    assert!(
        message.starts_with("data directory locked: permission denied: run this as"),
        "{message}"
    );
    // Another directory would be another node.
    let path = std::path::PathBuf::from("full");
    let full = DataDirError::Unusable { path, source: std::io::ErrorKind::StorageFull.into() };
    let message = CatalogError::from(full).to_string();
    assert!(message.ends_with("make space in its file system"), "{message}");
}

#[test]
fn a_catalog_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, "schema", "5").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
        assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "5"));
    }
}

/// A table, a key or a field of a later version that this version would ignore.
#[test]
fn a_table_a_key_or_a_field_of_a_later_version_is_refused_and_left_alone() {
    const LATER: TableDefinition<'_, &str, &str> = TableDefinition::new("quotas");
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let later = last(3).replacen('{', r#"{"unit":"x","#, 1);
    catalog.commit(&put("last/job", &later)).unwrap();
    let refused = LocalState::of(&catalog.read().unwrap()).unwrap_err();
    assert_eq!(&*refused.key, "last/job");
    assert_eq!(text(&catalog, "last/job"), later);
    catalog.commit(&put("last/job", &last(3))).unwrap();
    // A key of a cluster's store, and one of no store.
    catalog.commit(&put("alive/00000000-0000-0000-0000-000000000015", "{}")).unwrap();
    let refused = LocalState::of(&catalog.read().unwrap()).unwrap_err();
    assert_eq!(&*refused.key, "alive/00000000-0000-0000-0000-000000000015");
    let transaction = catalog.begin().unwrap();
    transaction.open_table(RECORDS).unwrap().insert("quota/a", &[0; 9][..]).unwrap();
    transaction.commit().unwrap();
    let message = catalog.read().unwrap_err().to_string();
    assert!(message.contains("'quota/a' is damaged, or a later version wrote it"), "{message}");
    let transaction = catalog.begin().unwrap();
    transaction.open_table(LATER).unwrap().insert("data", "1").unwrap();
    transaction.commit().unwrap();
    drop(catalog);
    for _ in 0..2 {
        let message = Catalog::open(folder.path(), FRESH).unwrap_err().to_string();
        assert!(message.contains("has the table 'quotas', which this version"), "{message}");
    }
}

/// An upgrade to the next schema, which could for example store reservations in another form.
#[test]
fn the_next_version_takes_over_what_persists_and_this_one_refuses_it_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    catalog.commit(&put("last/job", &last(3))).unwrap();
    let before = text(&catalog, "last/job");
    drop(catalog);
    let opened = |step: Upgrade| {
        Catalog::open_with(folder.path(), FRESH, &[&UPGRADES[..], &[step]].concat())
    };
    // A step that fails half-way changes nothing.
    let refused = opened(|transaction| {
        mark(transaction, b"half");
        Err(CatalogError::Damaged { path: PathBuf::new(), what: "data".into() })
    });
    assert!(refused.is_err());
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    assert_eq!(text(&catalog, "last/job"), before);
    drop(catalog);
    for _ in 0..2 {
        let catalog = opened(|transaction| {
            mark(transaction, b"+");
            Ok(())
        });
        let after = text(&catalog.unwrap(), "last/job");
        assert_eq!(after, format!("{before}+"), "each step is made once");
    }
    let refused = Catalog::open(folder.path(), FRESH).unwrap_err();
    assert!(matches!(&refused, CatalogError::Schema { found, .. } if &**found == "5"));
}

/// Appends a mark to the record of the last job.
fn mark(transaction: &WriteTransaction, mark: &[u8]) {
    let mut records = transaction.open_table(RECORDS).unwrap();
    let value = [records.get("last/job").unwrap().unwrap().value(), mark].concat();
    records.insert("last/job", value.as_slice()).unwrap();
}

#[test]
fn a_change_of_records_that_are_no_longer_those_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let change = Revisions::default().txn(put("last/job", &last(1)).puts, Vec::new());
    assert_eq!(catalog.commit(&change).unwrap(), 1);
    let before = catalog.read().unwrap();
    let mut other = Revisions::default().txn(put("last/grant", &last(1)).puts, vec![]);
    other.compares.push(Compare { key: key("last/job"), mod_revision: ModRevision(0) });
    let refused = catalog.commit(&other).unwrap_err();
    assert!(
        matches!(&refused, CatalogError::Overtaken { key, expected: 0, found: 1, .. } if &**key == "last/job")
    );
    assert_eq!(catalog.read().unwrap(), before);
}

#[test]
fn a_damaged_number_or_value_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(folder.path(), FRESH).unwrap();
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, "generation", "1x").unwrap();
    transaction.commit().unwrap();
    for refused in [catalog.read().unwrap_err(), catalog.commit(&Txn::default()).unwrap_err()] {
        let message = refused.to_string();
        assert!(message.contains("the record of 'generation' is damaged"), "{message}");
    }
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, "generation", "1").unwrap();
    transaction.open_table(RECORDS).unwrap().insert("last/job", &[1; 7][..]).unwrap();
    transaction.commit().unwrap();
    let message = catalog.read().unwrap_err().to_string();
    assert!(message.contains("the record of 'last/job' is damaged"), "{message}");
}

#[test]
fn the_number_in_a_cluster_is_that_of_this_cluster_alone() {
    let place = tempfile::tempdir().unwrap();
    let (cluster, other) = (Uuid::from_u128(20), Uuid::from_u128(21));
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    assert_eq!(catalog.ordinal(cluster).unwrap(), None);
    let generation = catalog.read().unwrap().revision;
    catalog.keep_ordinal(cluster, 7).unwrap();
    assert_eq!(catalog.read().unwrap().revision, generation, "no record has changed");
    drop(catalog);
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    let found = [cluster, other].map(|it| catalog.ordinal(it).unwrap());
    assert_eq!(found, [Some(7), None]);
    catalog.keep_ordinal(other, 9).unwrap();
    let found = [cluster, other].map(|it| catalog.ordinal(it).unwrap());
    assert_eq!(found, [None, Some(9)]);
    let transaction = catalog.begin().unwrap();
    catalog.set_meta(&transaction, ORDINAL, "nonsense").unwrap();
    transaction.commit().unwrap();
    assert!(catalog.ordinal(other).unwrap_err().to_string().contains("damaged"));
}

#[test]
fn the_newest_that_the_node_has_seen_of_its_clusters_store_is_kept() {
    use nearflash_records::record::HistoryRecord;
    use nearflash_records::store::StoreId;
    use nearflash_records::{ClusterState, Seen};

    let place = tempfile::tempdir().unwrap();
    let (cluster, other) = (Uuid::from_u128(20), Uuid::from_u128(21));
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    assert_eq!(catalog.seen().unwrap(), None);
    let state = ClusterState::new(cluster);
    let seen = |revision| Seen { store: StoreId(3), revision, history: None };
    catalog.keep_seen(&SeenRecord::of(seen(7), &state)).unwrap();
    catalog.keep_seen(&SeenRecord::of(seen(5), &state)).unwrap();
    drop(catalog);
    let catalog = Catalog::open(place.path(), FRESH).unwrap();
    let kept = catalog.seen().unwrap().unwrap();
    assert_eq!([cluster, other].map(|it| kept.seen(it)), [Some(seen(7)), None]);
    let history = HistoryRecord { schema: Schema, id: cluster, began: 1 };
    let accepted = Seen { history: Some(history), ..seen(6) };
    catalog.keep_seen(&SeenRecord::of(accepted, &state)).unwrap();
    assert_eq!(catalog.seen().unwrap().unwrap().seen(cluster), Some(accepted));
}
