//! The counters of volumes and of their hosts, since the start of the node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The counters of a volume, over all hosts and cores.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct VolumeIo {
    /// The volume.
    pub volume: String,
    /// Its counters: the sums over its hosts.
    #[serde(flatten)]
    pub io: Io,
    /// Each host that has sent a request to it.
    #[serde(default)]
    pub hosts: Vec<HostIo>,
}

/// The counters of a host on a volume, over all of its connections and all cores.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct HostIo {
    /// An NVMe host's NQN, an initiator's name, or a direct client's credential. Absent for
    /// anonymous clients, and for `several`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// True if this entry is the sum of all hosts beyond the number that the node can count
    /// separately. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
    /// Its counters.
    #[serde(flatten)]
    pub io: Io,
}

/// Counters of requests. The others are flushes, zeroes, deallocations, comparisons and
/// verifications: all requests that are neither reads nor writes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Io {
    /// Successful reads.
    pub reads: u64,
    /// Successful writes.
    pub writes: u64,
    /// Successful others.
    #[serde(default)]
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that others zeroed, compared or verified.
    #[serde(default)]
    pub other_bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// Failed reads.
    #[serde(default)]
    pub read_errors: u64,
    /// Failed writes.
    #[serde(default)]
    pub write_errors: u64,
    /// Failed others.
    #[serde(default)]
    pub other_errors: u64,
    /// Requests that are in flight now.
    #[serde(default)]
    pub in_flight: u64,
    /// The part of them that waits for its turn, a buffer or a fence.
    #[serde(default)]
    pub waiting: u64,
    /// Latency of reads. Absent without reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<Latency>,
    /// Latency of writes. Absent without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<Latency>,
    /// Latency of others. Absent without others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_latency: Option<Latency>,
    /// The part of the latency that reads spent waiting, over the reads that had to wait. Absent if
    /// none had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_wait: Option<Latency>,
    /// The part of the latency that writes spent waiting. Absent if none had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_wait: Option<Latency>,
    /// The part of the latency that other requests spent waiting. Absent if none had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_wait: Option<Latency>,
}

/// Times since the arrival of requests, failed ones included. A percentile exceeds the exact one by
/// at most an eighth, or by 127 ns. The clock is read once in each turn of a core, so a request
/// that is answered in the turn in which it arrived counts as zero.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Latency {
    /// The number of requests.
    #[serde(default)]
    pub count: u64,
    /// The mean.
    #[serde(default)]
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}
