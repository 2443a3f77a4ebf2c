//! The guard under `redb`: every byte of a store is damaged in turn, and the power is lost at every write.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use redb::{
    Builder, Database, ReadableDatabase, ReadableTable as _, StorageBackend, TableDefinition,
};

use super::*;

const TABLE: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("table");
const SECTOR_LEN: usize = 512;

/// A file in memory. Clones are the same file.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
    /// The bytes that may be there at most.
    room: Option<usize>,
}

#[derive(Clone, Debug)]
enum Operation {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
}

/// The effect of a loss of power on an operation that no sync has covered.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kept,
    Gone,
    Torn,
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

    fn apply_fate(&self, bytes: &mut Vec<u8>, fate: Fate, dice: &mut Dice) {
        match (self, fate) {
            (Self::Write(offset, data), Fate::Torn) => {
                for (at, sector) in data.chunks(SECTOR_LEN).enumerate() {
                    if dice.below(2) == 0 {
                        Self::Write(offset + at * SECTOR_LEN, sector.to_vec()).apply(bytes);
                    }
                }
            }
            // A file system keeps the order of lengths and what lies behind them.
            (Self::SetLen(_), _) | (_, Fate::Kept) => self.apply(bytes),
            (_, Fate::Gone | Fate::Torn) => {}
        }
    }
}

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl Memory {
    fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Kept { bytes, ..Kept::default() })))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    fn operate(&self, operation: Operation) -> io::Result<()> {
        let mut kept = self.0.lock().unwrap();
        let end = match &operation {
            Operation::Write(offset, data) => offset + data.len(),
            Operation::SetLen(len) => *len,
            Operation::Sync => 0,
        };
        if kept.room.is_some_and(|room| end > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        operation.apply(&mut kept.bytes);
        kept.operations.push(operation);
        Ok(())
    }

    fn open(&self) -> Result<Database, redb::Error> {
        Ok(Builder::new().create_with_backend(Guarded::new(self.clone()))?)
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(wide(self.0.lock().unwrap().bytes.len()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let kept = self.0.lock().unwrap();
        let found = kept.bytes.get(start..start + out.len());
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

fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap()
}

type Rows = BTreeMap<u64, Vec<u8>>;

fn rows(database: &Database) -> Result<Rows, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Rows::new()),
        table => table?,
    };
    let row = |row: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>), _>| {
        row.map(|(key, value)| (key.value(), value.value().to_vec()))
    };
    Ok(table.iter()?.map(row).collect::<Result<_, redb::StorageError>>()?)
}

/// Changes some rows, and returns all.
fn change(database: &Database, dice: &mut Dice) -> Result<Rows, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(TABLE)?;
        for _ in 0..=dice.below(20) {
            let (key, byte) = (dice.below(60), u8::try_from(dice.below(256)).unwrap());
            let len = usize::try_from(dice.below(3000)).unwrap();
            match dice.below(4) {
                0 => drop(table.remove(key)?),
                // Longer than a page, so that it lies in several blocks.
                1 => drop(table.insert(key, vec![byte; len * 10].as_slice())?),
                _ => drop(table.insert(key, vec![byte; len].as_slice())?),
            }
        }
    }
    transaction.commit()?;
    rows(database)
}

/// A store with some rows.
fn filled() -> (Memory, Rows) {
    let (memory, mut dice) = (Memory::default(), Dice(1));
    let database = memory.open().unwrap();
    let mut last = Rows::new();
    for _ in 0..6 {
        last = change(&database, &mut dice).unwrap();
    }
    drop(database);
    (memory, last)
}

/// Reads everything that a database has.
fn examine(memory: &Memory) -> Result<Rows, redb::Error> {
    let mut database = memory.open()?;
    let found = rows(&database)?;
    assert!(database.check_integrity()?, "damage never reaches the database");
    Ok(found)
}

#[test]
fn damage_anywhere_is_an_error_or_changes_nothing() {
    let (memory, expected) = filled();
    let sound = memory.bytes();
    let (mut found_in, mut count) = ([0; 3], 0);
    for at in (0..sound.len()).step_by(SECTOR_LEN) {
        // Many blocks of a new store are free, and have no bytes.
        if sound[at..at + SECTOR_LEN].iter().all(|byte| *byte == 0) {
            continue;
        }
        count += 1;
        for damage in [|byte: &mut u8| *byte ^= 0x10, |byte: &mut u8| *byte = 0] {
            let mut damaged = sound.clone();
            damaged[at..at + SECTOR_LEN].iter_mut().for_each(damage);
            match examine(&Memory::holding(damaged)) {
                // A block that is not in use, or one of two copies of the header.
                Ok(found) => assert!(found == expected || at < 2 * BLOCK_LEN, "at {at}"),
                Err(error) => {
                    let damage = Damage::of_database(&error);
                    let damage = damage.unwrap_or_else(|| panic!("at {at}: {error}"));
                    found_in
                        [usize::from(at >= 3 * BLOCK_LEN) + usize::from(at >= 2 * BLOCK_LEN)] += 1;
                    assert!(matches!(damage, Damage::Block { .. }), "{damage}");
                }
            }
        }
    }
    assert_eq!(found_in[0], 0, "the other copy of the header is used");
    assert!(found_in[1] > 0 && found_in[2] > count, "{found_in:?} of {count} sectors");
}

