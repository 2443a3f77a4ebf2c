//! `quicksan-latency`: what a 4 KiB operation takes locally and through each door, and how much of it
//! is software, neither medium nor wire.

use nearflash_bench::workload::Pattern;

use super::say::{self, missing, percent, quantity};
use super::sweep::{
    MEAN_US, Step, Sweep, bars, cell, exhibit, heading, index_x, load, mark, measure_axis, plain,
    point_id, stacked, text,
};
use super::ways::{DOORS, FILE, NULL, Way, absent_peers, local, medium_names, node, others, wire};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series, Table};
use crate::plan::{Medium, Plan, Subject};
use crate::published::{ReadWrite, quicksan as paper};
use crate::result::Results;

/// See the module.
pub(super) struct QuicksanLatency;

const NAME: &str = "quicksan-latency";
const SOURCE: &str = "QuickSAN, tables 1 and 2";
const MEDIA: [Medium; 2] = [NULL, FILE];

/// Of reads or of writes.
#[derive(Clone, Copy)]
struct Direction {
    name: &'static str,
    pattern: Pattern,
    of: fn(&ReadWrite) -> f64,
}

const DIRECTIONS: [Direction; 2] = [
    Direction { name: "read", pattern: Pattern::RandRead, of: |pair| pair.read },
    Direction { name: "write", pattern: Pattern::RandWrite, of: |pair| pair.write },
];

impl Direction {
    fn step(self) -> Step {
        Step::new(0.0, format!("{}/4KiB", self.pattern.name()), load(self.pattern, 4096))
    }
}

/// The medium alone first.
fn ways(setting: &Setting, medium: Medium) -> Vec<Way> {
    let mut ways = vec![local(medium)];
    ways.extend(DOORS.iter().map(|&door| node(door, medium)));
    if medium == FILE {
        ways.extend(others(setting, medium));
    }
    ways
}

impl Study for QuicksanLatency {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "What does each software stack add to medium and wire?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let steps = || DIRECTIONS.map(Direction::step).to_vec();
        let wires = DOORS.iter().filter_map(|&door| wire(door)).collect();
        let of = |ways| Sweep { study: NAME, ways, steps: steps() }.points();
        let mut points = of(wires);
        points.extend(MEDIA.iter().flat_map(|&medium| of(ways(setting, medium))));
        let mut unable = absent_peers(setting);
        unable.push(crate::plan::Unable {
            what: "the share of a file system".into(),
            why: "volumes are measured as blocks, without a file system on them".into(),
            needs: "a shared-disk file system mounted by the kernel's initiator".into(),
        });
        Plan { points, unable }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let mut exhibits = vec![overview(setting, results)];
        for medium in MEDIA {
            for direction in DIRECTIONS {
                exhibits.push(Split::new(setting, results, medium, direction).exhibit(setting));
            }
        }
        exhibits.extend([published_shares(), published_latencies()]);
        exhibits
    }
}

fn measured(results: &Results, way: &Way, direction: Direction) -> Option<Mark> {
    mark(results, &point_id(NAME, way, &direction.step()), 0, MEAN_US, 0.0)
}

/// Table 2: every way on the device, reads and writes.
fn overview(setting: &Setting, results: &Results) -> Exhibit {
    let ways = ways(setting, FILE);
    let series = DIRECTIONS.map(|direction| {
        let points = ways.iter().enumerate().filter_map(|(index, way)| {
            Some(Mark { x: index_x(index), ..measured(results, way, direction)? })
        });
        let label = format!("{}s", direction.name);
        Series { label, origin: Origin::Measured, points: points.collect() }
    });
    let names = ways.iter().map(|way| way.label.clone()).collect();
    let figure = bars("way", names, measure_axis(MEAN_US, Scale::Linear), series.into());
    let title = "Latency of one 4 KiB operation at a time, local and through each door";
    let mut exhibit = exhibit(format!("{NAME}-all"), title.into(), "QuickSAN, table 2", figure);
    exhibit.conclusions = say::conclude(DIRECTIONS.map(|direction| cut(results, direction)).into());
    exhibit.notes = [exhibit.notes, vec![cores_note(setting, 1), contradictions()]].concat();
    exhibit
}

