//! The list of percentiles to report.

use std::str::FromStr;

/// Percentiles, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentileList(pub Vec<f64>);

/// The reason why a list is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a valid list of percentiles: write numbers up to 100, separated by colons, for \
     example 50:99:99.9"
)]
pub struct PercentilesError(String);

impl Default for PercentileList {
    /// fio's default.
    fn default() -> Self {
        Self(vec![
            1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
            99.95, 99.99,
        ])
    }
}

impl FromStr for PercentileList {
    type Err = PercentilesError;

    fn from_str(text: &str) -> Result<Self, PercentilesError> {
        let refused = || PercentilesError(text.to_owned());
        let mut list = Vec::new();
        for part in text.split([':', ',']) {
            let percentile: f64 = part.parse().map_err(|_| refused())?;
            if !(0.0..=100.0).contains(&percentile) {
                return Err(refused());
            }
            list.push(percentile);
        }
        list.sort_by(f64::total_cmp);
        Ok(Self(list))
    }
}
