//! Times in messages.

use std::fmt;
use std::time::Duration;

/// A time in the unit that fits, without more digits than a reader needs: `10 s`, `1.5 s`, `30 ms`.
pub(crate) fn span(of: &Duration) -> impl fmt::Display + use<> {
    let millis = u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
    let rounded = if millis > 0 { Duration::from_millis(millis) } else { *of };
    let text = format!("{rounded:?}");
    let unit = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_that_fits() {
        let written = |nanos: u64| span(&Duration::from_nanos(nanos)).to_string();
        assert_eq!(written(10_000_000_000), "10 s");
        assert_eq!(written(1_500_000_000), "1.5 s");
        assert_eq!(written(29_987_654), "29 ms");
        assert_eq!(written(250_000), "250 µs");
        assert_eq!(span(&Duration::MAX).to_string(), "18446744073709551.615 s");
    }
}
