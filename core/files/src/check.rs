//! The check of a volume's metadata: every invariant, in one pass over the tables.
//!
//! It needs memory for every inode: some 100 bytes for each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use nearflash_units::ByteLen;

use crate::namespace::decode_entry;
use crate::{
    FreeRuns, Inode, InodeError, InodeNumber, Kind, NotFreeError, Run, Table, Tables, inodes,
    namespace, orphans,
};

/// The number of faults that a check reports; it counts all of them.
pub const FAULTS_MAX: usize = 100;

/// A fault that a check has found.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Fault {
    #[error("a key of the table of inodes is not a number")]
    Key,
    #[error("inode {number}: {error}")]
    Inode { number: InodeNumber, error: InodeError },
    #[error("inode {number}: {error}")]
    Run { number: InodeNumber, error: NotFreeError },
    #[error("an entry of directory {0} is not valid")]
    Entry(InodeNumber),
    #[error("directory {directory} names inode {inode}, which does not exist or has another kind")]
    Dangling { directory: InodeNumber, inode: InodeNumber },
    #[error("inode {0} has an entry in inode {1}, which is not a directory")]
    InNoDirectory(InodeNumber, InodeNumber),
    #[error("directory {number} has {entries} entries instead of 1")]
    Entries { number: InodeNumber, entries: u32 },
    #[error("directory {number} has parent {found}, and {expected} is right")]
    Parent { number: InodeNumber, found: InodeNumber, expected: InodeNumber },
    #[error("inode {0} is in the table of orphans, and has links or does not exist")]
    NoOrphan(InodeNumber),
    #[error("symbolic link {0} has no target of its length")]
    Target(InodeNumber),
    #[error("inode {0} has a target or an attribute, and is no such inode")]
    Belonging(InodeNumber),
    #[error("inode {number} has {found} links, and {expected} are right")]
    Links { number: InodeNumber, found: u32, expected: u32 },
    #[error("inode {0} is not reached from the root")]
    Unreached(InodeNumber),
    #[error("the root directory does not exist")]
    NoRoot,
    #[error("the number of the next inode is missing, or not above all numbers")]
    NextInode,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The number of files.
    pub files: u64,
    /// The number of directories, the root included.
    pub directories: u64,
    /// The number of symbolic links, FIFOs, sockets and device nodes.
    pub others: u64,
    /// The number of files and others without links, which are removed when the volume is next
    /// opened for changes.
    pub orphans: u64,
    /// The length of all files.
    pub file_len: ByteLen,
    /// The number of files of more than one run.
    pub split_files: u64,
    /// The number of faults.
    pub fault_count: u64,
    /// The first [`FAULTS_MAX`] of them.
    pub faults: Vec<Fault>,
}

