//! The state of a node: the ready line, and the answer to `status`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{DeviceInfo, JobInfo, RefusedLogins, Verdict, VolumeInfo, VolumeIo};

/// The node is ready. Printed on stdout once hosts can connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ready {
    /// Always `ready`.
    pub event: String,
    /// The addresses bound for NVMe/TCP.
    pub nvme_tcp: Vec<SocketAddr>,
    /// The TCP addresses bound for the direct protocol.
    #[serde(default)]
    pub direct: Vec<SocketAddr>,
    /// The Unix socket of the direct protocol.
    #[serde(default)]
    pub direct_local: Option<PathBuf>,
    /// The addresses bound for iSCSI.
    #[serde(default)]
    pub iscsi: Vec<SocketAddr>,
    /// The TCP address bound for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<SocketAddr>,
    /// The Unix socket for HTTP. Absent with `--http none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_local: Option<PathBuf>,
    /// The control socket.
    pub control: PathBuf,
    /// All volumes.
    pub volumes: Vec<VolumeInfo>,
    /// The process ID.
    pub pid: u32,
}

/// Shows the state of the node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusShow {}

/// The state of a node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The commit that it was built from, if the build script could determine it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The UUID of the installation.
    pub node: Uuid,
    /// The process ID.
    pub pid: u32,
    /// The generation of the recorded state, which each change increases. It is read before the rest.
    #[serde(default)]
    pub generation: u64,
    /// The health of the node.
    #[serde(default)]
    #[schema(required = true)]
    pub verdict: Verdict,
    /// Seconds since the node became ready.
    pub uptime_seconds: u64,
    /// The cluster, as the node sees it. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterView>,
    /// The addresses bound for NVMe/TCP.
    #[schema(value_type = Vec<String>)]
    pub nvme_tcp: Vec<SocketAddr>,
    /// Those of them that require TLS. Absent if none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub nvme_tcp_tls: Vec<SocketAddr>,
    /// The TCP addresses bound for the direct protocol.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub direct: Vec<SocketAddr>,
    /// Those of them that require TLS. Absent if none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub direct_tls: Vec<SocketAddr>,
    /// The Unix socket of the direct protocol.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub direct_local: Option<PathBuf>,
    /// The addresses bound for iSCSI.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub iscsi: Vec<SocketAddr>,
    /// The address bound for HTTP, which is always with TLS. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub http: Option<SocketAddr>,
    /// The Unix socket for HTTP. Absent with `--http none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub http_local: Option<PathBuf>,
    /// The iSCSI names that several subsystems would have. Absent if there are none, and without an iSCSI
    /// address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iscsi_clashes: Vec<IscsiClash>,
    /// The addresses that other machines reach, and at which everybody uses the volumes, without a key and without
    /// being named. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_to_everyone: Vec<OpenAddress>,
    /// The protocols that nobody can use, because their last key was removed: `direct`, `iscsi`. Absent if there is
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
    /// Why the files of volumes are not served, each in one line with its remedy. Absent if all are, and for volumes
    /// that are not formatted yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_faults: Vec<String>,
    /// All devices.
    pub devices: Vec<DeviceInfo>,
    /// All volumes.
    pub volumes: Vec<VolumeInfo>,
    /// The cores that answered in time.
    pub cores: Vec<CoreInfo>,
    /// The processors of the cores that did not answer in time. They, their clients, and the hosts and
    /// sessions that they report are missing; `volume_io` counts them too. Absent if all answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent_cores: Vec<usize>,
    /// All connected hosts.
    pub hosts: Vec<HostInfo>,
    /// Clients of the direct protocol: the first thousand of each core.
    #[serde(default)]
    pub clients: Vec<ClientInfo>,
    /// iSCSI sessions.
    #[serde(default)]
    pub initiators: Vec<InitiatorInfo>,
    /// The use of the places of hosts, initiators and clients, of which a node has a limited number. Absent if no
    /// core answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceInfo>,
    /// Counters of each volume and of each of its hosts. Absent if there are no volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_io: Vec<VolumeIo>,
    /// The logins that were refused lately. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_logins: Option<RefusedLogins>,
    /// Jobs that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobInfo>,
}

/// The use of the places of one kind. A peer that finds none is refused.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct PlaceInfo {
    /// `nvme-controllers`, `nvme-discovery-controllers`, `iscsi-sessions`, `iscsi-discovery-sessions`,
    /// `connections`, or `unproved-connections`: those whose peers have not proved yet who they are.
    pub kind: String,
    /// The taken places.
    pub used: u64,
    /// All places.
    pub places: u64,
    /// The host, initiator, credential or address that has the most. Absent if none is taken; of connections, it
    /// is among direct clients, and of one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The number of those.
    #[serde(default)]
    pub held: u64,
}

/// An address at which everybody uses the volumes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OpenAddress {
    /// `nvme-tcp`, `direct` or `iscsi`.
    pub protocol: String,
    /// The address.
    #[schema(value_type = String)]
    pub address: SocketAddr,
}

