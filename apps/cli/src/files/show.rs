//! The answers of `nearflash files`: documents for programs, and their text for people.

use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path as LocalPath;

use nearflash::url::encode_bytes;
use nearflash_files_service::{CheckReport, Inode, InodeNumber, Kind, Path};
use nearflash_units::Nanos;
use serde::Serialize;

use crate::calendar::show_moment;
use crate::tables;

/// The characters, apart from control characters, that a terminal does not show as they are: marks and
/// overrides of the direction of text, and separators of lines.
const HIDDEN: [RangeInclusive<char>; 3] =
    ['\u{200E}'..='\u{200F}', '\u{2028}'..='\u{202E}', '\u{2066}'..='\u{2069}'];

/// A path for people: as it is, or, if a terminal would not show it so, in quotes that a shell reads, as
/// `$'/a\nb\xFF'`. A path begins with a slash, so the two are not mistaken for each other.
fn quoted(path: &[u8]) -> String {
    let is_shown = |letter: char| {
        !letter.is_control() && !HIDDEN.iter().any(|hidden| hidden.contains(&letter))
    };
    if let Ok(text) = std::str::from_utf8(path)
        && text.chars().all(is_shown)
    {
        return text.to_owned();
    }
    let mut text = "$'".to_owned();
    let escaped =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect::<String>();
    for chunk in path.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\n' => text += "\\n",
                '\t' => text += "\\t",
                '\'' | '\\' => text.extend(['\\', letter]),
                _ if is_shown(letter) => text.push(letter),
                _ => text += &escaped(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        text += &escaped(chunk.invalid());
    }
    text + "'"
}

/// The bytes of a path from the root.
fn bytes_of(path: &Path) -> Vec<u8> {
    match path.is_root() {
        true => b"/".to_vec(),
        false => path.names().iter().flat_map(|name| [b"/", name.as_bytes()].concat()).collect(),
    }
}

/// A path that was changed.
#[derive(Serialize)]
pub(super) struct Done {
    /// The path, if it is UTF-8.
    path: Option<String>,
    /// The path as it is written in a URL.
    encoded_path: String,
    #[serde(skip)]
    bytes: Vec<u8>,
}

impl Done {
    pub(super) fn new(path: &Path) -> Self {
        let bytes = bytes_of(path);
        Self {
            path: String::from_utf8(bytes.clone()).ok(),
            encoded_path: encode_bytes(&bytes),
            bytes,
        }
    }

    /// The path for people.
    pub(super) fn shown(&self) -> String {
        quoted(&self.bytes)
    }
}

/// A new name.
#[derive(Serialize)]
pub(super) struct Renamed {
    from: Option<String>,
    encoded_from: String,
    #[serde(skip)]
    former: Done,
    #[serde(flatten)]
    new: Done,
}

impl Renamed {
    pub(super) fn new(from: &Path, to: &Path) -> Self {
        let former = Done::new(from);
        let (from, encoded_from) = (former.path.clone(), former.encoded_path.clone());
        Self { from, encoded_from, former, new: Done::new(to) }
    }
}

pub(super) fn renamed(renamed: &Renamed) -> String {
    format!("renamed {} to {}\n", renamed.former.shown(), renamed.new.shown())
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
    #[serde(flatten)]
    path: Done,
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
        let run = |run: &nearflash_files_service::Run| RunOfFile {
            start: run.offset().0,
            bytes: run.len().0,
        };
        Self {
            path: Done::new(path),
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
    let path = path.shown();
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
    format!("put {}: {} in {}\n", node.path.shown(), tables::size(node.bytes), node.runs())
}

pub(super) fn got(node: &Node, file: &LocalPath) -> String {
    let (path, file) = (node.path.shown(), quoted(file.as_os_str().as_bytes()));
    format!("got {path}: {} in {file}\n", tables::size(node.bytes))
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
        format!("{size:>9}  {}  {}{slash}\n", show_moment(node.modified_at), node.path.shown())
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
            path: Done::new(&Path::parse(path.as_bytes()).unwrap()),
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
    fn no_control_character_of_a_name_reaches_a_terminal() {
        for (name, shown) in [
            (&b"/a 'b' \\ \xC3\xA9"[..], "/a 'b' \\ é"),
            (b"/\x1B[31mred", r"$'/\x1B[31mred'"),
            (b"/a\nb\tc", r"$'/a\nb\tc'"),
            (b"/\xFF'\\", r"$'/\xFF\'\\'"),
            ("/\u{9B}2J\u{7F}".as_bytes(), r"$'/\xC2\x9B2J\x7F'"),
            ("/a\u{202E}b".as_bytes(), r"$'/a\xE2\x80\xAEb'"),
        ] {
            assert_eq!(quoted(name), shown);
            let path = Path::parse(name).unwrap();
            assert_eq!(Done::new(&path).shown(), shown);
        }
    }

    #[test]
    fn programs_get_every_name_in_a_form_for_urls() {
        let path = |bytes: &[u8]| Path::parse(bytes).unwrap();
        let renamed = Renamed::new(&path(b"/a b"), &path(b"/\xFE"));
        assert_eq!(
            serde_json::to_value(renamed).unwrap(),
            serde_json::json!({
                "from": "/a b", "encoded_from": "/a%20b", "path": null, "encoded_path": "/%FE"
            })
        );
        let root = Done::new(&path(b"/"));
        assert_eq!((root.path.as_deref(), &*root.encoded_path), (Some("/"), "/"));
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
