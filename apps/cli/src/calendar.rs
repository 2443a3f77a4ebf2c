//! Durations on the command line, and times in tables.

use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// Seconds of each unit.
const UNITS: [(&str, u64); 5] =
    [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 7 * 86_400)];

/// Maximum lifetime: a hundred years. For more, omit the option, which means no expiry.
const SECONDS_MAX: u64 = 100 * 366 * 86_400;

/// A lifetime in whole seconds, at least one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lifetime(u64);

/// The text is not a valid lifetime.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{text}' is not a valid time: write a whole number and a unit (s, m, h, d or w), for example \
     12h or 30d"
)]
pub(crate) struct ParseLifetimeError {
    text: Box<str>,
}

pub(crate) fn parse_lifetime(text: &str) -> Result<Lifetime, ParseLifetimeError> {
    let refused = || ParseLifetimeError { text: text.into() };
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| refused())?;
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    let seconds = count.checked_mul(*seconds).filter(|s| (1..=SECONDS_MAX).contains(s));
    seconds.map(Lifetime).ok_or_else(refused)
}

impl Lifetime {
    /// The end of a lifetime that begins now, in seconds since 1970, rounded up: a second is never shorter.
    pub(crate) fn end(self) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.end_from(now.unwrap_or_default())
    }

    fn end_from(self, now: Duration) -> u64 {
        let begun = now.as_secs() + u64::from(now.subsec_nanos() > 0);
        begun.saturating_add(self.0)
    }
}

/// A time in UTC, rounded down to the minute: `2026-11-21 13:55Z`.
pub(crate) fn show_moment(seconds: u64) -> String {
    let since = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    let moment = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).saturating_add(since);
    moment.strftime("%Y-%m-%d %H:%MZ").to_string()
}

/// A time in UTC to the millisecond: `2026-11-21 13:55:07.250Z`.
pub(crate) fn show_time(millis: u64) -> String {
    let since = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    let moment = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).saturating_add(since);
    moment.strftime("%Y-%m-%d %H:%M:%S.%3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_not_shorter_because_it_begins_within_a_second() {
        let end = |millis| Lifetime(1).end_from(Duration::from_millis(millis));
        assert_eq!((end(5_000), end(5_001), end(5_999)), (6, 7, 7));
    }

    #[test]
    fn lifetimes_are_read_as_people_write_them() {
        for (text, seconds) in [("1s", 1), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse_lifetime(text), Ok(Lifetime(seconds)));
        }
        for text in
            ["", "30", "d", "-1d", "1.5h", "0s", "1y", "30 d", "99999999999999999999d", "9999w"]
        {
            let refused = parse_lifetime(text).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("'{text}' is not a valid time: write")),
                "{refused}"
            );
        }
    }

    #[test]
    fn moments_are_shown_by_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00Z"),
            (951_782_399, "2000-02-28 23:59Z"),
            (951_782_400, "2000-02-29 00:00Z"),
            (951_868_800, "2000-03-01 00:00Z"),
            (1_795_269_350, "2026-11-21 13:55Z"),
            (4_107_542_399, "2100-02-28 23:59Z"),
            (4_107_542_400, "2100-03-01 00:00Z"),
            (253_402_300_799, "9999-12-31 23:59Z"),
        ] {
            assert_eq!(show_moment(seconds), text);
        }
        // A moment beyond the calendar is its last.
        assert_eq!(show_moment(u64::MAX), "9999-12-31 23:59Z");
    }
}
