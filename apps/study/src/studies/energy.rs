//! `energy`: the energy of a 4 KiB operation through each protocol.

use nearflash_bench::workload::Pattern;

use super::chart::{at, axis, bars, exhibit, index_x, stacked};
use super::claims::{Claim, Show, case, difference};
use super::sweep::{Measure, Step, Sweep, load, mark, point_id};
use super::ways::{DOORS, Way, node};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::number::quantity;
use crate::plan::{Load, Medium, Plan, Unable};
use crate::published::quicksan as paper;
use crate::result::Results;

/// See the module.
pub(super) struct Energy;

/// Default power of a busy core, in watts: server processors are rated at 5 to 15 W per core.
pub const CORE_WATTS: f64 = 10.0;

const NAME: &str = "energy";
const SOURCE: &str = "QuickSAN, figure 10";
const CLIENTS: u32 = 4;
const DEPTH: u32 = 16;

const MIXES: [(&str, Pattern); 3] =
    [("reads", Pattern::RandRead), ("writes", Pattern::RandWrite), ("mixed", Pattern::RandRw)];

/// Energy per operation by the machine's counter, in microjoules; NaN without a counter.
const COUNTED: Measure = Measure {
    label: "energy of an operation",
    unit: "µJ",
    of: |run| run.joules.map_or(f64::NAN, |joules| joules * 1e6 / x_ops(run.ops)),
};

/// Processor time per operation, for the model.
const CPU_US: Measure =
    Measure { label: "processor time of an operation", unit: "µs", of: |run| run.cpu.total() };

const PARTS: [Measure; 4] = [
    Measure { label: "client", unit: "µs", of: |run| run.cpu.client_user },
    Measure { label: "client, kernel", unit: "µs", of: |run| run.cpu.client_system },
    Measure { label: "node", unit: "µs", of: |run| run.cpu.node_user },
    Measure { label: "node, kernel", unit: "µs", of: |run| run.cpu.node_system },
];

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn x_ops(ops: u64) -> f64 {
    ops as f64
}

impl Study for Energy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How much energy does a 4 KiB operation take over each protocol?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let ways = DOORS.map(|door| node(door, Medium::Memory(0))).into();
        let points = Sweep { study: NAME, ways, steps: MIXES.map(step).into() }.points();
        let unable = (!setting.has_energy_counter).then(|| Unable {
            what: "joules as counted by the machine".into(),
            why: "no energy counter of the processors (RAPL) can be read here".into(),
            needs: "a physical machine with RAPL, and permission to read /sys/class/powercap"
                .into(),
        });
        Plan { points, unable: unable.into_iter().collect() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let meter = Meter { setting, results };
        vec![by_mix(&meter), by_part(&meter), beside_iscsi(&meter)]
    }
}

fn step((_, pattern): (&str, Pattern)) -> Step {
    let load = Load { clients: CLIENTS, depth: DEPTH, ..load(pattern, 4096) };
    Step::new(0.0, format!("{}/4KiB", pattern.name()), load)
}

/// The source of the numbers: the machine's counter, or processor time multiplied by a power.
struct Meter<'a> {
    setting: &'a Setting,
    results: &'a Results,
}

