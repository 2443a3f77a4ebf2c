//! What a process uses, as the kernel counts it.

use std::fs;

/// Memory and files of a process at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// VmRSS.
    pub resident_bytes: u64,
    /// Open file descriptors.
    pub files: usize,
}

impl Usage {
    /// Of the process of that number.
    ///
    /// # Panics
    /// When there is none.
    pub fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        let status = status.expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
        Self { resident_bytes: kib.expect("the kernel counts memory") * 1024, files: files.count() }
    }
}
