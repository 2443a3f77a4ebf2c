//! Sides under one load, measured in turns.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nearflash_units::{ByteLen, Nanos};

use super::awake::KeptAwake;
use super::node::Node;
use super::round::{Figure, OwnTime, Part, Round};
use crate::BenchError;
use crate::engine::{Engine, FILE_BATCH, FileOptions, Needs, Opener, Remote};
use crate::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning, Waits};
use crate::job::{self, DriveSpec, JobSpec, Spin};
use crate::placement::{core_to_core, elapsed, pin};
use crate::recorder::{CpuTime, Gauge, Record};
use crate::run::{self, Jobs, RunSpec, Threads};
use crate::subject::NvmeTcpTarget;
use crate::workload::{Direction, Pattern};

/// The operations that fill a volume.
pub const FILL: Ops = Ops::writes(ByteLen(128 << 10), 8);

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

    /// The requirements of these operations on a remote target.
    pub fn needs(self) -> Needs {
        Needs { op_len: self.op_len, offset: ByteLen(0), depth: self.slots(), job_count: 1 }
    }

    /// The number of slots for the queue depth.
    pub fn slots(self) -> usize {
        usize::try_from(self.depth).expect("usize is at least 32 bits wide")
    }

    /// Issues one operation for each completion, separately.
    pub const fn one_by_one(self) -> Self {
        Self { batch: NonZeroUsize::new(1), ..self }
    }
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
pub type Measure<'a> = Box<dyn FnMut() -> Result<Part, BenchError> + 'a>;

/// A side of a comparison.
pub trait Side: Sync {
    /// Prepares the side for a load.
    ///
    /// # Errors
    /// When it cannot be reached, or does not support the load.
    fn start<'a>(&'a self, arena: &'a Arena<'_>, ops: Ops) -> Result<Measure<'a>, BenchError>;
}

/// The bare exchange with these headers.
impl Side for Headers {
    fn start<'a>(&'a self, arena: &'a Arena<'_>, ops: Ops) -> Result<Measure<'a>, BenchError> {
        arena.floor(*self, ops)
    }
}

/// A namespace over NVMe/TCP.
impl Side for NvmeTcpTarget {
    fn start<'a>(&'a self, arena: &'a Arena<'_>, ops: Ops) -> Result<Measure<'a>, BenchError> {
        let remote = Remote::connect(self, ops.needs())?;
        let mut engine = remote.open(ops.slots(), ops.op_len)?;
        Ok(Box::new(move || {
            remote.tend()?;
            arena.with_node(|| drive(&mut engine, &arena.job(ops), &arena.drive(ops)))
        }))
    }
}

/// A file of this machine, over io_uring.
impl Side for PathBuf {
    fn start<'a>(&'a self, arena: &'a Arena<'_>, ops: Ops) -> Result<Measure<'a>, BenchError> {
        let mut engine = arena.file_options(self, ops.direction).open(ops.slots(), ops.op_len)?;
        Ok(Box::new(move || {
            let _awake = KeptAwake::start(arena.cores.server);
            let record = drive(&mut engine, &arena.job(ops), &arena.drive(ops))?;
            Ok(part(&record, None))
        }))
    }
}

impl Arena<'_> {
    /// Measures these sides in turns. `each` is called after every round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn rounds(
        &self,
        sides: &[&dyn Side],
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
        sides: &[&dyn Side],
        ops: Ops,
        each: &mut dyn FnMut(&Round),
    ) -> Result<Vec<Round>, BenchError> {
        let measures = sides.iter().map(|side| side.start(self, ops));
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

    /// Fills a volume, so that reads return written data.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&self, volume: &impl Opener) -> Result<(), BenchError> {
        let mut job = self.job(FILL);
        job.workload.pattern = Pattern::Write;
        job.workload.endless = false;
        job.end_fsync = true;
        let drive = DriveSpec { spin: Spin::Always, ..DriveSpec::default() };
        let threads = Threads::one(self.cores.client);
        let spec = RunSpec { jobs: Jobs::new(job, 1), drive, threads };
        run::run(volume, &spec, &mut |_, _| {})?;
        Ok(())
    }

    /// Fills a file of this machine, unless it is filled.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill_file(&self, path: &Path) -> Result<(), BenchError> {
        self.file_options(path, Direction::Read).prepare()?;
        Ok(())
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

    /// Measures the volume of a remote engine.
    pub fn remote<'s, E: Engine + 's>(&'s self, mut engine: E, ops: Ops) -> Measure<'s> {
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

fn part(record: &Record, node: Option<CpuTime>) -> Part {
    let ops = (record.iops() * record.elapsed.0 as f64 / 1e9).max(1.0);
    let host = record.cpu;
    let total = node.map_or(host, |node| host.plus(node)).total;
    let own = |time: CpuTime| time.exact_split().0.0 as f64 / ops;
    let own_ns = OwnTime { node: node.map_or(f64::NAN, own), host: own(host) };
    Part { figure: Figure::from(record), cpu_ns: total.0 as f64 / ops, own_ns }
}
