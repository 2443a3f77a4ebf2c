//! The answers of `nearflash files`: documents for programs, and their text for people.

use std::path::Path as LocalPath;

use nearflash_files_owner::{CheckReport, Inode, InodeNumber, Kind, Path};
use nearflash_units::Nanos;
use serde::Serialize;

use crate::calendar::show_moment;
use crate::tables;

/// A path that was changed.
#[derive(Serialize)]
pub(super) struct Done {
    pub(super) path: String,
}

impl Done {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_string() }
    }
}

/// A new name.
#[derive(Serialize)]
pub(super) struct Renamed {
    pub(super) from: String,
    pub(super) path: String,
}

/// A formatted volume.
#[derive(Serialize)]
pub(super) struct Formatted {
    pub(super) volume: String,
    pub(super) bytes: u64,
    pub(super) free_bytes: u64,
}

pub(super) fn formatted(formatted: &Formatted) -> String {
    let Formatted { volume, bytes, free_bytes } = formatted;
    let (all, free) = (tables::size(*bytes), tables::size(*free_bytes));
    format!("formatted volume '{volume}' of {all}: {free} for files\n")
}

/// A file or a directory.
#[derive(Serialize)]
pub(super) struct Node {
    path: String,
    kind: &'static str,
    inode: u64,
    links: u32,
    bytes: u64,
    created_at: u64,
    modified_at: u64,
    runs: Vec<RunOfFile>,
}

/// Consecutive bytes of the volume.
#[derive(Serialize)]
struct RunOfFile {
    start: u64,
    bytes: u64,
}

