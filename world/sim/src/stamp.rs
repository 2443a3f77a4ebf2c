//! Every block that a simulated host writes carries a stamp: its writer and the writer's sequence
//! number.

use nearflash_units::Lba;

use crate::sectors::SECTOR_LEN;

/// The writer of a block: a number for each connection of a queue, never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Writer(pub u32);

/// One write of one block.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stamp {
    /// The volume of the block.
    pub volume: u32,
    /// The block's address.
    pub lba: Lba,
    /// The writer of the block.
    pub writer: Writer,
    /// Sequence number of the writer's command.
    pub sequence: u32,
    /// In a counter block: the count.
    pub count: u32,
}

/// The content of a block.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Value {
    /// Zeroes.
    Zero,
    /// A block that a host wrote, complete.
    Written(Stamp),
    /// Neither: torn, damaged, or foreign. The number distinguishes such contents.
    Other(u64),
}

const MAGIC: u32 = 0x4E46_5331;

/// Words of 8 bytes in a stamp; the rest of a sector is derived from them.
const WORDS: usize = 4;

impl Stamp {
    /// Fills a sector of the block.
    fn fill(&self, sector: u32, bytes: &mut [u8]) {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let words = [
            pair(MAGIC, self.volume),
            self.lba.0,
            pair(self.writer.0, self.sequence),
            pair(self.count, sector),
        ];
        let (head, rest) = bytes.split_at_mut(WORDS * 8);
        for (place, word) in head.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let mut word = words.iter().fold(0, |sum, word| mix(sum ^ word));
        for place in rest.chunks_exact_mut(8) {
            word = mix(word);
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Fills a block.
    pub(crate) fn write(&self, block: &mut [u8]) {
        for (sector, bytes) in (0..).zip(block.chunks_exact_mut(SECTOR_LEN)) {
            self.fill(sector, bytes);
        }
    }

    /// The stamp at the beginning of a sector, without any check.
    fn parse(sector: &[u8]) -> Option<Self> {
        let halves = |index: usize| {
            let bytes: [u8; 8] = sector[index * 8..][..8].try_into().expect("8 bytes");
            let [a, b, c, d, e, f, g, h] = bytes;
            (u32::from_le_bytes([e, f, g, h]), u32::from_le_bytes([a, b, c, d]))
        };
        let (magic, volume) = halves(0);
        let (lba_high, lba_low) = halves(1);
        let (writer, sequence) = halves(2);
        let (count, _) = halves(3);
        let lba = Lba(u64::from(lba_high) << 32 | u64::from(lba_low));
        (magic == MAGIC).then_some(Self { volume, lba, writer: Writer(writer), sequence, count })
    }
}

impl Value {
    /// The content of a block.
    pub(crate) fn of(block: &[u8]) -> Self {
        if block.iter().all(|byte| *byte == 0) {
            return Self::Zero;
        }
        if let Some(stamp) = Stamp::parse(block) {
            let mut whole = vec![0; block.len()];
            stamp.write(&mut whole);
            if whole == block {
                return Self::Written(stamp);
            }
        }
        let words = block.chunks_exact(8).map(|word| word.try_into().expect("8 bytes"));
        Self::Other(words.fold(1, |sum, word| mix(sum ^ u64::from_le_bytes(word))))
    }

    /// The content of each sector of a block, as if the whole block were like it; for torn blocks.
    pub(crate) fn of_sectors(block: &[u8]) -> Vec<Self> {
        let sectors = (0..).zip(block.chunks_exact(SECTOR_LEN));
        sectors.map(|(index, bytes)| Self::of_sector(index, bytes)).collect()
    }

    fn of_sector(index: u32, bytes: &[u8]) -> Self {
        let mut whole = [0; SECTOR_LEN];
        match Stamp::parse(bytes) {
            Some(stamp) => {
                stamp.fill(index, &mut whole);
                if whole == bytes { Self::Written(stamp) } else { Self::of(bytes) }
            }
            None => Self::of(bytes),
        }
    }

    /// The count that hosts have reached in this block.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Written(stamp) => stamp.count,
            Self::Zero | Self::Other(_) => 0,
        }
    }
}

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (word ^ (word >> 29)).wrapping_add(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { volume: 1, lba: Lba(7), writer: Writer(3), sequence: 9, count: 2 };

    #[test]
    fn a_block_says_who_wrote_it_unless_a_bit_is_wrong() {
        let mut block = [0; 4096];
        STAMP.write(&mut block);
        assert_eq!(Value::of(&block), Value::Written(STAMP));
        for byte in [0, 33, 511, 512, 4095] {
            let mut damaged = block;
            damaged[byte] ^= 1;
            assert!(matches!(Value::of(&damaged), Value::Other(_)), "{byte}");
        }
        assert_eq!(Value::of(&[0; 512]), Value::Zero);
    }

    #[test]
    fn a_torn_block_is_told_by_its_sectors() {
        let mut block = [0; 1024];
        STAMP.write(&mut block);
        block[512..].fill(0);
        assert!(matches!(Value::of(&block), Value::Other(_)));
        assert_eq!(Value::of_sectors(&block), [Value::Written(STAMP), Value::Zero]);
    }
}
