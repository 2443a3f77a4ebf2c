//! The loop of a thread: fills its jobs' free slots, polls their engines, and counts completions.
//!
//! Many clients with one operation each are many jobs on one thread: with a thread per client, the
//! scheduler would be measured.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use nearflash_units::Nanos;

use super::clock::{Clock, SystemClock};
use super::running::Running;
use super::spec::{DriveSpec, JobFailure, JobSpec, Spin};
use crate::cpu::CpuMeter;
use crate::engine::{Engine, sleep_on_all};
use crate::recorder::{Gauge, Record};

/// Adaptive spinning ends after this time without a completion. Typical devices are faster, and
/// waking a sleeping thread takes more than 20 microseconds.
const SPIN_SPAN_MAX: Nanos = Nanos::from_millis(1);
/// A sleep before an intended start ends this much early, to compensate for the wake-up time.
const WAKE_EARLY: Nanos = Nanos::from_micros(100);
/// Number of turns without a completion between two readings of the clock. A reading takes a tenth
/// of a turn; completions are noticed that much later.
const IDLE_TURNS_PER_CLOCK: u32 = 8;
/// Number of turns between two polls of engines with nothing in flight, which may have received
/// other messages.
const TURNS_PER_LOOK: u32 = 1024;
/// Maximum length of a sleep, so that a job notices a request to stop.
const SLEEP_MAX: Nanos = Nanos::from_millis(100);

/// A job with its engine and record.
pub struct Seat<'a, E: ?Sized> {
    /// The engine.
    pub engine: &'a mut E,
    /// The job.
    pub spec: &'a JobSpec,
    /// Index of the record that counts it. Jobs of one load share a record.
    pub tally: usize,
}

/// A failure and the job that failed.
#[derive(Debug)]
pub struct Failed {
    /// Index of the seat, in the order given.
    pub seat: usize,
    /// The failure.
    pub failure: JobFailure,
}

/// The record that the jobs of one load share.
struct Tally<'a> {
    record: Record,
    gauge: &'a Gauge,
}

/// The jobs of one thread.
pub struct Crew<'a, E: ?Sized> {
    jobs: Vec<Running<'a, E>>,
    tallies: Vec<Tally<'a>>,
    /// Whether completions are counted.
    counts: bool,
    turns: u32,
    /// See [`DriveSpec`].
    stall_max: Nanos,
    /// See [`DriveSpec`].
    batch: Option<NonZeroUsize>,
}

/// The result of a turn.
struct Turn {
    /// Whether all jobs are over.
    is_over: bool,
    /// Time of the latest completion.
    done_at: Option<Nanos>,
}

/// Runs one job to its end, or until `stop`. With verification, the blocks written are read back
/// afterwards, without being counted.
///
/// # Errors
/// The first operation that failed, or whose block failed verification.
pub fn run<E: Engine + ?Sized>(
    engine: &mut E,
    spec: &JobSpec,
    drive: &DriveSpec,
    gauge: &Gauge,
    stop: &AtomicBool,
) -> Result<Record, JobFailure> {
    let seat = Seat { engine, spec, tally: 0 };
    let crew = Crew::new(vec![seat], std::slice::from_ref(gauge)).map_err(|it| it.failure)?;
    let records = crew.run(drive, &SystemClock::start(), stop).map_err(|it| it.failure)?;
    Ok(records.into_iter().next().expect("there is a record for every gauge"))
}

impl<'a, E: Engine + ?Sized> Crew<'a, E> {
    /// Prepares to run. There is one record per gauge, which shows its counts.
    ///
    /// # Errors
    /// When a workload is not valid.
    ///
    /// # Panics
    /// When a seat's `tally` has no gauge.
    pub fn new(seats: Vec<Seat<'a, E>>, gauges: &'a [Gauge]) -> Result<Self, Failed> {
        let tallies = gauges.iter().map(|gauge| Tally { record: Record::default(), gauge });
        let mut jobs = Vec::with_capacity(seats.len());
        for (index, Seat { engine, spec, tally }) in seats.into_iter().enumerate() {
            assert!(tally < gauges.len(), "every seat's tally has a gauge");
            let job = Running::new(engine, spec, tally);
            jobs.push(job.map_err(|failure| Failed { seat: index, failure })?);
        }
        let tallies = tallies.collect();
        Ok(Self { jobs, tallies, counts: true, turns: 0, stall_max: Nanos::NEVER, batch: None })
    }

