//! `io-efficiency`: the rate that one core of a node serves when storage costs almost nothing.

use nearflash_bench::workload::Pattern;

use super::chart::{at, axis, bars, exhibit, index_x, labelled, level, lines};
use super::claims::{ALIKE, Claim, Show, case, difference};
use super::sweep::{KIOPS, Step, Sweep, load, mark, measure_axis, point_id};
use super::ways::{
    DOORS, FILE, NULL, Way, delayed, local, medium_names, node, node_of, series_of, targets, wire,
};
use super::{Setting, Study, cores_note, more_cores_note, wire_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::number::quantity;
use crate::plan::{Door, Load, Medium, Plan, SessionOptions, Unable};
use crate::published::networked_flash as paper;
use crate::result::Results;

/// See the module.
pub(super) struct IoEfficiency;

const NAME: &str = "io-efficiency";
const CLIENTS: u32 = 64;
/// The number of cores of the paper's machine.
const CORES_MAX: u16 = 32;

impl Study for IoEfficiency {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How many operations does a core of the node serve, by protocol, delay and storage?"
    }

    fn source(&self) -> &'static str {
        "networked-flash study, figure 4"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let base = cores_sweep(setting, 1);
        let more = more_cores(setting).into_iter().map(|cores| cores_sweep(setting, cores));
        let delays = delays(setting).into_iter().skip(1).map(delay_sweep);
        let media = MEDIA.into_iter().skip(1).map(|medium| media_sweep(setting, medium));
        let sweeps = std::iter::once(base).chain(more).chain(delays).chain(media);
        let points = sweeps.flat_map(|sweep| sweep.points()).collect();
        Plan { points, unable: unable(setting) }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        vec![by_cores(setting, results), by_delay(setting, results), by_medium(setting, results)]
    }
}

fn step() -> Step {
    let load = Load { clients: CLIENTS, ..load(Pattern::RandRead, 1024) };
    Step::new(1.0, format!("randread/1KiB/clients={CLIENTS}"), load)
}

/// The numbers of cores above one to give to the node: powers of two that leave at least one to
/// clients.
fn more_cores(setting: &Setting) -> Vec<u16> {
    let fits = |cores: &u16| usize::from(*cores) < setting.core_count;
    let counts = [2, 4, 8, 16, CORES_MAX].into_iter().filter(fits);
    if setting.is_quick { counts.take(1).collect() } else { counts.collect() }
}

fn unable(setting: &Setting) -> Vec<Unable> {
    let mut unable = vec![Unable {
        what: "protocols and storage in hardware (RDMA, figure 4c)".into(),
        why: "nearflash serves TCP and shared memory".into(),
        needs: "an RDMA card, and a protocol that uses it".into(),
    }];
    if setting.core_count <= usize::from(CORES_MAX) {
        unable.push(Unable {
            what: format!("nodes of up to {CORES_MAX} cores (figure 4a)"),
            why: format!("this run may use {} cores, one of them for clients", setting.core_count),
            needs: format!("{} cores", CORES_MAX + 1),
        });
    }
    unable
}

/// The null device: alone, through every protocol, and the wire. With one core the names are those
/// of all figures.
fn cores_sweep(setting: &Setting, cores: u16) -> Sweep {
    let session = SessionOptions { node_cores: cores, ..SessionOptions::default() };
    if cores > 1 {
        let way = |door: Door| {
            let way = node_of(door, vec![NULL], session);
            Way { key: format!("{}-cores={cores}", way.key), ..way }
        };
        return Sweep { study: NAME, ways: DOORS.map(way).into(), steps: vec![step()] };
    }
    let mut ways = vec![local(NULL)];
    ways.extend(wire(Door::Direct).map(|way| way.called("wire")));
    ways.extend(DOORS.map(|door| node(door, NULL)));
    ways.extend(targets(setting));
    Sweep { study: NAME, ways, steps: vec![step()] }
}

fn delays(setting: &Setting) -> Vec<u64> {
    let all = paper::INJECTED_DELAYS_US;
    if setting.is_quick { vec![all[0], all[2]] } else { all.to_vec() }
}

fn delay_medium(micros: u64) -> Medium {
    if micros == 0 { NULL } else { delayed(micros) }
}

fn delay_sweep(micros: u64) -> Sweep {
    let medium = delay_medium(micros);
    Sweep { study: NAME, ways: DOORS.map(|door| node(door, medium)).into(), steps: vec![step()] }
}

const MEDIA: [Medium; 3] = [NULL, Medium::Memory(0), FILE];

fn media_doors(setting: &Setting) -> &'static [Door] {
    if setting.is_quick { &DOORS[1..3] } else { &DOORS }
}

