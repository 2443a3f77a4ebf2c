//! Flash, addressed by bytes.

use nearflash_units::{ByteLen, ByteOffset, Nanos};

use super::bounds::{
    ENDURANCE_MAX, PAGE_LEN_MAX, PAGE_LEN_MIN, PAGES_PER_BLOCK_MAX, SPARE_PERCENT_MAX,
};
use super::error::check_time;
use super::{ModelConfigError, WornOut, units};
use crate::ftl::{Collector, Config, Counts, Geometry, LogicalPage, Moves, Stream};
use crate::number::real;
use crate::timing::{TimedFtl, Times};

/// The most buckets of a histogram of erase counts.
const BUCKETS_MAX: u32 = 10;

/// One stream: nothing says yet which writes belong together. The collector's pages can have blocks
/// of their own ([`FlashConfig::moves`]).
const STREAM: Stream = Stream(0);

/// The configuration of a model of flash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlashConfig {
    /// The bytes that the host can address.
    pub len: ByteLen,
    /// Blocks that the host cannot address, as a share of those that it can.
    pub spare_percent: u32,
    /// The unit of reading and programming.
    pub page: ByteLen,
    /// The unit of erasure.
    pub block: ByteLen,
    /// The choice of the block to collect.
    pub collector: Collector,
    /// The blocks to which the collector moves pages.
    pub moves: Moves,
    /// Dies that work at the same time.
    pub dies: u16,
    /// The duration of each operation.
    pub times: Times,
    /// The erases that a block endures.
    pub endurance: u32,
}

impl FlashConfig {
    /// The usual endurance of TLC flash.
    pub const ENDURANCE: u32 = 3_000;

    /// Typical TLC flash of this length.
    pub fn typical(len: ByteLen) -> Self {
        Self {
            len,
            spare_percent: 12,
            page: ByteLen(4 << 10),
            block: ByteLen(1 << 20),
            collector: Collector::CostBenefit,
            moves: Moves::Apart,
            dies: 8,
            times: Times::default(),
            endurance: Self::ENDURANCE,
        }
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// The first bound that does not hold.
    pub fn check(&self) -> Result<(), ModelConfigError> {
        self.translation().map(|_| ())
    }

    /// The bytes of memory that the model itself takes, at most.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn memory(&self) -> Result<ByteLen, ModelConfigError> {
        let Geometry { logical_pages, blocks, pages_per_block } = self.translation()?.geometry;
        let physical_pages = u64::from(blocks) * u64::from(pages_per_block);
        let per_block = 128;
        let pages = u64::from(logical_pages) + physical_pages;
        Ok(ByteLen(pages * 4 + u64::from(blocks) * per_block))
    }

    fn translation(&self) -> Result<Config, ModelConfigError> {
        self.check_values()?;
        let geometry = self.geometry()?;
        let erase_spread_max = Some(Config::ERASE_SPREAD_MAX.min((self.endurance / 16).max(4)));
        let (collector, moves) = (self.collector, self.moves);
        let config = Config { geometry, collector, streams: 1, moves, erase_spread_max };
        let blocks = geometry.logical_pages.div_ceil(geometry.pages_per_block);
        let (spare, needed) = (geometry.blocks - blocks, config.kept_blocks());
        if spare < needed {
            let percent = self.spare_percent;
            return Err(ModelConfigError::TooLittleSpare { percent, spare, blocks, needed });
        }
        Ok(config)
    }