    /// Runs all jobs to their ends, or until `stop`; returns one record per gauge. With
    /// verification, the blocks written are read back afterwards, without being counted.
    ///
    /// # Errors
    /// The first operation that failed, or whose block failed verification.
    pub fn run<C: Clock>(
        mut self,
        drive: &DriveSpec,
        clock: &C,
        stop: &AtomicBool,
    ) -> Result<Vec<Record>, Failed> {
        self.stall_max = drive.stall_max.unwrap_or(Nanos::NEVER);
        self.batch = drive.batch;
        if drive.sides {
            self.jobs.iter_mut().for_each(Running::measure_sides);
        }
        let ramp_ended_at = self.until(drive.ramp, drive.spin, clock, stop)?;
        for tally in &mut self.tallies {
            tally.record.clear();
        }
        let cpu = CpuMeter::start();
        let end = drive.runtime.map_or(Nanos::NEVER, |span| ramp_ended_at.plus(span));
        let ended_at = self.until(end, drive.spin, clock, stop)?;
        self.settle(ramp_ended_at, ended_at, &cpu);
        // Waits for the operations still in flight, without counting them.
        self.counts = false;
        self.jobs.iter_mut().for_each(Running::exhaust);
        self.until(Nanos::NEVER, drive.spin, clock, stop)?;
        let records = self.tallies.into_iter().map(|tally| tally.record).collect();
        for (seat, job) in self.jobs.into_iter().enumerate() {
            end_job(job, clock, stop).map_err(|failure| Failed { seat, failure })?;
        }
        Ok(records)
    }

    /// Sets the records' time and processor time of the counted span. The thread's processor time
    /// is divided in proportion to operations.
    fn settle(&mut self, from: Nanos, until: Nanos, cpu: &CpuMeter) {
        for job in &self.jobs {
            let record = &mut self.tallies[job.tally].record;
            record.elapsed = record.elapsed.max(job.ended_at(until).since(from));
        }
        let used = cpu.used();
        let ops: u64 = self.tallies.iter().map(|tally| tally.record.ops()).sum();
        for tally in &mut self.tallies {
            tally.record.cpu = used.share(tally.record.ops(), ops);
        }
    }

    /// Runs until `end`, or until all jobs are over; returns the time.
    fn until<C: Clock>(
        &mut self,
        end: Nanos,
        spin: Spin,
        clock: &C,
        stop: &AtomicBool,
    ) -> Result<Nanos, Failed> {
        let mut now = clock.now();
        let (mut progress_at, mut idle_turns) = (now, 0u32);
        let has_rate = self.jobs.iter().any(Running::has_rate);
        while now < end {
            if stop.load(Ordering::Relaxed) {
                self.jobs.iter_mut().for_each(Running::exhaust);
            }
            let turn = self.turn(now, clock)?;
            if turn.is_over {
                break;
            }
            if let Some(at) = turn.done_at {
                (now, progress_at, idle_turns) = (at, at, 0);
                continue;
            }
            idle_turns += 1;
            // A thread that never spins sleeps after its first turn without a completion.
            let looks = has_rate || spin == Spin::Never;
            if looks || idle_turns.is_multiple_of(IDLE_TURNS_PER_CLOCK) {
                now = clock.now();
                self.check_stall(now.since(progress_at))?;
                if !self.spins(spin, now.since(progress_at)) {
                    self.sleep(now, end)?;
                    now = clock.now();
                }
            }
        }
        Ok(now)
    }

    /// Fails if a target has not completed anything for too long.
    fn check_stall(&self, idle: Nanos) -> Result<(), Failed> {
        if idle <= self.stall_max {
            return Ok(());
        }
        match self.jobs.iter().position(|job| job.in_flight() > 0) {
            Some(seat) => Err(Failed { seat, failure: JobFailure::Stalled { span: idle } }),
            None => Ok(()),
        }
    }

