//! Devices.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// `file`, `block`, `ram` or `null`.
    pub kind: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub bytes: u64,
    /// The bytes available to volumes, used and free.
    pub data_bytes: u64,
    /// The bytes of these that are free.
    pub free_bytes: u64,
    /// The smallest unit that it writes atomically, in bytes.
    pub block_size: u32,
    /// Whether it has a volatile write cache: a power failure loses completed writes that were not
    /// flushed.
    pub volatile_cache: bool,
    /// Whether it is suspect, since a flush or durable write has failed: flushes and durable writes
    /// fail until an operator clears it. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspect: bool,
}

/// Clears the suspect state of a device: flushes and durable writes reach it again. Acknowledged
/// writes that it has lost stay lost.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceClear {
    /// The device.
    pub name: String,
}

/// A device after a change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneDevice {
    /// Its current state.
    pub device: DeviceInfo,
}
