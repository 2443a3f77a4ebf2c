//! Writes with a skew: some pages are overwritten more often than others.

use crate::random::Random;

/// The distribution of writes over pages.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Skew {
    /// Every page is as likely as any other.
    Uniform,
    /// The first pages get most of the writes, evenly; the others get the rest.
    HotCold {
        /// The share of hot pages, in per cent.
        space_percent: u8,
        /// The share of writes to them, in per cent.
        writes_percent: u8,
    },
    /// The n-th page is written in proportion to 1 / n^s. A tenth of the pages count as hot.
    Zipf {
        /// The exponent s, in hundredths.
        exponent_hundredths: u8,
    },
}

/// The hot share under [`Skew::Zipf`].
const ZIPF_HOT_PERCENT: u8 = 10;

/// A sequence of writes.
#[derive(Clone, Debug)]
pub struct Workload {
    random: Random,
    pages: u32,
    /// The first page that is not hot.
    hot_end: u32,
    draw: Draw,
}

/// The way to draw a page.
#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    HotCold {
        hot_writes: f64,
    },
    /// The probability of each page and all before it.
    Table(Vec<f64>),
}

impl Workload {
    /// Writes over `pages` pages.
    ///
    /// # Panics
    /// When there are no pages, or no cold pages under [`Skew::HotCold`].
    pub fn new(skew: Skew, pages: u32, seed: u64) -> Self {
        assert!(pages > 0, "there is no page to write");
        let (hot_percent, draw) = match skew {
            Skew::Uniform => (0, Draw::Uniform),
            Skew::HotCold { space_percent, writes_percent } => {
                (space_percent, Draw::HotCold { hot_writes: f64::from(writes_percent) / 100.0 })
            }
            Skew::Zipf { exponent_hundredths } => {
                let exponent = f64::from(exponent_hundredths) / 100.0;
                (ZIPF_HOT_PERCENT, Draw::Table(cumulated(pages, exponent)))
            }
        };
        let hot_end = u64::from(pages) * u64::from(hot_percent) / 100;
        let hot_end = u32::try_from(hot_end).unwrap_or(pages).min(pages);
        let is_split = hot_end > 0 && hot_end < pages;
        assert!(is_split || !matches!(draw, Draw::HotCold { .. }), "hot or cold pages are missing");
        Self { random: Random::new(seed), pages, hot_end, draw }
    }

    /// Whether a page is one of the hot ones. The host is assumed to know.
    pub fn is_hot(&self, page: u32) -> bool {
        page < self.hot_end
    }

    /// The next page to write.
    pub fn draw(&mut self) -> u32 {
        match &self.draw {
            Draw::Uniform => self.random.below(self.pages),
            Draw::HotCold { hot_writes } => match self.random.fraction() < *hot_writes {
                true => self.random.below(self.hot_end),
                false => self.hot_end + self.random.below(self.pages - self.hot_end),
            },
            Draw::Table(table) => {
                let fraction = self.random.fraction();
                let page = table.partition_point(|&until| until <= fraction);
                u32::try_from(page).unwrap_or(u32::MAX).min(self.pages - 1)
            }
        }
    }
}

/// The probability under Zipf's law of each page and all before it.
fn cumulated(pages: u32, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut table: Vec<f64> = (1..=pages)
        .map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        })
        .collect();
    table.iter_mut().for_each(|until| *until /= sum);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 1_000;
    const DRAWS: u32 = 100_000;

    fn hot_share(skew: Skew) -> f64 {
        let mut workload = Workload::new(skew, PAGES, 1);
        let is_hot = |workload: &mut Workload| {
            let page = workload.draw();
            workload.is_hot(page)
        };
        let hot = (0..DRAWS).filter(|_| is_hot(&mut workload)).count();
        f64::from(u32::try_from(hot).unwrap()) / f64::from(DRAWS)
    }

    #[test]
    fn hot_pages_get_their_share_of_the_writes() {
        let share = hot_share(Skew::HotCold { space_percent: 10, writes_percent: 90 });
        assert!((share - 0.9).abs() < 0.01, "{share}");
        assert_eq!(hot_share(Skew::Uniform), 0.0);
    }

    #[test]
    fn the_first_tenth_under_zipfs_law_gets_what_the_harmonic_numbers_say() {
        let harmonic = |count: u32| (1..=count).map(|n| f64::from(n).powf(-0.99)).sum::<f64>();
        let share = hot_share(Skew::Zipf { exponent_hundredths: 99 });
        let expected = harmonic(PAGES / 10) / harmonic(PAGES);
        assert!((share - expected).abs() < 0.01, "{share} instead of {expected}");
    }

    #[test]
    fn every_page_is_written_under_every_skew() {
        let hot_cold = Skew::HotCold { space_percent: 20, writes_percent: 80 };
        for skew in [Skew::Uniform, hot_cold, Skew::Zipf { exponent_hundredths: 99 }] {
            let mut workload = Workload::new(skew, 50, 2);
            let mut seen = [false; 50];
            for _ in 0..10_000 {
                seen[nearflash_units::index(workload.draw())] = true;
            }
            assert!(seen.iter().all(|it| *it), "{skew:?}");
        }
    }
}
