//! The cost model of flash disaggregation: compares servers that have both flash and processors
//! with servers that have only one of them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Maximum length of a file of prices, in bytes.
const FILE_LEN_MAX: u64 = 64 << 10;
/// Maximum span of a forecast, in years.
const YEARS_MAX: u32 = 50;
/// Maximum number of rows, and of columns, of the surface.
const FACTORS_MAX: usize = 32;
/// The default, which is also installed as an example.
const EXAMPLE: &str = include_str!("../../../../../packaging/cost.toml");

/// Capacities, needs and prices.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub(super) server: Resources,
    pub(super) needs: Resources,
    pub(super) prices: Prices,
    pub(super) overhead: Overhead,
    pub(super) forecast: Forecast,
    pub(super) surface: Surface,
}

/// Resources of one server, or of the whole application.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Resources {
    pub(super) capacity_gb: f64,
    pub(super) iops: f64,
    pub(super) qps: f64,
}

/// The prices of one server: `f` and `c`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
    pub(super) flash: f64,
    pub(super) compute: f64,
}

/// `δ`, as a fraction of `f`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Overhead {
    pub(super) share: f64,
}

/// Growth per year.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Forecast {
    pub(super) years: u32,
    pub(super) capacity_growth: f64,
    pub(super) iops_growth: f64,
    pub(super) qps_growth: f64,
}

/// Rows and columns of the surface.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Surface {
    pub(super) factors: Vec<f64>,
}

/// The reason why a file of prices is not valid, in one line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum CostError {
    /// The file cannot be read.
    #[error("reading {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is too long to be a file of prices.
    #[error("{}: longer than {FILE_LEN_MAX} bytes: name a file of prices", path.display())]
    Long { path: PathBuf },
    /// The file is not valid TOML, or has unknown or missing keys.
    #[error("{}, line {line}: {message}", path.display())]
    Toml {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        message: String,
    },
    /// A number is out of range.
    #[error("{}: {key} is {value}: write {expected}", path.display())]
    Number { path: PathBuf, key: &'static str, value: f64, expected: &'static str },
}

impl Model {
    /// The model of the installed example.
    pub fn example() -> Self {
        Self::parse(Path::new("cost.toml"), EXAMPLE).expect("a test reads it")
    }

    /// Loads a user's file.
    ///
    /// # Errors
    /// When the file cannot be read, has unknown or missing keys, or has numbers out of range.
    pub fn load(path: &Path) -> Result<Self, CostError> {
        let read = |source| CostError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(read)?.len() > FILE_LEN_MAX {
            return Err(CostError::Long { path: path.to_owned() });
        }
        Self::parse(path, &std::fs::read_to_string(path).map_err(read)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, CostError> {
        let model: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            let message = error.message().replace('\n', " ").replace("field", "key");
            CostError::Toml { path: path.to_owned(), line, message }
        })?;
        model.checked(path)
    }

    /// Returns the model if all its numbers are in range. `path` is for the error.
    ///
    /// # Errors
    /// For the first number that is out of range.
    pub fn checked(self, path: &Path) -> Result<Self, CostError> {
        match self.first_fault() {
            None => Ok(self),
            Some((key, value, expected)) => {
                Err(CostError::Number { path: path.to_owned(), key, value, expected })
            }
        }
    }