#[test]
fn a_header_without_a_whole_copy_and_a_length_that_was_cut_are_reported() {
    let sound = filled().0.bytes();
    let mut headless = sound.clone();
    headless[100] ^= 1;
    headless[BLOCK_LEN + 100] ^= 1;
    let error = examine(&Memory::holding(headless)).unwrap_err();
    assert_eq!(Damage::of_database(&error), Some(Damage::Header));
    let cut = sound[..sound.len() - 1].to_vec();
    let len = wide(cut.len());
    let error = examine(&Memory::holding(cut)).unwrap_err();
    assert_eq!(Damage::of_database(&error), Some(Damage::Len { len }));
    let area = sound.first_chunk().unwrap();
    assert!(newest_header(area).unwrap().starts_with(b"redb"));
    assert!(is_guarded(&sound) && !is_guarded(b"redb\x1a\x0a\xa9\x0d\x0a"));
}

#[test]
fn a_block_at_the_place_of_another_one_and_one_that_was_never_written_are_damage() {
    let guarded = Guarded::new(Memory::default());
    guarded.set_len(8 * 4096).unwrap();
    guarded.write(4096, &[[1; BLOCK_LEN], [2; BLOCK_LEN]].concat()).unwrap();
    guarded.sync_data().unwrap();
    let mut bytes = vec![0; 2 * BLOCK_LEN];
    guarded.read(4096, &mut bytes).unwrap();
    assert!(bytes[..BLOCK_LEN] == [1; BLOCK_LEN] && bytes[BLOCK_LEN..] == [2; BLOCK_LEN]);
    let mut part = [0; 100];
    guarded.read(2 * 4096 - 50, &mut part).unwrap();
    assert!(part[..50] == [1; 50] && part[50..] == [2; 50]);
    let damage = |error: io::Result<()>| Damage::of(&error.unwrap_err());
    let never = guarded.read(3 * 4096, &mut part);
    assert_eq!(damage(never), Some(Damage::Block { block: 3 }));
    let memory = guarded_memory(&guarded);
    let mut swapped = memory.clone();
    let (one, other) = (3 * BLOCK_LEN, 4 * BLOCK_LEN);
    swapped[one..other].fill(2);
    swapped[2 * BLOCK_LEN..2 * BLOCK_LEN + 8]
        .copy_from_slice(&memory[2 * BLOCK_LEN + 8..2 * BLOCK_LEN + 16]);
    let guarded = Guarded::new(Memory::holding(swapped));
    assert_eq!(damage(guarded.read(4096, &mut part)), Some(Damage::Block { block: 1 }));
    assert_eq!(guarded.read(2 * 4096, &mut part).ok(), Some(()));
    guarded.write(2 * 4096, &part).unwrap_err();
    guarded.read(8 * 4096, &mut part).unwrap_err();
}

fn guarded_memory(guarded: &Guarded<Memory>) -> Vec<u8> {
    let mut bytes = vec![0; 10 * BLOCK_LEN];
    guarded.below().read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_loss_of_power_at_any_write_leaves_the_last_commit_or_the_one_under_way() {
    let mut images = 0;
    for seed in 0..4 {
        let (memory, mut dice) = (Memory::default(), Dice(seed));
        let database = memory.open().unwrap();
        let count = || memory.0.lock().unwrap().operations.len();
        let mut states = vec![(count(), Rows::new())];
        for _ in 0..8 {
            let now = change(&database, &mut dice).unwrap();
            states.push((count(), now));
        }
        drop(database);
        let operations = memory.0.lock().unwrap().operations.clone();
        let (mut durable, mut pending) = (Vec::new(), Vec::new());
        for (moment, operation) in operations.iter().enumerate() {
            for _ in 0..if moment < states[0].0 { 0 } else { 2 } {
                let mut image: Vec<u8> = durable.clone();
                let lost = dice.below(wide(pending.len()) + 1);
                let is_one = dice.below(2) == 0;
                for (at, operation) in pending.iter().enumerate() {
                    let any = [Fate::Kept, Fate::Gone, Fate::Torn];
                    let fate = match is_one && wide(at) != lost {
                        true => Fate::Kept,
                        false => any[usize::try_from(dice.below(3)).unwrap()],
                    };
                    Operation::apply_fate(operation, &mut image, fate, &mut dice);
                }
                let found = examine(&Memory::holding(image));
                let found = found.unwrap_or_else(|error| panic!("{seed}, {moment}: {error}"));
                let returned = states.partition_point(|(at, _)| *at <= moment);
                let possible = &states[returned - 1..states.len().min(returned + 1)];
                assert!(possible.iter().any(|(_, rows)| *rows == found), "{seed}, {moment}");
                images += 1;
            }
            match operation {
                Operation::Sync => {
                    pending.drain(..).for_each(|it: Operation| it.apply(&mut durable))
                }
                operation => pending.push(operation.clone()),
            }
        }
    }
    assert!(images > 500, "{images}");
}

#[test]
fn a_store_that_was_full_is_opened_again_as_of_its_last_commit() {
    let (memory, mut dice) = (Memory::default(), Dice(3));
    let database = memory.open().unwrap();
    let known = change(&database, &mut dice).unwrap();
    memory.0.lock().unwrap().room = Some(0);
    change(&database, &mut dice).unwrap_err();
    drop(database);
    memory.0.lock().unwrap().room = None;
    let database = memory.open().unwrap();
    assert_eq!(rows(&database).unwrap(), known);
    change(&database, &mut dice).unwrap();
}
