//! The invariants, as a check for tests.

use nearflash_units::index;

use super::{Block, Ftl, LogicalPage, NONE, Phase};

impl Ftl {
    /// Verifies the invariants of the module. It looks at every page.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check(&self) {
        self.check_pages();
        self.check_blocks();
        assert!(!self.free.is_empty(), "no block is free");
    }

    /// Each logical page and its physical page name each other.
    fn check_pages(&self) {
        let logical_pages = self.config.geometry.logical_pages;
        let mapped = (0..logical_pages).filter_map(|page| {
            let physical = self.lookup(LogicalPage(page))?;
            assert_eq!(self.logical[index(physical.0)], page, "{physical:?} is of another page");
            Some(physical)
        });
        let valid = self.logical.iter().filter(|&&page| page != NONE).count();
        assert_eq!(mapped.count(), valid, "some physical pages are of no logical page");
    }

    /// Counts of valid pages are right, free blocks are empty, and every block has one use.
    fn check_blocks(&self) {
        let geometry = self.config.geometry;
        for (block, state) in (0..).map(Block).zip(&self.blocks) {
            let pages = geometry.pages_of(block);
            let valid = pages.filter(|&page| self.logical[index(page)] != NONE).count();
            assert_eq!(valid, index(state.valid), "valid pages of {block:?}");
            let is_free = self.free.contains(&(state.erases, block));
            assert_eq!(is_free, state.phase == Phase::Free, "{block:?} is {:?}", state.phase);
            assert!(!is_free || valid == 0, "{block:?} is free, and holds valid pages");
            let is_retired = state.phase == Phase::Retired;
            assert!(!is_retired || valid == 0, "{block:?} is retired, and holds valid pages");
            let open = self.frontiers.iter().flatten().filter(|it| it.block == block).count();
            assert_eq!(open, usize::from(state.phase == Phase::Open), "{block:?} as a frontier");
        }
        let free = self.blocks.iter().filter(|state| state.phase == Phase::Free).count();
        assert_eq!(free, self.free.len(), "blocks stand twice in the free list");
        let retired = self.blocks.iter().filter(|state| state.phase == Phase::Retired).count();
        assert_eq!(retired, index(self.retired_blocks()), "retired blocks");
    }
}
