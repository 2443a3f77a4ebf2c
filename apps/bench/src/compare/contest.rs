//! Sides under one load, measured in turns; contests: a subject and its base.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nearflash::direct::Url;
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::event::PollFd;

use super::awake::KeptAwake;
use super::iscsi_perf;
use super::node::Node;
use super::round::{Figure, OwnTime, Part, Ratio, Round};
use crate::BenchError;
use crate::engine::{
    DirectRemote, Done, Engine, EngineError, FILE_BATCH, FileOptions, IscsiRemote, Needs, Opener,
    Remote, Slot,
};
use crate::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning, Waits};
use crate::job::{self, DriveSpec, JobSpec, Spin};
use crate::placement::{core_to_core, elapsed, pin};
use crate::recorder::{CpuTime, Gauge, Record};
use crate::run::{self, Jobs, RunSpec, Threads};
use crate::subject::{IscsiTarget, NvmeTcpTarget};
use crate::workload::{Direction, Op, Pattern};

/// Length of the operations that fill a volume.
const FILL_OP_LEN: ByteLen = ByteLen(128 << 10);
/// Queue depth of the operations that fill a volume.
const FILL_DEPTH: u32 = 8;

/// Duration and number of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Ramp of each side.
    pub ramp: Nanos,
    /// Counted time of each side.
    pub span: Nanos,
    /// Number of rounds.
    pub rounds: u32,
}

/// A side of a contest.
#[derive(Clone, Debug)]
pub enum Side {
    /// The bare exchange of the same bytes, with these headers.
    Floor(Headers),
    /// A volume over the direct protocol.
    Direct(Url),
    /// The same, with all offsets doubled: the grants leave gaps between the operations.
    EverySecond(Url),
    /// A sealed object, by the seal of the URL, over so many handles in turn.
    Handles(Url, usize),
    /// A namespace over NVMe/TCP.
    NvmeTcp(NvmeTcpTarget),
    /// A logical unit over iSCSI, with our own initiator.
    Iscsi(IscsiTarget),
    /// The same with one read in flight, whatever the other side's depth is.
    IscsiOneRead(IscsiTarget),
    /// A logical unit over iSCSI, with `iscsi-perf` and blocks of 4 KiB.
    IscsiPerf(IscsiTarget),
    /// A file of this machine, over io_uring.
    File(PathBuf),
    /// The sum of the latencies of a file and of the bare exchange with these headers.
    FileAndFloor(PathBuf, Headers),
}

/// The compared figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Score {
    /// Operations per second, divided by the base's: more is better.
    Iops,
    /// Mean latency, divided by the base's: less is better.
    Latency,
    /// Mean latency in microseconds: less is better.
    Micros,
    /// Processor time per operation of client and node together, divided by the base's: less is
    /// better.
    CpuTime,
    /// The node's user time per operation, in nanoseconds: less is better.
    NodeOwn,
    /// The client's user time per operation, including the load generator's, in nanoseconds: less
    /// is better.
    HostOwn,
}

impl Score {
    /// The score of one round.
    pub fn of(self, round: &Round) -> f64 {
        let subject = round.subject();
        let base = round.base().unwrap_or(subject);
        match self {
            Self::Iops => subject.figure.iops / base.figure.iops,
            Self::Latency => subject.figure.latency_ns / base.figure.latency_ns,
            Self::Micros => subject.figure.latency_ns / 1e3,
            Self::CpuTime => subject.cpu_ns / base.cpu_ns,
            Self::NodeOwn => subject.own_ns.node,
            Self::HostOwn => subject.own_ns.host,
        }
    }

    /// Whether less is better.
    pub fn is_less_better(self) -> bool {
        self != Self::Iops
    }
}

/// Random operations of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Ops {
    /// The direction.
    pub direction: Direction,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Queue depth.
    pub depth: u32,
    /// See [`DriveSpec::batch`](crate::job::DriveSpec::batch). The floor has the same loop.
    pub batch: Option<NonZeroUsize>,
}

impl Ops {
    /// Random reads.
    pub const fn reads(op_len: ByteLen, depth: u32) -> Self {
        Self { direction: Direction::Read, op_len, depth, batch: None }
    }

