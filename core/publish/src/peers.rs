//! Other nodes, whose volumes are devices of this one.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_device::{DeviceId, Health};
use nearflash_direct::{Digests, Face, Secret};

/// Another node, and the volumes of it that this node serves.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The address at which it serves the direct protocol.
    pub address: SocketAddr,
    /// The key to connect with; `None` for a node that admits anonymous clients.
    pub key: Option<(Box<str>, Secret)>,
    /// The digests to request.
    pub digests: Digests,
    /// Its volumes, in the order of their devices.
    pub volumes: Vec<RemoteVolume>,
}

/// A volume of another node.
#[derive(Clone, Debug)]
pub struct RemoteVolume {
    /// The device that it is on this node.
    pub device: DeviceId,
    /// Its name on its own node.
    pub name: Box<str>,
    /// Its identity. Another volume of the same name is not used.
    pub uuid: [u8; 16],
    /// The health of the device. All cores have the same record.
    pub health: Arc<Health>,
    /// The face of a mirror that it is. The faces of one kind have connections of their own, so that a
    /// write to a replica never stands behind one that is forwarded.
    pub face: Option<Face>,
}

impl RemoteVolume {
    /// Whether the record of writes that no flush has followed is that of this device. The writes of a mirror
    /// are counted at the mirror, because they outlive the node that has answered them.
    pub fn is_recorded(&self) -> bool {
        self.face.is_none()
    }
}
