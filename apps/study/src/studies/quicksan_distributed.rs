//! The distributed arrangement of `quicksan-bandwidth`: a volume that is striped over the nodes of a space,
//! compared with one whose blocks are all on one node. Each client has a node of its own.
//!
//! All nodes run on one machine, so absolute numbers say little. Both forms have the same nodes and the
//! same clients, so their ratio shows what the place of the blocks changes.

use nearflash_bench::workload::Pattern;

use super::Setting;
use super::chart::{at, axis, exhibit, labelled, len_tag, len_text, lines, x_of};
use super::claims::{ALIKE, Claim, Show, case};
use super::sweep::{MB_S, Step, Sweep, load};
use super::ways::{Way, door_names, space, spread_names};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::plan::{Door, Load, Point, Spread, Unable};
use crate::published::quicksan as paper;
use crate::result::Results;

/// The name of the study.
const NAME: &str = "quicksan-bandwidth";
/// Queue depth of each client, as in the centralized arrangement.
const DEPTH: u32 = 16;
/// The nodes of the sweep over the length: the paper's clients.
const NODES: u8 = 4;
/// The numbers of nodes of the paper's sweep.
const COUNTS: [u8; 3] = [2, 4, 8];
/// A volume of a space has blocks of 4096 bytes.
const LENS: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
const QUICK_LENS: [u64; 2] = [4 << 10, 256 << 10];
const DOORS: [Door; 2] = [Door::NvmeTcp, Door::Direct];
const FORMS: [Spread; 2] = [Spread::Distributed, Spread::Centralized];
const MIXES: [(&str, Pattern); 2] = [("reads", Pattern::RandRead), ("writes", Pattern::RandWrite)];

/// The points; none without etcd.
pub(super) fn points(setting: &Setting) -> Vec<Point> {
    if !setting.has_etcd {
        return Vec::new();
    }
    let lengths = MIXES.iter().map(|&(_, pattern)| lengths(setting, pattern));
    let sweeps: Vec<Sweep> = lengths.chain(counts(setting).map(by_count)).collect();
    sweeps.iter().flat_map(Sweep::points).collect()
}

/// The parts that cannot be measured here.
pub(super) fn unable(setting: &Setting) -> Vec<Unable> {
    let mirrors = Unable {
        what: "the distributed arrangement with mirrors (figure 7)".into(),
        why: "each byte of a space is on one node".into(),
        needs: "a space with replicas".into(),
    };
    let distributed = (!setting.has_etcd).then(|| Unable {
        what: "the distributed arrangement (figures 5 and 6)".into(),
        why: "etcd is not installed".into(),
        needs: "etcd on this machine, for example of the package etcd-server".into(),
    });
    distributed.into_iter().chain([mirrors]).collect()
}

/// The exhibits; none without etcd.
pub(super) fn exhibits(setting: &Setting, results: &Results) -> Vec<Exhibit> {
    if !setting.has_etcd {
        return Vec::new();
    }
    vec![ratios(setting, results), scaling(setting, results)]
}

/// The sweep over the length: both forms over each protocol.
fn lengths(setting: &Setting, pattern: Pattern) -> Sweep {
    let ways = DOORS.iter().flat_map(|&door| FORMS.map(|form| space(door, NODES, form)));
    let step = |&len: &u64| step(pattern, len, NODES, x_of(len));
    let lens = if setting.is_quick { &QUICK_LENS[..] } else { &LENS[..] };
    Sweep { study: NAME, ways: ways.collect(), steps: lens.iter().map(step).collect() }
}

/// One step of the sweep over the number of nodes, with as many clients as nodes.
fn by_count(count: u8) -> Sweep {
    let ways: Vec<Way> = FORMS.map(|form| space(Door::Direct, count, form)).into();
    let step = step(Pattern::RandRw, 4 << 10, count, f64::from(count));
    Sweep { study: NAME, ways, steps: vec![step] }
}

fn counts(setting: &Setting) -> impl Iterator<Item = u8> {
    let last = if setting.is_quick { COUNTS.len() - 1 } else { COUNTS.len() };
    COUNTS.into_iter().take(last)
}

