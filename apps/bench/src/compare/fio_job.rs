//! Runs fio and parses a job of its JSON report.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::programs::find;

const PROGRAM: &str = "fio";
/// The message about rows that need fio, if it is not installed.
pub const FIO_NOT_INSTALLED: &str = "fio is not installed (Debian: fio)";

/// Errors of fio.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// fio is not installed.
    #[error("{FIO_NOT_INSTALLED}")]
    Absent,
    /// fio cannot be started.
    #[error("cannot start fio: {0}")]
    Start(#[from] io::Error),
    /// fio failed with this error.
    #[error("fio: {0}")]
    Refused(String),
    /// fio's output has an unknown format.
    #[error("fio's JSON has an unknown format: is it another program of that name?")]
    Json,
    /// No operation completed.
    #[error("fio completed no operation in the given time: use a longer run")]
    NoRate,
}

/// Whether fio is installed.
pub fn is_fio_installed() -> bool {
    find(PROGRAM).is_some()
}

/// A job, or a group of jobs reported as one. Units are fio's: processor time in per cent of a core
/// for each process, durations in milliseconds, latencies in nanoseconds.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct FioJob {
    /// Reads.
    #[serde(default)]
    pub read: FioSide,
    /// Writes.
    #[serde(default)]
    pub write: FioSide,
    /// User time.
    #[serde(default)]
    pub usr_cpu: f64,
    /// System time.
    #[serde(default)]
    pub sys_cpu: f64,
}

/// One direction of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct FioSide {
    /// Operations completed.
    pub total_ios: u64,
    /// Operations per second.
    pub iops: f64,
    /// Duration in milliseconds.
    pub runtime: f64,
    /// Latency from submission to completion.
    pub lat_ns: FioLatency,
    /// Latency of completions. Our own reports, in which both are equal, have the percentiles here, as
    /// fio's have by default.
    pub clat_ns: FioLatency,
}

/// Latency, in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct FioLatency {
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub max: f64,
    percentile: BTreeMap<String, f64>,
}

impl FioLatency {
    /// A percentile; `None` if it is not in fio's `percentile_list`.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentile.get(&format!("{percent:.6}")).copied()
    }
}

impl FioJob {
    /// Parses the first job of fio's JSON output.
    pub fn parse(said: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Document {
            jobs: Vec<FioJob>,
        }
        // fio may print messages before the JSON.
        let document: Document = serde_json::from_str(&said[said.find('{')?..]).ok()?;
        document.jobs.into_iter().next()
    }

    /// Operations of both directions.
    pub fn ops(&self) -> u64 {
        self.read.total_ios.saturating_add(self.write.total_ios)
    }

    /// Operations per second of both directions.
    pub fn iops(&self) -> f64 {
        self.read.iops + self.write.iops
    }

    /// The direction with the higher rate; reads if they are equal. Percentiles of two directions
    /// cannot be combined.
    pub fn main_side(&self) -> &FioSide {
        if self.read.iops >= self.write.iops { &self.read } else { &self.write }
    }
}

/// Runs fio once with these arguments, which must include `--output-format=json`.
///
/// # Errors
/// When fio is not installed, cannot be started or fails.
pub fn run_fio(words: &[String]) -> Result<FioJob, FioError> {
    let program = find(PROGRAM).ok_or(FioError::Absent)?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| !line.trim().is_empty());
        return Err(FioError::Refused(line.unwrap_or("it failed without a message").to_owned()));
    }
    FioJob::parse(&String::from_utf8_lossy(&output.stdout)).ok_or(FioError::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version": "fio-3.39", "jobs": [{"jobname": "j", "usr_cpu": 10.5, "sys_cpu": 15.25,
  "read": {"total_ios": 700, "iops": 700.5, "runtime": 1000, "lat_ns": {"min": 5, "max": 990000,
    "mean": 62000.5, "percentile": {"50.000000": 61696, "99.900000": 116224}}},
  "write": {"total_ios": 299, "iops": 299.5, "lat_ns": {"percentile": {"50.000000": 7}}}}]}"#;

    #[test]
    fn both_directions_count_and_latency_is_that_of_the_more_frequent() {
        let job = FioJob::parse(SAID).unwrap();
        assert_eq!((job.ops(), job.iops()), (999, 1000.0));
        assert_eq!((job.usr_cpu, job.sys_cpu), (10.5, 15.25));
        let side = job.main_side();
        assert_eq!(
            (side.runtime, side.lat_ns.mean, side.lat_ns.max),
            (1000.0, 62_000.5, 990_000.0)
        );
        assert_eq!(side.lat_ns.percentile(50.0), Some(61_696.0));
        assert_eq!(side.lat_ns.percentile(99.9), Some(116_224.0));
        assert_eq!(side.lat_ns.percentile(95.0), None);
    }

    #[test]
    fn what_is_no_result_has_none() {
        for said in
            ["fio: file not found", "{}", r#"{"jobs": []}"#, r#"{"jobs": [5]}"#, "{\"jobs\""]
        {
            assert_eq!(FioJob::parse(said), None, "{said}");
        }
    }
}
