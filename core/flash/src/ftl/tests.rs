use proptest::prelude::*;

use super::*;
use crate::random::Random;
use crate::workload::{Skew, Workload};

/// Flash with contents: a page can be programmed once after each erase.
struct Contents {
    pages: Vec<Option<u64>>,
    pages_per_block: u32,
    /// The content that the host is about to write.
    written: u64,
}

impl Contents {
    fn new(geometry: Geometry) -> Self {
        let pages = index(geometry.blocks * geometry.pages_per_block);
        let pages_per_block = geometry.pages_per_block;
        Self { pages: vec![None; pages], pages_per_block, written: 0 }
    }

    fn put(&mut self, page: PhysicalPage, content: u64) {
        let old = self.pages[index(page.0)].replace(content);
        assert_eq!(old, None, "{page:?} is programmed twice");
    }
}

impl Chips for Contents {
    fn program(&mut self, page: PhysicalPage) {
        self.put(page, self.written);
    }

    fn copy(&mut self, from: PhysicalPage, to: PhysicalPage) {
        let content = self.pages[index(from.0)].expect("an erased page is copied");
        self.put(to, content);
    }

    fn erase(&mut self, block: Block) {
        let first = index(block.0 * self.pages_per_block);
        self.pages[first..][..index(self.pages_per_block)].fill(None);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32, u8),
    Trim(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // Half of the writes go to few pages.
        4 => (0_u32..1 << 16, 0_u8..4).prop_map(|(page, stream)| Step::Write(page, stream)),
        4 => (0_u32..8, 0_u8..4).prop_map(|(page, stream)| Step::Write(page, stream)),
        1 => (0_u32..1 << 16).prop_map(Step::Trim),
    ];
    prop::collection::vec(step, 1..1_500)
}

fn collectors() -> impl Strategy<Value = Collector> {
    prop::sample::select(vec![Collector::Greedy, Collector::CostBenefit, Collector::Fifo])
}

prop_compose! {
    /// Small configurations, down to the fewest spare blocks.
    fn configs()(
        collector in collectors(),
        streams in 1_u8..4,
        moves in prop::sample::select(vec![Moves::Mixed, Moves::Apart]),
        erase_spread_max in prop::option::of(1_u32..5),
        (used, extra) in (1_u32..20, 0_u32..6),
        pages_per_block in 1_u32..9,
        missing in 0_u32..4,
    ) -> Config {
        let frontiers = u32::from(streams) * if moves == Moves::Apart { 2 } else { 1 };
        let geometry = Geometry {
            logical_pages: (used * pages_per_block).saturating_sub(missing).max(1),
            blocks: used + frontiers + 2 + extra,
            pages_per_block,
        };
        Config { geometry, collector, streams, moves, erase_spread_max }
    }
}

