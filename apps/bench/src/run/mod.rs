//! A run: jobs on threads, watched until they end; those of one load, or of several at once.

mod jobs;
mod openers;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use nearflash_units::Nanos;

pub use jobs::{Jobs, Layout, RunSpec, Threads};
pub use openers::{OpenAny, OpenNull, Opener};

use crate::BenchError;
use crate::job::{Crew, DriveSpec, Failed, JobSpec, Seat, SystemClock};
use crate::placement::{CoreId, elapsed, pin};
use crate::recorder::{Gauge, Record};
use crate::report::{Sample, Samples};

/// How often a run is looked at; fio's.
const SAMPLE_SPAN: Duration = Duration::from_millis(500);
/// How often it is asked whether it has ended.
const POLL_SPAN: Duration = Duration::from_millis(20);

/// Runs the jobs of one load; what they did together, and in each interval.
///
/// # Errors
/// The first job's that failed; the others are stopped then.
pub fn run<O: Opener + ?Sized>(
    opener: &O,
    spec: &RunSpec,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<(Record, Samples), BenchError> {
    let loads = [(opener, spec.jobs.clone())];
    let results = run_together(&loads, &spec.drive, &spec.threads, watch)?;
    Ok(results.into_iter().next().expect("every load has a result"))
}

/// Runs several loads at once, over the same time, their jobs dealt out to the threads in turn; what
/// each did, and in each interval. `watch` is told of all together.
///
/// The processor time of a thread is dealt out to its loads by their operations.
///
/// # Errors
/// The first job's that failed, counted through all loads; the others are stopped then.
pub fn run_together<O: Opener + ?Sized>(
    loads: &[(&O, Jobs)],
    drive: &DriveSpec,
    threads: &Threads,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<Vec<(Record, Samples)>, BenchError> {
    let posts = posts(loads);
    let thread_count = threads.count_for(posts.len());
    let mut crews: Vec<Vec<Post<'_, O>>> = (0..thread_count).map(|_| Vec::new()).collect();
    for (index, post) in posts.into_iter().enumerate() {
        crews[index % thread_count].push(post);
    }
    let gauges: Vec<Vec<Gauge>> =
        crews.iter().map(|_| loads.iter().map(|_| Gauge::default()).collect()).collect();
    let shared = Shared {
        drive,
        stop: AtomicBool::new(false),
        together: Barrier::new(thread_count),
        clock: OnceLock::new(),
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = crews
            .into_iter()
            .zip(&gauges)
            .enumerate()
            .map(|(index, (posts, gauges))| {
                let (shared, core) = (&shared, threads.core(index));
                scope.spawn(move || {
                    let records = shared.run_thread(core, &posts, gauges);
                    if records.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    records
                })
            })
            .collect();
        let is_over = || running.iter().all(std::thread::ScopedJoinHandle::is_finished);
        let watched = watch_loads(loads, &gauges, &is_over, watch);
        shared.stop.store(true, Ordering::Relaxed);
        let mut sums: Vec<Record> = loads.iter().map(|_| Record::default()).collect();
        for thread in running {
            let records = thread.join().expect("a thread reports its failures")?;
            sums.iter_mut().zip(&records).for_each(|(sum, record)| sum.add(record));
        }
        Ok(sums.into_iter().zip(watched?).collect())
    })
}

/// A job's place in a run.
struct Post<'a, O: ?Sized> {
    /// Counted through all loads.
    index: usize,
    /// Its load's place.
    load: usize,
    opener: &'a O,
    spec: JobSpec,
}

fn posts<'a, O: ?Sized>(loads: &[(&'a O, Jobs)]) -> Vec<Post<'a, O>> {
    let specs = loads.iter().enumerate().flat_map(|(load, (opener, jobs))| {
        (0..jobs.count).map(move |index| (load, *opener, jobs.job(index)))
    });
    let posts = specs.enumerate();
    posts.map(|(index, (load, opener, spec))| Post { index, load, opener, spec }).collect()
}

/// What the threads of a run have in common.
struct Shared<'a> {
    drive: &'a DriveSpec,
    stop: AtomicBool,
    together: Barrier,
    clock: OnceLock<SystemClock>,
}

impl Shared<'_> {
    /// A record for every load.
    fn run_thread<O: Opener + ?Sized>(
        &self,
        core: Option<CoreId>,
        posts: &[Post<'_, O>],
        gauges: &[Gauge],
    ) -> Result<Vec<Record>, BenchError> {
        let mut engines = match open_all(core, posts) {
            Ok(engines) => engines,
            Err(error) => {
                // Also those that failed come here, or the others would wait for ever.
                self.together.wait();
                return Err(error);
            }
        };
        let seats = engines.iter_mut().zip(posts);
        let seats = seats.map(|(engine, post)| Seat { engine, spec: &post.spec, tally: post.load });
        let crew = Crew::new(seats.collect(), gauges);
        self.together.wait();
        let clock = self.clock.get_or_init(SystemClock::start);
        crew.and_then(|crew| crew.run(self.drive, clock, &self.stop)).map_err(
            |Failed { seat, failure }| BenchError::Job { job: posts[seat].index, source: failure },
        )
    }
}

/// Engines belong to the thread that opens them.
fn open_all<O: Opener + ?Sized>(
    core: Option<CoreId>,
    posts: &[Post<'_, O>],
) -> Result<Vec<O::Engine>, BenchError> {
    if let Some(core) = core {
        pin(core)?;
    }
    posts.iter().map(|post| post.opener.open(post.spec.depth, post.spec.workload.op_len)).collect()
}

/// Samples until the jobs are over. The last interval is cut short and not kept: its rate would be
/// that of the jobs' end.
fn watch_loads<O: Opener + ?Sized>(
    loads: &[(&O, Jobs)],
    gauges: &[Vec<Gauge>],
    is_over: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<Vec<Samples>, BenchError> {
    let start = Instant::now();
    let mut samples = vec![Samples::default(); loads.len()];
    let (mut last_at, mut last) = (Instant::now(), vec![(0, 0); loads.len()]);
    while !is_over() {
        std::thread::sleep(POLL_SPAN);
        if last_at.elapsed() < SAMPLE_SPAN {
            continue;
        }
        for (opener, _) in loads {
            opener.tend()?;
        }
        let span = elapsed(last_at);
        let mut all = Sample { span, reads: 0, writes: 0 };
        for (load, samples) in samples.iter_mut().enumerate() {
            let sums = gauges.iter().map(|thread| thread[load].ops());
            let sums = sums.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            let sample = since(span, last[load], sums);
            (all.reads, all.writes) = (all.reads + sample.reads, all.writes + sample.writes);
            last[load] = sums;
            samples.0.push(sample);
        }
        last_at = Instant::now();
        watch(elapsed(start), all);
    }
    Ok(samples)
}

/// What was done between two looks. After the ramp the counts begin again from nothing.
fn since(span: Nanos, last: (u64, u64), sums: (u64, u64)) -> Sample {
    Sample {
        span,
        reads: sums.0.checked_sub(last.0).unwrap_or(sums.0),
        writes: sums.1.checked_sub(last.1).unwrap_or(sums.1),
    }
}