    fn check_values(&self) -> Result<(), ModelConfigError> {
        let Self { page, block, spare_percent, endurance, .. } = *self;
        let is_page = page.0.is_power_of_two() && (PAGE_LEN_MIN..=PAGE_LEN_MAX).contains(&page);
        if !is_page {
            return Err(ModelConfigError::Page { page });
        }
        if !(1..=SPARE_PERCENT_MAX).contains(&spare_percent) {
            return Err(ModelConfigError::Spare(spare_percent));
        }
        if !(1..=ENDURANCE_MAX).contains(&endurance) {
            return Err(ModelConfigError::Endurance { endurance, usual: Self::ENDURANCE });
        }
        check_time("read", self.times.read, "60us")?;
        check_time("program", self.times.program, "200us")?;
        check_time("erase", self.times.erase, "2ms")?;
        let pages = u32::try_from(block.0 / page.0).unwrap_or(u32::MAX);
        if block.0 % page.0 != 0 || !(2..=PAGES_PER_BLOCK_MAX).contains(&pages) {
            return Err(ModelConfigError::Block { block, page });
        }
        if self.dies == 0 || u32::from(self.dies) > pages {
            return Err(ModelConfigError::Dies { dies: self.dies.into(), pages });
        }
        Ok(())
    }

    fn geometry(&self) -> Result<Geometry, ModelConfigError> {
        let Self { len, page, block, spare_percent, .. } = *self;
        let pages_per_block = block.0 / page.0;
        let logical_pages = len.0.div_ceil(page.0).max(1);
        let spare = u128::from(logical_pages) * u128::from(spare_percent) / 100;
        let spare_blocks = spare.div_ceil(u128::from(pages_per_block));
        let blocks = u128::from(logical_pages.div_ceil(pages_per_block)) + spare_blocks;
        let is_numbered = blocks * u128::from(pages_per_block) < u128::from(u32::MAX);
        let too_many = ModelConfigError::TooManyPages { len, page };
        let number = |count: u64| u32::try_from(count).map_err(|_| too_many);
        let blocks = u32::try_from(blocks).ok().filter(|_| is_numbered).ok_or(too_many)?;
        Ok(Geometry {
            logical_pages: number(logical_pages)?,
            blocks,
            pages_per_block: number(pages_per_block)?,
        })
    }
}

/// The wear of flash.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashWear {
    /// Bytes that the host wrote or partly zeroed.
    pub host_bytes: u64,
    /// Pages that were written and moved.
    pub counts: Counts,
    /// Bytes programmed for each byte that the host wrote; 1 if it wrote none.
    pub write_amplification: f64,
    /// The lowest, the median and the highest number of erases of a block.
    pub erases: [u32; 3],
    /// Blocks by their number of erases: the lowest and the highest number of each bucket, and its
    /// blocks.
    pub buckets: Vec<(u32, u32, u32)>,
    /// The erases that a block endures.
    pub endurance: u32,
    /// The mean number of erases as a share of the endurance.
    pub life_used: f64,
    /// Blocks that are worn out, and out of use.
    pub retired_blocks: u32,
    /// Blocks that can still replace worn ones.
    pub replacement_blocks: u32,
    /// Whether writes are refused.
    pub is_worn_out: bool,
}

/// Flash, addressed by bytes.
#[derive(Clone, Debug)]
pub struct FlashModel {
    config: FlashConfig,
    flash: TimedFtl,
    host_bytes: u64,
}

impl FlashModel {
    /// Erased flash.
    ///
    /// # Errors
    /// When a bound of the configuration does not hold.
    pub fn new(config: FlashConfig) -> Result<Self, ModelConfigError> {
        let translation = config.translation()?;
        let flash = TimedFtl::new(translation, config.dies, config.times);
        let flash = flash.expect("the configuration was checked").with_endurance(config.endurance);
        Ok(Self { config, flash, host_bytes: 0 })
    }

    /// The configuration.
    pub fn config(&self) -> &FlashConfig {
        &self.config
    }

    pub(super) fn read(&mut self, now: Nanos, offset: ByteOffset, len: ByteLen) -> Nanos {
        let pages = self.pages(offset, len);
        pages.map(|(page, _)| self.flash.read(now, page)).fold(now, Nanos::max)
    }

