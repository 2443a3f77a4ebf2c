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
    /// Its namespace ID there.
    pub nsid: u32,
    /// Its identity.
    pub uuid: Uuid,
    /// Its size.
    pub bytes: u64,
    /// The size of its logical blocks.
    pub block_size: u32,
    /// The device that it lies on.
    pub device: String,
    /// `thin` if deallocated blocks are released where the device can do that, otherwise `thick`.
    #[serde(default = "thin")]
    pub provisioning: String,
    /// The job that prepares it. Hosts cannot use what the job has not finished. Absent when
    /// nothing is left to prepare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// The provisioning of volumes of nodes that do not name it.
fn thin() -> String {
    "thin".to_owned()
}

/// Creates a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The device to put it on.
    pub device: String,
    /// The size of its logical blocks; the node's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u32>,
    /// The subsystem that exports it; one of its own name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// `thin` or `thick`; `thin` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning: Option<String>,
}

/// Lists all volumes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeList {}

/// Makes a volume longer or shorter.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeResize {
    /// The volume.
    pub name: String,
    /// Its new size.
    pub bytes: u64,
    /// It may become shorter and lose the blocks past the new end.
    #[serde(default)]
    pub shrink: bool,
}

/// Removes a volume and its data.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRemove {
    /// The volume.
    pub name: String,
    /// Even while hosts are connected to its subsystem.
    #[serde(default)]
    pub force: bool,
}

/// A volume after a change, or before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneVolume {
    /// The volume.
    pub volume: VolumeInfo,
    /// The job that the change goes on as. Absent when the change is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobInfo>,
}

/// All volumes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Volumes {
    /// In the order of their names.
    pub volumes: Vec<VolumeInfo>,
}
