//! What fio says of a job in its JSON, and running it: the one reader of both.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::programs::find;

const PROGRAM: &str = "fio";
/// Said of what needs it where it is not.
pub const FIO_NOT_INSTALLED: &str = "fio is not installed (Debian: fio)";

/// Why fio says nothing.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It is not there.
    #[error("{FIO_NOT_INSTALLED}")]
    Absent,
    /// It cannot be started.
    #[error("cannot start fio: {0}")]
    Start(#[from] io::Error),
    /// It says why not.
    #[error("fio: {0}")]
    Refused(String),
    /// What it wrote is not what is known of it.
    #[error("fio's JSON is not understood: is it another program of that name?")]
    Json,
    /// No operation ended.
    #[error("fio did nothing in the time it had: give it more with a longer run")]
    NoRate,
}

/// Whether it is there.
pub fn is_fio_installed() -> bool {
    find(PROGRAM).is_some()
}

/// A job, or all jobs that it reports as one. Times are as fio has them: processor time in per cent of
/// a core for each of its processes, durations in milliseconds, latencies in nanoseconds.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct FioJob {
    /// Reads.
    #[serde(default)]
    pub read: FioSide,
    /// Writes.
    #[serde(default)]
    pub write: FioSide,
    /// In its own code.
    #[serde(default)]
    pub usr_cpu: f64,
    /// In the kernel.
    #[serde(default)]
    pub sys_cpu: f64,
}

/// One direction of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct FioSide {
    /// Operations that ended.
    pub total_ios: u64,
    /// Of them, in a second.
    pub iops: f64,
    /// Over this long, in milliseconds.
    pub runtime: f64,
    /// From submission to completion.
    pub lat_ns: FioLatency,
}

/// Latency, in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct FioLatency {
    /// Mean.
    pub mean: f64,
    /// The longest.
    pub max: f64,
    percentile: BTreeMap<String, f64>,
}

impl FioLatency {
    /// What `percent` of the operations stay below, if fio was asked for that percentile.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentile.get(&format!("{percent:.6}")).copied()
    }
}

impl FioJob {
    /// What its JSON says of the first job.
    pub fn parse(said: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Document {
            jobs: Vec<FioJob>,
        }
        // It may say something to people first.
        let document: Document = serde_json::from_str(&said[said.find('{')?..]).ok()?;
        document.jobs.into_iter().next()
    }

    /// Operations of both directions.
    pub fn ops(&self) -> u64 {
        self.read.total_ios.saturating_add(self.write.total_ios)
    }

    /// Rate of both directions.
    pub fn iops(&self) -> f64 {
        self.read.iops + self.write.iops
    }

    /// The direction with more operations, reads of as many. Percentiles of two directions cannot be
    /// put together.
    pub fn main_side(&self) -> &FioSide {
        if self.read.iops >= self.write.iops { &self.read } else { &self.write }
    }
}

/// Runs fio once, with these words, of which `--output-format=json` is one.
///
/// # Errors
/// When it is not there, cannot be started or fails.
pub fn run_fio(words: &[String]) -> Result<FioJob, FioError> {
    let program = find(PROGRAM).ok_or(FioError::Absent)?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| !line.trim().is_empty());
        return Err(FioError::Refused(line.unwrap_or("it failed and does not say why").to_owned()));
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
