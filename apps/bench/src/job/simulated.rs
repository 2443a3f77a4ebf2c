//! Jobs in simulated time, on devices that record their operations: jobs request exactly the
//! declared operations, and report exactly what happened.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use nearflash_units::{ByteLen, ByteOffset, Nanos};
use proptest::prelude::*;
use rustix::event::PollFd;

use super::{Clock, Crew, DriveSpec, Failed, JobFailure, JobSpec, Seat, Spin};
use crate::engine::{Done, Engine, EngineError, Slot};
use crate::recorder::{Gauge, Record, SideTimes};
use crate::run::{Jobs, Layout};
use crate::workload::{Direction, Op, Pattern, Rate, Workload, WorkloadSpec, splitmix64};

/// Advances with every reading, and with every poll of a device.
#[derive(Clone, Default)]
struct SimClock(Rc<Cell<u64>>);

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.pass_until(self.0.get() + LOOK);
        Nanos(self.0.get())
    }
}

impl SimClock {
    fn pass_until(&self, at: u64) {
        self.0.set(self.0.get().max(at));
    }
}

/// Duration of a reading or a poll, in nanoseconds.
const LOOK: u64 = 200;

/// The service time of an operation submitted at `at`.
type Service = fn(at: u64, random: u64) -> u64;

struct Device {
    clock: SimClock,
    service: Service,
    random: u64,
    buffer: Vec<u8>,
    /// Slot and completion time.
    in_flight: Vec<(Slot, u64)>,
    in_flight_max: usize,
    asked: Vec<Op>,
    done_at: Vec<u64>,
}

impl Device {
    fn new(clock: &SimClock, service: Service, seed: u64) -> Self {
        Self {
            clock: clock.clone(),
            service,
            random: seed,
            buffer: vec![0; 16],
            in_flight: Vec::new(),
            in_flight_max: 0,
            asked: Vec::new(),
            done_at: Vec::new(),
        }
    }

    fn next_done(&self) -> Option<u64> {
        self.in_flight.iter().map(|(_, at)| *at).min()
    }
}

impl Engine for Device {
    fn buffer(&self, _: Slot) -> &[u8] {
        &self.buffer
    }

    fn buffer_mut(&mut self, _: Slot) -> &mut [u8] {
        &mut self.buffer
    }

