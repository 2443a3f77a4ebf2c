//! `latency-sum`: is the latency of remote flash the sum of the device's and the wire's?

use nearflash_bench::workload::Pattern;
use nearflash_units::Nanos;

use super::chart::{bars, cell, exhibit, heading, index_x, len_tag, len_text, plain, text};
use super::claims::{Claim, Show, case, difference};
use super::sweep::{MEAN_US, Step, Sweep, load, mark, measure_axis, point_id};
use super::ways::{
    DOORS, FILE, Way, absent_peers, local, medium_names, nbdkit_note, node, others, targets, wire,
};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Cell, Exhibit, Mark, Origin, Scale, Series, Table};
use crate::finding::Finding;
use crate::number::percent;
use crate::plan::{Medium, Peer, Plan, Subject};
use crate::published::networked_flash as paper;
use crate::result::Results;

/// See the module.
pub(super) struct LatencySum;

const NAME: &str = "latency-sum";
const SOURCE: &str = "networked-flash study, tables 1 to 3";

/// A null device with the latency of the paper's PCIe flash at random 1 KiB operations; available
/// on every machine.
const FLASH: Medium =
    Medium::Null { read_delay: Nanos::from_micros(78), write_delay: Nanos::from_micros(25) };
const MEDIA: [Medium; 2] = [FLASH, FILE];

/// Reads and writes, each in sequential and random order.
const DIRECTIONS: [(&str, [Pattern; 2]); 2] =
    [("read", [Pattern::Read, Pattern::RandRead]), ("write", [Pattern::Write, Pattern::RandWrite])];

impl Study for LatencySum {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How much longer is remote latency than the sum of device and wire?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let wires = wires(setting).points();
        let devices = MEDIA.iter().flat_map(|&medium| {
            // The delays of the null device are known without a measurement.
            let alone = (medium == FILE).then(|| local(medium));
            let ways = alone.into_iter().chain(ways(setting, medium)).collect();
            let steps = DIRECTIONS.iter().flat_map(|(_, patterns)| steps(setting, *patterns));
            Sweep { study: NAME, ways, steps: steps.collect() }.points()
        });
        let unable = absent_peers(setting);
        Plan { points: wires.into_iter().chain(devices).collect(), unable }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let of_medium = |&medium: &Medium| {
            DIRECTIONS.map(|direction| Sums::new(setting, results, medium, direction).exhibit())
        };
        let ours = MEDIA.iter().flat_map(of_medium);
        ours.chain(std::iter::once(published())).collect()
    }
}

/// Every protocol; on the user's device also peers and targets.
fn ways(setting: &Setting, medium: Medium) -> Vec<Way> {
    let mut ways: Vec<_> = DOORS.iter().map(|&door| node(door, medium)).collect();
    if medium == FILE {
        ways.extend(others(setting, medium));
    }
    ways
}

fn lens(setting: &Setting) -> &'static [u64] {
    if setting.is_quick { &[4096] } else { &[1024, 4096] }
}

/// All lengths in both orders; in a quick run only in random order.
fn steps(setting: &Setting, patterns: [Pattern; 2]) -> Vec<Step> {
    let patterns = if setting.is_quick { &patterns[1..] } else { &patterns[..] };
    let step = |len: u64, pattern: Pattern| {
        Step::new(0.0, format!("{}/{}", pattern.name(), len_tag(len)), load(pattern, len))
    };
    lens(setting).iter().flat_map(|&len| patterns.iter().map(move |&it| step(len, it))).collect()
}

/// The wires, which do not depend on the order.
fn wires(setting: &Setting) -> Sweep {
    let steps = DIRECTIONS.iter().flat_map(|(_, patterns)| {
        lens(setting).iter().map(|&len| wire_step(patterns[0], len)).collect::<Vec<_>>()
    });
    Sweep {
        study: NAME,
        steps: steps.collect(),
        ways: DOORS.iter().filter_map(|&door| wire(door)).collect(),
    }
}

fn wire_step(pattern: Pattern, len: u64) -> Step {
    Step::new(0.0, format!("{}/{}", pattern.name(), len_tag(len)), load(pattern, len))
}

