//! The devices of the control side, as the cores know them.

use std::sync::Arc;

use nearflash_device::DeviceId;
use nearflash_mirror::DeviceKind;
use nearflash_publish::{Devices, PeerConfig};
use nearflash_units::index;

use crate::runtime_face::Outfit;

/// The devices, as the cores know them.
pub(super) fn devices_of(outfit: &Outfit) -> Devices {
    let Outfit { all, peers, mirrors } = outfit;
    Devices {
        properties: all.iter().map(|device| device.properties()).collect(),
        health: all.iter().map(|device| Arc::clone(device.health())).collect(),
        kinds: kinds(all.len(), peers, mirrors),
        peers: peers.clone(),
    }
}

/// The kinds of the node's devices: local, unless they are volumes of other nodes, or of mirrors.
fn kinds(
    devices: usize,
    peers: &[PeerConfig],
    mirrors: &[(DeviceId, DeviceKind)],
) -> Arc<[DeviceKind]> {
    let mut kinds = vec![DeviceKind::Local; devices];
    for (device, kind) in mirrors {
        kinds[index(device.0)] = *kind;
    }
    for volume in peers.iter().flat_map(|peer| &peer.volumes) {
        kinds[index(volume.device.0)] = DeviceKind::Remote;
    }
    kinds.into()
}
