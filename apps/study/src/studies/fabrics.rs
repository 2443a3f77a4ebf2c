//! `jobs`, `iodepth` and `request-size-cpu`: the effect of parallelism, queue depth and length on
//! remote flash, and its processor time on both sides.

mod request_size;

use nearflash_bench::workload::Pattern;

use super::say::{self, Lineup, labelled, quantity, signed};
use super::sweep::{
    MB_S, MEAN_US, Measure, P99_US, Step, Sweep, at, axis, exhibit, lines, load, measure_axis,
    table_of,
};
use super::ways::{FILE, local, node, targets};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::plan::{Door, Load, Plan};
use crate::published::nvme_of_arm as paper;
use crate::result::Results;

pub(super) use request_size::RequestSizeCpu;

/// `jobs`.
pub(super) struct Jobs;
/// `iodepth`.
pub(super) struct IoDepth;

/// The number of busy cores on the host's side.
const CLIENT_CORES: Measure = Measure {
    label: "busy cores of the host",
    unit: "cores",
    of: |run| (run.cpu.client_user + run.cpu.client_system) * run.iops / 1e6,
};
const NODE_CORES: Measure = Measure {
    label: "busy cores of the target",
    unit: "cores",
    of: |run| (run.cpu.node_user + run.cpu.node_system) * run.iops / 1e6,
};

/// The sweep of all three studies: the file or device alone, over NVMe/TCP, and over direct.
fn sweep(setting: &Setting, study: &'static str, steps: Vec<Step>) -> Sweep {
    let mut ways = vec![local(FILE), node(Door::NvmeTcp, FILE), node(Door::Direct, FILE)];
    ways.extend(targets(setting));
    Sweep { study, ways, steps }
}

fn plan_of(sweep: &Sweep) -> Plan {
    Plan { points: sweep.points(), unable: Vec::new() }
}

/// One figure of a sweep.
struct View<'a> {
    setting: &'a Setting,
    results: &'a Results,
    sweep: Sweep,
    x: &'static str,
    source: &'static str,
}

impl View<'_> {
    fn exhibit(&self, slug: &str, title: &str, measure: Measure, y: Scale) -> Exhibit {
        let series = self.sweep.series(self.results, measure);
        let unit = if self.x == "request size" { "B" } else { "" };
        let x = axis(self.x, unit, Scale::Log2);
        let figure = lines(x, measure_axis(measure, y), series);
        let slug = format!("{}-{slug}", self.sweep.study);
        let mut exhibit = exhibit(slug, title.to_owned(), self.source, figure);
        exhibit.notes.push(cores_note(self.setting, 1));
        exhibit.notes.push(format!(
            "The paper prints no numbers for its figures. Its hardware: {}.",
            paper::PAPER.hardware
        ));
        exhibit
    }

    /// Host and target in one figure.
    fn processors(&self, slug: &str, title: &str, measures: [Measure; 2]) -> Exhibit {
        let of_side = |(side, measure): (&str, Measure)| {
            let mut series = self.sweep.series(self.results, measure);
            for one in &mut series {
                one.label = format!("{}, {side}", one.label);
            }
            series
        };
        let sides = [("host", measures[0]), ("target", measures[1])];
        let mut series: Vec<_> = sides.into_iter().flat_map(of_side).collect();
        // A medium alone has no target, and nothing is known of other targets' processors.
        let is_known = |one: &Series| one.points.iter().any(|mark| mark.y > 0.0);
        series.retain(|one| !one.label.ends_with(", target") || is_known(one));
        let mut exhibit = self.exhibit(slug, title, measures[0], Scale::Linear);
        let label = measures[0].label.replace(" of the host", "");
        let unit = if self.x == "request size" { "B" } else { "" };
        let figure = lines(
            axis(self.x, unit, Scale::Log2),
            axis(&label, measures[0].unit, Scale::Linear),
            series,
        );
        exhibit.table = table_of(&figure);
        exhibit.figure = Some(figure);
        exhibit
    }

    /// All series of a measure: the device alone and the others.
    fn said(&self, measure: Measure) -> Said {
        let series = self.sweep.series(self.results, measure);
        Said { series, places: self.sweep.steps.iter().map(|step| step.x).collect() }
    }
}

