//! Writes to a volume with two replicas and reads through another node, compared with one replica
//! on one node and with bare exchanges of two and three parties.
//!
//! Client and nodes are three parties on two cores. So none of them spins: each sleeps whenever it
//! has nothing to do, and so do the parties of the floors. At depth 1, one party works at a time,
//! and two cores are enough.
//!
//! At depth 32, the figure is the processor time of the nodes for each operation. All parties share
//! one core then: with two, most of the time would be that of waking the other core, which a node
//! that spins on a core of its own does not need. On one core, each party takes what the others
//! have left for it, so batches are as large as the depth allows.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use nearflash::direct::Url;
use nearflash_units::{ByteLen, KIB};

use nearflash_bench::BenchError;
use nearflash_bench::compare::Timing;
use nearflash_bench::cpu;
use nearflash_bench::engine::{DirectEngine, DirectRemote, Needs, Opener};
use nearflash_bench::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning, Waits};
use nearflash_bench::job::{self, DriveSpec, JobSpec, Spin};
use nearflash_bench::placement::{elapsed, pin, pin_process};
use nearflash_bench::recorder::{CpuTime, Gauge};
use nearflash_bench::run::{self, Jobs, RunSpec, Threads};
use nearflash_bench::workload::{Direction, Pattern};

/// Length of the operations.
const OP_LEN: ByteLen = ByteLen(4 * KIB);
/// Queue depth at which processor time is compared.
pub(super) const DEEP: u32 = 32;
/// Length of the operations that fill a volume, and their depth.
const FILL: (ByteLen, u32) = (ByteLen(128 * KIB), 8);

/// The volumes, and the nodes that serve them.
#[derive(Clone, Debug)]
pub struct MirrorTargets {
    /// A volume with one replica, at the node of the replica.
    pub single: Url,
    /// A volume with two replicas, at the node of the primaries.
    pub mirrored: Url,
    /// The same volume at the other node.
    pub entry: Url,
    /// The process IDs of both nodes: the primary's, and the other one.
    pub nodes: [u32; 2],
    /// The primary's core and the client's, which is also that of the other node.
    pub cores: FloorCores,
    /// Length of the range of each volume.
    pub range_len: ByteLen,
    /// Only sides whose description contains this text are measured.
    pub filter: String,
    /// Duration and number of rounds.
    pub timing: Timing,
}

/// A side of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MirrorSide {
    /// The bare exchange of a client with a server.
    Floor(Direction, u32),
    /// The same with a server that passes each request on to a third party. For a read, the server
    /// is on the client's core, as the entry node is.
    Relay(Direction, u32),
    /// A write to the volume with one replica.
    Single(u32),
    /// A write to the volume with two replicas, at the node of the primary.
    Mirrored(u32),
    /// A read of the volume with one replica.
    ReadSingle(u32),
    /// A read of the volume with two replicas, at the node of the primary.
    AtPrimary(u32),
    /// A read through the other node.
    ThroughEntry,
}

/// The sides of a round, in the order of their measurement.
pub const MIRROR_SIDES: [MirrorSide; 15] = [
    MirrorSide::Floor(Direction::Write, 1),
    MirrorSide::Relay(Direction::Write, 1),
    MirrorSide::Single(1),
    MirrorSide::Mirrored(1),
    MirrorSide::Floor(Direction::Read, 1),
    MirrorSide::Relay(Direction::Read, 1),
    MirrorSide::ReadSingle(1),
    MirrorSide::AtPrimary(1),
    MirrorSide::ThroughEntry,
    MirrorSide::Floor(Direction::Write, DEEP),
    MirrorSide::Relay(Direction::Write, DEEP),
    MirrorSide::Single(DEEP),
    MirrorSide::Mirrored(DEEP),
    MirrorSide::ReadSingle(DEEP),
    MirrorSide::AtPrimary(DEEP),
];

impl std::fmt::Display for MirrorSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = |direction: &Direction| match direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        match self {
            Self::Floor(direction, depth) => {
                write!(f, "floor of two parties, {}, depth {depth}", verb(direction))
            }
            Self::Relay(direction, depth) => {
                write!(f, "floor of three parties, {}, depth {depth}", verb(direction))
            }
            Self::Single(depth) => write!(f, "write to one replica, depth {depth}"),
            Self::Mirrored(depth) => write!(f, "write to two replicas, depth {depth}"),
            Self::ReadSingle(depth) => write!(f, "read of one replica, depth {depth}"),
            Self::AtPrimary(depth) => write!(f, "read at the primary of two, depth {depth}"),
            Self::ThroughEntry => f.write_str("read through the other node, depth 1"),
        }
    }
}

