//! Time: one monotonic count of nanoseconds, and the time of day, both given from outside. Nothing here reads a
//! clock.

use std::fmt;
use std::time::Duration;

/// Nanoseconds: a moment since an arbitrary start of the process, or a span between two moments.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// A number of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A number of seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The moment `span` after this one, at most [`Self::NEVER`].
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The span as the standard library's type.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// A moment of the day: whole seconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct UnixTime(pub u64);

/// The reason why a span of time is not valid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseDurationError {
    text: String,
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a valid time: write a whole number and a unit, for example 10us, 5ms or 2s",
            self.text
        )
    }
}

impl std::error::Error for ParseDurationError {}

/// Parses a span of time: a whole number and a unit, `ns`, `us`, `ms`, `s` or `m`. A number without
/// a unit is in seconds, as in fio.
///
/// # Errors
/// When the text does not have that form, or does not fit 64 bits of nanoseconds.
pub fn parse_duration(text: &str) -> Result<Nanos, ParseDurationError> {
    let refused = || ParseDurationError { text: text.to_owned() };
    let digits_len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_len);
    let factor: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return Err(refused()),
    };
    let count: u64 = digits.parse().map_err(|_| refused())?;
    count.checked_mul(factor).map(Nanos).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        assert_eq!(parse_duration("10us"), Ok(Nanos::from_micros(10)));
        assert_eq!(parse_duration("2"), Ok(Nanos::from_secs(2)));
        assert!(parse_duration("2h").is_err());
        assert!(parse_duration("us").is_err());
    }

    #[test]
    fn a_span_backwards_is_zero() {
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos(0));
        assert_eq!(Nanos(1).plus(Nanos::NEVER), Nanos::NEVER);
    }
}
