//! `block-size`: throughput and IOPS by block size, for deep queues on one file (like fio), and for
//! many tasks with one operation in flight each, on ranges of their own (like IOR).

use nearflash_bench::workload::Pattern;

use super::chart::{at, axis, exhibit, labelled, len_tag, len_text, level, lines, peak, x_of};
use super::claims::{Claim, Show, case, count, difference};
use super::lineup::Lineup;
use super::sweep::{KIOPS, MB_S, Measure, Step, Sweep, load, measure_axis};
use super::ways::{FILE, Way, absent_peers, local, nbdkit_note, node, others, too_long};
use super::{Setting, Study, cores_note};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::number::percent;
use crate::plan::{Door, Layout, Load, Plan};
use crate::published::{Stated, solid_state as paper};
use crate::result::Results;

/// See the module.
pub(super) struct BlockSize;

const NAME: &str = "block-size";
const KIB: u64 = 1 << 10;
/// Upper limit of a job's bytes in flight: 256 blocks of 1 MiB in each of 8 jobs would fill 2 GiB.
const JOB_BYTES_MAX: u64 = 16 << 20;
const LENS: [u64; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
const IOR_LENS: [u64; 5] = [4, 16, 64, 256, 1024];
const DIRECTIONS: [(&str, Pattern); 2] =
    [("read", Pattern::RandRead), ("write", Pattern::RandWrite)];

#[derive(Clone, Copy, Eq, PartialEq)]
enum Style {
    Fio,
    Ior,
}

impl Style {
    const ALL: [Self; 2] = [Self::Fio, Self::Ior];

    fn name(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Ior => "ior",
        }
    }

    fn lens(self, setting: &Setting) -> Vec<u64> {
        let kib: &[u64] = match (self, setting.is_quick) {
            (Self::Fio, false) => &LENS,
            (Self::Ior, false) => &IOR_LENS,
            (Self::Fio, true) => &[4, 64, 1024],
            (Self::Ior, true) => &[4, 1024],
        };
        kib.iter().map(|kib| kib * KIB).collect()
    }

    fn ways(self, setting: &Setting) -> Vec<Way> {
        let mut ways = vec![local(FILE), node(Door::NvmeTcp, FILE)];
        if self == Self::Fio || !setting.is_quick {
            ways.push(node(Door::Direct, FILE));
        }
        if self == Self::Fio {
            ways.extend(others(setting, FILE));
        }
        ways
    }

    fn load(self, pattern: Pattern, len: u64, tasks: u32) -> Load {
        let load = load(pattern, len);
        match self {
            Self::Fio => {
                let fits = u32::try_from(JOB_BYTES_MAX / len).unwrap_or(u32::MAX);
                Load { clients: tasks, depth: paper::FIO_DEPTH.min(fits), ..load }
            }
            Self::Ior => Load { clients: tasks, layout: Layout::RangePerClient, ..load },
        }
    }

    fn tasks(self) -> u32 {
        match self {
            Self::Fio => paper::FIO_JOBS,
            Self::Ior => paper::IOR_TASKS_BEST,
        }
    }

    fn step(self, pattern: Pattern, len: u64, tasks: u32, x: f64) -> Step {
        let tag = format!("{}/{}/{}/tasks={tasks}", self.name(), pattern.name(), len_tag(len));
        Step::new(x, tag, self.load(pattern, len, tasks))
    }

    /// The sweep over the block size.
    fn sweep(self, setting: &Setting, pattern: Pattern) -> Sweep {
        let step = |&len: &u64| self.step(pattern, len, self.tasks(), x_of(len));
        let steps = self.lens(setting).iter().map(step).collect();
        Sweep { study: NAME, ways: self.ways(setting), steps }
    }

    fn text(self) -> String {
        match self {
            Self::Fio => {
                format!("fio: {} jobs on one file, depth {}", paper::FIO_JOBS, paper::FIO_DEPTH)
            }
            Self::Ior => format!("IOR: {} tasks, each with its own range", paper::IOR_TASKS_BEST),
        }
    }
}

