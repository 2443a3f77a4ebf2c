//! The scale of an axis: positions of values, and ticks.

use crate::exhibit::{Axis, Scale};
use crate::number::Style;

/// Limit of the magnitude of values that are drawn; on a logarithmic axis its inverse is the lower
/// limit. Beyond it, differences could be NaN or infinite.
const MAGNITUDE_MAX: f64 = 1e30;

/// Maximum number of ticks per axis.
const TICKS_MAX: usize = 64;

/// The scale of an axis.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    measure: Measure,
    low: f64,
    high: f64,
    /// The ticks, in ascending order.
    pub(super) ticks: Vec<Tick>,
}

/// The mapping of values to positions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Measure {
    Even,
    Log,
    /// That many equal bands.
    Bands(usize),
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// The relation of the values to the ends of the axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fit {
    /// The ends are round, and a linear axis includes zero.
    Round,
    /// The values fill the axis, except for a small margin.
    Close,
}

impl Ruler {
    /// The scale that covers all these values.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, fit: Fit) -> Self {
        let style = Style::of(&axis.unit);
        match &axis.scale {
            Scale::Names(names) => Self::bands(names.clone()),
            Scale::Linear => Self::linear(values, fit, style),
            Scale::Log2 => Self::log(values, fit, style, 2.0),
            Scale::Log10 => Self::log(values, fit, style, 10.0),
        }
    }

    /// One band per name. Value `n`, counted from 0, is the middle of the `n`-th band.
    pub(super) fn bands(names: Vec<String>) -> Self {
        let mut at = -1.0;
        let mut tick = |label| {
            at += 1.0;
            Tick { value: at, label }
        };
        let ticks: Vec<Tick> = names.into_iter().map(&mut tick).collect();
        let high = ticks.last().map_or(0.5, |tick| tick.value + 0.5);
        Self { measure: Measure::Bands(ticks.len()), low: -0.5, high, ticks }
    }

    fn linear(values: impl Iterator<Item = f64>, fit: Fit, style: Style) -> Self {
        let (mut low, mut high) =
            bounds(values.filter(|value| is_drawable(*value))).unwrap_or((0.0, 1.0));
        // Magnitudes are compared by length, which starts at zero.
        let reaches_zero = fit == Fit::Round || low.abs() < high.abs() * 0.4;
        if reaches_zero {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if low == high {
            high = low + if low == 0.0 { 1.0 } else { low.abs() };
        }
        let step = round_step(high - low, style);
        let (first, mut last) = ((low / step).floor(), (high / step).ceil());
        // Room for the value written above the highest bar.
        if last - high / step < 0.25 && high > 0.0 {
            last += 1.0;
        }
        let ticks = |from: f64, to: f64| {
            let steps = std::iter::successors(Some(from), |step| Some(step + 1.0));
            let inside = steps.take_while(|at| *at <= to).take(TICKS_MAX);
            inside.map(|at| Tick { value: at * step, label: style.show(at * step) }).collect()
        };
        if fit == Fit::Round {
            let (low, high) = (first * step, last * step);
            return Self { measure: Measure::Even, low, high, ticks: ticks(first, last) };
        }
        let margin = (high - low) * 0.03;
        let ticks = ticks((low / step).ceil(), (high / step).floor());
        Self { measure: Measure::Even, low: low - margin, high: high + margin, ticks }
    }

    fn log(values: impl Iterator<Item = f64>, fit: Fit, style: Style, base: f64) -> Self {
        let positive = values.filter(|value| is_drawable(*value) && *value >= 1.0 / MAGNITUDE_MAX);
        let (low, high) = bounds(positive).unwrap_or((1.0, base));
        let steps = LogSteps::over(low, high, base);
        let (mut low, mut high) = (low.log10(), high.log10());
        let mut values = steps.around(low, high);
        if fit == Fit::Round {
            low = values.first().map_or(low, |first| first.log10().min(low));
            high = values.last().map_or(high, |last| last.log10().max(high));
        } else {
            let slack = 1e-9;
            values.retain(|value| (low - slack..=high + slack).contains(&value.log10()));
        }
        if low == high {
            low -= base.log10() / 2.0;
            high += base.log10() / 2.0;
        }
        if fit == Fit::Close {
            let margin = (high - low) * 0.03;
            low -= margin;
            high += margin;
        }
        let tick = |value| Tick { value, label: style.show(value) };
        Self { measure: Measure::Log, low, high, ticks: values.into_iter().map(tick).collect() }
    }

    /// The position of a value, from 0 at the low end to 1 at the high end; `None` if it has none.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !is_drawable(value) {
            return None;
        }
        let at = match self.measure {
            Measure::Even | Measure::Bands(_) => value,
            Measure::Log if value < 1.0 / MAGNITUDE_MAX => return None,
            Measure::Log => value.log10(),
        };
        let place = (at - self.low) / (self.high - self.low);
        (-1e-6..=1.0 + 1e-6).contains(&place).then(|| place.clamp(0.0, 1.0))
    }

    /// The position at which bars begin: that of zero, or the low end if there is no zero.
    pub(super) fn origin(&self) -> f64 {
        match self.measure {
            Measure::Even => self.place(0.0).unwrap_or(0.0),
            Measure::Log | Measure::Bands(_) => 0.0,
        }
    }

    /// The number of bands; `None` for a numeric axis.
    pub(super) fn band_count(&self) -> Option<usize> {
        match self.measure {
            Measure::Bands(count) => Some(count),
            Measure::Even | Measure::Log => None,
        }
    }
}

