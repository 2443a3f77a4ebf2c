//! Placement of threads: pinning, and the distance between two cores.
//!
//! A virtual machine's cores may or may not share a core complex, and this changes while it runs.
//! Figures of an exchange between two cores depend on it by up to a factor of two. A comparison
//! therefore measures the distance before and after, and counts only pairs that were measured in
//! the same [`Place`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nearflash_units::Nanos;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

/// Index of a processor core, as numbered by the system.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CoreId(pub u16);

/// The reason why a thread could not be pinned.
#[derive(Clone, Copy, Debug, Eq, thiserror::Error, PartialEq)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PlacementError {
    /// The core does not exist, or the process may not use it.
    #[error(
        "core {core} cannot be used: {reason}; `nproc` and `taskset -p $$` show the available ones"
    )]
    CoreRefused { core: u16, reason: rustix::io::Errno },
}

/// Pins the calling thread to a core.
///
/// # Errors
/// When the core does not exist or is not allowed.
pub fn pin(core: CoreId) -> Result<(), PlacementError> {
    pin_thread(None, core)
}

/// Pins all threads of a process to a core.
///
/// # Errors
/// When the core does not exist or is not allowed, or there is no such process.
pub fn pin_process(process: u32, core: CoreId) -> Result<(), PlacementError> {
    let gone = PlacementError::CoreRefused { core: core.0, reason: rustix::io::Errno::SRCH };
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).map_err(|_| gone)?;
    let number = |name: std::ffi::OsString| Pid::from_raw(name.to_str()?.parse().ok()?);
    for thread in threads.flatten().filter_map(|entry| number(entry.file_name())) {
        match pin_thread(Some(thread), core) {
            // It has ended meanwhile.
            Err(PlacementError::CoreRefused { reason: rustix::io::Errno::SRCH, .. }) => {}
            pinned => pinned?,
        }
    }
    Ok(())
}

fn pin_thread(thread: Option<Pid>, core: CoreId) -> Result<(), PlacementError> {
    let index = usize::from(core.0);
    let refused = |reason| PlacementError::CoreRefused { core: core.0, reason };
    if index >= CpuSet::MAX_CPU {
        return Err(refused(rustix::io::Errno::INVAL));
    }
    let mut cores = CpuSet::new();
    cores.set(index);
    sched_setaffinity(thread, &cores).map_err(refused)
}

/// The cores that this process may use, in ascending order.
pub fn allowed_cores() -> Vec<CoreId> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let indices = 0..u16::try_from(CpuSet::MAX_CPU).unwrap_or(u16::MAX);
    indices.filter(|index| allowed.is_set(usize::from(*index))).map(CoreId).collect()
}

/// Round trips per sample of the distance.
const ROUND_TRIPS: u64 = 2_000;
/// Number of samples; the median counts.
const SAMPLES: usize = 9;
/// Upper limit of the distance between two cores with a common cache; without one it is at least
/// 150 ns. Measured on virtual machines with one and with several core complexes.
const NEAR_MAX: Nanos = Nanos(100);
/// Upper limit of the distance between two threads of one core: 13 ns on a machine where two cores
/// of one complex have 30 ns. They share execution units, so a spinning thread slows the other
/// down.
const SAME_CORE_MAX: Nanos = Nanos(20);

/// A word without neighbours on its cache line or the next, since lines are prefetched in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// The time that a cache line takes from one core to the other: half a round trip, median of
/// several samples. About 50 ns within a core complex, at least 150 ns across complexes.
///
/// # Errors
/// When a core cannot be used.
pub fn core_to_core(here: CoreId, there: CoreId) -> Result<Nanos, PlacementError> {
    let ball = Line(AtomicU64::new(0));
    let returns = ROUND_TRIPS * u64::try_from(SAMPLES).expect("a small constant");
    std::thread::scope(|scope| {
        // Each player pins itself, so the caller's affinity is unchanged. A player that cannot be
        // pinned still plays, since the other would wait forever.
        let back = scope.spawn(|| {
            let pinned = pin(there);
            for round in 0..returns {
                await_value(&ball, 2 * round + 1);
                ball.0.store(2 * round + 2, Ordering::Release);
            }
            pinned
        });
        let forth = scope.spawn(|| {
            let pinned = pin(here);
            let mut samples = [Nanos(0); SAMPLES];
            let mut round = 0;
            for sample in &mut samples {
                let start = Instant::now();
                for _ in 0..ROUND_TRIPS {
                    ball.0.store(2 * round + 1, Ordering::Release);
                    await_value(&ball, 2 * round + 2);
                    round += 1;
                }
                *sample = Nanos(elapsed(start).0 / (2 * ROUND_TRIPS));
            }
            samples.sort_unstable();
            pinned.map(|()| samples[SAMPLES / 2])
        });
        back.join().expect("the player has no panic")?;
        forth.join().expect("the player has no panic")
    })
}

fn await_value(ball: &Line, value: u64) {
    let mut spins = 0u32;
    while ball.0.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        // If both players are on one core, each would otherwise use up its time slice.
        if spins.is_multiple_of(1 << 14) {
            std::thread::yield_now();
        }
    }
}

/// Time since `start`.
pub fn elapsed(start: Instant) -> Nanos {
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The distance between two cores, judged by [`core_to_core`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Two threads of one core.
    SameCore,
    /// One core complex, with a common cache.
    Near,
    /// Different core complexes.
    Far,
}

impl Place {
    /// The place that a distance indicates.
    pub fn of(distance: Nanos) -> Self {
        match distance {
            distance if distance <= SAME_CORE_MAX => Self::SameCore,
            distance if distance <= NEAR_MAX => Self::Near,
            _ => Self::Far,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SameCore => "one core",
            Self::Near => "near",
            Self::Far => "far",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_does_not_exist_is_refused_by_name() {
        let refused = pin(CoreId(u16::MAX)).unwrap_err();
        assert!(refused.to_string().contains("core 65535"), "{refused}");
    }

    #[test]
    fn all_threads_of_a_process_are_pinned() {
        let core = allowed_cores()[0];
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        pin_process(child.id(), core).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{}\n", core.0)), "{status}");
        assert!(pin_process(u32::MAX, core).is_err());
    }

    #[test]
    fn threads_of_a_core_cores_of_a_complex_and_cores_beyond_are_told_apart() {
        assert_eq!(Place::of(Nanos(13)), Place::SameCore);
        assert_eq!(Place::of(Nanos(30)), Place::Near);
        assert_eq!(Place::of(Nanos(50)), Place::Near);
        assert_eq!(Place::of(Nanos(200)), Place::Far);
    }
}
