//! The files of a volume by inode number, for many threads: the calls that a kernel makes.
//!
//! A change of names or attributes is made in memory, as a layer above the metadata store. Layers are
//! committed in their order, all that have gathered at once: see [`commit`](self). The bytes of files
//! are written to the volume at once, at the places that their inodes name.
//!
//! Of the four locks, the one of a file's contents is taken first, then the one of the state, then
//! the one of the open files, then the one of the sealed inodes.
//!
//! Invariant: the bytes of a file up to its size that lie in its runs were written by its writers, or
//! are zero. Those behind the size are undefined; they are zeroed when the size grows over them.

mod commit;
mod contents;
mod growth;
mod joining;
mod losses;
mod names;
mod open_files;
mod sealing;

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};

use nearflash_files::{
    Change, Changes, Effects, Error, InodeNumber, Layered, Quarantine, Space, Support, orphans,
};
use nearflash_units::{Blocks, Nanos};
use redb::StorageError;

use crate::format::{self, now};
use crate::metadata::{Backend, Metadata};
use crate::metadata_store::{CheckReport, MetadataStore, Scanned, Usage};
use crate::store::Snapshot;
use crate::{Disk, FilesError, Taker};

pub use contents::Allocation;
pub use names::{AttributeChanges, NewInode};
pub use sealing::SealedFile;

use joining::Split;
use losses::Losses;
use open_files::OpenFile;
use sealing::Sealed;

/// The tables as an operation sees them: the store of the last commit with all later changes.
pub(crate) type View<'a> = Layered<'a, Snapshot>;

/// The files of a volume that this process owns. All calls may come from any thread.
///
/// Changes of names and attributes become durable in their order: with [`Self::sync`] of any inode,
/// and with [`Self::sync_all`], which a caller makes from time to time.
pub struct FileSystem {
    metadata: MetadataStore,
    state: Mutex<State>,
    /// A commit has ended.
    committed: Condvar,
    /// Blocks have become free.
    returned: Condvar,
    open: RwLock<HashMap<InodeNumber, Arc<OpenFile>>>,
    sealed: Mutex<Sealed>,
}

struct State {
    /// The store as of the last commit; `None` during a check, which has the files for itself.
    store: Option<Snapshot>,
    /// The changes that are being committed.
    committing: Option<Arc<Changes>>,
    /// The later changes.
    pending: Changes,
    /// The number of the group of changes that `pending` belongs to.
    group: u64,
    /// The number of the last group that is durable.
    durable: u64,
    space: Space,
    quarantine: Quarantine,
    /// The number of operations that are about to give blocks back.
    returning: usize,
    inodes: u64,
    /// The reason for which nothing can be changed any more.
    failure: Option<Failure>,
    /// The file of the store.
    backend: Backend,
    losses: Losses,
    /// The closed files that may move to one run.
    split: Split,
}

/// The reason for which nothing can be changed any more.
#[derive(Clone)]
struct Failure {
    reason: String,
    /// Whether another process has taken the volume over.
    is_superseded: bool,
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl FileSystem {
    /// Takes a volume, and opens its files. [`Self::close`] releases the volume. When the value is dropped
    /// instead, nobody learns of errors.
    ///
    /// # Errors
    /// When the volume is not formatted for files, not writable, damaged, or cannot be read, and when
    /// another process has it, unless `taker` takes over.
    pub fn take(
        client: &nearflash::Client,
        volume: &str,
        taker: &Taker,
    ) -> Result<Self, FilesError> {
        Self::open(Arc::new(crate::taking::take(client, volume, taker)?))
    }

    /// Opens the files of a volume. No other process may write the volume.
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
        if let Some(seals) = disk.seals() {
            seals.begin().map_err(FilesError::disk(&properties.name))?;
        }
        let has_grown = superblock.volume_len < properties.len;
        let known = disk.losses();
        let metadata = Arc::new(Metadata::new(disk, superblock, true));
        if has_grown {
            let changed = metadata.change(|superblock| superblock.volume_len = properties.len);
            changed.map_err(FilesError::disk(&properties.name))?;
        }
        let backend = Backend::new(Arc::clone(&metadata));
        let metadata = MetadataStore::over(metadata, backend.clone())?;
        let scanned = Scanned::new(&metadata)?;
        let state = State {
            store: Some(metadata.snapshot()?),
            committing: None,
            pending: Changes::default(),
            group: 1,
            durable: 0,
            space: Space::new(scanned.free),
            quarantine: Quarantine::default(),
            returning: 0,
            inodes: scanned.inodes,
            failure: None,
            backend,
            losses: Losses::new(known),
            split: Split::default(),
        };
        let (state, committed, returned) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let (open, sealed) = (RwLock::default(), Mutex::default());
        let opened = Self { metadata, state, committed, returned, open, sealed };
        opened.recover(&scanned.surplus)?;
        Ok(opened)
    }

