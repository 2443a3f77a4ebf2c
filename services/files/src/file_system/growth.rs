//! Space for files that grow.
//!
//! A growing file holds space in memory alone: see [`nearflash_files::Space`]. The inode has exactly the
//! blocks of its bytes, and those that fallocate(2) asked for. So nothing has to be given back durably
//! when another file needs the held space, when the file is closed, or after a loss of power.
//!
//! A file is refused space only after everything that others do not need is free: what they hold, the
//! space of removed files, for which there is a commit, and the former places of files that are moving. It looks
//! at all of these at one moment, as others move their files meanwhile.

use std::sync::MutexGuard;

use nearflash_files::{Extended, Grower, NoSpaceError, Run, Spare};
use nearflash_units::{ByteLen, ByteOffset, MIB};

use super::{FileSystem, State};
use crate::FilesError;

/// The bytes of a file that are in memory at a time while it is copied.
const COPY_LEN: ByteLen = ByteLen(4 * MIB);

/// The number of times that a file waits for space that others give back, and may take before it does.
const WAITS_MAX: usize = 200;

/// The runs of a file that has grown.
pub(super) struct Grown<'f> {
    pub(super) runs: Vec<Run>,
    /// Blocks whose contents must be copied first, and the places of the copies.
    pub(super) copies: Vec<(Run, Run)>,
    /// Others wait for the former places until this is dropped.
    pub(super) returning: Option<Returning<'f>>,
}

/// Space is about to be free: a file that moves has both places, or a commit releases the blocks of removed
/// files.
pub(super) struct Returning<'f>(&'f FileSystem);

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        self.0.locked().returning -= 1;
        self.0.returned.notify_all();
    }
}

impl FileSystem {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state")
    }

    /// Takes space, so that a file with these runs has at least `needed` bytes. Commits if the space of
    /// removed files is needed. The caller may have locked the contents of the file, and moves no other.
    pub(super) fn grow(
        &self,
        grower: Grower,
        runs: &[Run],
        needed: ByteLen,
        spare: Spare,
    ) -> Result<Grown<'_>, FilesError> {
        let no_space = |error| FilesError::NoSpace { volume: self.volume().to_owned(), error };
        for _ in 0..WAITS_MAX {
            let mut state = self.locked();
            let error = match state.space.grow(grower, runs, needed, spare) {
                Ok(extended) => return Ok(self.grown(&mut state, extended)),
                Err(error) => error,
            };
            if state.quarantine.count().0 != 0 {
                drop(state);
                if self.gather().and_then(|group| self.sync_group(group)).is_err() {
                    return Err(no_space(error));
                }
            } else if state.returning != 0 {
                drop(self.returned.wait(state).expect("nothing panics while it holds the state"));
            } else {
                return self.grow_by_moving(state, runs, needed).map_err(no_space);
            }
        }
        self.grow_by_moving(self.locked(), runs, needed).map_err(no_space)
    }

    fn grow_by_moving(
        &self,
        mut state: MutexGuard<'_, State>,
        runs: &[Run],
        needed: ByteLen,
    ) -> Result<Grown<'_>, NoSpaceError> {
        let extended = state.space.grow_by_moving(runs, needed)?;
        Ok(self.grown(&mut state, extended))
    }

    /// Takes one run for a file with these runs, which is complete, if no more bytes are copied than these. The
    /// caller moves it as one that grows.
    pub(super) fn space_to_join(
        &self,
        grower: Grower,
        runs: &[Run],
        copied_max: ByteLen,
    ) -> Option<Grown<'_>> {
        let mut state = self.locked();
        // From now on, it holds the gap behind its last run.
        state.space.let_go(grower);
        let extended = state.space.join(runs, copied_max)?;
        Some(self.grown(&mut state, extended))
    }

    fn grown(&self, state: &mut State, Extended { runs, copies }: Extended) -> Grown<'_> {
        let returning = (!copies.is_empty()).then(|| self.returning(state));
        Grown { runs, copies, returning }
    }

    /// Lets others wait for space until the result is dropped.
    pub(super) fn returning(&self, state: &mut State) -> Returning<'_> {
        state.returning += 1;
        Returning(self)
    }

    /// Copies the blocks of a file to their new places, which are as long. Fails if the copy is no longer wanted.
    pub(super) fn copy(
        &self,
        copies: &[(Run, Run)],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), FilesError> {
        let whole = COPY_LEN.0;
        let longest = copies.iter().map(|(from, _)| from.len().0).max().unwrap_or(0);
        let mut bytes = vec![0; ByteLen(longest.min(whole)).to_usize()];
        for (from, to) in copies {
            let mut done = 0;
            while done < from.len().0 {
                if !is_wanted() {
                    let given_up = std::io::ErrorKind::Interrupted.into();
                    return Err(FilesError::disk(self.volume())(given_up));
                }
                let part = &mut bytes[..ByteLen((from.len().0 - done).min(whole)).to_usize()];
                let place = |run: &Run| ByteOffset(run.offset().0 + done);
                let copied = self.disk().read_at(part, place(from));
                let copied = copied.and_then(|()| self.disk().write_at(part, place(to)));
                copied.map_err(FilesError::disk(self.volume()))?;
                done += ByteLen::of(part).0;
            }
        }
        Ok(())
    }

    /// Gives back runs that were never part of a file, and what the file holds.
    pub(super) fn give_back(&self, grower: Grower, runs: Vec<Run>) {
        let mut state = self.locked();
        state.space.let_go(grower);
        runs.into_iter().for_each(|run| state.space.release(run));
    }
}
