//! Connections that were lost, and with them perhaps the writes since the last flush.
//!
//! Nobody knows which of these writes the node still has. So a file that was written in place since
//! its last flush keeps what is there, and its next sync reports the loss, once. A file that has got
//! or moved its bytes since the last commit goes back to the size and the place of that commit: its
//! new blocks may hold bytes of a removed file. Programs that have it open still see its former size, and
//! cannot read the lost bytes: see [`crate::lost_range`]. All other changes are in memory, as layers that say
//! what is new and not what is different. They are committed again, whether or not the commit under
//! way took effect. Before that, the metadata store is opened again from the volume.
//!
//! A file that got its name when it was complete is not shortened: the owner ends instead. See
//! [`FileSystem::publish`].
//!
//! A file that is closed stays known until a flush has covered its writes: the sync of a program that
//! opens it again makes them durable, too, or reports their loss.
//!
//! The node is asked again by every sync, and by every call that gives bytes to a file after a known
//! loss, so a mount goes on when its node is back. Calls that need the store or the volume before that
//! fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};

use nearflash_files::{Error, InodeNumber, inode, without};
use nearflash_units::ByteLen;

use super::open_files::{Contents, Written};
use super::{FileSystem, State};
use crate::FilesError;
use crate::disk::lost;
use crate::metadata::Backend;

/// The number of losses during one sync after which it fails.
const LOSSES_MAX: usize = 4;

/// The part of the state that concerns losses.
#[derive(Default)]
pub(super) struct Losses {
    /// [`crate::Disk::losses`] when nothing was known to be lost.
    pub(super) known: u64,
    /// Whether the store must be opened again.
    pub(super) is_store_over: bool,
    /// Whether a thread does that, and commits must not begin.
    pub(super) is_healing: bool,
    /// The files that got or moved bytes in the pending changes, each with its smallest size meanwhile.
    fresh: BTreeMap<InodeNumber, ByteLen>,
    /// Those in the changes that are being committed.
    committing: BTreeMap<InodeNumber, ByteLen>,
    /// Whether a file has got its name in the pending changes because it was complete.
    has_published: bool,
    /// Whether one has in the changes that are being committed.
    is_publishing: bool,
    /// The files that went back, until their sync or [`FileSystem::sync_all`] reports it.
    pub(super) reverted: BTreeSet<InodeNumber>,
    /// The files that were closed with writes that no flush has covered, until [`FileSystem::sync_all`]
    /// covers them. The next program that opens such a file and syncs it learns of a loss.
    pub(super) closed: BTreeMap<InodeNumber, Written>,
}

impl Losses {
    /// Nothing is lost, and the volume has had `known` losses before.
    pub(super) fn new(known: u64) -> Self {
        Self { known, ..Self::default() }
    }

    /// A file gets or moves bytes, and has this size, before or after.
    pub(super) fn mark_fresh(&mut self, number: InodeNumber, size: ByteLen) {
        let smallest = self.fresh.entry(number).or_insert(size);
        *smallest = size.min(*smallest);
    }

    /// A complete file has got its name.
    pub(super) fn mark_published(&mut self) {
        self.has_published = true;
    }

    /// The pending changes are being committed.
    pub(super) fn begin_commit(&mut self) {
        self.committing = std::mem::take(&mut self.fresh);
        self.is_publishing = std::mem::take(&mut self.has_published);
    }

    /// They are durable.
    pub(super) fn end_commit(&mut self) {
        self.committing.clear();
        self.is_publishing = false;
    }

    /// It is unknown whether they are, and they are pending again.
    pub(super) fn take_back_commit(&mut self) {
        for (number, size) in std::mem::take(&mut self.committing) {
            self.mark_fresh(number, size);
        }
        self.has_published |= std::mem::take(&mut self.is_publishing);
        self.is_store_over = true;
    }

    /// A flush, after which the volume has had this number of losses, has covered what was written to
    /// these closed files.
    pub(super) fn sweep(&mut self, flushed: &BTreeMap<InodeNumber, Written>, losses: u64) {
        self.closed.retain(|number, written| {
            flushed.get(number) != Some(written) || !written.is_covered(losses)
        });
    }
}

impl FileSystem {
    pub(crate) fn lost(&self) -> FilesError {
        FilesError::disk(self.volume())(lost())
    }

    /// Makes the group that `group` names durable, also over a lost connection.
    pub(super) fn sync_through(
        &self,
        group: impl Fn() -> Result<u64, FilesError>,
    ) -> Result<(), FilesError> {
        let mut synced = Err(self.lost());
        for _ in 0..LOSSES_MAX {
            self.heal()?;
            synced = group().and_then(|group| self.sync_group(group));
            match &synced {
                Err(error) if error.is_connection_lost() => {
                    // `redb` refuses everything after an error.
                    self.state()?.losses.is_store_over |= matches!(error, FilesError::Store { .. });
                }
                _ => break,
            }
        }
        synced
    }

