//! The space of a volume while files grow: what is free, and what is held for a file.
//!
//! A file that grows holds the blocks behind its last run, so that files that grow at the same time
//! do not end each other's runs. The volume does not record this: a held block is free, except that
//! others take their space elsewhere while they can. If they cannot, no file holds anything any more. A
//! file is therefore refused only when the blocks without bytes do not suffice, or are in too many gaps.
//!
//! The gaps: a file has [`FILE_RUNS_MAX`](crate::FILE_RUNS_MAX) runs, and each but the last has whole MiB.
//! A file that gets no space in this way gives up its own runs for fewer, longer ones, and begins them at
//! any block. It is refused only if no move of its own runs helps.

use std::collections::BTreeMap;

use nearflash_units::{Blocks, ByteLen};

use crate::joining::join;
use crate::policy::{block_count, extend_by_moving};
use crate::{BLOCK, Extended, FreeRuns, NoSpaceError, Run, Spare, blocks_for, extend};

/// A file that may grow. The number is not used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Grower(u64);

/// The free blocks of a volume, and those that are held for files that grow.
#[derive(Clone, Debug)]
pub struct Space {
    free: FreeRuns,
    held: BTreeMap<Grower, Run>,
    next: u64,
}

impl Space {
    /// Space of which nothing is held.
    pub fn new(free: FreeRuns) -> Self {
        Self { free, held: BTreeMap::new(), next: 0 }
    }

    /// A further file that may grow. It holds nothing yet.
    pub fn grower(&mut self) -> Grower {
        self.next += 1;
        Grower(self.next)
    }

    /// The number of blocks that are free or held.
    pub fn count(&self) -> Blocks {
        let held: u64 = self.held.values().map(|run| run.count.0).sum();
        Blocks(self.free.count().0 + held)
    }

    /// The blocks that are free and not held.
    pub fn free(&self) -> &FreeRuns {
        &self.free
    }

    /// The volume has grown to this area.
    pub fn extend(&mut self, area: Run) {
        self.free.extend(area);
    }

    /// Returns blocks of a file.
    ///
    /// # Panics
    /// When one of them is free already or outside the volume. Two files would get it.
    pub fn release(&mut self, run: Run) {
        self.free.release(run);
    }

    /// Takes one run of `count` blocks.
    pub fn allocate(&mut self, count: Blocks) -> Option<Run> {
        self.free.allocate(count).or_else(|| {
            self.let_all_go();
            self.free.allocate(count)
        })
    }

    /// The file holds nothing any more: it is closed, or was cut.
    pub fn let_go(&mut self, grower: Grower) {
        self.held.remove(&grower).into_iter().for_each(|run| self.free.release(run));
    }

    fn let_all_go(&mut self) {
        std::mem::take(&mut self.held).into_values().for_each(|run| self.free.release(run));
    }

    /// Takes space, so that a file with these runs has at least `needed` bytes. It then holds the rest
    /// of the space that [`extend`] gives it.
    ///
    /// # Errors
    /// As [`extend`]. Then no file holds anything.
    pub fn grow(
        &mut self,
        grower: Grower,
        runs: &[Run],
        needed: ByteLen,
        spare: Spare,
    ) -> Result<Extended, NoSpaceError> {
        if let Some(runs) = self.grown_into_held(grower, runs, needed) {
            return Ok(Extended { runs, copies: Vec::new() });
        }
        // It is the gap behind the last run from now on.
        self.let_go(grower);
        let extended = extend(runs, needed, spare, &mut self.free).or_else(|error| {
            if self.held.is_empty() {
                return Err(error);
            }
            self.let_all_go();
            extend(runs, needed, spare, &mut self.free)
        });
        extended.map(|extended| self.hold_rest(grower, needed, extended))
    }

    /// [`Self::grow`] for a file that got no space: its runs move to others.
    ///
    /// # Errors
    /// As [`extend`]. Then no file holds anything.
    pub fn grow_by_moving(
        &mut self,
        runs: &[Run],
        needed: ByteLen,
    ) -> Result<Extended, NoSpaceError> {
        self.let_all_go();
        extend_by_moving(runs, needed, &mut self.free)
    }

    /// Takes one run for a file with these runs, which is complete, if no more bytes are copied than these. `None`
    /// if the file has one run, or there is no space for this. It takes nothing that other files hold.
    pub fn join(&mut self, runs: &[Run], copied_max: ByteLen) -> Option<Extended> {
        join(runs, Blocks(copied_max.0 >> BLOCK.shift()), &mut self.free)
    }

    /// The runs with a part of what the file holds, if that suffices.
    fn grown_into_held(
        &mut self,
        grower: Grower,
        runs: &[Run],
        needed: ByteLen,
    ) -> Option<Vec<Run>> {
        let missing = blocks_for(needed).0.saturating_sub(block_count(runs));
        if missing == 0 {
            return Some(runs.to_vec());
        }
        let held = self.held.get_mut(&grower).filter(|held| missing <= held.count.0)?;
        let mut runs = runs.to_vec();
        let last = runs.last_mut().filter(|last| last.end() == held.start)?;
        last.count.0 += missing;
        *held = held.behind(missing);
        if held.count.0 == 0 {
            self.held.remove(&grower);
        }
        Some(runs)
    }

    /// The file has the needed blocks, and holds the others.
    fn hold_rest(&mut self, grower: Grower, needed: ByteLen, mut extended: Extended) -> Extended {
        let rest = block_count(&extended.runs).saturating_sub(blocks_for(needed).0);
        if let Some(last) = extended.runs.last_mut().filter(|_| rest != 0) {
            let count = last.count.0 - rest;
            self.held.insert(grower, last.behind(count));
            *last = last.first(count);
        }
        extended
    }
}
