//! Devices.

use nearflash_units::ByteLen;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Level;

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
    /// Whether its file ends before the device does: writes fail, and so do reads behind the end. Absent if
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The file system below a device that is a file. Absent for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<BackingInfo>,
    /// The wear of a model of flash. Absent for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashInfo>,
    /// The wear of a model of phase-change memory. Absent for other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcm: Option<PcmInfo>,
}

/// The file system below a device that is a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct BackingInfo {
    /// Whether it is enough.
    pub state: BackingState,
    /// The bytes that are free in the file system.
    pub free_bytes: u64,
    /// The bytes of the device that have no storage in the file system yet.
    pub unallocated_bytes: u64,
}

/// Whether the file system has room for the devices that are files in it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackingState {
    /// It has room for all that they have not allocated yet.
    #[default]
    Enough,
    /// It has less: writes will fail once it is full.
    Overcommitted,
    /// It has none: writes to blocks without storage fail.
    Full,
}

impl DeviceInfo {
    /// Its health in a word.
    pub fn health(&self) -> &'static str {
        let worn_out = self.flash.as_ref().is_some_and(|it| it.worn_out)
            || self.pcm.as_ref().is_some_and(|it| it.worn_out);
        let backing = self.backing.map(|it| it.state).unwrap_or_default();
        match (backing, worn_out) {
            _ if self.truncated => "truncated",
            _ if self.suspect => "suspect",
            (_, true) => "worn-out",
            (BackingState::Full, _) => "full",
            (BackingState::Overcommitted, _) => "overcommitted",
            (BackingState::Enough, false) => "good",
        }
    }

    /// The faults of its contents and its file, each in one line with the remedy.
    pub fn faults(&self) -> Vec<(Level, String)> {
        let name = &self.name;
        let truncated = self.truncated.then(|| {
            let fault = format!(
                "device '{name}' is truncated: its file ends before the device does, and all writes fail: \
                 stop the node, and restore the file from a backup"
            );
            (Level::Problem, fault)
        });
        // Clearing does not help a device whose file lacks a part.
        let suspect = (self.suspect && !self.truncated).then(|| {
            let fault = format!(
                "device '{name}' failed a flush or a durable write: both fail until 'nearflash device \
                 clear {name}'"
            );
            (Level::Problem, fault)
        });
        let backing = self.backing.and_then(|it| it.fault(name));
        truncated.into_iter().chain(suspect).chain(backing).collect()
    }
}

impl BackingInfo {
    /// The fault of the device of this name.
    pub fn fault(&self, name: &str) -> Option<(Level, String)> {
        // Rounded down, for people.
        let mib = |bytes: u64| ByteLen(bytes >> 20 << 20);
        let (free, unallocated) = (mib(self.free_bytes), mib(self.unallocated_bytes));
        match self.state {
            BackingState::Enough => None,
            BackingState::Overcommitted => {
                let fault = format!(
                    "device '{name}' is overcommitted: its file system has {free} free, less than its files \
                     may still need ({unallocated} for this one): free space there before writes fail"
                );
                Some((Level::Warning, fault))
            }
            // Space was freed since, or a quota or limit has refused the write.
            BackingState::Full if self.free_bytes > self.unallocated_bytes => {
                let fault = format!(
                    "device '{name}' had no room for a write in the last minute, although its file system has \
                     {free} free now: if writes still fail, look at the quotas of the node's user there"
                );
                Some((Level::Problem, fault))
            }
            BackingState::Full => {
                let fault = format!(
                    "device '{name}' has no room: its file system is full ({free} free, {unallocated} not \
                     allocated), and writes fail: free space there"
                );
                Some((Level::Problem, fault))
            }
        }
    }
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
