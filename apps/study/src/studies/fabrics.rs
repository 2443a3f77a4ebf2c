//! `jobs`, `iodepth` and `request-size-cpu`: the effect of parallelism, queue depth and length on
//! remote flash, and its processor time on both sides.

mod request_size;

use nearflash_bench::workload::Pattern;

use super::chart::{at, axis, exhibit, labelled, lines, peak, table_of};
use super::claims::{Claim, Show, case, count};
use super::lineup::{Lineup, cases_of};
use super::sweep::{MB_S, MEAN_US, Measure, P99_US, Step, Sweep, load, measure_axis};
use super::ways::{FILE, local, node, targets};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
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
    fn curves(&self, measure: Measure) -> Curves {
        let series = self.sweep.series(self.results, measure);
        Curves { series, places: self.sweep.steps.iter().map(|step| step.x).collect() }
    }
}

/// The series of a measure, for findings.
struct Curves {
    series: Vec<Series>,
    /// All positions of the axis.
    places: Vec<f64>,
}

impl Curves {
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

    /// The same, if it is not also the smaller end.
    fn larger(&self) -> Option<Lineup<'_>> {
        let first = self.first()?.x;
        self.last().filter(|last| last.x > first)
    }

    /// The ends of the axis.
    fn reach(&self) -> Option<[f64; 2]> {
        let [first, .., last] = self.places[..] else { return None };
        Some([first, last])
    }
}

fn jobs_load(clients: u32, depth: u32, pattern: Pattern, len: u64) -> Load {
    Load { clients, depth, ..load(pattern, len) }
}

impl Study for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn question(&self) -> &'static str {
        "How do latency, bandwidth and processor time change with the number of jobs, local and \
         remote?"
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
        let mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Linear);
        let tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Linear);
        let rate = view.exhibit("bandwidth", &title("Bandwidth"), MB_S, Scale::Linear);
        let cores = [CLIENT_CORES, NODE_CORES];
        let mut busy = view.processors("cpu", &title("Busy cores of host and target"), cores);
        busy.notes.push(POLLING.to_owned());
        let tails = view.curves(P99_US);
        vec![
            mean.found(job_latencies(&view.curves(MEAN_US))),
            tail.found([
                few_jobs(
                    "With few jobs, the 99th percentile is at most 10 % above the device's",
                    &tails,
                ),
                many_jobs(
                    "With many jobs, the 99th percentile is at most 10 % above the device's",
                    &tails,
                ),
            ]),
            rate.found(plateaus(&view.curves(MB_S))),
            busy.found([sides(&view)]),
        ]
    }
}

/// The note on polling.
const POLLING: &str = "A side that polls is busy even without work. While it spins, its processor \
                       time for an operation is the time between two operations.";

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

fn jobs(lineup: &Lineup<'_>) -> String {
    count(lineup.x, "job")
}

fn few_jobs(claim: &'static str, curves: &Curves) -> Finding {
    let first = curves.first();
    Claim::times_alike(claim, first.as_ref()).at(first.as_ref().map(jobs))
}

/// At the larger end; unknown if that is also the smaller one.
fn many_jobs(claim: &'static str, curves: &Curves) -> Finding {
    let last = curves.larger();
    Claim::times_alike(claim, last.as_ref()).at(last.as_ref().map(jobs)).because(ONE_PLACE)
}

/// The reason why nothing is known of the other end of an axis.
const ONE_PLACE: &str = "fewer than two positions of the axis were measured";

/// Whether latency grows with jobs, and how it compares with the device alone.
fn job_latencies(curves: &Curves) -> [Finding; 2] {
    let ends = curves.ends();
    let grown = ends.iter().filter(|(_, [first, _])| first.y > 0.0);
    let of = |(one, [first, last]): &(&Series, [&Mark; 2])| {
        case(one.label.as_str(), last.y / first.y, [*first, *last])
    };
    let claim = "Mean latency grows with jobs";
    let grows = Claim::of(&paper::PAPER, "finding 1", claim, Show::Times, "nearly linearly")
        .limited(1.0)
        .judge(|it| it > 1.0, grown.map(of).collect());
    let claim = "With many jobs, the mean latency is at most 10 % above the device's";
    [grows, many_jobs(claim, curves)]
}