    /// One round over all jobs.
    #[inline]
    fn turn<C: Clock>(&mut self, now: Nanos, clock: &C) -> Result<Turn, Failed> {
        // Otherwise the next turn submits the refilled slots, all at once.
        let hands_over = self.jobs.len() > 1 || self.batch.is_some();
        let most = self.batch.map_or(usize::MAX, NonZeroUsize::get);
        let looks_everywhere = self.turns.is_multiple_of(TURNS_PER_LOOK);
        self.turns = self.turns.wrapping_add(1);
        let mut turn = Turn { is_over: true, done_at: None };
        for (seat, job) in self.jobs.iter_mut().enumerate() {
            let failed = |failure| Failed { seat, failure };
            let now = turn.done_at.unwrap_or(now);
            job.fill_slots(now);
            if job.is_over(now) {
                continue;
            }
            turn.is_over = false;
            if (job.in_flight() == 0 && !looks_everywhere) || !job.poll(clock).map_err(failed)? {
                continue;
            }
            let tally = &mut self.tallies[job.tally];
            while job.has_done() {
                let now = clock.now();
                turn.done_at = Some(now);
                let record = self.counts.then_some(&mut tally.record);
                job.complete(now, most, record).map_err(failed)?;
                if hands_over {
                    // The other jobs' turns come first, so the refilled slots are submitted now.
                    job.fill_slots(now);
                    job.hand_over(clock).map_err(failed)?;
                }
            }
            tally.gauge.show(&tally.record);
        }
        Ok(turn)
    }

    /// Whether to spin after this time without a completion.
    fn spins(&self, spin: Spin, idle: Nanos) -> bool {
        match spin {
            Spin::Always => true,
            Spin::Never => false,
            Spin::Adaptive => {
                idle < SPIN_SPAN_MAX && self.jobs.iter().any(|job| job.in_flight() > 0)
            }
        }
    }

    /// Sleeps until an engine has something to do, or an operation is due.
    fn sleep(&mut self, now: Nanos, end: Nanos) -> Result<(), Failed> {
        let due = self.jobs.iter().filter_map(Running::next_at).min().unwrap_or(Nanos::NEVER);
        let until_due = due.since(now.plus(WAKE_EARLY));
        let span = SLEEP_MAX.min(end.since(now)).min(until_due);
        if span == Nanos(0) {
            return Ok(());
        }
        // All engines are polled in the next turn, whatever arrived during the sleep.
        self.turns = 0;
        if let [job] = &mut self.jobs[..] {
            let slept = job.engine.wait(span);
            return slept.map_err(|error| Failed { seat: 0, failure: error.into() });
        }
        let at_work = self.jobs.iter_mut().enumerate().filter(|(_, job)| job.is_at_work());
        let (seats, mut engines): (Vec<usize>, Vec<&mut E>) =
            at_work.map(|(seat, job)| (seat, &mut *job.engine)).unzip();
        sleep_on_all(&mut engines, span)
            .map_err(|(index, error)| Failed { seat: seats[index], failure: error.into() })
    }
}

/// Completes a job after its last operation: flushes and verifies its writes.
fn end_job<E: Engine + ?Sized, C: Clock>(
    job: Running<'_, E>,
    clock: &C,
    stop: &AtomicBool,
) -> Result<(), JobFailure> {
    let (engine, spec, written) = job.into_rest();
    if !spec.workload.pattern.writes() {
        return Ok(());
    }
    if spec.end_fsync || spec.verify_seed.is_some() {
        engine.flush()?;
    }
    if let Some(written) = &written {
        let gauge = Gauge::default();
        let mut crew = Crew {
            jobs: vec![Running::reading_back(engine, spec, written)],
            tallies: vec![Tally { record: Record::default(), gauge: &gauge }],
            counts: false,
            turns: 0,
            stall_max: Nanos::NEVER,
            batch: None,
        };
        crew.until(Nanos::NEVER, Spin::Adaptive, clock, stop).map_err(|it| it.failure)?;
    }
    Ok(())
}