impl Meter<'_> {
    fn watts(&self) -> f64 {
        let stated = self.setting.core_watts;
        if stated.is_finite() && stated > 0.0 { stated } else { CORE_WATTS }
    }

    fn way(door: usize) -> Way {
        node(DOORS[door], Medium::Memory(0))
    }

    /// The mark of one protocol and mix.
    fn mark(&self, door: usize, mix: usize, measure: Measure) -> Option<Mark> {
        let id = point_id(NAME, &Self::way(door), &step(MIXES[mix]));
        mark(self.results, &id, 0, measure, index_x(mix))
    }

    /// Whether the machine counted the energy of every measured point. Counted and calculated
    /// energy are never mixed.
    fn is_counted(&self) -> bool {
        let places =
            || (0..DOORS.len()).flat_map(|door| (0..MIXES.len()).map(move |it| (door, it)));
        let count = |measure| {
            places().filter(|(door, mix)| self.mark(*door, *mix, measure).is_some()).count()
        };
        let measured = count(CPU_US);
        measured > 0 && count(COUNTED) == measured
    }

    /// Energy in microjoules: as counted, or microseconds times watts.
    fn series(&self, door: usize) -> Series {
        let is_counted = self.is_counted();
        let watts = self.watts();
        let calculated = |mark: Mark| {
            let spread = mark.spread.map(|both| both.map(|micros| micros * watts));
            Mark { y: mark.y * watts, spread, ..mark }
        };
        let mark = |mix| match is_counted {
            true => self.mark(door, mix, COUNTED),
            false => self.mark(door, mix, CPU_US).map(calculated),
        };
        Series {
            label: Self::way(door).label,
            origin: if is_counted { Origin::Measured } else { Origin::Model },
            points: (0..MIXES.len()).filter_map(mark).collect(),
        }
    }

    fn notes(&self, is_model: bool) -> Vec<String> {
        let mut notes = vec![cores_note(self.setting, 1)];
        if is_model {
            notes.push(format!(
                "This is a model: the processor time of both sides, multiplied by {} for a busy \
                 core. It excludes memory, devices, the network and the idle machine. A side that \
                 polls is busy even without work.",
                quantity(self.watts(), "W")
            ));
        } else {
            notes.push(
                "The machine's processors counted this energy. It includes both sides and \
                 everything else on the machine."
                    .into(),
            );
        }
        let [ssd, switch] = paper::ASSUMED_WATTS;
        notes.push(format!(
            "The paper measured servers at their power supply, and added {} for an SSD and {} for \
             a switch. It prints only ratios for its figure.",
            quantity(ssd.value, ssd.unit),
            quantity(switch.value, switch.unit)
        ));
        notes
    }
}

fn names() -> Vec<String> {
    MIXES.map(|(name, _)| name.to_owned()).into()
}

/// Figure 10.
fn by_mix(meter: &Meter<'_>) -> Exhibit {
    let series: Vec<_> = (0..DOORS.len()).map(|door| meter.series(door)).collect();
    let is_model = series.iter().any(|series| series.origin == Origin::Model);
    let findings = [of_iscsi(&series), direct_saving(&series)];
    let y = axis(COUNTED.label, COUNTED.unit, Scale::Linear);
    let figure = bars("operations", names(), y, series);
    let title = format!("Energy of a 4 KiB operation, {CLIENTS} clients, depth {DEPTH} each");
    let mut exhibit = exhibit(format!("{NAME}-operation"), title, SOURCE, figure).found(findings);
    exhibit.notes.extend(meter.notes(is_model));
    exhibit
}

/// iSCSI compared with direct, for each mix.
fn of_iscsi(series: &[Series]) -> Finding {
    let of = |mix: usize| {
        let of = |door: usize| at(&series[door], index_x(mix)).filter(|mark| mark.y > 0.0);
        let (iscsi, direct) = (of(0)?, of(2)?);
        Some(case(MIXES[mix].0, iscsi.y / direct.y, [iscsi, direct]))
    };
    let (stack, [low, high]) = paper::ENERGY_OF_ISCSI[1];
    let numbers = format!("{low} to {high} times ({stack})");
    let claim = "The ratio of iSCSI's energy to direct's is at least as large as in the paper";
    Claim::of(&paper::PAPER, "figure 10", claim, Show::Times, numbers)
        .limited(low)
        .judge(|it| it >= low, (0..MIXES.len()).filter_map(of).collect())
}

/// Shared memory compared with TCP, for writes.
fn direct_saving(series: &[Series]) -> Finding {
    let of = |door: usize| at(&series[door], index_x(1)).filter(|mark| mark.y > 0.0);
    let both = of(2).zip(of(3));
    let case = |(tcp, shared): (&Mark, &Mark)| {
        case(MIXES[1].0, difference(shared.y, tcp.y), [tcp, shared])
    };
    let stated = &paper::ENERGY_SAVED_DIRECT;
    let claim = "Shared memory saves at least as much energy as the paper's kernel bypass";
    let numbers = Show::Change.text(-stated.value);
    Claim::of(&paper::PAPER, stated.place, claim, Show::Change, numbers)
        .limited(-stated.value)
        .judge(|it| it <= -stated.value, both.map(case).into_iter().collect())
}

