//! Reading the files of a volume while another process changes them.
//!
//! A reader takes no part in ownership, so nothing stops an owner from removing a file that is being
//! read, and from using its blocks again. The reader detects it. It relies on the order in which an
//! owner writes (see the crate's documentation): neither the pages of the metadata nor the blocks of
//! a file that a durable commit can reach change before a later commit is durable. The *mark* is the
//! part of the metadata store's header that every durable commit changes. Bytes are therefore as of
//! the commit of a mark if the volume still has that mark after they were read:
//!
//! - Each read of metadata is followed by a read of the mark. If the mark has changed, the bytes are
//!   not used, and the metadata is opened again.
//! - Each read of a file is followed by a read of the mark. If it has changed, the file must still
//!   exist in the present commit, under its number and unchanged. Numbers are never used again.
//!
//! A commit is durable before its mark is visible because owners commit in two phases. A store that
//! was left in the middle of a commit of one phase is refused, not guessed about.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_files::{
    Damage, Entry, Inode, InodeNumber, Kind, Name, Path, Refusal, Table, Tables,
};
use nearflash_guarded::{HEADER_AREA_LEN, newest_header};
use nearflash_units::{ByteLen, ByteOffset};

use crate::metadata::places;
use crate::{Disk, DiskProperties, Files, FilesError, format};

/// The number of times that an operation begins again because of a commit.
const TRIES_MAX: usize = 200;

/// The files of a volume for a process that does not own it. Every call sees the changes that were
/// durable when it began.
#[derive(Debug)]
pub struct Reader {
    disk: Arc<dyn Disk>,
    volume: String,
    /// The last commit that a call has needed. `None` after an error of the volume.
    commit: Mutex<Option<Arc<Commit>>>,
}

/// The files as of one commit.
#[derive(Debug)]
struct Commit {
    files: Files,
    disk: Arc<Pinned>,
}

/// A file that was opened for reading.
#[derive(Debug)]
pub struct OpenedFile {
    path: Path,
    number: InodeNumber,
    inode: Inode,
    /// The last mark under which the file existed.
    mark: Mutex<Mark>,
}

impl OpenedFile {
    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number.
    pub fn number(&self) -> InodeNumber {
        self.number
    }

    /// Its inode when it was opened.
    pub fn inode(&self) -> &Inode {
        &self.inode
    }
}

