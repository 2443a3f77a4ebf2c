//! `latency-sum`: is the latency of remote flash the sum of the device's and the wire's?

use nearflash_bench::workload::Pattern;
use nearflash_units::Nanos;

use super::say::{self, against, change, percent, quantity, signed};
use super::sweep::{
    MEAN_US, Step, Sweep, bars, cell, exhibit, heading, index_x, len_tag, len_text, load, mark,
    measure_axis, plain, point_id, text,
};
use super::ways::{
    DOORS, FILE, Way, absent_peers, door_names, local, medium_names, nbdkit_note, node, others,
    targets, wire,
};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Cell, Exhibit, Mark, Origin, Scale, Series, Table};
use crate::plan::{Door, Medium, Peer, Plan, Subject};
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
        "Is remote latency the sum of device and wire, or how much more?"
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
        Some(change(self.measured?.y, self.sum().filter(|sum| *sum > 0.0)?))
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
            "The paper's devices and networks differ from this machine's; the comparison is of the \
             distance between the measured latency and the sum."
                .into(),
        ];
        if medium == FLASH {
            notes.push(
                "The device is the node's null device with the latency of the paper's PCIe flash at \
                 random 1 KiB operations: its share is that delay, for every length and order."
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
        exhibit.conclusions =
            say::conclude(self.lead(), [self.within(), self.gap().or_else(|| self.shared())]);
        exhibit.notes.extend(self.notes);
        exhibit
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

    /// The accepted rows with their difference from the sum, where that is known.
    fn known(&self, is_so: impl Fn(&Row) -> bool) -> Vec<(&Row, f64)> {
        let rows = self.rows.iter().filter(|row| is_so(row));
        rows.filter_map(|row| Some((row, row.difference()?))).collect()
    }

    /// The longest random operations over each wire, compared with the sum.
    fn lead(&self) -> Option<String> {
        let is_remote =
            |row: &Row| row.order == "random" && row.is_ours && !row.is_sum_device_alone;
        let len = self.known(is_remote).iter().map(|(row, _)| row.len).max()?;
        let known = self.known(|row| is_remote(row) && row.len == len);
        let named: Vec<_> = known.iter().map(|(row, it)| (row.way.as_str(), *it)).collect();
        Some(format!(
            "On the {} random {}s of {} differ from device + wire by {}{}.",
            medium_names(self.medium).1,
            self.direction,
            len_text(len),
            say::range(&named, signed)?,
            say::doubt(known.iter().flat_map(|(row, _)| row.marks())),
        ))
    }

    /// Whether the paper's bound holds for everything over a wire.
    fn within(&self) -> Option<String> {
        let known = self.known(|row| row.is_ours && !row.is_sum_device_alone);
        let stated = paper::SUM_EXCESS_MAX;
        let held = known.iter().filter(|(_, it)| *it <= stated.value).count();
        (!known.is_empty()).then(|| {
            format!(
                "The paper's bound for PCIe flash, {} above the sum, {}{}.",
                percent(stated.value),
                say::holds_for(held, known.len(), "ways, orders and lengths"),
                say::doubt(known.iter().flat_map(|(row, _)| row.marks())),
            )
        })
    }

    /// The device's gap between random and sequential order, and the gap that remains behind a
    /// wire.
    fn gap(&self) -> Option<String> {
        if self.medium == FLASH {
            return None;
        }
        let is_of = |order: &'static str| {
            move |row: &&Row| row.order == order && !row.is_sum_device_alone && row.device.is_some()
        };
        let random = self.rows.iter().find(is_of("random"))?;
        let is_same = |row: &&Row| row.way == random.way && row.len == random.len;
        let sequential = self.rows.iter().filter(is_same).find(is_of("sequential"))?;
        let ratio = |a: Option<Mark>, b: Option<Mark>| Some(a?.y / b.filter(|it| it.y > 0.0)?.y);
        Some(format!(
            "Random {}s of {} take {} as long as sequential ones on the device alone, and {} \
             through {}{}.",
            self.direction,
            len_text(random.len),
            say::times(ratio(random.device, sequential.device)?),
            say::times(ratio(random.measured, sequential.measured)?),
            random.way,
            say::doubt(random.marks().chain(sequential.marks())),
        ))
    }

    /// Without a wire, all added latency is the node's.
    fn shared(&self) -> Option<String> {
        let name = door_names(Door::DirectLocal).1;
        let is_shared = |row: &&Row| row.way == name && row.order == "random";
        let row = self.rows.iter().filter(is_shared).max_by_key(|row| row.len)?;
        let (measured, device) = (row.measured?, row.device.filter(|mark| mark.y > 0.0)?);
        Some(format!(
            "Without a wire ({}) they take {}, {} ({}){}.",
            row.way,
            quantity(measured.y, MEAN_US.unit),
            against(measured.y, device.y, "the device alone"),
            quantity(device.y, MEAN_US.unit),
            say::doubt([&measured, &device]),
        ))
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
    exhibit.conclusions.extend(most.map(|most| {
        format!(
            "In the paper {within} of {} combinations lie within {} of the sum; the furthest is {} \
             with {} above it.",
            paper::REMOTE.len(),
            percent(stated.value),
            name(most),
            percent(most.difference_percent),
        )
    }));
    exhibit.notes.push(format!("Measured on {}.", paper::PAPER.hardware));
    exhibit
}
