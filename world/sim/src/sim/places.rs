//! Checks of the places on the devices: no data is anywhere it was not written to.

use nearflash_units::{ByteLen, ByteOffset, Lba};

use crate::node::FIELD_IDS;
use crate::sim::Sim;
use crate::stamp::Value;

/// As long as the longest block.
const ZEROES: [u8; 4096] = [0; 4096];

impl Sim {
    /// Each block that hosts wrote lies at its own place in its own volume, all of it; and where there
    /// is no volume, there is nothing. Looked for everywhere, not only where somebody wrote.
    ///
    /// # Panics
    /// When something else is found.
    pub(super) fn check_places(&self) {
        let block_len = ByteLen(u64::from(self.plan.node.block_size.bytes()));
        for (disk, device) in self.outside.disks.iter().enumerate() {
            let bytes = device.bytes(ByteOffset(0), device.properties.len);
            let blocks = bytes.chunks_exact(block_len.to_usize()).zip(0..);
            for (block, index) in blocks.filter(|(block, _)| *block != &ZEROES[..block.len()]) {
                self.check_place(disk, ByteOffset(block_len.0 * index), block);
            }
        }
    }

    fn check_place(&self, disk: usize, offset: ByteOffset, block: &[u8]) {
        let Some((volume, place)) = self.node.place_of(disk, offset) else {
            panic!("device {disk} holds something at {offset:?}, where no volume is")
        };
        let lba = Lba(place.0 / u64::from(self.plan.node.block_size.bytes()));
        // Bytes of the others have no names; but none of theirs has another's.
        let is_field = FIELD_IDS.contains(&volume);
        for value in Value::of_sectors(block) {
            let is_due = match value {
                Value::Zero => true,
                Value::Written(stamp) => (stamp.volume, stamp.lba) == (volume, lba),
                Value::Other(_) => !is_field,
            };
            assert!(is_due, "volume {volume} holds {value:?} at {lba:?}");
        }
    }
}
