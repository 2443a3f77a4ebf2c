//! The CDBs that an initiator needs for block devices, and the parameters of some of them. SBC-3, 5
//! and SPC-4, 6.

/// A command descriptor block, shorter ones padded with zeroes.
pub type Cdb = [u8; 16];

/// FUA of reads and writes: bypasses every cache.
pub const FORCE_UNIT_ACCESS: u8 = 0x08;

/// A command with a 64-bit LBA and a 32-bit number of blocks.
#[inline]
fn long(opcode: u8, flags: u8, lba: u64, blocks: u32) -> Cdb {
    let [l0, l1, l2, l3, l4, l5, l6, l7] = lba.to_be_bytes();
    let [b0, b1, b2, b3] = blocks.to_be_bytes();
    [opcode, flags, l0, l1, l2, l3, l4, l5, l6, l7, b0, b1, b2, b3, 0, 0]
}

/// TEST UNIT READY.
pub const fn test_unit_ready() -> Cdb {
    [0; 16]
}

/// READ (16).
#[inline]
pub fn read(lba: u64, blocks: u32) -> Cdb {
    long(0x88, 0, lba, blocks)
}

/// WRITE (16); with [`FORCE_UNIT_ACCESS`] durable before the answer.
#[inline]
pub fn write(flags: u8, lba: u64, blocks: u32) -> Cdb {
    long(0x8A, flags, lba, blocks)
}

/// SYNCHRONIZE CACHE (16) of all blocks.
#[inline]
pub fn synchronize_cache() -> Cdb {
    long(0x91, 0, 0, 0)
}

/// COMPARE AND WRITE: its data is the expected content, and then the new content.
pub fn compare_and_write(flags: u8, lba: u64, blocks: u8) -> Cdb {
    let mut cdb = long(0x89, flags, lba, 0);
    cdb[13] = blocks;
    cdb
}

/// WRITE SAME (16): its data is one block. With `unmap`, a block of zeroes is deallocated.
pub fn write_same(unmap: bool, lba: u64, blocks: u32) -> Cdb {
    long(0x93, if unmap { 0x08 } else { 0 }, lba, blocks)
}

/// UNMAP, and its parameters, for at most [`UNMAP_RANGES_MAX`] ranges of LBA and number.
///
/// # Panics
/// When there are more.
pub fn unmap(ranges: &[(u64, u32)]) -> (Cdb, Vec<u8>) {
    assert!(ranges.len() <= UNMAP_RANGES_MAX, "at most {UNMAP_RANGES_MAX} ranges");
    let len = u16::try_from(ranges.len() * 16).expect("the number of ranges has been checked");
    let mut parameters = Vec::with_capacity(usize::from(len) + 8);
    parameters.extend_from_slice(&(len + 6).to_be_bytes());
    parameters.extend_from_slice(&len.to_be_bytes());
    parameters.extend_from_slice(&[0; 4]);
    for (lba, blocks) in ranges {
        parameters.extend_from_slice(&lba.to_be_bytes());
        parameters.extend_from_slice(&blocks.to_be_bytes());
        parameters.extend_from_slice(&[0; 4]);
    }
    let [high, low] = (len + 8).to_be_bytes();
    let cdb = [0x42, 0, 0, 0, 0, 0, 0, high, low, 0, 0, 0, 0, 0, 0, 0];
    (cdb, parameters)
}

/// The maximum number of ranges of one [`unmap`].
pub const UNMAP_RANGES_MAX: usize = 1024;

/// INQUIRY: standard data, or a VPD page.
pub fn inquiry(page: Option<u8>, allocation_len: u16) -> Cdb {
    let [high, low] = allocation_len.to_be_bytes();
    let is_page = u8::from(page.is_some());
    [0x12, is_page, page.unwrap_or(0), high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// READ CAPACITY (16): 32 bytes.
pub const fn read_capacity() -> Cdb {
    [0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]
}

/// Number of blocks and their length, from the data of [`read_capacity`].
pub fn capacity(data: &[u8]) -> Option<(u64, u32)> {
    let last = u64::from_be_bytes(*data.first_chunk()?);
    let block_len = u32::from_be_bytes(data.get(8..12)?.try_into().ok()?);
    Some((last.checked_add(1)?, block_len))
}

/// REPORT LUNS.
pub fn report_luns(allocation_len: u32) -> Cdb {
    let [a0, a1, a2, a3] = allocation_len.to_be_bytes();
    [0xA0, 0, 0, 0, 0, 0, a0, a1, a2, a3, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_has_them() {
        let read = read(0x0102_0304_0506_0708, 0x0A0B_0C0D);
        assert_eq!(read, [0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0, 0]);
        let compare = compare_and_write(FORCE_UNIT_ACCESS, 9, 2);
        assert_eq!(compare, [0x89, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0]);
        let (cdb, parameters) = unmap(&[(1, 2), (3, 4)]);
        assert_eq!(cdb[7..9], [0, 40]);
        assert_eq!(parameters[..8], [0, 38, 0, 32, 0, 0, 0, 0]);
        assert_eq!(parameters[8..24], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(parameters.len(), 40);
    }

    #[test]
    fn the_capacity_is_one_more_than_the_last_block() {
        let mut data = [0; 32];
        data[7] = 99;
        data[10] = 2;
        assert_eq!(capacity(&data), Some((100, 512)));
        assert_eq!(capacity(&data[..11]), None);
        assert_eq!(capacity(&[0xFF; 32]), None);
    }
}
