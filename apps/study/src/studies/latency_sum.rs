//! `latency-sum`: is the latency of remote flash that of the device and that of the wire, and nothing
//! else?

use nearflash_bench::workload::Pattern;
use nearflash_units::Nanos;

use super::say::{self, beside, missing, percent, quantity};
use super::sweep::{
    MEAN_US, Step, Sweep, bars, cell, exhibit, heading, index_x, len_tag, len_text, load, mark,
    measure_axis, plain, point_id, text,
};
use super::ways::{
    DOORS, FILE, Way, absent_peers, local, medium_names, node, others, targets, wire,
};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series, Table};
use crate::plan::{Medium, Peer, Plan, Subject};
use crate::published::networked_flash as paper;
use crate::result::Results;

/// See the module.
pub(super) struct LatencySum;

const NAME: &str = "latency-sum";
const SOURCE: &str = "networked-flash study, tables 1 to 3";

/// As slow as the paper's PCIe flash at random 1 KiB operations, which every machine can show.
const FLASH: Medium =
    Medium::Null { read_delay: Nanos::from_micros(78), write_delay: Nanos::from_micros(25) };
const MEDIA: [Medium; 2] = [FLASH, FILE];

/// Reads and writes; of each, sequential and random order.
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
            // The delays of the null device are known, and need no measuring.
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

/// Every door, and on the user's device what is beside it.
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

/// Lengths in both orders; in a quick run in random order alone.
fn steps(setting: &Setting, patterns: [Pattern; 2]) -> Vec<Step> {
    let patterns = if setting.is_quick { &patterns[1..] } else { &patterns[..] };
    let step = |len: u64, pattern: Pattern| {
        Step::new(0.0, format!("{}/{}", pattern.name(), len_tag(len)), load(pattern, len))
    };
    lens(setting).iter().flat_map(|&len| patterns.iter().map(move |&it| step(len, it))).collect()
}

/// A wire knows no order.
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

/// A remote latency beside its parts.
struct Row {
    way: String,
    order: &'static str,
    len: u64,
    device: Option<Mark>,
    wire: Option<Mark>,
    measured: Option<Mark>,
    /// Shared memory has no wire; of a target of the user nothing but its latency is known.
    is_sum_device_alone: bool,
}

impl Row {
    fn sum(&self) -> Option<f64> {
        let device = self.device?.y;
        if self.is_sum_device_alone { Some(device) } else { Some(device + self.wire?.y) }
    }

    fn difference(&self) -> Option<f64> {
        Some((self.measured?.y / self.sum()? - 1.0) * 100.0)
    }

    fn is_doubtful(&self) -> bool {
        [self.device, self.wire, self.measured].iter().flatten().any(|mark| mark.is_doubtful)
    }

    fn name(&self) -> String {
        format!("{}, {} {}", self.way, self.order, len_text(self.len))
    }
}

/// One exhibit's rows.
struct Sums {
    medium: Medium,
    direction: &'static str,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// The wire beside a way, and whether it has none.
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
                    is_sum_device_alone,
                });
            }
        }
        let mut notes = vec![
            cores_note(setting, 1),
            "The paper's devices and networks are other than this machine's; what is compared is \
             how far the measured latency lies above the sum."
                .into(),
        ];
        if medium == FLASH {
            notes.push(
                "The device is the node's null device with the latency of the paper's PCIe flash at \
                 random 1 KiB operations: its share is that delay, for every length and order."
                    .into(),
            );
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
        exhibit.conclusions = say::conclude(self.conclusions());
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
                cell(row.difference()),
            ]
        };
        Table { columns: headings, rows: self.rows.iter().map(row).collect() }
    }

    /// One for each way, of the longest random operation; and what the wire makes of the order.
    fn conclusions(&self) -> Vec<String> {
        let is_last = |row: &&Row| {
            let is_same = |other: &&Row| other.way == row.way && other.order == row.order;
            row.order == "random"
                && self.rows.iter().filter(is_same).all(|other| other.len <= row.len)
        };
        let mut sentences: Vec<_> = self.summary().into_iter().collect();
        sentences.extend(self.rows.iter().filter(is_last).map(|row| self.excess(row)));
        sentences.extend(self.gap());
        sentences
    }

    /// How many of the rows with a wire keep to the sum, the nearest and the furthest.
    fn summary(&self) -> Option<String> {
        let known = || {
            self.rows
                .iter()
                .filter(|row| !row.is_sum_device_alone)
                .filter_map(|row| Some((row, row.difference().filter(|it| it.is_finite())?)))
        };
        let stated = paper::SUM_EXCESS_MAX;
        let within = known().filter(|(_, difference)| *difference <= stated.value).count();
        let (least, lowest) = known().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let (most, highest) = known().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let all = known().count();
        Some(format!(
            "{within} of {all} {}s through the network exceed device + wire by {} at most, as PCIe \
             flash in the paper: from {} ({}) to {} ({}){}.",
            self.direction,
            percent(stated.value),
            percent(lowest),
            least.name(),
            percent(highest),
            most.name(),
            if known().any(|(row, _)| row.is_doubtful()) { " (some of them doubtful)" } else { "" },
        ))
    }

    fn excess(&self, row: &Row) -> String {
        let what = format!("{} {}s of {}", row.order, self.direction, len_text(row.len));
        let (Some(measured), Some(sum)) = (row.measured, row.sum()) else {
            return match row.measured {
                Some(mark) => format!(
                    "Through {} {what} take {}; device and wire beside it were not measured.",
                    row.way,
                    quantity(mark.y, "µs")
                ),
                None => missing(&format!("{what} through {}", row.way)),
            };
        };
        let limit = if row.is_sum_device_alone { "the device alone" } else { "device + wire" };
        let stated = paper::SUM_EXCESS_MAX;
        let holds = row.difference().is_some_and(|difference| difference <= stated.value);
        format!(
            "Through {} {what} take {}, {} {limit} ({}); that the sum is exceeded by {} at most, as \
             by PCIe flash in the paper, {}{}.",
            row.way,
            quantity(measured.y, "µs"),
            beside(measured.y, sum, ["below", "above"]),
            quantity(sum, "µs"),
            percent(stated.value),
            say::verdict(holds),
            if row.is_doubtful() { " (doubtful: it was not measured undisturbed)" } else { "" },
        )
    }

    /// How much of the device's gap between random and sequential order is left behind a wire.
    fn gap(&self) -> Option<String> {
        if self.medium == FLASH {
            return None;
        }
        let find = |order: &str| {
            self.rows.iter().find(|row| row.order == order && !row.is_sum_device_alone)
        };
        let (sequential, random) = (find("sequential")?, find("random")?);
        let ratio = |a: Option<Mark>, b: Option<Mark>| Some(a?.y / b?.y);
        let on_device = ratio(random.device, sequential.device)?;
        let behind = ratio(random.measured, sequential.measured)?;
        Some(format!(
            "Random {}s of {} take {} times as long as sequential ones on the device, and {} times \
             through {}.",
            self.direction,
            len_text(random.len),
            say::number(on_device),
            say::number(behind),
            random.way,
        ))
    }
}

/// Table 3 of the paper, with what it says of itself.
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
        row.push(cell(Some(remote.difference_percent)));
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
