//! `jobs`, `iodepth` and `request-size-cpu`: what parallelism, depth and length make of remote flash,
//! and what it costs the processors of both sides.

use nearflash_bench::workload::Pattern;

use super::say::{self, beside, labelled, missing, percent, quantity};
use super::sweep::{
    MB_S, MEAN_US, Measure, P99_US, Step, Sweep, at, axis, exhibit, len_tag, len_text, lines, load,
    measure_axis, x_of,
};
use super::ways::{FILE, Way, local, node, targets};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Origin, Scale, Series};
use crate::plan::{Door, Load, Plan};
use crate::published::nvme_of_arm as paper;
use crate::result::Results;

/// `jobs`.
pub(super) struct Jobs;
/// `iodepth`.
pub(super) struct IoDepth;
/// `request-size-cpu`.
pub(super) struct RequestSizeCpu;

/// Processor time on each side: of the asking side and of the node, own code and kernel.
const CLIENT_US: Measure = Measure {
    label: "processor time of the host, an operation",
    unit: "µs",
    of: |run| run.cpu.client_user + run.cpu.client_system,
};
const NODE_US: Measure = Measure {
    label: "processor time of the target, an operation",
    unit: "µs",
    of: |run| run.cpu.node_user + run.cpu.node_system,
};
const CLIENT_SYSTEM_US: Measure = Measure {
    label: "processor time of the host in the kernel, an operation",
    unit: "µs",
    of: |run| run.cpu.client_system,
};
const NODE_SYSTEM_US: Measure = Measure {
    label: "processor time of the target in the kernel, an operation",
    unit: "µs",
    of: |run| run.cpu.node_system,
};
/// How many cores are busy on both sides.
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

/// What all three share: the file or device, alone, behind NVMe/TCP and behind direct.
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
            "The paper prints no numbers of its pictures; it used: {}.",
            paper::PAPER.hardware
        ));
        exhibit
    }

    /// Host and target, one figure.
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
        // A medium alone has no other side.
        let alone = format!("{}, target", local(FILE).label);
        series.retain(|one| one.label != alone);
        let mut exhibit = self.exhibit(slug, title, measures[0], Scale::Linear);
        let label = measures[0].label.replace(" of the host", "");
        let unit = if self.x == "request size" { "B" } else { "" };
        let figure = lines(
            axis(self.x, unit, Scale::Log2),
            axis(&label, measures[0].unit, Scale::Linear),
            series,
        );
        exhibit.table = super::sweep::table_of(&figure);
        exhibit.figure = Some(figure);
        exhibit
    }

    fn remote(&self) -> impl Iterator<Item = &Way> {
        self.sweep.ways.iter().filter(|way| way.origin == Origin::Measured)
    }

    /// One sentence for each way through the network and the medium alone.
    fn each(
        &self,
        measure: Measure,
        say: impl Fn(&Series, &Series) -> Option<String>,
    ) -> Vec<String> {
        let series = self.sweep.series(self.results, measure);
        let alone = labelled(&series, &local(FILE).label);
        let sentence = |way: &Way| {
            let both = labelled(&series, &way.label).zip(alone);
            both.and_then(|(ours, alone)| say(ours, alone))
                .unwrap_or_else(|| missing(&format!("{} beside the device alone", way.label)))
        };
        self.remote().map(sentence).collect()
    }
}

fn jobs_load(clients: u32, depth: u32, pattern: Pattern, len: u64) -> Load {
    Load { clients, depth, ..load(pattern, len) }
}

/// The smaller and the larger end of a sweep, where both series have points.
fn ends<'a>(
    ours: &'a Series,
    alone: &'a Series,
) -> Option<[(&'a crate::exhibit::Mark, &'a crate::exhibit::Mark); 2]> {
    let first = ours.points.iter().find_map(|mark| Some((mark, at(alone, mark.x)?)))?;
    Some([first, say::last_common(ours, alone)?])
}