/// A remote latency with its components.
struct Row {
    way: String,
    order: &'static str,
    len: u64,
    device: Option<Mark>,
    wire: Option<Mark>,
    measured: Option<Mark>,
    /// Whether it is through our node.
    is_ours: bool,
    /// Whether the sum is the device's latency alone, for lack of a wire: shared memory and fio.
    is_sum_device_alone: bool,
}

impl Row {
    fn sum(&self) -> Option<f64> {
        let device = self.device?.y;
        if self.is_sum_device_alone { Some(device) } else { Some(device + self.wire?.y) }
    }

    fn difference(&self) -> Option<f64> {
        Some(difference(self.measured?.y, self.sum().filter(|sum| *sum > 0.0)?))
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        [&self.device, &self.wire, &self.measured].into_iter().flatten()
    }

    /// A short label, since dozens stand below a figure.
    fn name(&self) -> String {
        // Keeps the distinguishing part of `direct, shared memory`, `tgt (iSCSI)` and `fio on the
        // medium`.
        let way = self.way.strip_prefix("direct, ").unwrap_or(&self.way);
        let way = way.split(" (").next().unwrap_or(way);
        let way = way.split(" on ").next().unwrap_or(way);
        let order = if self.order == "random" { "rand" } else { "seq" };
        format!("{way} {order} {}", len_text(self.len).replace(" KiB", "K"))
    }
}