/// The series of a measure, for sentences.
struct Said {
    series: Vec<Series>,
    /// All positions of the axis.
    places: Vec<f64>,
}

impl Said {
    fn alone(&self) -> Option<&Series> {
        labelled(&self.series, &local(FILE).label)
    }

    fn remote(&self) -> Vec<&Series> {
        self.series.iter().filter(|one| one.origin == Origin::Measured).collect()
    }

    /// The series with a mark at every position, whose shape is known.
    fn whole(&self) -> Vec<&Series> {
        let is_whole = |one: &&Series| one.points.len() == self.places.len();
        self.series.iter().filter(is_whole).collect()
    }

    /// The series with marks at both ends of the axis, and these marks, so that their growth is
    /// known.
    fn ends(&self) -> Vec<(&Series, [&Mark; 2])> {
        let Some(places) = self.reach() else { return Vec::new() };
        let series = self.series.iter();
        series.filter_map(|one| Some((one, [at(one, places[0])?, at(one, places[1])?]))).collect()
    }

    /// The remote ways and the device alone, at the larger end.
    fn last(&self) -> Option<Lineup<'_>> {
        Lineup::last(&self.remote(), self.alone()?)
    }

    /// The remote ways and the device alone, at the smaller end.
    fn first(&self) -> Option<Lineup<'_>> {
        Lineup::first(&self.remote(), self.alone()?)
    }

    /// The ratio of the larger end to the smaller for every series, and the suffix for doubtful
    /// numbers.
    fn growth(&self) -> (Vec<(&str, f64)>, &'static str) {
        let mut ends = self.ends();
        ends.retain(|(_, [first, _])| first.y > 0.0);
        let times = ends.iter().map(|(one, [first, last])| (one.label.as_str(), last.y / first.y));
        (times.collect(), say::doubt(ends.iter().flat_map(|(_, both)| *both)))
    }

    /// The ends of the axis.
    fn reach(&self) -> Option<[f64; 2]> {
        let [first, .., last] = self.places[..] else { return None };
        Some([first, last])
    }
}

/// The difference of remote latency from that of the device alone.
fn beside_alone(lineup: &Lineup<'_>, what: &str, place: &str) -> Option<String> {
    Some(format!(
        "With {place} the {what} differs from that of the device alone ({}) by {}{}.",
        quantity(lineup.limit.y, "µs"),
        say::range(&lineup.changes(), signed)?,
        lineup.doubt(),
    ))
}

fn jobs_load(clients: u32, depth: u32, pattern: Pattern, len: u64) -> Load {
    Load { clients, depth, ..load(pattern, len) }
}

impl Study for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn question(&self) -> &'static str {
        "How do latency, bandwidth and processor time change with jobs, local and remote?"
    }

    fn source(&self) -> &'static str {
        "NVMe-oF on Arm, finding 1"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        plan_of(&self.view(setting, &Results::default()).sweep)
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let view = self.view(setting, results);
        let what = "4 KiB sequential reads, depth 128";
        let title = |of: &str| format!("{of} by jobs, {what}");
        let jobs = |x: f64| say::count(x, "job");
        let mut mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Linear);
        mean.conclusions = job_latencies(&view.said(MEAN_US));
        let mut tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Linear);
        let said = view.said(P99_US);
        let of = |end: Option<Lineup<'_>>| {
            end.and_then(|it| beside_alone(&it, "99th percentile", &jobs(it.x)))
        };
        tail.conclusions = say::conclude(of(said.last()), [of(said.first())]);
        let mut rate = view.exhibit("bandwidth", &title("Bandwidth"), MB_S, Scale::Linear);
        rate.conclusions = plateaus(&view.said(MB_S));
        let cores = [CLIENT_CORES, NODE_CORES];
        let mut busy = view.processors("cpu", &title("Busy cores of host and target"), cores);
        busy.conclusions = sides(&view);
        busy.notes.push(POLLING.to_owned());
        vec![mean, tail, rate, busy]
    }
}

