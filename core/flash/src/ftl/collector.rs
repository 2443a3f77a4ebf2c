//! The choice of the block to collect.

use std::cmp::Reverse;

use super::{Block, BlockState, Ftl};
use crate::number::real;

/// The rule by which the collector chooses a block.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Collector {
    /// The block with the fewest valid pages. It frees the most now, and is blind to pages that
    /// are about to be overwritten anyway.
    Greedy,
    /// The block with the highest ratio of benefit to cost: its age, multiplied by the share of
    /// invalid pages, divided by the cost of reading and writing the valid ones (Kawaguchi and
    /// others, USENIX 1995). A young block is left alone, because more of its pages will soon be
    /// invalid.
    CostBenefit,
    /// The block that was closed first.
    Fifo,
}

impl Ftl {
    /// The closed block to collect next. A scan of all blocks: collecting a block costs more than
    /// looking at one word of each.
    pub(super) fn victim(&self) -> Option<Block> {
        let found = match self.config.collector {
            Collector::Greedy => self.closed().min_by_key(|(_, state)| state.valid),
            Collector::CostBenefit => self.closed().max_by(|(_, a), (_, b)| {
                self.benefit_per_cost(a).total_cmp(&self.benefit_per_cost(b))
            }),
            Collector::Fifo => self.closed().max_by_key(|(_, state)| Reverse(state.closed_at)),
        };
        found.map(|(block, _)| block)
    }

    fn benefit_per_cost(&self, block: &BlockState) -> f64 {
        let pages = f64::from(self.config.geometry.pages_per_block);
        let valid = f64::from(block.valid);
        let age = real(self.counts.host_pages - block.written_at + 1);
        // Infinite if no page is valid: such a block costs nothing.
        (pages - valid) * age / (2.0 * valid)
    }
}
