//! `flash-lifetime`: how much longer does flash live if its writes are kept apart by temperature?

use nearflash_flash::ftl::{Collector, Config, Geometry, Moves};
use nearflash_flash::steady_state::{Load, uniform_write_amplification};
use nearflash_flash::workload::Skew;

use super::chart::{axis, bars, exhibit, level, lines, plain};
use super::claims::{Case, Claim, Show, difference, plain_case};
use super::{Setting, Study};
use crate::exhibit::{Axis, Exhibit, Mark, Origin, Scale, Series};
use crate::finding::Finding;
use crate::plan::{Plan, Point, PointId, Subject};
use crate::published::flashnet as paper;
use crate::result::Results;
use crate::simulation::{Model, Simulation};

/// See the module.
pub(super) struct FlashLifetime;

const NAME: &str = "flash-lifetime";
const SOURCE: &str = "FlashNet, abstract";

/// The size of the model: enough blocks that the few open ones hardly count.
const BLOCKS: u32 = 1_024;
const PAGES_PER_BLOCK: u32 = 64;
/// Writes that count, as a multiple of the logical pages.
const COUNTED: u32 = 4;
/// Erases that a block endures, as TLC flash does.
const ENDURANCE: f64 = 3_000.0;

/// A flash translation layer.
#[derive(Clone, Copy)]
struct Layer {
    key: &'static str,
    label: &'static str,
    collector: Collector,
    streams: u8,
    moves: Moves,
}

/// The usual layer, with which the others are compared.
const PLAIN: Layer = Layer {
    key: "greedy-1",
    label: "greedy, one stream",
    collector: Collector::Greedy,
    streams: 1,
    moves: Moves::Mixed,
};
/// The layer that knows both the temperature of writes and the age of blocks.
const BOTH: Layer = Layer {
    key: "cost-benefit-2",
    label: "cost-benefit, two streams",
    collector: Collector::CostBenefit,
    streams: 2,
    moves: Moves::Apart,
};
const LAYERS: [Layer; 4] = [
    PLAIN,
    Layer {
        key: "greedy-2",
        label: "greedy, two streams",
        streams: 2,
        moves: Moves::Apart,
        ..PLAIN
    },
    Layer { key: "cost-benefit-1", label: "cost-benefit, one stream", streams: 1, ..BOTH },
    BOTH,
];
/// The layers under uniform writes, where streams and age mean nothing.
const UNIFORM_LAYERS: [Layer; 2] = [
    PLAIN,
    Layer { key: "fifo-1", label: "FIFO, one stream", collector: Collector::Fifo, ..PLAIN },
];

/// A distribution of writes.
#[derive(Clone, Copy)]
struct Skewed {
    name: &'static str,
    key: &'static str,
    skew: Skew,
    /// Writes before the count, as a multiple of the logical pages: the cold pages must have been
    /// written twice, since only then the state is steady.
    warm_up: u32,
}

const fn hot_cold(space_percent: u8, writes_percent: u8) -> Skew {
    Skew::HotCold { space_percent, writes_percent }
}

const SKEWS: [Skewed; 5] = [
    Skewed { name: "20/80", key: "hot=20-80", skew: hot_cold(20, 80), warm_up: 10 },
    TYPICAL,
    Skewed { name: "5/95", key: "hot=5-95", skew: hot_cold(5, 95), warm_up: 40 },
    Skewed { name: "2/98", key: "hot=2-98", skew: hot_cold(2, 98), warm_up: 100 },
    Skewed {
        name: "Zipf 0.99",
        key: "zipf=0.99",
        skew: Skew::Zipf { exponent_hundredths: 99 },
        warm_up: 20,
    },
];
/// The distribution of the figure over the spare space.
const TYPICAL: Skewed =
    Skewed { name: "10/90", key: "hot=10-90", skew: hot_cold(10, 90), warm_up: 20 };
const UNIFORM: Skewed = Skewed { name: "uniform", key: "uniform", skew: Skew::Uniform, warm_up: 4 };

