//! Contests: a subject and its base, and the score that is required.

use std::path::PathBuf;

use nearflash::direct::Url;
use nearflash_bench::BenchError;
use nearflash_bench::compare::{
    Arena, FILL, Figure, Measure, Ops, OwnTime, Part, Ratio, Round, Side, measure_iscsi_perf,
};
use nearflash_bench::engine::{
    DirectRemote, Done, Engine, EngineError, IscsiRemote, Opener, Remote, Slot,
};
use nearflash_bench::floor::Headers;
use nearflash_bench::subject::{IscsiTarget, NvmeTcpTarget};
use nearflash_bench::workload::Op;
use nearflash_units::{ByteOffset, Nanos};
use rustix::event::PollFd;

/// A side of a contest.
#[derive(Clone, Debug)]
pub enum ContestSide {
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

/// A comparison of two sides.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Its description.
    pub what: &'static str,
    /// The side that is judged.
    pub subject: ContestSide,
    /// The side that it is compared with; `None` for an absolute score.
    pub base: Option<ContestSide>,
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

impl Contest {
    /// Holds the contest. `each` is called after every round.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn hold(
        &self,
        arena: &Arena<'_>,
        each: &mut (dyn FnMut(&Round) + Send),
    ) -> Result<ContestResult, BenchError> {
        let subject: &dyn Side = &self.subject;
        let base = self.base.as_ref().map(|base| base as &dyn Side);
        let sides: Vec<&dyn Side> = base.into_iter().chain([subject]).collect();
        let rounds = arena.rounds(&sides, self.ops, each)?;
        let ratio = Ratio::of(&rounds, |round| self.score.of(round));
        Ok(ContestResult { contest: self.clone(), ratio, rounds })
    }
}

impl ContestSide {
    /// Fills the volume or the file, so that reads return written data. The other sides read what
    /// another one fills, or nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&self, arena: &Arena<'_>) -> Result<(), BenchError> {
        let needs = FILL.needs();
        match self {
            Self::NvmeTcp(target) => arena.fill(&Remote::connect(target, needs)?),
            Self::Direct(url) => arena.fill(&DirectRemote::connect(url, needs)?),
            Self::Iscsi(target) => arena.fill(&IscsiRemote::connect(target, needs)?),
            Self::File(path) => arena.fill_file(path),
            _ => Ok(()),
        }
    }
}

impl Side for ContestSide {
    fn start<'a>(&'a self, arena: &'a Arena<'_>, ops: Ops) -> Result<Measure<'a>, BenchError> {
        let (slots, needs) = (ops.slots(), ops.needs());
        match self {
            Self::Floor(headers) => headers.start(arena, ops),
            Self::Direct(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(slots, ops.op_len)?;
                Ok(arena.remote(engine, ops))
            }
            Self::Handles(url, count) => {
                let remote = DirectRemote::connect(url, needs)?.over_handles(url, *count);
                Ok(arena.remote(remote.open(slots, ops.op_len)?, ops))
            }
            Self::EverySecond(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(slots, ops.op_len)?;
                Ok(arena.remote(EverySecond(engine), ops))
            }
            Self::NvmeTcp(target) => target.start(arena, ops),
            Self::Iscsi(target) => iscsi(target, arena, ops),
            Self::IscsiOneRead(target) => iscsi(target, arena, Ops { depth: 1, ..ops }),
            Self::IscsiPerf(target) => {
                Ok(Box::new(move || Ok(measure_iscsi_perf(target, ops.depth, arena.timing.span)?)))
            }
            Self::File(path) => path.start(arena, ops),
            Self::FileAndFloor(path, headers) => {
                let (mut file, mut floor) = (path.start(arena, ops)?, headers.start(arena, ops)?);
                Ok(Box::new(move || Ok(one_after_the_other(file()?, floor()?))))
            }
        }
    }
}

fn iscsi<'a>(
    target: &IscsiTarget,
    arena: &'a Arena<'_>,
    ops: Ops,
) -> Result<Measure<'a>, BenchError> {
    let remote = IscsiRemote::connect(target, ops.needs())?;
    Ok(arena.remote(remote.open(ops.slots(), ops.op_len)?, ops))
}

/// The sum of two parts: each operation is first the one, then the other.
fn one_after_the_other(one: Part, other: Part) -> Part {
    let latency_ns = one.figure.latency_ns + other.figure.latency_ns;
    let core_share = one.figure.core_share.min(other.figure.core_share);
    let iops = one.figure.iops.min(other.figure.iops);
    let figure = Figure { iops, latency_ns, core_share };
    Part { figure, cpu_ns: one.cpu_ns + other.cpu_ns, own_ns: OwnTime::NONE }
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
