//! The end of a memory that is written in place: it is worn out when one of its places is.

use nearflash_units::index;

use crate::number::real;
use crate::start_gap::{Line, Place, StartGap, StartGapConfig};

/// The mapping of lines to places.
#[derive(Clone, Debug)]
pub enum Levelling {
    /// Each line stays where it is.
    None,
    /// Start-gap.
    StartGap(Box<StartGap>),
}

impl Levelling {
    /// Start-gap with this configuration.
    pub fn start_gap(config: StartGapConfig) -> Self {
        Self::StartGap(Box::new(StartGap::new(config)))
    }
}

/// The wear of a memory at its end.
#[derive(Clone, Debug)]
pub struct Worn {
    /// Writes of the host until the first place was worn out.
    pub host_writes: u64,
    /// Writes of each place, with copies.
    pub wear: Vec<u32>,
}

impl Worn {
    /// The host's writes as a share of those that all places together endure.
    pub fn share_of_ideal(&self, endurance: u32) -> f64 {
        let places = u32::try_from(self.wear.len()).expect("places are numbered by 32 bits");
        let ideal = f64::from(endurance) * f64::from(places);
        real(self.host_writes) / ideal
    }
}

/// Writes the lines that `next` returns, until a place has been written `endurance` times.
///
/// # Panics
/// When `next` returns a line that does not exist.
pub fn wear_out(
    lines: u32,
    mut levelling: Levelling,
    endurance: u32,
    mut next: impl FnMut() -> Line,
) -> Worn {
    let places = match &levelling {
        Levelling::None => lines,
        Levelling::StartGap(start_gap) => start_gap.places(),
    };
    let mut worn = Worn { host_writes: 0, wear: vec![0; index(places)] };
    loop {
        let line = next();
        worn.host_writes += 1;
        let (place, moved) = match &mut levelling {
            Levelling::None => (Place(line.0), None),
            Levelling::StartGap(start_gap) => start_gap.write(line),
        };
        for written in [Some(place), moved.map(|it| it.to)].into_iter().flatten() {
            let wear = &mut worn.wear[index(written.0)];
            *wear += 1;
            if *wear >= endurance {
                return worn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::workload::{Skew, Workload};

    const LINES: u32 = 20;
    const ENDURANCE: u32 = 100_000;

    fn levelling(lines: u32, randomise: Option<u64>) -> Levelling {
        let writes_per_move = StartGapConfig::WRITES_PER_MOVE;
        Levelling::start_gap(StartGapConfig { lines, writes_per_move, randomise })
    }

    fn share(levelling: Levelling, next: impl FnMut() -> Line) -> f64 {
        wear_out(LINES, levelling, ENDURANCE, next).share_of_ideal(ENDURANCE)
    }

    #[test]
    fn an_adversary_with_one_address_reaches_a_twentieth_of_the_life_without_levelling() {
        let share = share(Levelling::None, || Line(3));
        assert!((share - 0.05).abs() < 1e-9, "{share}");
    }

    #[test]
    fn an_adversary_with_one_address_hardly_shortens_life_with_randomised_start_gap() {
        for key in 0..4 {
            let share = share(levelling(LINES, Some(key)), || Line(3));
            assert!((0.90..1.0).contains(&share), "key {key}: {share}");
        }
    }

    /// The share of the ideal life under writes to few neighbouring lines, if every line passes so
    /// often over all places.
    fn share_of_hot_region(lines: u32, levelling: Levelling, tours: u32) -> f64 {
        let tour = (lines + 1) * StartGapConfig::WRITES_PER_MOVE;
        // Not in step with the gap, which would level exactly.
        let endurance = tour * tours + tour / 2;
        let skew = Skew::HotCold { space_percent: 5, writes_percent: 95 };
        let mut workload = Workload::new(skew, lines, 1);
        let worn = wear_out(lines, levelling, endurance, || Line(workload.draw()));
        worn.share_of_ideal(endurance)
    }

    #[test]
    fn a_hot_region_takes_a_twentieth_of_the_life_without_and_nine_tenths_with_start_gap() {
        let share = share_of_hot_region(64, Levelling::None, 16);
        assert!((0.04..0.06).contains(&share), "{share}");
        let share = share_of_hot_region(64, levelling(64, Some(1)), 16);
        assert!((0.90..1.0).contains(&share), "{share}");
    }

    #[test]
    fn randomised_addresses_spread_a_hot_region_before_its_lines_have_passed_all_places() {
        let share = |randomise| share_of_hot_region(128, levelling(128, randomise), 1);
        let plain = share(None);
        let randomised = [1, 2, 3, 4].map(|key| share(Some(key)));
        let mean = randomised.iter().sum::<f64>() / 4.0;
        assert!(mean > plain + 0.05, "{plain} and {randomised:?}");
    }

    #[test]
    fn the_copies_of_start_gap_cost_one_write_in_a_hundred() {
        let mut random = Random::new(5);
        let share = share(levelling(LINES, None), || Line(random.below(LINES)));
        assert!((0.97..0.9901).contains(&share), "{share}");
    }
}