impl MirrorSide {
    /// Whether all parties share a core.
    fn is_together(self) -> bool {
        self.depth() == DEEP
    }

    fn depth(self) -> u32 {
        match self {
            Self::Floor(_, depth) | Self::Relay(_, depth) => depth,
            Self::Single(depth) | Self::Mirrored(depth) => depth,
            Self::ReadSingle(depth) | Self::AtPrimary(depth) => depth,
            Self::ThroughEntry => 1,
        }
    }
}

/// The figures of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MirrorFigure {
    /// Median latency, in nanoseconds.
    pub median_ns: f64,
    /// Mean latency, in nanoseconds.
    pub mean_ns: f64,
    /// Operations per second.
    pub iops: f64,
    /// Processor time of the nodes, or of the floor's server and third party, for each operation,
    /// in nanoseconds.
    pub cpu_ns: f64,
}

impl MirrorFigure {
    /// Of a side that is not measured.
    pub const NONE: Self =
        Self { median_ns: f64::NAN, mean_ns: f64::NAN, iops: f64::NAN, cpu_ns: f64::NAN };
}

/// The figures of a round, in the order of [`MIRROR_SIDES`].
#[derive(Clone, Debug)]
pub struct MirrorRound(pub Vec<MirrorFigure>);

impl MirrorRound {
    /// The figure of a side.
    ///
    /// # Panics
    /// When no round has this side.
    pub fn of(&self, side: MirrorSide) -> MirrorFigure {
        let index = MIRROR_SIDES.iter().position(|it| *it == side);
        self.0[index.expect("it is a side of a round")]
    }
}

/// Measures all sides in turns. `each` is called for every figure.
///
/// # Errors
/// When a side cannot be measured.
pub fn measure_mirror(
    targets: &MirrorTargets,
    each: &mut (dyn FnMut(MirrorSide, MirrorFigure) + Send),
) -> Result<Vec<MirrorRound>, BenchError> {
    for url in [&targets.single, &targets.mirrored] {
        targets.fill(url)?;
    }
    // A thread of its own, since engines belong to their thread and the caller stays unpinned.
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            pin(targets.cores.client)?;
            let mut sides = MIRROR_SIDES.map(|side| (side, None));
            for (side, engine) in &mut sides {
                *engine = targets.engine(*side)?;
            }
            let mut rounds = Vec::new();
            for _ in 0..targets.timing.rounds {
                let mut round = Vec::with_capacity(MIRROR_SIDES.len());
                for (side, engine) in &mut sides {
                    if !side.to_string().contains(&targets.filter) {
                        round.push(MirrorFigure::NONE);
                        continue;
                    }
                    targets.place(*side)?;
                    let figure = targets.measure(*side, engine.as_mut())?;
                    each(*side, figure);
                    round.push(figure);
                }
                rounds.push(MirrorRound(round));
            }
            Ok(rounds)
        });
        measuring.join().expect("the measuring thread has no panic")
    })
}

impl MirrorTargets {
    fn fill(&self, url: &Url) -> Result<(), BenchError> {
        let (op_len, depth) = FILL;
        let mut job = JobSpec::endless(Pattern::Write, op_len, self.range_len, depth);
        job.workload.endless = false;
        let threads = Threads::one(self.cores.client);
        let drive = DriveSpec { spin: Spin::Never, ..DriveSpec::default() };
        let spec = RunSpec { jobs: Jobs::new(job, 1), drive, threads };
        run::run(&DirectRemote::connect(url, needs(op_len, depth))?, &spec, &mut |_, _| {})?;
        Ok(())
    }

    fn engine(&self, side: MirrorSide) -> Result<Option<DirectEngine>, BenchError> {
        let url = match side {
            MirrorSide::Floor(..) | MirrorSide::Relay(..) => return Ok(None),
            MirrorSide::Single(_) | MirrorSide::ReadSingle(_) => &self.single,
            MirrorSide::Mirrored(_) | MirrorSide::AtPrimary(_) => &self.mirrored,
            MirrorSide::ThroughEntry => &self.entry,
        };
        let needs = needs(OP_LEN, side.depth());
        Ok(Some(DirectRemote::connect(url, needs)?.open(needs.depth, OP_LEN)?))
    }

