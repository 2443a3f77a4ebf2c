//! A running node, as the control socket sees it: what it is asked for, it does in this order:
//! decide on a copy, make fresh blocks zero, record durably, show the cores, answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nearflash_media::{Device, Kind};
use nearflash_space::{Extent, Name, Space, Volume, VolumeRequest, truncate_extents};
use nearflash_units::{BlockSize, ByteLen};
use uuid::Uuid;

use crate::api::{Answer, Command, CoreInfo, DeviceInfo, HostInfo, Status, VolumeInfo};
use crate::catalog::Catalog;
use crate::config::ValueError;
use crate::error::{HostCount, NodeError};
use crate::exports::{published, subsystem_nqn, volume_info};
use crate::prepare::{Prepared, commit, zero};
use crate::{ConnectedHost, CoreStatus, Runtime};

/// A running node.
pub(crate) struct Node {
    catalog: Catalog,
    devices: Vec<Arc<Device>>,
    /// What is recorded and served. One change at a time; readers wait for it.
    space: Mutex<Space>,
    runtime: Arc<dyn Runtime>,
    nvme_tcp: Vec<SocketAddr>,
    started: Instant,
}

impl Node {
    pub(crate) fn new(
        prepared: Prepared,
        runtime: Arc<dyn Runtime>,
        nvme_tcp: Vec<SocketAddr>,
    ) -> Self {
        let Prepared { catalog, devices, space } = prepared;
        let (space, started) = (Mutex::new(space), Instant::now());
        Self { catalog, devices, space, runtime, nvme_tcp, started }
    }

    /// Does what is asked.
    pub(crate) fn answer(&self, command: Command) -> Answer {
        let (doing, done) = match command {
            Command::VolumeCreate { name, bytes, device, block_size, subsystem } => {
                let made = self.create(&name, bytes, &device, block_size, subsystem.as_deref());
                ("volume made", made)
            }
            Command::VolumeList => return Answer::Volumes { volumes: self.volumes() },
            Command::VolumeResize { name, bytes, shrink } => {
                ("volume resized", self.resize(&name, bytes, shrink))
            }
            Command::VolumeRemove { name, force } => ("volume removed", self.remove(&name, force)),
            Command::Status => return Answer::Status(Box::new(self.status())),
        };
        match done {
            Ok(volume) => {
                tracing::info!(volume = volume.name, bytes = volume.bytes, "{doing}");
                Answer::Volume { volume }
            }
            Err(error) => {
                tracing::warn!("refused: {error}");
                Answer::Error { error: error.to_string() }
            }
        }
    }

    /// Every volume.
    pub(crate) fn volumes(&self) -> Vec<VolumeInfo> {
        let space = self.space();
        space.volumes().map(|volume| volume_info(volume, &space)).collect()
    }

    fn create(
        &self,
        name: &str,
        bytes: u64,
        device: &str,
        block_size: Option<u32>,
        subsystem: Option<&str>,
    ) -> Result<VolumeInfo, NodeError> {
        let parse = |text: &str| text.parse::<Name>().map_err(ValueError::from);
        let request = VolumeRequest {
            name: parse(name)?,
            len: ByteLen(bytes),
            device: parse(device)?,
            block_size: volume_block_size(block_size)?,
            subsystem: subsystem.map(parse).transpose()?,
        };
        self.change(|space| {
            let volume = space.create(&request, Uuid::new_v4())?.clone();
            zero(&self.devices, &volume.extents)?;
            Ok(volume)
        })
    }

    fn resize(&self, name: &str, bytes: u64, shrink: bool) -> Result<VolumeInfo, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        self.change(|space| {
            let before = space.volume(&name).map_or(0, |v| held(&v.extents));
            let volume = space.resize(&name, ByteLen(bytes), shrink)?.clone();
            let fresh = truncate_extents(&mut volume.extents.clone(), ByteLen(before));
            zero(&self.devices, &fresh)?;
            Ok(volume)
        })
    }

    fn remove(&self, name: &str, force: bool) -> Result<VolumeInfo, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        self.change(|space| {
            let volume = space.remove(&name)?;
            let nqn = subsystem_nqn(&volume.subsystem);
            let hosts = self.runtime.status().hosts;
            let connected = hosts.iter().filter(|host| host.subsystem == nqn).count();
            if connected != 0 && !force {
                let hosts = HostCount(connected);
                return Err(NodeError::HostsConnected { name: name.clone(), hosts });
            }
            Ok(volume)
        })
    }

    /// Makes a change on a copy; when it can be made, records it and shows it to the cores.
    fn change(
        &self,
        change: impl FnOnce(&mut Space) -> Result<Volume, NodeError>,
    ) -> Result<VolumeInfo, NodeError> {
        let mut space = self.space();
        let mut changed = space.clone();
        let volume = change(&mut changed)?;
        commit(&self.catalog, &changed, &self.devices)?;
        self.runtime.publish(published(&changed, &self.devices));
        *space = changed;
        Ok(volume_info(&volume, &space))
    }

    fn status(&self) -> Status {
        let runtime = self.runtime.status();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.catalog.node(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            nvme_tcp: self.nvme_tcp.clone(),
            devices: self.device_infos(),
            volumes: self.volumes(),
            cores: runtime.cores.iter().map(core_info).collect(),
            hosts: runtime.hosts.iter().map(host_info).collect(),
        }
    }

    fn device_infos(&self) -> Vec<DeviceInfo> {
        let space = self.space();
        self.devices
            .iter()
            .zip(space.devices())
            .map(|(device, place)| {
                let properties = device.properties();
                DeviceInfo {
                    name: device.name().to_string(),
                    kind: kind_name(device.kind()).to_owned(),
                    uuid: device.uuid(),
                    bytes: properties.len.0,
                    data_bytes: place.free.len().0,
                    free_bytes: place.free.free_len().0,
                    block_size: properties.block_size.bytes(),
                    volatile_cache: properties.volatile_cache,
                }
            })
            .collect()
    }

    /// A change that panicked was made on a copy, so what is here is whole all the same.
    fn space(&self) -> std::sync::MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn held(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.len.0).sum()
}

fn volume_block_size(bytes: Option<u32>) -> Result<BlockSize, ValueError> {
    bytes.map_or(Ok(BlockSize::B4096), |bytes| crate::config::parse_block_size(&bytes.to_string()))
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Uring(device) if device.is_block() => "block",
        Kind::Uring(_) => "file",
        Kind::Ram(_) => "ram",
        Kind::Null(_) => "null",
    }
}

fn core_info(core: &CoreStatus) -> CoreInfo {
    CoreInfo {
        core: core.core,
        connections: core.connections,
        in_flight: core.in_flight,
        reads: core.reads,
        writes: core.writes,
        read_bytes: core.read_bytes,
        written_bytes: core.written_bytes,
        errors: core.errors,
        pool_free_bytes: core.pool_free_bytes,
    }
}

fn host_info(host: &ConnectedHost) -> HostInfo {
    HostInfo {
        host: host.host.to_string(),
        nqn: host.subsystem.to_string(),
        address: host.address,
        io_queues: host.io_queues,
    }
}
