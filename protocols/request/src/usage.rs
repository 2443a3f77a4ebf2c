//! The traffic counters of volumes, as NVMe's SMART / Health Information log reports them.

use std::fmt::Debug;

use crate::VolumeId;

/// The traffic counters of a volume.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Successful reads and comparisons.
    pub reads: u64,
    /// Successful writes of payload.
    pub writes: u64,
    /// Bytes of those reads and comparisons.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Requests that failed because of the medium.
    pub media_errors: u64,
}

impl Traffic {
    /// The sum of both.
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

/// A source of traffic counters.
pub trait Usage: Debug + Send + Sync {
    /// The traffic of a volume, on all cores and in all runs.
    fn of(&self, volume: VolumeId) -> Traffic;
}
