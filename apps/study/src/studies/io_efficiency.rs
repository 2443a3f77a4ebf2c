//! `io-efficiency`: how much one core of a node serves, with storage that costs next to nothing.

use nearflash_bench::workload::Pattern;

use super::say::{self, beside, labelled, missing, number, quantity};
use super::sweep::{
    KIOPS, Step, Sweep, at, axis, bars, exhibit, index_x, level, lines, load, mark, measure_axis,
    point_id,
};
use super::ways::{
    DOORS, FILE, NULL, Way, delayed, local, medium_names, node, node_of, targets, wire,
};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::plan::{Door, Load, Medium, Plan, SessionOptions, Unable};
use crate::published::networked_flash as paper;
use crate::result::Results;

/// See the module.
pub(super) struct IoEfficiency;

const NAME: &str = "io-efficiency";
const CLIENTS: u32 = 64;
/// As many as the paper's machine has.
const CORES_MAX: u16 = 32;

impl Study for IoEfficiency {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How many operations does a core of the node serve, by door, delay and storage?"
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

/// More cores than one for the node, powers of two, when clients keep one.
fn more_cores(setting: &Setting) -> Vec<u16> {
    let fits = |cores: &u16| usize::from(*cores) < setting.core_count;
    let counts = [2, 4, 8, 16, CORES_MAX].into_iter().filter(fits);
    if setting.is_quick { counts.take(1).collect() } else { counts.collect() }
}

fn unable(setting: &Setting) -> Vec<Unable> {
    let mut unable = vec![Unable {
        what: "doors and storage that hardware does (RDMA, figure 4c)".into(),
        why: "nearflash serves TCP and shared memory".into(),
        needs: "an RDMA card, and a door for it".into(),
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

/// The null device: alone, behind doors, and the wire. Names of one core are those of all figures.
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
    let mut conclusions: Vec<_> = DOORS
        .iter()
        .map(|&door| node(door, NULL))
        .map(|way| core_sentence(&series, &way.label))
        .collect();
    conclusions.extend(series.iter().filter_map(scaling));
    for stated in paper::CORE_IOPS.into_iter().chain([paper::CORE_SOCKET_IOPS]) {
        let label = format!("published: {}", stated.what);
        series.push(level(label, stated.value / 1e3, [1.0, 2.0]));
    }
    let x = axis("cores of the node", "", Scale::Log2);
    let figure = lines(x, measure_axis(KIOPS, Scale::Linear), series);
    let title = format!("IOPS of {CLIENTS} clients by cores of the node, 1 KiB reads, null device");
    let mut exhibit =
        exhibit(format!("{NAME}-cores"), title, "networked-flash study, figure 4a", figure);
    exhibit.conclusions = say::conclude(conclusions);
    exhibit.notes.extend(notes(setting));
    let [tcp, rdma] = paper::ALL_CORES_IOPS;
    exhibit.notes.push(format!(
        "With all 32 cores the paper has {} over TCP and {} over RDMA; elsewhere it says about 900 \
         kIOPS of the latter. Its levels are of one core.",
        quantity(tcp.value / 1e3, "kIOPS"),
        quantity(rdma.value / 1e3, "kIOPS"),
    ));
    exhibit
}

/// One core beside the wire, and beside the paper's core.
fn core_sentence(series: &[Series], label: &str) -> String {
    let of = |label: &str| labelled(series, label).and_then(|series| at(series, 1.0));
    let Some(ours) = of(label) else {
        return missing(&format!("one core behind {label}"));
    };
    let limit = of("wire").map_or_else(
        || "the wire was not measured".to_owned(),
        |wire| {
            let beside = beside(ours.y, wire.y, ["below", "above"]);
            format!("{beside} the wire alone ({})", quantity(wire.y, KIOPS.unit))
        },
    );
    let theirs = paper::CORE_IOPS[0];
    format!(
        "One core of the node serves {} through {label}, {limit}; that is {} times the {} of the \
         paper over TCP{}.",
        quantity(ours.y, KIOPS.unit),
        number(ours.y * 1e3 / theirs.value),
        quantity(theirs.value / 1e3, KIOPS.unit),
        say::doubt([ours]),
    )
}

/// What more cores bring, where there are more.
fn scaling(series: &Series) -> Option<String> {
    let (one, most) = (at(series, 1.0)?, series.points.last()?);
    (most.x > 1.0 && one.y > 0.0).then(|| {
        format!(
            "Through {} {} cores of the node serve {}, {} times one core{}.",
            series.label,
            most.x,
            quantity(most.y, KIOPS.unit),
            number(most.y / one.y),
            say::doubt([one, most]),
        )
    })
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
    let last = index_x(delays.len() - 1);
    let sentence = |series: &Series| {
        let (Some(none), Some(long)) = (at(series, 0.0), at(series, last)) else {
            return missing(&format!("{} with and without a delay", series.label));
        };
        let change = (long.y / none.y - 1.0).abs() * 100.0;
        format!(
            "With a delay of {} µs in the device {} serves {}, {} without it ({}); that delays do not \
             matter to a node of one core, here within 10 %, {}{}.",
            delays[delays.len() - 1],
            series.label,
            quantity(long.y, KIOPS.unit),
            beside(long.y, none.y, ["below what it serves", "above what it serves"]),
            quantity(none.y, KIOPS.unit),
            say::verdict(change <= 10.0),
            say::doubt([none, long]),
        )
    };
    let conclusions = series.iter().map(sentence).collect();
    let names = delays.iter().map(|&micros| match micros {
        0 => "no delay".to_owned(),
        micros => format!("{micros} µs"),
    });
    let y = measure_axis(KIOPS, Scale::Linear);
    let figure = bars("delay of the device", names.collect(), y, series);
    let title = format!("IOPS of {CLIENTS} clients by delay of the device, 1 KiB reads");
    let mut exhibit =
        exhibit(format!("{NAME}-delays"), title, "networked-flash study, figure 4b", figure);
    exhibit.conclusions = say::conclude(conclusions);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(format!(
        "{CLIENTS} clients with one outstanding operation each cannot ask for more than {} of a \
         device of 100 µs.",
        quantity(f64::from(CLIENTS) / 100e-6 / 1e3, KIOPS.unit)
    ));
    exhibit
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
    let conclusions = combinations(&series, &names);
    let y = measure_axis(KIOPS, Scale::Linear);
    let figure = bars("door", names, y, series);
    let title = format!("IOPS of {CLIENTS} clients by door and storage, one core, 1 KiB reads");
    let mut exhibit =
        exhibit(format!("{NAME}-combined"), title, "networked-flash study, figure 4c", figure);
    exhibit.conclusions = say::conclude(conclusions);
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(
        "The paper combines sockets and RDMA with a block and an RDMA interface to storage; here \
         are doors, the last of them without sockets, with three kinds of storage."
            .into(),
    );
    exhibit
}

/// Whether the door or the storage decides.
fn combinations(series: &[Series], doors: &[String]) -> Vec<String> {
    let gain = paper::OFFLOAD_GAIN_MAX;
    let sentence = |series: &Series| {
        let peak = say::peak(series);
        let least = series.points.iter().min_by(|a, b| a.y.total_cmp(&b.y));
        let (Some(peak), Some(least)) = (peak, least) else {
            return missing(&series.label);
        };
        let name = |mark: &Mark| {
            let found = doors.iter().enumerate().find(|(index, _)| index_x(*index) == mark.x);
            found.map_or("", |(_, name)| name.as_str())
        };
        format!(
            "On the {} the best door, {}, serves {} and the least, {}, {}: {} times, where the \
             paper has up to {}{}.",
            series.label,
            name(peak),
            quantity(peak.y, KIOPS.unit),
            name(least),
            quantity(least.y, KIOPS.unit),
            number(peak.y / least.y),
            number(gain.value),
            say::doubt([peak, least]),
        )
    };
    series.iter().map(sentence).collect()
}

fn notes(setting: &Setting) -> [String; 2] {
    [
        cores_note(setting, 1),
        format!(
            "The wire is the bare exchange on {CLIENTS} connections. Measured in the paper: {}.",
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
