//! `nearflash bench`: from the command line to the report.

use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use nearflash_units::{ByteLen, Nanos};

use crate::BenchError;
use crate::args::{BenchArgs, IoEngine, OutputFormat};
use crate::contents;
use crate::engine::{
    BlockingFile, DirectRemote, FILE_BATCH, FileOptions, IscsiRemote, Needs, OpenNull, Opener,
    Remote,
};
use crate::floor::{self, Exchange, FloorRun, FloorSpec, Tuning, Waits};
use crate::job::Spin;
use crate::placement::core_to_core;
use crate::progress::Progress;
use crate::recorder::{Record, Stream};
use crate::report::{Breakdown, FloorComparison, Report, Samples};
use crate::run::{self};
use crate::subject::Target;
use crate::trace::Tracing;
use crate::workload::Direction;

/// Ramp of a floor that is measured with a remote run.
const FLOOR_RAMP: Nanos = Nanos::from_millis(100);
/// Counted time of a floor that is measured with a remote run.
const FLOOR_RUNTIME: Nanos = Nanos::from_secs(1);

/// Runs the measurement of the command line and writes the report.
///
/// # Errors
/// When nothing could be measured, or an operation failed. Each error is one line and names a
/// remedy.
pub fn run(args: &BenchArgs) -> Result<ExitCode, BenchError> {
    let report = measure(args)?;
    let text = match args.output_format {
        OutputFormat::Normal => report.to_text(),
        OutputFormat::Json => report.to_json(),
    };
    write_report(args, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the measurement of the command line.
///
/// # Errors
/// When nothing could be measured, or an operation failed.
pub fn measure(args: &BenchArgs) -> Result<Report, BenchError> {
    let (record, samples) = match &args.target {
        Target::Floor(_) | Target::Relay(_) => return measure_floor(args),
        Target::Null(len) => run_jobs(args, &OpenNull, Some(*len))?,
        Target::File(path) => {
            let options = FileOptions {
                path: path.clone(),
                direct: args.direct == 1,
                writes: args.rw.writes(),
                len_min: args.size.map(|size| {
                    let begin = args.offset.0.saturating_add(args.stride().0);
                    ByteLen(size.0.saturating_add(begin))
                }),
                batch: args.iodepth_batch.unwrap_or(FILE_BATCH),
            };
            // Checks the options before the file is laid out, which can take long.
            args.job(None)?;
            contents::check_file(args, path)?;
            let len = options.prepare()?;
            match args.ioengine {
                IoEngine::IoUring => run_jobs(args, &options, Some(len))?,
                IoEngine::Psync => run_jobs(args, &BlockingFile(options), Some(len))?,
            }
        }
        Target::NvmeTcp(target) => {
            let needs = needs(args)?;
            if contents::is_due(args) {
                let look = Remote::connect(target, needs.for_a_look())?;
                contents::check_remote(args, &look, look.len())?;
            }
            let remote = Remote::connect(target, needs)?;
            let mut report = measure_remote(args, &remote, remote.len())?;
            report.options.extend(remote.suite().map(|suite| ("tls", suite.to_owned())));
            return Ok(report);
        }
        Target::Iscsi(target) => {
            let remote = IscsiRemote::connect(target, needs(args)?)?;
            if contents::is_due(args) {
                contents::check_remote(args, &remote, remote.len())?;
            }
            return measure_remote(args, &remote, remote.len());
        }
        Target::Direct(url) => {
            let remote = DirectRemote::connect(url, needs(args)?)?;
            if contents::is_due(args) {
                contents::check_remote(args, &remote, remote.len())?;
            }
            let report = measure_remote(args, &remote, remote.len())?;
            return Ok(Report { shared_processor: remote.shared_processor(), ..report });
        }
    };
    Ok(report(args, record, samples))
}

fn run_jobs<O: Opener>(
    args: &BenchArgs,
    opener: &O,
    len: Option<ByteLen>,
) -> Result<(Record, Samples), BenchError> {
    let spec = args.run_spec(len)?;
    let total = spec.drive.runtime.map(|runtime| runtime.plus(spec.drive.ramp));
    let progress = Progress::new(total, args.bs);
    run::run(opener, &spec, &mut |at, sample| progress.show(at, sample))
}

fn report(args: &BenchArgs, record: Record, samples: Samples) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Report {
        name: args.name.clone(),
        target: args.target.to_string(),
        options: options(args),
        timestamp_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        record,
        job_count: if args.target.is_floor() { 1 } else { args.numjobs },
        samples,
        percentiles: args.percentile_list.clone().unwrap_or_default(),
        floor: None,
        breakdown: None,
        shared_processor: false,
    }
}

/// The options that describe the load.
fn options(args: &BenchArgs) -> Vec<(&'static str, String)> {
    let mut options = vec![
        ("rw", args.rw.name().to_owned()),
        ("bs", args.bs.to_string()),
        ("iodepth", args.iodepth.to_string()),
        ("numjobs", args.numjobs.to_string()),
    ];
    if args.ioengine == IoEngine::Psync {
        options.push(("ioengine", "psync".to_owned()));
    }
    if let Some(threads) = args.threads {
        options.push(("threads", threads.to_string()));
    }
    if args.offset_increment > ByteLen(0) {
        options.push(("offset_increment", args.offset_increment.to_string()));
    }
    if args.rw.single_direction().is_none() {
        options.push(("rwmixread", args.rwmixread.to_string()));
    }
    if args.rate_iops > 0 {
        options.push(("rate_iops", args.rate_iops.to_string()));
    }
    if let Some(size) = args.size {
        options.push(("size", size.to_string()));
    }
    if args.verify.is_some() {
        options.push(("verify", "crc32c".to_owned()));
    }
    options
}

fn needs(args: &BenchArgs) -> Result<Needs, BenchError> {
    let depth = args.job(None)?.depth;
    // A block size, which is a power of two, divides all jobs' offsets if it divides the bitwise
    // OR.
    let offset = ByteLen(args.offset.0 | args.offset_increment.0);
    Ok(Needs { op_len: args.bs, offset, depth, job_count: args.numjobs })
}

fn measure_remote<O: Opener>(
    args: &BenchArgs,
    remote: &O,
    len: ByteLen,
) -> Result<Report, BenchError> {
    let beside = args.floor.then(|| FloorBeside::start(args)).transpose()?;
    // The options are refused before the node traces.
    args.run_spec(Some(len))?;
    let tracing = args.breakdown.then(|| Tracing::start(args));
    let (record, samples) = run_jobs(args, remote, Some(len))?;
    let breakdown = tracing.map(|tracing| Breakdown::of(&record, tracing.finish()));
    let floor = beside.map(|beside| beside.finish(args, &record)).transpose()?;
    Ok(Report { floor, breakdown, ..report(args, record, samples) })
}

/// The floor that is measured just before a run.
struct FloorBeside {
    spec: FloorSpec,
    distance: Nanos,
    run: FloorRun,
}

impl FloorBeside {
    fn start(args: &BenchArgs) -> Result<Self, BenchError> {
        let distance = core_to_core(args.floor_cores.server, args.floor_cores.client)?;
        let spec = floor::tuned(&floor_spec(args, FLOOR_RAMP, FLOOR_RUNTIME))?;
        let run = floor::measure(&spec)?;
        Ok(Self { spec, distance, run })
    }

    /// Measures the floor again, just after the run.
    fn finish(self, args: &BenchArgs, record: &Record) -> Result<FloorComparison, BenchError> {
        let after = floor::measure(&self.spec)?;
        let distance = core_to_core(args.floor_cores.server, args.floor_cores.client)?;
        let iops = f64::midpoint(self.run.rate(), after.rate());
        let latency = f64::midpoint(self.run.latency.mean(), after.latency.mean());
        Ok(FloorComparison {
            iops,
            latency_ns: latency,
            iops_ratio: record.iops() / iops,
            latency_ratio: record.mean_latency_nanos() / latency,
            core_to_core: [self.distance, distance],
        })
    }
}

/// The floor with the direction and lengths of the command line.
fn floor_spec(args: &BenchArgs, ramp: Nanos, runtime: Nanos) -> FloorSpec {
    let headers = args.target.headers();
    let (exchange, passed_on) = match args.rw.single_direction() {
        Some(Direction::Write) => {
            (Exchange::write(headers, args.bs), Exchange::replica_write(headers, args.bs))
        }
        Some(Direction::Read) | None => {
            (Exchange::read(headers, args.bs), Exchange::read(headers, args.bs))
        }
    };
    FloorSpec {
        exchange,
        connections: args.numjobs,
        depth: args.iodepth,
        ramp,
        runtime,
        relayed: matches!(args.target, Target::Relay(_)).then_some(passed_on),
        cores: args.floor_cores,
        waits: if args.spin == Spin::Never { Waits::Asleep } else { Waits::Spinning },
        batch: args.batch(),
        tuning: Tuning::default(),
    }
}

fn measure_floor(args: &BenchArgs) -> Result<Report, BenchError> {
    args.job(None)?;
    let runtime = args.drive().runtime.unwrap_or(Nanos::from_secs(1));
    let run = floor::measure(&floor::tuned(&floor_spec(args, args.ramp_time, runtime))?)?;
    Ok(report(args, floor_record(args, run), Samples::default()))
}

fn floor_record(args: &BenchArgs, run: FloorRun) -> Record {
    let direction = args.rw.single_direction().unwrap_or(Direction::Read);
    let mut record = Record { elapsed: run.elapsed, cpu: run.client_cpu, ..Record::default() };
    let len = ByteLen(run.answers * args.bs.0);
    *record.stream_mut(direction) = Stream { ops: run.answers, len, latency: run.latency };
    record
}

fn write_report(args: &BenchArgs, text: &str) -> Result<(), BenchError> {
    let written = match &args.output {
        Some(path) => std::fs::write(path, text),
        None => std::io::stdout().write_all(text.as_bytes()),
    };
    written.map_err(|source| BenchError::Output {
        path: args.output.clone().unwrap_or_else(|| "standard output".into()),
        source,
    })
}
