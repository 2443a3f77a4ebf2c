//! The time of day, and the time since the machine's start.

use std::time::SystemTime;

use nearflash_units::{Nanos, UnixTime};
use rustix::time::{ClockId, clock_gettime};

/// The time by which tokens, grants and credentials expire. A clock before 1970 counts as 1970, when nothing has
/// expired.
pub fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

/// The time since the machine's start, which goes on while the machine is suspended.
pub fn boot_time() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Nanos(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default())
}