    /// Removes the inodes that were open without links when the last owner ended, and the space behind
    /// the ends of files that were open.
    fn recover(&self, surplus: &[InodeNumber]) -> Result<(), FilesError> {
        let orphans = orphans(self.state()?.store());
        let orphans = orphans.map_err(|error| FilesError::store(self.volume(), error))?;
        for number in orphans {
            self.apply(|change| change.reap(number))?;
        }
        for number in surplus {
            self.apply(|change| {
                let mut inode = nearflash_files::inode(change.tables(), *number)?;
                let (kept, lost) = nearflash_files::trim(&inode.runs, inode.size);
                change.free(lost);
                inode.runs = kept;
                change.put(*number, &inode)
            })?;
        }
        Ok(())
    }

    /// Makes all changes durable, and gives the volume back.
    ///
    /// # Errors
    /// When the changes cannot be made durable, or the volume cannot be given back. The next owner then
    /// waits for a while, unless it takes over.
    pub fn close(self) -> Result<(), FilesError> {
        let synced = self.sync_all();
        let (volume, disk) = (self.volume().to_owned(), Arc::clone(self.disk()));
        // The store writes a last time when it is closed.
        drop(self);
        let released = disk.release().map_err(FilesError::disk(&volume));
        synced.and(released)
    }

    /// The name of the volume.
    pub fn volume(&self) -> &str {
        self.metadata.volume()
    }

    /// Makes all changes durable, and checks all metadata as [`Files::check`](crate::Files::check) does.
    ///
    /// # Errors
    /// When the volume cannot be read or written.
    pub fn check(&mut self) -> Result<CheckReport, FilesError> {
        self.sync_all()?;
        self.state.get_mut().expect("nothing panics while it holds the state").store = None;
        let report = self.metadata.check();
        let store = self.metadata.snapshot()?;
        self.state.get_mut().expect("nothing panics while it holds the state").store = Some(store);
        report
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        self.metadata.metadata().disk()
    }

    /// The space that is used and free.
    ///
    /// # Errors
    /// When an earlier commit has failed.
    pub fn usage(&self) -> Result<Usage, FilesError> {
        let state = self.state()?;
        let free = Blocks(state.space.count().0 + state.quarantine.count().0);
        Ok(self.metadata.usage(free, state.inodes))
    }

    /// The state, unless a commit has failed.
    fn state(&self) -> Result<MutexGuard<'_, State>, FilesError> {
        let state = self.state.lock().expect("nothing panics while it holds the state");
        match &state.failure {
            None => Ok(state),
            Some(Failure { reason, is_superseded }) => {
                let (volume, reason) = (self.volume().to_owned(), reason.clone());
                Err(FilesError::Failed { volume, reason, is_superseded: *is_superseded })
            }
        }
    }

    /// Reads the tables as they are now.
    pub(crate) fn view<R>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<R, Error<StorageError>>,
    ) -> Result<R, FilesError> {
        let state = self.state()?;
        let layers = state.layers();
        let view = Layered::new(state.store(), &layers);
        read(&view).map_err(FilesError::names(self.volume()))
    }

    /// Makes a change. If it fails, nothing has changed.
    pub(crate) fn apply<R>(
        &self,
        make: impl FnOnce(&mut Change<'_, View<'_>>) -> Result<R, Error<StorageError>>,
    ) -> Result<R, FilesError> {
        let mut state = self.state()?;
        self.apply_to(&mut state, make)
    }

    fn apply_to<R>(
        &self,
        state: &mut State,
        make: impl FnOnce(&mut Change<'_, View<'_>>) -> Result<R, Error<StorageError>>,
    ) -> Result<R, FilesError> {
        let is_open = |number| self.is_open(number);
        let (result, effects, changes) = {
            let layers = state.layers();
            let mut view = Layered::new(state.store(), &layers);
            let mut change = Change::new(&mut view, now(), &is_open);
            let result = make(&mut change).map_err(FilesError::names(self.volume()))?;
            let effects = change.finish();
            (result, effects, view.into_changes())
        };
        state.take(effects, changes);
        Ok(result)
    }
}

impl State {
    fn store(&self) -> &Snapshot {
        self.store.as_ref().expect("no operation meets a check")
    }

    /// The changes above the store, the latest last.
    fn layers(&self) -> Vec<&Changes> {
        self.committing.as_deref().into_iter().chain([&self.pending]).collect()
    }

    fn take(&mut self, Effects { freed, inodes }: Effects, changes: Changes) {
        self.pending.merge(changes);
        freed.into_iter().for_each(|run| self.quarantine.hold(self.group, run));
        self.inodes = self.inodes.saturating_add_signed(inodes);
    }

    /// Nothing can be changed any more.
    fn fail(&mut self, error: &FilesError) {
        let (reason, is_superseded) = (error.to_string(), error.is_superseded());
        self.failure = Some(Failure { reason, is_superseded });
    }

    /// The changes of a commit of unknown effect are pending again. They set values, so it does no harm
    /// if the store has them already.
    fn take_back_commit(&mut self) {
        let Some(committing) = self.committing.take() else { return };
        let later = std::mem::take(&mut self.pending);
        self.pending = Arc::unwrap_or_clone(committing);
        self.pending.merge(later);
        self.losses.take_back_commit();
    }

    /// Whether the group has changes, or is the last that had.
    fn last_group(&self) -> u64 {
        if self.pending.is_empty() { self.group - 1 } else { self.group }
    }
}

/// The time of this machine, never 0.
fn time() -> u64 {
    let Nanos(now) = now();
    now.max(1)
}