/// The rows of one exhibit.
struct Sums {
    medium: Medium,
    direction: &'static str,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// The wire of a way, and whether the way has none.
fn wire_of(way: &Way) -> (Option<Way>, bool) {
    match way.subject {
        Subject::Node { door, .. } => (wire(door), wire(door).is_none()),
        Subject::Peer { peer: Peer::Tgt, .. } => (wire(DOORS[0]), false),
        Subject::Peer { peer: Peer::Fio, .. } => (None, true),
        _ => (None, false),
    }
}

impl Sums {
    fn new(
        setting: &Setting,
        results: &Results,
        medium: Medium,
        direction: (&'static str, [Pattern; 2]),
    ) -> Self {
        let at =
            |way: &Way, step: &Step| mark(results, &point_id(NAME, way, step), 0, MEAN_US, 0.0);
        let (direction, patterns) = direction;
        let device = |step: &Step| match medium {
            Medium::Null { read_delay, write_delay } => {
                let delay = if direction == "read" { read_delay } else { write_delay };
                let y = delay.to_duration().as_secs_f64() * 1e6;
                Some(Mark { x: 0.0, y, spread: None, is_doubtful: false })
            }
            _ => at(&local(medium), step),
        };
        let mut rows = Vec::new();
        for way in ways(setting, medium) {
            let is_known = !targets(setting).any(|target| target.key == way.key);
            let (wire, is_sum_device_alone) = wire_of(&way);
            for step in steps(setting, patterns) {
                let load = &step.loads[0];
                let len = load.op_len.0;
                let wire_step = wire_step(patterns[0], len);
                let is_random = load.pattern == patterns[1];
                rows.push(Row {
                    way: way.label.clone(),
                    order: if is_random { "random" } else { "sequential" },
                    len,
                    device: if is_known { device(&step) } else { None },
                    wire: wire.as_ref().and_then(|wire| at(wire, &wire_step)),
                    measured: at(&way, &step),
                    is_ours: way.is_node(),
                    is_sum_device_alone,
                });
            }
        }
        let mut notes = vec![
            cores_note(setting, 1),
            "The paper's devices and networks differ from this machine's. The comparison is \
             therefore of the difference between the measured latency and the sum."
                .into(),
        ];
        if medium == FLASH {
            notes.push(
                "The device is the node's null device, with the latency of the paper's PCIe flash \
                 at random 1 KiB operations. Its share of the sum is that delay, for every length \
                 and order."
                    .into(),
            );
        }
        if medium == FILE {
            notes.extend(nbdkit_note(setting));
        }
        Self { medium, direction, rows, notes }
    }

    fn exhibit(self) -> Exhibit {
        let (key, label) = medium_names(self.medium);
        let names = self.rows.iter().map(Row::name).collect();
        let measured = self
            .rows
            .iter()
            .enumerate()
            .filter_map(|(index, row)| Some(Mark { x: index_x(index), ..row.measured? }));
        let sums = self.rows.iter().map(Row::sum);
        let series = vec![
            Series {
                label: "measured".into(),
                origin: Origin::Measured,
                points: measured.collect(),
            },
            plain("device + wire", Origin::Limit, sums),
        ];
        let y = measure_axis(MEAN_US, Scale::Linear);
        let figure = bars("way, order and length", names, y, series);
        let slug = format!("{NAME}-{key}-{}", self.direction);
        let title = format!("Latency of one {} at a time: {label}", self.direction);
        let mut exhibit = exhibit(slug, title, SOURCE, figure);
        exhibit.table = self.table();
        let findings = self.findings();
        exhibit.notes.extend(self.notes);
        exhibit.found(findings)
    }

    fn table(&self) -> Table {
        let columns = ["device", "wire", "device + wire", "measured"];
        let mut headings: Vec<_> = ["way", "order", "length"].map(str::to_owned).into();
        headings.extend(columns.map(|column| heading(column, MEAN_US.unit)));
        headings.push(heading("difference", "%"));
        let row = |row: &Row| {
            vec![
                text(row.way.as_str()),
                text(row.order),
                text(len_text(row.len)),
                cell(row.device.map(|mark| mark.y)),
                cell(row.wire.map(|mark| mark.y)),
                cell(row.sum()),
                cell(row.measured.map(|mark| mark.y)),
                row.difference().map_or(Cell::Missing, Cell::Change),
            ]
        };
        Table { columns: headings, rows: self.rows.iter().map(row).collect() }
    }

    /// Over every wire, and without one.
    fn findings(&self) -> [Finding; 2] {
        let cases = |is_device_alone: bool| {
            let is_so = |row: &&Row| row.is_ours && row.is_sum_device_alone == is_device_alone;
            let case = |row: &Row| Some(case(row.name(), row.difference()?, row.marks()));
            self.rows.iter().filter(is_so).filter_map(case).collect()
        };
        let stated = &paper::SUM_EXCESS_MAX;
        let sum = "Remote latency exceeds device + wire by no more than the paper's PCIe flash";
        let shared =
            "Without a wire, the latency exceeds the device's by no more than the same share";
        let claim = |text| Claim::at_most(&paper::PAPER, stated, text, Show::Change);
        [
            claim(sum).judge(|it| it <= stated.value, cases(false)),
            Claim::own(shared, Show::Change)
                .limited(stated.value)
                .judge(|it| it <= stated.value, cases(true)),
        ]
    }
}

/// Table 3 of the paper, with the paper's own conclusion.
fn published() -> Exhibit {
    let name = |remote: &paper::Remote| {
        format!("{}, {}", paper::DEVICES[remote.device].name, paper::NETWORKS[remote.network].name)
    };
    let of = |pick: fn(&paper::Remote) -> f64| paper::REMOTE.iter().map(move |it| Some(pick(it)));
    let series = vec![
        plain("measured", Origin::Published, of(|it| it.measured_us)),
        plain("device + wire (paper)", Origin::Published, of(|it| it.predicted_us)),
    ];
    let names = paper::REMOTE.iter().map(name).collect();
    let y = measure_axis(MEAN_US, Scale::Linear);
    let figure = bars("device and network", names, y, series);
    let title = "Published: latency of random 1 KiB reads, and the sum of device and wire";
    let mut exhibit = exhibit(
        format!("{NAME}-published"),
        title.into(),
        "networked-flash study, table 3",
        figure,
    );
    exhibit.table.columns.push(heading("difference", "%"));
    for (row, remote) in exhibit.table.rows.iter_mut().zip(&paper::REMOTE) {
        row.push(Cell::Change(remote.difference_percent));
    }
    let stated = paper::SUM_EXCESS_MAX;
    let within =
        paper::REMOTE.iter().filter(|remote| remote.difference_percent <= stated.value).count();
    let most =
        paper::REMOTE.iter().max_by(|a, b| a.difference_percent.total_cmp(&b.difference_percent));
    exhibit.notes.extend(most.map(|most| {
        format!(
            "In the paper, {within} of {} combinations lie within {} of the sum. The furthest is \
             {}, {} above it.",
            paper::REMOTE.len(),
            percent(stated.value),
            name(most),
            percent(most.difference_percent),
        )
    }));
    exhibit.notes.push(format!("Measured on {}.", paper::PAPER.hardware));
    exhibit
}
