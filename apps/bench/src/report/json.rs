//! fio's JSON layout, so that tools for fio's reports can read ours.
//!
//! Latency counts from the intended start of an operation to its completion. Operations are
//! submitted in batches, so there is no submission latency of a single one: `slat_ns` is empty, and
//! `clat_ns` equals `lat_ns`.

use hdrhistogram::Histogram;
use nearflash_units::Nanos;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Breakdown, NodeStages, Report, SCHEMA};
use crate::recorder::{Record, Stream, per_second};
use crate::workload::Direction;

pub(super) fn document(report: &Report) -> String {
    let document = Document::of(report);
    let mut text = serde_json::to_string_pretty(&document).expect("numbers and strings serialize");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    #[serde(rename = "fio version")]
    version: String,
    timestamp: u64,
    timestamp_ms: u64,
    #[serde(rename = "global options")]
    global_options: Options<'a>,
    jobs: [Job<'a>; 1],
    disk_util: [(); 0],
}

/// A map with the pairs in the given order.
struct Options<'a>(&'a [(&'static str, String)]);

impl Serialize for Options<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
struct Job<'a> {
    jobname: &'a str,
    groupid: u32,
    error: u32,
    eta: u32,
    elapsed: u64,
    #[serde(rename = "job options")]
    options: JobOptions<'a>,
    read: DirectionPart,
    write: DirectionPart,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    cpu_ns_per_io: f64,
    latency_ns: Buckets,
    latency_us: Buckets,
    latency_ms: Buckets,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<FloorPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    breakdown: Option<BreakdownPart>,
    /// Only if it is true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shared_processor: bool,
}

#[derive(Serialize)]
struct JobOptions<'a> {
    name: &'a str,
    filename: &'a str,
}

#[derive(Serialize)]
struct DirectionPart {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: LatencyPart,
    clat_ns: LatencyPart,
    lat_ns: LatencyPart,
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: usize,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: usize,
}

#[derive(Serialize)]
struct LatencyPart {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<Percentiles>,
}

/// `"99.000000": nanoseconds`, ascending.
struct Percentiles(Vec<(f64, u64)>);

impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(p, value)| (format!("{p:.6}"), value)))
    }
}

/// The parts of the mean latency in nanoseconds, in order.
#[derive(Serialize)]
struct BreakdownPart {
    mean_ns: f64,
    parts: Vec<PartOfMean>,
    /// Requests that the node has traced.
    node_requests: usize,
    /// The reason why the stages in the node are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_unknown: Option<String>,
}

#[derive(Serialize)]
struct PartOfMean {
    name: &'static str,
    mean_ns: f64,
}

impl BreakdownPart {
    fn of(breakdown: &Breakdown) -> Self {
        let part = |(name, mean_ns)| PartOfMean { name, mean_ns };
        let node = breakdown.node();
        Self {
            mean_ns: breakdown.mean_ns(),
            parts: breakdown.parts().into_iter().map(part).collect(),
            node_requests: node.map_or(0, NodeStages::requests),
            node_unknown: node.err().map(ToString::to_string),
        }
    }
}

#[derive(Serialize)]
struct FloorPart {
    iops: f64,
    latency_ns: f64,
    iops_ratio: f64,
    latency_ratio: f64,
    core_to_core_ns: [u64; 2],
    comparable: bool,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        Self {
            schema: SCHEMA,
            version: concat!("nearflash-", env!("CARGO_PKG_VERSION")).to_owned(),
            timestamp: report.timestamp_ms / 1000,
            timestamp_ms: report.timestamp_ms,
            global_options: Options(&report.options),
            jobs: [Job::of(report)],
            disk_util: [],
        }
    }
}

