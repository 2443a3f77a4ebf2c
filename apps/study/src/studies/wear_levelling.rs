//! `wear-levelling`: which share of its ideal life does a memory reach that is written in place?

use nearflash_flash::start_gap::StartGapConfig;
use nearflash_flash::workload::Skew;

use super::chart::{axis, bars, exhibit, index_x, lines, plain};
use super::claims::{Case, Claim, Show, plain_case};
use super::{Setting, Study};
use crate::exhibit::{Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::number::percent;
use crate::plan::{Plan, Point, PointId, Subject};
use crate::published::start_gap as paper;
use crate::result::Results;
use crate::simulation::{LineWrites, Model, Simulation, WearModel};

/// See the module.
pub(super) struct WearLevelling;

const NAME: &str = "wear-levelling";
const SOURCE: &str = "start-gap, abstract; QuickSAN, section 3.2";

const LINES: u32 = 128;
const WRITES_PER_MOVE: u32 = StartGapConfig::WRITES_PER_MOVE;
/// A tour: a place endures so many writes more for each time that every line passes over all places
/// in an ideal life.
const TOUR: u32 = (LINES + 1) * WRITES_PER_MOVE;
/// The key of the permutation, and the seed of the writes.
const SEED: u64 = 1;

/// Levellings, each with its name in points and in figures, and whether it has start-gap and
/// randomised addresses.
const LEVELLINGS: [(&str, &str, bool, bool); 3] = [
    ("none", "no levelling", false, false),
    ("start-gap", "start-gap", true, false),
    ("randomised", "start-gap, randomised", true, true),
];

/// Writes, each with its name in points and in figures.
const WRITES: [(&str, &str, LineWrites); 3] = [
    ("one-line", "one line", LineWrites::OneLine),
    (
        "region",
        "a hot region",
        LineWrites::Skewed(Skew::HotCold { space_percent: 5, writes_percent: 95 }),
    ),
    ("uniform", "all lines evenly", LineWrites::Skewed(Skew::Uniform)),
];

/// The endurance of a place in whole tours.
fn tours(setting: &Setting) -> &'static [u32] {
    if setting.is_quick {
        &[TOURS_MIN, 2, 4, TOURS_MAX]
    } else {
        &[TOURS_MIN, 2, 3, 4, 6, 8, 12, TOURS_MAX]
    }
}

/// The endurance of the findings.
const TOURS_MAX: u32 = 16;
/// The endurance of the figures of wear: the least, under which the levellings differ most.
const TOURS_MIN: u32 = 1;

/// The endurance of a place: half a tour more, since whole tours would level wear exactly.
fn endurance(tours: u32) -> u32 {
    tours * TOUR + TOUR / 2
}

/// The endurance in tours.
fn in_tours(tours: u32) -> f64 {
    f64::from(endurance(tours)) / f64::from(TOUR)
}

impl Study for WearLevelling {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "Which share of its ideal life does a memory reach with start-gap, also under an attack?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let all = (0..WRITES.len()).flat_map(|it| (0..LEVELLINGS.len()).map(move |by| (it, by)));
        let of = |(writes, levelling)| {
            tours(setting).iter().map(move |&tours| point(writes, levelling, tours))
        };
        Plan { points: all.flat_map(of).collect(), unable: Vec::new() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let view = View { tours: tours(setting), results };
        let lives = (0..WRITES.len()).map(|writes| view.life(writes));
        lives.chain([view.wear(0), view.wear(1)]).collect()
    }
}

fn point_id(writes: usize, levelling: usize, tours: u32) -> PointId {
    let (writes, levelling) = (WRITES[writes].0, LEVELLINGS[levelling].0);
    PointId(format!("{NAME}/{levelling}/{writes}/tours={}", in_tours(tours)))
}

fn point(writes: usize, levelling: usize, tours: u32) -> Point {
    let (_, _, has_start_gap, is_randomised) = LEVELLINGS[levelling];
    let model = WearModel {
        lines: LINES,
        endurance: endurance(tours),
        start_gap: has_start_gap.then_some(StartGapConfig {
            lines: LINES,
            writes_per_move: WRITES_PER_MOVE,
            randomise: is_randomised.then_some(SEED),
        }),
        writes: WRITES[writes].2,
        seed: SEED,
    };
    let subject = Subject::Model(Model::Wear(model));
    Point { id: point_id(writes, levelling, tours), subject, loads: Vec::new() }
}

struct View<'a> {
    tours: &'static [u32],
    results: &'a Results,
}

