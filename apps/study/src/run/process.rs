//! What the system says of a process and of the machine: processor time used, and waited for.

use std::fs;
use std::path::Path;

use nearflash_units::Nanos;

/// Ticks of /proc per second: 100 on every Linux that programs see.
const TICK: Nanos = Nanos::from_millis(10);
/// utime and stime of /proc/PID/stat, counted from the field after the command's parenthesis.
const UTIME_FIELD: usize = 11;
/// Fields of the first line of /proc/stat in which a processor works: user, nice, system, irq,
/// softirq, and steal, in which another machine had it.
const BUSY_FIELDS: [usize; 6] = [0, 1, 2, 5, 6, 7];

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Used, exactly.
    pub(crate) used: Nanos,
    /// In the program, as the system samples it.
    pub(crate) user: Nanos,
    /// In the kernel, as the system samples it.
    pub(crate) system: Nanos,
    /// Ready to run and not let to.
    pub(crate) waited: Nanos,
}

impl Usage {
    /// Of a process with all its threads; nothing once it is gone.
    pub(crate) fn of(process_id: u32) -> Self {
        let dir = Path::new("/proc").join(process_id.to_string());
        let stat = fs::read_to_string(dir.join("stat")).unwrap_or_default();
        let (user, system) = sampled(&stat).unwrap_or_default();
        let tasks = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
        let exact = tasks
            .filter_map(|task| exact(&fs::read_to_string(task.path().join("schedstat")).ok()?))
            .fold((Nanos(0), Nanos(0)), |sum, one| (sum.0.plus(one.0), sum.1.plus(one.1)));
        // A kernel without schedstat has the ticks.
        let used = if exact.0 == Nanos(0) { user.plus(system) } else { exact.0 };
        Self { used, user, system, waited: exact.1 }
    }

    /// What came since an earlier look.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            used: self.used.since(earlier.used),
            user: self.user.since(earlier.user),
            system: self.system.since(earlier.system),
            waited: self.waited.since(earlier.waited),
        }
    }

    /// The exact time, parted into the program's and the kernel's as it was sampled.
    pub(crate) fn parted(self) -> (f64, f64) {
        part(self.used, self.user, self.system)
    }
}

/// An exact time, parted as two samples say; in nanoseconds. Without samples all is the program's.
pub(crate) fn part(exact: Nanos, user: Nanos, system: Nanos) -> (f64, f64) {
    let sampled = user.plus(system).0;
    let kernel = if sampled == 0 { 0.0 } else { system.0 as f64 / sampled as f64 };
    let exact = exact.0 as f64;
    (exact * (1.0 - kernel), exact * kernel)
}

/// utime and stime: proc(5).
fn sampled(stat: &str) -> Option<(Nanos, Nanos)> {
    // The command may contain anything, so count from its last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(UTIME_FIELD);
    let mut ticks = || fields.next()?.parse::<u64>().ok().map(|n| Nanos(n * TICK.0));
    Some((ticks()?, ticks()?))
}

/// Time on a processor and time waited for one, of /proc/PID/task/TID/schedstat.
fn exact(schedstat: &str) -> Option<(Nanos, Nanos)> {
    let mut fields = schedstat.split_whitespace().map(|field| field.parse().map(Nanos).ok());
    Some((fields.next()??, fields.next()??))
}

/// Time that all processors of the machine have worked, for whomever.
pub(crate) fn machine_busy() -> Nanos {
    busy(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
}

fn busy(stat: &str) -> Option<Nanos> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = all.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let ticks: u64 = BUSY_FIELDS.iter().filter_map(|field| fields.get(*field)).sum();
    Some(Nanos(ticks * TICK.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_what_the_system_says() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0";
        assert_eq!(sampled(stat), Some((Nanos::from_millis(2500), Nanos::from_millis(300))));
        assert_eq!(exact("1500 20 3\n"), Some((Nanos(1500), Nanos(20))));
        assert_eq!(exact("no"), None);
        let stat = "cpu  1 2 4 1000 1000 8 16 32 0 0\ncpu0 9 9 9\n";
        assert_eq!(busy(stat), Some(Nanos::from_millis(630)));
    }

    #[test]
    fn exact_time_is_parted_as_the_samples_are() {
        assert_eq!(part(Nanos(100), Nanos(30), Nanos(10)), (75.0, 25.0));
        assert_eq!(part(Nanos(100), Nanos(0), Nanos(0)), (100.0, 0.0));
    }

    #[test]
    fn a_process_that_works_has_used_time_and_one_that_is_gone_none() {
        let mut sum = 0u64;
        for number in 0..10_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
        assert!(Usage::of(std::process::id()).used > Nanos(0), "{sum}");
        assert_eq!(Usage::of(u32::MAX), Usage::default());
    }
}