    /// Whether the store and the volume are known to have all that was flushed.
    pub(super) fn is_whole(&self, state: &State) -> bool {
        let losses = &state.losses;
        !losses.is_store_over && !losses.is_healing && losses.known == self.disk().losses()
    }

    /// Deals with losses since the last call. No contents are locked by this thread.
    pub(crate) fn heal(&self) -> Result<(), FilesError> {
        {
            let mut state = self.idle_state()?;
            if self.is_whole(&state) {
                return Ok(());
            }
            if state.losses.has_published && !state.losses.fresh.is_empty() {
                state.fail(&self.lost());
                drop(state);
                return self.state().map(drop);
            }
            state.losses.is_healing = true;
        }
        let healed = self.heal_files();
        let mut state = self.state.lock().expect("nothing panics while it holds the state");
        state.losses.is_healing = false;
        match &healed {
            Ok(losses) => (state.losses.known, state.losses.is_store_over) = (*losses, false),
            Err(error) if error.is_connection_lost() => {}
            Err(error) => state.fail(error),
        }
        self.committed.notify_all();
        healed.map(drop)
    }

    /// The state when nothing is being committed, and no thread deals with losses.
    fn idle_state(&self) -> Result<MutexGuard<'_, State>, FilesError> {
        let mut state = self.state()?;
        while state.committing.is_some() || state.losses.is_healing {
            drop(self.committed.wait(state).expect("nothing panics while it holds the state"));
            state = self.state()?;
        }
        Ok(state)
    }

    /// Returns the number of losses that were dealt with.
    fn heal_files(&self) -> Result<u64, FilesError> {
        let failed = FilesError::disk(self.volume());
        self.disk().check_losses().map_err(&failed)?;
        let losses = self.disk().losses();
        self.metadata.metadata().settle(losses).map_err(failed)?;
        self.reopen_store()?;
        let fresh = self.state()?.losses.fresh.clone();
        for (number, smallest) in fresh {
            self.revert(number, smallest)?;
            self.state()?.losses.fresh.remove(&number);
        }
        if self.disk().losses() == losses { Ok(losses) } else { Err(self.lost()) }
    }

    fn reopen_store(&self) -> Result<(), FilesError> {
        // Locked all the time: an operation finds the former store whole, or the new one.
        let mut state = self.state()?;
        let backend = Backend::new(Arc::clone(self.metadata.metadata()));
        std::mem::replace(&mut state.backend, backend.clone()).end();
        self.metadata.reopen(backend)?;
        state.store = Some(self.metadata.snapshot()?);
        Ok(())
    }

    /// Gives a file the size and the place of the last commit.
    fn revert(&self, number: InodeNumber, smallest: ByteLen) -> Result<(), FilesError> {
        loop {
            match self.find_open(number) {
                Some(file) => {
                    let mut contents = file.contents_mut();
                    self.unseal(number)?;
                    let mut state = self.state()?;
                    if let Some((size, runs)) = self.revert_inode(&mut state, number)? {
                        let next = Contents { size, runs, group: state.group };
                        file.go_back(&mut contents, next, smallest);
                    }
                    return Ok(());
                }
                None => {
                    self.unseal(number)?;
                    let mut state = self.state()?;
                    if !self.is_open(number) {
                        if self.revert_inode(&mut state, number)?.is_some() {
                            state.losses.closed.insert(number, Written::LOST);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    fn revert_inode(
        &self,
        state: &mut State,
        number: InodeNumber,
    ) -> Result<Option<(ByteLen, Vec<nearflash_files::Run>)>, FilesError> {
        let stored = match inode(state.store(), number) {
            Err(Error::Refused(_)) => None,
            found => Some(found.map_err(FilesError::names(self.volume()))?),
        };
        let (size, runs) = stored.map_or((ByteLen(0), Vec::new()), |it| (it.size, it.runs));
        let found = self.apply_to(state, |change| inode(change.tables(), number));
        let mut current = match found {
            // It was removed meanwhile.
            Err(FilesError::Refused(_)) => return Ok(None),
            found => found?,
        };
        if (current.size, &current.runs) == (size, &runs) {
            return Ok(None);
        }
        let gone = without(&current.runs, &runs);
        for run in without(&runs, &current.runs) {
            assert!(state.quarantine.take_back(run), "the space of the last commit is held");
        }
        state.losses.reverted.insert(number);
        (current.size, current.runs) = (size, runs.clone());
        current.version = current.version.checked_add(1).unwrap_or(1);
        self.apply_to(state, |change| {
            change.free(gone);
            change.put(number, &current)
        })?;
        Ok(Some((size, runs)))
    }
}