fn step(pattern: Pattern, len: u64, clients: u8, x: f64) -> Step {
    let clients = u32::from(clients);
    let load = Load { clients, depth: DEPTH, ..load(pattern, len) };
    let tag = format!("space/{}/{}/clients={clients}", pattern.name(), len_tag(len));
    Step::new(x, tag, load)
}

/// The bandwidth of the distributed form as a multiple of that of the centralized form.
fn ratios(setting: &Setting, results: &Results) -> Exhibit {
    let of = |&(name, pattern): &(&str, Pattern)| {
        let measured = lengths(setting, pattern).series(results, MB_S);
        DOORS.map(|door| {
            let label = door_names(door).1;
            let of = |form| labelled(&measured, &space(door, NODES, form).label);
            let points = match FORMS.map(of) {
                [Some(distributed), Some(centralized)] => shared(distributed, centralized),
                _ => Vec::new(),
            };
            let label = format!("{label}, {name}");
            Series { label, origin: Origin::Measured, points }
        })
    };
    let series: Vec<Series> =
        MIXES.iter().flat_map(of).filter(|series| !series.points.is_empty()).collect();
    let finding = keeps_up(&series);
    let x = axis("length of access", "B", Scale::Log2);
    let y = axis("bandwidth, distributed to centralized", "times", Scale::Linear);
    let title = format!("A volume striped over {NODES} nodes, compared with one on a single node");
    let slug = format!("{NAME}-distributed-ratio");
    let mut exhibit = exhibit(slug, title, "QuickSAN, figure 5", lines(x, y, series));
    exhibit.notes.extend(notes(setting, usize::from(NODES)));
    exhibit.notes.push(
        "The paper shows both forms in figure 5, and prints no numbers for their ratio.".to_owned(),
    );
    exhibit.found([finding])
}

/// The growth of the total bandwidth with the number of nodes.
fn scaling(setting: &Setting, results: &Results) -> Exhibit {
    let measured: Vec<Series> =
        counts(setting).flat_map(|count| by_count(count).series(results, MB_S)).collect();
    let mut series = Vec::new();
    for form in FORMS {
        let label = space(Door::Direct, COUNTS[0], form).label;
        let marks = measured.iter().filter(|one| one.label == label).flat_map(|it| &it.points);
        let marks: Vec<Mark> = marks.copied().collect();
        let Some(first) = marks.iter().find(|mark| mark.x == f64::from(COUNTS[0])) else {
            continue;
        };
        let points = marks.iter().filter_map(|mark| ratio(mark, first)).collect();
        series.push(Series {
            label: spread_names(form).to_owned(),
            origin: Origin::Measured,
            points,
        });
    }
    let finding = grows(&series);
    series.extend(published());
    let x = axis("nodes and clients", "", Scale::Log2);
    let y = axis("total bandwidth, compared with two nodes", "times", Scale::Linear);
    let title = "Mixed 4 KiB accesses of more clients to more nodes".to_owned();
    let slug = format!("{NAME}-distributed-nodes");
    let mut exhibit = exhibit(slug, title, "QuickSAN, figure 6", lines(x, y, series));
    exhibit.notes.extend(notes(setting, usize::from(COUNTS[COUNTS.len() - 1])));
    exhibit.found([finding])
}

/// The paper's two numbers for the growth from two to eight nodes.
fn published() -> impl Iterator<Item = Series> {
    paper::SCALING_TWO_TO_EIGHT.iter().map(|stated| {
        let mark = |x, y| Mark { x, y, spread: None, is_doubtful: false };
        let points = vec![mark(2.0, 1.0), mark(8.0, stated.value)];
        let label = format!("{} ({})", paper::PAPER.name, stated.place);
        Series { label, origin: Origin::Published, points }
    })
}

/// The ratios of two series at the positions of both.
fn shared(one: &Series, other: &Series) -> Vec<Mark> {
    one.points.iter().filter_map(|mark| ratio(mark, at(other, mark.x)?)).collect()
}

