//! `quicksan-latency`: the latency of a 4 KiB operation locally and through each protocol, and the
//! part of it that is software, neither medium nor wire.

use nearflash_bench::workload::Pattern;

use super::chart::{bars, cell, exhibit, heading, index_x, plain, stacked, text};
use super::claims::{ALIKE, Claim, Show, case, difference};
use super::direction::{DIRECTIONS, Direction};
use super::sweep::{MEAN_US, Sweep, mark, measure_axis, point_id};
use super::ways::{
    DOORS, FILE, NULL, Way, absent_peers, door_names, local, medium_names, nbdkit_note, node,
    others, wire,
};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series, Table};
use crate::finding::Finding;
use crate::number::{percent, quantity};
use crate::plan::{Medium, Plan, Subject};
use crate::published::quicksan as paper;
use crate::result::Results;

/// See the module.
pub(super) struct QuicksanLatency;

const NAME: &str = "quicksan-latency";
const SOURCE: &str = "QuickSAN, tables 1 and 2";
const MEDIA: [Medium; 2] = [NULL, FILE];

/// All ways, the medium alone first.
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
        "How much latency does each software stack add to the medium and the wire?"
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

/// Table 2: reads and writes of every way on the device.
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
    let title = "Latency of one 4 KiB operation at a time, local and over each protocol";
    let mut exhibit = exhibit(format!("{NAME}-all"), title.into(), "QuickSAN, table 2", figure);
    exhibit.notes.extend([cores_note(setting, 1), contradictions()]);
    exhibit.notes.extend(nbdkit_note(setting));
    exhibit.found(DIRECTIONS.map(|direction| cut(results, direction)))
}

/// The latency through other protocols, compared with iSCSI, here and in the paper's table.
fn cut(results: &Results, direction: Direction) -> Finding {
    let of = |door| measured(results, &node(door, FILE), direction).filter(|mark| mark.y > 0.0);
    let iscsi = of(DOORS[0]);
    let cases = DOORS[1..].iter().filter_map(|&door| {
        let (iscsi, ours) = (iscsi?, of(door)?);
        Some(case(door_names(door).1, difference(ours.y, iscsi.y), [&iscsi, &ours]))
    });
    let theirs = |index: usize| (direction.of)(&paper::LATENCIES[index].remote);
    let numbers = [1, 2].map(|index| {
        let change = Show::Change.text(difference(theirs(index), theirs(0)));
        format!("{change} ({})", paper::LATENCIES[index].name)
    });
    let claim = match direction.pattern {
        Pattern::RandRead => "A read takes less time than over iSCSI",
        _ => "A write takes less time than over iSCSI",
    };
    Claim::of(&paper::PAPER, "table 2", claim, Show::Change, numbers.join(", "))
        .limited(0.0)
        .judge(|it| it < 0.0, cases.collect())
}

/// A contradiction in the paper.
fn contradictions() -> String {
    let [iscsi, os, _] = paper::LATENCIES;
    let cut = |from: f64, to: f64| percent((1.0 - to / from) * 100.0);
    format!(
        "The paper's text says that QuickSAN-OS saves {} of the latency of remote writes, but \
         takes the numbers from the table's row for reads. By the table, it saves {} of the \
         latency of reads and {} of that of writes.",
        percent(paper::LATENCY_CUT.value),
        cut(iscsi.remote.read, os.remote.read),
        cut(iscsi.remote.write, os.remote.write),
    )
}

/// The components of one way's latency.
struct Part {
    way: String,
    medium: Option<Mark>,
    wire: Option<Mark>,
    has_wire: bool,
    total: Option<Mark>,
}

impl Part {
    /// The part that neither medium nor wire explains. It is negative if the medium is faster
    /// behind the node.
    fn software(&self) -> Option<f64> {
        let wire = if self.has_wire { self.wire?.y } else { 0.0 };
        Some(self.total?.y - self.medium?.y - wire)
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        [&self.medium, &self.wire, &self.total].into_iter().flatten()
    }
}

/// All protocols on one medium, in one direction.
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
        // Without the sum there are no bars, since a single component would be taken for the whole.
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
        let figure = stacked("protocol", names, y, series);
        let name = self.direction.name;
        let slug = format!("{NAME}-share-{key}-{name}");
        let title = format!("Where a 4 KiB {name} spends its time: {label}");
        let mut exhibit = exhibit(slug, title, "QuickSAN, table 1 and figure 2", figure);
        exhibit.table = self.table();
        exhibit.notes.push(cores_note(setting, 1));
        exhibit.notes.push(
            "Medium and wire are measured alone, in the same run. The rest of the latency over the \
             protocol counts as software. A negative rest is drawn as zero."
                .into(),
        );
        exhibit.found(self.findings())
    }

    fn table(&self) -> Table {
        let columns = ["medium", "wire", "software", "measured"];
        let mut headings = vec!["protocol".to_owned()];
        headings.extend(columns.map(|column| heading(column, MEAN_US.unit)));
        let y = |mark: Option<Mark>| cell(mark.map(|mark| mark.y));
        let row = |part: &Part| {
            let software = cell(part.software());
            vec![text(part.way.as_str()), y(part.medium), y(part.wire), software, y(part.total)]
        };
        Table { columns: headings, rows: self.parts.iter().map(row).collect() }
    }

    fn findings(&self) -> [Finding; 2] {
        let theirs = |index: usize| (self.direction.of)(&paper::STACKS[index].total);
        let show = Show::Unit(MEAN_US.unit);
        let (iscsi, quicksan) = (theirs(0), theirs(3));
        let numbers = format!("{} (iSCSI), {} (QuickSAN-D)", show.text(iscsi), show.text(quicksan));
        let of = |part: &Part| {
            let added = part.total?.y - part.medium?.y;
            Some(case(part.way.as_str(), added, part.marks()))
        };
        let claim = "Software and wire add less latency to the medium than the paper's iSCSI";
        let added = Claim::of(&paper::PAPER, "table 1", claim, show, numbers)
            .limited(iscsi)
            .judge(|it| it < iscsi, self.parts.iter().filter_map(of).collect());
        // If medium and wire alone took longer than the whole, nothing is known of software.
        let of = |part: &Part| {
            let software = part.software().filter(|micros| *micros >= 0.0)?;
            let total = part.total.filter(|total| total.y > 0.0)?;
            Some(case(part.way.as_str(), software / total.y * 100.0, part.marks()))
        };
        let cases: Vec<_> = self.parts.iter().filter_map(of).collect();
        let claim = "Medium and wire explain at least 90 % of the latency";
        let share = Claim::own(claim, Show::Percent).limited(ALIKE).judge(|it| it <= ALIKE, cases);
        let is_known = self.parts.iter().any(|part| part.software().is_some());
        match is_known {
            true => [added, share.because("medium and wire alone took longer than the whole")],
            false => [added, share],
        }
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
    let title = "Published: latency that stacks add to a 4 KiB read, without the medium".to_owned();
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
            "The parts of {} do not add up to the printed {}.",
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
