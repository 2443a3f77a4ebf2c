//! The resource usage of a process, from the kernel, and processes that stand still.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

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

/// Stops a process with SIGSTOP, and waits until every thread of it stands still.
///
/// # Panics
/// When there is no such process.
pub fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).expect("the process is there");
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The name before the state may have any character.
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    crate::eventually("every thread stands still", || {
        let all = fs::read_dir(&tasks).expect("the process runs");
        all.flatten().all(is_stopped)
    });
}
