//! Changing the files of a volume.

mod pending;

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

use nearflash::Client;
use nearflash_files::{
    Contents, Error, Fault, FreeRuns, Inode, InodeNumber, Path, Quarantine, Refusal, Replace, Run,
    Support, inodes,
};
use nearflash_units::{Blocks, ByteLen, MIB};
use redb::StorageError;

use crate::files::Files;
use crate::format::{self, now};
use crate::metadata::{Backend, Metadata};
use crate::store::Batch;
use crate::taking;
use crate::upload::{self, Upload};
use crate::{BLOCK, CheckReport, Disk, FilesError, Kind};

pub use pending::Pending;

/// The process that may change the files of a volume. Each change is durable when its call returns.
#[derive(Debug)]
pub struct Owner {
    files: Files,
    pub(crate) free: FreeRuns,
    quarantine: Quarantine,
    /// The number of the last commit that was begun.
    commit: u64,
    /// Whether a commit has failed, so that its effect is unknown.
    is_uncertain: bool,
}

impl Owner {
    /// Takes a volume for this process, and opens its files for changes. The volume is released when the
    /// owner is dropped.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read, and when
    /// another process has it. `take_over`: such a process loses it.
    pub fn take(client: &Client, volume: &str, take_over: bool) -> Result<Self, FilesError> {
        Self::open(Arc::new(taking::take(client, volume, take_over)?))
    }

