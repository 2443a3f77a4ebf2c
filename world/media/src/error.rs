//! Why a device is not taken. Every message is one line that names the device and the remedy.

use std::io;
use std::path::PathBuf;

use nearflash_space::{LabelError, Name};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::DeviceSpec;

/// Why a device is not taken: the configuration's fault, or the system's.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused a call.
    #[error("device '{name}': cannot {action} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// Which device.
        name: Name,
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No memory for a RAM device.
    #[error("device '{name}': cannot reserve {size} of memory: {source}")]
    Memory {
        /// Which device.
        name: Name,
        /// How much.
        size: ByteLen,
        /// What the system said.
        source: io::Error,
    },
    /// The file is absent and nobody said how large to make it.
    #[error(
        "device '{name}': {} does not exist: correct the path, or add size=SIZE to create it",
        path.display()
    )]
    Absent {
        /// Which device.
        name: Name,
        /// The file.
        path: PathBuf,
    },
    /// The file is absent, but volumes are on it.
    #[error(
        "device '{name}': {} does not exist, but the catalog has volumes on it: \
         restore it or correct the path",
        path.display()
    )]
    Lost {
        /// Which device.
        name: Name,
        /// The file.
        path: PathBuf,
    },
    /// `file:` of what is no file, or `block:` of what is no block device.
    #[error("device '{name}': {} is {is}: {remedy}", path.display())]
    WrongKind {
        /// Which device.
        name: Name,
        /// What was opened.
        path: PathBuf,
        /// What it is.
        is: &'static str,
        /// What to write instead.
        remedy: &'static str,
    },
    /// Somebody else has it.
    #[error("device '{name}': {} is in use by {by}: {remedy}", path.display())]
    InUse {
        /// Which device.
        name: Name,
        /// What was opened.
        path: PathBuf,
        /// By whom.
        by: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Not even one granule behind the label.
    #[error("device '{name}' is {len}, which is too small: at least {len_min} are needed")]
    TooSmall {
        /// Which device.
        name: Name,
        /// Its size.
        len: ByteLen,
        /// The smallest size.
        len_min: ByteLen,
    },
    /// `size=` differs from the file's.
    #[error(
        "device '{name}': {} is {len} long, size={size} is asked for: \
         leave size= out or correct it",
        path.display()
    )]
    SizeDiffers {
        /// Which device.
        name: Name,
        /// The file.
        path: PathBuf,
        /// How long it is.
        len: ByteLen,
        /// What was asked for.
        size: ByteLen,
    },
    /// Cut short since it was labelled: blocks of volumes may be gone.
    #[error(
        "device '{name}': {} is {len} long, shorter than the catalog says ({recorded}): \
         restore the rest before starting",
        path.display()
    )]
    Shorter {
        /// Which device.
        name: Name,
        /// What was opened.
        path: PathBuf,
        /// How long it is.
        len: ByteLen,
        /// How long it was.
        recorded: ByteLen,
    },
    /// Grown since it was labelled.
    #[error(
        "device '{name}': {} is {len} long, longer than the catalog says ({recorded}): \
         cut it back to {} bytes before starting",
        path.display(), recorded.0
    )]
    Longer {
        /// Which device.
        name: Name,
        /// What was opened.
        path: PathBuf,
        /// How long it is.
        len: ByteLen,
        /// How long it was.
        recorded: ByteLen,
    },
    /// It holds something that is not ours.
    #[error(
        "device '{}' holds {what}: choose another, or write '{spec},wipe' to erase it",
        spec.name
    )]
    Holds {
        /// The device as asked for.
        spec: Box<DeviceSpec>,
        /// What was found.
        what: &'static str,
    },
    /// It is another installation's.
    #[error(
        "device '{}' belongs to another nearflash installation (node {node}, which calls it \
         '{its_name}'): serve it with that one's --data-dir, or write '{spec},wipe' to erase it",
        spec.name
    )]
    Foreign {
        /// The device as asked for.
        spec: Box<DeviceSpec>,
        /// Whose it is.
        node: Uuid,
        /// What that one calls it.
        its_name: Name,
    },
    /// Its label is damaged, or of a later version.
    #[error("device '{}': {source}: {remedy}", spec.name)]
    Label {
        /// The device as asked for.
        spec: Box<DeviceSpec>,
        /// What is wrong with the label.
        source: LabelError,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The catalog has volumes on a device of this name, and this is not that device.
    #[error(
        "device '{name}': {} is not the device that the catalog has volumes on \
         ({recorded}): correct the path",
        path.display()
    )]
    NotTheOne {
        /// Which device.
        name: Name,
        /// What was opened.
        path: PathBuf,
        /// What the catalog calls it.
        recorded: Uuid,
    },
    /// The catalog knows the device by another name.
    #[error("device '{name}' is called '{recorded}' in the catalog: write '{recorded}='")]
    Renamed {
        /// As asked for.
        name: Name,
        /// As recorded.
        recorded: Name,
    },
}

/// What can be done about a refused call, where it is not in the system's words.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => {
            ": correct the path, or make its folder; 'lsblk' names all disks"
        }
        io::ErrorKind::PermissionDenied => {
            ": run as root, or let the node's user have it (disks: the group 'disk')"
        }
        io::ErrorKind::ReadOnlyFilesystem => ": it can only be read, and a device is written to",
        _ => ": 'dmesg' may say more",
    }
}
