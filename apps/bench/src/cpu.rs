//! Processor time: of the calling thread, and of other processes.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_units::Nanos;

use crate::recorder::CpuTime;

/// One tick of /proc: USER_HZ is 100 on every Linux.
const TICK: Nanos = Nanos::from_millis(10);
/// Index of utime, followed by stime, after the closing parenthesis of the command.
const UTIME_FIELD: usize = 11;
/// Index of the steal field in the first line of /proc/stat.
const STEAL_FIELD: usize = 7;
/// PF_KTHREAD (include/linux/sched.h) in the flags of /proc/PID/stat: a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Index of the flags, counted like [`UTIME_FIELD`], which utime, stime, cutime and cstime follow.
const FLAGS_FIELD: usize = 6;

/// The calling thread's processor time from its start on. It must stay on that thread.
pub(crate) struct CpuMeter {
    start: CpuTime,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self { start: thread_cpu_time() }
    }

    /// The processor time since the start.
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
    /// The thread's name.
    pub name: String,
    /// Processor time since its start.
    pub cpu: CpuTime,
}

/// Processor time of a process, all threads together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTime {
    /// Processor time used.
    pub cpu: CpuTime,
    /// The time for which its threads were runnable without running.
    pub waited: Nanos,
}

impl ProcessTime {
    /// The difference from an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.since(earlier.cpu), waited: self.waited.since(earlier.waited) }
    }
}

/// Processor time of a process since its start. The total is the scheduler's exact count, if the
/// kernel has one; user and system time are sampled.
///
/// # Errors
/// When there is no such process.
pub fn of_process(pid: u32) -> io::Result<ProcessTime> {
    let dir = Path::new("/proc").join(pid.to_string());
    let (user, system) = sampled(&dir)?;
    let exact = tasks(&dir)?.into_iter().filter_map(|task| exact(&task));
    let (used, waited) =
        exact.fold((Nanos(0), Nanos(0)), |sum, one| (sum.0.plus(one.0), sum.1.plus(one.1)));
    // Only the process's ticks include threads that have ended. Without schedstat they are all
    // there is.
    let total = used.max(user.plus(system));
    Ok(ProcessTime { cpu: CpuTime { total, user, system }, waited })
}

/// Processor time by threads, in the order in which they were started. Threads that end meanwhile
/// are omitted.
///
/// # Errors
/// When there is no such process.
pub fn of_threads(pid: u32) -> io::Result<Vec<ThreadTime>> {
    let tasks = tasks(&Path::new("/proc").join(pid.to_string()))?;
    let read = |task: &PathBuf| -> io::Result<ThreadTime> {
        let (user, system) = sampled(task)?;
        let total = exact(task).map_or_else(|| user.plus(system), |(used, _)| used);
        let name = std::fs::read_to_string(task.join("comm"))?.trim_end().to_owned();
        Ok(ThreadTime { name, cpu: CpuTime { total, user, system } })
    };
    Ok(tasks.iter().filter_map(|task| read(task).ok()).collect())
}

/// The folders of a process's threads, ordered by thread ID.
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

/// Time on a processor, and time waiting for one, in nanoseconds: Linux,
/// Documentation/scheduler/sched-stats.
fn exact(task: &Path) -> Option<(Nanos, Nanos)> {
    parse_schedstat(&std::fs::read_to_string(task.join("schedstat")).ok()?)
}

fn parse_schedstat(schedstat: &str) -> Option<(Nanos, Nanos)> {
    let mut fields = schedstat.split_whitespace().map(|field| field.parse().map(Nanos).ok());
    Some((fields.next()??, fields.next()??))
}

/// Processor time of all programs of the machine, including ended ones, plus stolen time, in whole
/// ticks. Kernel threads are omitted: they work for programs, and mostly for ours while it does
/// I/O.
pub fn of_programs() -> Nanos {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let times =
        processes.filter(|entry| entry.file_name().to_str().is_some_and(is_number)).filter_map(
            // The time of a process that ends meanwhile is in its parent's cutime and cstime.
            |process| parse_program(&std::fs::read_to_string(process.path().join("stat")).ok()?),
        );
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    times.fold(parse_stolen(&stat).unwrap_or_default(), Nanos::plus)
}

fn parse_stolen(stat: &str) -> Option<Nanos> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = all.split_whitespace().nth(STEAL_FIELD)?.parse().ok()?;
    Some(Nanos(ticks * TICK.0))
}

/// Processor time of a process and its ended children, from a line of /proc/PID/stat; `None` for a
/// kernel thread.
fn parse_program(stat: &str) -> Option<Nanos> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(FLAGS_FIELD);
    let flags: u64 = fields.next()?.parse().ok()?;
    if flags & KERNEL_THREAD != 0 {
        return None;
    }
    let times = fields.skip(UTIME_FIELD - FLAGS_FIELD - 1).take(4);
    // Times of children are signed, but never negative.
    let ticks: u64 = times.map(|field| field.parse().unwrap_or(0)).sum();
    Some(Nanos(ticks * TICK.0))
}

/// utime and stime of a line of /proc/PID/stat: proc(5).
pub(crate) fn parse_stat(stat: &str) -> Option<(Nanos, Nanos)> {
    // The command may contain any character, so fields count from its last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(UTIME_FIELD);
    let mut ticks = || fields.next()?.parse::<u64>().ok().map(|n| Nanos(n * TICK.0));
    Some((ticks()?, ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_what_the_system_says() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0";
        assert_eq!(parse_stat(stat), Some((Nanos::from_millis(2500), Nanos::from_millis(300))));
        assert_eq!(parse_stat("nothing"), None);
        assert_eq!(parse_schedstat("1500 20 3\n"), Some((Nanos(1500), Nanos(20))));
        assert_eq!(parse_schedstat("no"), None);
        let stat = "cpu  1 2 4 1000 1000 8 16 32 0 0\ncpu0 9 9 9\n";
        assert_eq!(parse_stolen(stat), Some(Nanos::from_millis(320)));
        let program = "7 (a) S 1 2 3 4 5 4194304 7 8 9 10 250 30 20 10 20 0";
        assert_eq!(parse_program(program), Some(Nanos::from_millis(3100)));
        let kernel_thread = "7 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 30 0 0 20 0";
        assert_eq!(parse_program(kernel_thread), None);
        assert_eq!(parse_program("nothing"), None);
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
        assert!(process.cpu.total > Nanos(0) && of_programs() > Nanos(0));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(of_process(u32::MAX).is_err());
        assert!(of_threads(u32::MAX).is_err());
    }
}