    pub(super) fn write(
        &mut self,
        now: Nanos,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Result<Nanos, WornOut> {
        if self.is_worn_out() {
            return Err(WornOut);
        }
        self.host_bytes += len.0;
        let pages = self.pages(offset, len);
        let write = |(page, is_whole)| match is_whole {
            true => self.flash.write(now, page, STREAM),
            false => self.flash.modify(now, page, STREAM),
        };
        Ok(pages.map(write).fold(now, Nanos::max))
    }

    /// Gives up whole pages. A page that is zeroed in part is written, if it has content.
    pub(super) fn zero(
        &mut self,
        now: Nanos,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Result<Nanos, WornOut> {
        if self.is_worn_out() {
            return Err(WornOut);
        }
        let (page_len, mut answered_at) = (self.config.page.0, now);
        for (page, is_whole) in self.pages(offset, len) {
            if is_whole {
                self.flash.trim(page);
            } else if self.flash.ftl().lookup(page).is_some() {
                let start = u64::from(page.0) * page_len;
                let (from, to) = (offset.0.max(start), (offset.0 + len.0).min(start + page_len));
                self.host_bytes += to - from;
                answered_at = answered_at.max(self.flash.modify(now, page, STREAM));
            }
        }
        Ok(answered_at)
    }

    pub(super) fn run(&self, offset: ByteOffset, len: ByteLen) -> (bool, ByteLen) {
        let is_mapped = |page| self.flash.ftl().lookup(page).is_some();
        let mut pages = self.pages(offset, len);
        let Some((first, _)) = pages.next() else { return (false, len) };
        let state = is_mapped(first);
        let other = pages.find(|(page, _)| is_mapped(*page) != state);
        let end = other.map(|(page, _)| u64::from(page.0) * self.config.page.0);
        (state, end.map_or(len, |end| ByteLen(end - offset.0)))
    }

    pub(super) fn is_worn_out(&self) -> bool {
        self.flash.ftl().is_worn_out()
    }

    pub(super) fn wear(&self) -> FlashWear {
        let ftl = self.flash.ftl();
        let (counts, endurance) = (ftl.counts(), self.config.endurance);
        let pages = counts.host_pages + counts.moved_pages + counts.levelled_pages;
        let write_amplification = match self.host_bytes {
            0 => 1.0,
            bytes => real(pages) * real(self.config.page.0) / real(bytes),
        };
        let mut erases: Vec<u32> = ftl.erases().collect();
        erases.sort_unstable();
        let blocks = u32::try_from(erases.len()).expect("blocks are numbered by 32 bits");
        let life = f64::from(blocks) * f64::from(endurance);
        FlashWear {
            host_bytes: self.host_bytes,
            counts,
            write_amplification,
            erases: [erases[0], erases[erases.len() / 2], erases[erases.len() - 1]],
            buckets: buckets(&erases),
            endurance,
            life_used: real(counts.erases) / life,
            retired_blocks: ftl.retired_blocks(),
            replacement_blocks: ftl.replacement_blocks(),
            is_worn_out: self.is_worn_out(),
        }
    }

    /// The FTL's invariants.
    #[cfg(test)]
    fn check(&self) {
        self.flash.ftl().check();
    }

    fn pages(
        &self,
        offset: ByteOffset,
        len: ByteLen,
    ) -> impl Iterator<Item = (LogicalPage, bool)> + use<> {
        let units = units(offset, len, self.config.page.0, self.config.len);
        units.map(|(page, is_whole)| (LogicalPage(page), is_whole))
    }
}

/// Buckets of the same width over sorted erase counts; none of them is empty.
fn buckets(erases: &[u32]) -> Vec<(u32, u32, u32)> {
    let (least, most) = (erases[0], erases[erases.len() - 1]);
    let width = (most - least + 1).div_ceil(BUCKETS_MAX);
    let mut buckets: Vec<(u32, u32, u32)> = Vec::new();
    for &count in erases {
        let low = least + (count - least) / width * width;
        match buckets.last_mut().filter(|(from, ..)| *from == low) {
            Some((.., blocks)) => *blocks += 1,
            None => buckets.push((low, low + (width - 1), 1)),
        }
    }
    buckets
}

#[cfg(test)]
mod tests;
