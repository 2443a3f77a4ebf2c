//! The resource usage of a process, from the kernel.

use std::fs;

/// The memory and files of a process at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usage {
    /// VmRSS.
    pub resident_bytes: u64,
    /// The number of open file descriptors.
    pub files: usize,
}

impl Usage {
    /// The usage of the process with this id.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        let status = status.expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
        Self { resident_bytes: kib.expect("the kernel counts memory") * 1024, files: files.count() }
    }
}
