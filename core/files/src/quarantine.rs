//! Blocks of removed files that may not be used yet.
//!
//! A removed file may come back if power is lost before the removal is durable. Its blocks are
//! therefore held until the commit that freed them is durable.

use std::collections::VecDeque;

use nearflash_units::Blocks;

use crate::{Run, without};

/// Freed runs, in the order of the commits that freed them.
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    held: VecDeque<(u64, Run)>,
}

impl Quarantine {
    /// Holds a run that the commit of this number frees. Numbers do not decrease.
    pub fn hold(&mut self, commit: u64, run: Run) {
        self.held.push_back((commit, run));
    }

    /// The number of blocks that are held.
    pub fn count(&self) -> Blocks {
        Blocks(self.held.iter().map(|(_, run)| run.count.0).sum())
    }

    /// Stops holding these blocks, whose file has them again. Returns whether all of them were held.
    pub fn take_back(&mut self, run: Run) -> bool {
        let mut missing = run.count.0;
        let mut held = VecDeque::new();
        for (commit, other) in self.held.drain(..) {
            let parts = without(&[other], &[run]);
            missing -= other.count.0 - parts.iter().map(|part| part.count.0).sum::<u64>();
            held.extend(parts.into_iter().map(|part| (commit, part)));
        }
        self.held = held;
        missing == 0
    }

    /// The commits up to this number are durable: returns the runs that may be used again.
    pub fn released_by(&mut self, commit: u64) -> Vec<Run> {
        let released = self.held.partition_point(|(freed_by, _)| *freed_by <= commit);
        self.held.drain(..released).map(|(_, run)| run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::Lba;

    #[test]
    fn blocks_that_are_taken_back_are_not_released() {
        let run = |start, count| Run { start: Lba(start), count: Blocks(count) };
        let mut quarantine = Quarantine::default();
        quarantine.hold(1, run(10, 10));
        quarantine.hold(2, run(20, 10));
        assert!(quarantine.take_back(run(15, 10)));
        assert!(!quarantine.take_back(run(15, 10)), "they are held once");
        assert!(!quarantine.take_back(run(5, 6)));
        assert_eq!(quarantine.released_by(1), [run(11, 4)]);
        assert_eq!(quarantine.released_by(2), [run(25, 5)]);
    }

    #[test]
    fn a_run_is_released_by_the_durable_commit_that_freed_it() {
        let run = |start| Run { start: Lba(start), count: Blocks(1) };
        let mut quarantine = Quarantine::default();
        for (commit, start) in [(1, 10), (1, 11), (2, 20), (4, 40)] {
            quarantine.hold(commit, run(start));
        }
        assert_eq!(quarantine.released_by(0), []);
        assert_eq!(quarantine.released_by(1), [run(10), run(11)]);
        assert_eq!(quarantine.released_by(3), [run(20)]);
        assert_eq!(quarantine.released_by(4), [run(40)]);
        assert_eq!(quarantine.released_by(9), []);
    }
}
