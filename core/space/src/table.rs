//! The volume table: the properties of each volume that a core uses for a request, by volume id.
//!
//! Invariants: a table never changes, but is replaced as a whole. A [`VolumeId`] is never reused
//! while the node runs, so a late request finds no volume instead of the wrong blocks.

use std::sync::Arc;

use nearflash_request::{Support, VolumeId};
use nearflash_units::{BlockSize, Blocks, index};

use crate::{Epoch, Map, Provisioning, Restriction};

/// The maximum number of volumes numbered in one run, which bounds the table: ids are not used
/// again.
pub const VOLUME_IDS_MAX: u32 = 65_536;

/// The properties of a volume that the engine uses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeEntry {
    /// Where its blocks lie.
    pub map: Map,
    /// The size of its blocks; the map's.
    pub block_size: BlockSize,
    /// How many blocks it has; the map's.
    pub blocks: Blocks,
    /// The number of its layout, as in the map.
    pub epoch: Epoch,
    /// Whether it releases the storage of blocks that hosts deallocate.
    pub provisioning: Provisioning,
    /// The accesses that reservations and modes refuse; commonly `None`.
    pub restriction: Option<Arc<Restriction>>,
    /// Which of its operations this node orders.
    pub sharing: Sharing,
}

/// Which operations on a volume this node orders. A fence of this node does not stop another node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharing {
    /// All of them.
    #[default]
    Own,
    /// None: another node has the blocks. A write of a part of a block is forwarded to it.
    Forwarded,
    /// Those that come to this node. Several nodes have the blocks, and each writes its own ones without
    /// asking the others, so nothing can be done that needs a fence.
    Shared,
}

impl Sharing {
    /// The operations that this node carries out. A write of a part of a block, which it can forward, is not one
    /// that hosts see.
    pub const fn support(self) -> Support {
        match self {
            Self::Own => Support::ALL,
            Self::Forwarded | Self::Shared => Support::NONE,
        }
    }
}

impl From<Map> for VolumeEntry {
    fn from(map: Map) -> Self {
        Self {
            block_size: map.block_size(),
            blocks: map.blocks(),
            epoch: map.epoch(),
            provisioning: Provisioning::default(),
            restriction: None,
            sharing: Sharing::Own,
            map,
        }
    }
}

/// Every volume of the node, by number.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VolumeTable {
    entries: Box<[Option<VolumeEntry>]>,
}

impl VolumeTable {
    /// A table of these volumes.
    ///
    /// # Panics
    /// When an id is not below [`VOLUME_IDS_MAX`] or appears twice. The caller that numbers volumes
    /// prevents this.
    pub fn new(volumes: impl IntoIterator<Item = (VolumeId, impl Into<VolumeEntry>)>) -> Self {
        let mut entries: Vec<Option<VolumeEntry>> = Vec::new();
        for (id, entry) in volumes {
            assert!(id.0 < VOLUME_IDS_MAX, "volume id {} is below {VOLUME_IDS_MAX}", id.0);
            let index = index(id.0);
            if entries.len() <= index {
                entries.resize(index + 1, None);
            }
            assert!(entries[index].is_none(), "volume id {} is given once", id.0);
            entries[index] = Some(entry.into());
        }
        Self { entries: entries.into_boxed_slice() }
    }

    /// The volume with this id; `None` if it does not exist (any more). The cost is one array
    /// access.
    #[inline]
    pub fn get(&self, id: VolumeId) -> Option<&VolumeEntry> {
        self.entries.get(index(id.0))?.as_ref()
    }

    /// The volumes whose entry differs from that in an older table, or was removed.
    pub fn changed_since(&self, older: &Self) -> Box<[VolumeId]> {
        let differs =
            |(id, entry): (VolumeId, &VolumeEntry)| (self.get(id) != Some(entry)).then_some(id);
        older.iter().filter_map(differs).collect()
    }

    /// Every volume, by number.
    pub fn iter(&self) -> impl Iterator<Item = (VolumeId, &VolumeEntry)> {
        (0u32..).zip(&self.entries).filter_map(|(id, entry)| Some((VolumeId(id), entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extent, GRANULE};
    use nearflash_device::DeviceId;
    use nearflash_units::ByteOffset;

    fn map(blocks: u64) -> Map {
        let extent = Extent { device: DeviceId(0), start: ByteOffset(GRANULE.0), len: GRANULE };
        Map::new(Epoch(1), BlockSize::B4096, Blocks(blocks), &[extent]).unwrap()
    }

    #[test]
    fn a_volume_is_found_by_its_number_and_a_removed_one_is_not() {
        let table = VolumeTable::new([(VolumeId(2), map(7)), (VolumeId(0), map(5))]);
        assert_eq!(table.get(VolumeId(0)).unwrap().blocks, Blocks(5));
        assert_eq!(table.get(VolumeId(2)).unwrap().blocks, Blocks(7));
        assert_eq!(table.get(VolumeId(2)).unwrap().epoch, Epoch(1));
        for absent in [1, 3, u32::MAX] {
            assert_eq!(table.get(VolumeId(absent)), None);
        }
        let ids: Vec<VolumeId> = table.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [VolumeId(0), VolumeId(2)]);
    }

    #[test]
    #[should_panic(expected = "given once")]
    fn a_number_given_twice_is_caught() {
        let _ = VolumeTable::new([(VolumeId(1), map(1)), (VolumeId(1), map(1))]);
    }
}
