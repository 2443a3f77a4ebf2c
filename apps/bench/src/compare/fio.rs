//! fio, where it is installed: the same workload on the same file, through other people's code.

use std::path::PathBuf;

use nearflash_units::{ByteLen, Nanos};

use super::fio_job::{FioError, FioJob, run_fio};
use crate::placement::CoreId;
use crate::workload::Pattern;

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

/// Rate and latency, as any generator of loads tells them. Latency is of the more frequent direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadFigure {
    /// Operations per second, of both directions.
    pub iops: f64,
    /// Half are below, in nanoseconds.
    pub p50_ns: f64,
    /// 99 % are below, in nanoseconds.
    pub p99_ns: f64,
}

/// Runs fio once.
///
/// # Errors
/// When it cannot be started or fails.
pub fn measure_fio(spec: &FioSpec) -> Result<LoadFigure, FioError> {
    figure_of(&run_fio(&words(spec))?).ok_or(FioError::NoRate)
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

/// What it did, if anything.
fn figure_of(job: &FioJob) -> Option<LoadFigure> {
    let latency = &job.main_side().lat_ns;
    (job.iops() > 0.0).then_some(LoadFigure {
        iops: job.iops(),
        p50_ns: latency.percentile(50.0)?,
        p99_ns: latency.percentile(99.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_nothing_has_no_rate() {
        let latency = r#""lat_ns": {"percentile": {"50.000000": 61696, "99.000000": 116224}}"#;
        let said =
            |iops: u32| format!(r#"{{"jobs": [{{"read": {{"iops": {iops}, {latency}}}}}]}}"#);
        let of = |iops| figure_of(&FioJob::parse(&said(iops)).unwrap());
        let figure = LoadFigure { iops: 1000.0, p50_ns: 61_696.0, p99_ns: 116_224.0 };
        assert_eq!((of(1000), of(0)), (Some(figure), None));
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
