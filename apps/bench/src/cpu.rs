//! Processor time of the calling thread.

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
}