impl OpenAddress {
    /// The fact and its remedy, for people.
    pub fn sentence(&self) -> String {
        let Self { protocol, address } = self;
        let remedy = match protocol.as_str() {
            "direct" => "create a credential with 'nearflash credential create'",
            "iscsi" => {
                "add a CHAP account with 'nearflash chap add', or name the initiators with --host"
            }
            _ => "name the hosts with --host NQN, or require keys with ,auth=required",
        };
        format!(
            "everybody who reaches {address} ({protocol}) may read and write the volumes: {remedy}"
        )
    }
}

/// An iSCSI name that several subsystems would have: names of volumes and subsystems tell capital from
/// small letters, and `_` from `-`, and iSCSI names do not.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct IscsiClash {
    /// The iSCSI name.
    pub iqn: String,
    /// The subsystem that is its target. Absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<String>,
    /// The subsystems that initiators do not see.
    pub left_out: Vec<String>,
}

impl IscsiClash {
    /// The clash and its remedy, for people.
    pub fn sentence(&self) -> String {
        let names: Vec<String> = self.left_out.iter().map(|name| format!("'{name}'")).collect();
        let (noun, verb) = match names.len() {
            1 => ("subsystem", "is"),
            _ => ("subsystems", "are"),
        };
        let served = match &self.served {
            Some(served) => format!("the name is that of '{served}'"),
            None => "iSCSI does not tell them apart".to_owned(),
        };
        format!(
            "{noun} {} {verb} not served over iSCSI as {}: {served}: copy the data to a volume with \
             another name, and remove the old one",
            names.join(" and "),
            self.iqn
        )
    }
}

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClusterView {
    /// The cluster's UUID.
    pub uuid: Uuid,
    /// The name of the node in it.
    pub node: String,
    /// `ok`, `degraded`, `at risk` or `unavailable`.
    pub verdict: String,
    /// The reason and the remedy.
    pub reason: String,
    /// The nodes, in the order of their numbers; empty while they are unknown.
    #[serde(default)]
    pub nodes: Vec<ClusterNodeInfo>,
    /// The mirrors that this node copies to a replica which returns.
    #[serde(default)]
    pub copies: Vec<CopyInfo>,
    /// Volumes that this node no longer serves, and whose older requests have not ended for some seconds. Their
    /// space is not used again before these requests have ended. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawals: Vec<WithdrawalInfo>,
    /// The cores of this node that do not turn: until they do, it leaves its mirrors to their other nodes. Absent
    /// if all turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hung_cores: Vec<HungCoreInfo>,
}

/// A node of a cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClusterNodeInfo {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Whether it counts as running. It does for some seconds after it was killed.
    pub is_running: bool,
    /// The version of its program.
    pub version: String,
    /// The bytes of its slices for volumes, used and free.
    pub data_bytes: u64,
    /// The bytes of these that new volumes can use.
    pub free_bytes: u64,
    /// The replicas on its slices.
    pub replicas: u64,
    /// The mirrors whose primary is one of them.
    pub primaries: u64,
}

impl ClusterView {
    /// The bytes of all slices for volumes, and those of them that are free.
    pub fn space(&self) -> (u64, u64) {
        let sum = |of: fn(&ClusterNodeInfo) -> u64| self.nodes.iter().map(of).sum();
        (sum(|it| it.data_bytes), sum(|it| it.free_bytes))
    }
}

/// A core that does not turn.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct HungCoreInfo {
    /// The processor.
    pub core: usize,
    /// The time since its last turn, in seconds.
    pub seconds: u64,
}

/// Volumes, or parts of them, that were removed or moved while requests on them were under way.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct WithdrawalInfo {
    /// Their names.
    pub volumes: Vec<String>,
    /// The devices with their space on this node.
    pub devices: Vec<String>,
    /// The time since then, in seconds.
    pub seconds: u64,
}

/// A mirror that is compared with a replica which returns, and copied to it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct CopyInfo {
    /// The volume.
    pub volume: String,
    /// The mirror's number in it.
    pub mirror: u32,
    /// The bytes that have been gone through.
    pub done_bytes: u64,
    /// The length of the mirror.
    pub bytes: u64,
}

/// Counters of a core since the start of the node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct CoreInfo {
    /// The processor.
    pub core: usize,
    /// Current TCP connections.
    pub connections: u64,
    /// Current requests in flight.
    pub in_flight: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// Bytes of the buffer pool that are currently free.
    pub pool_free_bytes: u64,
    /// Current clients of the direct protocol.
    #[serde(default)]
    pub clients: u64,
}

/// A host's association with a subsystem.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct HostInfo {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub nqn: String,
    /// The address from which the host connected.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// The number of its I/O queues.
    pub io_queues: u32,
}

/// A connection of the direct protocol.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ClientInfo {
    /// Its address, or its process on this machine.
    pub from: String,
    /// Its credential. Absent if it is anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Whether it has been admitted.
    pub is_in: bool,
    /// The processor that serves it.
    pub core: usize,
    /// Its current requests in flight.
    pub in_flight: u64,
}

/// An iSCSI session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct InitiatorInfo {
    /// The initiator's name.
    pub initiator: String,
    /// The target's name. Absent for a discovery session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its CHAP account. Absent if it did not need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The address of its first connection.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// The number of its connections.
    pub connections: u32,
    /// The processor that serves it.
    pub core: usize,
}
