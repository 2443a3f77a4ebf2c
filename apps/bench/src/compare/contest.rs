//! Two sides of one load, measured in turns: what is compared, and how.

use std::path::PathBuf;

use nearflash::direct::Url;
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::event::PollFd;

use super::awake::KeptAwake;
use super::iscsi_perf;
use super::node::Node;
use super::round::{Figure, Measured, Ratio, Verdict, verdict_of};
use super::stand::{Timing, drive};
use crate::BenchError;
use crate::engine::{
    DirectRemote, Done, Engine, EngineError, FILE_BATCH, FileOptions, IscsiRemote, Needs, Remote,
    Slot,
};
use crate::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning};
use crate::job::JobSpec;
use crate::placement::{core_to_core, elapsed, pin};
use crate::recorder::Record;
use crate::run::Opener;
use crate::subject::{IscsiTarget, NvmeTcpTarget};
use crate::workload::{Op, Pattern};

/// A side.
#[derive(Clone, Debug)]
pub enum Side {
    /// The bare exchange of the same bytes, with these headers.
    Floor(Headers),
    /// A volume behind the direct protocol.
    Direct(Url),
    /// The same, but only every second operation's place of it: grants with gaps allow that.
    EverySecond(Url),
    /// A namespace behind NVMe/TCP.
    NvmeTcp(NvmeTcpTarget),
    /// A logical unit behind iSCSI, through our own initiator.
    Iscsi(IscsiTarget),
    /// The same with one read in flight, whatever the other side has.
    IscsiOneRead(IscsiTarget),
    /// A logical unit behind iSCSI, through `iscsi-perf`: blocks of 4 KiB.
    IscsiPerf(IscsiTarget),
    /// A file of this machine, over io_uring.
    File(PathBuf),
}

/// What of two sides is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Score {
    /// Operations per second, as a part of the other side's: the more the better.
    Iops,
    /// Mean latency over the other side's: the less the better.
    Latency,
    /// Mean latency in microseconds, by itself: the less the better.
    Micros,
    /// Processor time of an operation, client and node together, over the other side's: the less
    /// the better.
    CpuTime,
}

impl Score {
    /// Of one turn.
    pub fn of(self, turn: &Turn) -> f64 {
        let Turn { subject, base, .. } = turn;
        let base = base.unwrap_or(*subject);
        match self {
            Self::Iops => subject.figure.iops / base.figure.iops,
            Self::Latency => subject.figure.latency_ns / base.figure.latency_ns,
            Self::Micros => subject.figure.latency_ns / 1e3,
            Self::CpuTime => subject.cpu_ns / base.cpu_ns,
        }
    }

    /// Whether less is better.
    pub fn is_less_better(self) -> bool {
        self != Self::Iops
    }
}

/// Random reads, all alike.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Length of one.
    pub op_len: ByteLen,
    /// In flight.
    pub depth: u32,
}

/// What is compared with what.
#[derive(Clone, Debug)]
pub struct Contest {
    /// In words.
    pub what: &'static str,
    /// The side that is to be good.
    pub subject: Side,
    /// The side that it is measured by.
    pub base: Option<Side>,
    /// What both do.
    pub reads: Reads,
    /// What is compared.
    pub score: Score,
    /// What it must come to, if it must.
    pub must: Option<f64>,
    /// What it shall come to.
    pub aim: Option<f64>,
}

/// What a side came to in one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Rate and latency.
    pub figure: Figure,
    /// Processor time of an operation, client and node together.
    pub cpu_ns: f64,
}

/// Both sides, measured shortly after one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The side that is to be good.
    pub subject: Part,
    /// The other, if there is one.
    pub base: Option<Part>,
    /// Core to core before.
    pub before: Nanos,
    /// Core to core after.
    pub after: Nanos,
}

impl Measured for Turn {
    fn verdict(&self) -> Verdict {
        let base = self.base.map(|part| part.figure);
        let figures = [Some(self.subject.figure), base];
        verdict_of(figures.into_iter().flatten(), self.before, self.after)
    }

    fn core_to_core(&self) -> Nanos {
        self.before
    }
}

/// A measured contest.
#[derive(Clone, Debug)]
pub struct ContestResult {
    /// Which.
    pub contest: Contest,
    /// What the turns say.
    pub ratio: Ratio,
    /// Every turn.
    pub turns: Vec<Turn>,
}

/// Where contests are held.
pub struct Arena<'a> {
    /// The node on whose volumes they are, for its processor time.
    pub node: &'a Node,
    /// Its core, and ours.
    pub cores: FloorCores,
    /// How much of a volume or a file is used.
    pub range_len: ByteLen,
    /// How long and how often.
    pub timing: Timing,
}

/// Measures a side once.
type Measure<'a> = Box<dyn FnMut() -> Result<Part, BenchError> + 'a>;