fn media_sweep(setting: &Setting, medium: Medium) -> Sweep {
    let ways = media_doors(setting).iter().map(|&door| node(door, medium)).collect();
    Sweep { study: NAME, ways, steps: vec![step()] }
}

fn measured(results: &Results, way: &Way, x: f64) -> Option<Mark> {
    mark(results, &point_id(NAME, way, &step()), 0, KIOPS, x)
}

/// Figure 4a.
fn by_cores(setting: &Setting, results: &Results) -> Exhibit {
    let mut series = cores_sweep(setting, 1).series(results, KIOPS);
    for cores in more_cores(setting) {
        for way in cores_sweep(setting, cores).ways {
            let mark = measured(results, &way, f64::from(cores));
            let of = series.iter_mut().find(|series| series.label == way.label);
            if let (Some(of), Some(mark)) = (of, mark) {
                of.points.push(mark);
            }
        }
    }
    let doors = series_of(&cores_sweep(setting, 1).ways, &series, Way::is_node);
    let findings = core_findings(&series, &doors);
    for stated in paper::CORE_IOPS.into_iter().chain([paper::CORE_SOCKET_IOPS]) {
        let label = format!("published: {}", stated.what);
        series.push(level(label, stated.value / 1e3, [1.0, 2.0]));
    }
    let x = axis("cores of the node", "", Scale::Log2);
    let figure = lines(x, measure_axis(KIOPS, Scale::Linear), series);
    let title = format!("IOPS of {CLIENTS} clients by cores of the node, 1 KiB reads, null device");
    let mut exhibit =
        exhibit(format!("{NAME}-cores"), title, "networked-flash study, figure 4a", figure)
            .found(findings);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.extend(wire_note(setting));
    if !more_cores(setting).is_empty() {
        exhibit.notes.push(more_cores_note());
    }
    let [tcp, rdma] = paper::ALL_CORES_IOPS;
    exhibit.notes.push(format!(
        "With all 32 cores, the paper reports {} over TCP and {} over RDMA. Elsewhere it gives \
         about 900 kIOPS for RDMA. The levels in the figure are those of one core.",
        quantity(tcp.value / 1e3, "kIOPS"),
        quantity(rdma.value / 1e3, "kIOPS"),
    ));
    exhibit
}

/// The rate of one core compared with the paper's core and with the wire, and the gain of more.
fn core_findings(series: &[Series], doors: &[&Series]) -> [Finding; 3] {
    let ones: Vec<_> = doors.iter().filter_map(|it| Some((*it, at(it, 1.0)?))).collect();
    let [stated, _] = &paper::CORE_IOPS;
    let level = stated.value / 1e3;
    let show = Show::Unit(KIOPS.unit);
    let core = Claim::of(
        &paper::PAPER,
        stated.place,
        "One core of the node serves at least as much as one core over TCP in the paper",
        show,
        show.text(level),
    )
    .limited(level)
    .judge(
        |it| it >= level,
        ones.iter().map(|(it, one)| case(it.label.as_str(), one.y, [*one])).collect(),
    );
    let wire = labelled(series, "wire").and_then(|wire| at(wire, 1.0));
    let of_wire = |(it, one): &(&Series, &Mark)| {
        let wire = wire.filter(|wire| wire.y > 0.0)?;
        Some(case(it.label.as_str(), difference(one.y, wire.y), [*one, wire]))
    };
    let wire = Claim::own("One core serves at least 90 % of the rate of the wire", Show::Change)
        .limited(-ALIKE)
        .judge(|it| it >= -ALIKE, ones.iter().filter_map(of_wire).collect());
    let grown = |(it, one): &(&Series, &Mark)| {
        let most = it.points.last().filter(|most| most.x > 1.0 && one.y > 0.0)?;
        Some(case(it.label.as_str(), most.y / one.y, [*one, most]))
    };
    let [all, _] = &paper::ALL_CORES_IOPS;
    let numbers = format!("{} with 32 cores", Show::Times.text(all.value / stated.value));
    let claim = "A node with more cores serves more operations";
    let scaling = Claim::of(&paper::PAPER, all.place, claim, Show::Times, numbers)
        .limited(1.0)
        .judge(|it| it > 1.0, ones.iter().filter_map(grown).collect())
        .because("no node with several cores was measured");
    [core, wire, scaling]
}

