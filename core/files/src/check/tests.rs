use nearflash_units::{Blocks, Lba, Nanos};

use super::*;
use crate::tables::inode_key;
use crate::{Contents, MemoryTables, Path, Replace, TablesMut, create, format, mkdir};

const AREA: Run = Run { start: Lba(256), count: Blocks(4096) };

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn run(start: u64, count: u64) -> Run {
    Run { start: Lba(start), count: Blocks(count) }
}

/// `/a/f` of 5 bytes, `/b`, `/g` without contents.
fn volume() -> MemoryTables {
    let mut tables = MemoryTables::default();
    let now = Nanos(1);
    format(&mut tables, now).unwrap();
    mkdir(&mut tables, &path("a"), now).unwrap();
    mkdir(&mut tables, &path("b"), now).unwrap();
    let contents = Contents { size: ByteLen(5), runs: vec![run(512, 1)] };
    create(&mut tables, &path("a/f"), contents, Replace::Never, now).unwrap();
    create(&mut tables, &path("g"), Contents::default(), Replace::Never, now).unwrap();
    tables
}

fn faults(tables: &MemoryTables) -> Vec<Fault> {
    let report = check(tables, &mut FreeRuns::new(AREA)).unwrap();
    assert_eq!(report.fault_count, u64::try_from(report.faults.len()).unwrap());
    report.faults
}

/// The faults of the volume after `change` of the inode of this number.
fn faults_after(number: u64, change: impl FnOnce(&mut Inode)) -> Vec<Fault> {
    let (mut tables, number) = (volume(), InodeNumber(number));
    let record = tables.get(Table::Inodes, &inode_key(number)).unwrap().unwrap();
    let mut inode = Inode::decode(number, &record).unwrap();
    change(&mut inode);
    tables.put(Table::Inodes, &inode_key(number), &inode.encode(number)).unwrap();
    faults(&tables)
}

#[test]
fn a_sound_volume_has_no_faults() {
    let mut free = FreeRuns::new(AREA);
    let report = check(&volume(), &mut free).unwrap();
    let expected = Report { files: 2, directories: 3, file_len: ByteLen(5), ..Report::default() };
    assert_eq!(report, expected);
    assert_eq!(free.count(), Blocks(4095));
}

#[test]
fn blocks_in_two_files_and_outside_the_volume_are_found() {
    let (first, second) = (InodeNumber(4), InodeNumber(5));
    let shared = faults_after(5, |file| file.runs = vec![run(512, 1)]);
    assert_eq!(shared, [Fault::Run { number: second, error: NotFreeError(run(512, 1)) }]);
    let outside = faults_after(4, |file| file.runs = vec![run(255, 2)]);
    assert_eq!(outside, [Fault::Run { number: first, error: NotFreeError(run(255, 2)) }]);
}

#[test]
fn wrong_links_and_kinds_are_found() {
    let root = InodeNumber::ROOT;
    let links = faults_after(1, |root| root.links = 3);
    assert_eq!(links, [Fault::Links { number: root, found: 3, expected: 4 }]);
    let kind = faults_after(5, |file| (file.kind, file.links) = (Kind::Directory, 2));
    assert!(kind.contains(&Fault::Dangling { directory: root, inode: InodeNumber(5) }), "{kind:?}");
}

#[test]
fn lost_entries_inodes_and_facts_are_found() {
    let without = |table, key: &[u8]| {
        let mut tables = volume();
        tables.remove(table, key).unwrap();
        faults(&tables)
    };
    let entry = |directory: u64, name: &[u8]| [&directory.to_be_bytes()[..], name].concat();
    let lost = InodeNumber(5);
    let entries = Fault::Entries { number: lost, entries: 0 };
    assert_eq!(without(Table::Entries, &entry(1, b"g")), [entries, Fault::Unreached(lost)]);
    let dangling = Fault::Dangling { directory: InodeNumber::ROOT, inode: lost };
    assert_eq!(without(Table::Inodes, &inode_key(lost)), [dangling]);
    assert_eq!(without(Table::Facts, b"next-inode"), [Fault::NextInode]);
    assert!(without(Table::Inodes, &inode_key(InodeNumber::ROOT)).contains(&Fault::NoRoot));
    assert_eq!(faults(&MemoryTables::default()), [Fault::NoRoot, Fault::NextInode]);
}

#[test]
fn a_ring_of_directories_is_found() {
    let mut tables = volume();
    // `/a` becomes an entry of itself instead of the root's.
    let entry = |directory: u64| [&directory.to_be_bytes()[..], b"a"].concat();
    let value = tables.get(Table::Entries, &entry(1)).unwrap().unwrap();
    tables.remove(Table::Entries, &entry(1)).unwrap();
    tables.put(Table::Entries, &entry(2), &value).unwrap();
    let faults = faults(&tables);
    assert!(faults.contains(&Fault::Unreached(InodeNumber(2))), "{faults:?}");
    assert!(faults.contains(&Fault::Unreached(InodeNumber(4))), "{faults:?}");
}

#[test]
fn damaged_bytes_are_reported_and_counted_beyond_the_reports_bound() {
    let mut tables = volume();
    tables.put(Table::Inodes, b"key", b"").unwrap();
    tables.put(Table::Entries, b"key", b"").unwrap();
    let found = faults(&tables);
    assert_eq!(found, [Fault::Key, Fault::Entry(InodeNumber(0))]);
    for number in 100_u64..300 {
        tables.put(Table::Inodes, &number.to_be_bytes(), &[0; 256]).unwrap();
    }
    let report = check(&tables, &mut FreeRuns::new(AREA)).unwrap();
    assert_eq!((report.fault_count, report.faults.len()), (202, FAULTS_MAX));
}
