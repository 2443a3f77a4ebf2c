//! Checks of the places on the devices: data is only where it was written.

use nearflash_space::GRANULE;
use nearflash_units::{ByteLen, ByteOffset, Lba};

use crate::machine::NodeId;
use crate::node::{Node, node_of};
use crate::sim::Sim;
use crate::stamp::Value;

/// The length of the longest block.
const ZEROES: [u8; 4096] = [0; 4096];

impl Sim {
    /// Each block that hosts wrote lies complete at its own place in its own volume, and outside
    /// volumes there is nothing. The check reads all of a node's devices, not only written blocks.
    ///
    /// # Panics
    /// When a place holds anything else.
    pub(super) fn check_places(&self, node: NodeId) {
        let block_len = ByteLen(u64::from(self.plan.node.block_size.bytes()));
        for (disk, device) in self.outside.machine(node).disks.iter().enumerate() {
            let bytes = device.bytes(ByteOffset(0), device.properties.len);
            let blocks = bytes.chunks_exact(block_len.to_usize()).zip(0..);
            for (block, index) in blocks.filter(|(block, _)| *block != &ZEROES[..block.len()]) {
                self.check_place((node, disk), ByteOffset(block_len.0 * index), block);
            }
        }
    }

    /// The replicas of every mirror hold the same bytes.
    ///
    /// # Panics
    /// When they do not.
    pub(super) fn check_replicas(&self) {
        for [one, other] in self.nodes.iter().flat_map(Node::replicas) {
            let bytes = |(node, disk, start): (NodeId, usize, ByteOffset)| {
                self.outside.machine(node).disks[disk].bytes(start, GRANULE)
            };
            let differs = bytes(one).iter().zip(bytes(other)).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{one:?} and {other:?} differ");
        }
    }

    fn check_place(&self, (node, disk): (NodeId, usize), offset: ByteOffset, block: &[u8]) {
        let Some((volume, place)) = self.nodes[node.0].place_of(disk, offset) else {
            panic!("device {disk} of {node:?} holds something at {offset:?}, where no volume is")
        };
        let lba = Lba(place.0 / u64::from(self.plan.node.block_size.bytes()));
        // Other peers' bytes carry no stamp, but none of their places may hold a stamp of another
        // volume.
        let is_field = node_of(volume).field_ids().contains(&volume);
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
