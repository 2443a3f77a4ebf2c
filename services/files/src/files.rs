//! Reading the files of a volume.

use std::io::Write;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use nearflash_files::{
    Entry, FreeRuns, Inode, InodeNumber, Kind, Name, Path, Refusal, Report, Run, Superblock,
};
use nearflash_units::{ByteLen, ByteOffset};
use redb::{Database, ReadableDatabase};

use crate::metadata::{Metadata, read_runs};
use crate::overlay::Overlay;
use crate::store::{self, Snapshot};
use crate::{Disk, FilesError, format};

/// The bytes of a file that are in memory at a time.
pub(crate) const PIECE_LEN: usize = 4 << 20;

/// The files of a volume, as of the last commit before they were opened. Reading them does not write
/// to the volume.
#[derive(Debug)]
pub struct Files {
    volume: String,
    metadata: Arc<Metadata>,
    database: RwLock<Database>,
}

/// The result of a check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckReport {
    /// The counts and the faults of files and directories.
    pub report: Report,
    /// Whether the checksums of the metadata store were right.
    pub is_store_sound: bool,
    /// The length of the free space.
    pub free_len: ByteLen,
    /// The number of gaps that it consists of.
    pub gaps: usize,
    /// The length of the longest gap.
    pub longest_gap: ByteLen,
}

impl CheckReport {
    /// Whether the check found no fault.
    pub fn is_sound(&self) -> bool {
        self.is_store_sound && self.report.fault_count == 0
    }
}

impl Files {
    /// Opens the files of a volume for reading.
    ///
    /// # Errors
    /// When the volume is not formatted for files, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        let superblock = format::superblock(&*disk)?;
        let metadata = Arc::new(Metadata::new(disk, superblock, false));
        let backend = Overlay::new(Arc::clone(&metadata));
        Self::over(metadata, backend)
    }

    /// The files whose metadata store is this backend.
    pub(crate) fn over(
        metadata: Arc<Metadata>,
        backend: impl redb::StorageBackend,
    ) -> Result<Self, FilesError> {
        let volume = metadata.disk().properties().name;
        let opened = store::open(backend);
        let database = opened.map_err(|error| FilesError::store(&volume, error))?;
        Ok(Self { volume, metadata, database: RwLock::new(database) })
    }

    /// Opens the metadata store again through this backend. The former backend has ended.
    pub(crate) fn reopen(&self, backend: impl redb::StorageBackend) -> Result<(), FilesError> {
        let opened = store::open(backend);
        let database = opened.map_err(|error| FilesError::store(&self.volume, error))?;
        *self.database.write().expect("nothing panics while it holds the database") = database;
        Ok(())
    }

    pub(crate) fn volume(&self) -> &str {
        &self.volume
    }

    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    pub(crate) fn database(&self) -> RwLockReadGuard<'_, Database> {
        self.database.read().expect("nothing panics while it holds the database")
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, FilesError> {
        let failed = |error: redb::Error| FilesError::store(&self.volume, error);
        let transaction = self.database().begin_read().map_err(|error| failed(error.into()))?;
        Snapshot::new(&transaction).map_err(|error| failed(error.into()))
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, or the metadata cannot be read.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        nearflash_files::stat(&self.snapshot()?, path).map_err(FilesError::names(&self.volume))
    }

    /// At most `count_max` entries of a directory in the order of their names' bytes, from the first
    /// behind `after` on.
    ///
    /// # Errors
    /// When the path is not a directory, or the metadata cannot be read.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        let snapshot = self.snapshot()?;
        let failed = FilesError::names(&self.volume);
        let (number, inode) = nearflash_files::stat(&snapshot, path).map_err(&failed)?;
        if inode.kind != Kind::Directory {
            return Err(Refusal::NotADirectory(path.clone()).into());
        }
        nearflash_files::list(&snapshot, number, after, count_max).map_err(failed)
    }

    /// Fills `bytes` from `offset` of a file.
    ///
    /// # Errors
    /// When the range is not within the file, or the volume cannot be read.
    pub fn read_at(
        &self,
        inode: &Inode,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<(), FilesError> {
        let failed = FilesError::disk(&self.volume);
        let end = offset.checked_add(ByteLen::of(bytes));
        if end.is_none_or(|end| end.0 > inode.size.0) {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        read_runs(&**self.metadata.disk(), &inode.runs, bytes, offset).map_err(failed)
    }

    /// Copies a file to `sink`, and reports the length copied so far to `progress`.
    ///
    /// # Errors
    /// When the path is not a file, the volume cannot be read, or the sink not be written.
    pub fn get(
        &self,
        path: &Path,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<Inode, FilesError> {
        let (number, inode) = self.stat(path)?;
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsADirectory(path.clone()).into()),
            _ => return Err(Refusal::NotAFile(number).into()),
        }
        let whole = u64::try_from(PIECE_LEN).expect("a small constant");
        let mut bytes = vec![0; ByteLen(inode.size.0.min(whole)).to_usize()];
        let mut done = 0;
        while done < inode.size.0 {
            let len = ByteLen((inode.size.0 - done).min(whole));
            let part = &mut bytes[..len.to_usize()];
            self.read_at(&inode, part, ByteOffset(done))?;
            sink.write_all(part).map_err(FilesError::Sink)?;
            done += len.0;
            progress(ByteLen(done));
        }
        sink.flush().map_err(FilesError::Sink)?;
        Ok(inode)
    }

    /// Checks all metadata: its checksums, and every invariant of files and directories.
    ///
    /// # Errors
    /// When the metadata cannot be read.
    pub fn check(&mut self) -> Result<CheckReport, FilesError> {
        let database = self.database.get_mut().expect("nothing panics while it holds the database");
        let sound = database.check_integrity();
        let is_store_sound = sound.map_err(|error| FilesError::store(&self.volume, error))?;
        let mut free = self.unused()?;
        let checked = nearflash_files::check(&self.snapshot()?, &mut free);
        let report = checked.map_err(|error| FilesError::store(&self.volume, error))?;
        Ok(CheckReport {
            report,
            is_store_sound,
            free_len: nearflash_files::BLOCK.len(free.count()).expect("it lies in the volume"),
            gaps: free.gaps(),
            longest_gap: free.longest().map_or(ByteLen(0), Run::len),
        })
    }

    /// The blocks that the metadata does not use.
    pub(crate) fn unused(&self) -> Result<FreeRuns, FilesError> {
        let superblock = self.metadata.superblock();
        let area = Superblock::area(superblock.volume_len).expect("it was checked when decoded");
        let mut free = FreeRuns::new(area);
        for run in superblock.metadata_runs {
            free.reserve(run).expect("it was checked when decoded");
        }
        Ok(free)
    }
}
