//! A run: equal jobs on threads of their own, watched until they end.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearflash_units::{ByteLen, Nanos};

use crate::BenchError;
use crate::engine::{Engine, FileEngine, FileOptions, NullEngine};
use crate::job::{self, JobSpec};
use crate::placement::{CoreId, elapsed, pin};
use crate::recorder::{Gauge, Record};
use crate::report::{Sample, Samples};

/// How often a run is looked at; fio's.
const SAMPLE_SPAN: Duration = Duration::from_millis(500);
/// How often it is asked whether it has ended.
const POLL_SPAN: Duration = Duration::from_millis(20);

/// What a job does, how many there are, and where.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Of each job.
    pub job: JobSpec,
    /// How many.
    pub job_count: u32,
    /// Given to the jobs in turn; empty to leave them to the system.
    pub cores: Vec<CoreId>,
}

/// What the engines are made from, once per job, on the job's own thread.
pub trait Opener: Sync {
    /// What it makes.
    type Engine: Engine;

    /// An engine for the calling thread.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn open(&self, depth: usize, op_len: ByteLen) -> Result<Self::Engine, BenchError>;

    /// Whatever the target needs while its engines work; called a few times a second.
    ///
    /// # Errors
    /// When the target is gone.
    fn tend(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// Opens [`NullEngine`]s.
pub struct OpenNull;

impl Opener for OpenNull {
    type Engine = NullEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<NullEngine, BenchError> {
        Ok(NullEngine::new(depth, op_len))
    }
}

impl Opener for FileOptions {
    type Engine = FileEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<FileEngine, BenchError> {
        FileEngine::open(self, depth, op_len)
    }
}

/// Runs the jobs; what they did together, and in each interval.
///
/// # Errors
/// The first job's that failed; the others are stopped then.
pub fn run<O: Opener>(
    opener: &O,
    spec: &RunSpec,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<(Record, Samples), BenchError> {
    let count = usize::try_from(spec.job_count).expect("usize is at least 32 bits wide");
    let gauges: Vec<Gauge> = (0..count).map(|_| Gauge::default()).collect();
    let stop = AtomicBool::new(false);
    let together = Barrier::new(count);
    std::thread::scope(|scope| {
        let jobs: Vec<_> = gauges
            .iter()
            .enumerate()
            .map(|(index, gauge)| {
                let (stop, together) = (&stop, &together);
                scope.spawn(move || {
                    let record = one_job(opener, spec, index, gauge, stop, together);
                    if record.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    record
                })
            })
            .collect();
        let is_over = || jobs.iter().all(std::thread::ScopedJoinHandle::is_finished);
        let watched = watch_jobs(opener, &gauges, &is_over, watch);
        stop.store(true, Ordering::Relaxed);
        let mut sum = Record::default();
        for job in jobs {
            sum.add(&job.join().expect("a job reports its failures")?);
        }
        Ok((sum, watched?))
    })
}

fn one_job<O: Opener>(
    opener: &O,
    spec: &RunSpec,
    index: usize,
    gauge: &Gauge,
    stop: &AtomicBool,
    together: &Barrier,
) -> Result<Record, BenchError> {
    let pinned = match spec.cores.get(index % spec.cores.len().max(1)) {
        Some(core) => pin(*core),
        None => Ok(()),
    };
    let opened = opener.open(spec.job.depth, spec.job.workload.op_len);
    // Also those that failed come here, or the others would wait for ever.
    together.wait();
    pinned?;
    let mut engine = opened?;
    let mut job_spec = spec.job.clone();
    // Every job has an order of its own; the first one that of the seed.
    let offset = ByteLen::from_usize(index).0;
    job_spec.workload.seed = job_spec.workload.seed.wrapping_add(offset);
    job::run(&mut engine, &job_spec, gauge, stop)
        .map_err(|source| BenchError::Job { job: index, source })
}

/// Samples until the jobs are over. The last interval is cut short and not kept: its rate would be
/// that of the jobs' end.
fn watch_jobs<O: Opener>(
    opener: &O,
    gauges: &[Gauge],
    is_over: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<Samples, BenchError> {
    let start = Instant::now();
    let mut samples = Samples::default();
    let (mut last_at, mut last) = (Instant::now(), (0, 0));
    while !is_over() {
        std::thread::sleep(POLL_SPAN);
        if last_at.elapsed() < SAMPLE_SPAN {
            continue;
        }
        opener.tend()?;
        let sums = gauges.iter().map(Gauge::ops).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        // After the ramp the counts begin again from nothing.
        let sample = Sample {
            span: elapsed(last_at),
            reads: sums.0.checked_sub(last.0).unwrap_or(sums.0),
            writes: sums.1.checked_sub(last.1).unwrap_or(sums.1),
        };
        (last_at, last) = (Instant::now(), sums);
        watch(elapsed(start), sample);
        samples.0.push(sample);
    }
    Ok(samples)
}
