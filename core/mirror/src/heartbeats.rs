//! Which cores of this node turn. A node with a core that does not serves nothing that needs that core, and its
//! leases would only keep the other node from serving it.
//!
//! A core counts its turns, and turns at least once a second, also if it has nothing to do. The thread that
//! follows the membership looks at the counts. It stands still, too, while the whole process does, for example
//! while the machine is suspended. Such a time says nothing about the cores, so no more than a moment of it
//! counts.

use nearflash_units::Nanos;

/// A core that has not turned for longer is silent.
pub const SILENCE_MAX: Nanos = Nanos::from_secs(3);

/// The time between two looks that counts at most.
const GAP_MAX: Nanos = Nanos::from_millis(500);

/// The heartbeats of all cores, in their order.
#[derive(Debug, Default)]
pub struct Heartbeats {
    cores: Vec<Heartbeat>,
    looked_at: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Heartbeat {
    turns: u64,
    /// The time since the count has changed.
    still_for: Nanos,
}

impl Heartbeats {
    /// Looks at the turns that each core has counted.
    pub fn look(&mut self, now: Nanos, turns: impl IntoIterator<Item = u64>) {
        let gap = now.since(self.looked_at.unwrap_or(now)).min(GAP_MAX);
        self.looked_at = Some(now);
        for (core, turns) in turns.into_iter().enumerate() {
            match self.cores.get_mut(core) {
                Some(known) if known.turns == turns => known.still_for = known.still_for.plus(gap),
                Some(known) => *known = Heartbeat { turns, still_for: Nanos(0) },
                None => self.cores.push(Heartbeat { turns, still_for: Nanos(0) }),
            }
        }
    }

    /// The cores that are silent, and for how long.
    pub fn silent(&self) -> impl Iterator<Item = (usize, Nanos)> + '_ {
        let cores = self.cores.iter().map(|core| core.still_for).enumerate();
        cores.filter(|(_, still_for)| *still_for > SILENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(heartbeats: &Heartbeats) -> Vec<usize> {
        heartbeats.silent().map(|(core, _)| core).collect()
    }

    #[test]
    fn a_core_is_silent_when_its_count_has_stood_still_for_three_seconds() {
        let mut heartbeats = Heartbeats::default();
        for look in 0..=31 {
            assert!(silent(&heartbeats).is_empty());
            // The second one turns once a second, because it has nothing to do.
            heartbeats.look(Nanos::from_millis(look * 100), [7, look / 10]);
        }
        assert_eq!(heartbeats.silent().collect::<Vec<_>>(), [(0, Nanos::from_millis(3100))]);
        heartbeats.look(Nanos::from_millis(3200), [8, 3]);
        assert!(silent(&heartbeats).is_empty());
    }

    #[test]
    fn a_process_that_stood_still_does_not_count_its_cores_as_silent() {
        let mut heartbeats = Heartbeats::default();
        // Each time, the cores turn only after the look.
        for look in 0..5 {
            heartbeats.look(Nanos::from_secs(look * 60), [7, 7]);
        }
        assert!(silent(&heartbeats).is_empty());
    }
}
