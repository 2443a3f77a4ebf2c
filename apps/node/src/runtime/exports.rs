//! Between the control side's words and the protocols': what is served, to whom, and how it is.

use nearflash_engine::CoreId;
use nearflash_nvme::TransportAddress;
use nearflash_nvme::target::{
    Deallocation, HostAccess as TargetAccess, Limits, NamespaceConfig, Port, Target, TargetConfig,
};
use nearflash_nvme_tcp::target::SessionConfig;

use super::replies::Reply;
use crate::runtime_face::{
    ConnectedHost, CoreStatus, Door, HostAccess, Namespace, Published, RuntimeConfig, RuntimeStatus,
};

/// The subsystems and controllers of a node that is starting.
pub(super) fn target(config: &RuntimeConfig) -> Target {
    let in_capsule_len_max = SessionConfig::default().in_capsule_len_max;
    let limits = Limits { in_capsule_len_max, ..Limits::default() };
    let mut target = Target::new(TargetConfig {
        serial_seed: config.node.as_u64_pair().0,
        model: "nearflash".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: host_access(&config.nvme_tcp),
        ports: config.nvme_tcp.iter().zip(1..).map(|(door, id)| port(door, id)).collect(),
        limits,
    });
    let published = target.publish(namespaces(&config.published));
    published.expect("the control side gives each namespace a number of its own");
    target
}

/// What hosts see of the volumes.
pub(super) fn namespaces(published: &Published) -> Vec<NamespaceConfig> {
    published.namespaces.iter().map(namespace).collect()
}

fn namespace(namespace: &Namespace) -> NamespaceConfig {
    NamespaceConfig {
        subsystem: namespace.subsystem.clone(),
        namespace: namespace.nsid,
        volume: namespace.volume,
        uuid: namespace.uuid,
        block_size: namespace.block_size,
        blocks: namespace.blocks,
        volatile_cache: namespace.volatile_cache,
        deallocation: match namespace.deallocates {
            true => Deallocation::ReadsZeroes,
            false => Deallocation::None,
        },
        write_protected: false,
    }
}

/// Every door of a node lets in the same hosts: those of `--host`, or any.
fn host_access(doors: &[Door]) -> TargetAccess {
    match doors.first().map(|door| &door.hosts) {
        Some(HostAccess::Only(hosts)) => TargetAccess::Listed(hosts.iter().cloned().collect()),
        Some(HostAccess::Any) | None => TargetAccess::Any,
    }
}

fn port(door: &Door, id: u16) -> Port {
    let listen = door.listener.local_addr().unwrap_or(door.advertise);
    let advertise = (door.advertise != listen).then(|| TransportAddress::tcp(door.advertise));
    Port { id, listen: TransportAddress::tcp(listen), advertise: advertise.into_iter().collect() }
}

/// How the cores are, from what each says.
pub(super) fn status(processors: &[usize], replies: Vec<(CoreId, Reply)>) -> RuntimeStatus {
    let mut status = RuntimeStatus::default();
    for (core, reply) in replies {
        let Reply::Status(shard) = reply else { continue };
        let counters = shard.counters;
        status.cores.push(CoreStatus {
            core: processors.get(usize::from(core.0)).copied().unwrap_or_default(),
            connections: count(shard.connections),
            in_flight: count(shard.requests_in_flight),
            reads: counters.reads,
            writes: counters.writes,
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            errors: counters.errors,
            pool_free_bytes: shard.pool_free.0,
        });
        status.hosts.extend(shard.hosts.into_iter().map(|host| ConnectedHost {
            host: host.status.host,
            subsystem: host.status.subsystem,
            address: host.peer,
            io_queues: u32::try_from(host.status.queues.len()).unwrap_or(u32::MAX),
        }));
    }
    status
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
