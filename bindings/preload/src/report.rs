//! The number of calls that went each way. With `NEARFLASH_REPORT=1`, a process that has used a file of a
//! mount writes one line to stderr at its end.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The way of a call for a file of a mount.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// To the node.
    OneSided,
    /// To the mount, since the file has grown or ends there, or has no whole block there.
    Beyond,
    /// Since the mount gives no seal.
    Refused,
    /// Since the file is opened for appending.
    Append,
    /// Since the file is opened with `O_SYNC`, which also makes its times durable.
    Synchronous,
    /// Since the kernel keeps pages of the file.
    Cached,
    /// fdatasync, or a write with `O_DSYNC`, since the size of the file is not known to be durable.
    Unsettled,
    /// Since the seal was void: the file was cut, moved or replaced.
    Revoked,
    /// Since all connections were in use.
    Busy,
    /// Since the node could not be reached, or did not answer.
    Lost,
}

const NAMES: [(Way, &str); 10] = [
    (Way::OneSided, "one-sided"),
    (Way::Beyond, "beyond the seal"),
    (Way::Refused, "refused"),
    (Way::Append, "appending"),
    (Way::Synchronous, "synchronous"),
    (Way::Cached, "cached by the kernel"),
    (Way::Unsettled, "size not durable"),
    (Way::Revoked, "revoked"),
    (Way::Busy, "busy"),
    (Way::Lost, "lost"),
];

static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Counts a call.
pub(crate) fn count(way: Way) {
    if !IS_WANTED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(at) = NAMES.iter().position(|(known, _)| *known == way) {
        COUNTS[at].fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads the environment.
pub(crate) fn begin() {
    if std::env::var_os("NEARFLASH_REPORT").is_some_and(|value| value == "1") {
        IS_WANTED.store(true, Ordering::Relaxed);
        // SAFETY: the function has no arguments, and is part of a library that is never unloaded.
        unsafe { libc::atexit(end) };
    }
}

extern "C" fn end() {
    let counts = COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
    if counts.iter().all(|count| *count == 0) {
        return;
    }
    let line = line(std::process::id(), counts);
    // SAFETY: a descriptor that the program has closed gives an error.
    let stderr = unsafe { std::os::fd::BorrowedFd::borrow_raw(2) };
    // Nobody reads the line.
    let _ = rustix::io::write(stderr, line.as_bytes());
}

fn line(process: u32, counts: [u64; NAMES.len()]) -> String {
    let through_mount: u64 = counts[1..].iter().sum();
    let mut line = format!(
        "nearflash: process {process}: {} calls one-sided, {through_mount} through the mount",
        counts[0]
    );
    let reasons = NAMES.iter().zip(counts).skip(1).filter(|(_, count)| *count > 0);
    for (at, ((_, name), count)) in reasons.enumerate() {
        // A string takes any text.
        let _ = write!(line, "{} {name} {count}", if at == 0 { " (" } else { "," });
    }
    line.push_str(if through_mount > 0 { ")\n" } else { "\n" });
    line.replace("( ", "(")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_one_line_with_the_reasons_that_occurred() {
        let none = line(7, [5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(none, "nearflash: process 7: 5 calls one-sided, 0 through the mount\n");
        let some = line(7, [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            some,
            "nearflash: process 7: 5 calls one-sided, 3 through the mount (beyond the seal 2, appending 1)\n"
        );
    }
}
