use nearflash_units::{Blocks, Lba, Nanos};

use super::*;
use crate::Name;
use crate::tables::inode_key;
use crate::{
    Change, MemoryTables, Path, Permissions, Place, Refusal, Replace, TablesMut, format, locate,
};

const AREA: Run = Run { start: Lba(256), count: Blocks(4096) };

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn run(start: u64, count: u64) -> Run {
    Run { start: Lba(start), count: Blocks(count) }
}

const MODE: Permissions = Permissions { mode: 0o755, uid: 0, gid: 0 };

/// Creates an inode without a target.
fn add(tables: &mut MemoryTables, text: &str, kind: Kind, runs: Vec<Run>) {
    let path = path(text);
    let names = tables.clone();
    let place: Place<'_> = locate(&names, &path).unwrap();
    let size = ByteLen(if runs.is_empty() { 0 } else { 5 });
    let inode = Inode { runs, size, ..Inode::new(kind, MODE, Nanos(1)) };
    let mut change = Change::new(tables, Nanos(1), &|_| false);
    match kind {
        Kind::Symlink => change.symlink(place, inode, b"g").unwrap(),
        _ => change.create(place, inode, Replace::Never).unwrap(),
    };
}

/// `/a/f` of 5 bytes, `/b`, `/g` without contents, `/l`, which is a symbolic link to `g`.
fn volume() -> MemoryTables {
    let mut tables = MemoryTables::default();
    format(&mut tables, MODE, Nanos(1)).unwrap();
    add(&mut tables, "a", Kind::Directory, vec![]);
    add(&mut tables, "b", Kind::Directory, vec![]);
    add(&mut tables, "a/f", Kind::File, vec![run(512, 1)]);
    add(&mut tables, "g", Kind::File, vec![]);
    add(&mut tables, "l", Kind::Symlink, vec![]);
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
    let expected =
        Report { files: 2, directories: 3, others: 1, file_len: ByteLen(5), ..Report::default() };
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
    let kind = faults_after(5, |file| {
        (file.kind, file.links, file.parent) = (Kind::Directory, 2, root);
    });
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
    assert_eq!(without(Table::Entries, &entry(1, b"g")), [Fault::Unreached(lost)]);
    let directory = InodeNumber(3);
    let entries = Fault::Entries { number: directory, entries: 0 };
    let links = Fault::Links { number: InodeNumber::ROOT, found: 4, expected: 3 };
    let found = without(Table::Entries, &entry(1, b"b"));
    assert_eq!(found, [links, entries, Fault::Unreached(directory)]);
    let dangling = Fault::Dangling { directory: InodeNumber::ROOT, inode: lost };
    assert_eq!(without(Table::Inodes, &inode_key(lost)), [dangling]);
    assert_eq!(without(Table::Facts, b"next-inode"), [Fault::NextInode]);
    assert!(without(Table::Inodes, &inode_key(InodeNumber::ROOT)).contains(&Fault::NoRoot));
    assert_eq!(faults(&MemoryTables::default()), [Fault::NoRoot, Fault::NextInode]);
}

#[test]
fn wrong_parents_orphans_targets_and_attributes_are_found() {
    let (directory, file, link) = (InodeNumber(2), InodeNumber(5), InodeNumber(6));
    let parent = faults_after(2, |directory| directory.parent = InodeNumber(3));
    let expected = InodeNumber::ROOT;
    assert_eq!(parent, [Fault::Parent { number: directory, found: InodeNumber(3), expected }]);
    let after = |change: &dyn Fn(&mut MemoryTables)| {
        let mut tables = volume();
        change(&mut tables);
        faults(&tables)
    };
    let orphan = after(&|tables| tables.put(Table::Orphans, &inode_key(file), b"").unwrap());
    assert_eq!(orphan, [Fault::NoOrphan(file)]);
    let target = after(&|tables| tables.remove(Table::Targets, &inode_key(link)).unwrap());
    assert_eq!(target, [Fault::Target(link)]);
    let target = after(&|tables| tables.put(Table::Targets, &inode_key(link), b"gg").unwrap());
    assert_eq!(target, [Fault::Target(link)]);
    let target = after(&|tables| tables.put(Table::Targets, &inode_key(file), b"g").unwrap());
    assert_eq!(target, [Fault::Belonging(file)]);
    let key = [&inode_key(InodeNumber(99))[..], b"user.x"].concat();
    let attribute = after(&|tables| tables.put(Table::Attributes, &key, b"v").unwrap());
    assert_eq!(attribute, [Fault::Belonging(InodeNumber(99))]);
}

#[test]
fn an_orphan_is_no_fault() {
    let mut tables = volume();
    let name = Name::new(b"g").unwrap();
    let mut change = Change::new(&mut tables, Nanos(2), &|_| true);
    change.unlink(Place::new(InodeNumber::ROOT, &name)).unwrap();
    let report = check(&tables, &mut FreeRuns::new(AREA)).unwrap();
    assert_eq!((report.faults, report.orphans), (vec![], 1));
    Change::new(&mut tables, Nanos(3), &|_| false).reap(InodeNumber(5)).unwrap();
    let report = check(&tables, &mut FreeRuns::new(AREA)).unwrap();
    assert_eq!((report.faults, report.orphans, report.files), (vec![], 0, 1));
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

#[test]
fn an_orphan_that_is_open_gets_a_name_again_and_replaces_what_has_it() {
    let mut tables = volume();
    let (number, root) = (InodeNumber(5), InodeNumber::ROOT);
    let name = |text: &str| Name::new(text.as_bytes()).unwrap();
    let (g, a, l) = (name("g"), name("a"), name("l"));
    Change::new(&mut tables, Nanos(2), &|_| true).unlink(Place::new(root, &g)).unwrap();
    let mut link = |name, replace, is_open| {
        let is_open = |_| is_open;
        let mut change = Change::new(&mut tables, Nanos(3), &is_open);
        let linked = change.link_open(number, Place::new(root, name), replace);
        linked.map(|inode| inode.links).map_err(|error| match error {
            crate::Error::Refused(refusal) => refusal,
            error => panic!("{error}"),
        })
    };
    assert_eq!(link(&g, Replace::Allowed, false), Err(Refusal::Stale(number)));
    assert_eq!(link(&l, Replace::Never, true), Err(Refusal::Exists(path("l"))));
    assert_eq!(link(&a, Replace::Allowed, true), Err(Refusal::IsADirectory(path("a"))));
    assert_eq!(link(&l, Replace::Allowed, true), Ok(1));
    assert_eq!(link(&l, Replace::Allowed, true), Ok(1), "it has this name");
    assert_eq!(link(&g, Replace::Never, true), Ok(2));
    let report = check(&tables, &mut FreeRuns::new(AREA)).unwrap();
    // The symbolic link was open, and is an orphan now.
    assert_eq!((report.faults, report.orphans), (vec![], 1));
}
