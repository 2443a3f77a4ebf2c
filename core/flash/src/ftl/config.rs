//! The configuration of an FTL, and its limits.

use std::ops::Range;

use super::{Block, Collector, PhysicalPage, Stream};

/// Blocks that are free before a stream opens one: one for the stream, and one for the pages that
/// the collector moves.
pub(super) const FREE_BLOCKS_MIN: usize = 2;

/// Sizes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    /// Pages that the host can address.
    pub logical_pages: u32,
    /// Blocks of the flash.
    pub blocks: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
}

impl Geometry {
    /// Flash of which the host can address so much that the rest is `spare_percent` of it.
    pub fn with_spare(blocks: u32, pages_per_block: u32, spare_percent: u32) -> Self {
        let physical = u64::from(blocks) * u64::from(pages_per_block);
        let logical = physical * 100 / (100 + u64::from(spare_percent));
        let logical_pages = u32::try_from(logical).unwrap_or(u32::MAX);
        Self { logical_pages, blocks, pages_per_block }
    }

    /// The block of a page.
    pub fn block_of(self, page: PhysicalPage) -> Block {
        Block(page.0 / self.pages_per_block)
    }

    /// The physical pages of a block.
    pub(super) fn pages_of(self, block: Block) -> Range<u32> {
        let first = block.0 * self.pages_per_block;
        first..first + self.pages_per_block
    }
}

/// The blocks to which the collector moves pages.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Moves {
    /// Those that the host writes at the time: moved and new pages mix.
    Mixed,
    /// Blocks of their own, one open block for each stream.
    Apart,
}

/// The configuration of an FTL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Sizes.
    pub geometry: Geometry,
    /// The choice of blocks to collect.
    pub collector: Collector,
    /// The number of write streams.
    pub streams: u8,
    /// The blocks to which the collector moves pages.
    pub moves: Moves,
    /// The difference in erase counts from which cold pages are moved to worn blocks; `None` for
    /// no static wear levelling.
    pub erase_spread_max: Option<u32>,
}

impl Config {
    /// The usual difference in erase counts from which cold pages are moved.
    pub const ERASE_SPREAD_MAX: u32 = 64;

    /// The number of physical pages of a valid configuration.
    pub(super) fn check(&self) -> Result<u32, ConfigError> {
        let Geometry { logical_pages, blocks, pages_per_block } = self.geometry;
        if logical_pages == 0 || pages_per_block == 0 {
            return Err(ConfigError::NoPages);
        }
        if self.streams == 0 {
            return Err(ConfigError::NoStreams);
        }
        let pages = blocks.checked_mul(pages_per_block).filter(|&pages| pages < super::NONE);
        let pages = pages.ok_or(ConfigError::TooManyPages)?;
        let most = blocks.saturating_sub(self.kept_blocks()) * pages_per_block;
        if logical_pages > most {
            return Err(ConfigError::TooLittleSpare { logical_pages, most });
        }
        Ok(pages)
    }

    /// The blocks that a valid configuration can do without.
    pub(super) fn surplus_blocks(&self) -> u32 {
        let Geometry { logical_pages, blocks, pages_per_block } = self.geometry;
        blocks - logical_pages.div_ceil(pages_per_block) - self.kept_blocks()
    }

    /// The blocks that are open or free at the same time: all others can hold pages.
    pub fn kept_blocks(&self) -> u32 {
        let kept = self.frontier_count() + FREE_BLOCKS_MIN;
        u32::try_from(kept).expect("twice a number of 8 bits")
    }

    pub(super) fn frontier_count(&self) -> usize {
        let streams = usize::from(self.streams);
        match self.moves {
            Moves::Mixed => streams,
            Moves::Apart => 2 * streams,
        }
    }

    pub(super) fn host_frontier(&self, stream: Stream) -> usize {
        usize::from(stream.0)
    }

    pub(super) fn move_frontier(&self, stream: Stream) -> usize {
        match self.moves {
            Moves::Mixed => self.host_frontier(stream),
            Moves::Apart => usize::from(self.streams) + usize::from(stream.0),
        }
    }
}

/// The reason why a configuration is not valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// There is nothing to write to.
    #[error("the model has no pages; give it at least one logical page")]
    NoPages,
    /// There is no stream to write in.
    #[error("the model has no write streams; give it at least 1")]
    NoStreams,
    /// Page numbers have 32 bits.
    #[error("the model has 2^32 pages or more; use larger pages or fewer blocks")]
    TooManyPages,
    /// The open blocks and the reserve of free ones need spare blocks.
    #[error(
        "{logical_pages} logical pages leave too few spare blocks for the streams; use at most {most}"
    )]
    TooLittleSpare { logical_pages: u32, most: u32 },
}
