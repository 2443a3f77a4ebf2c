//! A page-mapped flash translation layer (FTL).
//!
//! Flash pages cannot be overwritten: a block must be erased first, as a whole. The FTL writes
//! every page to the next free place of an open block, and remembers the place. When free blocks run
//! out, its *collector* chooses a closed block, moves the pages that are still valid, and erases the
//! block. These moves are writes that the host did not ask for: *write amplification*.
//!
//! Each write stream has an open block of its own. Pages with the same expected lifetime are thereby
//! erased together, and fewer must be moved.
//!
//! Invariants, which [`Ftl::check`] verifies:
//!
//! - A logical page has at most one physical page, and that page names it.
//! - A free block holds no valid page, and the valid pages of a block are counted.
//! - At least one block is free between two calls.
//!
//! Blocks may have a limited endurance ([`Ftl::with_endurance`]): worn blocks are retired as long as
//! spare ones replace them.
//!
//! The FTL takes 8 bytes of memory for each page, and does not depend on time: the operations on
//! the flash go to [`Chips`].

mod check;
mod collector;
mod config;
mod levelling;
mod retirement;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use nearflash_units::index;

pub use collector::Collector;
pub use config::{Config, ConfigError, Geometry, Moves};

use crate::number::real;
use config::FREE_BLOCKS_MIN;

/// A page as the host addresses it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogicalPage(pub u32);

/// A page of the flash: pages are numbered block by block.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PhysicalPage(pub u32);

/// A block of the flash: the unit of erasure.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Block(pub u32);

/// A write stream: pages that are expected to be overwritten at about the same time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Stream(pub u8);

/// The flash on which an FTL operates.
pub trait Chips {
    /// Programs a page with data of the host.
    fn program(&mut self, page: PhysicalPage);
    /// Reads one page and programs another one with its content.
    fn copy(&mut self, from: PhysicalPage, to: PhysicalPage);
    /// Erases a block, after all earlier copies.
    fn erase(&mut self, block: Block);
}

/// Flash whose operations take no time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Chips for Untimed {
    fn program(&mut self, _: PhysicalPage) {}
    fn copy(&mut self, _: PhysicalPage, _: PhysicalPage) {}
    fn erase(&mut self, _: Block) {}
}

/// The work of an FTL since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Pages that the host wrote.
    pub host_pages: u64,
    /// Pages that the collector moved.
    pub moved_pages: u64,
    /// Pages that wear levelling moved.
    pub levelled_pages: u64,
    /// Blocks that were erased.
    pub erases: u64,
}

impl Counts {
    /// The work after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            levelled_pages: self.levelled_pages - earlier.levelled_pages,
            erases: self.erases - earlier.erases,
        }
    }

    /// Pages programmed for each page that the host wrote; 1 if it wrote none.
    pub fn write_amplification(self) -> f64 {
        match self.host_pages {
            0 => 1.0,
            host => 1.0 + real(self.moved_pages + self.levelled_pages) / real(host),
        }
    }
}

/// The use of a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Erased.
    Free,
    /// A stream appends to it.
    Open,
    /// Full, or filled as far as it will be.
    Closed,
    /// Worn out, and out of use.
    Retired,
}

/// The state of a block.
#[derive(Clone, Debug)]
struct BlockState {
    phase: Phase,
    /// The stream of its pages.
    stream: Stream,
    /// Pages whose content is current.
    valid: u32,
    /// Times that it was erased.
    erases: u32,
    /// When a page was last written or moved to it, in pages that the host had written.
    written_at: u64,
    /// Its position in the order of closing.
    closed_at: u64,
}

/// An open block, and the number of its pages that are in use.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    block: Block,
    used: u32,
}

/// A physical or logical page that does not exist.
const NONE: u32 = u32::MAX;

/// A flash translation layer.
#[derive(Clone, Debug)]
pub struct Ftl {
    config: Config,
    /// The physical page of each logical page.
    physical: Vec<u32>,
    /// The logical page of each physical page.
    logical: Vec<u32>,
    blocks: Vec<BlockState>,
    /// Free blocks with their erase counts: the least worn block comes first.
    free: BTreeSet<(u32, Block)>,
    /// The open blocks: one for each stream, and one more for its moved pages if these are apart.
    frontiers: Vec<Option<Frontier>>,
    /// Blocks closed so far.
    closings: u64,
    wear: levelling::Wear,
    retirement: retirement::Retirement,
    counts: Counts,
}

impl Ftl {
    /// An FTL over erased flash.
    ///
    /// # Errors
    /// When the configuration is not valid, for example because the spare blocks are too few.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let geometry = config.geometry;
        let physical_pages = config.check()?;
        let block = BlockState {
            phase: Phase::Free,
            stream: Stream(0),
            valid: 0,
            erases: 0,
            written_at: 0,
            closed_at: 0,
        };
        Ok(Self {
            physical: vec![NONE; index(geometry.logical_pages)],
            logical: vec![NONE; index(physical_pages)],
            blocks: vec![block; index(geometry.blocks)],
            free: (0..geometry.blocks).map(|block| (0, Block(block))).collect(),
            frontiers: vec![None; config.frontier_count()],
            closings: 0,
            wear: levelling::Wear::default(),
            retirement: retirement::Retirement::default(),
            counts: Counts::default(),
            config,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The work so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often each block was erased.
    pub fn erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.erases)
    }