/// The note on polling.
const POLLING: &str = "A side that polls is busy even without work: while it spins, its processor \
                       time of an operation is the time between two operations.";

impl Jobs {
    fn view<'a>(&self, setting: &'a Setting, results: &'a Results) -> View<'a> {
        let counts: &[u32] = if setting.is_quick { &[1, 4, 16] } else { &[1, 2, 4, 8, 16] };
        let step = |&jobs: &u32| {
            let load = jobs_load(jobs, paper::DEPTH, Pattern::Read, 4096);
            Step::new(f64::from(jobs), format!("jobs={jobs}"), load)
        };
        let sweep = sweep(setting, self.name(), counts.iter().map(step).collect());
        View { setting, results, sweep, x: "jobs", source: self.source() }
    }
}

/// Whether latency grows with jobs, and how it compares with the device alone.
fn job_latencies(said: &Said) -> Vec<String> {
    let (times, doubt) = said.growth();
    let lead = said.reach().zip(say::range(&times, say::times)).map(|([first, last], range)| {
        format!("From {first} to {last} jobs the mean latency becomes {range} as long{doubt}.")
    });
    let claim = lead.is_some().then(|| {
        let grows = say::held(&times, |it| it > 1.0);
        let holds = say::holds_for(grows, times.len(), "curves");
        format!("That latency grows with jobs {holds}{doubt}.")
    });
    let last = said.last();
    let beside = last.and_then(|it| beside_alone(&it, "mean latency", &say::count(it.x, "job")));
    say::conclude(lead, [beside, claim])
}

/// The number of jobs that reach nine tenths of the peak.
fn plateaus(said: &Said) -> Vec<String> {
    let stated = paper::PLATEAU_JOBS;
    let enough = |one: &Series| {
        let peak = *say::peak(one)?;
        one.points.iter().find(|mark| mark.y >= 0.9 * peak.y).map(|mark| [*mark, peak])
    };
    let whole = said.whole();
    let all: Vec<_> =
        whole.iter().filter_map(|one| Some((one.label.as_str(), enough(one)?))).collect();
    let doubt = || say::doubt(all.iter().flat_map(|(_, both)| both));
    let jobs: Vec<_> = all.iter().map(|(label, [enough, _])| (*label, enough.x)).collect();
    let lead = say::range(&jobs, |x| say::count(x, "job"))
        .map(|range| format!("Nine tenths of the most bandwidth take {range}{}.", doubt()));
    let claim = lead.is_some().then(|| {
        let held = say::held(&jobs, |x| x <= stated.value);
        let holds = say::holds_for(held, jobs.len(), "curves");
        format!("That {} jobs are enough, as in the paper, {holds}{}.", stated.value, doubt())
    });
    let beside = said.last().and_then(|it| {
        Some(format!(
            "With {} bandwidth differs from that of the device alone ({}) by {}{}.",
            say::count(it.x, "job"),
            quantity(it.limit.y, MB_S.unit),
            say::range(&it.changes(), signed)?,
            it.doubt(),
        ))
    });
    say::conclude(lead, [beside, claim])
}

