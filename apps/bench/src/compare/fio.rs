//! fio, where it is installed: the same workload on the same file, through other people's code.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nearflash_units::{ByteLen, Nanos};
use serde_json::Value;

use super::programs::find;
use crate::placement::CoreId;
use crate::workload::Pattern;

const PROGRAM: &str = "fio";
/// Said of what needs it where it is not.
pub const FIO_NOT_INSTALLED: &str = "fio is not installed (Debian: fio)";

/// Why fio says nothing.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It cannot be started.
    #[error("cannot start fio: {0}; is it installed (Debian: fio)?")]
    Start(#[from] io::Error),
    /// It failed.
    #[error("fio of {path} says no rate: {said}", path = .path.display())]
    NoRate {
        /// Of what.
        path: PathBuf,
        /// What it said instead.
        said: String,
    },
}

/// A workload in fio's words, by its io_uring engine, with registered buffers and files as our own
/// engine has them.
#[derive(Clone, Debug)]
pub struct FioSpec {
    /// The file or device.
    pub path: PathBuf,
    /// What is done.
    pub pattern: Pattern,
    /// Of a mixed pattern, the share of reads, in per cent.
    pub read_percent: u8,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Operations in flight.
    pub depth: u32,
    /// Length of the range.
    pub range_len: ByteLen,
    /// Time not counted.
    pub ramp: Nanos,
    /// Time counted.
    pub runtime: Nanos,
    /// Where its job runs.
    pub core: CoreId,
}

/// Rate and latency, as any generator of loads tells them. Latency is of the reads, if there are any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadFigure {
    /// Operations per second, of both directions.
    pub iops: f64,
    /// Half are below, in nanoseconds.
    pub p50_ns: f64,
    /// 99 % are below, in nanoseconds.
    pub p99_ns: f64,
}

/// Whether it is there.
pub fn is_fio_installed() -> bool {
    find(PROGRAM).is_some()
}

/// Runs fio once.
///
/// # Errors
/// When it cannot be started or fails.
pub fn measure_fio(spec: &FioSpec) -> Result<LoadFigure, FioError> {
    let output = Command::new(PROGRAM).args(words(spec)).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    match figure_of(&said).filter(|_| output.status.success()) {
        Some(figure) => Ok(figure),
        None => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("nothing").to_owned();
            Err(FioError::NoRate { path: spec.path.clone(), said })
        }
    }
}

/// fio's command line. Latency is the whole of it: to submit and to complete.
fn words(spec: &FioSpec) -> Vec<String> {
    let micros = |span: Nanos| format!("{}us", span.0 / 1000);
    let settings = [
        ("name", "nearflash".to_owned()),
        ("filename", spec.path.display().to_string()),
        ("ioengine", "io_uring".to_owned()),
        ("registerfiles", "1".to_owned()),
        ("fixedbufs", "1".to_owned()),
        ("direct", "1".to_owned()),
        ("thread", "1".to_owned()),
        ("rw", spec.pattern.name().to_owned()),
        ("rwmixread", spec.read_percent.to_string()),
        ("bs", spec.op_len.0.to_string()),
        ("iodepth", spec.depth.to_string()),
        ("size", spec.range_len.0.to_string()),
        ("time_based", "1".to_owned()),
        ("ramp_time", micros(spec.ramp)),
        ("runtime", micros(spec.runtime)),
        ("cpus_allowed", spec.core.0.to_string()),
        ("clat_percentiles", "0".to_owned()),
        ("lat_percentiles", "1".to_owned()),
        ("percentile_list", "50:99".to_owned()),
        ("output-format", "json".to_owned()),
    ];
    settings.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// What its JSON says.
fn figure_of(said: &str) -> Option<LoadFigure> {
    // It may say something to people first.
    let document: Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
    let job = document.get("jobs")?.get(0)?;
    let iops = |direction: &str| job[direction]["iops"].as_f64().unwrap_or(0.0);
    let latency = |direction: &str, percentile: &str| {
        job[direction]["lat_ns"]["percentile"][percentile].as_f64()
    };
    let direction = if iops("read") > 0.0 { "read" } else { "write" };
    let total = iops("read") + iops("write");
    (total > 0.0).then_some(LoadFigure {
        iops: total,
        p50_ns: latency(direction, "50.000000")?,
        p99_ns: latency(direction, "99.000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version": "fio-3.33", "jobs": [{"jobname": "nearflash",
  "read": {"iops": 700.5, "lat_ns": {"percentile": {"50.000000": 61696, "99.000000": 116224}}},
  "write": {"iops": 299.5, "lat_ns": {"percentile": {"50.000000": 7, "99.000000": 9}}}}]}"#;

    #[test]
    fn both_directions_count_and_latency_is_that_of_reads() {
        let figure = figure_of(SAID).unwrap();
        assert_eq!(figure, LoadFigure { iops: 1000.0, p50_ns: 61_696.0, p99_ns: 116_224.0 });
    }

    #[test]
    fn what_is_no_result_has_none() {
        assert_eq!(figure_of("fio: file not found"), None);
        assert_eq!(figure_of("{}"), None);
        assert_eq!(figure_of(r#"{"jobs": [{"read": {"iops": 0}, "write": {"iops": 0}}]}"#), None);
    }

    #[test]
    fn settings_are_written_as_fio_reads_them() {
        let spec = FioSpec {
            path: "/dev/x".into(),
            pattern: Pattern::RandRw,
            read_percent: 70,
            op_len: ByteLen(4096),
            depth: 8,
            range_len: ByteLen(1 << 20),
            ramp: Nanos::from_millis(50),
            runtime: Nanos::from_millis(500),
            core: CoreId(1),
        };
        let words = words(&spec);
        for word in ["--rw=randrw", "--bs=4096", "--runtime=500000us", "--cpus_allowed=1"] {
            assert!(words.iter().any(|it| it == word), "{word} in {words:?}");
        }
    }
}
