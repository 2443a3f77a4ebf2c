//! Files in a volume: their names, their inodes, and the runs of blocks that hold their bytes. Pure.
//!
//! A volume of files begins with a [`Superblock`] in two copies. An ordered store, [`Tables`], keeps
//! inodes and directory entries; it lies in the volume too, in the runs that the superblock lists.
//! All other blocks belong to files or are free. Free space is not stored: it is the blocks that
//! neither an inode nor the superblock names.
//!
//! The crate decides where bytes lie and which changes of names are valid. It does not read or write
//! the volume, and knows nothing of the store behind [`Tables`], of connections or of clocks.
//!
//! Invariants, which [`check`](check()) verifies: no two runs overlap; every run lies within the
//! volume; every entry has an inode of its kind; every inode has an entry and is reached from the
//! root, or is an orphan, which was open when it lost its last entry; link counts and the parents of
//! directories are right; targets and attributes belong to an inode.

mod check;
mod free;
mod growth;
mod inode;
mod joining;
mod layered;
mod name;
mod namespace;
mod policy;
mod quarantine;
mod run;
mod superblock;
mod tables;

pub use check::{FAULTS_MAX, Fault, Report, check};
pub use free::{FreeRuns, NotFreeError};
pub use growth::{Grower, Space};
pub use inode::{
    FILE_LEN_MAX, INODE_LEN, Inode, InodeError, InodeNumber, Kind, MODE_MASK, Permissions, RUNS_MAX,
};
pub use joining::joined_max;
pub use layered::{Changes, Layered};
pub use name::{NAME_LEN_MAX, Name, NameError, PATH_LEN_MAX, Path};
pub use namespace::{
    ATTRIBUTE_LEN_MAX, ATTRIBUTES_LEN_MAX, AttributeWrite, Change, Damage, Effects, Entry, Error,
    Place, Refusal, Renaming, Replace, TARGET_LEN_MAX, attribute, attributes, format, inode, list,
    locate, lookup, stat, target,
};
pub use policy::{Extended, FILE_RUNS_MAX, NoSpaceError, Spare, allocate, extend, trim};
pub use quarantine::Quarantine;
pub use run::{BLOCK, Run, blocks_for, without};
pub use superblock::{
    DATA_START, METADATA_RUNS_MAX, OWNER_BLOCK_OFFSET, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS,
    Superblock, Support,
};
pub use tables::{MemoryTables, Table, Tables, TablesMut, Visit, inodes, orphans};