/// Whether the target uses less processor time than the host.
fn sides(view: &View<'_>) -> Vec<String> {
    let (hosts, targets) = (view.said(CLIENT_CORES), view.said(NODE_CORES));
    let remote = targets.remote();
    let most = remote.iter().filter_map(|one| Some(one.points.last()?.x)).reduce(f64::max);
    let both = |target: &Series| {
        let last = *at(target, most?)?;
        let host = *at(labelled(&hosts.series, &target.label)?, last.x)?;
        // The processor time of other targets is not known.
        (last.y > 0.0).then_some([host, last])
    };
    let all: Vec<_> =
        remote.iter().filter_map(|one| Some((one.label.as_str(), both(one)?))).collect();
    let of =
        |side: usize| all.iter().map(|(label, both)| (*label, both[side].y)).collect::<Vec<_>>();
    let doubt = || say::doubt(all.iter().flat_map(|(_, both)| both));
    let cores = |value: f64| quantity(value, CLIENT_CORES.unit);
    let ranges = say::range(&of(0), cores).zip(say::range(&of(1), cores)).zip(most);
    let lead = ranges.map(|((host, target), jobs)| {
        let jobs = say::count(jobs, "job");
        format!("With {jobs} the target keeps {target} busy, the host {host}{}.", doubt())
    });
    let claim = lead.is_some().then(|| {
        let held = all.iter().filter(|(_, [host, target])| target.y < host.y).count();
        let holds = say::holds_for(held, all.len(), "ways");
        format!("That the target works less than the host {holds}{}.", doubt())
    });
    say::conclude(lead, [claim])
}

impl Study for IoDepth {
    fn name(&self) -> &'static str {
        "iodepth"
    }

    fn question(&self) -> &'static str {
        "How do latency and its tail change with depth, local and remote?"
    }

    fn source(&self) -> &'static str {
        "NVMe-oF on Arm, finding 3"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        plan_of(&self.view(setting, &Results::default()).sweep)
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let view = self.view(setting, results);
        let title = |of: &str| format!("{of} by depth, 4 KiB sequential reads, 8 jobs");
        let place = |x: f64| format!("{x} in flight for each job");
        let mut tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Log10);
        let said = view.said(P99_US);
        let of = |end: Option<Lineup<'_>>| {
            end.and_then(|it| beside_alone(&it, "99th percentile", &place(it.x)))
        };
        tail.conclusions = say::conclude(of(said.first()), [of(said.last()), crossings(&said)]);
        let mut mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Log10);
        let said = view.said(MEAN_US);
        let of = |end: Option<Lineup<'_>>| {
            end.and_then(|it| beside_alone(&it, "mean latency", &place(it.x)))
        };
        mean.conclusions = say::conclude(of(said.first()), [of(said.last())]);
        vec![tail, mean]
    }
}

/// Whether remote access has the longer tail at small queue depths and the shorter one at large
/// depths.
fn crossings(said: &Said) -> Option<String> {
    let (first, last) = (said.first()?, said.last()?);
    if first.x >= last.x {
        return None;
    }
    let doubt = say::doubt(first.marks().chain(last.marks()));
    let large = last.changes();
    let both: Vec<_> = first
        .changes()
        .iter()
        .filter_map(|(label, small)| {
            let large = large.iter().find(|(other, _)| other == label)?;
            Some((*small, large.1))
        })
        .collect();
    let held = both.iter().filter(|(small, large)| *small > 0.0 && *large < 0.0).count();
    (!both.is_empty()).then(|| {
        format!(
            "That remote access has the longer tail at small depths and the shorter at large ones \
             {}{doubt}.",
            say::holds_for(held, both.len(), "ways"),
        )
    })
}

impl IoDepth {
    fn view<'a>(&self, setting: &'a Setting, results: &'a Results) -> View<'a> {
        let depths: &[u32] =
            if setting.is_quick { &[1, 8, 128] } else { &[1, 2, 4, 8, 16, 32, 64, 128] };
        let step = |&depth: &u32| {
            let load = jobs_load(paper::JOBS, depth, Pattern::Read, 4096);
            Step::new(f64::from(depth), format!("depth={depth}"), load)
        };
        let sweep = sweep(setting, self.name(), depths.iter().map(step).collect());
        View { setting, results, sweep, x: "depth", source: self.source() }
    }
}
