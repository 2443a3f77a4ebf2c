//! The disk that studies measure: a file or device of the user, or scratch files of our own.
//!
//! On a user's disk the node has the first half and what is measured without a node the second: the
//! node's label is at the start. Nothing is written to a disk that holds something, or that is in
//! use, without being told to.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nearflash_media::{Backing, Claim, DeviceSpec, OpenError};
use nearflash_units::{ByteLen, ByteOffset, MIB};

use uuid::Uuid;

use crate::error::StudyError;
use crate::run::Raw;

/// How many volumes may lie on files or devices: `Medium::File(0)` and on.
pub(crate) const VOLUMES_MAX: u64 = 4;
/// Bytes of a gibibyte.
const GIB: u64 = 1024 * MIB;
/// Length of each volume, and of each range that is measured without a node.
const VOLUME_LEN: ByteLen = ByteLen(GIB);
/// The same, for a first look.
const VOLUME_LEN_QUICK: ByteLen = ByteLen(256 * MIB);
/// What a node needs beside its volumes: labels, and whole granules.
const NODE_EXTRA: ByteLen = ByteLen(64 * MIB);
/// A user's disk holds four volumes of this length twice, and what a node needs.
const VOLUME_LEN_MIN: ByteLen = ByteLen(16 * MIB);
/// Left free on the scratch files' disk: results, and others.
const FREE_MIN: ByteLen = ByteLen(256 * MIB);
/// All of ours in a folder of results that is not results. The name is nobody else's: what is left
/// there of a run that was killed is removed.
const SCRATCH_DIR: &str = "nearflash-study-scratch";

/// Why a user's file or device is not measured.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// It is in use, or cannot be opened.
    #[error("--local: {0}")]
    Refused(Box<OpenError>),
    /// It holds something.
    #[error(
        "--local: {} holds {what}: name another, or give --destroy to erase it",
        path.display()
    )]
    Holds {
        /// Which.
        path: PathBuf,
        /// What.
        what: &'static str,
    },
    /// Too little to measure.
    #[error("--local: {} is {len} long: at least {len_min} are needed", path.display())]
    TooSmall {
        /// Which.
        path: PathBuf,
        /// How long it is.
        len: ByteLen,
        /// How long it must be.
        len_min: ByteLen,
    },
    /// Neither a file nor a device.
    #[error("--local: {}: {source}: name a file or a block device", path.display())]
    Absent {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    kind: Kind,
    volume_len: ByteLen,
}

#[derive(Debug)]
enum Kind {
    /// Files in this folder, which is gone with its value.
    Scratch(PathBuf),
    /// A file or device of the user.
    Given { path: PathBuf, is_block: bool, half: ByteLen, wipe: bool },
}

