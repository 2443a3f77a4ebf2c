//! GET LBA STATUS: the blocks that are mapped.
//!
//! Spec: SBC-4, 5.6 and its parameter data.

use nearflash_request::BlockRange;
use nearflash_units::{Blocks, Lba};

use super::data_in::cut;

/// PROVISIONING STATUS: mapped.
const MAPPED: u8 = 0;
/// PROVISIONING STATUS: deallocated.
const DEALLOCATED: u8 = 1;

/// The parameter data: one descriptor for the run that begins at `start`.
pub(crate) fn format(start: Lba, mapped: bool, blocks: Blocks, allocation_len: u32) -> Vec<u8> {
    let mut data = Vec::with_capacity(24);
    data.extend(20_u32.to_be_bytes()); // the length after this field
    data.extend([0; 4]);
    data.extend(start.0.to_be_bytes());
    data.extend(u32::try_from(blocks.0).unwrap_or(u32::MAX).to_be_bytes());
    data.extend([if mapped { MAPPED } else { DEALLOCATED }, 0, 0, 0]);
    cut(data, allocation_len)
}

/// The range from `start` to the end of the unit, limited to the maximum of a descriptor.
pub(crate) fn run_from(start: Lba, blocks: Blocks) -> BlockRange {
    let left = blocks.0.saturating_sub(start.0);
    BlockRange { start, count: Blocks(left.min(u64::from(u32::MAX))) }
}
