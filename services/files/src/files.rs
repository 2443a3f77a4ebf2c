//! The files of a volume for a process that only reads, while another one may change them.
//!
//! Reading takes no part in ownership, so nothing stops an owner from removing a file that is being
//! read, and from using its blocks again. [`Files`] detects it by the *mark* of a commit (see [`commit`]):
//!
//! - Each read of metadata is followed by a read of the mark. If the mark has changed, the bytes are
//!   not used, and the metadata is opened again.
//! - After each read of a file, the file must still exist in the latest commit, under its number and
//!   unchanged. Numbers are never used again.

mod commit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash::direct::Rights;
use nearflash_files::{
    AttributeWrite, Entry, Error, Inode, InodeNumber, Kind, Name, Path, Permissions, Place,
    Refusal, Renaming, Replace,
};
use nearflash_units::{ByteLen, ByteOffset};
use redb::StorageError;

use crate::calls::FileCalls;
use crate::metadata::read_runs;
use crate::metadata_store::{CheckReport, MetadataStore, Usage};
use crate::store::Snapshot;
use crate::{Allocation, AttributeChanges, Disk, FilesError, NewInode, SealedFile};
use commit::{Commit, TRIES_MAX};

/// The files of a volume for a process that does not own it. Every call sees the changes that were
/// durable when it began, and calls that change something are refused. Reading does not write to the volume.
#[derive(Debug)]
pub struct Files {
    disk: Arc<dyn Disk>,
    volume: String,
    /// The last commit that a call has needed. `None` after an error of the volume.
    commit: Mutex<Option<Arc<Commit>>>,
}

impl Files {
    /// Opens the files of a volume for reading.
    ///
    /// # Errors
    /// When the volume is not formatted for files, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        let volume = disk.properties().name;
        let commit = Commit::open(&disk)?;
        Ok(Self { disk, volume, commit: Mutex::new(Some(Arc::new(commit))) })
    }

    /// Checks all metadata: its checksums, and every invariant of files and directories.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    pub fn check(&self) -> Result<CheckReport, FilesError> {
        MetadataStore::open(Arc::clone(&self.disk))?.check()
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
                    self.held().take_if(|held| Arc::ptr_eq(held, &commit));
                    if commit.is_current().map_err(FilesError::disk(&self.volume))? {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
        Err(FilesError::Changing { volume: self.volume.clone() })
    }

    fn latest(&self) -> Result<Arc<Commit>, FilesError> {
        let is_current =
            |commit: &Commit| commit.is_current().map_err(FilesError::disk(&self.volume));
        let held = self.held().clone();
        if let Some(commit) = held
            && is_current(&commit)?
        {
            return Ok(commit);
        }
        let mut held = self.held();
        // Another thread may have opened it meanwhile.
        if let Some(commit) = &*held
            && is_current(commit)?
        {
            return Ok(Arc::clone(commit));
        }
        let commit = Arc::new(Commit::open(&self.disk)?);
        *held = Some(Arc::clone(&commit));
        Ok(commit)
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Commit>>> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tables of the latest commit.
    fn view<R>(
        &self,
        read: impl Fn(&Snapshot) -> Result<R, Error<StorageError>>,
    ) -> Result<R, FilesError> {
        self.on_latest(|commit| read(&commit.tables).map_err(FilesError::names(&self.volume)))
    }

    fn read_only(&self) -> FilesError {
        FilesError::ReadOnly { volume: self.volume.clone() }
    }

    fn no_seal<T>(&self) -> Result<T, FilesError> {
        let (volume, reason) = (self.volume.clone(), "this process only reads the volume");
        Err(FilesError::NoSeal { volume, reason })
    }
}

/// Whether a file still has the same contents in the same place.
fn is_same(one: &Inode, other: &Inode) -> bool {
    one.size == other.size && one.version == other.version && one.runs == other.runs
}

