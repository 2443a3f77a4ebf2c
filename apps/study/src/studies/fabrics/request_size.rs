//! `request-size-cpu`: the processor time of host and target for requests of each size, in user
//! mode and in the kernel.

use nearflash_bench::workload::Pattern;

use super::super::chart::{axis, exhibit, index_x, len_tag, len_text, stacked, x_of};
use super::super::claims::{Claim, Show, case, difference};
use super::super::lineup::{Lineup, cases_of};
use super::super::sweep::{Measure, Step, mark, point_id};
use super::super::ways::Way;
use super::super::{Setting, Study, cores_note};
use super::{ONE_PLACE, POLLING, View, jobs_load, plan_of, sweep};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::number::percent;
use crate::plan::Plan;
use crate::published::nvme_of_arm as paper;
use crate::result::Results;

/// `request-size-cpu`.
pub(in super::super) struct RequestSizeCpu;

/// Processor time of the client, user mode and kernel.
const CLIENT_US: Measure = Measure {
    label: "processor time of the host per operation",
    unit: "µs",
    of: |run| run.cpu.client_user + run.cpu.client_system,
};
const NODE_US: Measure = Measure {
    label: "processor time of the target per operation",
    unit: "µs",
    of: |run| run.cpu.node_user + run.cpu.node_system,
};
const CLIENT_SYSTEM_US: Measure = Measure {
    label: "processor time of the host in the kernel per operation",
    unit: "µs",
    of: |run| run.cpu.client_system,
};
const NODE_SYSTEM_US: Measure = Measure {
    label: "processor time of the target in the kernel per operation",
    unit: "µs",
    of: |run| run.cpu.node_system,
};

impl Study for RequestSizeCpu {
    fn name(&self) -> &'static str {
        "request-size-cpu"
    }

    fn question(&self) -> &'static str {
        "How much processor time do host and target need for a request of each size?"
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
        let kernel = [CLIENT_SYSTEM_US, NODE_SYSTEM_US];
        let heading = title("Kernel time of an operation");
        let mut kernel = view.processors("kernel", &heading, kernel);
        kernel.notes.push(format!(
            "In the paper, the kernel's part of the host's additional utilization is {}. The \
             kernel's part of a client that polls in userspace is not directly comparable.",
            percent(paper::HOST_KERNEL_ADDED.value)
        ));
        let mut split = self.split(&view);
        for exhibit in [&mut total, &mut split] {
            exhibit.notes.push(POLLING.to_owned());
        }
        vec![total.found(added(&view)), split, kernel.found([amortized(&view)])]
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
        let y = axis("processor time of an operation", CLIENT_US.unit, Scale::Linear);
        let figure = stacked("way and request size", names, y, series);
        let title = "Where processor time is spent, random writes, 8 jobs, depth 128".to_owned();
        let slug = format!("{}-split", self.name());
        let mut exhibit = exhibit(slug, title, self.source(), figure);
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

fn size_at(x: f64) -> String {
    [4, 8, 16, 32, 64, 128]
        .into_iter()
        .find(|kib| x_of(kib << 10) == x)
        .map_or_else(|| format!("{x} B"), |kib: u64| len_text(kib << 10))
}

/// The processor time that the network adds to the host.
fn added(view: &View<'_>) -> [Finding; 2] {
    let host = view.curves(CLIENT_US);
    let (first, last) = (host.first(), host.larger());
    let size = |lineup: &Lineup<'_>| size_at(lineup.x);
    let stated = &paper::HOST_CPU_ADDED;
    let small = "With small requests, remote access adds no more to the host's processor time than \
                 in the paper";
    let large = "With large requests, it adds no more than the paper's small requests";
    [
        Claim::at_most(&paper::PAPER, stated, small, Show::Change)
            .judge(|it| it <= stated.value, cases_of(first.as_ref()))
            .at(first.as_ref().map(size)),
        Claim::own(large, Show::Change)
            .limited(stated.value)
            .judge(|it| it <= stated.value, cases_of(last.as_ref()))
            .at(last.as_ref().map(size))
            .because(ONE_PLACE),
    ]
}

/// Whether the kernel's time per byte falls as requests grow.
fn amortized(view: &View<'_>) -> Finding {
    let host = view.curves(CLIENT_SYSTEM_US);
    let per_kib = |mark: &Mark| mark.y / (mark.x / 1024.0);
    let mut ends = host.ends();
    ends.retain(|(one, [first, _])| one.origin == Origin::Measured && first.y > 0.0);
    let of = |(one, [first, last]): &(&Series, [&Mark; 2])| {
        case(one.label.as_str(), difference(per_kib(last), per_kib(first)), [*first, *last])
    };
    let claim = "With large requests, the host's kernel time per KiB is shorter";
    Claim::of(&paper::PAPER, "finding 2", claim, Show::Change, "shorter")
        .limited(0.0)
        .judge(|it| it < 0.0, ends.iter().map(of).collect())
}
