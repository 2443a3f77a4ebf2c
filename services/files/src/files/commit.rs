//! The files as of one commit of an owner in another process.
//!
//! It relies on the order in which an owner writes (see the crate's documentation): neither the pages of the
//! metadata nor the blocks of a file that a durable commit can reach change before a later commit is durable.
//! The *mark* is the part of the metadata store's header that every durable commit changes. Bytes are
//! therefore as of the commit of a mark if the volume still has that mark after they were read.
//!
//! A commit is durable before its mark is visible because owners commit in two phases. A store that
//! was left in the middle of a commit of one phase is refused, not guessed about.

use std::io;
use std::sync::Arc;

use nearflash_guarded::{HEADER_AREA_LEN, newest_header};
use nearflash_units::{ByteLen, ByteOffset};

use crate::metadata_store::{MetadataStore, Scanned, Usage};
use crate::store::Snapshot;
use crate::{Disk, DiskProperties, FilesError, format};

/// The number of times that an operation begins again because of a commit.
pub(super) const TRIES_MAX: usize = 200;

/// The files as of one commit. Reads of its tables fail after a later one.
pub(super) struct Commit {
    pub(super) tables: Snapshot,
    store: MetadataStore,
    disk: Arc<Pinned>,
}

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commit").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Commit {
    /// Opens the metadata as of the latest commit.
    pub(super) fn open(disk: &Arc<dyn Disk>) -> Result<Self, FilesError> {
        let volume = disk.properties().name;
        let failed = FilesError::disk(&volume);
        let mut has_header = true;
        for _ in 0..TRIES_MAX {
            let superblock = format::superblock(&**disk)?;
            let place = superblock.metadata_runs[0].offset();
            let mark = Mark::read(&**disk, place).map_err(&failed)?;
            has_header = mark.is_some();
            let Some(mark) = mark else { continue };
            let disk = Arc::new(Pinned { disk: Arc::clone(disk), place, mark });
            let opened = Self::of(&disk);
            let is_current = disk.is_current().map_err(&failed)?;
            match opened {
                Ok(commit) if is_current => return Ok(commit),
                Err(error) if is_current => return Err(error),
                _ => {}
            }
        }
        if !has_header {
            // No writer is that slow: a store without a header reports its damage.
            MetadataStore::open(Arc::clone(disk))?;
        }
        Err(FilesError::Changing { volume: volume.clone() })
    }

    fn of(disk: &Arc<Pinned>) -> Result<Self, FilesError> {
        let store = MetadataStore::open(Arc::clone(disk) as Arc<dyn Disk>)?;
        Ok(Self { tables: store.snapshot()?, store, disk: Arc::clone(disk) })
    }

    /// Whether no later commit is durable.
    pub(super) fn is_current(&self) -> io::Result<bool> {
        self.disk.is_current()
    }

    pub(super) fn usage(&self) -> Result<Usage, FilesError> {
        let Scanned { free, inodes, .. } = Scanned::new(&self.store)?;
        Ok(self.store.usage(free.count(), inodes))
    }
}

/// The primary commit slot of the store, and which of the two slots it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Mark {
    is_second: bool,
    slot: [u8; Self::SLOT_LEN],
}

impl Mark {
    // The header of a `redb` file, format 3: a byte of flags, and two slots. The flags change
    // together with the slot that they select. The store has two copies of the header.
    const FLAGS: usize = 9;
    const IS_SECOND: u8 = 1;
    const NEEDS_RECOVERY: u8 = 2;
    const TWO_PHASES: u8 = 4;
    const SLOTS: usize = 64;
    const SLOT_LEN: usize = 128;

    /// Reads the mark from the start of the store. `None` if the last commit may not be durable, or if no copy
    /// of the header is whole: one may be written at this moment.
    fn read(disk: &dyn Disk, place: ByteOffset) -> io::Result<Option<Self>> {
        let mut area = [0; HEADER_AREA_LEN];
        disk.read_at(&mut area, place)?;
        let Some(header) = newest_header(&area) else { return Ok(None) };
        let flags = header[Self::FLAGS];
        if flags & Self::NEEDS_RECOVERY != 0 && flags & Self::TWO_PHASES == 0 {
            return Ok(None);
        }
        let is_second = flags & Self::IS_SECOND != 0;
        let at = Self::SLOTS + usize::from(is_second) * Self::SLOT_LEN;
        let slot = header[at..].first_chunk().expect("the header has two slots");
        Ok(Some(Self { is_second, slot: *slot }))
    }
}

/// A volume whose bytes are as of one commit: reads fail after a later one.
#[derive(Debug)]
struct Pinned {
    disk: Arc<dyn Disk>,
    /// The place of the store's header.
    place: ByteOffset,
    mark: Mark,
}

impl Pinned {
    fn is_current(&self) -> io::Result<bool> {
        Ok(Mark::read(&*self.disk, self.place)? == Some(self.mark))
    }
}

impl Disk for Pinned {
    fn properties(&self) -> DiskProperties {
        self.disk.properties()
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        self.disk.read_at(bytes, offset)?;
        match self.is_current()? {
            true => Ok(()),
            false => Err(io::Error::other("another process has changed files meanwhile")),
        }
    }

    fn write_at(&self, _bytes: &[u8], _offset: ByteOffset) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_zeroes(&self, _offset: ByteOffset, _len: ByteLen) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn discard(&self, _offset: ByteOffset, _len: ByteLen) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn flush(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