/// The sweep over IOR's tasks at 4 KiB.
fn tasks_sweep(setting: &Setting, pattern: Pattern) -> Sweep {
    let all = paper::IOR_TASKS;
    let counts: &[u32] = if setting.is_quick { &[all[0], paper::IOR_TASKS_BEST] } else { &all };
    let step = |&tasks: &u32| Style::Ior.step(pattern, 4 * KIB, tasks, f64::from(tasks));
    Sweep {
        study: NAME,
        ways: vec![local(FILE), node(Door::NvmeTcp, FILE)],
        steps: counts.iter().map(step).collect(),
    }
}

impl Study for BlockSize {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How do throughput and IOPS change with the block size and the number of tasks?"
    }

    fn source(&self) -> &'static str {
        "solid-state study, figures 5 to 12"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let mut points = Vec::new();
        for (_, pattern) in DIRECTIONS {
            points.extend(Style::ALL.iter().flat_map(|it| it.sweep(setting, pattern).points()));
            let mut tasks = tasks_sweep(setting, pattern);
            // The sweep over the block size already has the best number of tasks.
            tasks.steps.retain(|step| step.loads[0].clients != paper::IOR_TASKS_BEST);
            points.extend(tasks.points());
        }
        let mut unable = absent_peers(setting);
        unable.extend(too_long(setting, &Style::Fio.lens(setting)));
        Plan { points, unable }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let mut exhibits = Vec::new();
        for style in Style::ALL {
            exhibits.push(throughput(setting, results, style));
            exhibits.push(rates(setting, results, style));
        }
        exhibits.push(by_tasks(setting, results));
        exhibits
    }
}

/// Reads and writes of every way in one figure, as in the paper.
fn both(measure: Measure, results: &Results, sweep: impl Fn(Pattern) -> Sweep) -> Vec<Series> {
    let of = |(direction, pattern): (&str, Pattern)| {
        let mut series = sweep(pattern).series(results, measure);
        for one in &mut series {
            one.label = label_of(&one.label, direction);
        }
        series
    };
    DIRECTIONS.into_iter().flat_map(of).collect()
}

fn label_of(way: &str, direction: &str) -> String {
    format!("{way}, {direction}s")
}

/// A number of the paper at one block size.
fn published(stated: &Stated, unit: f64, len: u64) -> Series {
    let mark = Mark { x: x_of(len), y: stated.value / unit, spread: None, is_doubtful: false };
    let label = format!("published: {}", stated.what);
    Series { label, origin: Origin::Published, points: vec![mark] }
}

/// Figures 5 to 8.
fn throughput(setting: &Setting, results: &Results, style: Style) -> Exhibit {
    let mut series = both(MB_S, results, |pattern| style.sweep(setting, pattern));
    let ways = style.ways(setting);
    let findings =
        [small_blocks(&series), large_blocks(&series, &ways), write_loss(&series, &ways)];
    let mut source = "solid-state study, figures 6 and 8";
    if style == Style::Fio {
        source = "solid-state study, figures 5 and 7";
        let [peak, reads, writes] = &paper::THROUGHPUT;
        let ends = [x_of(4 * KIB), x_of(1024 * KIB)];
        series.push(level(format!("published: {}", peak.what), peak.value, ends));
        series.push(published(reads, 1.0, 64 * KIB));
        series.push(published(writes, 1.0, 1024 * KIB));
    }
    let title = format!("Throughput by block size, random order ({})", style.text());
    let mut exhibit = shown(style, "throughput", title, source, (MB_S, series));
    exhibit.notes.extend(notes(setting, style));
    exhibit.found(findings)
}

/// Figures 9 to 12.
fn rates(setting: &Setting, results: &Results, style: Style) -> Exhibit {
    let mut series = both(KIOPS, results, |pattern| style.sweep(setting, pattern));
    let (stated, source) = match style {
        Style::Fio => (&paper::IOPS[..2], "solid-state study, figures 9 and 11"),
        Style::Ior => (&paper::IOPS[2..], "solid-state study, figures 10 and 12"),
    };
    let ways = style.ways(setting);
    let findings = DIRECTIONS.map(|(direction, _)| small_rates(&series, &ways, direction, stated));
    series.extend(stated.iter().map(|stated| published(stated, 1e3, 4 * KIB)));
    let title = format!("IOPS by block size, random order ({})", style.text());
    let mut exhibit = shown(style, "iops", title, source, (KIOPS, series));
    exhibit.notes.extend(notes(setting, style));
    exhibit.notes.push(
        "The paper contradicts itself about large blocks. It says that both cards reach about 1 \
         GB/s, which is a thousand blocks of 1 MiB a second. It also says that the rate falls to a \
         few hundred at 1 MiB."
            .into(),
    );
    exhibit.found(findings)
}

