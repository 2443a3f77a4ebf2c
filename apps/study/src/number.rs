//! Numbers in human-readable form: three significant digits, in every figure, table and finding.

/// U+202F NARROW NO-BREAK SPACE, between groups of three digits.
const GROUP: char = '\u{202f}';

/// U+00A0 NO-BREAK SPACE, between a number and its unit or prefix.
const GAP: char = '\u{a0}';

/// Three significant digits, for tables: `0.0123`, `1.23`, `12 300`. Exact integers have no
/// decimals, and powers of two are shown in full.
pub(crate) fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs();
    if !(1e-4..1e12).contains(&magnitude) {
        return with_minus(&format!("{value:.2e}"));
    }
    if is_power_of_two(magnitude) && magnitude >= 1.0 {
        return grouped(&format!("{value:.0}"));
    }
    // Rounds in decimal form, so that 9.999 becomes 10.0 and not 10.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let is_whole = rounded.fract() == 0.0 && rounded == value;
    let decimals = if is_whole { 0 } else { decimals_for(rounded.abs()) };
    grouped(&format!("{rounded:.decimals$}"))
}

/// A number with its unit: `12.3 µs`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let number = three_digits(value);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// A percentage, with at most one decimal: `31.5 %`, `20 %`.
pub(crate) fn percent(value: f64) -> String {
    if value.abs() >= 99.95 || !value.is_finite() {
        return format!("{} %", three_digits(value));
    }
    let text = format!("{value:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "-0" => "0 %".to_owned(),
        text => format!("{} %", with_minus(text)),
    }
}

/// A difference in per cent: `+12 %`, `−3.2 %`, `0 %`; a large one is a factor, `2.50 times`.
pub(crate) fn change(value: f64) -> String {
    in_times(value).unwrap_or_else(|| match percent(value) {
        more if value > 0.0 && more != "0 %" => format!("+{more}"),
        other => other,
    })
}

/// Shows a difference in per cent as a factor, if it is above 100 %. `None` otherwise: `+100 %` and
/// `−60 %` stay percentages.
pub(crate) fn in_times(change: f64) -> Option<String> {
    (change.round() > 100.0).then(|| times(1.0 + change / 100.0))
}

/// A factor: `2.50 times`.
pub(crate) fn times(value: f64) -> String {
    format!("{} times", three_digits(value))
}

/// The scaling of a quantity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Style {
    /// Bytes, by powers of 1024: `4 KiB`.
    Bytes,
    /// Counts, by powers of 1000: `10 k`, `1 M`.
    Count,
    /// No prefix, since the unit has one or takes none: `12 000` µs.
    Plain,
}

impl Style {
    /// The style of an axis with this unit.
    pub(crate) fn of(unit: &str) -> Self {
        match unit {
            "B" | "byte" | "bytes" => Self::Bytes,
            "" | "IOPS" | "op/s" | "ops/s" | "IO/s" | "1/s" | "Hz" => Self::Count,
            _ => Self::Plain,
        }
    }

    /// The label of a tick.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::Count => count(value),
            Self::Plain => plain(value),
        }
    }
}

fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

fn scaled(value: f64, base: f64, names: &[&str]) -> String {
    let mut rest = value;
    let mut name = 0;
    while rest.abs() >= base && name + 1 < names.len() {
        rest /= base;
        name += 1;
    }
    match names.get(name) {
        None | Some(&"") => plain(rest),
        Some(unit) => format!("{}{GAP}{unit}", plain(rest)),
    }
}

fn plain(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&magnitude) {
        return with_minus(&shortest_exponent(value));
    }
    // Ticks are round; digits after the sixth decimal are rounding errors.
    let mut text = format!("{value:.6}");
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    grouped(&text)
}

fn shortest_exponent(value: f64) -> String {
    let text = format!("{value:.3e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            format!("{digits}e{exponent}")
        }
        None => text,
    }
}

fn decimals_for(magnitude: f64) -> usize {
    let mut decimals = 2;
    let mut bound = 10.0;
    while magnitude >= bound && decimals > 0 {
        decimals -= 1;
        bound *= 10.0;
    }
    let mut small = 1.0;
    while magnitude < small && decimals < 7 {
        decimals += 1;
        small /= 10.0;
    }
    decimals
}

fn is_power_of_two(magnitude: f64) -> bool {
    let exponent = magnitude.log2();
    exponent.fract() == 0.0
}

/// Groups digits before the point by three; the minus is as wide as a digit.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("\u{2212}", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(GROUP);
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn with_minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::{Style, change, percent, quantity, three_digits, times};

    #[test]
    fn table_numbers_have_three_significant_digits() {
        let shown =
            [0.0, 0.012_34, 1.0, 1.234, 9.999, 12.34, 99.96, 123.4, 1234.0, 123_456.7, -5.678];
        let shown: Vec<String> = shown.into_iter().map(three_digits).collect();
        let expected =
            ["0", "0.0123", "1", "1.23", "10.0", "12.3", "100", "123", "1 230", "123 000", "−5.68"];
        assert_eq!(shown, expected.map(|text| text.replace(' ', "\u{202f}")));
    }

    #[test]
    fn powers_of_two_are_said_in_full_and_no_number_is_a_dash() {
        assert_eq!(three_digits(4096.0), "4\u{202f}096");
        assert_eq!(three_digits(f64::NAN), "–");
        assert_eq!(three_digits(1.5e300), "1.50e300");
    }

    #[test]
    fn ticks_are_written_as_people_write_them() {
        let shown = |style: Style, value| style.show(value).replace(['\u{a0}', '\u{202f}'], " ");
        assert_eq!(shown(Style::Bytes, 512.0), "512 B");
        assert_eq!(shown(Style::Bytes, 4096.0), "4 KiB");
        assert_eq!(shown(Style::Bytes, 1_048_576.0), "1 MiB");
        assert_eq!(shown(Style::Count, 10_000.0), "10 k");
        assert_eq!(shown(Style::Count, 1_500_000.0), "1.5 M");
        assert_eq!(shown(Style::Plain, 12_000.0), "12 000");
        assert_eq!(shown(Style::Plain, 0.05), "0.05");
        assert_eq!(shown(Style::Plain, -20.0), "−20");
    }

    #[test]
    fn shares_have_a_tenth_where_there_is_one() {
        let shown = [31.5, 20.0, -3.24, 250.4, -0.0].map(percent);
        assert_eq!(shown, ["31.5 %", "20 %", "−3.2 %", "250 %", "0 %"]);
    }

    #[test]
    fn differences_have_a_sign_unless_there_is_none() {
        let shown = [12.0, -3.24, 0.04, -0.04, 0.0, 100.0, -99.9].map(change);
        assert_eq!(shown, ["+12 %", "−3.2 %", "0 %", "0 %", "0 %", "+100 %", "−99.9 %"]);
    }

    #[test]
    fn more_than_twice_as_much_is_shown_in_times_and_less_never() {
        let shown = [100.4, 100.6, 150.0, 1_210.0, 29_900.0].map(change);
        assert_eq!(shown, ["+100 %", "2.01 times", "2.50 times", "13.1 times", "300 times"]);
        assert_eq!([1.0, 0.848, 3.2].map(times), ["1 times", "0.848 times", "3.20 times"]);
    }

    #[test]
    fn a_quantity_has_its_unit() {
        let shown = [(12_345.0, "IOPS"), (0.5, "µs"), (7.0, "")];
        let shown = shown.map(|(value, unit)| quantity(value, unit));
        assert_eq!(shown, ["12\u{202f}300 IOPS", "0.500 µs", "7"]);
    }
}