    /// Random writes.
    pub const fn writes(op_len: ByteLen, depth: u32) -> Self {
        Self { direction: Direction::Write, ..Self::reads(op_len, depth) }
    }

    /// Issues one operation for each completion, separately.
    pub const fn one_by_one(self) -> Self {
        Self { batch: NonZeroUsize::new(1), ..self }
    }
}

/// A comparison of two sides.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Its description.
    pub what: &'static str,
    /// The side that is judged.
    pub subject: Side,
    /// The side that it is compared with; `None` for an absolute score.
    pub base: Option<Side>,
    /// The load of both sides.
    pub ops: Ops,
    /// The compared figure.
    pub score: Score,
    /// The limit of the score that must be reached, if there is one.
    pub must: Option<f64>,
    /// The desired score, if there is one.
    pub aim: Option<f64>,
}

/// The result of a contest.
#[derive(Clone, Debug)]
pub struct ContestResult {
    /// The contest.
    pub contest: Contest,
    /// The ratio over all rounds.
    pub ratio: Ratio,
    /// Every round.
    pub rounds: Vec<Round>,
}

/// The environment of comparisons.
pub struct Arena<'a> {
    /// The node that serves the volumes; its processor time is counted.
    pub node: &'a Node,
    /// The cores of the node and of the client.
    pub cores: FloorCores,
    /// Length of the range of a volume or file.
    pub range_len: ByteLen,
    /// Duration and number of rounds.
    pub timing: Timing,
}

/// Measures a side once.
type Measure<'a> = Box<dyn FnMut() -> Result<Part, BenchError> + 'a>;