impl<'a> Job<'a> {
    fn of(report: &'a Report) -> Self {
        let record = &report.record;
        let share = |time: Nanos| percent(time.0, record.elapsed.0 * u64::from(report.job_count));
        let buckets = Split::of(record);
        Self {
            jobname: &report.name,
            groupid: 0,
            error: 0,
            eta: 0,
            elapsed: record.elapsed.0.div_ceil(1_000_000_000),
            options: JobOptions { name: &report.name, filename: &report.target },
            read: DirectionPart::of(report, Direction::Read),
            write: DirectionPart::of(report, Direction::Write),
            job_runtime: millis(record.elapsed) * u64::from(report.job_count),
            usr_cpu: share(record.cpu.user),
            sys_cpu: share(record.cpu.system),
            cpu_ns_per_io: record.cpu.total.0 as f64 / record.ops().max(1) as f64,
            latency_ns: buckets.nanos,
            latency_us: buckets.micros,
            latency_ms: buckets.millis,
            floor: report.floor.as_ref().map(|floor| FloorPart {
                iops: floor.iops,
                latency_ns: floor.latency_ns,
                iops_ratio: floor.iops_ratio,
                latency_ratio: floor.latency_ratio,
                core_to_core_ns: floor.core_to_core.map(|nanos| nanos.0),
                comparable: floor.is_comparable(),
            }),
            breakdown: report.breakdown.as_ref().map(BreakdownPart::of),
            shared_processor: report.shared_processor,
        }
    }
}

impl DirectionPart {
    fn of(report: &Report, direction: Direction) -> Self {
        let stream = report.record.stream(direction);
        let elapsed = report.record.elapsed;
        let rates = report.samples.iops(direction);
        let bandwidth = per_second(stream.len.0, elapsed);
        // All operations have one length, so bandwidth is the rate times that length, in KiB as in
        // fio.
        let kib = stream.len.0 as f64 / stream.ops.max(1) as f64 / 1024.0;
        Self {
            io_bytes: stream.len.0,
            io_kbytes: stream.len.0 / 1024,
            bw_bytes: whole(bandwidth),
            bw: whole(bandwidth / 1024.0),
            iops: per_second(stream.ops, elapsed),
            runtime: if stream.ops == 0 { 0 } else { millis(elapsed) },
            total_ios: stream.ops,
            short_ios: 0,
            drop_ios: 0,
            slat_ns: LatencyPart::empty(),
            clat_ns: LatencyPart::of(stream, Some(&report.percentiles.0)),
            lat_ns: LatencyPart::of(stream, None),
            bw_min: whole(rates.min * kib),
            bw_max: whole(rates.max * kib),
            bw_agg: if stream.ops == 0 { 0.0 } else { 100.0 },
            bw_mean: rates.mean * kib,
            bw_dev: rates.stddev * kib,
            bw_samples: rates.count,
            iops_min: whole(rates.min),
            iops_max: whole(rates.max),
            iops_mean: rates.mean,
            iops_stddev: rates.stddev,
            iops_samples: rates.count,
        }
    }
}

impl LatencyPart {
    fn empty() -> Self {
        Self { min: 0, max: 0, mean: 0.0, stddev: 0.0, count: 0, percentile: None }
    }

    fn of(stream: &Stream, percentiles: Option<&[f64]>) -> Self {
        let histogram = &stream.latency;
        if histogram.is_empty() {
            return Self::empty();
        }
        let value = |p: &f64| (*p, histogram.value_at_percentile(*p));
        Self {
            min: histogram.min(),
            max: histogram.max(),
            mean: histogram.mean(),
            stddev: histogram.stdev(),
            count: histogram.len(),
            percentile: percentiles.map(|list| Percentiles(list.iter().map(value).collect())),
        }
    }
}

/// The percentage of operations per bucket.
struct Buckets(Vec<(String, f64)>);

impl Serialize for Buckets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (bound, share) in &self.0 {
            map.serialize_entry(bound, share)?;
        }
        map.end()
    }
}

/// The whole distribution in fio's coarse buckets, in three units.
struct Split {
    nanos: Buckets,
    micros: Buckets,
    millis: Buckets,
}