    /// The physical page that holds a logical page; `None` if it was never written, or trimmed.
    pub fn lookup(&self, page: LogicalPage) -> Option<PhysicalPage> {
        let physical = self.physical[index(page.0)];
        (physical != NONE).then_some(PhysicalPage(physical))
    }

    /// Writes a page, and collects garbage first if blocks are needed. A stream that the FTL does
    /// not have is taken modulo their number.
    pub fn write(
        &mut self,
        page: LogicalPage,
        stream: Stream,
        chips: &mut impl Chips,
    ) -> PhysicalPage {
        let stream = Stream(stream.0 % self.config.streams);
        let frontier = self.config.host_frontier(stream);
        self.make_room(frontier, stream, chips);
        self.counts.host_pages += 1;
        let to = self.append(page, frontier);
        chips.program(to);
        to
    }

    /// Gives up the content of a page.
    pub fn trim(&mut self, page: LogicalPage) {
        let old = std::mem::replace(&mut self.physical[index(page.0)], NONE);
        self.invalidate(old);
    }

    /// Makes sure that the frontier has a free page.
    fn make_room(&mut self, frontier: usize, stream: Stream, chips: &mut impl Chips) {
        if self.frontiers[frontier].is_some() {
            return;
        }
        loop {
            while self.free.len() < FREE_BLOCKS_MIN {
                self.collect(chips);
            }
            if !self.retire_worn() {
                break;
            }
        }
        self.level_wear(chips);
        // The collector may have opened it, if it shares the host's frontiers.
        if self.frontiers[frontier].is_none() {
            self.open(frontier, stream);
        }
    }

    /// Moves the valid pages of one block, and erases it.
    fn collect(&mut self, chips: &mut impl Chips) {
        let victim = self.victim().expect("less than all blocks are free, so some are closed");
        let stream = self.state(victim).stream;
        let frontier = self.config.move_frontier(stream);
        for from in self.config.geometry.pages_of(victim) {
            let page = self.logical[index(from)];
            if page == NONE {
                continue;
            }
            if self.frontiers[frontier].is_none() {
                self.open(frontier, stream);
            }
            let to = self.append(LogicalPage(page), frontier);
            chips.copy(PhysicalPage(from), to);
            self.counts.moved_pages += 1;
        }
        self.erase(victim, chips);
    }

    /// Opens the least worn free block.
    fn open(&mut self, frontier: usize, stream: Stream) {
        let (_, block) = self.free.pop_first().expect("the spare blocks keep one free");
        let state = self.state_mut(block);
        state.phase = Phase::Open;
        state.stream = stream;
        self.frontiers[frontier] = Some(Frontier { block, used: 0 });
    }

    /// Puts a page on the next place of a frontier, which is open.
    fn append(&mut self, page: LogicalPage, frontier: usize) -> PhysicalPage {
        let pages = self.config.geometry.pages_per_block;
        let place = self.frontiers[frontier].as_mut().expect("the frontier is open");
        let block = place.block;
        let to = PhysicalPage(block.0 * pages + place.used);
        place.used += 1;
        if place.used == pages {
            self.frontiers[frontier] = None;
            self.close(block);
        }
        self.map(page, to);
        to
    }

    fn map(&mut self, page: LogicalPage, to: PhysicalPage) {
        let old = std::mem::replace(&mut self.physical[index(page.0)], to.0);
        self.invalidate(old);
        self.logical[index(to.0)] = page.0;
        let (now, block) = (self.counts.host_pages, self.config.geometry.block_of(to));
        let state = self.state_mut(block);
        state.valid += 1;
        state.written_at = now;
    }

    fn invalidate(&mut self, physical: u32) {
        if physical == NONE {
            return;
        }
        self.logical[index(physical)] = NONE;
        let block = self.config.geometry.block_of(PhysicalPage(physical));
        self.state_mut(block).valid -= 1;
    }

    fn close(&mut self, block: Block) {
        self.closings += 1;
        let closed_at = self.closings;
        let state = self.state_mut(block);
        state.phase = Phase::Closed;
        state.closed_at = closed_at;
    }

    /// Erases a block without valid pages.
    fn erase(&mut self, block: Block, chips: &mut impl Chips) {
        let state = self.state_mut(block);
        assert_eq!(state.valid, 0, "{block:?} still holds valid pages");
        state.phase = Phase::Free;
        state.erases += 1;
        let erases = state.erases;
        self.free.insert((erases, block));
        self.wear.handle_erase(erases);
        self.counts.erases += 1;
        chips.erase(block);
    }

    fn state(&self, block: Block) -> &BlockState {
        &self.blocks[index(block.0)]
    }

    fn state_mut(&mut self, block: Block) -> &mut BlockState {
        &mut self.blocks[index(block.0)]
    }

    /// The closed blocks.
    fn closed(&self) -> impl Iterator<Item = (Block, &BlockState)> {
        (0..).map(Block).zip(&self.blocks).filter(|(_, state)| state.phase == Phase::Closed)
    }
}
