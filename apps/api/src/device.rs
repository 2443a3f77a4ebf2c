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
    /// Its identity.
    pub uuid: Uuid,
    /// Its size.
    pub bytes: u64,
    /// The bytes that volumes may have.
    pub data_bytes: u64,
    /// The bytes of these that no volume has.
    pub free_bytes: u64,
    /// The smallest unit that it writes whole.
    pub block_size: u32,
    /// Completed writes may be lost with power until a flush.
    pub volatile_cache: bool,
    /// It has failed a flush or a durable write: flushes fail until an operator clears it. Absent
    /// when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspect: bool,
}

/// Believes a suspect device again: flushes and durable writes go to it as before. Writes that it
/// had acknowledged and lost stay lost.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceClear {
    /// The device.
    pub name: String,
}

/// A device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneDevice {
    /// As it is now.
    pub device: DeviceInfo,
}
