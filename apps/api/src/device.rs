//! Devices.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// `file`, `block`, `ram`, `null`, `flash` or `pcm`; `remote` or `mirror` for a volume elsewhere.
    pub kind: String,
    /// The kind, the path or size, and the options that it is configured with, for example
    /// `file:/srv/flash.img,size=16GiB`. Absent for a volume of another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
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
    /// The wear of a model of flash. Absent for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashInfo>,
    /// The wear of a model of phase-change memory. Absent for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcm: Option<PcmInfo>,
}

/// The wear of a model of flash since the start of the node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct FlashInfo {
    /// Bytes that were written to the device.
    pub host_bytes: u64,
    /// Pages that these writes programmed. A write of a part of a page programs all of it.
    pub host_pages: u64,
    /// Pages that garbage collection moved.
    pub moved_pages: u64,
    /// Pages that wear levelling moved.
    pub levelled_pages: u64,
    /// Bytes programmed for each byte that was written; 1 before the first write.
    pub write_amplification: f64,
    /// The erases of the blocks.
    pub erases: ErasesInfo,
    /// The erases that a block endures.
    pub endurance: u32,
    /// The mean number of erases, as a share of the endurance.
    pub life_used: f64,
    /// Blocks that are worn out, and out of use.
    pub retired_blocks: u32,
    /// Blocks that can still replace worn ones.
    pub replacement_blocks: u32,
    /// Whether the device is worn out: it refuses writes.
    pub worn_out: bool,
}

/// The distribution of erases over blocks.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ErasesInfo {
    /// The least.
    pub min: u32,
    /// The median.
    pub median: u32,
    /// The most.
    pub max: u32,
    /// Ranges of erases of the same width, without the empty ones.
    pub buckets: Vec<EraseBucket>,
}

/// The blocks that were erased so often.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct EraseBucket {
    /// The fewest erases.
    pub from: u32,
    /// The most erases.
    pub to: u32,
    /// The number of blocks.
    pub blocks: u32,
}

/// The wear of a model of phase-change memory since the start of the node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PcmInfo {
    /// Bytes that were written to the device.
    pub host_bytes: u64,
    /// Lines that these writes wrote.
    pub host_lines: u64,
    /// Lines that start-gap moved.
    pub moved_lines: u64,
    /// The most writes of a place of a line.
    pub line_writes_max: u32,
    /// The mean of the writes of all places.
    pub line_writes_mean: f64,
    /// The writes that a place endures.
    pub endurance: u32,
    /// The most writes, as a share of the endurance.
    pub life_used: f64,
    /// The mean time of a read in the model. Answers do not wait for it.
    pub mean_read_ns: u64,
    /// The mean time of a write in the model. Answers do not wait for it.
    pub mean_write_ns: u64,
    /// Whether the device is worn out: it refuses writes.
    pub worn_out: bool,
}

/// Clears the suspect state of a device: flushes and durable writes reach it again. Acknowledged
/// writes that it has lost stay lost.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceClear {
    /// The device.
    pub name: String,
}

/// Lists all devices.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceList {}

/// All devices.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Devices {
    /// In the order of the configuration.
    pub devices: Vec<DeviceInfo>,
}

/// A device after a change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct OneDevice {
    /// Its current state.
    pub device: DeviceInfo,
}
