//! The time of day.

use std::time::SystemTime;

use nearflash_units::UnixTime;

/// The time by which tokens expire. A clock before 1970 counts as 1970, when nothing has expired.
pub(super) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}
