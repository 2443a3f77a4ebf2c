//! The state of a node: the ready line, and the answer to `status`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{DeviceInfo, JobInfo, VolumeInfo};

/// The node serves. Printed on stdout once hosts can connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ready {
    /// `ready`.
    pub event: String,
    /// The addresses for NVMe/TCP hosts, as bound.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The addresses for direct clients, as bound.
    #[serde(default)]
    pub direct: Vec<SocketAddr>,
    /// The socket for direct clients on this machine.
    #[serde(default)]
    pub direct_local: Option<PathBuf>,
    /// The addresses for iSCSI initiators, as bound.
    #[serde(default)]
    pub iscsi: Vec<SocketAddr>,
    /// The control socket.
    pub control: PathBuf,
    /// All volumes.
    pub volumes: Vec<VolumeInfo>,
    /// The process ID.
    pub pid: u32,
}

/// Shows the state of the node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StatusShow {}

/// The state of a node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The commit that it was built from, where the build could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The installation.
    pub node: Uuid,
    /// The process ID.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_seconds: u64,
    /// The addresses for NVMe/TCP hosts, as bound.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The addresses for direct clients, as bound.
    #[serde(default)]
    pub direct: Vec<SocketAddr>,
    /// The socket for direct clients on this machine.
    #[serde(default)]
    pub direct_local: Option<PathBuf>,
    /// The addresses for iSCSI initiators, as bound.
    #[serde(default)]
    pub iscsi: Vec<SocketAddr>,
    /// All devices.
    pub devices: Vec<DeviceInfo>,
    /// All volumes.
    pub volumes: Vec<VolumeInfo>,
    /// The cores that answered in time.
    pub cores: Vec<CoreInfo>,
    /// The processors of the cores that did not: their counters, hosts, clients and sessions are
    /// missing here. Absent when all answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent_cores: Vec<usize>,
    /// All connected hosts.
    pub hosts: Vec<HostInfo>,
    /// Direct clients: the first thousand of each core.
    #[serde(default)]
    pub clients: Vec<ClientInfo>,
    /// iSCSI sessions.
    #[serde(default)]
    pub initiators: Vec<InitiatorInfo>,
    /// Counters of each volume, where the node keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_io: Vec<VolumeIo>,
    /// Jobs that are not over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobInfo>,
}

/// A core's counters since the start.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CoreInfo {
    /// The processor.
    pub core: usize,
    /// TCP connections now.
    pub connections: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of the buffer pool that are free now.
    pub pool_free_bytes: u64,
    /// Direct clients now.
    #[serde(default)]
    pub clients: u64,
}

/// A volume's counters since the start, over all cores.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VolumeIo {
    /// The volume.
    pub volume: String,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// How long reads took. Absent without reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<Latency>,
    /// How long writes took. Absent without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<Latency>,
}

/// Latencies, from a request's receipt to its completion.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Latency {
    /// Half took no longer.
    pub p50_ns: u64,
    /// 99 % took no longer.
    pub p99_ns: u64,
    /// 99.9 % took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A host's association with a subsystem.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostInfo {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub nqn: String,
    /// The address that the host connected from.
    pub address: SocketAddr,
    /// The number of its I/O queues.
    pub io_queues: u32,
}

/// A direct client's connection.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClientInfo {
    /// Its address, or its process on this machine.
    pub from: String,
    /// Its credential. Absent when it is anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// It is admitted.
    pub is_in: bool,
    /// The processor that serves it.
    pub core: usize,
    /// Its requests in flight now.
    pub in_flight: u64,
}

/// An iSCSI session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InitiatorInfo {
    /// The initiator's name.
    pub initiator: String,
    /// The target's name. Absent in a discovery session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its CHAP account. Absent when it needed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The address of its first connection.
    pub address: SocketAddr,
    /// The number of its connections.
    pub connections: u32,
    /// The processor that serves it.
    pub core: usize,
}
