//! fio, if it is installed: the same load on the same file with independent code.

use std::path::PathBuf;

use nearflash_units::{ByteLen, Nanos};

use nearflash_bench::compare::{FioError, FioJob, run_fio};
use nearflash_bench::placement::CoreId;
use nearflash_bench::workload::Pattern;

/// A load for fio's io_uring engine, with registered buffers and files like our own engine.
#[derive(Clone, Debug)]
pub struct FioSpec {
    /// The file or device.
    pub path: PathBuf,
    /// Direction and order.
    pub pattern: Pattern,
    /// The share of reads in per cent, for mixed patterns.
    pub read_percent: u8,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Operations in flight.
    pub depth: u32,
    /// Length of the range.
    pub range_len: ByteLen,
    /// Ramp.
    pub ramp: Nanos,
    /// Counted time.
    pub runtime: Nanos,
    /// The core of its job.
    pub core: CoreId,
}

/// Rate and latency of any load generator. The latency is that of the more frequent direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadFigure {
    /// Operations per second, both directions together.
    pub iops: f64,
    /// Median latency, in nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99_ns: f64,
}

/// Runs fio once.
///
/// # Errors
/// When fio cannot be started or fails.
pub fn measure_fio(spec: &FioSpec) -> Result<LoadFigure, FioError> {
    figure_of(&run_fio(&words(spec))?).ok_or(FioError::NoRate)
}

/// fio's command line. Latency is the total of submission and completion.
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

/// The figures of a job; `None` if no operation completed.
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