impl Arena<'_> {
    /// Measures both sides in turns; `each` is told every turn.
    ///
    /// # Errors
    /// When a side cannot be measured.
    pub fn hold(
        &self,
        contest: &Contest,
        each: &mut (dyn FnMut(&Turn) + Send),
    ) -> Result<ContestResult, BenchError> {
        // On a thread of its own: engines belong to their thread, and ours stays unpinned.
        let turns = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                pin(self.cores.client)?;
                self.turns(contest, each)
            });
            measuring.join().expect("the measuring thread has no panic")
        })?;
        let ratio = Ratio::of(&turns, |turn| contest.score.of(turn));
        Ok(ContestResult { contest: contest.clone(), ratio, turns })
    }

    fn turns(
        &self,
        contest: &Contest,
        each: &mut dyn FnMut(&Turn),
    ) -> Result<Vec<Turn>, BenchError> {
        let mut subject = self.side(&contest.subject, contest.reads)?;
        let mut base = match &contest.base {
            Some(side) => Some(self.side(side, contest.reads)?),
            None => None,
        };
        let mut turns = Vec::new();
        for _ in 0..self.timing.rounds {
            let before = core_to_core(self.cores.server, self.cores.client)?;
            let base = base.as_mut().map(|measure| measure()).transpose()?;
            let subject = subject()?;
            let after = core_to_core(self.cores.server, self.cores.client)?;
            let turn = Turn { subject, base, before, after };
            each(&turn);
            turns.push(turn);
        }
        Ok(turns)
    }

    fn side<'s>(&'s self, side: &'s Side, reads: Reads) -> Result<Measure<'s>, BenchError> {
        let depth = usize::try_from(reads.depth).expect("usize is at least 32 bits wide");
        let needs = Needs { op_len: reads.op_len, offset: ByteLen(0), depth, job_count: 1 };
        match side {
            Side::Floor(headers) => Ok(self.floor(*headers, reads)),
            Side::Direct(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(depth, reads.op_len)?;
                Ok(self.remote(engine, reads))
            }
            Side::EverySecond(url) => {
                let engine = DirectRemote::connect(url, needs)?.open(depth, reads.op_len)?;
                Ok(self.remote(EverySecond(engine), reads))
            }
            Side::NvmeTcp(target) => {
                let remote = Remote::connect(target, needs)?;
                let mut engine = remote.open(depth, reads.op_len)?;
                Ok(Box::new(move || {
                    remote.tend()?;
                    self.with_node(|| drive(&mut engine, &self.job(reads), &self.timing.drive()))
                }))
            }
            Side::Iscsi(target) => self.iscsi(target, reads),
            Side::IscsiOneRead(target) => self.iscsi(target, Reads { depth: 1, ..reads }),
            Side::IscsiPerf(target) => Ok(Box::new(move || {
                Ok(iscsi_perf::measure(target, reads.depth, self.timing.span)?)
            })),
            Side::File(path) => {
                let options = FileOptions {
                    path: path.clone(),
                    direct: true,
                    writes: false,
                    len_min: Some(self.range_len),
                    batch: FILE_BATCH,
                };
                let mut engine = options.open(depth, reads.op_len)?;
                Ok(Box::new(move || {
                    let _awake = KeptAwake::start(self.cores.server);
                    let record = drive(&mut engine, &self.job(reads), &self.timing.drive())?;
                    Ok(part(&record, Nanos(0)))
                }))
            }
        }
    }

    fn iscsi<'s>(&'s self, target: &IscsiTarget, reads: Reads) -> Result<Measure<'s>, BenchError> {
        let depth = usize::try_from(reads.depth).expect("usize is at least 32 bits wide");
        let needs = Needs { op_len: reads.op_len, offset: ByteLen(0), depth, job_count: 1 };
        let engine = IscsiRemote::connect(target, needs)?.open(depth, reads.op_len)?;
        Ok(self.remote(engine, reads))
    }

    fn remote<'s, E: Engine + 's>(&'s self, mut engine: E, reads: Reads) -> Measure<'s> {
        Box::new(move || {
            self.with_node(|| drive(&mut engine, &self.job(reads), &self.timing.drive()))
        })
    }

    /// Measures, and counts the node's processor time for the counted part of it.
    fn with_node(
        &self,
        measure: impl FnOnce() -> Result<Record, BenchError>,
    ) -> Result<Part, BenchError> {
        let start = std::time::Instant::now();
        let before = self.node.cpu_time()?;
        let record = measure()?;
        let (used, all) = (self.node.cpu_time()?.since(before), elapsed(start));
        let counted = used.share(record.elapsed.0, all.0.max(1));
        Ok(part(&record, counted.total))
    }

    fn floor(&self, headers: Headers, reads: Reads) -> Measure<'_> {
        let spec = FloorSpec {
            exchange: Exchange::read(headers, reads.op_len),
            connections: 1,
            depth: reads.depth,
            ramp: self.timing.ramp,
            runtime: self.timing.span,
            cores: self.cores,
            tuning: Tuning::default(),
        };
        Box::new(move || {
            let run = floor::measure(&spec)?;
            Ok(Part { figure: Figure::from(&run), cpu_ns: 2e9 / run.rate() })
        })
    }

    fn job(&self, reads: Reads) -> JobSpec {
        JobSpec::endless(Pattern::RandRead, reads.op_len, self.range_len, reads.depth)
    }
}

fn part(record: &Record, node: Nanos) -> Part {
    let ops = record.iops() * record.elapsed.0 as f64 / 1e9;
    let cpu_ns = record.cpu.total.plus(node).0 as f64 / ops.max(1.0);
    Part { figure: Figure::from(record), cpu_ns }
}

/// An engine whose operations are twice as far apart.
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