impl Node {
    pub(super) fn new(path: &Path, number: InodeNumber, inode: &Inode) -> Self {
        let kind = match inode.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::CharDevice => "character device",
            Kind::BlockDevice => "block device",
        };
        let run = |run: &nearflash_files_owner::Run| RunOfFile {
            start: run.offset().0,
            bytes: run.len().0,
        };
        Self {
            path: path.to_string(),
            kind,
            inode: number.0,
            links: inode.links,
            bytes: inode.size.0,
            created_at: seconds(inode.created_at),
            modified_at: seconds(inode.modified_at),
            runs: inode.runs.iter().map(run).collect(),
        }
    }

    fn runs(&self) -> String {
        counted(count_of(self.runs.len()), "run", "runs")
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn count_of(count: usize) -> u64 {
    u64::try_from(count).expect("usize is at most 64 bits wide")
}

fn seconds(time: Nanos) -> u64 {
    time.0 / 1_000_000_000
}

pub(super) fn node(node: &Node) -> String {
    let Node { path, kind, inode, links, bytes, created_at, modified_at, .. } = node;
    let mut text = format!("{path}: {kind}, inode {inode}, links {links}\n");
    text +=
        &format!("created {}, modified {}\n", show_moment(*created_at), show_moment(*modified_at));
    if *kind == "file" {
        text += &format!("{bytes} bytes in {}\n", node.runs());
    }
    for run in &node.runs {
        text += &format!("  {} bytes at {} of the volume\n", run.bytes, run.start);
    }
    text
}

pub(super) fn put(node: &Node) -> String {
    format!("put {}: {} in {}\n", node.path, tables::size(node.bytes), node.runs())
}

pub(super) fn got(node: &Node, file: &LocalPath) -> String {
    format!("got {}: {} in {}\n", node.path, tables::size(node.bytes), file.display())
}

/// The entries of a directory, or a file.
#[derive(Serialize)]
pub(super) struct Listing {
    pub(super) entries: Vec<Node>,
}

pub(super) fn listing(listing: &Listing) -> String {
    let line = |node: &Node| {
        let size = if node.kind == "file" { tables::size(node.bytes) } else { String::new() };
        let slash = if node.kind == "directory" { "/" } else { "" };
        format!("{size:>9}  {}  {}{slash}\n", show_moment(node.modified_at), node.path)
    };
    listing.entries.iter().map(line).collect()
}

/// The result of a check.
#[derive(Serialize)]
pub(super) struct Checked {
    volume: String,
    is_sound: bool,
    files: u64,
    directories: u64,
    file_bytes: u64,
    split_files: u64,
    free_bytes: u64,
    gaps: u64,
    longest_gap_bytes: u64,
    fault_count: u64,
    faults: Vec<String>,
}

impl Checked {
    pub(super) fn new(volume: &str, checked: &CheckReport) -> Self {
        let report = &checked.report;
        let store =
            (!checked.is_store_sound).then(|| "checksums of the metadata are wrong".to_owned());
        let faults = report.faults.iter().map(ToString::to_string);
        Self {
            volume: volume.to_owned(),
            is_sound: checked.is_sound(),
            files: report.files,
            directories: report.directories,
            file_bytes: report.file_len.0,
            split_files: report.split_files,
            free_bytes: checked.free_len.0,
            gaps: count_of(checked.gaps),
            longest_gap_bytes: checked.longest_gap.0,
            fault_count: report.fault_count + u64::from(!checked.is_store_sound),
            faults: store.into_iter().chain(faults).collect(),
        }
    }
}

pub(super) fn checked(checked: &Checked) -> String {
    let size = tables::size;
    let mut text = format!(
        "volume '{}': {} of {}, {} in several runs; {}\n{} free in {}, the longest {}\n",
        checked.volume,
        counted(checked.files, "file", "files"),
        size(checked.file_bytes),
        checked.split_files,
        counted(checked.directories, "directory", "directories"),
        size(checked.free_bytes),
        counted(checked.gaps, "gap", "gaps"),
        size(checked.longest_gap_bytes)
    );
    checked.faults.iter().for_each(|fault| text += &format!("fault: {fault}\n"));
    if checked.is_sound {
        text += "no faults\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, kind: &'static str, runs: &[(u64, u64)]) -> Node {
        let runs = runs.iter().map(|(start, bytes)| RunOfFile { start: *start, bytes: *bytes });
        Node {
            path: path.to_owned(),
            kind,
            inode: 7,
            links: 1,
            bytes: 5000,
            created_at: 1_795_269_350,
            modified_at: 1_795_269_350,
            runs: runs.collect(),
        }
    }

    #[test]
    fn files_are_listed_and_described_in_words() {
        let file = node("/a/f", "file", &[(1 << 20, 8192)]);
        insta::assert_snapshot!(super::node(&file), @r"
        /a/f: file, inode 7, links 1
        created 2026-11-21 13:55Z, modified 2026-11-21 13:55Z
        5000 bytes in 1 run
          8192 bytes at 1048576 of the volume
        ");
        insta::assert_snapshot!(put(&file), @"put /a/f: 5000B in 1 run");
        let directory = node("/a/d", "directory", &[]);
        let entries = vec![directory, node("/a/g", "file", &[])];
        insta::assert_snapshot!(listing(&Listing { entries }).trim_start(), @r"
        2026-11-21 13:55Z  /a/d/
            5000B  2026-11-21 13:55Z  /a/g
        ");
    }

    #[test]
    fn a_check_names_its_faults() {
        let mut found = Checked {
            volume: "data".to_owned(),
            is_sound: true,
            files: 1,
            directories: 2,
            file_bytes: 5000,
            split_files: 0,
            free_bytes: 1 << 20,
            gaps: 1,
            longest_gap_bytes: 1 << 20,
            fault_count: 0,
            faults: Vec::new(),
        };
        insta::assert_snapshot!(checked(&found), @r"
        volume 'data': 1 file of 5000B, 0 in several runs; 2 directories
        1MiB free in 1 gap, the longest 1MiB
        no faults
        ");
        (found.is_sound, found.faults) = (false, vec!["inode 7 is not reached".to_owned()]);
        assert!(checked(&found).ends_with("fault: inode 7 is not reached\n"));
    }
}
