//! A node's volumes: their extents, their exports and their uses. No two nodes' volumes have the same
//! number.

use std::ops::Range;

use nearflash_device::DeviceId;
use nearflash_nvme::{NamespaceId, Nqn};
use nearflash_space::{Epoch, Extent, GRANULE, Map};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, MIB};

use crate::failures::Part;
use crate::machine::NodeId;

/// A volume of the simulated node.
#[derive(Clone, Debug)]
pub(crate) struct SimVolume {
    /// Its number.
    pub id: u32,
    /// The subsystem that exports it, if one does.
    pub subsystem: Option<Nqn>,
    /// Its number as a namespace.
    pub namespace: NamespaceId,
    /// The current number of blocks.
    pub blocks: Blocks,
    pub(super) epoch: Epoch,
    pub(super) extents: Vec<Extent>,
}

/// Devices of each node.
pub(crate) const DISKS: u32 = 2;
/// The devices' length.
pub(super) const DISK_LEN: ByteLen = ByteLen(8 * MIB);

/// Volumes of each node.
const VOLUMES: u32 = 4;
/// The index of a volume on its node says who uses it.
const JUNK: u32 = 2;
const SHARED: u32 = 3;
/// The number of the first node's volume of files.
const FILES: u32 = 1 << 16;

impl NodeId {
    fn volume(self, what: u32) -> u32 {
        self.volumes().start + what
    }

    /// The numbers of its volumes.
    pub(crate) fn volumes(self) -> Range<u32> {
        let first = VOLUMES * u32::try_from(self.0).expect("few nodes");
        first..first + VOLUMES
    }

    /// The volume that changes its size.
    pub(crate) fn first_id(self) -> u32 {
        self.volume(0)
    }

    /// The volumes that hosts, initiators and direct clients all read and write.
    pub(crate) fn field_ids(self) -> [u32; 2] {
        [self.volume(0), self.volume(1)]
    }

    /// The volume that direct clients share. Hosts and initiators see it, compete for its
    /// reservations, and do not write its blocks.
    pub(crate) fn shared_id(self) -> u32 {
        self.volume(SHARED)
    }

    /// A volume whose content is not checked.
    pub(crate) fn junk_id(self) -> u32 {
        self.volume(JUNK)
    }

    /// A volume whose files the node owns. Only its owner has to do with its blocks, so it has none here.
    pub(crate) fn files_id(self) -> u32 {
        FILES + u32::try_from(self.0).expect("few nodes")
    }
}

impl NodeId {
    /// The node whose volumes it serves too, of so many.
    pub(crate) fn next(self, nodes: usize) -> Self {
        Self((self.0 + 1) % nodes)
    }
}

/// The subsystem over which a node exports volumes to hosts.
pub(crate) fn subsystem_of(volume: u32, served_by: NodeId) -> &'static str {
    if node_of(volume) == served_by { CHECKED } else { FAR }
}

/// The node of a volume.
pub(crate) fn node_of(volume: u32) -> NodeId {
    NodeId(usize::try_from(volume / VOLUMES).expect("few nodes"))
}

/// The number of a node's device among those of all nodes.
pub(crate) fn disk_number(node: NodeId, disk: usize) -> usize {
    usize::try_from(DISKS).expect("few devices") * node.0 + disk
}

/// The name by which clients know a volume of their node.
pub(crate) fn name_of(volume: u32) -> &'static str {
    match volume % VOLUMES {
        _ if volume >= FILES => "files",
        SHARED => "shared",
        JUNK => "junk",
        0 => "first",
        _ => "second",
    }
}

/// The subsystem whose volumes are checked.
pub(crate) const CHECKED: &str = "nqn.2026-11.io.nearflash:data";
/// The same volumes as an iSCSI target.
pub(crate) const TARGET: &str = "iqn.2026-11.io.nearflash:data";
/// The volumes of another node as an iSCSI target.
pub(crate) const FAR_TARGET: &str = "iqn.2026-11.io.nearflash:far";
/// The subsystem of the volumes of another node.
pub(crate) const FAR: &str = "nqn.2026-11.io.nearflash:far";
/// The subsystem for hosts that send garbage.
pub(crate) const UNCHECKED: &str = "nqn.2026-11.io.nearflash:junk";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("a name")
}

