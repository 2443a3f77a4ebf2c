//! Where threads run: pinning, and how far two cores are from each other.
//!
//! A virtual machine's cores sometimes share a core complex and sometimes do not, and they move
//! while it runs. Every figure of an exchange between two cores depends on that by up to a factor
//! of two, so a comparison measures the distance before and after, and counts only pairs whose
//! halves were measured in the same [`Place`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nearflash_units::Nanos;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Index of a processor core, as the system counts them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CoreId(pub u16);

/// Why a thread could not be put on a core.
#[derive(Clone, Copy, Debug, Eq, thiserror::Error, PartialEq)]
pub enum PlacementError {
    /// No such core, or the process may not use it.
    #[error("core {core} cannot be used: {reason}; `nproc` and `taskset -p $$` tell which can")]
    CoreRefused {
        /// Which.
        core: u16,
        /// What the system said.
        reason: rustix::io::Errno,
    },
}

/// Keeps the calling thread on one core.
///
/// # Errors
/// When the core does not exist or is forbidden.
pub fn pin(core: CoreId) -> Result<(), PlacementError> {
    let index = usize::from(core.0);
    let refused = |reason| PlacementError::CoreRefused { core: core.0, reason };
    if index >= CpuSet::MAX_CPU {
        return Err(refused(rustix::io::Errno::INVAL));
    }
    let mut cores = CpuSet::new();
    cores.set(index);
    sched_setaffinity(None, &cores).map_err(refused)
}

/// The cores that this process may use, ascending.
pub fn allowed_cores() -> Vec<CoreId> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let indices = 0..u16::try_from(CpuSet::MAX_CPU).unwrap_or(u16::MAX);
    indices.filter(|index| allowed.is_set(usize::from(*index))).map(CoreId).collect()
}

/// How many round trips one sample of the distance makes.
const ROUND_TRIPS: u64 = 2_000;
/// How many samples are taken; the median counts.
const SAMPLES: usize = 9;
/// A core that shares its cache with ours answers within this; one that does not takes 150 ns and
/// more. Measured on virtual machines of one and of several core complexes.
const NEAR_MAX: Nanos = Nanos(100);
/// Two threads of one core answer within this: 13 ns on a machine where two cores of one complex
/// take 30. They share what executes, so that one that spins slows the other down.
const SAME_CORE_MAX: Nanos = Nanos(20);

/// A word alone on its cache lines: neighbours are fetched in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// The time that one cache line takes from one core to the other: half a round trip, median of
/// several samples. About 50 ns within a core complex, 150 ns and more beyond.
///
/// # Errors
/// When a core cannot be used.
pub fn core_to_core(here: CoreId, there: CoreId) -> Result<Nanos, PlacementError> {
    let ball = Line(AtomicU64::new(0));
    let returns = ROUND_TRIPS * u64::try_from(SAMPLES).expect("a small constant");
    std::thread::scope(|scope| {
        // Each player pins itself and the caller's own place is left alone. A player that cannot
        // be pinned still plays, or the other would wait for ever.
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
        // Both players on one core: without this each would play out its time slice.
        if spins.is_multiple_of(1 << 14) {
            std::thread::yield_now();
        }
    }
}

/// Time since `start`.
pub(crate) fn elapsed(start: Instant) -> Nanos {
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// What two cores share, judged by [`core_to_core`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// They are threads of one core.
    SameCore,
    /// Within one core complex: a cache.
    Near,
    /// Beyond it.
    Far,
}

impl Place {
    /// The place that a distance means.
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
    fn threads_of_a_core_cores_of_a_complex_and_cores_beyond_are_told_apart() {
        assert_eq!(Place::of(Nanos(13)), Place::SameCore);
        assert_eq!(Place::of(Nanos(30)), Place::Near);
        assert_eq!(Place::of(Nanos(50)), Place::Near);
        assert_eq!(Place::of(Nanos(200)), Place::Far);
    }
}
