//! The errors of opening a device. Every message is one line that names the device and the remedy.

use std::io;
use std::path::PathBuf;

use nearflash_device::OnDiskError;
use nearflash_flash::model::ModelConfigError;
use nearflash_space::Name;
use nearflash_space::slice::NotesError;
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::DeviceSpec;

/// A device cannot be taken, because of the configuration or the system.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum OpenError {
    /// A system call failed.
    #[error("device '{name}': cannot {action} {}: {source}{}", path.display(), remedy(source))]
    Io { name: Name, action: &'static str, path: PathBuf, source: io::Error },
    /// The memory of a RAM device cannot be reserved.
    #[error("device '{name}': cannot reserve {size} of memory: {source}")]
    Memory { name: Name, size: ByteLen, source: io::Error },
    /// A slice does not know any more what it knew of its mirrors.
    #[error("slice '{name}': {source}")]
    SliceNotes { name: Name, source: NotesError },
    /// A model is out of its bounds.
    #[error("device '{name}': {source}")]
    Model { name: Name, source: ModelConfigError },
    /// A model takes more memory than the machine has.
    #[error(
        "device '{name}' needs {} of memory, and the machine has {}: {remedy}",
        mebibytes(*needed), mebibytes(*memory)
    )]
    TooLarge {
        name: Name,
        /// The memory of its contents and of the model.
        needed: ByteLen,
        memory: ByteLen,
        remedy: &'static str,
    },
    /// The file is absent, and the configuration gives no size to create it with.
    #[error(
        "device '{name}': {} does not exist: correct the path, or add size=SIZE to create it",
        path.display()
    )]
    Absent { name: Name, path: PathBuf },
    /// The file is absent, although the catalog has volumes on it.
    #[error(
        "device '{name}': {} does not exist, but the catalog has volumes on it: restore it, or \
         correct the path",
        path.display()
    )]
    Lost { name: Name, path: PathBuf },
    /// The path of a `file:` device is not a file, or that of a `block:` device not a block device.
    #[error("device '{name}': {} is {is}: {remedy}", path.display())]
    WrongKind { name: Name, path: PathBuf, is: &'static str, remedy: &'static str },
    /// Another process uses the device.
    #[error("device '{name}': {} is in use by {by}: {remedy}", path.display())]
    InUse { name: Name, path: PathBuf, by: String, remedy: &'static str },
    /// Another device is the same file or disk.
    #[error("device '{name}': {} is device '{other}', too: name it once", path.display())]
    Twice { name: Name, path: PathBuf, other: Name },
    /// The device has no room for a label and one granule.
    #[error("device '{name}' is {len}, which is too small: it needs at least {len_min}")]
    TooSmall { name: Name, len: ByteLen, len_min: ByteLen },
    /// `size=` differs from the file's size.
    #[error(
        "device '{name}': {} is {len} long, but size={size} is configured: remove size=, or \
         correct it",
        path.display()
    )]
    SizeDiffers { name: Name, path: PathBuf, len: ByteLen, size: ByteLen },
    /// The device has shrunk since it was labelled: blocks of volumes may be lost.
    #[error(
        "device '{name}': {} is {len} long, shorter than the {recorded} in the catalog: restore \
         the missing part before starting",
        path.display()
    )]
    Shorter { name: Name, path: PathBuf, len: ByteLen, recorded: ByteLen },
    /// The device has grown since it was labelled.
    #[error(
        "device '{name}': {} is {len} long, longer than the {recorded} in the catalog: truncate it \
         to {} bytes before starting",
        path.display(), recorded.0
    )]
    Longer { name: Name, path: PathBuf, len: ByteLen, recorded: ByteLen },
    /// The device holds data that nearflash has not written.
    #[error(
        "device '{}' holds {what}: choose another device, or write '{spec},wipe' to erase it",
        spec.name
    )]
    Holds { spec: Box<DeviceSpec>, what: &'static str },
    /// The device belongs to another installation.
    #[error(
        "device '{}' belongs to another nearflash installation (node {node}, which calls it \
         '{its_name}'): serve it with that installation's --data-dir, or write '{spec},wipe' to \
         erase it",
        spec.name
    )]
    Foreign { spec: Box<DeviceSpec>, node: Uuid, its_name: Name },
    /// The device belongs to another installation, and the catalog of this one has no volume on any device: it
    /// may be new because the former one was lost. Nothing that destroys the volumes is proposed.
    #[error(
        "device or slice '{}' belongs to another nearflash installation (node {node}, which calls it \
         '{its_name}'), and the catalog in this node's data directory has no volumes: if that \
         installation's catalog.redb was lost, restore it from a backup; if it is elsewhere, name its \
         directory with --data-dir",
        spec.name
    )]
    Unclaimed { spec: Box<DeviceSpec>, node: Uuid, its_name: Name },
    /// The device is a slice of a cluster.
    #[error(
        "device '{}' is a slice of cluster {cluster}: write --slice instead of --device, or write \
         '{spec},wipe' to erase it",
        spec.name
    )]
    IsSlice { spec: Box<DeviceSpec>, cluster: Uuid },
    /// The slice belongs to another cluster.
    #[error(
        "slice '{}' belongs to another cluster ({cluster}): choose another device, or write \
         '{spec},wipe' to erase it",
        spec.name
    )]
    OfOtherCluster { spec: Box<DeviceSpec>, cluster: Uuid },
    /// The device belongs to this node alone.
    #[error(
        "slice '{}' is a device for volumes of this node: write --device instead of --slice, or, if no \
         volume lies on it, write '{spec},wipe' to erase it",
        spec.name
    )]
    IsDevice { spec: Box<DeviceSpec> },
    /// The superblock of a slice is damaged, or of a later version.
    #[error("slice '{name}': superblock {source}: {remedy}")]
    Superblock { name: Name, source: OnDiskError, remedy: &'static str },
    /// The superblock and the label of a slice contradict each other.
    #[error(
        "slice '{name}': its superblock and its label belong to different slices: restore the first 17 \
         MiB of the device from a backup"
    )]
    SuperblockDiffers { name: Name },
    /// The device's label is damaged, or of a later version.
    #[error("device '{}': label {source}: {remedy}", spec.name)]
    Label { spec: Box<DeviceSpec>, source: OnDiskError, remedy: &'static str },
    /// The catalog has volumes on a device of this name, and this is another device.
    #[error(
        "device '{name}': {} is not the device that the catalog has volumes on \
         ({recorded}): correct the path",
        path.display()
    )]
    NotTheOne { name: Name, path: PathBuf, recorded: Uuid },
    /// The catalog has this device under another name.
    #[error("device '{name}' is called '{recorded}' in the catalog: write '{recorded}='")]
    Renamed { name: Name, recorded: Name },
}

/// A length, rounded up, that need not be a whole number of a larger unit.
fn mebibytes(len: ByteLen) -> String {
    format!("{} MiB", len.0.div_ceil(1 << 20))
}

/// The remedy of a failed call, where the system's error does not suggest it.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => {
            ": correct the path, or create its directory; for block:, 'lsblk' lists all disks"
        }
        io::ErrorKind::PermissionDenied => {
            ": run as root, or give the node's user access (disks: the group 'disk')"
        }
        io::ErrorKind::ReadOnlyFilesystem => ": it is read-only, and a device must be writable",
        _ => ": see 'dmesg'",
    }
}
