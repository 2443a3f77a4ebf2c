//! Measures one point: all its runs.

use std::iter::once;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{CORE_SHARE_MIN, KeptAwake};
use nearflash_bench::floor::{self, Exchange, FloorCores, FloorSpec, Headers, Tuning, Waits};
use nearflash_bench::job::Spin;
use nearflash_bench::placement::{Place as CorePlace, core_to_core};
use nearflash_bench::recorder::Record;
use nearflash_bench::subject::{IscsiTarget, Target};
use nearflash_bench::workload::Direction;
use nearflash_units::{ByteLen, Nanos};

use super::drive::{Lane, Manner, drive};
use super::error::PointError;
use super::file;
use super::fio::{self, On};
use super::peers::Served;
use super::quiet::{Seen, Watch};
use super::stand::{Reached, Stand};
use super::ways::Way;
use crate::energy::EnergyCounter;
use crate::plan::{Load, Medium, Peer, Point, Subject};
use crate::result::{Comparable, Cpu, Latency, Measurement, Outcome, Run};

/// A run in which no operation completed is repeated once, this many times as long.
const PATIENCE: u64 = 20;
/// Commands that one session of a peer takes at a time: tgt's limit.
const SESSION_DEPTH_MAX: u32 = 128;
/// A node that waited for a core for more than this fraction of the time was disturbed.
const WAITED_SHARE_MAX: f64 = 0.05;
/// Limit of other programs' processor time during a run, as a fraction of one core.
pub(crate) const OTHERS_SHARE_MAX: f64 = 0.25;

impl Stand {
    /// Runs a point as often as the timing says. A model, which always gives the same numbers, is
    /// computed once.
    pub fn measure(&mut self, point: &Point) -> Outcome {
        if let Subject::Model(model) = &point.subject {
            return model.simulate().into();
        }
        match self.runs(point) {
            Ok(measurement) => Outcome::Measured(measurement),
            Err(error) => Outcome::Failed(one_line(&error.to_string())),
        }
    }

    fn runs(&mut self, point: &Point) -> Result<Measurement, PointError> {
        let reached = self.reach(&point.subject)?;
        let mut tenants: Vec<Vec<Run>> = point.loads.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.spec.timing.repeats {
            let runs = match self.run_once(point, &reached) {
                Err(PointError::Nothing { .. }) => self.run_patiently(point, &reached)?,
                runs => runs?,
            };
            for (tenant, run) in tenants.iter_mut().zip(runs) {
                tenant.push(run);
            }
        }
        Ok(Measurement { tenants, command: self.command(point, &reached) })
    }

    /// Repeats a run with more time, for a slow or busy disk. The run records how long it took.
    fn run_patiently(&mut self, point: &Point, reached: &Reached) -> Result<Vec<Run>, PointError> {
        let timing = self.spec.timing;
        self.spec.timing.counted_ms = timing.counted_ms * PATIENCE;
        let runs = self.run_once(point, reached);
        self.spec.timing = timing;
        runs
    }

    /// The equivalent command line, for reproduction by hand.
    fn command(&self, point: &Point, reached: &Reached) -> Option<String> {
        let Subject::Peer { peer: peer @ (Peer::Fio | Peer::Nbdkit), medium } = &point.subject
        else {
            return super::command::of(point, &reached.places);
        };
        let words = self.fio_words(*peer, *medium, point.loads.first()?).ok()?;
        Some(format!("fio {}", words.join(" ")))
    }

