//! Processor time: of the calling thread, and of other processes as the system counts it.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_units::Nanos;

use crate::recorder::CpuTime;

/// Ticks of /proc per second: 100 on every Linux that programs see.
const TICK: Nanos = Nanos::from_millis(10);
/// utime and stime, counted from the field after the command's closing parenthesis.
const UTIME_FIELD: usize = 11;

/// Counts from when it was started; belongs to the thread that started it.
pub(crate) struct CpuMeter {
    start: CpuTime,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self { start: thread_cpu_time() }
    }

    /// What the thread used since.
    pub(crate) fn used(&self) -> CpuTime {
        thread_cpu_time().since(self.start)
    }
}

fn thread_cpu_time() -> CpuTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let (user, system) = parse_stat(&stat).unwrap_or_default();
    CpuTime { total: Nanos::from_secs(secs).plus(Nanos(nanos)), user, system }
}

/// Processor time of one thread of a process.
#[derive(Clone, Debug)]
pub struct ThreadTime {
    /// As it calls itself.
    pub name: String,
    /// What it has used since it was started.
    pub cpu: CpuTime,
}

/// What a process has used since it was started: a node, or a peer. The total is exact to a tick of
/// the scheduler, where the system counts it; user and system are as the system samples them.
///
/// # Errors
/// When there is no such process.
pub fn of_process(pid: u32) -> io::Result<CpuTime> {
    let dir = Path::new("/proc").join(pid.to_string());
    let (user, system) = sampled(&dir)?;
    let exact = exact_total(&tasks(&dir)?);
    Ok(CpuTime { total: exact.unwrap_or_else(|| user.plus(system)), user, system })
}

/// The same by threads, in the order in which they were started. One that ends meanwhile is left out.
///
/// # Errors
/// When there is no such process.
pub fn of_threads(pid: u32) -> io::Result<Vec<ThreadTime>> {
    let tasks = tasks(&Path::new("/proc").join(pid.to_string()))?;
    let read = |task: &PathBuf| -> io::Result<ThreadTime> {
        let (user, system) = sampled(task)?;
        let total = exact(task).unwrap_or_else(|| user.plus(system));
        let name = std::fs::read_to_string(task.join("comm"))?.trim_end().to_owned();
        Ok(ThreadTime { name, cpu: CpuTime { total, user, system } })
    };
    Ok(tasks.iter().filter_map(|task| read(task).ok()).collect())
}

/// The folders of a process's threads, by number.
fn tasks(process: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbers: Vec<u32> = std::fs::read_dir(process.join("task"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let folder = |number: u32| process.join("task").join(number.to_string());
    Ok(numbers.into_iter().map(folder).collect())
}

fn sampled(dir: &Path) -> io::Result<(Nanos, Nanos)> {
    let stat = std::fs::read_to_string(dir.join("stat"))?;
    parse_stat(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `None` when the system does not count it, or a thread has just ended.
fn exact_total(tasks: &[PathBuf]) -> Option<Nanos> {
    tasks.iter().try_fold(Nanos(0), |sum, task| Some(sum.plus(exact(task)?)))
}

/// The first number of schedstat: nanoseconds on a processor. Documentation/scheduler/sched-stats.
fn exact(task: &Path) -> Option<Nanos> {
    let schedstat = std::fs::read_to_string(task.join("schedstat")).ok()?;
    schedstat.split_whitespace().next()?.parse().ok().map(Nanos)
}

/// utime and stime of a line of /proc/PID/stat: proc(5).
pub(crate) fn parse_stat(stat: &str) -> Option<(Nanos, Nanos)> {
    // The command may contain anything, so count from its last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(UTIME_FIELD);
    let mut ticks = || fields.next()?.parse::<u64>().ok().map(|n| Nanos(n * TICK.0));
    Some((ticks()?, ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_command() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0";
        assert_eq!(parse_stat(stat), Some((Nanos::from_millis(2500), Nanos::from_millis(300))));
        assert_eq!(parse_stat("nothing"), None);
    }

    #[test]
    fn a_busy_thread_has_used_time() {
        let meter = CpuMeter::start();
        let mut state = 1;
        for _ in 0..1_000_000 {
            std::hint::black_box(crate::workload::splitmix64(&mut state));
        }
        assert!(meter.used().total > Nanos(0));
    }

    #[test]
    fn a_process_has_used_what_its_threads_have() {
        let mut state = 1;
        for _ in 0..20_000_000 {
            std::hint::black_box(crate::workload::splitmix64(&mut state));
        }
        let threads = of_threads(std::process::id()).unwrap();
        let process = of_process(std::process::id()).unwrap();
        assert!(threads.iter().all(|thread| !thread.name.is_empty()));
        assert!(threads.iter().any(|thread| thread.cpu.total > Nanos(0)));
        // Threads of other tests come and go, so only the order of things is certain.
        let own = threads.iter().map(|thread| thread.cpu.total).max().unwrap();
        assert!(process.total.plus(process.user).plus(process.system) >= own);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(of_process(u32::MAX).is_err());
        assert!(of_threads(u32::MAX).is_err());
    }
}