/// By how much a short stack cuts the latency of iSCSI, here and in the paper's own table.
fn cut(results: &Results, direction: Direction) -> String {
    let [iscsi, direct] =
        [DOORS[0], DOORS[2]].map(|door| measured(results, &node(door, FILE), direction));
    let (Some(iscsi), Some(direct)) = (iscsi, direct) else {
        return missing(&format!("{}s through iSCSI beside direct", direction.name));
    };
    let change = |from: f64, to: f64| (1.0 - to / from) * 100.0;
    let theirs = |index: usize| (direction.of)(&paper::LATENCIES[index].remote);
    let ours = change(iscsi.y, direct.y);
    let verb = if ours >= 0.0 { "cuts" } else { "lengthens" };
    format!(
        "Direct instead of iSCSI {verb} the latency of {}s by {}, from {} to {}; by the paper's \
         table QuickSAN-D cuts it by {}, from {} to {}{}.",
        direction.name,
        percent(ours.abs()),
        quantity(iscsi.y, "µs"),
        quantity(direct.y, "µs"),
        percent(change(theirs(0), theirs(2))),
        quantity(theirs(0), "µs"),
        quantity(theirs(2), "µs"),
        say::doubt([&iscsi, &direct]),
    )
}

/// Where the paper disagrees with itself.
fn contradictions() -> String {
    let [iscsi, os, _] = paper::LATENCIES;
    let cut = |from: f64, to: f64| percent((1.0 - to / from) * 100.0);
    format!(
        "The paper's text says that QuickSAN-OS saves {} of the latency of remote writes, with the \
         numbers of the read row; by its table it saves {} of reads and {} of writes.",
        percent(paper::LATENCY_CUT.value),
        cut(iscsi.remote.read, os.remote.read),
        cut(iscsi.remote.write, os.remote.write),
    )
}

/// One way's latency, taken apart.
struct Part {
    way: String,
    medium: Option<Mark>,
    wire: Option<Mark>,
    has_wire: bool,
    total: Option<Mark>,
}

impl Part {
    /// What neither medium nor wire explains; below zero when the medium is faster behind the node.
    fn software(&self) -> Option<f64> {
        let wire = if self.has_wire { self.wire?.y } else { 0.0 };
        Some(self.total?.y - self.medium?.y - wire)
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        [&self.medium, &self.wire, &self.total].into_iter().flatten()
    }
}

/// All doors on one medium, one direction.
struct Split {
    medium: Medium,
    direction: Direction,
    parts: Vec<Part>,
}

impl Split {
    fn new(setting: &Setting, results: &Results, medium: Medium, direction: Direction) -> Self {
        let alone = measured(results, &local(medium), direction);
        let part = |way: &Way| {
            let Subject::Node { door, .. } = way.subject else { return None };
            let wire = wire(door);
            Some(Part {
                way: way.label.clone(),
                medium: alone,
                has_wire: wire.is_some(),
                wire: wire.and_then(|wire| measured(results, &wire, direction)),
                total: measured(results, way, direction),
            })
        };
        let parts = ways(setting, medium).iter().filter_map(part).collect();
        Self { medium, direction, parts }
    }

    fn exhibit(&self, setting: &Setting) -> Exhibit {
        let of = |pick: fn(&Part) -> Option<f64>| self.parts.iter().map(pick);
        let software = |part: &Part| part.software().map(|micros| micros.max(0.0));
        // A part whose sum is not known has no bars: they would be taken for the whole.
        let medium = |part: &Part| part.software().and(part.medium).map(|mark| mark.y);
        let wire = |part: &Part| part.software().and(part.wire).map(|mark| mark.y);
        let series = vec![
            plain("medium", Origin::Limit, of(medium)),
            plain("wire", Origin::Limit, of(wire)),
            plain("software", Origin::Measured, of(software)),
        ];
        let (key, label) = medium_names(self.medium);
        let names = self.parts.iter().map(|part| part.way.clone()).collect();
        let y = measure_axis(MEAN_US, Scale::Linear);
        let figure = stacked("door", names, y, series);
        let name = self.direction.name;
        let slug = format!("{NAME}-share-{key}-{name}");
        let title = format!("Where a 4 KiB {name} spends its time: {label}");
        let mut exhibit = exhibit(slug, title, "QuickSAN, table 1 and figure 2", figure);
        exhibit.table = self.table();
        exhibit.conclusions =
            say::conclude(self.parts.iter().map(|part| self.sentence(part)).collect());
        exhibit.notes.push(cores_note(setting, 1));
        exhibit.notes.push(
            "Medium and wire are measured alone, in the same run; what is left of the latency \
             through the door counts as software. Below zero it is drawn as nothing."
                .into(),
        );
        exhibit
    }