/// The least gain at 7 % spare under the typical distribution.
const GAIN_MIN: f64 = 2.2;
const SPARE_TIGHT: u32 = 7;

/// Spare space in per cent of the logical space.
fn spares(setting: &Setting) -> &'static [u32] {
    if setting.is_quick { &[SPARE_TIGHT, 28] } else { &[SPARE_TIGHT, 12, 20, 28] }
}

impl Study for FlashLifetime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        "How much longer does flash live with write streams and an age-aware collector?"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let skewed = LAYERS.iter().flat_map(|layer| SKEWS.iter().map(move |skew| (layer, skew)));
        let uniform = UNIFORM_LAYERS.iter().map(|layer| (layer, &UNIFORM));
        let all: Vec<_> = skewed.chain(uniform).collect();
        let point = |spare: u32| all.iter().map(move |(layer, skew)| point(spare, layer, skew));
        let points = spares(setting).iter().flat_map(|&spare| point(spare)).collect();
        Plan { points, unable: Vec::new() }
    }

    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit> {
        let view = View { spares: spares(setting), results };
        let mut exhibits: Vec<_> =
            view.spares.iter().map(|&spare| view.amplification(spare)).collect();
        exhibits.extend([view.gain(), view.life(), view.uniform()]);
        exhibits
    }
}

fn geometry(spare: u32) -> Geometry {
    Geometry::with_spare(BLOCKS, PAGES_PER_BLOCK, spare)
}

fn point_id(spare: u32, layer: &Layer, skew: &Skewed) -> PointId {
    PointId(format!("{NAME}/{}/spare={spare}/{}", layer.key, skew.key))
}

fn point(spare: u32, layer: &Layer, skew: &Skewed) -> Point {
    let config = Config {
        geometry: geometry(spare),
        collector: layer.collector,
        streams: layer.streams,
        moves: layer.moves,
        erase_spread_max: None,
    };
    let load = Load { skew: skew.skew, seed: 1, warm_up: skew.warm_up, counted: COUNTED };
    let subject = Subject::Model(Model::Translation { config, load });
    Point { id: point_id(spare, layer, skew), subject, loads: Vec::new() }
}

fn spare_text(spare: u32) -> String {
    format!("{spare} % spare")
}

struct View<'a> {
    spares: &'static [u32],
    results: &'a Results,
}

