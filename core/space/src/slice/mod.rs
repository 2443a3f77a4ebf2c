//! Slices on disk: the metadata of a device that is a part of a cluster's space.
//!
//! A slice begins with the label ([`crate::Label`], which names the cluster). 16 MiB of metadata follow at
//! [`METADATA_START`], and the data. The first 832 KiB of them are in use; the rest is zero. The first two blocks of the metadata are copies of the
//! [`Superblock`]. It counts how often the slice was opened for data: the *incarnation*. A process
//! writes a new incarnation before it reads or writes data, so what an earlier one had in memory can be
//! told from what this one has. [`Notes`] say what the slice knows of the mirrors whose replicas are on it.
//!
//! Pure: this module knows bytes, and neither files nor etcd.

mod notes;
mod superblock;
mod verdict;

use nearflash_units::{ByteOffset, MIB};

pub use notes::{
    MirrorNote, NOTE_PAGE_LEN, NOTE_PAGES, NOTES_LEN, NOTES_PER_PAGE, NOTES_START, NotePage, Notes,
    NotesError, NotesFull,
};
pub use superblock::{SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Superblock};
pub use verdict::SliceVerdict;

/// The start of a slice's metadata: behind the label.
pub const METADATA_START: ByteOffset = ByteOffset(MIB);

/// The start of a slice's data: behind 16 MiB of metadata.
pub const DATA_START: ByteOffset = ByteOffset(17 * MIB);