    fn submit(&mut self, slot: Slot, op: Op) {
        assert!(self.in_flight.iter().all(|(busy, _)| *busy != slot), "the slot is free");
        let now = self.clock.0.get();
        let takes = (self.service)(now, splitmix64(&mut self.random));
        self.in_flight.push((slot, now + takes));
        self.in_flight_max = self.in_flight_max.max(self.in_flight.len());
        self.asked.push(op);
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        let now = self.clock.0.get() + LOOK;
        self.clock.pass_until(now);
        let is_done = |(_, at): &mut (Slot, u64)| *at <= now;
        for (slot, _) in self.in_flight.extract_if(.., is_done) {
            self.done_at.push(now);
            done.push(Done { slot, result: Ok(()) });
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        self.clock.pass_until(self.clock.0.get() + LOOK);
        Ok(false)
    }

    fn wakers<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

    fn awake(&mut self) {}

    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        let end = self.clock.0.get() + span.0;
        self.clock.pass_until(self.next_done().map_or(end, |done| done.min(end)));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Runs jobs in one thread of simulated time, each on a device of its own.
fn run(specs: &[JobSpec], drive: &DriveSpec, service: Service, seed: u64) -> (Record, Vec<Device>) {
    let (record, devices) = try_run(specs, drive, service, seed);
    (record.unwrap(), devices)
}

fn try_run(
    specs: &[JobSpec],
    drive: &DriveSpec,
    service: Service,
    seed: u64,
) -> (Result<Record, Failed>, Vec<Device>) {
    let clock = SimClock::default();
    let seeds = (0u64..).map(|index| seed.wrapping_add(index));
    let mut devices: Vec<Device> =
        specs.iter().zip(seeds).map(|(_, seed)| Device::new(&clock, service, seed)).collect();
    let gauges = [Gauge::default()];
    let seats = devices.iter_mut().zip(specs);
    let seats = seats.map(|(engine, spec)| Seat { engine, spec, tally: 0 }).collect();
    let crew = Crew::new(seats, &gauges).unwrap();
    let records = crew.run(drive, &clock, &AtomicBool::new(false));
    (records.map(|mut records| records.remove(0)), devices)
}

fn job(pattern: Pattern, depth: usize) -> JobSpec {
    JobSpec {
        workload: WorkloadSpec {
            pattern,
            read_percent: 70,
            op_len: ByteLen(4096),
            offset: ByteOffset(0),
            range_len: ByteLen(1 << 30),
            repeats: false,
            endless: true,
            seed: 3,
        },
        depth,
        rate: None,
        verify_seed: None,
        end_fsync: false,
    }
}

fn timed(ramp: Nanos, runtime: Nanos) -> DriveSpec {
    DriveSpec { ramp, runtime: Some(runtime), ..DriveSpec::default() }
}

fn for_a_second() -> DriveSpec {
    timed(Nanos(0), Nanos::from_secs(1))
}

#[test]
fn nothing_of_the_clients_side_is_measured_unless_it_is_wanted() {
    let (record, _) = run(&[job(Pattern::RandRead, 4)], &for_a_second(), steady, 1);
    assert_eq!(record.sides, SideTimes::default());
}

/// Service times from zero to 20 microseconds, so that completions are out of order.
fn uneven(_: u64, random: u64) -> u64 {
    random % 20_000
}

fn steady(_: u64, _: u64) -> u64 {
    50_000
}

/// A constant service time, except that operations submitted within a certain tenth of a second
/// complete at its end.
fn stalling(at: u64, _: u64) -> u64 {
    let stall = 500_000_000..600_000_000;
    if stall.contains(&at) { stall.end - at } else { 50_000 }
}

/// A constant service time, until the device stops completing operations.
fn leaving(at: u64, _: u64) -> u64 {
    if at < 500_000_000 { 50_000 } else { u64::MAX / 2 }
}

const PATTERNS: [Pattern; 6] = [
    Pattern::Read,
    Pattern::Write,
    Pattern::RandRead,
    Pattern::RandWrite,
    Pattern::Rw,
    Pattern::RandRw,
];

prop_compose! {
    /// Jobs of any pattern, layout, depth and rate, which run to the ends of their ranges.
    fn any_jobs()(
        pattern in prop::sample::select(&PATTERNS[..]),
        (count, depth) in (1u32..9, 1usize..33),
        (ops, rest) in (1u64..300, 0u64..512),
        op_len in prop::sample::select(&[512u64, 1000, 4096, 65536][..]),
        (offset, seed, read_percent) in (0u64..1000, any::<u64>(), 0u8..=100),
        is_apart: bool,
        gap in 0u64..3,
        rates in prop::sample::select(&[(0u64, 0u64), (50_000, 0), (0, 200_000), (2_000_000, 0)][..]),
    ) -> Jobs {
        let range_len = ByteLen(ops * op_len + rest);
        let job = JobSpec {
            workload: WorkloadSpec {
                pattern,
                read_percent,
                op_len: ByteLen(op_len),
                offset: ByteOffset(offset * 512),
                range_len,
                repeats: false,
                endless: false,
                seed,
            },
            depth,
            rate: Rate::new(rates.0),
            verify_seed: None,
            end_fsync: false,
        };
        let increment = ByteLen(range_len.0 + gap * op_len);
        let layout = if is_apart { Layout::Apart(increment) } else { Layout::Shared };
        Jobs { layout, total_rate: Rate::new(rates.1), ..Jobs::new(job, count) }
    }
}

proptest! {
    /// Whatever the depth, the number of jobs and the batch, each operation's latency is the sum of its parts.
    #[test]
    fn the_clients_side_and_the_round_trip_add_up_to_the_latency(
        depth in 1..20usize,
        jobs in 1..4usize,
        batch in 0..4usize,
        seed: u64,
    ) {
        let drive = DriveSpec {
            sides: true,
            batch: std::num::NonZeroUsize::new(batch),
            ..timed(Nanos::from_millis(1), Nanos::from_millis(20))
        };
        let specs = vec![job(Pattern::RandRead, depth); jobs];
        let (record, _) = run(&specs, &drive, uneven, seed);
        let SideTimes { ops, submission, round_trip, completion } = record.sides;
        prop_assert_eq!(ops, record.ops());
        let sum = submission.plus(round_trip).plus(completion).0 as f64 / ops as f64;
        let mean = record.mean_latency_nanos();
        // The histogram has three digits.
        prop_assert!((sum - mean).abs() <= mean / 500.0, "{} and {}", sum, mean);
        prop_assert!(submission.0 > 0 && completion.0 > 0);
    }

    /// For any device: every job requests exactly its declared sequence, every block of its range
    /// once, nothing outside it or in another job's own range, and never more than its depth at a
    /// time; all operations are counted.
    #[test]
    fn what_is_asked_is_what_was_declared(jobs in any_jobs(), seed: u64) {
        let specs: Vec<JobSpec> = (0..jobs.count).map(|index| jobs.job(index)).collect();
        let to_the_end = DriveSpec::default();
        let (record, devices) = run(&specs, &to_the_end, uneven, seed);
        let mut ranges = Vec::new();
        for (spec, device) in specs.iter().zip(&devices) {
            let mut declared = Workload::new(spec.workload.clone()).unwrap();
            let declared: Vec<Op> = std::iter::from_fn(|| declared.next_op()).collect();
            prop_assert_eq!(&device.asked, &declared);
            prop_assert!(device.in_flight_max <= spec.depth);
            let WorkloadSpec { op_len, offset, range_len, .. } = spec.workload;
            let mut indices: Vec<u64> = Vec::new();
            for op in &device.asked {
                prop_assert_eq!(op.len, op_len);
                prop_assert_eq!((op.offset.0 - offset.0) % op_len.0, 0);
                prop_assert!(op.offset.0 + op.len.0 <= offset.0 + range_len.0);
                indices.push((op.offset.0 - offset.0) / op_len.0);
            }
            indices.sort_unstable();
            prop_assert_eq!(indices, (0..range_len.0 / op_len.0).collect::<Vec<_>>());
            ranges.push((offset.0, offset.0 + range_len.0));
        }
        if jobs.layout != Layout::Shared {
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
        let asked = || devices.iter().flat_map(|device| &device.asked);
        let reads = asked().filter(|op| op.direction == Direction::Read).count();
        let writes = asked().count() - reads;
        let counted = (ByteLen(record.read.ops).to_usize(), ByteLen(record.write.ops).to_usize());
        prop_assert_eq!(counted, (reads, writes));
        prop_assert_eq!(record.read.latency.len() + record.write.latency.len(), record.ops());
        prop_assert_eq!(record.read.len.0 + record.write.len.0, record.ops() * jobs.job.workload.op_len.0);
    }
}

proptest! {
    // These runs are long, so there are fewer cases.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Operations that end in the ramp are not counted; those that end in the counted time are.
    #[test]
    fn the_ramp_is_left_out(depth in 1usize..33, ramp_ms in 0u64..50, count in 1usize..5) {
        let (ramp, runtime) = (Nanos::from_millis(ramp_ms), Nanos::from_millis(50));
        let specs = vec![job(Pattern::RandRead, depth); count];
        let (record, devices) = run(&specs, &timed(ramp, runtime), steady, 1);
        let span = ramp.0 + 1..=ramp.plus(runtime).0;
        let ended = devices.iter().flat_map(|device| &device.done_at);
        let expected = ByteLen::from_usize(ended.filter(|at| span.contains(at)).count()).0;
        // The turns at the ends of ramp and run are counted entirely or not at all.
        let slack = ByteLen::from_usize(2 * depth * count).0;
        prop_assert!(record.ops().abs_diff(expected) <= slack, "{} of {expected}", record.ops());
        prop_assert!(record.elapsed.0.abs_diff(runtime.0) < 100_000, "{:?}", record.elapsed);
    }

    /// A rate is kept by one job, or by several together, at any depth.
    #[test]
    fn a_rate_is_kept(per_second in 1000u64..20_000, count in 1u32..9, is_total: bool) {
        let rate = Rate::new(per_second);
        let mut jobs = Jobs::new(job(Pattern::RandRead, 4), count);
        (jobs.total_rate, jobs.job.rate) = if is_total { (rate, None) } else { (None, rate) };
        let specs: Vec<JobSpec> = (0..count).map(|index| jobs.job(index)).collect();
        let drive = timed(Nanos::from_millis(10), Nanos::from_millis(200));
        let (record, _) = run(&specs, &drive, steady, 1);
        let expected = if is_total { per_second } else { per_second * u64::from(count) } / 5;
        let slack = 8 * u64::from(count);
        prop_assert!(record.ops().abs_diff(expected) <= slack, "{} of {expected}", record.ops());
    }
}

fn p99(record: &Record) -> Nanos {
    Nanos(record.read.latency.value_at_quantile(0.99))
}

#[test]
fn a_stall_shows_in_the_latency_of_all_that_was_meant_to_start_in_it() {
    // Of 10,000 operations per second, the stall hits 1,000. Then the backlog shrinks by one for
    // every two completions, so the n-th of 2,000 is 100 ms - n x 50 us late.
    let open = JobSpec { rate: Rate::new(10_000), ..job(Pattern::RandRead, 1) };
    let (record, _) = run(&[open], &for_a_second(), stalling, 1);
    let p99 = p99(&record);
    assert!((Nanos::from_millis(94)..=Nanos::from_millis(96)).contains(&p99), "{p99:?}");
    let p90 = Nanos(record.read.latency.value_at_quantile(0.90));
    assert!((Nanos::from_millis(48)..=Nanos::from_millis(52)).contains(&p90), "{p90:?}");
}

#[test]
fn a_target_that_answers_no_more_is_given_up_after_its_time() {
    for (count, spin) in [(1, Spin::Always), (1, Spin::Adaptive), (3, Spin::Always)] {
        let stall_max = Some(Nanos::from_millis(20));
        let drive = DriveSpec { spin, stall_max, ..for_a_second() };
        let specs = vec![job(Pattern::RandRead, 2); count];
        let (ended, _) = try_run(&specs, &drive, leaving, 1);
        match ended.unwrap_err().failure {
            JobFailure::Stalled { span } => assert!(span >= Nanos::from_millis(20), "{span:?}"),
            other => panic!("{other}"),
        }
    }
    // A shorter pause does not end the run.
    let stall_max = Some(Nanos::from_millis(200));
    let drive = DriveSpec { stall_max, ..for_a_second() };
    assert!(try_run(&[job(Pattern::RandRead, 1)], &drive, stalling, 1).0.is_ok());
}

#[test]
fn without_a_rate_a_stall_is_one_slow_operation() {
    let (record, _) = run(&[job(Pattern::RandRead, 1)], &for_a_second(), stalling, 1);
    assert!(p99(&record) < Nanos::from_micros(60), "{:?}", p99(&record));
    assert!(record.read.latency.max() > Nanos::from_millis(99).0);
}

#[test]
fn latency_is_the_devices_and_no_more_than_a_look_beside_it() {
    for count in [1, 16] {
        let specs = vec![job(Pattern::RandRead, 1); count];
        let (record, _) = run(&specs, &for_a_second(), steady, 1);
        // Two polls of each device, and half a permille of rounding.
        let most = 50_000 + 2 * LOOK * ByteLen::from_usize(count + 1).0 + 50;
        let mean = record.read.latency.mean();
        assert!((50_000.0..=most as f64).contains(&mean), "{mean} with {count} jobs");
    }
}