/// The tail beside that of the medium alone, at both ends of a sweep.
fn tails(ours: &Series, alone: &Series, place: impl Fn(f64) -> String) -> Option<String> {
    let [(first, first_alone), (last, last_alone)] = ends(ours, alone)?;
    let words = ["below", "above"];
    Some(format!(
        "The 99th percentile of {} is {} that of the device alone with {} ({} and {}), and {} it \
         with {} ({} and {}){}.",
        ours.label,
        beside(first.y, first_alone.y, words),
        place(first.x),
        quantity(first.y, "µs"),
        quantity(first_alone.y, "µs"),
        beside(last.y, last_alone.y, words),
        place(last.x),
        quantity(last.y, "µs"),
        quantity(last_alone.y, "µs"),
        say::doubt([first, first_alone, last, last_alone]),
    ))
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
        let mut mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Linear);
        mean.conclusions = say::conclude(view.each(MEAN_US, |ours, alone| {
            let [(first, _), (last, last_alone)] = ends(ours, alone)?;
            Some(format!(
                "From {} to {} jobs the mean latency of {} goes from {} to {}, {} the device alone \
                 with as many; that latency grows with jobs {}{}.",
                first.x,
                last.x,
                ours.label,
                quantity(first.y, "µs"),
                quantity(last.y, "µs"),
                beside(last.y, last_alone.y, ["below", "above"]),
                say::verdict(last.y > first.y),
                say::doubt([first, last, last_alone]),
            ))
        }));
        let mut tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Linear);
        tail.conclusions = say::conclude(
            view.each(P99_US, |ours, alone| tails(ours, alone, |x| say::count(x, "job"))),
        );
        let mut rate = view.exhibit("bandwidth", &title("Bandwidth"), MB_S, Scale::Linear);
        rate.conclusions = say::conclude(view.each(MB_S, |ours, _| plateau(ours)));
        let cores = [CLIENT_CORES, NODE_CORES];
        let mut busy = view.processors("cpu", &title("Busy cores of host and target"), cores);
        busy.conclusions = say::conclude(sides(&view));
        vec![mean, tail, rate, busy]
    }
}

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

/// How many jobs bring nine tenths of the most.
fn plateau(ours: &Series) -> Option<String> {
    let peak = say::peak(ours)?;
    let enough = ours.points.iter().find(|mark| mark.y >= 0.9 * peak.y)?;
    let stated = paper::PLATEAU_JOBS;
    Some(format!(
        "{} reaches nine tenths of its most ({} with {}) with {}; that {} are enough {}{}.",
        ours.label,
        quantity(peak.y, "MB/s"),
        say::count(peak.x, "job"),
        say::count(enough.x, "job"),
        stated.value,
        say::verdict(enough.x <= stated.value),
        say::doubt([peak, enough]),
    ))
}

/// Whether the target works less than the host.
fn sides(view: &View<'_>) -> Vec<String> {
    let host = view.sweep.series(view.results, CLIENT_CORES);
    let target = view.sweep.series(view.results, NODE_CORES);
    let sentence = |way: &Way| {
        let both = labelled(&host, &way.label).zip(labelled(&target, &way.label));
        let Some((host, target)) = both.and_then(|(a, b)| say::last_common(a, b)) else {
            return missing(&format!("processor time of {}", way.label));
        };
        format!(
            "With {} jobs over {} the host keeps {} busy and the target {}; that the target works \
             less {}{}.",
            host.x,
            way.label,
            quantity(host.y, "cores"),
            quantity(target.y, "cores"),
            say::verdict(target.y < host.y),
            say::doubt([host, target]),
        )
    };
    view.remote().map(sentence).collect()
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
        let mut tail = view.exhibit("tail", &title("Tail latency"), P99_US, Scale::Log10);
        tail.conclusions = say::conclude(view.each(P99_US, |ours, alone| {
            let [(first, first_alone), (last, last_alone)] = ends(ours, alone)?;
            let crosses = first.y > first_alone.y && last.y < last_alone.y;
            let tails = tails(ours, alone, |x| format!("{x} in flight for each job"))?;
            let tails = tails.trim_end_matches('.');
            let verdict = say::verdict(crosses);
            Some(format!(
                "{tails}; that remote access has the longer tail at small depths and the shorter at \
                 large ones {verdict}."
            ))
        }));
        let mut mean = view.exhibit("latency", &title("Mean latency"), MEAN_US, Scale::Log10);
        mean.conclusions = say::conclude(view.each(MEAN_US, |ours, alone| {
            let (mark, beside_it) = say::last_common(ours, alone)?;
            Some(format!(
                "With {} in flight for each job the mean latency of {} is {}, {} the device alone \
                 ({}){}.",
                mark.x,
                ours.label,
                quantity(mark.y, "µs"),
                beside(mark.y, beside_it.y, ["below", "above"]),
                quantity(beside_it.y, "µs"),
                say::doubt([mark, beside_it]),
            ))
        }));
        vec![tail, mean]
    }
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

