//! The end of flash: a block that has been erased as often as it endures is retired.
//!
//! Spare blocks replace retired ones, so that the spare shrinks and write amplification rises. The
//! flash is worn out when a block is worn and no spare block is left.

use super::{Ftl, Phase};

/// The blocks that are out of use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retirement {
    /// The erases that a block endures; `None` for blocks that never wear out.
    endurance: Option<u32>,
    retired: u32,
    is_worn_out: bool,
}

impl Ftl {
    /// The same FTL over blocks that endure so many erases each.
    #[must_use]
    pub fn with_endurance(mut self, erases: u32) -> Self {
        self.retirement.endurance = Some(erases);
        self
    }

    /// Whether a block is worn that no spare block can replace. The FTL still takes writes: its
    /// caller refuses them.
    pub fn is_worn_out(&self) -> bool {
        self.retirement.is_worn_out
    }

    /// Blocks that were retired.
    pub fn retired_blocks(&self) -> u32 {
        self.retirement.retired
    }

    /// Blocks that can still be retired.
    pub fn replacement_blocks(&self) -> u32 {
        self.config.surplus_blocks() - self.retirement.retired
    }

    /// Retires the most worn free block, if it is worn. Returns whether it did.
    ///
    /// Only the free list is searched, and only when it has blocks to give: a block that was just
    /// erased may be the one to which the collector moves pages next.
    pub(super) fn retire_worn(&mut self) -> bool {
        let Some(endurance) = self.retirement.endurance else { return false };
        let worn = self.free.last().filter(|(erases, _)| *erases >= endurance);
        let Some(&(_, block)) = worn else { return false };
        if self.replacement_blocks() == 0 {
            self.retirement.is_worn_out = true;
            return false;
        }
        self.free.pop_last();
        self.state_mut(block).phase = Phase::Retired;
        self.retirement.retired += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::{Collector, Config, Geometry, LogicalPage, Moves, Stream, Untimed};
    use crate::random::Random;

    const ENDURANCE: u32 = 50;

    fn flash(spare_percent: u32) -> Ftl {
        let config = Config {
            geometry: Geometry::with_spare(64, 16, spare_percent),
            collector: Collector::CostBenefit,
            streams: 1,
            moves: Moves::Apart,
            erase_spread_max: Some(4),
        };
        Ftl::new(config).unwrap().with_endurance(ENDURANCE)
    }

    /// Writes until the flash is worn out. Returns the pages that the host wrote.
    fn wear_out(flash: &mut Ftl) -> u64 {
        let pages = flash.config().geometry.logical_pages;
        let mut random = Random::new(7);
        while !flash.is_worn_out() {
            flash.write(LogicalPage(random.below(pages)), Stream(0), &mut Untimed);
        }
        flash.check();
        flash.counts().host_pages
    }

    #[test]
    fn worn_blocks_are_retired_until_no_spare_block_is_left() {
        let mut flash = flash(28);
        let spare = flash.replacement_blocks();
        assert!(spare > 4, "{spare}");
        wear_out(&mut flash);
        assert_eq!((flash.retired_blocks(), flash.replacement_blocks()), (spare, 0));
        // A worn block may take moved pages once more before it is retired.
        assert!(flash.erases().max().unwrap() <= ENDURANCE + 2, "{:?}", flash.erases().max());
        let used: u64 = flash.erases().map(u64::from).sum();
        assert!(used >= 64 * u64::from(ENDURANCE) * 9 / 10, "{used} erases");
    }

    #[test]
    fn worn_out_flash_keeps_its_pages_and_could_still_be_written() {
        let mut flash = flash(28);
        wear_out(&mut flash);
        let pages = flash.config().geometry.logical_pages;
        for page in (0..pages).map(LogicalPage) {
            flash.write(page, Stream(0), &mut Untimed);
        }
        flash.check();
        assert!((0..pages).all(|page| flash.lookup(LogicalPage(page)).is_some()));
    }

    #[test]
    fn more_spare_lets_the_host_write_more() {
        let [little, much] = [15, 50].map(|spare| wear_out(&mut flash(spare)));
        assert!(much > little + little / 2, "{little} and {much}");
    }
}
