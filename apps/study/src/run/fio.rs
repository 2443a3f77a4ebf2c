//! fio as the client: on a medium itself, or over NBD. Its options express the same load as ours.

use std::path::Path;

use nearflash_bench::compare::{FioError, FioJob, run_fio};
use nearflash_bench::placement::CoreId;
use nearflash_units::ByteLen;

use super::drive::range_per_client;
use crate::local::Raw;
use crate::plan::{Layout, Load};
use crate::result::{Comparable, Cpu, Latency, Run};
use crate::timing::Timing;

/// The subject of a fio run.
pub(super) enum On<'a> {
    /// A range of a file or device.
    Raw(&'a Raw),
    /// An NBD export of this length behind a Unix socket.
    Nbd(&'a Path, ByteLen),
}

/// fio's arguments for a load.
pub(super) fn words(on: &On<'_>, load: &Load, timing: Timing, cores: &[CoreId]) -> Vec<String> {
    let cores: Vec<String> = cores.iter().map(|core| core.0.to_string()).collect();
    let (mut words, offset, len) = match on {
        On::Raw(raw) => {
            let file = format!("--filename={}", raw.path.display());
            let words = vec!["--ioengine=io_uring".to_owned(), "--direct=1".to_owned(), file];
            (words, raw.offset.0, raw.len)
        }
        On::Nbd(socket, len) => {
            let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
            (vec!["--ioengine=nbd".to_owned(), uri], 0, *len)
        }
    };
    let range = match load.layout {
        Layout::Shared => len,
        Layout::RangePerClient => {
            let share = range_per_client(len, load.clients);
            words.push(format!("--offset_increment={}", share.0));
            share
        }
    };
    words.extend([
        "--name=study".to_owned(),
        format!("--rw={}", load.pattern.name()),
        format!("--bs={}", load.op_len.0),
        format!("--iodepth={}", load.depth),
        format!("--numjobs={}", load.clients),
        format!("--offset={offset}"),
        format!("--size={}", range.0),
        "--time_based".to_owned(),
        format!("--ramp_time={}ms", timing.warm_up_ms),
        format!("--runtime={}ms", timing.counted_ms),
        "--thread".to_owned(),
        format!("--cpus_allowed={}", cores.join(",")),
        "--group_reporting".to_owned(),
        // Total latency (submission and completion), as ours is.
        "--clat_percentiles=0".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--percentile_list=50:95:99:99.9".to_owned(),
        "--output-format=json".to_owned(),
    ]);
    if load.pattern.single_direction().is_none() {
        words.push(format!("--rwmixread={}", load.read_percent));
    }
    if let Some(rate) = load.rate_iops {
        words.push(format!("--rate_iops={}", rate / u64::from(load.clients.max(1))));
    }
    words
}

/// Runs fio; returns its results and the number of cores that it used.
pub(super) fn run(words: &[String], load: &Load) -> Result<(Run, f64), FioError> {
    of(&run_fio(words)?, load).ok_or(FioError::Json)
}

/// Extracts a run, and the number of cores used, from fio's output, or from that of our own program,
/// which is alike.
pub(super) fn of(job: &FioJob, load: &Load) -> Option<(Run, f64)> {
    let side = job.main_side();
    let (iops, latency) = (job.iops(), &side.lat_ns);
    let percentile = |percent: f64| {
        let nanos = latency.percentile(percent).or_else(|| side.clat_ns.percentile(percent));
        Some(nanos? / 1e3)
    };
    // fio reports shares of a core in per cent, averaged over its jobs.
    let share = |percent: f64| percent / 100.0 * f64::from(load.clients);
    let (user, system) = (share(job.usr_cpu), share(job.sys_cpu));
    let per_op = |share: f64| if iops > 0.0 { share * 1e6 / iops } else { 0.0 };
    let run = Run {
        ops: job.ops(),
        seconds: side.runtime / 1e3,
        warm_up_seconds: 0.0,
        iops,
        bytes_per_second: iops * load.op_len.0 as f64,
        latency: Latency {
            mean: latency.mean / 1e3,
            p50: percentile(50.0)?,
            p95: percentile(95.0)?,
            p99: percentile(99.0)?,
            p999: percentile(99.9)?,
            max: latency.max / 1e3,
        },
        cpu: Cpu { client_user: per_op(user), client_system: per_op(system), ..Cpu::default() },
        joules: None,
        core_to_core: [0.0; 2],
        core_share: 1.0,
        comparable: Comparable::Sound,
    };
    Some((run, user + system))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_bench::workload::Pattern;
    use nearflash_units::ByteOffset;

    fn load() -> Load {
        Load {
            pattern: Pattern::RandRw,
            read_percent: 70,
            op_len: ByteLen(4096),
            depth: 4,
            clients: 2,
            layout: Layout::RangePerClient,
            rate_iops: Some(1000),
        }
    }

    #[test]
    fn a_load_is_said_in_its_words() {
        let raw = Raw { path: "/d".into(), offset: ByteOffset(8192), len: ByteLen(1 << 20) };
        let words = words(&On::Raw(&raw), &load(), Timing::QUICK, &[CoreId(1), CoreId(2)]);
        for word in [
            "--filename=/d",
            "--direct=1",
            "--rw=randrw",
            "--rwmixread=70",
            "--bs=4096",
            "--iodepth=4",
            "--numjobs=2",
            "--offset=8192",
            "--size=524288",
            "--offset_increment=524288",
            "--rate_iops=500",
            "--runtime=100ms",
            "--cpus_allowed=1,2",
        ] {
            assert!(words.iter().any(|there| there == word), "{word} in {words:?}");
        }
    }

    #[test]
    fn what_it_says_is_read() {
        let said = r#"{"jobs": [{"usr_cpu": 10.0, "sys_cpu": 15.0,
            "read": {"total_ios": 700, "iops": 7000.0, "runtime": 100,
                "lat_ns": {"mean": 2000.0, "max": 9000, "percentile": {
                    "50.000000": 1000, "95.000000": 3000, "99.000000": 4000, "99.900000": 5000
                }}},
            "write": {"total_ios": 300, "iops": 3000.0}}]}"#;
        let job = FioJob::parse(said).unwrap();
        let (run, cores) = of(&job, &load()).unwrap();
        assert_eq!((run.ops, run.iops, run.seconds), (1000, 10_000.0, 0.1));
        assert_eq!((run.latency.mean, run.latency.p50, run.latency.p999), (2.0, 1.0, 5.0));
        assert!((cores - 0.5).abs() < 1e-9);
        assert!((run.cpu.client_user - 20.0).abs() < 1e-9);
        let ours =
            FioJob::parse(&said.replace(r#""percentile""#, r#""x": 0}, "clat_ns": {"percentile""#));
        assert_eq!(of(&ours.unwrap(), &load()).unwrap().0.latency, run.latency, "as we report it");
        let job = FioJob::parse(r#"{"jobs": [{"read": {"iops": 5.0}}]}"#).unwrap();
        assert_eq!(of(&job, &load()), None, "it was asked for percentiles");
    }
}