    fn table(&self) -> Table {
        let columns = ["medium", "wire", "software", "measured"];
        let mut headings = vec!["door".to_owned()];
        headings.extend(columns.map(|column| heading(column, MEAN_US.unit)));
        let y = |mark: Option<Mark>| cell(mark.map(|mark| mark.y));
        let row = |part: &Part| {
            let software = cell(part.software());
            vec![text(part.way.as_str()), y(part.medium), y(part.wire), software, y(part.total)]
        };
        Table { columns: headings, rows: self.parts.iter().map(row).collect() }
    }

    fn sentence(&self, part: &Part) -> String {
        let (Some(total), Some(software)) = (part.total, part.software()) else {
            return missing(&format!(
                "the software's share of {}s through {}",
                self.direction.name, part.way
            ));
        };
        if software < 0.0 {
            return format!(
                "A {} through {} takes {}, {} less than medium and wire alone take one after the \
                 other: nothing is left for software{}.",
                self.direction.name,
                part.way,
                quantity(total.y, "µs"),
                quantity(-software, "µs"),
                say::doubt(part.marks()),
            );
        }
        let share = software / total.y * 100.0;
        let theirs = &paper::STACKS[0];
        let (of, name) = (self.direction.of, self.direction.name);
        format!(
            "Of {} of a {name} through {} software takes {} ({}), beside {} of the medium and {} of \
             the wire; all but the medium is {}, in the paper {} with iSCSI and {} with QuickSAN-D{}.",
            quantity(total.y, "µs"),
            part.way,
            quantity(software, "µs"),
            percent(share),
            quantity(part.medium.map_or(0.0, |mark| mark.y), "µs"),
            quantity(part.wire.map_or(0.0, |mark| mark.y), "µs"),
            quantity(total.y - part.medium.map_or(0.0, |mark| mark.y), "µs"),
            quantity(of(&theirs.total), "µs"),
            quantity(of(&paper::STACKS[3].total), "µs"),
            say::doubt(part.marks()),
        )
    }
}

/// Table 1.
fn published_shares() -> Exhibit {
    let of = |pick: fn(&paper::Stack) -> Option<f64>| paper::STACKS.iter().map(pick);
    let series = vec![
        plain("system call and block layer", Origin::Published, of(|it| Some(it.system.read))),
        plain("file system", Origin::Published, of(|it| it.file_system.map(|pair| pair.read))),
        plain("block transport", Origin::Published, of(|it| Some(it.transport.read))),
    ];
    let names = paper::STACKS.iter().map(|stack| stack.name.to_owned()).collect();
    let figure = stacked("stack", names, measure_axis(MEAN_US, Scale::Linear), series);
    let title = "Published: what stacks add to a 4 KiB read, without the medium".to_owned();
    let mut exhibit =
        exhibit(format!("{NAME}-published-share"), title, "QuickSAN, table 1", figure);
    exhibit.table.columns.extend(["sum, reads (µs)", "sum, writes (µs)"].map(str::to_owned));
    for (row, stack) in exhibit.table.rows.iter_mut().zip(&paper::STACKS) {
        row.extend([stack.total.read, stack.total.write].map(|sum| cell(Some(sum))));
    }
    let off = paper::STACKS.iter().filter(|stack| {
        let file_system = stack.file_system.map_or(0.0, |pair| pair.read);
        let sum = stack.system.read + file_system + stack.transport.read;
        (sum - stack.total.read).abs() > 0.05
    });
    exhibit.notes.extend(off.map(|stack| {
        format!(
            "The parts of {} do not sum to the printed {}.",
            stack.name,
            quantity(stack.total.read, "µs")
        )
    }));
    exhibit.notes.push(format!("Measured on {}.", paper::PAPER.hardware));
    exhibit
}

/// Table 2.
fn published_latencies() -> Exhibit {
    let of =
        |pick: fn(&paper::Latency) -> f64| paper::LATENCIES.iter().map(move |it| Some(pick(it)));
    let series = vec![
        plain("local reads", Origin::Published, of(|it| it.local.read)),
        plain("local writes", Origin::Published, of(|it| it.local.write)),
        plain("remote reads", Origin::Published, of(|it| it.remote.read)),
        plain("remote writes", Origin::Published, of(|it| it.remote.write)),
    ];
    let names = paper::LATENCIES.iter().map(|row| row.name.to_owned()).collect();
    let figure = bars("stack", names, measure_axis(MEAN_US, Scale::Linear), series);
    let title = "Published: latency of 4 KiB operations".to_owned();
    let mut exhibit = exhibit(format!("{NAME}-published"), title, "QuickSAN, table 2", figure);
    exhibit.notes.push(contradictions());
    exhibit.notes.push(format!("Measured on {}.", paper::PAPER.hardware));
    exhibit
}