/// Methods that change something.
macro_rules! refuse {
    ($(fn $name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(
            fn $name(&self, $(_: $argument),*) -> Result<$result, FilesError> {
                Err(self.read_only())
            }
        )*
    };
}

impl FileCalls for Files {
    fn volume(&self) -> &str {
        &self.volume
    }

    fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        self.view(|tables| nearflash_files::stat(tables, path))
    }

    fn lookup(
        &self,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        self.view(|tables| nearflash_files::lookup(tables, Place::new(directory, name)))
    }

    fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError> {
        self.view(|tables| nearflash_files::inode(tables, number))
    }

    fn list(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        self.view(|tables| nearflash_files::list(tables, directory, after, count_max))
    }

    /// All as of one commit.
    fn entries(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        self.view(|tables| {
            let entries = nearflash_files::list(tables, directory, after, count_max)?;
            let with_inode = |entry: Entry| {
                let place = Place::new(directory, &entry.name);
                let (_, inode) = nearflash_files::lookup(tables, place)?;
                Ok((entry, inode))
            };
            entries.into_iter().map(with_inode).collect()
        })
    }

    fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError> {
        self.view(|tables| nearflash_files::target(tables, number))
    }

    fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError> {
        self.view(|tables| nearflash_files::attribute(tables, number, name))
    }

    fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError> {
        self.view(|tables| nearflash_files::attributes(tables, number))
    }

    /// No owner knows of this process, and keeps a file for it.
    fn retain(&self, _: InodeNumber) -> Result<(), FilesError> {
        Ok(())
    }

    fn release(&self, _: InodeNumber) {}

    fn read(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        for _ in 0..TRIES_MAX {
            let inode = self.inode(number)?;
            if inode.kind != Kind::File {
                return Err(Refusal::NotAFile(number).into());
            }
            match self.read_opened((number, &inode), bytes, offset) {
                // It was removed, which the inode tells, or changed.
                Err(FilesError::Refused(Refusal::Stale(_))) => {}
                read => return read,
            }
        }
        Err(FilesError::Changing { volume: self.volume.clone() })
    }

    fn read_opened(
        &self,
        (number, inode): (InodeNumber, &Inode),
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let left = ByteLen(inode.size.0.saturating_sub(offset.0));
        let len = left.min(ByteLen::of(bytes)).to_usize();
        let read = read_runs(&*self.disk, &inode.runs, &mut bytes[..len], offset);
        read.map_err(FilesError::disk(&self.volume))?;
        match is_same(&self.inode(number)?, inode) {
            true => Ok(len),
            false => Err(Refusal::Stale(number).into()),
        }
    }

    fn usage(&self) -> Result<Usage, FilesError> {
        self.on_latest(Commit::usage)
    }

    refuse! {
        fn create(InodeNumber, &Name, NewInode) -> (InodeNumber, Inode);
        fn create_nameless(InodeNumber, Permissions) -> InodeNumber;
        fn publish(InodeNumber, (InodeNumber, &Name), Replace) -> Inode;
        fn link(InodeNumber, InodeNumber, &Name) -> Inode;
        fn unlink(InodeNumber, &Name) -> ();
        fn rmdir(InodeNumber, &Name) -> ();
        fn rename((InodeNumber, &Name), (InodeNumber, &Name), Renaming) -> ();
        fn change(InodeNumber, AttributeChanges) -> Inode;
        fn set_attribute(InodeNumber, &[u8], &[u8], AttributeWrite) -> ();
        fn remove_attribute(InodeNumber, &[u8]) -> ();
        fn write(InodeNumber, &[u8], ByteOffset) -> ();
        fn append(InodeNumber, &[u8]) -> ByteOffset;
        fn allocate(InodeNumber, ByteOffset, ByteLen, Allocation) -> ();
        fn mark_written(InodeNumber) -> ();
    }

    /// Nothing is changed.
    fn sync(&self, _: InodeNumber, _: bool) -> Result<(), FilesError> {
        Ok(())
    }

    fn sync_all(&self) -> Result<(), FilesError> {
        Ok(())
    }

    fn seal(&self, _: InodeNumber, _: Rights) -> Result<SealedFile, FilesError> {
        self.no_seal()
    }

    fn seal_without_pages(&self, _: InodeNumber, _: Rights) -> Result<SealedFile, FilesError> {
        self.no_seal()
    }

    fn durable_size(&self, _: InodeNumber) -> Result<ByteLen, FilesError> {
        self.no_seal()
    }

    /// No seal depends on pages.
    fn keep_pages(&self, _: InodeNumber) -> Result<(), FilesError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), FilesError> {
        Ok(())
    }
}
