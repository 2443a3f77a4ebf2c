//! Where comparisons are made: a node's volumes, a local file, and the cores of both sides.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use nearflash_units::{ByteLen, Nanos};

use super::awake::KeptAwake;
use super::round::{Figure, Round};
use crate::BenchError;
use crate::engine::{Engine, FILE_BATCH, FileOptions, Needs, Remote};
use crate::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning};
use crate::job::{self, DriveSpec, JobSpec, Spin};
use crate::placement::{core_to_core, pin};
use crate::recorder::{Gauge, Record};
use crate::run::{self, Jobs, Opener, RunSpec, Threads};
use crate::subject::NvmeTcpTarget;
use crate::workload::{Direction, Pattern};

/// Length of the operations that fill a volume.
const FILL_OP_LEN: ByteLen = ByteLen(128 << 10);
/// In flight while filling.
const FILL_DEPTH: usize = 8;

/// How long each side of a round takes, and how many rounds there are.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Not counted, at the start of each side.
    pub ramp: Nanos,
    /// Counted.
    pub span: Nanos,
    /// How many.
    pub rounds: u32,
}

impl Timing {
    /// How a thread drives a side.
    pub(super) fn drive(self) -> DriveSpec {
        DriveSpec {
            ramp: self.ramp,
            runtime: Some(self.span),
            spin: Spin::Always,
            ..DriveSpec::default()
        }
    }
}

/// Which volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Device {
    /// On the null device: the wire and the node alone.
    Null,
    /// On a file.
    File,
}

/// What both sides do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where.
    pub device: Device,
    /// Which way.
    pub direction: Direction,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Operations in flight.
    pub depth: u32,
}

/// A running node's volumes and what stands beside them.
#[derive(Clone, Debug)]
pub struct Stand {
    /// The volume on the null device.
    pub null: NvmeTcpTarget,
    /// The volume on a file.
    pub file: NvmeTcpTarget,
    /// A file of ours on the same disk: what the device does without the network.
    pub local: PathBuf,
    /// How much of volume and file is used.
    pub range_len: ByteLen,
    /// The node's core, and ours.
    pub cores: FloorCores,
}

impl Stand {
    /// Writes the local file and the volume full, so that reads have something to read.
    ///
    /// # Errors
    /// When either cannot be written.
    pub fn fill(&self) -> Result<(), BenchError> {
        self.local_options(Direction::Read).prepare()?;
        let needs = needs(FILL_OP_LEN, FILL_DEPTH);
        let remote = Remote::connect(&self.file, needs)?;
        let load = Load {
            device: Device::File,
            direction: Direction::Write,
            op_len: FILL_OP_LEN,
            depth: u32::try_from(FILL_DEPTH).expect("a small constant"),
        };
        let mut job = self.job(load);
        job.workload.pattern = Pattern::Write;
        job.workload.endless = false;
        job.end_fsync = true;
        let spec = RunSpec {
            jobs: Jobs::new(job, 1),
            drive: DriveSpec { spin: Spin::Always, ..DriveSpec::default() },
            threads: Threads::one(self.cores.client),
        };
        run::run(&remote, &spec, &mut |_, _| {})?;
        Ok(())
    }

    /// Measures a load in turns: local (on a file), floor, remote. `each` is told every round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn rounds(
        &self,
        load: Load,
        timing: Timing,
        each: &mut (dyn FnMut(&Round) + Send),
    ) -> Result<Vec<Round>, BenchError> {
        // On a thread of its own: engines belong to their thread, and ours stays unpinned.
        std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                pin(self.cores.client)?;
                self.measure(load, timing, each)
            });
            measuring.join().expect("the measuring thread has no panic")
        })
    }

    fn measure(
        &self,
        load: Load,
        timing: Timing,
        each: &mut dyn FnMut(&Round),
    ) -> Result<Vec<Round>, BenchError> {
        let (job, span) = (self.job(load), timing.drive());
        let target = match load.device {
            Device::Null => &self.null,
            Device::File => &self.file,
        };
        let opener = Remote::connect(target, needs(load.op_len, job.depth))?;
        let mut remote = opener.open(job.depth, load.op_len)?;
        let mut local = match load.device {
            Device::Null => None,
            Device::File => Some(self.local_options(load.direction).open(job.depth, load.op_len)?),
        };
        let mut rounds = Vec::new();
        let floor_spec = floor::tuned(&self.floor_spec(load, timing))?;
        for _ in 0..timing.rounds {
            opener.tend()?;
            let before = self.distance()?;
            let local = match &mut local {
                Some(engine) => {
                    let _awake = KeptAwake::start(self.cores.server);
                    Some(Figure::from(&drive(engine, &job, &span)?))
                }
                None => None,
            };
            let floor = Figure::from(&floor::measure(&floor_spec)?);
            let figure = Figure::from(&drive(&mut remote, &job, &span)?);
            let after = self.distance()?;
            let round = Round { floor, local, remote: figure, before, after };
            each(&round);
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn distance(&self) -> Result<Nanos, BenchError> {
        Ok(core_to_core(self.cores.server, self.cores.client)?)
    }

    fn job(&self, load: Load) -> JobSpec {
        let pattern = match load.direction {
            Direction::Read => Pattern::RandRead,
            Direction::Write => Pattern::RandWrite,
        };
        JobSpec::endless(pattern, load.op_len, self.range_len, load.depth)
    }

    fn floor_spec(&self, load: Load, timing: Timing) -> FloorSpec {
        let exchange = match load.direction {
            Direction::Read => Exchange::read(Headers::NVME_TCP, load.op_len),
            Direction::Write => Exchange::write(Headers::NVME_TCP, load.op_len),
        };
        FloorSpec {
            exchange,
            connections: 1,
            depth: load.depth,
            ramp: timing.ramp,
            runtime: timing.span,
            cores: self.cores,
            batch: None,
            tuning: Tuning::default(),
        }
    }

    fn local_options(&self, direction: Direction) -> FileOptions {
        FileOptions {
            path: self.local.clone(),
            direct: true,
            writes: direction == Direction::Write,
            len_min: Some(self.range_len),
            batch: FILE_BATCH,
        }
    }
}

fn needs(op_len: ByteLen, depth: usize) -> Needs {
    Needs { op_len, offset: ByteLen(0), depth, job_count: 1 }
}

pub(super) fn drive<E: Engine>(
    engine: &mut E,
    job: &JobSpec,
    drive: &DriveSpec,
) -> Result<Record, BenchError> {
    job::run(engine, job, drive, &Gauge::default(), &AtomicBool::new(false))
        .map_err(|source| BenchError::Job { job: 0, source })
}
