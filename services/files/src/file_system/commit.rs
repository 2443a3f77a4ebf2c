//! Group commit: all changes that have gathered become durable in one transaction.
//!
//! A thread that needs durability commits itself, unless another one does: then it waits, and its
//! changes are in the next group if they are not in this one. Changes go on meanwhile, in a layer
//! above the one that is being committed.
//!
//! The store commits in two phases: its pages are flushed before the header that makes them count is
//! written, and flushed. The bytes that a group gives to files are therefore durable before the
//! group, as their blocks may have held other files; and a reader in another process can rely on the
//! header that it sees. After a commit that failed, its effect is unknown. If the connection was lost,
//! the changes of the group are pending again: see `losses`. Otherwise, nothing is changed any more.

use std::sync::Arc;

use nearflash_files::{Change, Changes, InodeNumber, Run, Superblock};
use nearflash_units::{Blocks, ByteLen, MIB};

use super::{FileSystem, State};
use crate::store::Batch;
use crate::{BLOCK, FilesError};

/// The bytes of changes that gather before a call commits them.
const PENDING_LEN_MAX: usize = 4 << 20;

/// The bytes by which the metadata store may grow for each byte of changes: keys and values lie in
/// pages that are half full, and the pages of the last commit stay until the next one.
const GROWTH_FACTOR: u64 = 4;

/// Freed space of this length is released to the device. Smaller parts are used again first.
const DISCARD_LEN_MIN: u64 = MIB;