    /// The first number that is out of range: its key, its value, and the valid values.
    fn first_fault(&self) -> Option<(&'static str, f64, &'static str)> {
        const ABOVE_ZERO: &str = "a number above zero";
        const NOT_BELOW_ZERO: &str = "zero or more";
        const GROWTH: &str = "a share above -1 and up to 100, for example 0.4";
        const YEARS: &str = "1 to 50 years";
        const FACTORS: &str = "1 to 32 factors";
        let Self { server, needs, prices, overhead, forecast, surface } = self;
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let is_natural = |value: f64| value.is_finite() && value >= 0.0;
        // With a larger growth the needs of the last year could overflow.
        let is_growth = |value: f64| value > -1.0 && value <= 100.0;
        let positive = [
            ("server.capacity-gb", server.capacity_gb),
            ("server.iops", server.iops),
            ("server.qps", server.qps),
            ("prices.flash", prices.flash),
            ("prices.compute", prices.compute),
        ];
        let natural = [
            ("needs.capacity-gb", needs.capacity_gb),
            ("needs.iops", needs.iops),
            ("needs.qps", needs.qps),
            ("overhead.share", overhead.share),
        ];
        let growth = [
            ("forecast.capacity-growth", forecast.capacity_growth),
            ("forecast.iops-growth", forecast.iops_growth),
            ("forecast.qps-growth", forecast.qps_growth),
        ];
        let of = |all: &[(&'static str, f64)], rule: &dyn Fn(f64) -> bool, expected| {
            all.iter().find(|(_, value)| !rule(*value)).map(|&(key, value)| (key, value, expected))
        };
        let factor = surface.factors.iter().find(|&&factor| !is_positive(factor));
        let has_needs = natural[..3].iter().any(|(_, value)| *value > 0.0);
        let has_years = (1..=YEARS_MAX).contains(&forecast.years);
        let has_factors = (1..=FACTORS_MAX).contains(&surface.factors.len());
        of(&positive, &is_positive, ABOVE_ZERO)
            .or_else(|| of(&natural, &is_natural, NOT_BELOW_ZERO))
            .or_else(|| of(&growth, &is_growth, GROWTH))
            .or_else(|| (!has_needs).then_some(("needs.capacity-gb", 0.0, "one need above zero")))
            .or_else(|| (!has_years).then(|| ("forecast.years", f64::from(forecast.years), YEARS)))
            .or_else(|| factor.map(|&factor| ("surface.factors", factor, ABOVE_ZERO)))
            .or_else(|| {
                let count = super::super::chart::index_x(surface.factors.len());
                (!has_factors).then_some(("surface.factors", count, FACTORS))
            })
    }

    /// `C_direct = max(GB_t/GB_s, IOPS_t/IOPS_s, QPS_t/QPS_s) · (f + c)`.
    pub(super) fn direct(&self, needs: Resources) -> f64 {
        self.storage_servers(needs).max(self.compute_servers(needs))
            * (self.prices.flash + self.prices.compute)
    }

    /// `C_disagg = max(GB_t/GB_s, IOPS_t/IOPS_s) · (f + δ) + QPS_t/QPS_s · c`, where δ is
    /// `overhead` · f.
    pub(super) fn disaggregated(&self, needs: Resources, overhead: f64) -> f64 {
        let delta = overhead * self.prices.flash;
        self.storage_servers(needs) * (self.prices.flash + delta)
            + self.compute_servers(needs) * self.prices.compute
    }

    /// The saving of disaggregation in per cent of `C_direct`; negative if it costs more.
    pub(super) fn saving(&self, needs: Resources, overhead: f64) -> f64 {
        (1.0 - self.disaggregated(needs, overhead) / self.direct(needs)) * 100.0
    }

    /// The overhead at which both cost the same; `None` without storage to disaggregate.
    pub(super) fn break_even(&self, needs: Resources) -> Option<f64> {
        let storage = self.storage_servers(needs) * self.prices.flash;
        let compute = self.compute_servers(needs) * self.prices.compute;
        (storage > 0.0).then(|| (self.direct(needs) - compute) / storage - 1.0)
    }

    pub(super) fn storage_servers(&self, needs: Resources) -> f64 {
        let capacity = needs.capacity_gb / self.server.capacity_gb;
        capacity.max(needs.iops / self.server.iops)
    }

    pub(super) fn compute_servers(&self, needs: Resources) -> f64 {
        needs.qps / self.server.qps
    }

    /// The needs with storage and queries multiplied.
    pub(super) fn scaled(&self, storage: f64, queries: f64) -> Resources {
        Resources {
            capacity_gb: self.needs.capacity_gb * storage,
            iops: self.needs.iops * storage,
            qps: self.needs.qps * queries,
        }
    }

    /// The needs after `years`.
    pub(super) fn after(&self, years: u32) -> Resources {
        let grown = |value: f64, growth: f64| value * (1.0 + growth).powf(f64::from(years));
        Resources {
            capacity_gb: grown(self.needs.capacity_gb, self.forecast.capacity_growth),
            iops: grown(self.needs.iops, self.forecast.iops_growth),
            qps: grown(self.needs.qps, self.forecast.qps_growth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers of 1,000 GB, 100 k IOPS and 50 k queries; f = 2,000, c = 8,000.
    fn model() -> Model {
        Model {
            server: Resources { capacity_gb: 1e3, iops: 100e3, qps: 50e3 },
            needs: Resources { capacity_gb: 10e3, iops: 2e6, qps: 500e3 },
            prices: Prices { flash: 2e3, compute: 8e3 },
            overhead: Overhead { share: 0.2 },
            forecast: Forecast {
                years: 2,
                capacity_growth: 1.0,
                iops_growth: 0.0,
                qps_growth: 0.5,
            },
            surface: Surface { factors: vec![1.0] },
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn direct_servers_are_bought_for_the_scarcest_resource() {
        // 10 by capacity, 20 by IOPS, 10 by queries: 20 servers of 10,000.
        assert!(close(model().direct(model().needs), 200_000.0));
    }

    #[test]
    fn disaggregated_flash_and_processors_are_bought_apart() {
        // 20 · (2,000 + 400) + 10 · 8,000.
        assert!(close(model().disaggregated(model().needs, 0.2), 128_000.0));
        assert!(close(model().saving(model().needs, 0.2), 36.0));
    }

    #[test]
    fn balanced_needs_lose_the_overhead() {
        let balanced = Resources { capacity_gb: 10e3, iops: 1e6, qps: 500e3 };
        // 10 · 10,000 against 10 · 2,400 + 10 · 8,000.
        assert!(close(model().saving(balanced, 0.2), -4.0));
    }

    #[test]
    fn at_break_even_both_cost_the_same() {
        let needs = model().needs;
        let overhead = model().break_even(needs).unwrap();
        // (200,000 - 80,000) / 40,000 - 1.
        assert!(close(overhead, 2.0));
        assert!(close(model().direct(needs), model().disaggregated(needs, overhead)));
    }

    #[test]
    fn needs_grow_each_at_its_own_rate() {
        let after = model().after(2);
        assert!(close(after.capacity_gb, 40e3) && close(after.iops, 2e6));
        assert!(close(after.qps, 1_125_000.0));
    }

    #[test]
    fn the_example_that_is_installed_is_understood() {
        assert_eq!(Model::example().first_fault(), None);
    }

    fn error_of(change: impl Fn(&str) -> String) -> String {
        let error = Model::parse(Path::new("my.toml"), &change(EXAMPLE)).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused_with_its_line() {
        let error = error_of(|text| text.replace("qps = 100000", "qps = 100000\nqpm = 5"));
        assert!(error.starts_with("my.toml, line ") && error.contains("qpm"), "{error}");
    }

    #[test]
    fn a_key_that_is_missing_is_named() {
        assert!(error_of(|text| text.replace("flash = 2400", "")).contains("flash"));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused_by_name() {
        for (from, to, key) in [
            ("iops = 250000", "iops = 0", "server.iops"),
            ("compute = 5600", "compute = nan", "prices.compute"),
            ("share = 0.20", "share = -0.1", "overhead.share"),
            ("qps-growth = 0.15", "qps-growth = -1.0", "forecast.qps-growth"),
            ("iops-growth = 0.30", "iops-growth = 1e10", "forecast.iops-growth"),
            ("years = 6", "years = 51", "forecast.years"),
            ("factors = [0.25,", "factors = [inf,", "surface.factors"),
            ("factors = [0.25, 0.5, 1, 2, 4, 8]", "factors = []", "surface.factors"),
        ] {
            let error = error_of(|text| text.replacen(from, to, 1));
            assert!(error.starts_with(&format!("my.toml: {key} is ")), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Model::load(Path::new("/nowhere/cost.toml")).unwrap_err().to_string();
        assert!(error.starts_with("reading /nowhere/cost.toml: "), "{error}");
    }
}