    /// Opens the files of a volume for changes. No other process may write the volume.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, FilesError> {
        let properties = disk.properties();
        let superblock = format::superblock(&*disk)?;
        if superblock.support() != Support::Full {
            return Err(FilesError::Features { volume: properties.name });
        }
        if !properties.is_writable {
            return Err(FilesError::NotWritable { volume: properties.name });
        }
        let has_grown = superblock.volume_len < properties.len;
        let metadata = Arc::new(Metadata::new(disk, superblock, true));
        if has_grown {
            let changed = metadata.change(|superblock| superblock.volume_len = properties.len);
            changed.map_err(FilesError::disk(&properties.name))?;
        }
        let files = Files::over(Arc::clone(&metadata), Backend(metadata))?;
        let free = free_runs(&files)?;
        let quarantine = Quarantine::default();
        Ok(Self { files, free, quarantine, commit: 0, is_uncertain: false })
    }

    /// The files, for reading.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// [`Files::check`].
    ///
    /// # Errors
    /// As [`Files::check`].
    pub fn check(&mut self) -> Result<CheckReport, FilesError> {
        self.files.check()
    }

    /// The length of the space that files can still use.
    pub fn free_len(&self) -> ByteLen {
        BLOCK.len(self.free.count()).expect("it lies in the volume")
    }

    /// Creates a file with the bytes of `source`, and reports the length copied so far to
    /// `progress`. A file that it replaces is there, whole, until the new one is.
    ///
    /// # Errors
    /// When the path is refused, the source cannot be read, or the volume is full or cannot be
    /// written. Then no file has been created or replaced, unless the commit failed.
    pub fn put(
        &mut self,
        path: &Path,
        source: &mut dyn Read,
        options: Upload,
        progress: &mut dyn FnMut(ByteLen),
    ) -> Result<(InodeNumber, Inode), FilesError> {
        self.refuse_early(path, options.replace)?;
        self.ensure_room_for_metadata()?;
        let disk = Arc::clone(self.files.metadata().disk());
        let copied = upload::copy(&*disk, &mut self.free, source, options.size, progress);
        let volume = self.files.volume().to_owned();
        let contents = copied.map_err(|error| error.in_volume(&volume))?;
        let runs = contents.runs.clone();
        let created = disk.flush().map_err(FilesError::disk(&volume)).and_then(|()| {
            self.commit(|batch, now| {
                let size = contents.size;
                let runs = contents.runs;
                nearflash_files::create(batch, path, Contents { size, runs }, options.replace, now)
            })
        });
        // After a commit of unknown effect, the blocks may belong to the file.
        if created.is_err() && !self.is_uncertain {
            runs.into_iter().for_each(|run| self.free.release(run));
        }
        created?;
        self.files.stat(path)
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume is full or cannot be written.
    pub fn mkdir(&mut self, path: &Path) -> Result<(), FilesError> {
        self.ensure_room_for_metadata()?;
        self.commit(|batch, now| {
            nearflash_files::mkdir(batch, path, now).map(|number| (number, Vec::new()))
        })?;
        Ok(())
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When the path is refused, or the volume cannot be written.
    pub fn remove(&mut self, path: &Path) -> Result<Kind, FilesError> {
        let (_, inode) = self.files.stat(path)?;
        self.commit(|batch, now| match inode.kind {
            Kind::File => nearflash_files::unlink(batch, path, now).map(|freed| ((), freed)),
            Kind::Directory => nearflash_files::rmdir(batch, path, now).map(|()| ((), Vec::new())),
        })?;
        Ok(inode.kind)
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// When a path is refused, or the volume cannot be written.
    pub fn rename(&mut self, from: &Path, to: &Path, replace: Replace) -> Result<(), FilesError> {
        self.commit(|batch, now| {
            nearflash_files::rename(batch, from, to, replace, now).map(|freed| ((), freed))
        })
    }

    /// Carries out a change in a transaction, which is durable afterwards. The change returns the
    /// runs that it frees.
    fn commit<R>(
        &mut self,
        change: impl FnOnce(
            &mut Batch<'_>,
            nearflash_units::Nanos,
        ) -> Result<(R, Vec<Run>), Error<StorageError>>,
    ) -> Result<R, FilesError> {
        let volume = self.files.volume().to_owned();
        let failed = |error: redb::Error| FilesError::store(&volume, error);
        let begun = self.files.database().begin_write();
        let mut transaction = begun.map_err(|error| failed(error.into()))?;
        // Commits in two phases, on which readers rely, and which need no repair after a crash.
        transaction.set_quick_repair(true);
        let mut batch = Batch::new(&transaction).map_err(|error| failed(error.into()))?;
        // Dropping a transaction undoes it.
        let (result, freed) = change(&mut batch, now()).map_err(FilesError::names(&volume))?;
        drop(batch);
        self.commit += 1;
        freed.into_iter().for_each(|run| self.quarantine.hold(self.commit, run));
        transaction.commit().map_err(|error| {
            self.is_uncertain = true;
            failed(error.into())
        })?;
        for run in self.quarantine.released_by(self.commit) {
            // The removal is durable, and a volume that releases nothing only uses more of its
            // device. The next write reports a node that does not answer.
            let _ = self.files.metadata().disk().discard(run.offset(), run.len());
            self.free.release(run);
        }
        Ok(result)
    }

    /// Refuses a path to which no file can be put, before its bytes are copied.
    fn refuse_early(&self, path: &Path, replace: Replace) -> Result<(), FilesError> {
        match self.files.stat(path) {
            Ok(_) if path.is_root() => Err(Refusal::Root.into()),
            Ok((_, inode)) if inode.kind == Kind::Directory => {
                Err(Refusal::IsADirectory(path.clone()).into())
            }
            Ok(_) if replace == Replace::Never => Err(Refusal::Exists(path.clone()).into()),
            Err(FilesError::Refused(Refusal::NotFound(missing))) if missing == *path => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Gives the metadata a further run if its store could not double, which is how it grows. Names
    /// can then still be removed when no further run is possible.
    fn ensure_room_for_metadata(&mut self) -> Result<(), FilesError> {
        let volume = self.files.volume().to_owned();
        let metadata = self.files.metadata();
        loop {
            let superblock = metadata.superblock();
            let capacity = superblock.metadata_capacity();
            if capacity.0 >= superblock.metadata_len.0.saturating_mul(2).saturating_add(MIB) {
                return Ok(());
            }
            if !metadata.has_room_for_run() {
                return Err(FilesError::MetadataFull { volume });
            }
            let smallest = BLOCK.blocks_in(ByteLen(MIB)).0;
            let halves = std::iter::successors(Some(BLOCK.blocks_in(capacity).0), |n| Some(n / 2));
            let mut sizes = halves.take_while(|count| *count >= smallest);
            let found = sizes.find_map(|count| self.free.allocate(Blocks(count)));
            let run = found.ok_or_else(|| FilesError::MetadataFull { volume: volume.clone() })?;
            metadata.add_run(run).map_err(FilesError::disk(&volume))?;
        }
    }
}

/// The free runs of a volume: those that neither its metadata nor a file uses.
fn free_runs(files: &Files) -> Result<FreeRuns, FilesError> {
    let mut free = files.unused()?;
    let volume = || files.volume().to_owned();
    let mut found = Ok(());
    let scanned = inodes(&files.snapshot()?, |number, record| {
        found = reserve(number, record, &mut free);
        if found.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    scanned.map_err(|error| FilesError::store(files.volume(), error))?;
    match found {
        Ok(()) => Ok(free),
        Err(fault) => Err(FilesError::Inconsistent { volume: volume(), fault }),
    }
}

fn reserve(number: Option<InodeNumber>, record: &[u8], free: &mut FreeRuns) -> Result<(), Fault> {
    let number = number.ok_or(Fault::Key)?;
    let inode = Inode::decode(number, record).map_err(|error| Fault::Inode { number, error })?;
    inode
        .runs
        .iter()
        .try_for_each(|run| free.reserve(*run).map_err(|error| Fault::Run { number, error }))
}