impl Reader {
    /// Opens the files of a volume for reading.
    ///
    /// # Errors
    /// When the volume is not formatted for files, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        let volume = disk.properties().name;
        let commit = Commit::open(&disk)?;
        Ok(Self { disk, volume, commit: Mutex::new(Some(Arc::new(commit))) })
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, or the metadata cannot be read.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        self.on_latest(|commit| commit.files.stat(path))
    }

    /// At most `count_max` entries of a directory with their inodes, all as of one commit, in the
    /// order of their names' bytes, from the first behind `after` on.
    ///
    /// # Errors
    /// When the path is not a directory, or the metadata cannot be read.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        self.on_latest(|commit| {
            let entries = commit.files.list(path, after, count_max)?;
            let with_inode = |entry: Entry| {
                let inode = commit.inode(entry.inode)?;
                let missing = || self.damaged(Damage::Missing(entry.inode));
                Ok((entry.clone(), inode.ok_or_else(missing)?))
            };
            entries.into_iter().map(with_inode).collect()
        })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path is not a file, or the metadata cannot be read.
    pub fn open_file(&self, path: &Path) -> Result<OpenedFile, FilesError> {
        self.on_latest(|commit| {
            let (number, inode) = commit.files.stat(path)?;
            if inode.kind == Kind::Directory {
                return Err(Refusal::IsADirectory(path.clone()).into());
            }
            let mark = Mutex::new(commit.disk.mark);
            Ok(OpenedFile { path: path.clone(), number, inode, mark })
        })
    }

    /// Fills `bytes` from `offset` of a file.
    ///
    /// # Errors
    /// When the range is not within the file, the volume cannot be read, or the file has been removed,
    /// replaced or changed. The contents of `bytes` are then not those of the file.
    pub fn read_at(
        &self,
        file: &OpenedFile,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<(), FilesError> {
        let failed = FilesError::disk(&self.volume);
        let end = offset.checked_add(ByteLen::of(bytes));
        if end.is_none_or(|end| end.0 > file.inode.size.0) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut rest = bytes;
        let runs = &file.inode.runs;
        for (place, len) in places(runs, offset.0, ByteLen::of(rest)).map_err(&failed)? {
            let (part, others) = rest.split_at_mut(len.to_usize());
            self.disk.read_at(part, place).map_err(&failed)?;
            rest = others;
        }
        self.verify(file)
    }

    /// Ensures that a file has existed, unchanged, from when it was opened until this call.
    ///
    /// # Errors
    /// When it has not, or the metadata cannot be read.
    pub fn verify(&self, file: &OpenedFile) -> Result<(), FilesError> {
        let latest = self.latest()?;
        if *lock(&file.mark) == latest.disk.mark {
            return Ok(());
        }
        let (mark, inode) =
            self.on_latest(|commit| Ok((commit.disk.mark, commit.inode(file.number)?)))?;
        if inode.is_none_or(|inode| !is_same(&inode, &file.inode)) {
            let (volume, path) = (self.volume.clone(), file.path.clone());
            return Err(FilesError::Stale { volume, path });
        }
        *lock(&file.mark) = mark;
        Ok(())
    }

    /// Calls `call` with the latest commit, and again if a later one has made that fail.
    fn on_latest<R>(
        &self,
        call: impl Fn(&Commit) -> Result<R, FilesError>,
    ) -> Result<R, FilesError> {
        for _ in 0..TRIES_MAX {
            let commit = self.latest()?;
            match call(&commit) {
                Err(error @ (FilesError::Disk { .. } | FilesError::Store { .. })) => {
                    // The store does not read any more after an error.
                    lock(&self.commit).take_if(|held| Arc::ptr_eq(held, &commit));
                    if commit.disk.is_current().map_err(FilesError::disk(&self.volume))? {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
        Err(FilesError::Changing { volume: self.volume.clone() })
    }

    /// The files as of the latest commit.
    fn latest(&self) -> Result<Arc<Commit>, FilesError> {
        let held = lock(&self.commit).clone();
        if let Some(commit) = held
            && commit.disk.is_current().map_err(FilesError::disk(&self.volume))?
        {
            return Ok(commit);
        }
        let mut held = lock(&self.commit);
        // Another thread may have opened it meanwhile.
        if let Some(commit) = &*held
            && commit.disk.is_current().map_err(FilesError::disk(&self.volume))?
        {
            return Ok(Arc::clone(commit));
        }
        let commit = Arc::new(Commit::open(&self.disk)?);
        *held = Some(Arc::clone(&commit));
        Ok(commit)
    }

    fn damaged(&self, damage: Damage) -> FilesError {
        FilesError::Damaged { volume: self.volume.clone(), damage }
    }
}

/// Whether a file still has the same contents in the same place.
fn is_same(one: &Inode, other: &Inode) -> bool {
    one.size == other.size && one.version == other.version && one.runs == other.runs
}

/// A state that is whole whenever a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Commit {
    /// Opens the metadata as of the latest commit.
    fn open(disk: &Arc<dyn Disk>) -> Result<Self, FilesError> {
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
            let opened = Files::open(Arc::clone(&disk) as Arc<dyn Disk>);
            let is_current = disk.is_current().map_err(&failed)?;
            match opened {
                Ok(files) if is_current => return Ok(Self { files, disk }),
                Err(error) if is_current => return Err(error),
                _ => {}
            }
        }
        if !has_header {
            // No writer is that slow: a store without a header reports its damage.
            Files::open(Arc::clone(disk))?;
        }
        Err(FilesError::Changing { volume: volume.clone() })
    }

    /// The inode of this number, if it exists.
    fn inode(&self, number: InodeNumber) -> Result<Option<Inode>, FilesError> {
        let volume = self.files.volume();
        let record = self.files.snapshot()?.get(Table::Inodes, &number.0.to_be_bytes());
        let record = record.map_err(|error| FilesError::store(volume, error))?;
        let decode = |record: Vec<u8>| {
            Inode::decode(number, &record).map_err(|error| {
                let damage = Damage::Inode { number, error };
                FilesError::Damaged { volume: volume.to_owned(), damage }
            })
        };
        record.map(decode).transpose()
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
    /// Whether no later commit is durable.
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
