//! Volumes of other nodes that this node serves: `NAME=direct://HOST:PORT/VOLUME`.
//!
//! This module opens each of them once, at the start, and learns its size and its identity. The cores
//! reach it over their own connections (`core/shard/src/peers.rs`). The volume has the same UUID, the
//! same block size and the same size as on its own node. Nothing of it is recorded here.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash::direct::{Client, Credentials, Error, Options, Place, Url, VolumeInfo};
use nearflash::resolve;
use nearflash_device::{DeviceId, DeviceProperties};
use nearflash_direct::Digests;
use nearflash_media::Device;
use nearflash_request::VolumeId;
use nearflash_shard::{PeerConfig, RemoteVolume};
use nearflash_space::{Epoch, Extent, GRANULE, Name, Provisioning, Reservations, Volume};
use nearflash_units::{BlockSize, ByteLen, ByteOffset};
use uuid::Uuid;

use crate::NodeError;
use crate::config::ValueError;

/// The time for which a start waits for another node.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two attempts.
const PERIOD: Duration = Duration::from_millis(500);
/// The time between two lines in the log.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// A configured volume of another node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteSpec {
    /// Its name on this node.
    pub name: Name,
    /// Its node, and its name there.
    pub url: Url,
}

impl FromStr for RemoteSpec {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let form = || ValueError::Remote(text.into());
        let (name, url) = text.split_once('=').ok_or_else(form)?;
        let url: Url = url.parse()?;
        match (&url.place, &url.volume) {
            (Place::Tcp { .. }, Some(_)) => Ok(Self { name: name.parse()?, url }),
            _ => Err(form()),
        }
    }
}

/// A volume of another node that was found.
#[derive(Debug)]
pub(crate) struct Remote {
    spec: RemoteSpec,
    address: SocketAddr,
    credentials: Credentials,
    info: VolumeInfo,
    block_size: BlockSize,
}

/// Finds the volumes. Waits for nodes that cannot be reached yet.
///
/// # Errors
/// When a volume cannot be opened, or its node cannot be reached for 30 s.
pub(crate) fn find(specs: &[RemoteSpec]) -> Result<Vec<Remote>, NodeError> {
    specs.iter().map(find_one).collect()
}

fn find_one(spec: &RemoteSpec) -> Result<Remote, NodeError> {
    let refused = |source| NodeError::Remote { name: spec.name.clone(), source };
    let (begun, mut reported) = (Instant::now(), Instant::now());
    loop {
        match open(spec) {
            Ok(remote) => return Ok(remote),
            Err(error) if !error.is_transient() || begun.elapsed() >= PATIENCE => {
                return Err(refused(Box::new(error)));
            }
            Err(error) if reported.elapsed() >= REPORT_PERIOD => {
                reported = Instant::now();
                tracing::info!("waiting for the node of volume '{}': {error}", spec.name);
            }
            Err(_) => {}
        }
        std::thread::sleep(PERIOD);
    }
}

fn open(spec: &RemoteSpec) -> Result<Remote, Error> {
    let credentials = Credentials::of(&spec.url)?;
    let client = Client::connect_to(spec.url.clone(), credentials.clone(), Options::default())?;
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
        match TcpStream::connect_timeout(&address, PERIOD) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

impl Remote {
    /// It as a device of this node.
    pub(crate) fn device(&self) -> Device {
        let properties = DeviceProperties {
            len: ByteLen(self.info.len.next_multiple_of(GRANULE.0)),
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
            is_remote: true,
        }
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_bytes(self.info.uuid)
    }
}

/// The configuration of the cores' connections: one for each node and key. The remote devices are the
/// last ones.
pub(crate) fn peers(remotes: &[Remote], devices: &[Arc<Device>]) -> Vec<PeerConfig> {
    let mut peers: Vec<PeerConfig> = Vec::new();
    let first = devices.len() - remotes.len();
    for ((id, device), remote) in (0u32..).zip(devices).skip(first).zip(remotes) {
        let key = remote.credentials.key();
        let url = &remote.spec.url;
        let digests = Digests { header: url.header_digest, data: url.data_digest };
        let is_same = |peer: &PeerConfig| {
            (peer.address, &peer.key, peer.digests) == (remote.address, &key, digests)
        };
        let place = peers.iter().position(is_same).unwrap_or_else(|| {
            let (address, key) = (remote.address, key.clone());
            peers.push(PeerConfig { address, key, digests, volumes: Vec::new() });
            peers.len() - 1
        });
        peers[place].volumes.push(RemoteVolume {
            device: DeviceId(id),
            name: url.volume.as_deref().unwrap_or_default().into(),
            uuid: remote.info.uuid,
            health: Arc::clone(device.health()),
            unflushed: Arc::default(),
        });
    }
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_volume_is_a_name_and_a_url_over_tcp_with_a_volume() {
        let spec: RemoteSpec = "data=direct://n1:4421/disk?key=a&secret-file=/x".parse().unwrap();
        assert_eq!(spec.name.as_str(), "data");
        assert_eq!(spec.url.volume.as_deref(), Some("disk"));
        for text in ["data", "data=direct://n1", "data=direct+local:/run/a.sock/disk"] {
            let refused = text.parse::<RemoteSpec>().unwrap_err().to_string();
            assert!(refused.contains("write NAME=direct://HOST:PORT/VOLUME"), "{refused}");
        }
        assert!("data=nvme://n1/disk".parse::<RemoteSpec>().is_err());
    }
}
