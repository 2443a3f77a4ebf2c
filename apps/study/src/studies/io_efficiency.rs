//! `io-efficiency`: the rate that one core of a node serves when storage costs almost nothing.

use nearflash_bench::workload::Pattern;

use super::say::{self, change, labelled, percent, quantity, signed};
use super::sweep::{
    KIOPS, Step, Sweep, at, axis, bars, exhibit, index_x, level, lines, load, mark, measure_axis,
    point_id,
};
use super::ways::{
    DOORS, FILE, NULL, Way, delayed, local, medium_names, node, node_of, series_of, targets, wire,
};
use super::{Setting, Study, cores_note, more_cores_note, wire_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::plan::{Door, Load, Medium, Plan, SessionOptions, Unable};
use crate::published::networked_flash as paper;
use crate::result::Results;

/// See the module.
pub(super) struct IoEfficiency;

const NAME: &str = "io-efficiency";
const CLIENTS: u32 = 64;
/// Rates that differ by at most this, in per cent, count as equal.
const DELAY_CHANGE_MAX: f64 = 10.0;
/// The number of cores of the paper's machine.
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

/// The numbers of cores above one to give to the node: powers of two that leave at least one to
/// clients.
fn more_cores(setting: &Setting) -> Vec<u16> {
    let fits = |cores: &u16| usize::from(*cores) < setting.core_count;
    let counts = [2, 4, 8, 16, CORES_MAX].into_iter().filter(fits);
    if setting.is_quick { counts.take(1).collect() } else { counts.collect() }
}

fn unable(setting: &Setting) -> Vec<Unable> {
    let mut unable = vec![Unable {
        what: "doors and storage in hardware (RDMA, figure 4c)".into(),
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
    let conclusions = core_sentences(&series, &doors);
    for stated in paper::CORE_IOPS.into_iter().chain([paper::CORE_SOCKET_IOPS]) {
        let label = format!("published: {}", stated.what);
        series.push(level(label, stated.value / 1e3, [1.0, 2.0]));
    }
    let x = axis("cores of the node", "", Scale::Log2);
    let figure = lines(x, measure_axis(KIOPS, Scale::Linear), series);
    let title = format!("IOPS of {CLIENTS} clients by cores of the node, 1 KiB reads, null device");
    let mut exhibit =
        exhibit(format!("{NAME}-cores"), title, "networked-flash study, figure 4a", figure);
    exhibit.conclusions = conclusions;
    exhibit.notes.extend(notes(setting));
    exhibit.notes.extend(wire_note(setting));
    if !more_cores(setting).is_empty() {
        exhibit.notes.push(more_cores_note());
    }
    let [tcp, rdma] = paper::ALL_CORES_IOPS;
    exhibit.notes.push(format!(
        "With all 32 cores the paper has {} over TCP and {} over RDMA; elsewhere it says about 900 \
         kIOPS of the latter. Its levels are of one core.",
        quantity(tcp.value / 1e3, "kIOPS"),
        quantity(rdma.value / 1e3, "kIOPS"),
    ));
    exhibit
}

/// The rate of one core compared with the wire, with the paper's core, and with several cores if
/// there are any.
fn core_sentences(series: &[Series], doors: &[&Series]) -> Vec<String> {
    let ones: Vec<_> = doors.iter().filter_map(|it| Some((*it, at(it, 1.0)?))).collect();
    let rates: Vec<_> = ones.iter().map(|(it, mark)| (it.label.as_str(), mark.y)).collect();
    let doubt = || say::doubt(ones.iter().map(|(_, mark)| *mark));
    let kiops = |value: f64| quantity(value, KIOPS.unit);
    let wire = labelled(series, "wire").and_then(|wire| at(wire, 1.0));
    let wire = wire.map_or_else(String::new, |wire| {
        let doubt = say::doubt([wire]);
        format!("; the wire alone carries {}{doubt}", kiops(wire.y))
    });
    let lead = say::range(&rates, kiops)
        .map(|range| format!("One core of the node serves {range}{}{wire}.", doubt()));
    let theirs = paper::CORE_IOPS[0];
    let gains: Vec<_> = rates.iter().map(|(it, y)| (*it, y * 1e3 / theirs.value)).collect();
    let gain = say::range(&gains, say::times).map(|range| {
        let theirs = kiops(theirs.value / 1e3);
        format!("That is {range} the {theirs} of the paper's core over TCP{}.", doubt())
    });
    let grown: Vec<_> = ones
        .iter()
        .filter_map(|(it, one)| Some((*it, *one, it.points.last()?)))
        .filter(|(_, one, most)| most.x > 1.0 && one.y > 0.0)
        .collect();
    let times: Vec<_> =
        grown.iter().map(|(it, one, most)| (it.label.as_str(), most.y / one.y)).collect();
    let most = grown.iter().map(|(_, _, most)| most.x).fold(1.0, f64::max);
    let scaling = say::range(&times, say::times).map(|range| {
        let doubt = say::doubt(grown.iter().flat_map(|(_, one, most)| [*one, *most]));
        format!("Up to {most} cores of the node serve {range} as much as one{doubt}.")
    });
    say::conclude(lead, [gain, scaling])
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
    let conclusions = delay_sentences(&series, delays.len() - 1, delays[delays.len() - 1]);
    let names = delays.iter().map(|&micros| match micros {
        0 => "no delay".to_owned(),
        micros => format!("{micros} µs"),
    });
    let y = measure_axis(KIOPS, Scale::Linear);
    let figure = bars("delay of the device", names.collect(), y, series);
    let title = format!("IOPS of {CLIENTS} clients by delay of the device, 1 KiB reads");
    let mut exhibit =
        exhibit(format!("{NAME}-delays"), title, "networked-flash study, figure 4b", figure);
    exhibit.conclusions = conclusions;
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(format!(
        "{CLIENTS} clients with one outstanding operation each cannot ask for more than {} of a \
         device of 100 µs.",
        quantity(f64::from(CLIENTS) / 100e-6 / 1e3, KIOPS.unit)
    ));
    exhibit
}

/// The effect of the longest delay, and whether it is as small as in the paper.
fn delay_sentences(series: &[Series], last: usize, micros: u64) -> Vec<String> {
    let ends: Vec<_> = series
        .iter()
        .filter_map(|it| Some((it.label.as_str(), at(it, 0.0)?, at(it, index_x(last))?)))
        .filter(|(_, none, _)| none.y > 0.0)
        .collect();
    let changes: Vec<_> =
        ends.iter().map(|(label, none, long)| (*label, change(long.y, none.y))).collect();
    let doubt = || say::doubt(ends.iter().flat_map(|(_, none, long)| [*none, *long]));
    let lead = say::range(&changes, signed).map(|range| {
        format!(
            "A delay of {micros} µs in the device changes what one core serves by {range}{}.",
            doubt()
        )
    });
    let held = say::held(&changes, |it| it.abs() <= DELAY_CHANGE_MAX);
    let claim = lead.is_some().then(|| {
        format!(
            "That delays do not matter to a node of one core, here within {}, {}{}.",
            percent(DELAY_CHANGE_MAX),
            say::holds_for(held, changes.len(), "doors"),
            doubt(),
        )
    });
    say::conclude(lead, [claim])
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
    exhibit.conclusions = conclusions;
    exhibit.notes.extend(notes(setting));
    exhibit.notes.push(
        "The paper combines sockets and RDMA with a block and an RDMA interface to storage; here \
         are doors, the last of them without sockets, with three kinds of storage."
            .into(),
    );
    exhibit
}

/// Whether the protocol or the storage determines the rate.
fn combinations(series: &[Series], doors: &[String]) -> Vec<String> {
    let kiops = |mark: &Mark| quantity(mark.y, KIOPS.unit);
    let all: Vec<(String, &Mark)> = series
        .iter()
        .flat_map(|medium| medium.points.iter().map(move |mark| (medium, mark)))
        .filter(|(_, mark)| mark.y > 0.0)
        .filter_map(|(medium, mark)| {
            let of_door = doors.iter().enumerate().find(|(index, _)| index_x(*index) == mark.x);
            Some((format!("{} on the {}", of_door?.1, medium.label), mark))
        })
        .collect();
    let doubt = say::doubt(all.iter().map(|(_, mark)| *mark));
    let of_doors = series.iter().filter_map(|medium| gap(medium.points.iter())).reduce(f64::max);
    let places = (0..doors.len()).map(index_x);
    let of_media = places
        .filter_map(|x| gap(series.iter().filter_map(|medium| at(medium, x))))
        .reduce(f64::max);
    let lead = of_doors.zip(of_media).map(|(of_doors, of_media)| {
        let gain = paper::OFFLOAD_GAIN_MAX;
        format!(
            "From door to door on the same storage rates differ up to {}, from storage to storage \
             behind the same door up to {}; the paper's doors differ up to {}{doubt}.",
            say::times(of_doors),
            say::times(of_media),
            say::times(gain.value),
        )
    });
    let most = all.iter().max_by(|a, b| a.1.y.total_cmp(&b.1.y));
    let least = all.iter().min_by(|a, b| a.1.y.total_cmp(&b.1.y));
    let ends = most.zip(least).filter(|_| all.len() > 1).map(|(most, least)| {
        format!(
            "Most is served by {} ({}), least by {} ({}){doubt}.",
            most.0,
            kiops(most.1),
            least.0,
            kiops(least.1),
        )
    });
    say::conclude(lead, [ends])
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
