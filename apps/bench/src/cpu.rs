//! Processor time: of the calling thread, and of other processes as the system counts it.

use std::io;
use std::path::{Path, PathBuf};

use nearflash_units::Nanos;

use crate::recorder::CpuTime;

/// Ticks of /proc per second: 100 on every Linux that programs see.
const TICK: Nanos = Nanos::from_millis(10);
/// utime and stime, counted from the field after the command's closing parenthesis.
const UTIME_FIELD: usize = 11;
/// Field of the first line of /proc/stat that counts what another machine had.
const STEAL_FIELD: usize = 7;
/// The kernel's own threads have this in the field of flags of /proc/PID/stat (PF_KTHREAD, in
/// include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// That field, and utime, stime, cutime and cstime behind it, counted as [`UTIME_FIELD`].
const FLAGS_FIELD: usize = 6;

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

/// Processor time of a process, all its threads together.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTime {
    /// What it used.
    pub cpu: CpuTime,
    /// How long its threads were ready to run and not let to.
    pub waited: Nanos,
}

impl ProcessTime {
    /// What came since an earlier look.
    pub fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.since(earlier.cpu), waited: self.waited.since(earlier.waited) }
    }
}

/// What a process has used since it was started: a node, or a peer. The total is exact to a tick of
/// the scheduler, where the system counts it; user and system are as the system samples them.
///
/// # Errors
/// When there is no such process.
pub fn of_process(pid: u32) -> io::Result<ProcessTime> {
    let dir = Path::new("/proc").join(pid.to_string());
    let (user, system) = sampled(&dir)?;
    let exact = tasks(&dir)?.into_iter().filter_map(|task| exact(&task));
    let (used, waited) =
        exact.fold((Nanos(0), Nanos(0)), |sum, one| (sum.0.plus(one.0), sum.1.plus(one.1)));
    // Threads that have ended are in the process's ticks alone, and so is everything on a kernel
    // without schedstat.
    let total = used.max(user.plus(system));
    Ok(ProcessTime { cpu: CpuTime { total, user, system }, waited })
}

/// The same by threads, in the order in which they were started. One that ends meanwhile is left out.
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

/// Time on a processor, and time waited for one, in nanoseconds. Linux,
/// Documentation/scheduler/sched-stats.
fn exact(task: &Path) -> Option<(Nanos, Nanos)> {
    parse_schedstat(&std::fs::read_to_string(task.join("schedstat")).ok()?)
}

fn parse_schedstat(schedstat: &str) -> Option<(Nanos, Nanos)> {
    let mut fields = schedstat.split_whitespace().map(|field| field.parse().map(Nanos).ok());
    Some((fields.next()??, fields.next()??))
}

/// What all programs of the machine have used, with those that have ended, and what other machines
/// had of its processors; to a tick. The kernel's own threads are left out: what they do, they do for
/// somebody, and while one of ours reads and writes mostly for it.
pub fn of_programs() -> Nanos {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let times =
        processes.filter(|entry| entry.file_name().to_str().is_some_and(is_number)).filter_map(
            // One that ends meanwhile is in its parent's time.
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

/// What a process and its children that have ended used, from a line of /proc/PID/stat; nothing for
/// a thread of the kernel.
fn parse_program(stat: &str) -> Option<Nanos> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(FLAGS_FIELD);
    let flags: u64 = fields.next()?.parse().ok()?;
    if flags & KERNEL_THREAD != 0 {
        return None;
    }
    let times = fields.skip(UTIME_FIELD - FLAGS_FIELD - 1).take(4);
    // Times of children are signed, and never negative.
    let ticks: u64 = times.map(|field| field.parse().unwrap_or(0)).sum();
    Some(Nanos(ticks * TICK.0))
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
