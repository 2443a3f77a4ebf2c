//! libiscsi's `iscsi-perf`, as a client that is nobody's here: random reads of 4 KiB.
//!
//! It counts in whole seconds and has no ramp; a rate is all that it says, so the mean latency is
//! what that rate and the depth come to. It sleeps when nothing has come, so its share of a core
//! says nothing about whether it was disturbed.

use std::io;
use std::process::{Command, Stdio};

use nearflash_units::Nanos;

use super::programs::find;
use super::round::{Figure, OwnTime, Part};
use crate::subject::IscsiTarget;

/// Its name.
const PROGRAM: &str = "iscsi-perf";
/// Said of what needs it where it is not.
pub(super) const NOT_INSTALLED: &str = "iscsi-perf is not installed (Debian: libiscsi-bin)";

/// Why it says no rate.
#[derive(Debug, thiserror::Error)]
pub enum IscsiPerfError {
    /// It cannot be started.
    #[error("cannot start iscsi-perf: {0}; is it installed (Debian: libiscsi-bin)?")]
    Start(#[from] io::Error),
    /// It failed.
    #[error("iscsi-perf of {target} says no rate: {said}")]
    NoRate {
        /// Of what.
        target: String,
        /// What it said instead.
        said: String,
    },
}

/// Whether it is there.
pub(super) fn is_installed() -> bool {
    find(PROGRAM).is_some()
}

/// Random reads of one block of 4 KiB, so many in flight, for at least so long. Runs where the
/// calling thread does.
pub(super) fn measure(
    target: &IscsiTarget,
    depth: u32,
    span: Nanos,
) -> Result<Part, IscsiPerfError> {
    let seconds = span.0.div_ceil(1_000_000_000).max(1);
    let output = Command::new(PROGRAM)
        .args(["-r", "-b", "1", "-m", &depth.to_string(), "-t", &seconds.to_string()])
        .arg(target.to_string())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let Some(iops) = rate_of(&said).filter(|_| output.status.success()) else {
        let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
        let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said = lines.next_back().unwrap_or("nothing").to_owned();
        return Err(IscsiPerfError::NoRate { target: target.to_string(), said });
    };
    let latency_ns = 1e9 * f64::from(depth) / iops;
    let figure = Figure { iops, latency_ns, core_share: 1.0 };
    Ok(Part { figure, cpu_ns: f64::NAN, own_ns: OwnTime::NONE })
}

/// What stands behind the last `iops average`.
fn rate_of(said: &str) -> Option<f64> {
    let (_, rest) = said.rsplit_once("iops average ")?;
    let rate: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_last_average() {
        let said = "iscsi-perf version 0.1\n\n\r00:00:01 - lba 17327, iops current 34123 \
                    (133 MB/s), iops average 34000 (133 MB/s), in_flight 32, busy 0        \
                    \riops average 30042 (117 MB/s)      \n\nfinished.\n";
        assert_eq!(rate_of(said), Some(30042.0));
    }

    #[test]
    fn words_without_a_rate_have_none() {
        assert_eq!(rate_of("Login Failed."), None);
        assert_eq!(rate_of("iops average 0 (0 MB/s)"), None);
        assert_eq!(rate_of("iops average"), None);
    }
}