impl Study for RequestSizeCpu {
    fn name(&self) -> &'static str {
        "request-size-cpu"
    }

    fn question(&self) -> &'static str {
        "What do requests of each size cost the processors of host and target?"
    }

    fn source(&self) -> &'static str {
        "NVMe-oF on Arm, finding 2"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        plan_of(&self.view(setting, &Results::default()).sweep)
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let view = self.view(setting, results);
        let title = |of: &str| format!("{of} by request size, random writes, 8 jobs, depth 128");
        let all = [CLIENT_US, NODE_US];
        let mut total = view.processors("total", &title("Processor time of an operation"), all);
        total.conclusions = say::conclude(view.each(CLIENT_US, |ours, alone| {
            added(ours, alone, "processor time", &paper::HOST_CPU_ADDED)
        }));
        let kernel = [CLIENT_SYSTEM_US, NODE_SYSTEM_US];
        let heading = title("Processor time in the kernel, of an operation");
        let mut kernel = view.processors("kernel", &heading, kernel);
        kernel.conclusions = say::conclude(view.each(CLIENT_SYSTEM_US, |ours, alone| {
            amortized(ours, alone).or_else(|| Some(missing(&ours.label)))
        }));
        kernel.notes.push(format!(
            "The paper gives the kernel {} of what remote flash adds to the host, in per cent of \
             utilization; of a client that polls in userspace the kernel's part is not the same \
             thing.",
            percent(paper::HOST_KERNEL_ADDED.value)
        ));
        vec![total, kernel]
    }
}

impl RequestSizeCpu {
    fn view<'a>(&self, setting: &'a Setting, results: &'a Results) -> View<'a> {
        let kib: &[u64] = if setting.is_quick { &[4, 32, 128] } else { &[4, 8, 16, 32, 64, 128] };
        let step = |&kib: &u64| {
            let load = jobs_load(paper::JOBS, paper::DEPTH, Pattern::RandWrite, kib << 10);
            Step::new(x_of(kib << 10), len_tag(kib << 10), load)
        };
        let sweep = sweep(setting, self.name(), kib.iter().map(step).collect());
        View { setting, results, sweep, x: "request size", source: self.source() }
    }
}

fn size_at(x: f64) -> String {
    [4, 8, 16, 32, 64, 128]
        .into_iter()
        .find(|kib| x_of(kib << 10) == x)
        .map_or_else(|| format!("{x} B"), |kib: u64| len_text(kib << 10))
}

/// What the network adds to the host's processor time at the smallest request.
fn added(
    ours: &Series,
    alone: &Series,
    what: &str,
    stated: &crate::published::Stated,
) -> Option<String> {
    let [(mark, beside_it), _] = ends(ours, alone)?;
    let added = (mark.y / beside_it.y - 1.0) * 100.0;
    added.is_finite().then(|| {
        format!(
            "An operation of {} over {} takes {} of {what} at the host, {} the device alone ({}); \
             in the paper remote flash adds {}{}.",
            size_at(mark.x),
            ours.label,
            quantity(mark.y, "µs"),
            beside(mark.y, beside_it.y, ["below", "above"]),
            quantity(beside_it.y, "µs"),
            percent(stated.value),
            say::doubt([mark, beside_it]),
        )
    })
}

/// Whether the kernel's time of a byte falls as requests grow.
fn amortized(ours: &Series, alone: &Series) -> Option<String> {
    let [(first, _), (last, _)] = ends(ours, alone)?;
    let per_kib = |mark: &crate::exhibit::Mark| mark.y / (mark.x / 1024.0);
    let (small, large) = (per_kib(first), per_kib(last));
    Some(format!(
        "In the host's kernel {} takes {} for each KiB of {} requests and {} of {} requests; that \
         larger requests spread the kernel's time {}{}.",
        ours.label,
        quantity(small, "µs"),
        size_at(first.x),
        quantity(large, "µs"),
        size_at(last.x),
        say::verdict(large < small),
        say::doubt([first, last]),
    ))
}