fn shown(
    style: Style,
    slug: &str,
    title: String,
    source: &str,
    (measure, series): (Measure, Vec<Series>),
) -> Exhibit {
    let x = axis("block size", "B", Scale::Log2);
    let scale = if measure.unit == KIOPS.unit { Scale::Log10 } else { Scale::Linear };
    let figure = lines(x, measure_axis(measure, scale), series);
    exhibit(format!("{NAME}-{}-{slug}", style.name()), title, source, figure)
}

fn find<'a>(series: &'a [Series], way: &str, direction: &str) -> Option<&'a Series> {
    labelled(series, &label_of(way, direction))
}

/// The series of the node's protocols in one direction, and that of the device alone.
fn of_direction<'a>(
    series: &'a [Series],
    ways: &[Way],
    direction: &str,
) -> Option<(Vec<&'a Series>, &'a Series)> {
    let doors = ways.iter().filter(|way| way.is_node());
    let doors = doors.filter_map(|way| find(series, &way.label, direction)).collect();
    Some((doors, find(series, &local(FILE).label, direction)?))
}

/// A series' label without its direction.
fn way_name(label: &str) -> &str {
    label.rsplit_once(", ").map_or(label, |(way, _)| way)
}

/// Whether the largest blocks move as much through the protocols as on the device alone.
fn large_blocks(series: &[Series], ways: &[Way]) -> Finding {
    let [reads, _] = DIRECTIONS.map(|(direction, _)| direction);
    let both = of_direction(series, ways, reads);
    let lineup = both.and_then(|(doors, alone)| Lineup::last(&doors, alone));
    let claim = "With large blocks, the throughput of reads is at least 90 % of the device's";
    Claim::rates_alike(claim, lineup.as_ref()).at(lineup.map(|lineup| len_at(lineup.x)))
}

/// The loss at 4 KiB compared with the peak, over all series.
fn small_blocks(series: &[Series]) -> Finding {
    let of = |one: &Series| {
        let peak = peak(one).filter(|peak| one.points.len() > 1 && peak.y > 0.0)?;
        let small = at(one, x_of(4 * KIB))?;
        Some(case(one.label.as_str(), -difference(small.y, peak.y), [small, peak]))
    };
    let stated = &paper::SMALL_BLOCK_LOSS;
    let claim = "Blocks of 4 KiB lose no larger share of the peak throughput than in the paper";
    Claim::at_most(&paper::PAPER, stated, claim, Show::Percent)
        .judge(|it| it <= stated.value, series.iter().filter_map(of).collect())
}

fn len_at(x: f64) -> String {
    let found = LENS.into_iter().map(|kib| kib * KIB).find(|&len| x_of(len) == x);
    found.map_or_else(|| format!("{x} B"), len_text)
}

/// Writes compared with reads at the largest common block size.
fn write_loss(series: &[Series], ways: &[Way]) -> Finding {
    let both = |way: &Way| {
        let [reads, writes] = DIRECTIONS.map(|(direction, _)| find(series, &way.label, direction));
        let (reads, writes) = (reads?, writes?);
        let pair = |read: &Mark| Some((*read, *at(writes, read.x)?));
        reads.points.iter().rev().find_map(pair)
    };
    let pairs: Vec<_> = ways.iter().filter_map(|way| Some((way, both(way)?))).collect();
    let x = pairs.iter().map(|(_, (read, _))| read.x).reduce(f64::max);
    let x = x.filter(|x| *x > x_of(paper::LARGE_BLOCK_LEN));
    let of = |(way, (read, write)): &(&Way, (Mark, Mark))| {
        let is_of = Some(read.x) == x && read.y > 0.0;
        is_of.then(|| case(way.label.as_str(), difference(write.y, read.y), [read, write]))
    };
    let stated = &paper::WRITE_LOSS;
    let claim =
        "With large blocks, writes fall no further behind reads than on the paper's FusionIO card";
    Claim::of(&paper::PAPER, stated.place, claim, Show::Change, Show::Change.text(-stated.value))
        .limited(-stated.value)
        .judge(|it| it >= -stated.value, pairs.iter().filter_map(of).collect())
        .at(x.map(len_at))
        .because("no block larger than 16 KiB was measured")
}

