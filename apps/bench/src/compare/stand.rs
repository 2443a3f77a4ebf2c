//! The environment of comparisons: a node's volumes, a local file, and the cores of both sides.

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
/// Queue depth of the operations that fill a volume.
const FILL_DEPTH: usize = 8;

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

impl Timing {
    /// How a thread runs a side.
    pub(super) fn drive(self) -> DriveSpec {
        DriveSpec {
            ramp: self.ramp,
            runtime: Some(self.span),
            spin: Spin::Always,
            ..DriveSpec::default()
        }
    }
}

/// The device of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Device {
    /// The null device: only the wire and the node.
    Null,
    /// A file.
    File,
}

/// The load of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The volume.
    pub device: Device,
    /// The direction.
    pub direction: Direction,
    /// Length of one operation.
    pub op_len: ByteLen,
    /// Queue depth.
    pub depth: u32,
}

/// The volumes of a running node, and a local file to compare them with.
#[derive(Clone, Debug)]
pub struct Stand {
    /// The volume on the null device.
    pub null: NvmeTcpTarget,
    /// The volume on a file.
    pub file: NvmeTcpTarget,
    /// A local file on the same disk: the device without the network.
    pub local: PathBuf,
    /// Length of the range of volume and file.
    pub range_len: ByteLen,
    /// The cores of the node and of the client.
    pub cores: FloorCores,
}

impl Stand {
    /// Fills the local file and the volume, so that reads return written data.
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

    /// Measures a load in turns: local (for a file), floor, remote. `each` is called after every
    /// round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn rounds(
        &self,
        load: Load,
        timing: Timing,
        each: &mut (dyn FnMut(&Round) + Send),
    ) -> Result<Vec<Round>, BenchError> {
        // Uses a thread of its own, since engines belong to their thread and the caller must stay
        // unpinned.
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
