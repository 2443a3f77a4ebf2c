//! Volumes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::JobInfo;

/// A volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
}

/// The provisioning of volumes of nodes that do not report it.
fn thin() -> String {
    "thin".to_owned()
}

/// Creates a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The device that holds it.
    pub device: String,
    /// The size of its logical blocks in bytes; by default the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// The subsystem that exports it; by default one with the volume's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// `thin` or `thick`; by default `thin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<String>,
}

/// Lists all volumes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeList {}

/// Grows or shrinks a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeResize {
    /// The volume.
    pub name: String,
    /// Its new size in bytes.
    pub bytes: u64,
    /// Whether it may shrink and lose the blocks past the new end.
    #[serde(default)]
    pub shrink: bool,
}

/// Removes a volume and its data.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRemove {
    /// The volume.
    pub name: String,
    /// Whether to remove it even while hosts are connected to its subsystem.
    #[serde(default)]
    pub force: bool,
}

/// A volume after a change, or before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneVolume {
    /// The volume.
    pub volume: VolumeInfo,
    /// The job that completes the change. Absent if the change is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobInfo>,
}

/// All volumes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Volumes {
    /// In the order of their names.
    pub volumes: Vec<VolumeInfo>,
}
