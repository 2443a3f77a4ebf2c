//! A volume: its name, its size, its subsystem and namespace, and its extents.

use nearflash_request::{Support, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};
use uuid::Uuid;

use crate::{
    EXTENTS_PER_VOLUME_MAX, Epoch, Extent, FreeSpace, Map, Name, Reservations, Sharing, SpaceError,
    Stripes, append_extents, truncate_extents,
};
use nearflash_device::DeviceId;

/// Whether a volume releases the storage of blocks that hosts deallocate.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Provisioning {
    /// Deallocated blocks are released if the device supports this.
    #[default]
    Thin,
    /// Every block keeps its storage: nothing is ever deallocated.
    Thick,
}

impl Provisioning {
    /// The text form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thin => "thin",
            Self::Thick => "thick",
        }
    }
}

impl std::fmt::Display for Provisioning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: a text is not a provisioning.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not a valid provisioning: write thin or thick")]
pub struct ParseProvisioningError(pub String);

impl std::str::FromStr for Provisioning {
    type Err = ParseProvisioningError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = [Self::Thin, Self::Thick].into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| ParseProvisioningError(text.to_owned()))
    }
}

/// Blocks whose space is reserved, and which hosts see once they read as zeroes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Preparation {
    /// How many blocks the volume has then.
    pub blocks: Blocks,
    /// The number of the job that zeroes them.
    pub job: u64,
}

/// Where a volume is recorded, and who may use it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Home {
    /// This node has its blocks and its record.
    #[default]
    Node,
    /// Another node has its blocks and its record. This node serves it, and cannot change it.
    OtherNode,
    /// The nodes of a cluster have its blocks, and the cluster's store has its record.
    Cluster,
    /// A part of a volume of the cluster, on a device of this node. Only the other nodes of the cluster
    /// use it, under its name.
    Part,
    /// A mirror of a volume of the cluster, as the other nodes use it while this one is its primary.
    PrimaryFace,
    /// A mirror's replica on this node, as the primary of another node writes it.
    ReplicaFace,
}

impl Home {
    /// Which of its operations this node orders.
    pub const fn sharing(self) -> Sharing {
        match self {
            Self::Node | Self::Part => Sharing::Own,
            Self::OtherNode => Sharing::Forwarded,
            // The primary orders them by the locks of the mirror, and not by fences.
            Self::Cluster | Self::PrimaryFace | Self::ReplicaFace => Sharing::Shared,
        }
    }

    /// The operations that this node carries out, and that every protocol reports.
    pub const fn support(self) -> Support {
        self.sharing().support()
    }

    /// Whether hosts, initiators and clients see it.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Node | Self::OtherNode | Self::Cluster)
    }

    /// Whether the cluster's store says where its blocks are.
    pub const fn is_of_cluster(self) -> bool {
        !matches!(self, Self::Node | Self::OtherNode)
    }
}

/// A named range of blocks, as applications see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Volume {
    /// Its number in this run of the node.
    pub id: VolumeId,
    /// Its permanent identity; hosts see it as the namespace's UUID.
    pub uuid: Uuid,
    /// The volume's name.
    pub name: Name,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// The number of blocks that hosts see; zero for a new volume that is being prepared.
    pub blocks: Blocks,
    /// The blocks that are being prepared, after the visible ones.
    pub preparing: Option<Preparation>,
    /// The subsystem that it is exported in.
    pub subsystem: Name,
    /// Its namespace's number there, from 1.
    pub nsid: u32,
    /// Grows with each change of its layout.
    pub epoch: Epoch,
    /// Its place, in order; not necessarily on one device.
    pub extents: Vec<Extent>,
    /// Whether it releases the storage of blocks that hosts deallocate.
    pub provisioning: Provisioning,
    /// Its registrations, reservation and modes.
    pub reservations: Reservations,
    /// Where it is recorded.
    pub home: Home,
    /// The form of its rows of extents.
    pub stripes: Stripes,
}

impl Volume {
    /// Its size.
    ///
    /// # Panics
    /// When it exceeds a `u64`, which is impossible for a volume on a device.
    pub fn len(&self) -> ByteLen {
        self.block_size.len(self.blocks).expect("a volume is no longer than its device")
    }

    /// Whether hosts see nothing of it yet.
    pub fn is_empty(&self) -> bool {
        self.blocks.0 == 0
    }

    /// Its size once it is prepared.
    ///
    /// # Panics
    /// When it exceeds a `u64`, which is impossible for a volume on a device.
    pub fn planned_len(&self) -> ByteLen {
        let blocks = self.preparing.map_or(self.blocks, |preparing| preparing.blocks);
        self.block_size.len(blocks).expect("a volume is no longer than its device")
    }

    /// The devices that it lies on, each once, in the order of its blocks.
    pub fn devices(&self) -> Vec<DeviceId> {
        let mut devices = Vec::new();
        for extent in &self.extents {
            if !devices.contains(&extent.device) {
                devices.push(extent.device);
            }
        }
        devices
    }

    /// The parts of its extents past the first `len` bytes. Blocks that are about to become visible
    /// there still hold old bytes, even in an extent that the volume had before.
    pub fn extents_behind(&self, len: ByteLen) -> Vec<Extent> {
        let mut before = len.0;
        let behind = |extent: &Extent| {
            let skipped = before.min(extent.len.0);
            before -= skipped;
            let (start, len) = (extent.start.0 + skipped, extent.len.0 - skipped);
            (len != 0).then_some(Extent { start: ByteOffset(start), len: ByteLen(len), ..*extent })
        };
        self.extents.iter().filter_map(behind).collect()
    }

    /// The map of its layout.
    ///
    /// # Errors
    /// When its extents cannot hold it, because the catalog is damaged.
    pub fn map(&self) -> Result<Map, crate::MapError> {
        let size = (self.block_size, self.blocks);
        Map::striped(self.epoch, size, self.stripes, &self.extents)
    }

    /// Extends the extents to `len` bytes with space from `free`, in place if possible.
    pub(crate) fn take(&mut self, len: ByteLen, free: &mut FreeSpace) -> Result<(), SpaceError> {
        let held: u64 = self.extents.iter().map(|extent| extent.len.0).sum();
        let missing = ByteLen(len.0.saturating_sub(held));
        if missing.0 != 0 {
            let extents_max = EXTENTS_PER_VOLUME_MAX.saturating_sub(self.extents.len());
            let fresh = free.allocate(missing, self.extents.last().copied(), extents_max)?;
            append_extents(&mut self.extents, &fresh);
        }
        Ok(())
    }

    /// Cuts off the extents past `len` bytes. The caller releases them.
    pub(crate) fn cut(&mut self, len: ByteLen) -> Vec<Extent> {
        truncate_extents(&mut self.extents, len)
    }
}
