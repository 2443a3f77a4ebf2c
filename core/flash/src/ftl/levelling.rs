//! Static wear levelling: blocks with cold pages take part in wear.
//!
//! The FTL opens the least worn free block first, which levels the blocks that are collected. A
//! block whose pages are never overwritten is not collected, and stays unworn. When its erase count
//! falls too far behind, its pages move to the most worn free block, where they rest.
//!
//! Only blocks that rest are moved. Under uniform writes, erase counts also drift apart, but every
//! block is collected soon: moving it would amplify writes by half, and level nothing.

use nearflash_units::index;

use super::{Block, Chips, Ftl, LogicalPage, NONE, Phase, PhysicalPage};

/// Bounds of the erase counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wear {
    /// The highest count.
    most: u32,
    /// No count is lower. It saves most scans: counts only grow.
    least: u32,
}

impl Wear {
    /// A block was erased for the `erases`-th time.
    pub(super) fn handle_erase(&mut self, erases: u32) {
        self.most = self.most.max(erases);
    }
}

impl Ftl {
    /// Moves the pages of the least worn closed block, if the difference has become too large.
    pub(super) fn level_wear(&mut self, chips: &mut impl Chips) {
        let Some(spread_max) = self.config.erase_spread_max else { return };
        if self.wear.most - self.wear.least <= spread_max {
            return;
        }
        self.wear.least = self.erases().min().unwrap_or(0);
        let rested = self.closed().filter(|(_, state)| self.rests(state.written_at));
        let least_worn = rested.min_by_key(|(_, state)| state.erases);
        let Some((cold, state)) = least_worn else { return };
        if self.wear.most - state.erases > spread_max {
            self.swap(cold, chips);
        }
    }

    /// Whether the host has written as many pages as it can address since then.
    fn rests(&self, written_at: u64) -> bool {
        self.counts.host_pages - written_at > u64::from(self.config.geometry.logical_pages)
    }

    /// Moves the pages of a block to the most worn free one, which is closed at once: further pages
    /// would not be as cold.
    fn swap(&mut self, cold: Block, chips: &mut impl Chips) {
        let (_, worn) = self.free.pop_last().expect("the spare blocks keep one free");
        let stream = self.state(cold).stream;
        let state = self.state_mut(worn);
        state.phase = Phase::Open;
        state.stream = stream;
        let mut places = self.config.geometry.pages_of(worn);
        for from in self.config.geometry.pages_of(cold) {
            let page = self.logical[index(from)];
            if page == NONE {
                continue;
            }
            let to = PhysicalPage(places.next().expect("both blocks have as many pages"));
            self.map(LogicalPage(page), to);
            chips.copy(PhysicalPage(from), to);
            self.counts.levelled_pages += 1;
        }
        self.close(worn);
        self.erase(cold, chips);
    }
}
