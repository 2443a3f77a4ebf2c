//! The bounds of the models' configurations, which the messages of their errors name.

use nearflash_units::ByteLen;

/// The highest endurance of a block of flash or of a line.
pub(super) const ENDURANCE_MAX: u32 = 4_000_000_000;

/// The largest spare of flash, as a share of the pages that the host can address.
pub(super) const SPARE_PERCENT_MAX: u32 = 400;

/// The shortest page of flash.
pub(super) const PAGE_LEN_MIN: ByteLen = ByteLen(512);

/// The longest page of flash.
pub(super) const PAGE_LEN_MAX: ByteLen = ByteLen(64 << 10);

/// The most pages of a block of flash.
pub(super) const PAGES_PER_BLOCK_MAX: u32 = 1 << 16;

/// The largest phase-change memory.
pub(super) const PCM_LEN_MAX: ByteLen = ByteLen(512 << 30);

/// The most writes between two moves of the gap.
pub(super) const WRITES_PER_MOVE_MAX: u32 = 1_000_000;