impl Arena<'_> {
    /// Holds a contest. `each` is called after every round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn hold(
        &self,
        contest: &Contest,
        each: &mut (dyn FnMut(&Round) + Send),
    ) -> Result<ContestResult, BenchError> {
        let sides: Vec<&Side> = contest.base.iter().chain([&contest.subject]).collect();
        let rounds = self.rounds(&sides, contest.ops, each)?;
        let ratio = Ratio::of(&rounds, |round| contest.score.of(round));
        Ok(ContestResult { contest: contest.clone(), ratio, rounds })
    }

    /// Measures these sides in turns. `each` is called after every round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn rounds(
        &self,
        sides: &[&Side],
        ops: Ops,
        each: &mut (dyn FnMut(&Round) + Send),
    ) -> Result<Vec<Round>, BenchError> {
        // Uses a thread of its own, since engines belong to their thread and the caller must stay
        // unpinned.
        std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                pin(self.cores.client)?;
                self.measure(sides, ops, each)
            });
            measuring.join().expect("the measuring thread has no panic")
        })
    }

    fn measure(
        &self,
        sides: &[&Side],
        ops: Ops,
        each: &mut dyn FnMut(&Round),
    ) -> Result<Vec<Round>, BenchError> {
        let measures = sides.iter().map(|side| self.side(side, ops));
        let mut measures: Vec<Measure<'_>> = measures.collect::<Result<_, _>>()?;
        let mut rounds = Vec::new();
        for _ in 0..self.timing.rounds {
            let before = core_to_core(self.cores.server, self.cores.client)?;
            let parts = measures.iter_mut().map(|measure| measure());
            let parts = parts.collect::<Result<_, _>>()?;
            let after = core_to_core(self.cores.server, self.cores.client)?;
            let round = Round { parts, before, after };
            each(&round);
            rounds.push(round);
        }
        Ok(rounds)
    }

    /// Fills the volume or the file of a side, so that reads return written data.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&self, side: &Side) -> Result<(), BenchError> {
        let ops = Ops::writes(FILL_OP_LEN, FILL_DEPTH);
        let mut job = self.job(ops);
        job.workload.pattern = Pattern::Write;
        job.workload.endless = false;
        job.end_fsync = true;
        let drive = DriveSpec { spin: Spin::Always, ..DriveSpec::default() };
        let threads = Threads::one(self.cores.client);
        let spec = RunSpec { jobs: Jobs::new(job, 1), drive, threads };
        let mut quiet = |_, _| {};
        match side {
            Side::NvmeTcp(target) => {
                run::run(&Remote::connect(target, needs(ops))?, &spec, &mut quiet)?;
            }
            Side::Direct(url) => {
                run::run(&DirectRemote::connect(url, needs(ops))?, &spec, &mut quiet)?;
            }
            Side::Iscsi(target) => {
                run::run(&IscsiRemote::connect(target, needs(ops))?, &spec, &mut quiet)?;
            }
            Side::File(path) => {
                self.file_options(path, Direction::Read).prepare()?;
            }
            // These read what another side fills, or nothing.
            Side::Floor(_)
            | Side::EverySecond(_)
            | Side::Handles(..)
            | Side::IscsiOneRead(_)
            | Side::IscsiPerf(_)
            | Side::FileAndFloor(..) => {}
        }
        Ok(())
    }

    fn side<'s>(&'s self, side: &'s Side, ops: Ops) -> Result<Measure<'s>, BenchError> {
        let (depth, needs) = (depth(ops), needs(ops));
        match side {
            Side::Floor(headers) => self.floor(*headers, ops),
            Side::Direct(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(depth, ops.op_len)?;
                Ok(self.remote(engine, ops))
            }
            Side::Handles(url, count) => {
                let remote = DirectRemote::connect(url, needs)?.over_handles(url, *count);
                Ok(self.remote(remote.open(depth, ops.op_len)?, ops))
            }
            Side::EverySecond(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(depth, ops.op_len)?;
                Ok(self.remote(EverySecond(engine), ops))
            }
            Side::NvmeTcp(target) => {
                let remote = Remote::connect(target, needs)?;
                let mut engine = remote.open(depth, ops.op_len)?;
                Ok(Box::new(move || {
                    remote.tend()?;
                    self.with_node(|| drive(&mut engine, &self.job(ops), &self.drive(ops)))
                }))
            }
            Side::Iscsi(target) => self.iscsi(target, ops),
            Side::IscsiOneRead(target) => self.iscsi(target, Ops { depth: 1, ..ops }),
            Side::IscsiPerf(target) => {
                Ok(Box::new(move || Ok(iscsi_perf::measure(target, ops.depth, self.timing.span)?)))
            }
            Side::File(path) => self.file(path, ops),
            Side::FileAndFloor(path, headers) => {
                let (mut file, mut floor) = (self.file(path, ops)?, self.floor(*headers, ops)?);
                Ok(Box::new(move || Ok(one_after_the_other(file()?, floor()?))))
            }
        }
    }

    fn file<'s>(&'s self, path: &'s Path, ops: Ops) -> Result<Measure<'s>, BenchError> {
        let options = self.file_options(path, ops.direction);
        let mut engine = options.open(depth(ops), ops.op_len)?;
        Ok(Box::new(move || {
            let _awake = KeptAwake::start(self.cores.server);
            let record = drive(&mut engine, &self.job(ops), &self.drive(ops))?;
            Ok(part(&record, None))
        }))
    }

    fn file_options(&self, path: &Path, direction: Direction) -> FileOptions {
        FileOptions {
            path: path.to_owned(),
            direct: true,
            writes: direction == Direction::Write,
            len_min: Some(self.range_len),
            batch: FILE_BATCH,
        }
    }

    fn iscsi<'s>(&'s self, target: &IscsiTarget, ops: Ops) -> Result<Measure<'s>, BenchError> {
        let remote = IscsiRemote::connect(target, needs(ops))?;
        let engine = remote.open(depth(ops), ops.op_len)?;
        Ok(self.remote(engine, ops))
    }

    fn remote<'s, E: Engine + 's>(&'s self, mut engine: E, ops: Ops) -> Measure<'s> {
        Box::new(move || self.with_node(|| drive(&mut engine, &self.job(ops), &self.drive(ops))))
    }

    /// Runs a measurement, and counts the node's processor time for the counted part of it.
    fn with_node(
        &self,
        measure: impl FnOnce() -> Result<Record, BenchError>,
    ) -> Result<Part, BenchError> {
        let start = std::time::Instant::now();
        let before = self.node.cpu_time()?;
        let record = measure()?;
        let (used, all) = (self.node.cpu_time()?.since(before), elapsed(start));
        Ok(part(&record, Some(used.share(record.elapsed.0, all.0.max(1)))))
    }

    fn floor(&self, headers: Headers, ops: Ops) -> Result<Measure<'_>, BenchError> {
        let exchange = match ops.direction {
            Direction::Read => Exchange::read(headers, ops.op_len),
            Direction::Write => Exchange::write(headers, ops.op_len),
        };
        let spec = floor::tuned(&FloorSpec {
            exchange,
            connections: 1,
            depth: ops.depth,
            ramp: self.timing.ramp,
            runtime: self.timing.span,
            relayed: None,
            cores: self.cores,
            waits: Waits::Spinning,
            batch: ops.batch,
            tuning: Tuning::default(),
        })?;
        Ok(Box::new(move || {
            let run = floor::measure(&spec)?;
            let (figure, cpu_ns) = (Figure::from(&run), 2e9 / run.rate());
            Ok(Part { figure, cpu_ns, own_ns: OwnTime::NONE })
        }))
    }

    fn job(&self, ops: Ops) -> JobSpec {
        let pattern = match ops.direction {
            Direction::Read => Pattern::RandRead,
            Direction::Write => Pattern::RandWrite,
        };
        JobSpec::endless(pattern, ops.op_len, self.range_len, ops.depth)
    }

    fn drive(&self, ops: Ops) -> DriveSpec {
        DriveSpec {
            batch: ops.batch,
            ramp: self.timing.ramp,
            runtime: Some(self.timing.span),
            spin: Spin::Always,
            ..DriveSpec::default()
        }
    }
}