    fn run_once(&self, point: &Point, reached: &Reached) -> Result<Vec<Run>, PointError> {
        // The same two cores for every point, even if the node has more: their place shows where
        // the machine has put this process, and another pair would always differ.
        let (there, here) = self.ends(1);
        let distance = || match there == here {
            true => Ok(Nanos(0)),
            false => core_to_core(there, here).map_err(BenchError::from),
        };
        let before = distance()?;
        let measured = match &point.subject {
            Subject::Wire(headers) => self.wire(*headers, &point.loads)?,
            Subject::Peer { peer: peer @ (Peer::Fio | Peer::Nbdkit), medium } => {
                let load = only(&point.loads)?;
                let words = self.fio_words(*peer, *medium, load)?;
                self.external(reached, || Ok(fio::run(&words, load)?))?
            }
            Subject::File { way, .. } => {
                let (load, place) = (only(&point.loads)?, &reached.places[0]);
                let program = self.spec.node.as_deref().ok_or(PointError::NoProgram)?;
                let cores = self.client_cores(reached.node_core_count);
                let timing = self.spec.timing;
                self.external(reached, || file::run(program, (*way, place), load, timing, cores))?
            }
            _ => self.loads(point, reached)?,
        };
        let after = distance()?;
        let timing = self.spec.timing;
        let mut runs = Vec::new();
        for mut run in measured.runs {
            if run.ops == 0 {
                return Err(PointError::Nothing { counted_ms: timing.counted_ms });
            }
            run.warm_up_seconds = seconds(timing.warm_up());
            run.core_to_core = [nanos(before), nanos(after)];
            run.comparable = match () {
                () if CorePlace::of(before) != CorePlace::of(after) => Comparable::Moved,
                () if measured.is_disturbed => Comparable::Disturbed,
                () => Comparable::Sound,
            };
            runs.push(run);
        }
        Ok(runs)
    }

    /// The bare exchange, one load after another, with one connection per client.
    fn wire(&self, headers: Headers, loads: &[Load]) -> Result<Measured, PointError> {
        let (server, client) = self.ends(1);
        let timing = self.spec.timing;
        let watch = Watch::start(&[std::process::id()]);
        let mut runs = Vec::new();
        for load in loads {
            let direction = load.pattern.single_direction().ok_or(PointError::MixedWire)?;
            let exchange = match direction {
                Direction::Read => Exchange::read(headers, load.op_len),
                Direction::Write => Exchange::write(headers, load.op_len),
            };
            let spec = FloorSpec {
                exchange,
                connections: load.clients,
                depth: load.depth,
                ramp: timing.warm_up(),
                runtime: timing.counted(),
                relayed: None,
                cores: FloorCores { server, client, third: None },
                waits: Waits::Spinning,
                batch: None,
                tuning: Tuning::default(),
            };
            let run = floor::measure(&spec).map_err(BenchError::from)?;
            let used = run.client_cpu.exact_split();
            let per_op = |time: Nanos| time.0 as f64 / 1e3 / ops_of(run.answers);
            // Both sides do the same work, each pinned to a core of its own.
            let cpu = Cpu {
                client_user: per_op(used.0),
                client_system: per_op(used.1),
                node_user: per_op(used.0),
                node_system: per_op(used.1),
            };
            runs.push(Run {
                ops: run.answers,
                seconds: seconds(run.elapsed),
                warm_up_seconds: 0.0,
                iops: run.rate(),
                bytes_per_second: run.rate() * bytes(load.op_len),
                latency: latency(&run.latency),
                cpu,
                joules: None,
                core_to_core: [0.0; 2],
                core_share: run.core_share.min(1.0),
                comparable: Comparable::Sound,
            });
        }
        let seen = watch.stop();
        // Both sides spin: they wait only when another program has their core.
        let has_waited = runs.iter().any(|run| run.core_share < CORE_SHARE_MIN);
        Ok(Measured { runs, is_disturbed: has_waited || seen.others > OTHERS_SHARE_MAX })
    }

    /// A load in a process of its own, such as fio's. `run` also returns the number of cores that the
    /// process used.
    fn external(
        &self,
        reached: &Reached,
        run: impl FnOnce() -> Result<(Run, f64), PointError>,
    ) -> Result<Measured, PointError> {
        let own: Vec<u32> = once(std::process::id()).chain(reached.process_ids.clone()).collect();
        let (there, _) = self.ends(1);
        // Keeps the core busy that a node would, so that the conditions are the same.
        let awake = reached.process_ids.is_empty() && self.cores.len() > 1;
        let _awake = awake.then(|| KeptAwake::start(there));
        let watch = Watch::start(&own);
        let (mut run, used) = run()?;
        let mut seen = watch.stop();
        // The process is counted among the other programs.
        seen.others = (seen.others - used).max(0.0);
        let counted = run.seconds / seconds(seen.span).max(f64::MIN_POSITIVE);
        let per_op = |time: Nanos| time.0 as f64 * counted / 1e3 / ops_of(run.ops);
        let (user, system) = served(&seen);
        (run.cpu.node_user, run.cpu.node_system) = (per_op(user), per_op(system));
        Ok(Measured { runs: vec![run], is_disturbed: is_disturbed(&seen, false) })
    }

