//! The volumes of another node that a node serves too, over connections of the direct protocol.

use std::sync::Arc;

use nearflash_device::{DeviceId, DeviceProperties};
use nearflash_direct::Digests;
use nearflash_mirror::DeviceKind;
use nearflash_publish::{PeerConfig, RemoteVolume};
use nearflash_space::GRANULE;
use nearflash_units::{BlockSize, ByteLen};
use uuid::Uuid;

use super::volumes::{FAR_GRANULES, far_volumes};
use super::{DISKS, Node, SimVolume, name_of};
use crate::client::grants::node_key;
use crate::machine::NodeId;

/// Volumes of another node.
#[derive(Debug)]
pub(super) struct Far {
    owner: NodeId,
    pub(super) volumes: Vec<SimVolume>,
}

impl Far {
    pub(super) fn new(owner: NodeId, block_size: BlockSize) -> Self {
        Self { owner, volumes: far_volumes(owner, block_size) }
    }
}

impl Node {
    /// The volumes of another node that it serves too.
    pub(super) fn far_volumes(&self) -> impl Iterator<Item = &SimVolume> {
        self.far.iter().flat_map(|far| &far.volumes)
    }

    /// The properties of all its devices: its own, and then the volumes of another node.
    pub(super) fn devices(&self) -> Vec<DeviceProperties> {
        let far = DeviceProperties {
            len: ByteLen(FAR_GRANULES * GRANULE.0),
            block_size: self.config.block_size,
            // The protocol does not say whether there is one.
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        };
        let own = (0..DISKS).map(|_| Self::device(&self.config));
        if let Some(mirrored) = &self.mirrored {
            return own.chain(mirrored.devices()).collect();
        }
        own.chain(self.far_volumes().map(|_| far)).collect()
    }

    /// The kinds of all its devices.
    pub(super) fn kinds(&self) -> Arc<[DeviceKind]> {
        if let Some(mirrored) = &self.mirrored {
            return mirrored.kinds();
        }
        let own = (0..DISKS).map(|_| DeviceKind::Local);
        own.chain(self.far_volumes().map(|_| DeviceKind::Remote)).collect()
    }

    /// Each core's connections to the other node.
    pub(super) fn peers(&self) -> Vec<PeerConfig> {
        let nearflash_nvme_tcp::Digests { header, data } = self.config.session.digests;
        let digests = Digests { header, data };
        if let Some(mirrored) = &self.mirrored {
            return mirrored.peers(digests, &self.health);
        }
        let Some(far) = &self.far else { return Vec::new() };
        let volume = |(device, volume): (u32, &SimVolume)| {
            let index = usize::try_from(device).expect("few devices");
            RemoteVolume {
                device: DeviceId(device),
                name: name_of(volume.id).into(),
                uuid: Uuid::from_u128(u128::from(volume.id) + 1).into_bytes(),
                health: Arc::clone(&self.health[index]),
                face: None,
            }
        };
        let volumes = (DISKS..).zip(&far.volumes).map(volume).collect();
        vec![PeerConfig {
            address: far.owner.address(4421),
            key: self.config.keys.then(node_key),
            digests,
            volumes,
        }]
    }
}
