//! Files in a volume of a node, as a library: `nearflash-files` decides, this crate reads and writes.
//!
//! [`format()`] makes a volume of files. Three types have the calls that a kernel makes, [`FileCalls`]:
//! [`FileSystem`] for a volume that this process owns, [`RemoteFiles`] if the node owns the files, and [`Files`],
//! which reads them while an owner in another process changes them, and never writes to the volume.
//! [`AnyFiles`] is one of these, which [`open()`] chooses. [`Paths`] finds the files of each by paths: with
//! [`Opened`], a file is read, and with [`Upload`], one is written. The metadata is a `redb` database in runs of
//! the volume itself.
//!
//! The order of writes: the bytes of a file are written and flushed before the commit that names it,
//! and the commit is durable before the call returns. The blocks of a removed file are used again
//! only after the commit that removed it. A loss of power at any moment therefore leaves the files
//! of the last commit that had returned, or of the one under way.
//!
//! One process at a time may write a volume, which [`FileSystem::take`] ensures. With [`FileSystem::open`], nothing
//! prevents a second process, which would destroy files. Volumes of a cluster or of another node cannot
//! hold files: nodes refuse compare-and-swap, and writes of a part of a block, on them.
//!
//! The crate knows nothing about command lines.

mod calls;
mod disk;
mod error;
mod file_system;
mod files;
mod format;
mod lost_range;
mod metadata;
mod metadata_store;
mod open;
mod overlay;
mod paths;
mod remote;
mod serving;
mod store;
mod taking;
mod upload;
mod wire;

pub use calls::FileCalls;
pub use disk::{Disk, DiskProperties, SealedRuns, Seals, VolumeDisk};
pub use error::FilesError;
pub use file_system::{Allocation, AttributeChanges, FileSystem, NewInode, SealedFile};
pub use files::Files;
pub use format::{FormatOptions, VOLUME_LEN_MIN, format};
pub use metadata_store::{CheckReport, Usage};
pub use nearflash_files::{
    AttributeWrite, BLOCK, Damage, Entry, FILE_LEN_MAX, Inode, InodeNumber, Kind, MODE_MASK,
    NAME_LEN_MAX, Name, NameError, PATH_LEN_MAX, Path, Permissions, Refusal, Renaming, Replace,
    Run,
};
pub use open::{AnyFiles, open};
pub use paths::{Opened, Paths};
pub use remote::{AskOwner, Connect, RemoteFiles};
pub use serving::{Allowed, Below, ConnectionId, FilesServer};
pub use taking::{Taker, take_to_format};
pub use upload::{Upload, UploadOptions};