/// A mark as a multiple of another one; the extremes of its spread follow from those of both.
fn ratio(mark: &Mark, of: &Mark) -> Option<Mark> {
    let (spread, whole) = (mark.spread.unwrap_or([mark.y; 2]), of.spread.unwrap_or([of.y; 2]));
    let is_divisible = whole.iter().chain([&of.y]).all(|it| *it > 0.0);
    let is_repeated = mark.spread.is_some() || of.spread.is_some();
    is_divisible.then(|| Mark {
        x: mark.x,
        y: mark.y / of.y,
        spread: is_repeated.then(|| [spread[0] / whole[1], spread[1] / whole[0]]),
        is_doubtful: mark.is_doubtful || of.is_doubtful,
    })
}

/// Whether the distributed form has at least about the bandwidth of the centralized one.
fn keeps_up(series: &[Series]) -> Finding {
    let of = |one: &Series| {
        let name = |mark: &Mark| format!("{}, {}", one.label, named_len(mark.x));
        one.points.iter().map(|mark| case(name(mark), mark.y, [mark])).collect::<Vec<_>>()
    };
    let least = 1.0 - ALIKE / 100.0;
    Claim::own(
        "A striped volume has at least about the bandwidth of one on a single node",
        Show::Times,
    )
    .limited(1.0)
    .judge(|it| it >= least, series.iter().flat_map(of).collect())
}

fn named_len(x: f64) -> String {
    LENS.into_iter().find(|&len| x_of(len) == x).map(len_text).unwrap_or_default()
}

/// Whether the total bandwidth of the distributed form grows with the nodes.
fn grows(series: &[Series]) -> Finding {
    let numbers = paper::SCALING_TWO_TO_EIGHT.map(|stated| Show::Times.text(stated.value));
    let numbers = format!("{} or {} (2 to 8 nodes)", numbers[0], numbers[1]);
    let distributed = labelled(series, spread_names(Spread::Distributed));
    let more = distributed.into_iter().flat_map(|one| &one.points).filter(|mark| mark.x > 2.0);
    let cases = more.map(|mark| case(format!("2 to {} nodes", mark.x), mark.y, [mark])).collect();
    let claim = "Total bandwidth grows with the number of nodes";
    Claim::of(&paper::PAPER, "section 5.4", claim, Show::Times, numbers)
        .limited(1.0)
        .judge(|it| it > 1.0, cases)
}

fn notes(setting: &Setting, nodes: usize) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Each client has {DEPTH} accesses in flight, over a node of its own. Each node has a slice \
             in memory. The volumes have 256 MiB, one replica, and stripes of 64 KiB. The centralized \
             volume is on the first node, so the other nodes forward to it."
        ),
        format!("The paper's hardware: {}.", paper::PAPER.hardware),
    ];
    if setting.core_count <= nodes {
        notes.push(
            "The nodes share cores here, because the machine has no more cores than nodes. More nodes \
             therefore add no processor time, and total bandwidth cannot grow as in the paper."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mark(y: f64, spread: Option<[f64; 2]>, is_doubtful: bool) -> Mark {
        Mark { x: 4096.0, y, spread, is_doubtful }
    }

    #[test]
    fn the_spread_of_a_ratio_holds_the_extremes_of_both() {
        let (one, other) = (mark(6.0, Some([5.0, 8.0]), false), mark(2.0, Some([1.0, 4.0]), true));
        let ratio = ratio(&one, &other).unwrap();
        assert_eq!((ratio.y, ratio.spread, ratio.is_doubtful), (3.0, Some([1.25, 8.0]), true));
    }

    #[test]
    fn a_ratio_to_nothing_is_unknown() {
        assert_eq!(ratio(&mark(6.0, None, false), &mark(0.0, None, false)), None);
        assert_eq!(ratio(&mark(6.0, None, false), &mark(2.0, Some([0.0, 3.0]), false)), None);
    }

    #[test]
    fn without_etcd_the_reason_is_named() {
        let without = Setting::default();
        assert!(points(&without).is_empty() && exhibits(&without, &Results::default()).is_empty());
        assert!(unable(&without).iter().any(|it| it.why.contains("etcd is not installed")));
        let with = Setting { has_etcd: true, ..without };
        assert!(!unable(&with).iter().any(|it| it.why.contains("etcd")));
    }
}