impl Report {
    fn add(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

/// The facts that a check compares, for each inode.
struct Seen {
    kind: Kind,
    links: u32,
    size: ByteLen,
    parent: InodeNumber,
    entries: u32,
    directories: u32,
    is_orphan: bool,
}

impl Seen {
    fn new(inode: &Inode) -> Self {
        let Inode { kind, links, size, parent, .. } = *inode;
        Self { kind, links, size, parent, entries: 0, directories: 0, is_orphan: false }
    }

    /// The number of links that is right.
    fn links_expected(&self) -> u32 {
        match self.kind {
            _ if self.is_orphan => 0,
            Kind::Directory => 2 + self.directories,
            _ => self.entries.max(1),
        }
    }
}

/// Checks the tables of a volume. `free` has the blocks that files may use; afterwards, it has those
/// that no file uses.
///
/// # Errors
/// When the store cannot be read.
pub fn check<T: Tables>(tables: &T, free: &mut FreeRuns) -> Result<Report, T::Error> {
    let mut report = Report::default();
    let mut seen = check_inodes(tables, free, &mut report)?;
    check_orphans(tables, &mut seen, &mut report)?;
    let children = check_entries(tables, &mut seen, &mut report)?;
    check_belongings(tables, &seen, &mut report)?;
    check_links(&seen, &mut report);
    check_reached(&seen, &children, &mut report);
    let last = seen.keys().next_back().map_or(0, |number| number.0);
    if namespace::next_inode(tables)?.is_none_or(|next| next <= last) {
        report.add(Fault::NextInode);
    }
    Ok(report)
}

fn check_inodes<T: Tables>(
    tables: &T,
    free: &mut FreeRuns,
    report: &mut Report,
) -> Result<BTreeMap<InodeNumber, Seen>, T::Error> {
    let mut seen = BTreeMap::new();
    inodes(tables, |number, record| {
        let Some(number) = number else {
            report.add(Fault::Key);
            return ControlFlow::Continue(());
        };
        match Inode::decode(number, record) {
            Ok(inode) => {
                count(&inode, report);
                reserve(number, &inode.runs, free, report);
                seen.insert(number, Seen::new(&inode));
            }
            Err(error) => report.add(Fault::Inode { number, error }),
        }
        ControlFlow::Continue(())
    })?;
    Ok(seen)
}

fn count(inode: &Inode, report: &mut Report) {
    match inode.kind {
        Kind::File => report.files += 1,
        Kind::Directory => report.directories += 1,
        _ => report.others += 1,
    }
    if inode.kind == Kind::File {
        report.file_len.0 = report.file_len.0.saturating_add(inode.size.0);
    }
    report.split_files += u64::from(inode.runs.len() > 1);
}

fn reserve(number: InodeNumber, runs: &[Run], free: &mut FreeRuns, report: &mut Report) {
    for run in runs {
        if let Err(error) = free.reserve(*run) {
            report.add(Fault::Run { number, error });
        }
    }
}

fn check_orphans<T: Tables>(
    tables: &T,
    seen: &mut BTreeMap<InodeNumber, Seen>,
    report: &mut Report,
) -> Result<(), T::Error> {
    for number in orphans(tables)? {
        match seen.get_mut(&number).filter(|inode| inode.links == 0) {
            Some(inode) => {
                inode.is_orphan = true;
                report.orphans += 1;
            }
            None => report.add(Fault::NoOrphan(number)),
        }
    }
    Ok(())
}

/// Checks that targets and attributes belong to inodes, and that every symbolic link has a target.
fn check_belongings<T: Tables>(
    tables: &T,
    seen: &BTreeMap<InodeNumber, Seen>,
    report: &mut Report,
) -> Result<(), T::Error> {
    let links = seen.iter().filter(|(_, inode)| inode.kind == Kind::Symlink);
    let mut missing: BTreeMap<InodeNumber, ByteLen> =
        links.map(|(number, inode)| (*number, inode.size)).collect();
    tables.scan(Table::Targets, &[], &mut |key, target| {
        let number = crate::tables::number_of(key).map_or(InodeNumber(0), |(it, _)| it);
        match missing.remove(&number) {
            Some(size) if size == ByteLen::of(target) => {}
            Some(_) => report.add(Fault::Target(number)),
            None => report.add(Fault::Belonging(number)),
        }
        ControlFlow::Continue(())
    })?;
    missing.into_keys().for_each(|number| report.add(Fault::Target(number)));
    tables.scan(Table::Attributes, &[], &mut |key, _| {
        let number = crate::tables::number_of(key).map_or(InodeNumber(0), |(it, _)| it);
        if !seen.contains_key(&number) {
            report.add(Fault::Belonging(number));
        }
        ControlFlow::Continue(())
    })
}

/// Returns the entries of each directory.
fn check_entries<T: Tables>(
    tables: &T,
    seen: &mut BTreeMap<InodeNumber, Seen>,
    report: &mut Report,
) -> Result<BTreeMap<InodeNumber, Vec<InodeNumber>>, T::Error> {
    let mut children: BTreeMap<InodeNumber, Vec<InodeNumber>> = BTreeMap::new();
    tables.scan(Table::Entries, &[], &mut |key, value| {
        let Some((directory, entry)) = decode_entry(key, value) else {
            let directory = crate::tables::number_of(key).map_or(InodeNumber(0), |(it, _)| it);
            report.add(Fault::Entry(directory));
            return ControlFlow::Continue(());
        };
        match seen.get_mut(&entry.inode).filter(|inode| inode.kind == entry.kind) {
            Some(inode) => {
                inode.entries = inode.entries.saturating_add(1);
                let (number, found) = (entry.inode, inode.parent);
                if entry.kind == Kind::Directory && found != directory {
                    report.add(Fault::Parent { number, found, expected: directory });
                }
            }
            None => report.add(Fault::Dangling { directory, inode: entry.inode }),
        }
        match seen.get_mut(&directory).filter(|inode| inode.kind == Kind::Directory) {
            Some(parent) => {
                parent.directories += u32::from(entry.kind == Kind::Directory);
                children.entry(directory).or_default().push(entry.inode);
            }
            None => report.add(Fault::InNoDirectory(entry.inode, directory)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(children)
}

fn check_links(seen: &BTreeMap<InodeNumber, Seen>, report: &mut Report) {
    for (number, inode) in seen {
        let (number, entries) = (*number, inode.entries);
        let entries_expected = u32::from(number != InodeNumber::ROOT && !inode.is_orphan);
        if inode.kind == Kind::Directory && entries != entries_expected {
            report.add(Fault::Entries { number, entries });
        }
        let (found, expected) = (inode.links, inode.links_expected());
        if found != expected {
            report.add(Fault::Links { number, found, expected });
        }
    }
}

fn check_reached(
    seen: &BTreeMap<InodeNumber, Seen>,
    children: &BTreeMap<InodeNumber, Vec<InodeNumber>>,
    report: &mut Report,
) {
    if seen.get(&InodeNumber::ROOT).is_none_or(|root| root.kind != Kind::Directory) {
        report.add(Fault::NoRoot);
    }
    let mut reached = BTreeSet::from([InodeNumber::ROOT]);
    let mut next = vec![InodeNumber::ROOT];
    while let Some(directory) = next.pop() {
        for inode in children.get(&directory).into_iter().flatten() {
            if reached.insert(*inode) {
                next.push(*inode);
            }
        }
    }
    let unreached = seen.iter().filter(|(number, _)| !reached.contains(number));
    for (number, _) in unreached.filter(|(_, inode)| !inode.is_orphan) {
        report.add(Fault::Unreached(*number));
    }
}

#[cfg(test)]
mod tests;
