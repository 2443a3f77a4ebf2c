//! A machine, as /sys and /proc show it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The length in bytes of the longest file that is read; those of /sys and /proc are shorter.
const FILE_LEN_MAX: u64 = 1 << 20;

/// A machine, and the part of it that a node uses.
#[derive(Debug)]
pub(super) struct Machine {
    /// The folder with `sys` and `proc`.
    root: PathBuf,
    /// The processors of the node.
    pub(super) cores: Vec<usize>,
    /// The disks of the node.
    pub(super) disks: Vec<Disk>,
}

/// The disk of a device, or the disk that its file lies on.
#[derive(Debug)]
pub(super) struct Disk {
    /// The node's name for the device.
    pub(super) device: String,
    /// The number of the disk or the partition, `MAJOR:MINOR`.
    pub(super) number: String,
}

impl Machine {
    /// This machine, with the names and the paths of the node's devices. A device without a path, or
    /// whose file does not exist yet, has no disk.
    pub(super) fn this(
        cores: Vec<usize>,
        devices: impl Iterator<Item = (String, PathBuf)>,
    ) -> Self {
        let disk =
            |(device, path): (String, PathBuf)| Some(Disk { device, number: number_of(&path)? });
        Self::at(PathBuf::from("/"), cores, devices.filter_map(disk).collect())
    }

    /// The machine that a folder shows.
    pub(super) fn at(root: PathBuf, cores: Vec<usize>, disks: Vec<Disk>) -> Self {
        Self { root, cores, disks }
    }

    /// The text of a file, without the space around it. `None` if it cannot be read.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        use std::io::Read;
        let file = fs::File::open(self.root.join(path)).ok()?;
        let mut text = String::new();
        file.take(FILE_LEN_MAX).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned())
    }

    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a folder, in order.
    pub(super) fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The folder of a disk; of the whole disk if it is a partition. `None` for a file system without
    /// a disk of its own.
    pub(super) fn folder_of(&self, disk: &Disk) -> Option<PathBuf> {
        let folder = PathBuf::from("sys/dev/block").join(&disk.number);
        if self.root.join(&folder).join("partition").exists() {
            return Some(folder.join(".."));
        }
        self.root.join(&folder).exists().then_some(folder)
    }

    /// The network interfaces that have hardware of their own and are up.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let is_used = |name: &String| {
            let folder = self.root.join("sys/class/net").join(name);
            let state = self.read(format!("sys/class/net/{name}/operstate"));
            folder.join("device").exists() && state.is_some_and(|state| state == "up")
        };
        self.list("sys/class/net").into_iter().filter(is_used).collect()
    }
}

/// The number of a block device, or of the one that a file lies on.
fn number_of(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let is_block = metadata.file_type().is_block_device();
    let number = if is_block { metadata.rdev() } else { metadata.dev() };
    Some(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// The processors of a list such as `0-3,8`.
pub(super) fn processors(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}
