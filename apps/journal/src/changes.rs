//! The file of changes: who changed what and when, one JSON document a line. It survives restarts, and no peer without
//! the right to make changes can add to it.
//!
//! The system writes the lines to the device when it likes: a machine that loses power may lose the last seconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nearflash_api::{Document, EventInfo};

/// The file, and the one that it becomes when it is full.
const NAME: &str = "changes.jsonl";
const OLDER_NAME: &str = "changes.older.jsonl";

/// The length in bytes from which a file is full.
const LEN_MAX: u64 = 4 << 20;

/// The file of a data directory.
#[derive(Debug)]
pub(crate) struct Trail {
    data_dir: PathBuf,
    file: File,
    len: u64,
    len_max: u64,
    /// The end of the file may be a part of a line.
    is_torn: bool,
}

impl Trail {
    /// Opens the file, which only the node's own user can read.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let mut file = open(&data_dir.join(NAME))?;
        let len = file.seek(SeekFrom::End(0))?;
        let is_torn = len > 0 && last_byte(&mut file)? != b'\n';
        Ok(Self { data_dir: data_dir.to_owned(), file, len, len_max: LEN_MAX, is_torn })
    }

    /// Adds a change.
    pub(crate) fn append(&mut self, change: &EventInfo) -> io::Result<()> {
        let end = if self.is_torn { "\n" } else { "" };
        let line = format!("{end}{}\n", Document::new(change).to_line());
        let len = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.len > 0 && self.len.saturating_add(len) > self.len_max {
            let path = self.data_dir.join(NAME);
            std::fs::rename(&path, self.data_dir.join(OLDER_NAME))?;
            (self.file, self.len) = (open(&path)?, 0);
        }
        self.is_torn = true;
        self.file.write_all(line.as_bytes())?;
        self.is_torn = false;
        self.len += len;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}

/// The changes that a data directory has recorded, the oldest first. Lines that a crash has cut are left out.
///
/// # Errors
/// When a file cannot be read. One that does not exist has no changes.
pub(crate) fn recorded(data_dir: &Path) -> io::Result<Vec<EventInfo>> {
    let mut changes = Vec::new();
    for name in [OLDER_NAME, NAME] {
        let bytes = match std::fs::read(data_dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read?,
        };
        let lines = bytes.split(|byte| *byte == b'\n');
        changes.extend(lines.filter_map(|line| serde_json::from_slice::<EventInfo>(line).ok()));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use nearflash_api::EventLevel;

    use super::*;

    fn change(number: u64) -> EventInfo {
        let (level, text) = (EventLevel::Info, "change".to_owned());
        let fields = [("call".to_owned(), "volume-create".to_owned())].into();
        EventInfo { number, at_ms: 1, level, text, fields }
    }

    fn numbers(data_dir: &Path) -> Vec<u64> {
        recorded(data_dir).unwrap().into_iter().map(|change| change.number).collect()
    }

    #[test]
    fn changes_survive_restarts_and_a_line_that_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        assert!(numbers(folder.path()).is_empty());
        Trail::open(folder.path()).unwrap().append(&change(1)).unwrap();
        let path = folder.path().join(NAME);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        open(&path).unwrap().write_all(b"{\"schema\":1,\"num").unwrap();
        let mut trail = Trail::open(folder.path()).unwrap();
        trail.append(&change(2)).unwrap();
        trail.append(&change(3)).unwrap();
        assert_eq!(numbers(folder.path()), [1, 2, 3]);
        assert_eq!(recorded(folder.path()).unwrap()[1], change(2));
    }

    #[test]
    fn the_files_have_a_bound_and_the_oldest_changes_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut trail = Trail::open(folder.path()).unwrap();
        trail.len_max = 1000;
        (1..=100).for_each(|number| trail.append(&change(number)).unwrap());
        let kept = numbers(folder.path());
        assert!(kept.len() >= 8 && kept.len() < 40, "{kept:?}");
        assert_eq!(kept, (101 - u64::try_from(kept.len()).unwrap()..=100).collect::<Vec<_>>());
        for name in [NAME, OLDER_NAME] {
            assert!(std::fs::metadata(folder.path().join(name)).unwrap().len() <= 1000);
        }
    }
}
