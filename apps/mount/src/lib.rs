//! A volume of files as a file system of this machine, through FUSE.
//!
//! [`Mount::new`] takes the volume for this process, and mounts it. [`Mount::run`] answers the kernel
//! until the file system is unmounted. [`Unmount`] unmounts one and waits until everything is durable.
//!
//! The crate translates: each operation of the kernel is one call of [`FileSystem`], by inode number,
//! on the thread that read it. It keeps no state of files. Its own are the open directories, whose
//! readers it remembers by name.
//!
//! This process is the only one that changes the files, so the kernel may cache names, attributes and,
//! with [`Cache::Read`], contents: all changes come from this kernel.
//!
//! The crate knows nothing about command lines, and what it logs goes to `tracing`.
//!
//! [`FileSystem`]: nearflash_files_service::FileSystem

mod attributes;
mod directories;
mod ending;
mod error;
mod event;
mod gate;
mod mount_point;
mod options;
mod session;
mod translator;
mod unmounting;

pub use error::{MountError, UnmountError};
pub use options::{Cache, MountOptions};
pub use session::Mount;
pub use unmounting::Unmount;
