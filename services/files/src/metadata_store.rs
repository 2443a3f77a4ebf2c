//! The metadata store of a volume, opened: the database, and the runs in which it lies.

use std::ops::ControlFlow;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use nearflash_files::{
    BLOCK, Fault, FreeRuns, Inode, InodeNumber, Report, Run, Superblock, inodes,
};
use nearflash_units::{Blocks, ByteLen};
use redb::{Database, ReadableDatabase};

use crate::metadata::Metadata;
use crate::overlay::Overlay;
use crate::store::{self, Snapshot};
use crate::{Disk, FilesError, format};

/// The metadata store of a volume.
#[derive(Debug)]
pub(crate) struct MetadataStore {
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

/// The space of a volume of files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// The space for files, used and free.
    pub total: ByteLen,
    /// The space that is free, or will be after the next commit.
    pub free: ByteLen,
    /// The number of inodes.
    pub inodes: u64,
}

impl MetadataStore {
    /// Opens the store of a volume. Writes of the database stay in memory.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        let superblock = format::superblock(&*disk)?;
        let metadata = Arc::new(Metadata::new(disk, superblock, false));
        let backend = Overlay::new(Arc::clone(&metadata));
        Self::over(metadata, backend)
    }

    /// The store whose backend is this one.
    pub(crate) fn over(
        metadata: Arc<Metadata>,
        backend: impl redb::StorageBackend,
    ) -> Result<Self, FilesError> {
        let volume = metadata.disk().properties().name;
        let opened = store::open(backend);
        let database = opened.map_err(|error| FilesError::store(&volume, error))?;
        Ok(Self { volume, metadata, database: RwLock::new(database) })
    }

    /// Opens the store again through this backend. The former backend has ended.
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

    /// The tables as of the last commit.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, FilesError> {
        let failed = |error: redb::Error| FilesError::store(&self.volume, error);
        let transaction = self.database().begin_read().map_err(|error| failed(error.into()))?;
        Snapshot::new(&transaction).map_err(|error| failed(error.into()))
    }

    /// Checks all metadata: its checksums, and every invariant of files and directories.
    pub(crate) fn check(&mut self) -> Result<CheckReport, FilesError> {
        let database = self.database.get_mut().expect("nothing panics while it holds the database");
        let sound = database.check_integrity();
        let is_store_sound = sound.map_err(|error| FilesError::store(&self.volume, error))?;
        let mut free = self.unused();
        let checked = nearflash_files::check(&self.snapshot()?, &mut free);
        let report = checked.map_err(|error| FilesError::store(&self.volume, error))?;
        Ok(CheckReport {
            report,
            is_store_sound,
            free_len: BLOCK.len(free.count()).expect("it lies in the volume"),
            gaps: free.gaps(),
            longest_gap: free.longest().map_or(ByteLen(0), Run::len),
        })
    }

    /// The blocks that the metadata does not use.
    fn unused(&self) -> FreeRuns {
        let superblock = self.metadata.superblock();
        let area = Superblock::area(superblock.volume_len).expect("it was checked when decoded");
        let mut free = FreeRuns::new(area);
        for run in superblock.metadata_runs {
            free.reserve(run).expect("it was checked when decoded");
        }
        free
    }

    /// The space of a volume of which `free` blocks are free.
    pub(crate) fn usage(&self, free: Blocks, inodes: u64) -> Usage {
        let superblock = self.metadata.superblock();
        let area = Superblock::area(superblock.volume_len).expect("it was checked when opened");
        let metadata: u64 = superblock.metadata_runs.iter().map(|run| run.len().0).sum();
        let free = BLOCK.len(free).expect("it lies in the volume");
        Usage { total: ByteLen(area.len().0 - metadata), free, inodes }
    }
}

/// The results of a pass over all inodes.
pub(crate) struct Scanned {
    pub(crate) free: FreeRuns,
    pub(crate) inodes: u64,
    /// The files with names that have space behind their ends, and were open.
    pub(crate) surplus: Vec<InodeNumber>,
}

impl Scanned {
    pub(crate) fn new(store: &MetadataStore) -> Result<Self, FilesError> {
        let mut scanned = Self { free: store.unused(), inodes: 0, surplus: Vec::new() };
        let mut found = Ok(());
        let visited = inodes(&store.snapshot()?, |number, record| {
            found = scanned.add(number, record);
            if found.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        visited.map_err(|error| FilesError::store(store.volume(), error))?;
        match found {
            Ok(()) => Ok(scanned),
            Err(fault) => {
                Err(FilesError::Inconsistent { volume: store.volume().to_owned(), fault })
            }
        }
    }

    fn add(&mut self, number: Option<InodeNumber>, record: &[u8]) -> Result<(), Fault> {
        let number = number.ok_or(Fault::Key)?;
        let inode =
            Inode::decode(number, record).map_err(|error| Fault::Inode { number, error })?;
        self.inodes += 1;
        for run in &inode.runs {
            self.free.reserve(*run).map_err(|error| Fault::Run { number, error })?;
        }
        let (_, lost) = nearflash_files::trim(&inode.runs, inode.size);
        // An orphan is removed with all its space.
        if inode.links > 0 && !inode.keeps_space && !lost.is_empty() {
            self.surplus.push(number);
        }
        Ok(())
    }
}
