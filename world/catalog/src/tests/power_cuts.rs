//! The catalog after a power cut at any moment: every synced write is present, and any subset of
//! the others.

use std::io;
use std::sync::{Arc, Mutex};

use nearflash_guarded::Guarded;
use redb::{Database, StorageBackend};

use super::*;

/// An operation on a file.
#[derive(Clone, Debug)]
enum Operation {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
}

/// A file that records the operations on it.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// The number of operations until the file system is full; `None` if it never is.
    left: Option<usize>,
}

impl Operation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                let end = offset + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(data);
            }
            Self::SetLen(len) => bytes.resize(*len, 0),
            Self::Sync => {}
        }
    }
}

impl Recorder {
    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    /// The operations since the last call.
    fn take_operations(&self) -> Vec<Operation> {
        std::mem::take(&mut self.0.lock().unwrap().operations)
    }

    fn operate(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.left = state.left.map(|left| left.saturating_sub(1));
        if state.left == Some(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        operation.apply(&mut state.bytes);
        state.operations.push(operation);
        Ok(())
    }

    fn database(&self) -> Result<Database, redb::Error> {
        Ok(Database::builder().create_with_backend(Guarded::new(self.clone()))?)
    }

    fn catalog(&self) -> Result<Catalog, CatalogError> {
        let (file, path) = (self.clone(), PathBuf::from("catalog.redb"));
        let store = Store::new(Box::new(move || file.database()));
        let store = store.map_err(|error| CatalogError::of(&path, error))?;
        Catalog::over(store, path, FRESH, &UPGRADES)
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(self.0.lock().unwrap().bytes.len()).unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let state = self.0.lock().unwrap();
        let found = state.bytes.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.operate(Operation::SetLen(usize::try_from(len).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(Operation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.operate(Operation::Write(usize::try_from(offset).unwrap(), data.to_vec()))
    }
}

/// Choices of the writes that reach the disk: every subset of a few writes, and some subsets of
/// many.
fn subsets(count: usize, seed: usize) -> Vec<Vec<bool>> {
    const ALL_MAX: usize = 4;
    if count <= ALL_MAX {
        let subset = |bits: usize| (0..count).map(|bit| bits >> bit & 1 == 1).collect();
        return (0..1 << count).map(subset).collect();
    }
    let mut chosen = vec![vec![false; count], vec![true; count]];
    let mut state = u64::try_from(seed).unwrap() + 1;
    for _ in 0..8 {
        let draw = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 63 == 1
        };
        chosen.push((0..count).map(draw).collect());
    }
    chosen
}

/// The file images that a power cut can leave, in order of the moment of the cut.
fn images(before: &[u8], operations: &[Operation], mut check: impl FnMut(usize, Vec<u8>)) {
    let mut durable = before.to_vec();
    let mut pending: Vec<&Operation> = Vec::new();
    for moment in 0..=operations.len() {
        for subset in subsets(pending.len(), moment) {
            let mut image = durable.clone();
            let kept = pending.iter().zip(subset).filter(|(_, is_kept)| *is_kept);
            kept.for_each(|(operation, _)| operation.apply(&mut image));
            check(moment, image);
        }
        match operations.get(moment) {
            Some(Operation::Sync) => {
                pending.iter().for_each(|operation| operation.apply(&mut durable));
                pending.clear();
            }
            Some(operation) => pending.push(operation),
            None => {}
        }
    }
}

#[test]
fn a_change_is_there_or_not_whenever_the_power_is_cut() {
    let file = Recorder::default();
    let catalog = file.catalog().unwrap();
    let data = "volume/00000000-0000-0000-0000-000000000015";
    let long = "x".repeat(9000);
    let mut known = Revisions::default();
    let changes = [
        (vec![("name/volume/data", "{}"), (data, "first"), ("last/job", "1")], vec![]),
        (vec![(data, &*long), ("grant/1", "g")], vec!["last/job"]),
        (vec![("last/job", "2")], vec![data, "grant/1"]),
    ];
    for (puts, deletes) in changes {
        let puts = puts.iter().flat_map(|(key, value)| put(key, value).puts).collect();
        let change = known.txn(puts, deletes.into_iter().map(key).collect());
        let old = catalog.read().unwrap();
        file.take_operations();
        let before = file.bytes();
        let revision = catalog.commit(&change).unwrap();
        known.note(&change, revision);
        let new = catalog.read().unwrap();
        assert_eq!(new.revision, old.revision + 1);
        let operations = file.take_operations();
        let syncs = operations.iter().filter(|it| matches!(it, Operation::Sync)).count();
        assert!(syncs > 0, "a change is durable: {operations:?}");
        let (mut was_old, mut was_new) = (0, 0);
        images(&before, &operations, |moment, image| {
            let found = Recorder::holding(image).catalog().unwrap().read().unwrap();
            assert!(found == old || found == new, "after {moment} operations: {found:?}");
            was_old += usize::from(found == old);
            was_new += usize::from(found == new);
            // The commit returned before the last moment.
            assert!(moment < operations.len() || found == new);
        });
        assert!(was_old > 0 && was_new > 0, "{was_old} old, {was_new} new");
    }
}

/// Checks the upgrade of a file at every moment of a power cut.
fn check_upgrade(file: &Recorder) {
    file.take_operations();
    let before = file.bytes();
    let expected = file.catalog().unwrap().read().unwrap();
    assert!(!expected.found.is_empty() && LocalState::of(&expected).is_ok());
    images(&before, &file.take_operations(), |moment, image| {
        let found = Recorder::holding(image).catalog().unwrap().read().unwrap();
        assert_eq!(found, expected, "after {moment} operations");
    });
}

#[test]
fn an_upgrade_is_made_whenever_the_power_was_cut_during_it() {
    let plain = include_bytes!("../../fixtures/catalog-schema-1.redb").to_vec();
    let plain = Database::builder().create_with_backend(Recorder::holding(plain)).unwrap();
    let file = Recorder::default();
    store::copy(&plain, &file.database().unwrap()).unwrap();
    check_upgrade(&file);
    check_upgrade(&Recorder::holding(
        include_bytes!("../../fixtures/catalog-schema-3.redb").to_vec(),
    ));
}

#[test]
fn changes_succeed_again_once_there_is_space_whenever_the_file_system_was_full() {
    let mut refused = 0;
    for left in 1.. {
        let file = Recorder::default();
        let catalog = file.catalog().unwrap();
        let (first, second) = (put("last/job", "first"), put("last/grant", "other"));
        file.0.lock().unwrap().left = Some(left);
        let committed = catalog.commit(&first);
        file.0.lock().unwrap().left = None;
        let Err(error) = committed else { break };
        assert!(matches!(error, CatalogError::Full { .. }), "{error}");
        refused += 1;
        // Without a restart, and without a trace of the change that was refused.
        assert_eq!(catalog.commit(&second).unwrap(), 1);
        drop(catalog);
        let found = file.catalog().unwrap().read().unwrap();
        let keys: Vec<String> = found.found.keys().map(ToString::to_string).collect();
        assert_eq!((found.revision, keys), (1, vec!["last/grant".to_owned()]), "{left}");
    }
    assert!(refused > 3, "{refused}");
}