impl Split {
    fn of(record: &Record) -> Self {
        let cells: Vec<(u64, u64)> = [&record.read.latency, &record.write.latency]
            .into_iter()
            .flat_map(Histogram::iter_recorded)
            .map(|cell| (cell.value_iterated_to(), cell.count_at_value()))
            .collect();
        let share = |from, until| {
            let within = cells.iter().filter(|(value, _)| (from..until).contains(value));
            percent(within.map(|(_, count)| count).sum(), record.ops())
        };
        let unit = |factor: u64, from: u64, bounds: &[u64], last: &str| {
            let mut below = from;
            let mut parts = Vec::new();
            for bound in bounds {
                let until = bound * factor;
                parts.push((bound.to_string(), share(below, until)));
                below = until;
            }
            if !last.is_empty() {
                parts.push((last.to_owned(), share(below, u64::MAX)));
            }
            Buckets(parts)
        };
        let small = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
        let large = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];
        Self {
            nanos: unit(1, 0, &small, ""),
            micros: unit(1_000, 1_000, &small, ""),
            millis: unit(1_000_000, 1_000_000, &large, ">=2000"),
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn millis(span: Nanos) -> u64 {
    span.0 / 1_000_000
}

/// Truncates a number that is neither negative nor near 2^64.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and bandwidths; the cast saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::CpuTime;
    use crate::report::PercentileList;
    use crate::report::{FloorComparison, Sample, Samples};
    use nearflash_units::ByteLen;

    fn report() -> Report {
        let mut record = Record {
            elapsed: Nanos::from_secs(2),
            cpu: CpuTime {
                total: Nanos::from_millis(1500),
                user: Nanos::from_millis(500),
                system: Nanos::from_millis(1000),
            },
            ..Record::default()
        };
        for micros in 1..=1000 {
            record.completed(Direction::Read, ByteLen(4096), Nanos::from_micros(micros));
        }
        record.completed(Direction::Write, ByteLen(4096), Nanos(900));
        let sample = |reads| Sample { span: Nanos::from_millis(500), reads, writes: 0 };
        Report {
            name: "bench".to_owned(),
            target: "nvme-tcp://127.0.0.1:4420/nqn.2026-11.io.nearflash:data".to_owned(),
            options: vec![("rw", "randrw".to_owned()), ("bs", "4KiB".to_owned())],
            timestamp_ms: 1_795_000_000_123,
            record,
            job_count: 1,
            samples: Samples(vec![sample(200), sample(300)]),
            percentiles: PercentileList(vec![50.0, 99.0, 99.99]),
            floor: Some(FloorComparison {
                iops: 520.0,
                latency_ns: 490_000.0,
                iops_ratio: 0.96,
                latency_ratio: 1.02,
                core_to_core: [Nanos(50), Nanos(52)],
            }),
            breakdown: None,
            shared_processor: false,
        }
    }

    #[test]
    fn a_run_on_the_processor_of_the_node_says_so_with_the_remedy() {
        let report = Report { shared_processor: true, ..report() };
        let text = report.to_text();
        assert!(text.ends_with("on another (taskset -c, serve --cores)\n"), "{text}");
        assert!(document(&report).contains("\"shared_processor\": true"));
    }

    #[test]
    fn the_document_is_fios_and_carries_a_schema() {
        insta::assert_snapshot!(document(&report()));
    }

    #[test]
    fn the_summary_names_rates_latencies_processor_time_and_floor() {
        insta::assert_snapshot!(report().to_text());
    }

    #[test]
    fn the_coarse_buckets_hold_every_operation_once() {
        let split = Split::of(&report().record);
        let sum: f64 = [&split.nanos, &split.micros, &split.millis]
            .iter()
            .flat_map(|buckets| buckets.0.iter().map(|(_, share)| share))
            .sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    }
}
