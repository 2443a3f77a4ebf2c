//! Counts per interval of a run.

use nearflash_units::Nanos;

use crate::recorder::per_second;
use crate::workload::Direction;

/// Operations of one interval.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// Length of the interval.
    pub span: Nanos,
    /// Reads completed in it.
    pub reads: u64,
    /// Writes completed in it.
    pub writes: u64,
}

/// All intervals of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Samples(pub Vec<Sample>);

/// Minimum, maximum, mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of the population.
    pub stddev: f64,
    /// The number of values.
    pub count: usize,
}

impl Spread {
    /// The spread of some values.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            stddev: variance.sqrt(),
            count: values.len(),
        }
    }
}

impl Samples {
    /// Operations per second of one direction.
    pub fn iops(&self, direction: Direction) -> Spread {
        let rates: Vec<f64> = self
            .0
            .iter()
            .map(|sample| match direction {
                Direction::Read => per_second(sample.reads, sample.span),
                Direction::Write => per_second(sample.writes, sample.span),
            })
            .collect();
        Spread::of(&rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_become_rates() {
        let sample = |reads| Sample { span: Nanos::from_millis(500), reads, writes: 0 };
        let samples = Samples(vec![sample(50), sample(150)]);
        let spread = samples.iops(Direction::Read);
        assert_eq!((spread.min, spread.max, spread.mean), (100.0, 300.0, 200.0));
        assert_eq!((spread.stddev, spread.count), (100.0, 2));
        assert_eq!(samples.iops(Direction::Write).max, 0.0);
        assert_eq!(Samples::default().iops(Direction::Read), Spread::default());
    }
}
