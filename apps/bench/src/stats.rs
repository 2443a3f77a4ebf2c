//! Medians and quartiles, with one definition for all tables, reports and documents.
//!
//! Quantiles are interpolated linearly between neighbours, as in R's type 7 and NumPy's default
//! (Hyndman and Fan, 1996): the median of an even count is the mean of the middle two, whether more
//! or less is better.

/// The lower quartile, the median and the upper quartile of some values.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Quartiles {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
}

impl Quartiles {
    /// Quartiles of values in any order; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarters| quantile(&sorted, quarters);
        Some(Self { low: at(1)?, median: at(2)?, high: at(3)? })
    }

    /// Quartiles of values in any order; NaN without values.
    pub fn or_nan(values: impl IntoIterator<Item = f64>) -> Self {
        let nan = Self { low: f64::NAN, median: f64::NAN, high: f64::NAN };
        Self::of(values).unwrap_or(nan)
    }
}

/// The quantile at `quarters` / 4 of sorted values.
fn quantile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let position = sorted.len().checked_sub(1)? * quarters;
    let (below, above) = (sorted[position / 4], sorted[position.div_ceil(4)]);
    let part = [0.0, 0.25, 0.5, 0.75][position % 4];
    Some(below + (above - below) * part)
}

#[cfg(test)]
mod tests {
    use super::Quartiles;
    use proptest::prelude::*;

    fn quartiles(values: &[f64]) -> [f64; 3] {
        let Quartiles { low, median, high } = Quartiles::of(values.iter().copied()).unwrap();
        [low, median, high]
    }

    #[test]
    fn they_are_those_of_numpy_percentile_25_50_75() {
        assert_eq!(quartiles(&[7.0]), [7.0; 3]);
        assert_eq!(quartiles(&[30.0, 10.0]), [15.0, 20.0, 25.0]);
        assert_eq!(quartiles(&[3.0, 1.0, 2.0]), [1.5, 2.0, 2.5]);
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), [1.75, 2.5, 3.25]);
        assert_eq!(quartiles(&[50.0, 10.0, 30.0, 20.0, 40.0]), [20.0, 30.0, 40.0]);
        assert_eq!(quartiles(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), [2.25, 3.5, 4.75]);
    }

    #[test]
    fn without_values_there_are_none() {
        assert_eq!(Quartiles::of([]), None);
        assert!(Quartiles::or_nan([]).median.is_nan());
    }

    proptest! {
        /// Neither direction is favoured: the quartiles of the negated values are the negated
        /// quartiles.
        #[test]
        fn they_favour_neither_direction(values in prop::collection::vec(-1e6f64..1e6, 1..40)) {
            let [low, median, high] = quartiles(&values);
            let negated: Vec<f64> = values.iter().map(|value| -value).collect();
            let [negated_low, negated_median, negated_high] = quartiles(&negated);
            prop_assert!((negated_low + high).abs() < 1e-6);
            prop_assert!((negated_median + median).abs() < 1e-6);
            prop_assert!((negated_high + low).abs() < 1e-6);
            prop_assert!(low <= median && median <= high);
        }
    }
}