impl View<'_> {
    fn simulation(&self, spare: u32, layer: &Layer, skew: &Skewed) -> Option<&Simulation> {
        self.results.simulation(&point_id(spare, layer, skew))
    }

    fn amplification_of(&self, spare: u32, layer: &Layer, skew: &Skewed) -> Option<f64> {
        self.simulation(spare, layer, skew)?.write_amplification()
    }

    /// The factor by which streams and age lengthen life.
    fn gain_of(&self, spare: u32, skew: &Skewed) -> Option<f64> {
        let of = |layer| self.amplification_of(spare, layer, skew);
        Some(of(&PLAIN)? / of(&BOTH)?)
    }

    /// Times that the host can write the whole logical space until the blocks are worn out.
    fn life_of(&self, spare: u32, layer: &Layer) -> Option<f64> {
        let Simulation::Translation { host_pages, erases, .. } =
            self.simulation(spare, layer, &TYPICAL)?
        else {
            return None;
        };
        let erases_of_one_write = real(*erases) * f64::from(geometry(spare).logical_pages);
        let blocks = ENDURANCE * f64::from(BLOCKS);
        Some(blocks * real(*host_pages) / erases_of_one_write).filter(|life| life.is_finite())
    }

    /// Write amplification with one share of spare space.
    fn amplification(&self, spare: u32) -> Exhibit {
        let of = |layer: &Layer| {
            let values = SKEWS.map(|skew| self.amplification_of(spare, layer, &skew));
            plain(layer.label, Origin::Model, values)
        };
        let figure = bars(
            "hot pages/their writes, in per cent",
            skew_names(),
            amplification_axis(),
            LAYERS.map(|it| of(&it)).into(),
        );
        let slug = format!("{NAME}-amplification-{spare}");
        let title = format!("Write amplification with {}", spare_text(spare));
        let mut exhibit = exhibit(slug, title, SOURCE, figure).found([self.ages(spare)]);
        exhibit.notes = vec![model_note()];
        exhibit
    }

    fn ages(&self, spare: u32) -> Finding {
        let case = |skew: Skewed| {
            let of = |layer| self.amplification_of(spare, layer, &skew);
            let [greedy, both] = [of(&LAYERS[1])?, of(&BOTH)?];
            Some(plain_case(skew.name, difference(both, greedy), false))
        };
        let claim = "With two streams, a cost-benefit collector writes less than a greedy one";
        Claim::own(claim, Show::Change)
            .limited(0.0)
            .judge(|it| it < 0.0, SKEWS.iter().filter_map(|skew| case(*skew)).collect())
    }

    /// The gain in life, compared with the paper's.
    fn gain(&self) -> Exhibit {
        let of = |skew: Skewed| {
            let gain = |spare| self.gain_of(spare, &skew);
            self.over_spare(skew.name, gain)
        };
        let mut series: Vec<_> = SKEWS.map(of).into();
        let [first, last] = [self.spares.first(), self.spares.last()];
        let ends = [first, last].map(|spare| spare.copied().map_or(0.0, f64::from));
        let [low, high] = paper::LIFETIME_GAIN;
        series.push(level("published: lowest gain".into(), low, ends));
        series.push(level("published: highest gain".into(), high, ends));
        let y = axis("life, compared with greedy and one stream", "times", Scale::Linear);
        let figure = lines(spare_axis(), y, series);
        let title = "Life with two streams and a cost-benefit collector".to_owned();
        let findings = [self.as_in_the_paper(), self.doubles()];
        let mut exhibit = exhibit(format!("{NAME}-gain"), title, SOURCE, figure).found(findings);
        exhibit.notes = vec![
            model_note(),
            "A curve is named by the share of hot pages and the share of writes to them, in per \
             cent. The abstract of the paper does not name its workloads, so only the range is \
             compared. A drive chooses the blocks to collect by itself. A host that only marks its \
             writes with streams gets the gain of “greedy, two streams”, if the drive is greedy."
                .into(),
        ];
        exhibit
    }

    fn as_in_the_paper(&self) -> Finding {
        let [low, high] = paper::LIFETIME_GAIN;
        let of_spare = |&spare: &u32| {
            let case = move |skew: &Skewed| {
                let name = format!("{}, {}", skew.name, spare_text(spare));
                Some(plain_case(name, self.gain_of(spare, skew)?, false))
            };
            SKEWS.iter().filter_map(case).collect::<Vec<Case>>()
        };
        let claim =
            "Streams and age lengthen the life of flash by a factor within the paper's range";
        let numbers = format!("{low} to {high} times");
        Claim::of(&paper::PAPER, "abstract", claim, Show::Times, numbers)
            .judge(|it| (low..=high).contains(&it), self.spares.iter().flat_map(of_spare).collect())
    }

    fn doubles(&self) -> Finding {
        let gain = self.gain_of(SPARE_TIGHT, &TYPICAL);
        let name = format!("{}, {}", TYPICAL.name, spare_text(SPARE_TIGHT));
        let claim = "With little spare space, life more than doubles";
        Claim::own(claim, Show::Times).limited(GAIN_MIN).judge(
            |it| it >= GAIN_MIN,
            gain.map(|it| plain_case(name, it, false)).into_iter().collect(),
        )
    }

    /// Life in writes of the whole device.
    fn life(&self) -> Exhibit {
        let of = |layer: Layer| self.over_spare(layer.label, |spare| self.life_of(spare, &layer));
        let y = axis("life, in writes of the whole device", "", Scale::Linear);
        let figure = lines(spare_axis(), y, LAYERS.map(of).into());
        let title = format!("Life over spare space, hot pages/their writes {} %", TYPICAL.name);
        let mut exhibit =
            exhibit(format!("{NAME}-writes"), title, SOURCE, figure).found([self.always()]);
        exhibit.notes = vec![
            model_note(),
            format!(
                "A block endures {ENDURANCE} erases. The device ends when the blocks have been \
                 erased so often on average: wear is taken as level, and moves for that purpose \
                 are not counted."
            ),
        ];
        exhibit
    }

    fn always(&self) -> Finding {
        let case = |&spare: &u32| {
            let lives = self.life_of(spare, &BOTH).zip(self.life_of(spare, &PLAIN));
            lives.map(|(both, greedy)| plain_case(spare_text(spare), both / greedy, false))
        };
        let claim = "Streams and age lengthen life with little and with much spare space";
        Claim::own(claim, Show::Times)
            .limited(1.0)
            .judge(|it| it > 1.0, self.spares.iter().filter_map(case).collect())
    }

    /// A number for each share of spare space.
    fn over_spare(&self, label: &str, of: impl Fn(u32) -> Option<f64>) -> Series {
        let mark = |&spare: &u32| {
            let y = of(spare)?;
            Some(Mark { x: f64::from(spare), y, spread: None, is_doubtful: false })
        };
        let points = self.spares.iter().filter_map(mark).collect();
        Series { label: label.to_owned(), origin: Origin::Model, points }
    }

    /// Uniform writes, next to the closed form.
    fn uniform(&self) -> Exhibit {
        let of = |layer: Layer| {
            self.over_spare(layer.label, |spare| self.amplification_of(spare, &layer, &UNIFORM))
        };
        let mut series: Vec<_> = UNIFORM_LAYERS.map(of).into();
        let closed = self.over_spare("closed form", |spare| Some(expected(spare)));
        series.push(Series { origin: Origin::Limit, ..closed });
        let figure = lines(spare_axis(), amplification_axis(), series);
        let title = "Write amplification under uniform writes".to_owned();
        let mut exhibit =
            exhibit(format!("{NAME}-uniform"), title, SOURCE, figure).found([self.agrees()]);
        exhibit.notes = vec![
            model_note(),
            "The closed form is α / (α + W(−α e^−α)), with Lambert's W and the ratio α of the \
             physical pages in use to the logical ones. It holds for blocks that are collected in \
             the order of writing."
                .into(),
        ];
        exhibit
    }

    /// The model agrees with the closed form.
    fn agrees(&self) -> Finding {
        const WITHIN: f64 = 3.0;
        let case = |&spare: &u32| {
            let found = self.amplification_of(spare, &UNIFORM_LAYERS[1], &UNIFORM)?;
            Some(plain_case(spare_text(spare), difference(found, expected(spare)), false))
        };
        let claim = "The model agrees with the closed form under uniform writes within 3 %";
        Claim::own(claim, Show::Change)
            .judge(|it| it.abs() <= WITHIN, self.spares.iter().filter_map(case).collect())
    }
}

/// The closed form, without the block that is free and the one that is being filled.
fn expected(spare: u32) -> f64 {
    const IDLE_BLOCKS: u32 = 2;
    let pages = u64::from(BLOCKS - IDLE_BLOCKS) * u64::from(PAGES_PER_BLOCK);
    uniform_write_amplification(pages, u64::from(geometry(spare).logical_pages))
}

fn skew_names() -> Vec<String> {
    SKEWS.map(|skew| skew.name.to_owned()).into()
}

fn spare_axis() -> Axis {
    axis("spare space", "%", Scale::Linear)
}

fn amplification_axis() -> Axis {
    axis("write amplification", "", Scale::Linear)
}

fn model_note() -> String {
    format!(
        "This is a model: a page-mapped translation layer with {BLOCKS} blocks of \
         {PAGES_PER_BLOCK} pages, in steady state. The host knows which pages are hot; under Zipf's \
         law, these are the first tenth. Collected pages are written apart from those of the host, \
         except with one stream and a greedy collector."
    )
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}
