//! Write amplification of an FTL in steady state: simulated, and in closed form.

use crate::ftl::{Config, ConfigError, Counts, Ftl, LogicalPage, Stream, Untimed};
use crate::number::real;
use crate::workload::{Skew, Workload};

/// The writes of a simulation, after each page was written once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Load {
    /// The distribution of writes over pages.
    pub skew: Skew,
    /// The seed of the writes.
    pub seed: u64,
    /// Writes before the count starts, as a multiple of the logical pages.
    pub warm_up: u32,
    /// Writes that count, as a multiple of the logical pages.
    pub counted: u32,
}

/// The work of an FTL under a load. If the FTL has several streams, hot pages have one and the
/// others another.
///
/// # Errors
/// When the configuration is not valid.
pub fn simulate(config: Config, load: Load) -> Result<Counts, ConfigError> {
    let pages = config.geometry.logical_pages;
    let mut ftl = Ftl::new(config)?;
    let mut workload = Workload::new(load.skew, pages, load.seed);
    for page in 0..pages {
        let stream = stream(workload.is_hot(page));
        ftl.write(LogicalPage(page), stream, &mut Untimed);
    }
    let mut write = |ftl: &mut Ftl, times: u32| {
        for _ in 0..u64::from(times) * u64::from(pages) {
            let page = workload.draw();
            let stream = stream(workload.is_hot(page));
            ftl.write(LogicalPage(page), stream, &mut Untimed);
        }
    };
    write(&mut ftl, load.warm_up);
    let before = ftl.counts();
    write(&mut ftl, load.counted);
    Ok(ftl.counts().since(before))
}

fn stream(is_hot: bool) -> Stream {
    Stream(u8::from(!is_hot))
}

/// Write amplification under uniform random writes, if blocks are collected in the order of
/// writing: α / (α + W(−α e^−α)), with Lambert's W and the ratio α of physical to logical pages.
/// Greedy collection approaches it from below as blocks grow.
///
/// It is computed from the valid share v of a block that is collected: v = e^−α(1−v).
///
/// # Panics
/// When there are not more physical than logical pages.
pub fn uniform_write_amplification(physical_pages: u64, logical_pages: u64) -> f64 {
    assert!(physical_pages > logical_pages, "without spare pages, nothing can be collected");
    let alpha = real(physical_pages) / real(logical_pages);
    // v - e^-α(1-v) is negative below the solution, and positive from there up to the trivial one,
    // v = 1. Its minimum is at 1 - ln(α) / α.
    let mut low = 0.0;
    let mut high = 1.0 - alpha.ln() / alpha;
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        match middle - (-alpha * (1.0 - middle)).exp() < 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    1.0 / (1.0 - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::{Collector, Geometry, Moves};

    fn config(collector: Collector, streams: u8, geometry: Geometry) -> Config {
        let moves = if streams > 1 { Moves::Apart } else { Moves::Mixed };
        Config { geometry, collector, streams, moves, erase_spread_max: None }
    }

    /// Physical pages that take part: one block is free, and one is being filled.
    fn in_use(geometry: Geometry) -> u64 {
        u64::from(geometry.blocks - 2) * u64::from(geometry.pages_per_block)
    }

    #[test]
    fn the_closed_form_has_its_known_values() {
        // Solved by hand: a valid share of 1/2 belongs to α = 2 ln 2.
        let alpha = 2.0 * std::f64::consts::LN_2;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1.39e9")]
        let physical = (alpha * 1e9) as u64;
        let found = uniform_write_amplification(physical, 1_000_000_000);
        assert!((found - 2.0).abs() < 1e-6, "{found}");
        assert!(uniform_write_amplification(100, 1) < 1.000_001);
    }

    #[test]
    fn uniform_writes_agree_with_the_closed_form_within_3_percent() {
        for (collector, spare_percent) in
            [(Collector::Fifo, 12), (Collector::Fifo, 28), (Collector::Greedy, 28)]
        {
            let geometry = Geometry::with_spare(512, 128, spare_percent);
            let load = Load { skew: Skew::Uniform, seed: 1, warm_up: 3, counted: 3 };
            let counts = simulate(config(collector, 1, geometry), load).unwrap();
            let found = counts.write_amplification();
            let logical = u64::from(geometry.logical_pages);
            let expected = uniform_write_amplification(in_use(geometry), logical);
            let difference = found / expected - 1.0;
            assert!(
                difference.abs() < 0.03,
                "{collector:?}, {spare_percent} % spare: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn streams_and_an_eye_for_age_more_than_double_the_life_under_skewed_writes() {
        let geometry = Geometry::with_spare(1_024, 32, 7);
        let skew = Skew::HotCold { space_percent: 10, writes_percent: 90 };
        let load = Load { skew, seed: 1, warm_up: 5, counted: 4 };
        let amplification = |collector, streams| {
            let counts = simulate(config(collector, streams, geometry), load).unwrap();
            counts.write_amplification()
        };
        let plain = amplification(Collector::Greedy, 1);
        let both = amplification(Collector::CostBenefit, 2);
        assert!(plain / both >= 2.2, "{plain} and {both}");
    }
}
