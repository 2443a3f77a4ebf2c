//! The process that holds the lock of a file, as the kernel lists it in `/proc/locks`.

use std::fmt;
use std::os::fd::OwnedFd;

use rustix::fs::{fstat, major, minor};

/// A running process that holds the lock of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    program: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.program)
    }
}

impl Holder {
    /// The holder of the lock of this file. `None` if the system does not tell it, or if the process has ended
    /// and its last operations have not.
    pub(crate) fn of(fd: &OwnedFd) -> Option<Self> {
        let stat = fstat(fd).ok()?;
        let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
        let file = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        let pid = holder_in(&std::fs::read_to_string("/proc/locks").ok()?, &file)?;
        let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
        let program = String::from_utf8_lossy(name.trim_ascii_end()).escape_debug().to_string();
        Some(Self { pid, program })
    }
}

/// The process with the lock of flock(2) on a file. A line: `1: FLOCK  ADVISORY  WRITE 123 fe:00:45 0 EOF`. One with
/// `->` is a process that waits.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let found = locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_held = words.next() == Some("FLOCK");
        let (pid, of) = (words.nth(2)?, words.next()?);
        (is_held && of == file).then_some(pid)
    });
    found?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn the_holder_is_the_process_with_the_lock_and_none_that_waits() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:45 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 22 fe:00:45 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 33 fe:00:45 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 44 fe:00:46 0 EOF\n\
                     4: FLOCK";
        assert_eq!(holder_in(locks, "fe:00:45"), Some(22));
        assert_eq!(holder_in(locks, "fe:00:46"), None);
    }

    #[test]
    fn this_process_is_found_as_long_as_it_holds_the_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let held = File::open(file.path()).unwrap();
        let other = OwnedFd::from(File::open(file.path()).unwrap());
        assert_eq!(Holder::of(&other), None);
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(Holder::of(&other).unwrap().pid, std::process::id());
        drop(held);
        assert_eq!(Holder::of(&other), None);
    }
}