/// The number of jobs that reach nine tenths of the peak.
fn plateaus(curves: &Curves) -> [Finding; 2] {
    let stated = &paper::PLATEAU_JOBS;
    let of = |one: &&Series| {
        let peak = peak(one)?;
        let enough = one.points.iter().find(|mark| mark.y >= 0.9 * peak.y)?;
        Some(case(one.label.as_str(), enough.x, [enough, peak]))
    };
    let claim = "Nine tenths of the peak bandwidth take no more jobs than in the paper";
    let plateau = Claim::at_most(&paper::PAPER, stated, claim, Show::Unit(stated.unit))
        .judge(|it| it <= stated.value, curves.whole().iter().filter_map(of).collect());
    let last = curves.last();
    let claim = "With many jobs, the bandwidth is at least 90 % of the device's";
    [plateau, Claim::rates_alike(claim, last.as_ref()).at(last.as_ref().map(jobs))]
}

/// Whether the target uses less processor time than the host.
fn sides(view: &View<'_>) -> Finding {
    let (hosts, targets) = (view.curves(CLIENT_CORES), view.curves(NODE_CORES));
    let remote = targets.remote();
    let most = remote.iter().filter_map(|one| Some(one.points.last()?.x)).reduce(f64::max);
    let of = |target: &&Series| {
        let last = at(target, most?)?;
        let host = at(labelled(&hosts.series, &target.label)?, last.x)?;
        // The processor time of other targets is not known.
        let is_known = last.y > 0.0 && host.y > 0.0;
        is_known.then(|| case(target.label.as_str(), last.y / host.y, [host, last]))
    };
    let claim = "The target keeps fewer cores busy than the host";
    Claim::of(&paper::PAPER, "finding 1", claim, Show::Times, "much fewer")
        .limited(1.0)
        .judge(|it| it < 1.0, remote.iter().filter_map(of).collect())
        .at(most.map(|most| count(most, "job")))
}

impl Study for IoDepth {
    fn name(&self) -> &'static str {
        "iodepth"
    }

    fn question(&self) -> &'static str {
        "How do mean latency and tail latency change with depth, local and remote?"
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
        let tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Log10);
        let mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Log10);
        let means = view.curves(MEAN_US);
        let (first, last) = (means.first(), means.larger());
        let place = |lineup: &Option<Lineup<'_>>| lineup.as_ref().map(depth);
        let small = "At small depths, the mean latency is at most 10 % above the device's";
        let large = "At large depths, the mean latency is at most 10 % above the device's";
        let means = [
            Claim::times_alike(small, first.as_ref()).at(place(&first)),
            Claim::times_alike(large, last.as_ref()).at(place(&last)).because(ONE_PLACE),
        ];
        vec![tail.found(crossings(&view.curves(P99_US))), mean.found(means)]
    }
}

fn depth(lineup: &Lineup<'_>) -> String {
    format!("{} in flight for each job", lineup.x)
}

/// Whether remote access has the longer tail at small queue depths and the shorter one at large
/// depths.
fn crossings(curves: &Curves) -> [Finding; 2] {
    let (first, last) = (curves.first(), curves.larger());
    let claim = |text| {
        Claim::of(&paper::PAPER, "finding 3", text, Show::Change, "the curves cross").limited(0.0)
    };
    [
        claim("At small depths, remote access has the longer tail")
            .judge(|it| it > 0.0, cases_of(first.as_ref()))
            .at(first.as_ref().map(depth)),
        claim("At large depths, remote access has the shorter tail")
            .judge(|it| it < 0.0, cases_of(last.as_ref()))
            .at(last.as_ref().map(depth))
            .because(ONE_PLACE),
    ]
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
