//! The properties of logical units, as an initiator reads them.
//!
//! Spec: SPC-4 and SBC-3.

use nearflash_units::{BlockSize, Blocks, ByteLen};

/// The VPD page B0h, Block Limits.
pub(super) const BLOCK_LIMITS_PAGE: u8 = 0xB0;
/// The length of that page.
pub(super) const BLOCK_LIMITS_LEN: u16 = 64;
/// The allocation length of REPORT LUNS, for 1024 units.
pub(super) const LUNS_LEN: u32 = 8 + 8 * 1024;
/// The maximum length of one command's data where the unit reports no limit: every target accepts
/// this much.
const TRANSFER_LEN_DEFAULT: ByteLen = ByteLen(128 << 10);

/// A logical unit and its geometry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogicalUnit {
    /// LUN.
    pub lun: u16,
    /// The number of its blocks.
    pub blocks: Blocks,
    /// The size of a block.
    pub block_size: BlockSize,
    /// The maximum length of the data of one command.
    pub transfer_len_max: ByteLen,
}

impl LogicalUnit {
    /// Its size in bytes.
    pub fn len(&self) -> ByteLen {
        self.block_size.len(self.blocks).unwrap_or(ByteLen(u64::MAX))
    }

    /// Whether it has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == Blocks(0)
    }
}

/// MAXIMUM TRANSFER LENGTH of the Block Limits page, or the default where the page reports none.
pub(super) fn transfer_len_max(page: &[u8], block_size: BlockSize) -> ByteLen {
    let said = || {
        if *page.get(1)? != BLOCK_LIMITS_PAGE {
            return None;
        }
        let blocks = u32::from_be_bytes(page.get(8..12)?.try_into().ok()?);
        block_size.len(Blocks(u64::from(blocks))).filter(|len| *len > ByteLen(0))
    };
    said().unwrap_or(TRANSFER_LEN_DEFAULT)
}

/// The LUNs of REPORT LUNS; those in a format without a number here are left out.
pub(super) fn parse_luns(data: &[u8]) -> Vec<u16> {
    let Some((len, list)) = data.split_first_chunk::<4>() else { return Vec::new() };
    let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
    let list = list.get(4..).unwrap_or_default();
    let (numbers, _) = list[..len.min(list.len())].as_chunks::<8>();
    numbers.iter().filter_map(|bytes| nearflash_scsi::lun::from_bytes(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_says_no_limit_has_that_of_every_target() {
        let mut page = [0; 64];
        page[1] = BLOCK_LIMITS_PAGE;
        assert_eq!(transfer_len_max(&page, BlockSize::B4096), TRANSFER_LEN_DEFAULT);
        page[10] = 1;
        assert_eq!(transfer_len_max(&page, BlockSize::B4096), ByteLen(1 << 20));
        assert_eq!(transfer_len_max(&page[..9], BlockSize::B4096), TRANSFER_LEN_DEFAULT);
        page[1] = 0;
        assert_eq!(transfer_len_max(&page, BlockSize::B4096), TRANSFER_LEN_DEFAULT, "another page");
    }

    #[test]
    fn luns_are_as_many_as_are_said_and_there() {
        let mut data = vec![0, 0, 0, 24, 0, 0, 0, 0];
        data.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x41, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(parse_luns(&data), [0, 9, 258]);
        assert_eq!(parse_luns(&data[..23]), [0]);
        data[3] = 8;
        assert_eq!(parse_luns(&data), [0]);
        assert_eq!(parse_luns(&data[..7]), [0_u16; 0]);
    }
}