/// Figure 4b.
fn by_delay(setting: &Setting, results: &Results) -> Exhibit {
    let delays = delays(setting);
    let of = |door: Door| {
        let points = delays.iter().enumerate().filter_map(|(index, &micros)| {
            measured(results, &node(door, delay_medium(micros)), index_x(index))
        });
        let label = node(door, NULL).label;
        Series { label, origin: Origin::Measured, points: points.collect() }
    };
    let series: Vec<_> = DOORS.map(of).into();
    let finding = delay_finding(&series, delays.len() - 1);
    let names = delays.iter().map(|&micros| match micros {
        0 => "no delay".to_owned(),
        micros => format!("{micros} µs"),
    });
    let y = measure_axis(KIOPS, Scale::Linear);
    let figure = bars("delay of the device", names.collect(), y, series);
    let title = format!("IOPS of {CLIENTS} clients by delay of the device, 1 KiB reads");
    let mut exhibit =
        exhibit(format!("{NAME}-delays"), title, "networked-flash study, figure 4b", figure)
            .found([finding]);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(format!(
        "{CLIENTS} clients with one outstanding operation each cannot get more than {} from a \
         device with a delay of 100 µs.",
        quantity(f64::from(CLIENTS) / 100e-6 / 1e3, KIOPS.unit)
    ));
    exhibit
}

/// Whether the longest delay has as little effect as in the paper.
fn delay_finding(series: &[Series], last: usize) -> Finding {
    let of = |it: &Series| {
        let (none, long) = (at(it, 0.0).filter(|none| none.y > 0.0)?, at(it, index_x(last))?);
        Some(case(it.label.as_str(), difference(long.y, none.y), [none, long]))
    };
    let numbers = format!("no difference up to {} µs", paper::INJECTED_DELAYS_US[2]);
    let claim = "A delay of the device changes the rate of one core by at most 10 %";
    Claim::of(&paper::PAPER, "figure 4b", claim, Show::Change, numbers)
        .judge(|it| it.abs() <= ALIKE, series.iter().filter_map(of).collect())
}

/// Figure 4c.
fn by_medium(setting: &Setting, results: &Results) -> Exhibit {
    let doors = media_doors(setting);
    let of = |medium: Medium| {
        let points = doors
            .iter()
            .enumerate()
            .filter_map(|(index, &door)| measured(results, &node(door, medium), index_x(index)));
        let label = medium_names(medium).1;
        Series { label, origin: Origin::Measured, points: points.collect() }
    };
    let series: Vec<_> = MEDIA.map(of).into();
    let names: Vec<_> = doors.iter().map(|&door| node(door, NULL).label).collect();
    let finding = door_finding(&series);
    let y = measure_axis(KIOPS, Scale::Linear);
    let figure = bars("protocol", names, y, series);
    let title = format!("IOPS of {CLIENTS} clients by protocol and storage, one core, 1 KiB reads");
    let mut exhibit =
        exhibit(format!("{NAME}-combined"), title, "networked-flash study, figure 4c", figure)
            .found([finding]);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(
        "The paper combines sockets and RDMA with a block and an RDMA interface to storage. Here, \
         protocols are combined with three kinds of storage; the last protocol uses no sockets."
            .into(),
    );
    exhibit
}

/// The difference between protocols on the same storage.
fn door_finding(series: &[Series]) -> Finding {
    let of = |medium: &Series| {
        Some(case(medium.label.as_str(), gap(medium.points.iter())?, &medium.points))
    };
    let stated = &paper::OFFLOAD_GAIN_MAX;
    let claim = "On the same storage, rates differ between protocols no more than in the paper";
    Claim::at_most(&paper::PAPER, stated, claim, Show::Times)
        .judge(|it| it <= stated.value, series.iter().filter_map(of).collect())
}

/// The maximum divided by the minimum, for two or more values.
fn gap<'a>(marks: impl Iterator<Item = &'a Mark>) -> Option<f64> {
    let values: Vec<f64> = marks.map(|mark| mark.y).filter(|y| *y > 0.0).collect();
    let (low, high) =
        (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    (values.len() > 1).then_some(high / low)
}

fn notes(setting: &Setting) -> [String; 2] {
    [
        cores_note(setting, 1),
        format!(
            "The wire is the bare exchange on {CLIENTS} connections. The paper's hardware: {}.",
            paper::PAPER.hardware
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sweep::point;
    use super::*;

    #[test]
    fn a_node_never_gets_all_cores() {
        for core_count in 1..40 {
            let setting = Setting { core_count, ..Setting::default() };
            assert!(more_cores(&setting).iter().all(|&cores| usize::from(cores) < core_count));
        }
    }

    #[test]
    fn one_core_is_measured_once_for_all_three_figures() {
        let setting = Setting { core_count: 2, ..Setting::default() };
        let direct = point(NAME, &node(Door::Direct, NULL), &step()).id;
        let points = IoEfficiency.plan(&setting).points;
        assert_eq!(points.iter().filter(|point| point.id == direct).count(), 1);
    }
}
