//! libiscsi's `iscsi-perf`, an independent client: random reads of 4 KiB.
//!
//! It counts in whole seconds, has no ramp and only reports a rate, so the mean latency is derived
//! from the rate and the depth. It sleeps while it waits, so its share of a core does not show
//! whether it was disturbed.

use std::io;
use std::process::{Command, Stdio};

use nearflash_units::Nanos;

use super::round::{Figure, OwnTime, Part};
use crate::subject::IscsiTarget;

/// The program's name.
const PROGRAM: &str = "iscsi-perf";
/// The message about rows that need it, if it is not installed.
pub const ISCSI_PERF_NOT_INSTALLED: &str = "iscsi-perf is not installed (Debian: libiscsi-bin)";

/// Errors of `iscsi-perf`.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum IscsiPerfError {
    /// It cannot be started.
    #[error("cannot start iscsi-perf: {0}; is it installed (Debian: libiscsi-bin)?")]
    Start(#[from] io::Error),
    /// It reported no rate.
    #[error("iscsi-perf reported no rate for {target}: {said}")]
    NoRate { target: String, said: String },
}

/// Runs random reads of one 4 KiB block with this queue depth for at least this time. The program
/// runs on the calling thread's core.
///
/// # Errors
/// When the program is missing or reports no rate.
pub fn measure_iscsi_perf(
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

/// The last `iops average` in its output.
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
