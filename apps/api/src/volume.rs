//! Volumes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::JobInfo;

/// A volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// The NQN of the subsystem that exports it.
    pub nqn: String,
    /// Its namespace ID in that subsystem.
    pub nsid: u32,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of its logical blocks in bytes.
    pub block_size: u32,
    /// The device that holds it.
    pub device: String,
    /// `thin` if deallocated blocks are released where the device supports that, otherwise `thick`.
    #[serde(default = "thin")]
    pub provisioning: String,
    /// The job that prepares it. Hosts cannot use the part that is not prepared yet. Absent if the
    /// volume is completely prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Why hosts do not see it. Absent if it exists completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<VolumeState>,
    /// The state of its files, for people. Absent if the node does not own the files of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
}

/// The state of a volume of a cluster that hosts do not see.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// It is being created.
    Making,
    /// It is being removed.
    Removing,
}

/// The provisioning of volumes of nodes that do not report it.
fn thin() -> String {
    "thin".to_owned()
}

/// Creates a volume: on the device that it names, otherwise in the space of the node's cluster, otherwise on the
/// only device of the node. The node decides.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    /// Its name.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    pub name: String,
    /// Its size in bytes; in a cluster, a multiple of 4096.
    pub bytes: u64,
    /// The device of the node that holds it; by default the space of the cluster, or without a cluster the only
    /// device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    pub device: Option<String>,
    /// The size of its logical blocks in bytes; by default the node's. In a cluster, it is 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// The subsystem that exports it; by default one with the volume's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    pub subsystem: Option<String>,
    /// `thin` or `thick`; by default `thin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(thin|thick)$")]
    pub provisioning: Option<String>,
    /// In a cluster: the number of nodes that have each byte; by default 2 if several nodes have slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 255)]
    pub replicas: Option<u8>,
    /// In a cluster: the number of bytes on one mirror before the next one follows; by default 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_unit: Option<u64>,
    /// In a cluster: the number of mirrors that it is striped over; by default as many as suit its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// In a cluster: `spread`, `local:NODE` or `central:NODE`; by default `spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
}

/// Shows a volume and where it lies.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeShow {
    /// The volume.
    pub name: String,
}

/// A volume and its layout.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct VolumeDetail {
    /// The volume.
    pub volume: VolumeInfo,
    /// Its layout in the cluster; absent for a volume on a device of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<VolumeLayout>,
}

/// The layout of a volume of the cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct VolumeLayout {
    /// The number of nodes that have each byte.
    pub replicas: u8,
    /// The number of bytes on one mirror before the next one follows.
    pub stripe_unit: u64,
    /// The number of mirrors of a row.
    pub width: u32,
    /// The rule by which slices were chosen.
    pub placement: String,
    /// The bytes of its space, on all replicas.
    #[serde(default)]
    pub space_bytes: u64,
    /// Those that have been zeroed. While another node zeroes, only whole rows are counted.
    #[serde(default)]
    pub zeroed_bytes: u64,
    /// The mirrors, in the order of the volume's blocks.
    pub mirrors: Vec<MirrorInfo>,
}

/// A part of a volume that lies in one piece on each of its replicas.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct MirrorInfo {
    /// Its number in the volume.
    pub number: u32,
    /// The row of mirrors that it belongs to.
    pub row: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of changes of its membership, from 1.
    pub term: u32,
    /// Its replicas.
    pub replicas: Vec<ReplicaInfo>,
}

/// A copy of a mirror.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ReplicaInfo {
    /// The node.
    pub node: String,
    /// The slice, by its name at the node.
    pub slice: String,
    /// Its first byte on the slice's device.
    pub start: u64,
    /// Whether it orders the writes of the mirror.
    pub is_primary: bool,
    /// Whether it has every write that was acknowledged.
    pub is_in_sync: bool,
    /// Whether the node runs, as far as the cluster's store knows.
    pub is_up: bool,
}

/// Lists all volumes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeList {}

/// Grows or shrinks a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeResize {
    /// The volume.
    pub name: String,
    /// Its new size in bytes.
    pub bytes: u64,
    /// Whether it may shrink and lose the blocks past the new end.
    #[serde(default)]
    pub shrink: bool,
    /// Whether it may shrink even while it is in use, or holds a file system.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Removes a volume and its data.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeRemove {
    /// The volume.
    pub name: String,
    /// Whether to remove it even while hosts, initiators or clients use it.
    #[serde(default)]
    pub force: bool,
}

/// A volume after a change, or before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneVolume {
    /// The volume.
    pub volume: VolumeInfo,
    /// The job that completes the change. Absent if the change is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobInfo>,
    /// Advice to the operator on the next step. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// All volumes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Volumes {
    /// In the order of their names.
    pub volumes: Vec<VolumeInfo>,
}