/// The rates at 4 KiB through the protocols, compared with the paper's card.
fn small_rates(series: &[Series], ways: &[Way], direction: &str, stated: &[Stated]) -> Finding {
    let both = of_direction(series, ways, direction);
    let lineup = both.and_then(|(doors, alone)| Lineup::first(&doors, alone));
    let lineup = lineup.filter(|lineup| lineup.x == x_of(4 * KIB));
    let theirs = stated.iter().find(|stated| stated.what.ends_with(&format!("{direction}s")));
    let theirs = theirs.expect("the paper states both directions");
    let level = theirs.value / 1e3;
    let show = Show::Unit(KIOPS.unit);
    let cases = lineup.iter().flat_map(|lineup| &lineup.ways);
    let cases = cases.map(|(label, mark)| case(way_name(label), mark.y, [*mark])).collect();
    let claim = match direction {
        "read" => "Reads of 4 KiB through the node reach the rate of the paper's local card",
        _ => "Writes of 4 KiB through the node reach the rate of the paper's local card",
    };
    let numbers = format!("{} ({})", show.text(level), theirs.what);
    Claim::of(&paper::PAPER, theirs.place, claim, show, numbers)
        .limited(level)
        .judge(|it| it >= level, cases)
}

/// The exhibit of IOR's tasks.
fn by_tasks(setting: &Setting, results: &Results) -> Exhibit {
    let series = both(KIOPS, results, |pattern| tasks_sweep(setting, pattern));
    let finding = best_tasks(&series);
    let x = axis("tasks", "", Scale::Log2);
    let figure = lines(x, measure_axis(KIOPS, Scale::Linear), series);
    let title = "IOPS by tasks, 4 KiB, random order, each task with its own range".to_owned();
    let mut exhibit =
        exhibit(format!("{NAME}-tasks"), title, "solid-state study, section 2b", figure);
    exhibit.notes.push(cores_note(setting, 1));
    exhibit.found([finding])
}

/// Whether the paper's number of tasks is the best.
fn best_tasks(series: &[Series]) -> Finding {
    let best = f64::from(paper::IOR_TASKS_BEST);
    let of = |one: &Series| {
        let peak = peak(one).filter(|_| one.points.len() > 1)?;
        let at_best = at(one, best)?;
        Some(case(one.label.as_str(), -difference(at_best.y, peak.y), [at_best, peak]))
    };
    let claim = "The paper's best number of tasks comes within 5 % of the best rate here";
    let numbers = count(best, "task");
    Claim::of(&paper::PAPER, "section 2b", claim, Show::Percent, numbers)
        .limited(5.0)
        .judge(|it| it <= 5.0, series.iter().filter_map(of).collect())
}

fn notes(setting: &Setting, style: Style) -> Vec<String> {
    let mut notes = vec![cores_note(setting, 1)];
    if style == Style::Fio {
        notes.push(format!(
            "The depth is {} for blocks up to {}. With larger blocks, each job has {} in flight.",
            paper::FIO_DEPTH,
            len_text(JOB_BYTES_MAX / u64::from(paper::FIO_DEPTH)),
            len_text(JOB_BYTES_MAX),
        ));
        notes.push(format!(
            "The paper contradicts itself about reads and writes of the FusionIO card: its \
             conclusion finds no large difference, and its section on bandwidth finds {}.",
            percent(paper::WRITE_LOSS.value)
        ));
        notes.extend(nbdkit_note(setting));
    } else {
        notes.push(
            "The paper attributes the Virident card's slow IOR reads (IOPS) and writes \
             (throughput) to the card's driver for AMD machines."
                .into(),
        );
    }
    notes.push(format!(
        "The paper prints few numbers for its figures. Its hardware: {}.",
        paper::PAPER.hardware
    ));
    notes
}
