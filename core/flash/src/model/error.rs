//! The bounds of the models' configurations. Each message names the option, its bounds and the
//! remedy; the caller puts the name of the device in front.

use nearflash_units::{ByteLen, Nanos};

use super::OPERATION_TIME_MAX;
use super::bounds::{
    ENDURANCE_MAX, PAGE_LEN_MAX, PAGE_LEN_MIN, PAGES_PER_BLOCK_MAX, PCM_LEN_MAX, SPARE_PERCENT_MAX,
    WRITES_PER_MOVE_MAX,
};

/// The reason why the configuration of a model is not valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ModelConfigError {
    /// The page has a length that pages do not have.
    #[error(
        "page={page} is not a power of two from {min} to {max}: use page=4KiB",
        min = PAGE_LEN_MIN,
        max = PAGE_LEN_MAX
    )]
    Page { page: ByteLen },
    /// The block is not made of pages, or of too few or too many.
    #[error(
        "block={block} is not 2 to {} pages of {page}: use block={}",
        PAGES_PER_BLOCK_MAX, ByteLen(page.0 * 256)
    )]
    Block { block: ByteLen, page: ByteLen },
    /// The spare is out of bounds.
    #[error("spare={0}% is outside 1% to {SPARE_PERCENT_MAX}%: use spare=12%")]
    Spare(u32),
    /// The spare blocks do not suffice for the blocks that are open or free.
    #[error(
        "spare={percent}% is {spare} of {blocks} blocks, and garbage collection needs {needed}: use \
         a larger spare, smaller blocks or a larger device"
    )]
    TooLittleSpare { percent: u32, spare: u32, blocks: u32, needed: u32 },
    /// There are too many pages to number.
    #[error("{len} is 2^32 pages of {page} or more, with the spare: use larger pages")]
    TooManyPages { len: ByteLen, page: ByteLen },
    /// A block is striped over all dies, page by page.
    #[error(
        "dies={dies} is outside 1 to {pages}, the pages of a block, over which a block is striped: \
         use dies=8"
    )]
    Dies { dies: u32, pages: u32 },
    /// An operation takes too long.
    #[error("{option}={}ns is longer than {}s: use {option}={usual}", time.0, OPERATION_TIME_MAX.0 / 1_000_000_000)]
    Time { option: &'static str, time: Nanos, usual: &'static str },
    /// The endurance is out of bounds.
    #[error("endurance={endurance} is outside 1 to {}: use endurance={usual}", ENDURANCE_MAX)]
    Endurance { endurance: u32, usual: u32 },
    /// There are too many lines to number.
    #[error("{len} is more than {max} of lines: make the device smaller", max = PCM_LEN_MAX)]
    TooManyLines { len: ByteLen },
    /// The gap's moves are out of bounds.
    #[error(
        "start-gap={writes} is outside 1 to {max} writes for each move of the gap: use start-gap=100",
        max = WRITES_PER_MOVE_MAX
    )]
    WritesPerMove { writes: u32 },
    /// Addresses are randomised by start-gap alone.
    #[error("'randomise' has no effect without start-gap: add start-gap=100, or remove it")]
    RandomiseAlone,
}

/// Checks the time of an operation.
pub(super) fn check_time(
    option: &'static str,
    time: Nanos,
    usual: &'static str,
) -> Result<(), ModelConfigError> {
    if time > OPERATION_TIME_MAX {
        return Err(ModelConfigError::Time { option, time, usual });
    }
    Ok(())
}
