//! A run: jobs on threads, observed until they end. The jobs may belong to one load or to several.

mod jobs;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use nearflash_units::Nanos;

pub use jobs::{Jobs, Layout, RunSpec, Threads};

use crate::BenchError;
use crate::engine::Opener;
use crate::job::{Crew, DriveSpec, Failed, JobSpec, Seat, SystemClock};
use crate::placement::{CoreId, elapsed, pin};
use crate::recorder::{Gauge, Record};
use crate::report::{Sample, Samples};

/// Interval of the samples, as in fio.
const SAMPLE_SPAN: Duration = Duration::from_millis(500);
/// Interval at which the end of the jobs is checked.
const POLL_SPAN: Duration = Duration::from_millis(20);

/// Runs the jobs of one load; returns their counts, in total and per interval.
///
/// # Errors
/// The failure of the first job that failed. The others are stopped then.
pub fn run<O: Opener + ?Sized>(
    opener: &O,
    spec: &RunSpec,
    watch: &mut dyn FnMut(Nanos, Sample),
) -> Result<(Record, Samples), BenchError> {
    let loads = [(opener, spec.jobs.clone())];
    let results = run_together(&loads, &spec.drive, &spec.threads, watch)?;
    Ok(results.into_iter().next().expect("every load has a result"))
}

/// Runs several loads at the same time, with their jobs assigned to the threads in turn. Returns
/// the counts of each load, in total and per interval. `watch` is called with the sums over all
/// loads.
///
/// The processor time of a thread is divided among its loads in proportion to operations.
///
/// # Errors
/// The failure of the first job that failed, with an index that counts through all loads. The
/// others are stopped then.
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

/// A job and its indices in a run.
struct Post<'a, O: ?Sized> {
    /// Index of the job, counted through all loads.
    index: usize,
    /// Index of its load.
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

/// The state that the threads of a run share.
struct Shared<'a> {
    drive: &'a DriveSpec,
    stop: AtomicBool,
    together: Barrier,
    clock: OnceLock<SystemClock>,
}

impl Shared<'_> {
    /// Runs the jobs of one thread; returns one record per load.
    fn run_thread<O: Opener + ?Sized>(
        &self,
        core: Option<CoreId>,
        posts: &[Post<'_, O>],
        gauges: &[Gauge],
    ) -> Result<Vec<Record>, BenchError> {
        let mut engines = match open_all(core, posts) {
            Ok(engines) => engines,
            Err(error) => {
                // A failed thread also reaches the barrier, since the others would wait forever.
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

/// Opens the engines on the thread that uses them.
fn open_all<O: Opener + ?Sized>(
    core: Option<CoreId>,
    posts: &[Post<'_, O>],
) -> Result<Vec<O::Engine>, BenchError> {
    if let Some(core) = core {
        pin(core)?;
    }
    posts.iter().map(|post| post.opener.open(post.spec.depth, post.spec.workload.op_len)).collect()
}

/// Takes samples until the jobs are over. The last interval is incomplete and dropped, since its
/// rate would not be representative.
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

/// The difference between two samples. At the end of the ramp the counts restart at zero.
fn since(span: Nanos, last: (u64, u64), sums: (u64, u64)) -> Sample {
    Sample {
        span,
        reads: sums.0.checked_sub(last.0).unwrap_or(sums.0),
        writes: sums.1.checked_sub(last.1).unwrap_or(sums.1),
    }
}
