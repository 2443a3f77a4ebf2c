//! `request-size-cpu`: the processor time of host and target for requests of each size, in user
//! mode and in the kernel.

use nearflash_bench::workload::Pattern;

use super::super::say::{self, Lineup, change, percent, quantity, signed};
use super::super::sweep::{
    Measure, Step, at, axis, exhibit, index_x, len_tag, len_text, mark, point_id, stacked, x_of,
};
use super::super::ways::Way;
use super::super::{Setting, Study, cores_note};
use super::{POLLING, View, jobs_load, plan_of, sweep};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::plan::Plan;
use crate::published::nvme_of_arm as paper;
use crate::result::Results;

/// `request-size-cpu`.
pub(in super::super) struct RequestSizeCpu;

/// Processor time of the client, user mode and kernel.
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

impl Study for RequestSizeCpu {
    fn name(&self) -> &'static str {
        "request-size-cpu"
    }

    fn question(&self) -> &'static str {
        "How much processor time do host and target need for requests of each size?"
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
        total.conclusions = added(&view);
        let kernel = [CLIENT_SYSTEM_US, NODE_SYSTEM_US];
        let heading = title("Processor time in the kernel, of an operation");
        let mut kernel = view.processors("kernel", &heading, kernel);
        kernel.conclusions = amortized(&view);
        kernel.notes.push(format!(
            "The paper gives the kernel {} of what remote flash adds to the host, in per cent of \
             utilization; of a client that polls in userspace the kernel's part is not the same \
             thing.",
            percent(paper::HOST_KERNEL_ADDED.value)
        ));
        let mut split = self.split(&view);
        for exhibit in [&mut total, &mut split] {
            exhibit.notes.push(POLLING.to_owned());
        }
        vec![total, split, kernel]
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

    /// User mode and kernel of both sides, for the smallest and the largest request.
    fn split(&self, view: &View<'_>) -> Exhibit {
        let steps = &view.sweep.steps;
        let ends: Vec<&Step> = steps.iter().take(1).chain(steps.iter().skip(1).last()).collect();
        let ways = view.sweep.ways.iter();
        let places: Vec<(&Way, &Step)> =
            ways.flat_map(|way| ends.iter().map(move |step| (way, *step))).collect();
        let of = |part: Measure| {
            let points = places.iter().enumerate().filter_map(|(index, (way, step))| {
                let id = point_id(self.name(), way, step);
                mark(view.results, &id, 0, part, index_x(index))
            });
            let points = points.collect();
            Series { label: part.label.to_owned(), origin: Origin::Measured, points }
        };
        let series: Vec<Series> = PARTS.map(of).into();
        let name = |(way, step): &(&Way, &Step)| format!("{}, {}", way.label, size_at(step.x));
        let names: Vec<_> = places.iter().map(name).collect();
        let conclusions = kernel_shares(&series, &names);
        let y = axis("processor time of an operation", CLIENT_US.unit, Scale::Linear);
        let figure = stacked("way and request size", names, y, series);
        let title = "Where processor time is spent, random writes, 8 jobs, depth 128".to_owned();
        let slug = format!("{}-split", self.name());
        let mut exhibit = exhibit(slug, title, self.source(), figure);
        exhibit.conclusions = conclusions;
        exhibit.notes.push(cores_note(view.setting, 1));
        exhibit
    }
}

/// Both sides, each in user mode and in the kernel.
const PARTS: [Measure; 4] = [
    Measure { label: "host, own code", unit: "µs", of: |run| run.cpu.client_user },
    Measure { label: "host, kernel", unit: "µs", of: |run| run.cpu.client_system },
    Measure { label: "target, own code", unit: "µs", of: |run| run.cpu.node_user },
    Measure { label: "target, kernel", unit: "µs", of: |run| run.cpu.node_system },
];

/// The kernel's share on each side.
fn kernel_shares(series: &[Series], names: &[String]) -> Vec<String> {
    let side = |own: usize, what: &str| {
        let of = |index: usize| {
            let [own, kernel] = [own, own + 1].map(|part| at(&series[part], index_x(index)));
            let (own, kernel) = (own?, kernel?);
            // A point without a node has no target.
            (own.y + kernel.y > 0.0).then(|| {
                let share = kernel.y / (own.y + kernel.y) * 100.0;
                (names[index].as_str(), share, own.is_doubtful || kernel.is_doubtful)
            })
        };
        let all: Vec<_> = (0..names.len()).filter_map(of).collect();
        let shares: Vec<_> = all.iter().map(|(name, share, _)| (*name, *share)).collect();
        let doubt = if all.iter().any(|(_, _, it)| *it) { " (doubtful)" } else { "" };
        let range = say::range(&shares, percent)?;
        Some(format!("Of the {what}'s processor time the kernel has {range}{doubt}."))
    };
    say::conclude(side(0, "host"), [side(2, "target")])
}

fn size_at(x: f64) -> String {
    [4, 8, 16, 32, 64, 128]
        .into_iter()
        .find(|kib| x_of(kib << 10) == x)
        .map_or_else(|| format!("{x} B"), |kib: u64| len_text(kib << 10))
}

/// The processor time that the network adds to the host.
fn added(view: &View<'_>) -> Vec<String> {
    let host = view.said(CLIENT_US);
    let sentence = |lineup: Lineup<'_>, theirs: String| {
        Some(format!(
            "A write of {} takes {} of the host's processor on the device alone, and through the \
             node differs from that by {}{theirs}{}.",
            size_at(lineup.x),
            quantity(lineup.limit.y, CLIENT_US.unit),
            say::range(&lineup.changes(), signed)?,
            lineup.doubt(),
        ))
    };
    let theirs = signed(paper::HOST_CPU_ADDED.value);
    let first = host.first();
    let small = first.as_ref().map(|it| it.x);
    let lead = first
        .and_then(|it| sentence(it, format!("; the paper's remote flash by {theirs} at 4 KiB")));
    let last = host.last().filter(|it| Some(it.x) != small);
    say::conclude(lead, [last.and_then(|it| sentence(it, String::new()))])
}

/// Whether the kernel's time per byte falls as requests grow.
fn amortized(view: &View<'_>) -> Vec<String> {
    let host = view.said(CLIENT_SYSTEM_US);
    let per_kib = |mark: &Mark| mark.y / (mark.x / 1024.0);
    let mut ends = host.ends();
    ends.retain(|(one, [first, _])| one.origin == Origin::Measured && first.y > 0.0);
    let changes: Vec<_> = ends
        .iter()
        .map(|(one, [first, last])| (one.label.as_str(), change(per_kib(last), per_kib(first))))
        .collect();
    let doubt = || say::doubt(ends.iter().flat_map(|(_, both)| *both));
    let sizes = host.reach().map(|places| places.map(size_at));
    let lead = sizes.zip(say::range(&changes, signed)).map(|([small, large], range)| {
        format!(
            "From requests of {small} to those of {large} the host's kernel time for each KiB changes \
             by {range}{}.",
            doubt()
        )
    });
    let claim = lead.is_some().then(|| {
        let held = say::held(&changes, |it| it < 0.0);
        let holds = say::holds_for(held, changes.len(), "ways");
        format!("That larger requests spread the kernel's time {holds}{}.", doubt())
    });
    say::conclude(lead, [claim])
}