/// Whether a value can be drawn on any axis.
pub(super) fn is_drawable(value: f64) -> bool {
    value.is_finite() && value.abs() <= MAGNITUDE_MAX
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// A round step that divides a span into about five parts.
fn round_step(span: f64, style: Style) -> f64 {
    let unit = match style {
        Style::Bytes => {
            let mut unit = 1.0;
            while span / unit >= 1024.0 {
                unit *= 1024.0;
            }
            unit
        }
        Style::Count | Style::Plain => 1.0,
    };
    let rough = span / unit / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.85);
    factor.unwrap_or(10.0) * power * unit
}

/// The ticks of a logarithmic axis.
enum LogSteps {
    /// These multiples of each power of ten.
    Decades(&'static [f64]),
    /// Every `every`-th power of `base`.
    Powers { base: f64, every: f64 },
}

impl LogSteps {
    fn over(low: f64, high: f64, base: f64) -> Self {
        let powers = (high / low).log10() / base.log10();
        if base == 10.0 && powers < 2.5 {
            return Self::Decades(&[1.0, 2.0, 5.0]);
        }
        if base == 2.0 && powers > 34.0 {
            return Self::over(low, high, 10.0);
        }
        let powers_max = if base == 2.0 { 17.0 } else { 9.0 };
        Self::Powers { base, every: (powers / powers_max).ceil().max(1.0) }
    }

    /// The ticks from the last one at or below `low` to the first one at or above `high`. Both ends
    /// are decimal logarithms.
    fn around(&self, low: f64, high: f64) -> Vec<f64> {
        let (per_power, base, every): (&[f64], _, _) = match self {
            Self::Decades(factors) => (factors, 10.0_f64, 1.0),
            Self::Powers { base, every } => (&[1.0], *base, *every),
        };
        let width = base.log10();
        let first = (low / width / every).floor() * every;
        let powers = std::iter::successors(Some(first), |power| Some(power + every));
        let powers = powers.take_while(|power| (power - every) * width <= high).take(TICKS_MAX);
        let all: Vec<f64> = powers
            .flat_map(|power| per_power.iter().map(move |factor| factor * base.powf(power)))
            .collect();
        let slack = 1e-9;
        let from = all.iter().rposition(|value| value.log10() <= low + slack).unwrap_or(0);
        let to = all.iter().position(|value| value.log10() >= high - slack);
        all.get(from..=to.unwrap_or(all.len().saturating_sub(1))).unwrap_or(&[]).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, Ruler};
    use crate::exhibit::{Axis, Scale};

    fn ruler(scale: Scale, unit: &str, values: &[f64], fit: Fit) -> Ruler {
        let axis = Axis { label: String::new(), unit: unit.to_owned(), scale };
        Ruler::new(&axis, values.iter().copied(), fit)
    }

    fn labels(ruler: &Ruler) -> String {
        let labels: Vec<&str> = ruler.ticks.iter().map(|tick| tick.label.as_str()).collect();
        labels.join(", ").replace(['\u{a0}', '\u{202f}'], " ")
    }

    #[test]
    fn block_sizes_lie_on_powers_of_two() {
        let ruler = ruler(Scale::Log2, "B", &[512.0, 4096.0, 8192.0], Fit::Close);
        assert_eq!(labels(&ruler), "512 B, 1 KiB, 2 KiB, 4 KiB, 8 KiB");
    }

    #[test]
    fn a_measured_quantity_begins_at_zero_and_ends_round() {
        let ruler = ruler(Scale::Linear, "MB/s", &[210.0, 930.0], Fit::Round);
        assert_eq!(labels(&ruler), "0, 200, 400, 600, 800, 1 000");
        assert_eq!(ruler.place(0.0), Some(0.0));
        assert_eq!(ruler.place(1000.0), Some(1.0));
    }

    #[test]
    fn a_short_logarithmic_axis_has_values_between_its_decades() {
        let ruler = ruler(Scale::Log10, "µs", &[12.0, 430.0], Fit::Round);
        assert_eq!(labels(&ruler), "10, 20, 50, 100, 200, 500");
    }

    #[test]
    fn a_long_logarithmic_axis_has_decades() {
        let ruler = ruler(Scale::Log10, "IOPS", &[1500.0, 2_000_000.0], Fit::Round);
        assert_eq!(labels(&ruler), "1 k, 10 k, 100 k, 1 M, 10 M");
    }

    #[test]
    fn what_has_no_logarithm_has_no_place() {
        let ruler = ruler(Scale::Log10, "", &[0.0, -3.0, f64::NAN, 7.0], Fit::Round);
        assert_eq!(ruler.place(0.0), None);
        assert_eq!(ruler.place(-3.0), None);
        assert_eq!(ruler.place(f64::NAN), None);
        assert!(ruler.place(7.0).is_some());
    }

    #[test]
    fn an_axis_of_nothing_is_still_an_axis() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10, Scale::Names(Vec::new())] {
            let ruler = ruler(scale, "", &[], Fit::Round);
            assert!(ruler.place(f64::INFINITY).is_none());
        }
    }
}