impl View<'_> {
    fn simulation(&self, writes: usize, levelling: usize, tours: u32) -> Option<(f64, [u32; 10])> {
        match self.results.simulation(&point_id(writes, levelling, tours))? {
            Simulation::Wear { share_of_ideal, places_by_wear } => {
                Some((share_of_ideal * 100.0, *places_by_wear))
            }
            Simulation::Translation { .. } => None,
        }
    }

    /// The life that a memory reaches, over its endurance.
    fn life(&self, writes: usize) -> Exhibit {
        let (key, name, _) = WRITES[writes];
        let of = |levelling: usize| {
            let mark = |&tours: &u32| {
                let (y, _) = self.simulation(writes, levelling, tours)?;
                Some(Mark { x: in_tours(tours), y, spread: None, is_doubtful: false })
            };
            let points = self.tours.iter().filter_map(mark).collect();
            Series { label: LEVELLINGS[levelling].1.into(), origin: Origin::Model, points }
        };
        let x = axis("endurance, in tours of every line over all places", "", Scale::Log2);
        let y = axis("share of the ideal life", "%", Scale::Linear);
        let figure = lines(x, y, (0..LEVELLINGS.len()).map(of).collect());
        let title = format!("Life under writes of {name}");
        let findings = match writes {
            1 => vec![self.without(writes), self.randomised(writes)],
            _ => vec![self.randomised(writes)],
        };
        let mut exhibit =
            exhibit(format!("{NAME}-life-{key}"), title, SOURCE, figure).found(findings);
        exhibit.notes = vec![model_note()];
        if writes == 0 {
            exhibit.notes.push(
                "Under writes of one line, randomised addresses change nothing: one line is one \
                 line at any address. Start-gap helps as soon as a place endures more writes than \
                 pass between two visits of the gap."
                    .into(),
            );
        }
        exhibit
    }

    fn case(&self, writes: usize, levelling: usize) -> Option<Case> {
        let (share, _) = self.simulation(writes, levelling, TOURS_MAX)?;
        Some(plain_case(WRITES[writes].1, share, false))
    }

    fn without(&self, writes: usize) -> Finding {
        let [low, _] = paper::LIFE_PERCENT;
        let claim = "Without levelling, skewed writes reach hardly more of the ideal life than in \
                     the paper";
        let most = 2.0 * low;
        Claim::of(&paper::PAPER, "abstract", claim, Show::Percent, percent(low))
            .limited(most)
            .judge(|it| it <= most, self.case(writes, 0).into_iter().collect())
    }

    fn randomised(&self, writes: usize) -> Finding {
        const SHARE_MIN: f64 = 90.0;
        let [_, high] = paper::LIFE_PERCENT;
        let claim = "With randomised start-gap, a memory reaches at least nine tenths of its ideal \
                     life";
        Claim::of(&paper::PAPER, "abstract", claim, Show::Percent, percent(high))
            .limited(SHARE_MIN)
            .judge(|it| it >= SHARE_MIN, self.case(writes, 2).into_iter().collect())
    }

    /// The wear of all places when the first one is worn out.
    fn wear(&self, writes: usize) -> Exhibit {
        let (key, name, _) = WRITES[writes];
        let of = |levelling: usize| {
            let found = self.simulation(writes, levelling, TOURS_MIN);
            let share = |tenth: usize| {
                let (_, places) = found?;
                let all: u32 = places.iter().sum();
                (all > 0).then(|| f64::from(places[tenth]) / f64::from(all) * 100.0)
            };
            plain(LEVELLINGS[levelling].1, Origin::Model, (0..10).map(share))
        };
        let names = (0..10).map(|tenth| {
            let low = index_x(tenth) * 10.0;
            format!("{low}–{}", low + 10.0)
        });
        let y = axis("share of the places", "%", Scale::Linear);
        let series = (0..LEVELLINGS.len()).map(of).collect();
        let figure = bars("wear, in per cent of the endurance", names.collect(), y, series);
        let title = format!(
            "Wear at the end of life, {} tours, under writes of {name}",
            in_tours(TOURS_MIN)
        );
        let mut exhibit = exhibit(format!("{NAME}-wear-{key}"), title, SOURCE, figure);
        exhibit.notes = vec![model_note()];
        exhibit
    }
}

fn model_note() -> String {
    format!(
        "This is a model of {LINES} lines. The gap moves every {WRITES_PER_MOVE} writes, and each \
         move wears a place, too. The memory's life ends when its first place is worn out. The \
         hot region has 5 % of the lines, next to each other, and 95 % of the writes."
    )
}
