//! Files in a volume of a node, as a library: `nearflash-files` decides, this crate reads and writes.
//!
//! [`format()`] makes a volume of files. [`Files`] reads them and never writes to the volume. [`Owner`]
//! also changes them by their paths, and [`FileSystem`] has all the calls that a kernel makes.
//! [`Reader`] reads files while an owner in another process changes them. [`RemoteFiles`] asks the node, if it
//! owns the files. [`Reading`] and [`Writer`] choose what the client may use. The metadata is a `redb` database in runs of the volume itself.
//!
//! The order of writes: the bytes of a file are written and flushed before the commit that names it,
//! and the commit is durable before the call returns. The blocks of a removed file are used again
//! only after the commit that removed it. A loss of power at any moment therefore leaves the files
//! of the last commit that had returned, or of the one under way.
//!
//! One process at a time may write a volume, which [`Owner::take`] ensures. With [`Owner::open`], nothing
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
mod overlay;
mod owner;
mod pending;
mod reader;
mod reading;
mod remote;
mod serving;
mod store;
mod taking;
mod wire;
mod writer;

pub use calls::FileCalls;
pub use disk::{Disk, DiskProperties, SealedRuns, Seals, VolumeDisk};
pub use error::FilesError;
pub use file_system::{Allocation, AttributeChanges, FileSystem, NewInode, SealedFile, Usage};
pub use files::{CheckReport, Files};
pub use format::{FormatOptions, VOLUME_LEN_MIN, format};
pub use nearflash_files::{
    AttributeWrite, BLOCK, Damage, Entry, FILE_LEN_MAX, Inode, InodeNumber, Kind, MODE_MASK,
    NAME_LEN_MAX, Name, NameError, PATH_LEN_MAX, Path, Permissions, Refusal, Renaming, Replace,
    Run,
};
pub use owner::Owner;
pub use pending::{Pending, Upload};
pub use reader::{OpenedFile, Reader};
pub use reading::{FileReading, Reading};
pub use remote::{AskOwner, Connect, RemoteFiles, RemoteOpenedFile, RemotePending, RemoteReader};
pub use serving::{Allowed, Below, ConnectionId, FilesServer};
pub use taking::{Taker, take_to_format};
pub use writer::{Draft, Writer};
