//! Models that this process computes. They need no node, device or core of their own, and give the
//! same numbers on every machine.

use nearflash_flash::endurance::{Levelling, wear_out};
use nearflash_flash::ftl::{Config, ConfigError, Counts};
use nearflash_flash::start_gap::{Line, StartGapConfig};
use nearflash_flash::steady_state::{Load, simulate};
use nearflash_flash::workload::{Skew, Workload};

/// A model, with everything that its numbers depend on.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Model {
    /// A flash translation layer in steady state.
    Translation { config: Config, load: Load },
    /// A memory that is written in place until it is worn out.
    Wear(WearModel),
}

/// A memory that is written in place until it is worn out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WearModel {
    /// The number of lines.
    pub lines: u32,
    /// Writes that a place endures.
    pub endurance: u32,
    /// Start-gap; `None` for lines that stay where they are.
    pub start_gap: Option<StartGapConfig>,
    /// The lines that are written.
    pub writes: LineWrites,
    /// The seed of the writes.
    pub seed: u64,
}

/// The lines that are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineWrites {
    /// Always the same one.
    OneLine,
    /// All lines, with a skew.
    Skewed(Skew),
}

/// The numbers of a model.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Simulation {
    /// The work of an FTL.
    Translation {
        /// Pages that the host wrote.
        host_pages: u64,
        /// Pages that the FTL moved.
        moved_pages: u64,
        /// Blocks that were erased.
        erases: u64,
    },
    /// A memory that is worn out.
    Wear {
        /// The host's writes as a share of those that all places together endure.
        share_of_ideal: f64,
        /// The number of places by their wear, in tenths of the endurance.
        places_by_wear: [u32; 10],
    },
}

impl Model {
    /// Computes the model.
    pub(crate) fn simulate(&self) -> Result<Simulation, ConfigError> {
        match self {
            Self::Translation { config, load } => translation(*config, *load),
            Self::Wear(model) => Ok(model.simulation()),
        }
    }
}

fn translation(config: Config, load: Load) -> Result<Simulation, ConfigError> {
    let Counts { host_pages, moved_pages, levelled_pages, erases } = simulate(config, load)?;
    let moved_pages = moved_pages + levelled_pages;
    Ok(Simulation::Translation { host_pages, moved_pages, erases })
}

impl WearModel {
    fn simulation(&self) -> Simulation {
        let levelling = self.start_gap.map_or(Levelling::None, Levelling::start_gap);
        let worn = match self.writes {
            LineWrites::OneLine => wear_out(self.lines, levelling, self.endurance, || Line(0)),
            LineWrites::Skewed(skew) => {
                let mut workload = Workload::new(skew, self.lines, self.seed);
                wear_out(self.lines, levelling, self.endurance, || Line(workload.draw()))
            }
        };
        let mut places_by_wear = [0; 10];
        for &wear in &worn.wear {
            let tenth = u64::from(wear) * 10 / u64::from(self.endurance);
            // The place that is worn out belongs to the last tenth.
            places_by_wear[usize::try_from(tenth).map_or(9, |tenth| tenth.min(9))] += 1;
        }
        let share_of_ideal = worn.share_of_ideal(self.endurance);
        Simulation::Wear { share_of_ideal, places_by_wear }
    }
}

impl Simulation {
    /// Pages programmed for each page that the host wrote, if this is an FTL.
    pub fn write_amplification(&self) -> Option<f64> {
        let Self::Translation { host_pages, moved_pages, .. } = self else { return None };
        let counts =
            Counts { host_pages: *host_pages, moved_pages: *moved_pages, ..Counts::default() };
        Some(counts.write_amplification())
    }

    /// The main number in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Translation { .. } => {
                let amplification = self.write_amplification().unwrap_or(f64::NAN);
                format!("write amplification {}", crate::number::three_digits(amplification))
            }
            Self::Wear { share_of_ideal, .. } => {
                format!("{} of the ideal life", crate::number::percent(share_of_ideal * 100.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;

    fn worn(start_gap: Option<StartGapConfig>) -> Simulation {
        let writes = LineWrites::OneLine;
        let model = WearModel { lines: 16, endurance: 50_000, start_gap, writes, seed: 1 };
        model.simulation()
    }

    #[test]
    fn the_wear_of_all_places_is_shown() {
        let Simulation::Wear { share_of_ideal, places_by_wear } = worn(None) else {
            panic!("another model")
        };
        assert_eq!(share_of_ideal, 1.0 / 16.0);
        assert_eq!(places_by_wear, [15, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let config = StartGapConfig { lines: 16, writes_per_move: 100, randomise: Some(1) };
        let Simulation::Wear { share_of_ideal, places_by_wear } = worn(Some(config)) else {
            panic!("another model")
        };
        assert!(share_of_ideal > 0.9, "{share_of_ideal}");
        assert_eq!(places_by_wear.iter().sum::<u32>(), 17);
        assert_eq!(worn(Some(config)).words(), worn(Some(config)).words());
    }

    #[test]
    fn an_ftl_that_cannot_be_is_a_failed_point() {
        let geometry = nearflash_flash::ftl::Geometry::with_spare(4, 8, 1);
        let config = Config {
            geometry,
            collector: nearflash_flash::ftl::Collector::Greedy,
            streams: 1,
            moves: nearflash_flash::ftl::Moves::Mixed,
            erase_spread_max: None,
        };
        let load = Load { skew: Skew::Uniform, seed: 1, warm_up: 1, counted: 1 };
        let outcome = Outcome::from(Model::Translation { config, load }.simulate());
        assert!(matches!(outcome, Outcome::Failed(why) if why.contains("spare")));
    }

    #[test]
    fn results_are_read_back_as_they_were_written() {
        let simulation = Simulation::Translation { host_pages: 2, moved_pages: 1, erases: 3 };
        let outcome = Outcome::Simulated(simulation.clone());
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        assert_eq!(simulation.write_amplification(), Some(1.5));
    }
}
