//! The disk that studies measure: a file or device of the user, or scratch files.
//!
//! On a user's disk the node has the first half, which begins with its label; subjects without a
//! node have the second half. A disk that is in use is refused, and one that holds data is only
//! written to with `--destroy`.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nearflash_media::{Backing, Claim, DeviceSpec, OpenError};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use uuid::Uuid;

use crate::error::{LocalError, StudyError};

/// The number of volumes on files or devices: `Medium::File(0)` to `Medium::File(3)`.
pub(crate) const VOLUMES_MAX: u64 = 4;
/// Bytes of a gibibyte.
const GIB: u64 = 1024 * MIB;
/// Length of each volume, and of each range that is measured without a node.
const VOLUME_LEN: ByteLen = ByteLen(GIB);
/// The same with `--quick`.
const VOLUME_LEN_QUICK: ByteLen = ByteLen(256 * MIB);
/// Room on a node's device besides its volumes: labels, and rounding to granules.
const NODE_EXTRA: ByteLen = ByteLen(64 * MIB);
/// Minimum volume length on a user's disk, which holds [`VOLUMES_MAX`] volumes in each half.
const VOLUME_LEN_MIN: ByteLen = ByteLen(16 * MIB);
/// Bytes that scratch files leave free on their disk, for results and other programs.
const FREE_MIN: ByteLen = ByteLen(256 * MIB);
/// Subfolder of the results for everything temporary. The name is reserved: remains of a killed run
/// are removed.
const SCRATCH_DIR: &str = "nearflash-study-scratch";

/// A range of a file or device that is measured without a node.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) path: PathBuf,
    pub(crate) offset: ByteOffset,
    pub(crate) len: ByteLen,
}

/// The disk that volumes and ranges lie on.
#[derive(Debug)]
pub(crate) struct Disk {
    kind: Kind,
    volume_len: ByteLen,
}

#[derive(Debug)]
enum Kind {
    /// Scratch files in this folder, which is removed on drop.
    Scratch(PathBuf),
    /// A file or device of the user.
    Given { path: PathBuf, is_block: bool, half: ByteLen, wipe: bool },
}

impl Disk {
    /// Scratch files in a folder of results. Fails if there is no room for `file_count` of them.
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
        // Remains of a killed run.
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

    /// A file or device of the user. It is inspected, not written to.
    pub(crate) fn given(path: &Path, is_quick: bool, destroy: bool) -> Result<Self, LocalError> {
        let absent = |source| LocalError::Absent { path: path.to_owned(), source };
        // Absolute, since the node runs in another folder.
        let path = path.canonicalize().map_err(absent)?;
        let is_block = path.metadata().map_err(absent)?.file_type().is_block_device();
        let backing = match is_block {
            true => Backing::Block { path: path.clone() },
            false => Backing::File { path: path.clone(), size: None },
        };
        let name = "local".parse().expect("it is a name");
        let spec = DeviceSpec { name, backing, wipe: destroy, page_cache: false };
        // Only inspects: the opened device is dropped again.
        nearflash_media::open(&spec, Claim { node: Uuid::new_v4(), known: &[], cluster: None })
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

    /// The range of `Medium::File(index)` that is measured without a node.
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

    /// Name and `--device` argument of the device on which a node has volume `index`.
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

    /// Whether a node that serves it excludes all other writers.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.kind, Kind::Given { is_block: true, .. })
    }

    /// Whether every range is a file of its own.
    pub(crate) fn is_scratch(&self) -> bool {
        matches!(self.kind, Kind::Scratch(_))
    }

    /// The folder of the scratch files, or the user's file or device.
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
        OpenError::Foreign { .. } | OpenError::Unclaimed { .. } | OpenError::Label { .. } => {
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