    fn fio_words(
        &self,
        peer: Peer,
        medium: Medium,
        load: &Load,
    ) -> Result<Vec<String>, PointError> {
        let timing = self.spec.timing;
        let cores = self.client_cores(1);
        if let (Peer::Nbdkit, Some((_, Served::Nbdkit(nbdkit)))) = (peer, &self.served) {
            return Ok(fio::words(&On::Nbd(&nbdkit.socket, nbdkit.len), load, timing, cores));
        }
        let raw = self.fio_raw(medium).ok_or(PointError::NodeOnly)?;
        Ok(fio::words(&On::Raw(&raw), load, timing, cores))
    }

    /// All loads at the same time.
    fn loads(&self, point: &Point, reached: &Reached) -> Result<Measured, PointError> {
        let timing = self.spec.timing;
        let (there, _) = self.ends(reached.node_core_count);
        let cores = self.client_cores(reached.node_core_count).to_vec();
        let is_peer = matches!(point.subject, Subject::Peer { .. });
        let lanes = point
            .loads
            .iter()
            .map(|load| lane(load, reached, is_peer))
            .collect::<Result<Vec<_>, PointError>>()?;
        let is_alone = self.cores.len() > 1;
        let manner = Manner {
            ramp: timing.warm_up(),
            counted: Some(timing.counted()),
            cores: cores.clone(),
            // On a shared core the node could not run while the client spins.
            spin: if is_alone { Spin::Always } else { Spin::Never },
            end_fsync: false,
        };
        // Keeps the core busy that a node would, so that the conditions are the same.
        let awake = matches!(point.subject, Subject::Local(_)) && is_alone;
        let _awake = awake.then(|| KeptAwake::start(there));
        let own: Vec<u32> = once(std::process::id()).chain(reached.process_ids.clone()).collect();
        let watch = Watch::start(&own);
        let energy = self.energy.as_ref().and_then(EnergyCounter::read);
        let records = drive(&lanes, &manner)?;
        let seen = watch.stop();
        let joules = self
            .energy
            .as_ref()
            .zip(energy)
            .and_then(|(counter, before)| Some(counter.joules(&before, &counter.read()?)));
        let is_node = matches!(point.subject, Subject::Node { .. });
        let is_disturbed = is_disturbed(&seen, is_node);
        let share = if is_alone { core_share(&records, cores.len(), &point.loads) } else { 1.0 };
        let runs = records
            .iter()
            .zip(&point.loads)
            .map(|(record, load)| {
                let mut run = run_of(record, load, &records, &seen, share);
                // The counted fraction of the whole time.
                run.joules = joules.map(|all| all * counted_share(record, &seen));
                run
            })
            .collect();
        Ok(Measured { runs, is_disturbed })
    }
}

/// The runs of all loads.
struct Measured {
    runs: Vec<Run>,
    is_disturbed: bool,
}

fn lane<'a>(load: &'a Load, reached: &Reached, is_peer: bool) -> Result<Lane<'a>, PointError> {
    let place_count = u32::try_from(reached.places.len()).expect("few media");
    let clients = load.clients.div_ceil(place_count.max(1));
    let mut ways = Vec::new();
    let mut len = ByteLen(u64::MAX);
    for place in &reached.places {
        let target = match is_peer {
            true => with_room(&place.target, load),
            false => place.target.clone(),
        };
        let (way, there) = Way::connect(&target, load, clients)?;
        let there = ByteLen(there.0.saturating_sub(place.offset.0));
        len = len.min(there).min(place.len.unwrap_or(there));
        ways.push(way);
    }
    let offset = reached.places.first().map_or_else(Default::default, |place| place.offset);
    Ok(Lane { load, ways, offset, len })
}