    fn measure(
        &self,
        side: MirrorSide,
        engine: Option<&mut DirectEngine>,
    ) -> Result<MirrorFigure, BenchError> {
        let depth = side.depth();
        let (pattern, direction) = match side {
            MirrorSide::Floor(direction, _) => return self.floor(direction, depth, None),
            MirrorSide::Relay(direction, _) => {
                let relayed = match direction {
                    Direction::Write => Exchange::replica_write(Headers::DIRECT, OP_LEN),
                    Direction::Read => Exchange::read(Headers::DIRECT, OP_LEN),
                };
                return self.floor(direction, depth, Some(relayed));
            }
            MirrorSide::Single(_) | MirrorSide::Mirrored(_) => {
                (Pattern::RandWrite, Direction::Write)
            }
            MirrorSide::ReadSingle(_) | MirrorSide::AtPrimary(_) | MirrorSide::ThroughEntry => {
                (Pattern::RandRead, Direction::Read)
            }
        };
        let engine = engine.expect("every side but the floors has an engine");
        let job = JobSpec::endless(pattern, OP_LEN, self.range_len, depth);
        let drive = DriveSpec {
            ramp: self.timing.ramp,
            runtime: Some(self.timing.span),
            spin: Spin::Never,
            ..DriveSpec::default()
        };
        let (start, before) = (Instant::now(), self.node_cpu()?);
        let record = job::run(engine, &job, &drive, &Gauge::default(), &AtomicBool::new(false))
            .map_err(|source| BenchError::Job { job: 0, source })?;
        let used = self.node_cpu()?.since(before);
        let used = used.share(record.elapsed.0, elapsed(start).0.max(1)).total;
        let stream = record.stream(direction);
        Ok(MirrorFigure {
            median_ns: stream.latency.value_at_quantile(0.5) as f64,
            mean_ns: stream.latency.mean(),
            iops: record.iops(),
            cpu_ns: used.0 as f64 / stream.ops.max(1) as f64,
        })
    }

    fn floor(
        &self,
        direction: Direction,
        depth: u32,
        relayed: Option<Exchange>,
    ) -> Result<MirrorFigure, BenchError> {
        let FloorCores { server, client, .. } = self.cores;
        // The parties have the cores of those of the volumes.
        let cores = match (relayed, direction) {
            _ if depth == DEEP => FloorCores { server, client: server, third: None },
            (Some(_), Direction::Read) => {
                FloorCores { server: client, client, third: Some(server) }
            }
            _ => FloorCores { server, client, third: None },
        };
        let run = floor::measure(&FloorSpec {
            exchange: match direction {
                Direction::Read => Exchange::read(Headers::DIRECT, OP_LEN),
                Direction::Write => Exchange::write(Headers::DIRECT, OP_LEN),
            },
            connections: 1,
            depth,
            ramp: self.timing.ramp,
            runtime: self.timing.span,
            relayed,
            cores,
            waits: Waits::Asleep,
            batch: None,
            tuning: Tuning::default(),
        })?;
        Ok(MirrorFigure {
            median_ns: run.latency.value_at_quantile(0.5) as f64,
            mean_ns: run.latency.mean(),
            iops: run.rate(),
            cpu_ns: run.server_cpu.total.0 as f64 / run.answers.max(1) as f64,
        })
    }

    /// Puts the calling thread and the other node on the cores that a side needs.
    fn place(&self, side: MirrorSide) -> Result<(), BenchError> {
        let FloorCores { server, client, .. } = self.cores;
        let core = if side.is_together() { server } else { client };
        pin(core)?;
        Ok(pin_process(self.nodes[1], core)?)
    }

    fn node_cpu(&self) -> Result<CpuTime, BenchError> {
        let mut sum = CpuTime::default();
        for node in self.nodes {
            let time = cpu::of_process(node).map_err(nearflash_bench::compare::NodeError::from)?;
            sum = sum.plus(time.cpu);
        }
        Ok(sum)
    }
}

fn needs(op_len: ByteLen, depth: u32) -> Needs {
    let depth = usize::try_from(depth).expect("usize is at least 32 bits wide");
    Needs { op_len, offset: ByteLen(0), depth, job_count: 1 }
}
