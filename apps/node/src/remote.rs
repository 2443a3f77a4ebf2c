//! Volumes of other nodes that this node serves: `NAME=direct://HOST:PORT/VOLUME`.
//!
//! This module opens each of them once, and learns its size and its identity. The cores reach it over their own connections (`core/shard/src/peers.rs`). The volume has the same UUID, the
//! same block size and the same size as on its own node. Nothing of it is recorded here.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nearflash::direct::{Client, Credentials, Error, Options, Place, Url, VolumeInfo};
use nearflash::resolve;
use nearflash_config::RemoteSpec;
use nearflash_device::{DeviceId, DeviceProperties};
use nearflash_direct::Digests;
use nearflash_media::Device;
use nearflash_publish::{PeerConfig, RemoteVolume};
use nearflash_request::VolumeId;
use nearflash_shard::VOLUMES_PER_PEER_MAX;
use nearflash_space::{
    Epoch, Extent, GRANULE, Home, Provisioning, Reservations, SpaceDevice, Stripes, Volume,
    empty_device,
};
use nearflash_units::{BlockSize, ByteLen, ByteOffset};
use uuid::Uuid;

use crate::StartError;

/// The time that another node has to take a connection.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// The time that another node has to answer.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A volume of another node that was found.
#[derive(Debug)]
pub(crate) struct Remote {
    spec: RemoteSpec,
    address: SocketAddr,
    credentials: Credentials,
    info: VolumeInfo,
    block_size: BlockSize,
}

/// Finds the volumes whose nodes answer now. Returns the others, too.
///
/// # Errors
/// When a node answers, and refuses to open the volume.
pub(crate) fn find(specs: &[RemoteSpec]) -> Result<(Vec<Remote>, Vec<RemoteSpec>), StartError> {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for spec in specs {
        match open(spec) {
            Ok(remote) => found.push(remote),
            Err(error) if error.is_transient() => absent.push(spec.clone()),
            Err(error) => {
                let (name, source) = (spec.name.clone(), Box::new(error));
                return Err(StartError::Remote { name, source });
            }
        }
    }
    Ok((found, absent))
}

/// Opens a volume once.
///
/// # Errors
/// The client's.
pub(crate) fn open(spec: &RemoteSpec) -> Result<Remote, Error> {
    let credentials = Credentials::of(&spec.url)?;
    let options = Options::default().silence_max(SILENCE_MAX).reconnect_max(Duration::ZERO);
    let client = Client::connect_to(spec.url.clone(), credentials.clone(), options)?;
    let (address, info) = (address_of(&spec.url)?, client.open_named()?.info());
    let block_size = BlockSize::from_bytes(info.block_size).unwrap_or(BlockSize::B512);
    Ok(Remote { spec: spec.clone(), address, credentials, info, block_size })
}

/// The first address of the node that takes connections.
fn address_of(url: &Url) -> Result<SocketAddr, Error> {
    let Place::Tcp { host, port } = &url.place else { return Err(Error::NoVolume) };
    let failed = |source: io::Error| Error::Unreachable {
        place: url.place.to_string(),
        source: Arc::new(source),
    };
    let mut last = io::ErrorKind::NotFound.into();
    for address in resolve(host, *port).map_err(failed)? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

impl Remote {
    /// Its name on this node, and where it is.
    pub(crate) fn spec(&self) -> &RemoteSpec {
        &self.spec
    }

    /// It as a device of this node.
    pub(crate) fn device(&self) -> Device {
        let properties = DeviceProperties {
            len: ByteLen(self.info.len),
            block_size: self.block_size,
            // The protocol does not say whether it has one.
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        };
        Device::remote(self.spec.name.clone(), self.uuid(), properties)
    }

    /// It as a volume of this node, on that device.
    pub(crate) fn volume(&self, device: DeviceId) -> Volume {
        let len = ByteLen(self.info.len.next_multiple_of(GRANULE.0));
        Volume {
            id: VolumeId(0),
            uuid: self.uuid(),
            name: self.spec.name.clone(),
            block_size: self.block_size,
            blocks: self.block_size.blocks_in(ByteLen(self.info.len)),
            preparing: None,
            subsystem: self.spec.name.clone(),
            nsid: 1,
            epoch: Epoch(1),
            extents: vec![Extent { device, start: ByteOffset(0), len }],
            provisioning: Provisioning::Thin,
            reservations: Reservations::default(),
            home: Home::OtherNode,
            stripes: Stripes::NONE,
        }
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_bytes(self.info.uuid)
    }
}

/// The place of the last device, which is a volume of another node: it has no space for others.
pub(crate) fn place_of(devices: &[Arc<Device>]) -> SpaceDevice {
    let (number, device) = (devices.len() - 1, &devices[devices.len() - 1]);
    let id = DeviceId(u32::try_from(number).expect("devices are few"));
    let none = (ByteOffset(0), ByteLen(0));
    let block_size = device.properties().block_size;
    empty_device(id, device.name().clone(), device.uuid(), block_size, none)
}

/// Adds the last device to the volumes of its node. Each core has one connection for each node and key,
/// and for so many volumes.
pub(crate) fn add_peer(peers: &mut Vec<PeerConfig>, remote: &Remote, devices: &[Arc<Device>]) {
    let (number, device) = (devices.len() - 1, &devices[devices.len() - 1]);
    let (key, url) = (remote.credentials.key(), &remote.spec.url);
    let digests = Digests { header: url.header_digest, data: url.data_digest };
    let is_same = |peer: &PeerConfig| {
        let has_room = peer.volumes.len() < VOLUMES_PER_PEER_MAX;
        has_room && (peer.address, &peer.key, peer.digests) == (remote.address, &key, digests)
    };
    let place = peers.iter().position(is_same).unwrap_or_else(|| {
        let (address, key) = (remote.address, key.clone());
        peers.push(PeerConfig { address, key, digests, volumes: Vec::new() });
        peers.len() - 1
    });
    peers[place].volumes.push(RemoteVolume {
        device: DeviceId(u32::try_from(number).expect("devices are few")),
        name: url.volume.as_deref().unwrap_or_default().into(),
        uuid: remote.info.uuid,
        health: Arc::clone(device.health()),
        face: None,
    });
}