fn extent(device: u32, granule: u64) -> Extent {
    let start = ByteOffset(granule * GRANULE.0);
    Extent { device: DeviceId(device), start, len: GRANULE }
}

/// Most volumes have several extents on both devices, so that ranges around the seams have two
/// pieces.
pub(super) fn volumes(node: NodeId, block_size: BlockSize) -> Vec<SimVolume> {
    let granules = |count: u64| block_size.blocks_in(ByteLen(count * GRANULE.0));
    let volume = |what, subsystem: Option<&str>, namespace, blocks, extents| SimVolume {
        id: node.volume(what),
        subsystem: subsystem.map(nqn),
        namespace: NamespaceId(namespace),
        blocks,
        epoch: Epoch(1),
        extents,
    };
    let a = vec![extent(0, 1), extent(1, 2), extent(0, 4)];
    let b = vec![extent(1, 1), extent(0, 2)];
    vec![
        volume(0, Some(CHECKED), 1, Blocks(granules(2).0 + 24), a),
        volume(1, Some(CHECKED), 2, granules(2), b),
        volume(JUNK, Some(UNCHECKED), 1, granules(1), vec![extent(0, 5)]),
        volume(SHARED, Some(CHECKED), 3, granules(2), vec![extent(1, 3), extent(0, 6)]),
    ]
}

/// The granules of a volume of another node: those that it has at any size.
pub(super) const FAR_GRANULES: u64 = 2;

/// The volumes of another node that a node serves too, each on a device behind its own.
pub(super) fn far_volumes(owner: NodeId, block_size: BlockSize) -> Vec<SimVolume> {
    let volume = |((device, namespace), id): ((u32, u32), u32)| SimVolume {
        id,
        subsystem: Some(nqn(FAR)),
        namespace: NamespaceId(namespace),
        blocks: block_size.blocks_in(ByteLen(FAR_GRANULES * GRANULE.0)),
        epoch: Epoch(1),
        extents: (0..FAR_GRANULES).map(|granule| extent(device, granule)).collect(),
    };
    (DISKS..).zip(1..).zip(owner.field_ids()).map(volume).collect()
}

impl SimVolume {
    pub(super) fn map(&self, block_size: BlockSize) -> Map {
        Map::new(self.epoch, block_size, self.blocks, &self.extents).expect("extents suffice")
    }

    /// The map of its extents.
    pub(super) fn whole_map(&self, block_size: BlockSize) -> Map {
        let len = ByteLen(self.extents.iter().map(|extent| extent.len.0).sum());
        Self { blocks: block_size.blocks_in(len), ..self.clone() }.map(block_size)
    }

    /// Whether the checks know its content.
    pub(crate) fn is_checked(&self) -> bool {
        self.subsystem.as_ref().is_some_and(|name| name.as_str() == CHECKED)
    }

    /// The places of its bytes on the devices, independent of its current size.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut start = 0;
        let part = |extent: &Extent| {
            let begins = start;
            start += extent.len.0;
            let disk = usize::try_from(extent.device.0).expect("few devices");
            let bytes = extent.start.0..extent.start.0 + extent.len.0;
            let disk = disk_number(node_of(self.id), disk);
            Part { volume: self.id, disk, bytes, start: begins }
        };
        self.extents.iter().map(part).collect()
    }

    /// Its first extent on a device.
    pub(super) fn bytes_on(&self, disk: usize) -> Option<(u64, u64)> {
        let is_there = |extent: &&Extent| usize::try_from(extent.device.0) == Ok(disk);
        let extent = self.extents.iter().find(is_there)?;
        Some((extent.start.0, extent.start.0 + extent.len.0))
    }

    /// The offset in the volume of a place on a device, if the place belongs to the volume.
    pub(super) fn place_of(&self, disk: usize, offset: ByteOffset) -> Option<ByteOffset> {
        let mut before = 0;
        for extent in &self.extents {
            let end = extent.start.0 + extent.len.0;
            let is_there = usize::try_from(extent.device.0) == Ok(disk);
            if is_there && (extent.start.0..end).contains(&offset.0) {
                return Some(ByteOffset(before + offset.0 - extent.start.0));
            }
            before += extent.len.0;
        }
        None
    }
}
