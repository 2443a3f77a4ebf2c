//! What was done with volumes, in NVMe's terms.

use std::fmt::Debug;

use crate::VolumeId;

/// The traffic counters of a volume.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Reads and comparisons that succeeded.
    pub reads: u64,
    /// Writes of payload that succeeded.
    pub writes: u64,
    /// Bytes of those reads and comparisons.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Requests that the medium failed.
    pub media_errors: u64,
}

impl Traffic {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            media_errors: self.media_errors.saturating_add(other.media_errors),
        }
    }
}

/// Knows the traffic of volumes, on all cores and in earlier runs.
pub trait Usage: Debug + Send + Sync {
    /// All that was done with a volume.
    fn of(&self, volume: VolumeId) -> Traffic;
}