/// Every page has the content that was last written to it, and the invariants hold after each step.
fn check_nothing_is_lost(config: Config, steps: &[Step]) {
    let mut ftl = Ftl::new(config).unwrap();
    let mut contents = Contents::new(config.geometry);
    let logical_pages = config.geometry.logical_pages;
    let mut expected: Vec<Option<u64>> = vec![None; index(logical_pages)];
    for (step, number) in steps.iter().zip(1..) {
        match *step {
            Step::Write(page, stream) => {
                let page = page % logical_pages;
                contents.written = number;
                let place = ftl.write(LogicalPage(page), Stream(stream), &mut contents);
                assert_eq!(ftl.lookup(LogicalPage(page)), Some(place));
                expected[index(page)] = Some(number);
            }
            Step::Trim(page) => {
                let page = page % logical_pages;
                ftl.trim(LogicalPage(page));
                assert_eq!(ftl.lookup(LogicalPage(page)), None);
                expected[index(page)] = None;
            }
        }
        ftl.check();
    }
    let found = (0..logical_pages).map(|page| {
        let place = ftl.lookup(LogicalPage(page))?;
        contents.pages[index(place.0)]
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_page_holds_what_was_last_written_to_it(config in configs(), steps in steps()) {
        check_nothing_is_lost(config, &steps);
    }

    #[test]
    fn erases_and_programs_add_up(config in configs(), steps in steps()) {
        let mut ftl = Ftl::new(config).unwrap();
        let pages = config.geometry.logical_pages;
        for step in steps {
            if let Step::Write(page, stream) = step {
                ftl.write(LogicalPage(page % pages), Stream(stream), &mut Untimed);
            }
        }
        let counts = ftl.counts();
        prop_assert_eq!(ftl.erases().map(u64::from).sum::<u64>(), counts.erases);
        // A programmed page lies in a block, or was erased with it.
        let programmed = counts.host_pages + counts.moved_pages + counts.levelled_pages;
        let blocks = u64::from(config.geometry.blocks) + counts.erases;
        prop_assert!(programmed <= blocks * u64::from(config.geometry.pages_per_block));
    }
}

fn config(collector: Collector, erase_spread_max: Option<u32>) -> Config {
    let geometry = Geometry::with_spare(64, 16, 20);
    Config { geometry, collector, streams: 1, moves: Moves::Apart, erase_spread_max }
}

#[test]
fn the_fewest_spare_blocks_suffice_forever() {
    for collector in [Collector::Greedy, Collector::CostBenefit, Collector::Fifo] {
        for moves in [Moves::Mixed, Moves::Apart] {
            let frontiers = if moves == Moves::Mixed { 2 } else { 4 };
            let (blocks, pages_per_block) = (20, 8);
            let logical_pages = (blocks - frontiers - 2) * pages_per_block;
            let geometry = Geometry { logical_pages, blocks, pages_per_block };
            let spread = Some(Config::ERASE_SPREAD_MAX);
            let config =
                Config { geometry, collector, streams: 2, moves, erase_spread_max: spread };
            let mut ftl = Ftl::new(config).unwrap();
            let mut random = Random::new(3);
            for _ in 0..20_000 {
                let page = LogicalPage(random.below(logical_pages));
                ftl.write(page, Stream(u8::from(page.0 > 10)), &mut Untimed);
            }
            ftl.check();
            let full = Geometry { logical_pages: logical_pages + 1, ..geometry };
            let most = logical_pages;
            let error = ConfigError::TooLittleSpare { logical_pages: most + 1, most };
            assert_eq!(Ftl::new(Config { geometry: full, ..config }).unwrap_err(), error);
        }
    }
}

#[test]
fn an_empty_model_is_refused() {
    let valid = config(Collector::Greedy, None);
    let geometry = Geometry { logical_pages: 0, ..valid.geometry };
    let refused = |config| Ftl::new(config).unwrap_err();
    assert_eq!(refused(Config { geometry, ..valid }), ConfigError::NoPages);
    assert_eq!(refused(Config { streams: 0, ..valid }), ConfigError::NoStreams);
    let geometry = Geometry { blocks: 1 << 31, pages_per_block: 2, ..valid.geometry };
    assert_eq!(refused(Config { geometry, ..valid }), ConfigError::TooManyPages);
}

#[test]
fn trimmed_pages_are_not_moved() {
    let mut ftl = Ftl::new(config(Collector::Greedy, None)).unwrap();
    let pages = ftl.config().geometry.logical_pages;
    for _ in 0..10 {
        for page in (0..pages).map(LogicalPage) {
            ftl.write(page, Stream(0), &mut Untimed);
        }
        (0..pages).for_each(|page| ftl.trim(LogicalPage(page)));
        ftl.check();
    }
    assert_eq!(ftl.counts().moved_pages, 0);
    assert!(ftl.counts().erases > 100, "{:?}", ftl.counts());
}

/// The difference in erase counts after many writes to a tenth of the pages.
fn erase_spread(collector: Collector, erase_spread_max: Option<u32>) -> u32 {
    let mut ftl = Ftl::new(config(collector, erase_spread_max)).unwrap();
    let pages = ftl.config().geometry.logical_pages;
    for page in (0..pages).map(LogicalPage) {
        ftl.write(page, Stream(0), &mut Untimed);
    }
    let skew = Skew::HotCold { space_percent: 10, writes_percent: 99 };
    let mut workload = Workload::new(skew, pages / 2, 1);
    for _ in 0..400_000 {
        ftl.write(LogicalPage(workload.draw()), Stream(0), &mut Untimed);
    }
    ftl.check();
    ftl.erases().max().unwrap() - ftl.erases().min().unwrap()
}

#[test]
fn cold_blocks_take_part_in_wear() {
    let without = erase_spread(Collector::Greedy, None);
    let with = erase_spread(Collector::Greedy, Some(64));
    assert!(without > 500, "{without}");
    assert!(with <= 64 + 8, "{with}");
}

#[test]
fn uniform_writes_are_not_levelled() {
    for collector in [Collector::Greedy, Collector::CostBenefit] {
        let mut ftl = Ftl::new(config(collector, Some(4))).unwrap();
        let pages = ftl.config().geometry.logical_pages;
        let mut random = Random::new(11);
        for _ in 0..200_000 {
            ftl.write(LogicalPage(random.below(pages)), Stream(0), &mut Untimed);
        }
        let spread = ftl.erases().max().unwrap() - ftl.erases().min().unwrap();
        assert!(spread > 4, "{collector:?}: the counts drift apart");
        let Counts { levelled_pages, moved_pages, .. } = ftl.counts();
        assert!(levelled_pages * 100 < moved_pages, "{collector:?}: {:?}", ftl.counts());
    }
}