/// The distribution of processor time, for reads.
fn by_part(meter: &Meter<'_>) -> Exhibit {
    let of = |measure: Measure| {
        let points = (0..DOORS.len()).filter_map(|door| {
            let id = point_id(NAME, &Meter::way(door), &step(MIXES[0]));
            mark(meter.results, &id, 0, measure, index_x(door))
        });
        let points = points.collect();
        Series { label: measure.label.into(), origin: Origin::Measured, points }
    };
    let series: Vec<_> = PARTS.map(of).into();
    let doors: Vec<_> = (0..DOORS.len()).map(|door| Meter::way(door).label).collect();
    let y = axis(CPU_US.label, CPU_US.unit, Scale::Linear);
    let figure = stacked("protocol", doors, y, series);
    let title = "Processor time of a 4 KiB read, by side".to_owned();
    let mut exhibit = exhibit(format!("{NAME}-processor"), title, SOURCE, figure);
    exhibit.notes.push(cores_note(meter.setting, 1));
    exhibit
}

/// Ratios to iSCSI, as in the paper.
fn beside_iscsi(meter: &Meter<'_>) -> Exhibit {
    let all: Vec<_> = (0..DOORS.len()).map(|door| meter.series(door)).collect();
    let mut names: Vec<_> = all[1..].iter().map(|series| series.label.clone()).collect();
    let of = |(mix, (name, _)): (usize, &(&str, Pattern))| {
        let points = all[1..].iter().enumerate().filter_map(|(place, series)| {
            let (iscsi, ours) = (at(&all[0], index_x(mix))?, at(series, index_x(mix))?);
            (ours.y > 0.0).then(|| Mark {
                x: index_x(place),
                y: iscsi.y / ours.y,
                spread: None,
                is_doubtful: iscsi.is_doubtful || ours.is_doubtful,
            })
        });
        Series { label: (*name).to_owned(), origin: all[0].origin, points: points.collect() }
    };
    let mut series: Vec<_> = MIXES.iter().enumerate().map(of).collect();
    let is_model = all.iter().any(|series| series.origin == Origin::Model);
    let finding = ratios(&series, &names);
    let published = paper::ENERGY_OF_ISCSI.map(|(name, [low, high])| {
        names.push(name.to_owned());
        let x = index_x(names.len() - 1);
        Mark { x, y: f64::midpoint(low, high), spread: Some([low, high]), is_doubtful: false }
    });
    let label = "published, lowest to highest".to_owned();
    series.push(Series { label, origin: Origin::Published, points: published.into() });
    let y = axis("iSCSI's energy divided by the protocol's", "", Scale::Linear);
    let figure = bars("protocol or stack", names, y, series);
    let title = "Energy of iSCSI compared with other protocols".to_owned();
    let mut exhibit = exhibit(format!("{NAME}-ratio"), title, SOURCE, figure).found([finding]);
    exhibit.notes.extend(meter.notes(is_model));
    exhibit
}

/// Whether every other protocol takes less energy than iSCSI.
fn ratios(series: &[Series], names: &[String]) -> Finding {
    let places = (0..names.len()).flat_map(|place| series.iter().map(move |mix| (place, mix)));
    let cases = places.filter_map(|(place, mix)| {
        let mark = at(mix, index_x(place))?;
        Some(case(format!("{}, {}", names[place], mix.label), mark.y, [mark]))
    });
    let numbers = paper::ENERGY_OF_ISCSI
        .map(|(stack, [low, high])| format!("{low} to {high} times ({stack})"));
    let claim = "iSCSI takes more energy than every other protocol";
    Claim::of(&paper::PAPER, "figure 10", claim, Show::Times, numbers.join(", "))
        .limited(1.0)
        .judge(|it| it > 1.0, cases.collect())
}
