//! Traces: the stages that some requests passed, each with its time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest trace, in seconds.
pub const TRACE_SECONDS_MAX: u64 = 60;

/// The maximum number of requests in the answer.
pub const TRACE_REQUESTS_MAX: u32 = 10_000;

/// Traces requests for a time, and answers when it is over, or when each core has its part of the records. A node traces for one caller at a time. Without such a
/// call, it measures no stages.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRun {
    /// The length of the trace in seconds: 1 to 60, by default 1.
    #[serde(default = "one_second")]
    pub seconds: u64,
    /// Traces one in so many requests, by default 100.
    #[serde(default = "one_in_a_hundred")]
    pub every: u32,
    /// The maximum number of requests in the answer: 1 to 10,000, by default 1000. Each core takes an equal part.
    #[serde(default = "a_thousand")]
    pub records: u32,
    /// Traces only requests to this volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

fn one_second() -> u64 {
    1
}

fn one_in_a_hundred() -> u32 {
    100
}

fn a_thousand() -> u32 {
    1000
}

impl Default for TraceRun {
    fn default() -> Self {
        let (seconds, every, records) = (one_second(), one_in_a_hundred(), a_thousand());
        Self { seconds, every, records, volume: None }
    }
}

/// Traced requests.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Trace {
    /// One in so many requests was traced.
    pub every: u32,
    /// The requests that were answered before the end, by their arrival on each core.
    pub requests: Vec<TracedRequest>,
    /// The number of traced requests whose answers had not been sent at the end.
    pub unfinished: u64,
    /// A core had its part of the records before the end, and then traced no more.
    pub is_full: bool,
    /// The processors of cores that did not answer.
    pub silent: Vec<usize>,
}

/// A traced request.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TracedRequest {
    /// The processor of its core.
    pub core: usize,
    /// The number of its connection on this core: a queue of an NVMe host, or a connection of a session. It is used
    /// again after the end of the connection.
    pub connection: u32,
    /// `nvme-tcp`, `iscsi` or `direct`.
    pub protocol: String,
    /// The host, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The volume; absent if it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// `read`, `write`, `flush`, `write-zeroes`, `deallocate`, `compare`, or another one.
    pub operation: String,
    /// The length of its range.
    pub bytes: u64,
    /// The other requests of the core in flight when it came.
    pub in_flight: u32,
    /// When the node had read it, in nanoseconds since the start of the node.
    pub received_ns: u64,
    /// Its stages. Their sum is the whole time in the node.
    pub stages: StageTimes,
}

/// The times of the stages, in nanoseconds, in their order.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct StageTimes {
    /// Until the session has decoded it: since the node has read the last bytes that it needed, including those of
    /// its data.
    pub decode_ns: u64,
    /// In the admission queue, for a buffer, a device or a turn.
    pub admission_ns: u64,
    /// Until its first operation is handed to a device or another node.
    pub submission_ns: u64,
    /// Until the core has seen the end of its last operation.
    pub device_ns: u64,
    /// Until its session has the answer.
    pub answer_ns: u64,
    /// Until the socket or the ring has taken the answer.
    pub sending_ns: u64,
}

impl StageTimes {
    /// The names of the stages, in order.
    pub const NAMES: [&str; 6] =
        ["decode", "admission", "submission", "device", "answer", "sending"];

    /// The times, in the same order.
    pub fn all(&self) -> [u64; 6] {
        let Self { decode_ns, admission_ns, submission_ns, device_ns, answer_ns, sending_ns } =
            *self;
        [decode_ns, admission_ns, submission_ns, device_ns, answer_ns, sending_ns]
    }

    /// The times in that order.
    pub fn of(all: [u64; 6]) -> Self {
        let [decode_ns, admission_ns, submission_ns, device_ns, answer_ns, sending_ns] = all;
        Self { decode_ns, admission_ns, submission_ns, device_ns, answer_ns, sending_ns }
    }

    /// The whole time in the node.
    pub fn whole_ns(&self) -> u64 {
        self.all().iter().sum()
    }
}

/// The distribution of the times of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageSummary {
    /// The mean in nanoseconds.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl StageSummary {
    /// The distribution of these times; zeroes for none.
    pub fn of(times: impl Iterator<Item = u64>) -> Self {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        let Some(max_ns) = times.last().copied() else { return Self::default() };
        let sum: u64 = times.iter().sum();
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let mean_ns = sum as f64 / times.len() as f64;
        Self { mean_ns, p50_ns: at(50), p99_ns: at(99), max_ns }
    }

    /// The distribution of each stage of these requests, in the order of [`StageTimes::NAMES`].
    pub fn of_stages(requests: &[TracedRequest]) -> [Self; 6] {
        std::array::from_fn(|stage| Self::of(requests.iter().map(|it| it.stages.all()[stage])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stages: [u64; 6]) -> TracedRequest {
        TracedRequest { stages: StageTimes::of(stages), ..TracedRequest::default() }
    }

    #[test]
    fn the_means_of_the_stages_add_up_to_the_mean_of_the_whole() {
        let requests = [request([1, 0, 3, 100, 5, 6]), request([2, 50, 4, 300, 7, 9])];
        let stages = StageSummary::of_stages(&requests);
        let whole = StageSummary::of(requests.iter().map(|it| it.stages.whole_ns()));
        let sum: f64 = stages.iter().map(|stage| stage.mean_ns).sum();
        assert!((sum - whole.mean_ns).abs() < 1e-9 && (sum - 243.5).abs() < 1e-9);
        assert_eq!(
            stages[3],
            StageSummary { mean_ns: 200.0, p50_ns: 100, p99_ns: 300, max_ns: 300 }
        );
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let summary = StageSummary::of((1..=200).rev());
        assert_eq!((summary.p50_ns, summary.p99_ns, summary.max_ns), (100, 198, 200));
        assert_eq!(StageSummary::of(std::iter::empty()), StageSummary::default());
        assert_eq!(StageSummary::of([7].into_iter()).p50_ns, 7);
    }
}