/// Opens enough sessions with a peer for the load's depth: each takes at most [`SESSION_DEPTH_MAX`]
/// commands at a time.
fn with_room(target: &Target, load: &Load) -> Target {
    match target {
        Target::Iscsi(target) => {
            let sessions = load.depth.div_ceil(SESSION_DEPTH_MAX).max(1);
            let sessions = u16::try_from(sessions).unwrap_or(u16::MAX);
            Target::Iscsi(IscsiTarget { sessions, ..target.clone() })
        }
        other => other.clone(),
    }
}

/// A wait for a core only counts for a node: the threads of a peer share one core and wait for each
/// other.
fn is_disturbed(seen: &Seen, is_node: bool) -> bool {
    let waited =
        seen.own.get(1).map_or(0.0, |node| node.waited.0 as f64 / seen.span.0.max(1) as f64);
    (is_node && waited > WAITED_SHARE_MAX) || seen.others > OTHERS_SHARE_MAX
}

/// The fraction of the time that the measuring threads ran on their cores.
fn core_share(records: &[Record], core_count: usize, loads: &[Load]) -> f64 {
    let clients: u32 = loads.iter().map(|load| load.clients).sum();
    let threads = usize::try_from(clients).unwrap_or(usize::MAX).min(core_count).max(1);
    let used: u64 = records.iter().map(|record| record.cpu.total.0).sum();
    let elapsed = records.iter().map(|record| record.elapsed.0).max().unwrap_or(0).max(1);
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    (used as f64 / elapsed as f64 / f64::from(threads)).min(1.0)
}

fn run_of(record: &Record, load: &Load, all: &[Record], seen: &Seen, core_share: f64) -> Run {
    let used = record.cpu.exact_split();
    let (node_user, node_system) = served(seen);
    // The node works for all loads, and also while nothing is counted; each load gets its share of
    // the counted time.
    let counted = counted_share(record, seen);
    let all_ops: u64 = all.iter().map(Record::ops).sum();
    let per_op = |time: Nanos| time.0 as f64 / 1e3 / ops_of(record.ops());
    let node_per_op = |time: Nanos| time.0 as f64 * counted / 1e3 / ops_of(all_ops);
    let mut both = record.read.latency.clone();
    both.add(&record.write.latency).expect("all histograms have the same bounds");
    Run {
        ops: record.ops(),
        seconds: seconds(record.elapsed),
        warm_up_seconds: 0.0,
        iops: record.iops(),
        bytes_per_second: record.iops() * bytes(load.op_len),
        latency: latency(&both),
        cpu: Cpu {
            client_user: per_op(used.0),
            client_system: per_op(used.1),
            node_user: node_per_op(node_user),
            node_system: node_per_op(node_system),
        },
        joules: None,
        core_to_core: [0.0; 2],
        core_share,
        comparable: Comparable::Sound,
    }
}

/// The processor time of the processes that serve the subject, in user and in system mode.
fn served(seen: &Seen) -> (Nanos, Nanos) {
    let splits = seen.own.iter().skip(1).map(|process| process.cpu.exact_split());
    splits.fold((Nanos(0), Nanos(0)), |sum, it| (sum.0.plus(it.0), sum.1.plus(it.1)))
}

/// The only load of a process that takes one.
fn only(loads: &[Load]) -> Result<&Load, PointError> {
    let [load] = loads else { return Err(PointError::OneLoad) };
    Ok(load)
}

/// The fraction of the time in which operations were counted.
fn counted_share(record: &Record, seen: &Seen) -> f64 {
    record.elapsed.0 as f64 / seen.span.0.max(1) as f64
}

fn latency(histogram: &hdrhistogram::Histogram<u64>) -> Latency {
    let micros = |quantile: f64| count(histogram.value_at_quantile(quantile)) / 1e3;
    Latency {
        mean: histogram.mean() / 1e3,
        p50: micros(0.5),
        p95: micros(0.95),
        p99: micros(0.99),
        p999: micros(0.999),
        max: count(histogram.max()) / 1e3,
    }
}

fn count(number: u64) -> f64 {
    number as f64
}

/// At least 1, to divide by.
fn ops_of(ops: u64) -> f64 {
    count(ops.max(1))
}

fn bytes(len: ByteLen) -> f64 {
    count(len.0)
}

fn seconds(span: Nanos) -> f64 {
    nanos(span) / 1e9
}

fn nanos(span: Nanos) -> f64 {
    count(span.0)
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