impl FileSystem {
    /// Makes an inode durable, with all changes before: fsync(2), and fdatasync(2) if
    /// `is_data_only`, which needs no commit unless the file has grown or moved.
    ///
    /// # Errors
    /// When the volume cannot be written; when the inode is open and bytes that were written to it
    /// since its last sync may be lost with a connection, which is reported once; and when a commit has
    /// failed for another reason: then nothing is changed any more.
    pub fn sync(&self, number: InodeNumber, is_data_only: bool) -> Result<(), FilesError> {
        let file = self.open_file(number).ok();
        let written = file.as_ref().map(|file| file.written());
        self.sync_through(|| match file.as_ref().filter(|_| is_data_only) {
            Some(file) => Ok(file.group()),
            None => self.gather(),
        })?;
        let losses = self.disk().losses();
        if file.zip(written).is_some_and(|(file, it)| file.handle_flushed(it, losses)) {
            self.state()?.losses.reverted.remove(&number);
            return Err(self.lost());
        }
        Ok(())
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// As [`Self::sync`], and once when files have lost bytes that were not durable.
    pub fn sync_all(&self) -> Result<(), FilesError> {
        let written = self.written_files();
        let closed = self.state()?.losses.closed.clone();
        self.sync_through(|| self.gather())?;
        self.take_growth()?;
        let losses = self.disk().losses();
        for (file, it) in written {
            file.handle_swept(it, losses);
        }
        let mut state = self.state()?;
        state.losses.sweep(&closed, losses);
        match std::mem::take(&mut state.losses.reverted).is_empty() {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    /// Uses the blocks by which the volume has grown since it was opened. The disk knows its length as of the last
    /// answer of the node.
    fn take_growth(&self) -> Result<(), FilesError> {
        let len = self.disk().properties().len;
        let metadata = self.metadata.metadata();
        if metadata.superblock().volume_len < len {
            let changed = metadata.change(|superblock| superblock.volume_len = len);
            if let Err(error) = changed.map_err(FilesError::disk(self.volume())) {
                if !error.is_connection_lost() {
                    self.state()?.fail(&error);
                }
                return Err(error);
            }
        }
        let area = Superblock::area(metadata.superblock().volume_len);
        self.state()?.space.extend(area.expect("it was checked when opened"));
        Ok(())
    }

    /// Makes a group durable, unless writes may have been lost.
    pub(super) fn sync_group(&self, group: u64) -> Result<(), FilesError> {
        if self.state()?.durable < group {
            return self.commit_through(group);
        }
        self.disk().flush().map_err(FilesError::disk(self.volume()))?;
        if self.is_whole(&*self.state()?) { Ok(()) } else { Err(self.lost()) }
    }

    /// Stores the times of open files, and returns the last group that has changes.
    pub(super) fn gather(&self) -> Result<u64, FilesError> {
        let mut state = self.state()?;
        self.store_times(&mut state)?;
        Ok(state.last_group())
    }

    /// Ensures that a change finds room in the metadata store.
    pub(crate) fn make_room(&self) -> Result<(), FilesError> {
        loop {
            let group = {
                let mut state = self.state()?;
                let is_much = state.pending.len() > PENDING_LEN_MAX;
                if !is_much && self.has_room(&mut state)? {
                    return Ok(());
                }
                if state.pending.is_empty() && state.committing.is_none() {
                    let volume = self.volume().to_owned();
                    return Err(FilesError::MetadataFull { volume });
                }
                state.last_group()
            };
            self.commit_through(group)?;
        }
    }

    /// Whether the store can grow for all changes. Gives it further runs if not. A store grows to
    /// twice its length.
    fn has_room(&self, state: &mut State) -> Result<bool, FilesError> {
        let metadata = self.metadata.metadata();
        let changes = state.layers().iter().map(|changes| changes.len()).sum();
        let changes = ByteLen::from_usize(changes).0.saturating_mul(GROWTH_FACTOR);
        loop {
            let superblock = metadata.superblock();
            let needed = superblock.metadata_len.0.saturating_add(changes).saturating_mul(2);
            let capacity = superblock.metadata_capacity();
            if capacity.0 >= needed.saturating_add(MIB) {
                return Ok(true);
            }
            let Some(run) = metadata.has_room_for_run().then(|| run_for(&superblock, state)) else {
                return Ok(false);
            };
            let Some(run) = run else { return Ok(false) };
            metadata.add_run(run).map_err(FilesError::disk(self.volume()))?;
        }
    }

    /// Commits all groups up to this one. Fails if writes may have been lost: this thread may have
    /// locked contents, so that it cannot deal with that.
    fn commit_through(&self, group: u64) -> Result<(), FilesError> {
        loop {
            let (changes, number) = {
                let mut state = self.state()?;
                if state.durable >= group {
                    return Ok(());
                }
                if state.committing.is_some() {
                    let waited = self.committed.wait(state);
                    drop(waited.expect("nothing panics while it holds the state"));
                    continue;
                }
                if !self.is_whole(&state) {
                    return Err(self.lost());
                }
                self.store_times(&mut state)?;
                let changes = Arc::new(std::mem::take(&mut state.pending));
                state.losses.begin_commit();
                state.committing = Some(Arc::clone(&changes));
                state.group += 1;
                (changes, state.group - 1)
            };
            let written = self.write_group(&changes);
            self.end_commit(number, written)?;
        }
    }

    /// Writes changes to the store, durably, and returns the store with them.
    fn write_group(&self, changes: &Changes) -> Result<crate::store::Snapshot, FilesError> {
        let failed = |error: redb::Error| FilesError::store(self.volume(), error);
        let begun = self.metadata.database().begin_write();
        let mut transaction = begun.map_err(|error| failed(error.into()))?;
        // Commits in two phases, and needs no repair after a loss of power.
        transaction.set_quick_repair(true);
        let mut batch = Batch::new(&transaction).map_err(|error| failed(error.into()))?;
        changes.apply(&mut batch).map_err(|error| failed(error.into()))?;
        drop(batch);
        transaction.commit().map_err(|error| failed(error.into()))?;
        self.metadata.snapshot()
    }

    fn end_commit(
        &self,
        number: u64,
        written: Result<crate::store::Snapshot, FilesError>,
    ) -> Result<(), FilesError> {
        let (released, _returning) = {
            let mut state = self.state.lock().expect("nothing panics while it holds the state");
            let released = match written {
                Ok(store) => {
                    state.store = Some(store);
                    state.committing = None;
                    state.losses.end_commit();
                    state.durable = number;
                    Ok(state.quarantine.released_by(number))
                }
                Err(error) if error.is_connection_lost() => {
                    state.take_back_commit();
                    Err(error)
                }
                Err(error) => {
                    state.fail(&error);
                    Err(error)
                }
            };
            self.committed.notify_all();
            (released?, self.returning(&mut state))
        };
        // Their blocks were those of inodes that are closed now.
        if let Err(error) = self.unseal_closed() {
            let mut state = self.state.lock().expect("nothing panics while it holds the state");
            if error.is_connection_lost() {
                // The next commit releases them.
                let group = state.group;
                released.into_iter().for_each(|run| state.quarantine.hold(group, run));
            } else {
                state.fail(&error);
            }
            return Err(error);
        }
        let released = joined(released);
        for run in released.iter().filter(|run| run.len().0 >= DISCARD_LEN_MIN) {
            // The removal is durable, and a volume that releases nothing only uses more of its
            // device. The next write reports a node that does not answer.
            let _ = self.disk().discard(run.offset(), run.len());
        }
        let mut state = self.state.lock().expect("nothing panics while it holds the state");
        released.into_iter().for_each(|run| state.space.release(run));
        Ok(())
    }

    /// Stores the times of the last writes of open files.
    fn store_times(&self, state: &mut State) -> Result<(), FilesError> {
        for (number, file) in self.open_files() {
            if let Some(modified_at) = file.take_modified_at() {
                self.apply_to(state, |change: &mut Change<'_, super::View<'_>>| {
                    change.update(number, |inode| {
                        inode.modified_at = modified_at;
                        inode.changed_at = modified_at;
                    })
                })?;
            }
        }
        Ok(())
    }
}

/// A further run for the metadata: as long as all that it has, or the longest part that is free.
fn run_for(superblock: &Superblock, state: &mut State) -> Option<Run> {
    let smallest = BLOCK.blocks_in(ByteLen(MIB)).0;
    let has = BLOCK.blocks_in(superblock.metadata_capacity()).0;
    let halves = std::iter::successors(Some(has), |count| Some(count / 2));
    let mut sizes = halves.take_while(|count| *count >= smallest);
    sizes.find_map(|count| state.space.allocate(Blocks(count)))
}

/// Runs with those that touch as one.
fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut().filter(|last| last.end() == run.start) {
            Some(last) => last.count.0 += run.count.0,
            None => joined.push(run),
        }
    }
    joined
}
