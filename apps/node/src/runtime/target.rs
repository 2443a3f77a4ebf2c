//! The part of a start that concerns one protocol: the controllers of NVMe hosts with their ports, and direct
//! sessions.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_config::{HostAccess, Protocol};
use nearflash_direct::serving as direct;
use nearflash_media::Device;
use nearflash_nvme::TransportAddress;
use nearflash_nvme::serving::{HostAccess as TargetAccess, Limits, Port, Target, TargetConfig};
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::port_ids;
use nearflash_session::DoorTls;
use nearflash_shard::{CONNECTIONS_MAX, DirectConfig};

use super::config::RuntimeConfig;
use crate::doors::{DoorSocket, OpenDoor};

/// The subsystems and controllers of a node that starts.
pub(super) fn target(config: &RuntimeConfig) -> Target {
    let in_capsule_len_max = SessionConfig::default().in_capsule_len_max;
    let host_queues_max = config.cores.len() * CONNECTIONS_MAX / 4;
    let limits = Limits { in_capsule_len_max, host_queues_max, ..Limits::default() };
    Target::new(TargetConfig {
        serial_seed: config.node.as_u64_pair().0,
        model: "nearflash".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: host_access(&config.hosts),
        ports: ports(config.ordinal, &config.doors),
        controller_ids: config.controller_ids.clone(),
        limits,
        life: config.life.clone(),
    })
}

fn host_access(hosts: &HostAccess) -> TargetAccess {
    match hosts {
        HostAccess::Only(hosts) => TargetAccess::Listed(hosts.iter().cloned().collect()),
        HostAccess::Any => TargetAccess::Any,
    }
}

/// The ports of the discovery log.
fn ports(ordinal: u16, doors: &[OpenDoor]) -> Vec<Port> {
    let tcp = |door: &OpenDoor| match &door.socket {
        DoorSocket::Tcp { listener, advertise } if door.protocol == Protocol::NvmeTcp => {
            Some((listener.local_addr().unwrap_or(*advertise), *advertise, door.tls))
        }
        DoorSocket::Tcp { .. } | DoorSocket::Local(_) => None,
    };
    let port = |((listen, advertise, tls), id): ((SocketAddr, SocketAddr, DoorTls), u16)| {
        let advertise = (advertise != listen).then(|| TransportAddress::tcp(advertise));
        let listen = TransportAddress::tcp(listen);
        Port { id, listen, advertise: advertise.into_iter().collect(), tls }
    };
    doors.iter().filter_map(tcp).zip(port_ids(ordinal)).map(port).collect()
}

/// The configuration of direct sessions.
pub(super) fn direct_config(devices: &[Arc<Device>], boot: u64) -> DirectConfig {
    let usual = DirectConfig::default();
    let largest = devices.iter().map(|device| device.properties().block_size).max();
    let session = direct::SessionConfig {
        unit: largest.unwrap_or(usual.session.unit),
        boot,
        ..usual.session
    };
    // No key of an earlier start of the node is valid.
    let salt = uuid::Uuid::new_v4().into_bytes();
    DirectConfig { session, salt }
}