fn drive<E: Engine>(
    engine: &mut E,
    job: &JobSpec,
    drive: &DriveSpec,
) -> Result<Record, BenchError> {
    job::run(engine, job, drive, &Gauge::default(), &AtomicBool::new(false))
        .map_err(|source| BenchError::Job { job: 0, source })
}

fn depth(ops: Ops) -> usize {
    usize::try_from(ops.depth).expect("usize is at least 32 bits wide")
}

fn needs(ops: Ops) -> Needs {
    Needs { op_len: ops.op_len, offset: ByteLen(0), depth: depth(ops), job_count: 1 }
}

/// The sum of two parts: each operation is first the one, then the other.
fn one_after_the_other(one: Part, other: Part) -> Part {
    let latency_ns = one.figure.latency_ns + other.figure.latency_ns;
    let core_share = one.figure.core_share.min(other.figure.core_share);
    let iops = one.figure.iops.min(other.figure.iops);
    let figure = Figure { iops, latency_ns, core_share };
    Part { figure, cpu_ns: one.cpu_ns + other.cpu_ns, own_ns: OwnTime::NONE }
}

fn part(record: &Record, node: Option<CpuTime>) -> Part {
    let ops = (record.iops() * record.elapsed.0 as f64 / 1e9).max(1.0);
    let host = record.cpu;
    let total = node.map_or(host, |node| host.plus(node)).total;
    let own = |time: CpuTime| time.exact_split().0.0 as f64 / ops;
    let own_ns = OwnTime { node: node.map_or(f64::NAN, own), host: own(host) };
    Part { figure: Figure::from(record), cpu_ns: total.0 as f64 / ops, own_ns }
}

/// An engine that doubles all offsets.
struct EverySecond<E>(E);

impl<E: Engine> Engine for EverySecond<E> {
    fn buffer(&self, slot: Slot) -> &[u8] {
        self.0.buffer(slot)
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.0.buffer_mut(slot)
    }

    #[inline]
    fn submit(&mut self, slot: Slot, op: Op) {
        self.0.submit(slot, Op { offset: ByteOffset(2 * op.offset.0), ..op });
    }

    #[inline]
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        self.0.poll(done)
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        self.0.hand_over()
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        self.0.doze()
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        self.0.wakers(wakers);
    }

    fn awake(&mut self) {
        self.0.awake();
    }

    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        self.0.wait(span)
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        self.0.flush()
    }
}