impl Disk {
    /// Scratch files in a folder of results. Room for so many volumes and ranges must be there.
    pub(crate) fn scratch(
        out_dir: &Path,
        is_quick: bool,
        file_count: u32,
    ) -> Result<Self, StudyError> {
        let dir = out_dir.join(SCRATCH_DIR);
        let failed = |action| {
            let path = dir.clone();
            move |source| StudyError::Io { action, path, source }
        };
        // Of a run that was killed.
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed("remove"))?;
        }
        fs::create_dir_all(&dir).map_err(failed("make"))?;
        let disk = Self {
            kind: Kind::Scratch(dir.clone()),
            volume_len: if is_quick { VOLUME_LEN_QUICK } else { VOLUME_LEN },
        };
        let needed = ByteLen(u64::from(file_count) * disk.volume_len.0 + FREE_MIN.0);
        let system = rustix::fs::statvfs(&dir).map_err(|e| failed("look at")(e.into()))?;
        let free = ByteLen(system.f_bavail.saturating_mul(system.f_frsize));
        if file_count > 0 && free < needed {
            return Err(StudyError::DiskFull { path: out_dir.to_owned(), free, needed });
        }
        Ok(disk)
    }

    /// A file or device of the user's, looked at and not yet written to.
    pub(crate) fn given(path: &Path, is_quick: bool, destroy: bool) -> Result<Self, LocalError> {
        let absent = |source| LocalError::Absent { path: path.to_owned(), source };
        // The same disk, whatever folder a node is started in.
        let path = path.canonicalize().map_err(absent)?;
        let is_block = path.metadata().map_err(absent)?.file_type().is_block_device();
        let backing = match is_block {
            true => Backing::Block { path: path.clone() },
            false => Backing::File { path: path.clone(), size: None },
        };
        let name = "local".parse().expect("it is a name");
        let spec = DeviceSpec { name, backing, wipe: destroy };
        // Looks, and writes nothing: what it opened is closed again.
        nearflash_media::open(&spec, Claim { node: Uuid::new_v4(), known: &[] })
            .map_err(|error| refusal(&path, error))?;
        let len = length(&path).map_err(absent)?;
        let half = ByteLen(len.0 / 2 / MIB * MIB);
        let room = half.0.saturating_sub(NODE_EXTRA.0) / VOLUMES_MAX / MIB * MIB;
        if room < VOLUME_LEN_MIN.0 {
            let len_min = ByteLen(2 * (VOLUMES_MAX * VOLUME_LEN_MIN.0 + NODE_EXTRA.0));
            return Err(LocalError::TooSmall { path, len, len_min });
        }
        let wanted = if is_quick { VOLUME_LEN_QUICK } else { VOLUME_LEN };
        let volume_len = ByteLen(wanted.0.min(room));
        Ok(Self { kind: Kind::Given { path, is_block, half, wipe: destroy }, volume_len })
    }

    /// Length of each volume and of each range.
    pub(crate) fn volume_len(&self) -> ByteLen {
        self.volume_len
    }

    /// What is measured without a node, for `Medium::File(index)`.
    pub(crate) fn raw(&self, index: u8) -> Raw {
        let len = self.volume_len;
        match &self.kind {
            Kind::Scratch(dir) => {
                let path = dir.join(format!("local{index}.img"));
                Raw { path, offset: ByteOffset(0), len }
            }
            Kind::Given { path, half, .. } => {
                let offset = ByteOffset(half.0 + u64::from(index) * len.0);
                Raw { path: path.clone(), offset, len }
            }
        }
    }

    /// The device that a node has volume `index` on: its name, and how it is written.
    pub(crate) fn device(&self, index: u8) -> (String, String) {
        match &self.kind {
            Kind::Scratch(dir) => {
                let name = format!("disk{index}");
                let path = dir.join(format!("{name}.img"));
                let size = self.volume_len.0 + NODE_EXTRA.0;
                let flag = format!("{name}=file:{},size={size}", path.display());
                (name, flag)
            }
            Kind::Given { path, is_block, wipe, .. } => {
                let kind = if *is_block { "block" } else { "file" };
                let wipe = if *wipe { ",wipe" } else { "" };
                ("disk".to_owned(), format!("disk={kind}:{}{wipe}", path.display()))
            }
        }
    }

    /// Whether a node that serves it lets nobody else write to it.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.kind, Kind::Given { is_block: true, .. })
    }

    /// Whether every range is a file of its own.
    pub(crate) fn is_scratch(&self) -> bool {
        matches!(self.kind, Kind::Scratch(_))
    }

    /// Where it is, for people.
    pub(crate) fn path(&self) -> &Path {
        match &self.kind {
            Kind::Scratch(path) | Kind::Given { path, .. } => path,
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Kind::Scratch(dir) = &self.kind {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn refusal(path: &Path, error: OpenError) -> LocalError {
    let path = path.to_owned();
    match error {
        OpenError::Holds { what, .. } => LocalError::Holds { path, what },
        OpenError::Foreign { .. } | OpenError::Label { .. } => {
            LocalError::Holds { path, what: "volumes of a nearflash node" }
        }
        other => LocalError::Refused(Box::new(other)),
    }
}

fn length(path: &Path) -> io::Result<ByteLen> {
    let mut file = fs::File::open(path)?;
    io::Seek::seek(&mut file, io::SeekFrom::End(0)).map(ByteLen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(dir: &Path, len: u64) -> PathBuf {
        let path = dir.join("disk.img");
        fs::File::create(&path).unwrap().set_len(len).unwrap();
        path
    }

    #[test]
    fn an_empty_file_is_taken_and_node_and_ranges_share_it_without_overlap() {
        let dir = tempfile::tempdir().unwrap();
        let path = sparse(dir.path(), 4 * GIB);
        let disk = Disk::given(&path, true, false).unwrap();
        assert_eq!(disk.volume_len(), VOLUME_LEN_QUICK);
        let node_end = VOLUMES_MAX * disk.volume_len().0 + NODE_EXTRA.0;
        let mut end = node_end;
        for index in 0..4 {
            let raw = disk.raw(index);
            assert!(raw.offset.0 >= end, "range {index} overlaps what is before it");
            end = raw.offset.0 + raw.len.0;
        }
        assert!(end <= 4 * GIB);
        assert!(!disk.device(0).1.contains("wipe"));
    }

    #[test]
    fn a_file_that_holds_data_is_refused_unless_told_to_destroy_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = sparse(dir.path(), 4 * GIB);
        std::os::unix::fs::FileExt::write_all_at(
            &fs::OpenOptions::new().write(true).open(&path).unwrap(),
            b"precious",
            4096,
        )
        .unwrap();
        let message = Disk::given(&path, true, false).unwrap_err().to_string();
        assert!(message.contains("disk.img") && message.contains("--destroy"), "{message}");
        let disk = Disk::given(&path, true, true).unwrap();
        assert!(disk.device(0).1.ends_with(",wipe"));
    }

    #[test]
    fn what_is_no_disk_or_too_small_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let small = sparse(dir.path(), 64 * MIB);
        for path in [&small, dir.path(), Path::new("/nowhere/disk.img")] {
            let message = Disk::given(path, true, true).unwrap_err().to_string();
            assert!(message.starts_with("--local: "), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn scratch_files_need_room_and_are_gone_with_their_disk() {
        let dir = tempfile::tempdir().unwrap();
        let full = Disk::scratch(dir.path(), false, 1 << 31).unwrap_err();
        assert!(matches!(full, StudyError::DiskFull { .. }));
        assert!(full.to_string().contains("--out"), "{full}");
        let disk = Disk::scratch(dir.path(), true, 1).unwrap();
        let raw = disk.raw(0);
        fs::write(&raw.path, "x").unwrap();
        drop(disk);
        assert!(!raw.path.exists() && dir.path().exists());
    }
}
