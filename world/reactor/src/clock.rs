//! The clock of a node. It goes on while the machine is suspended, so a lease that another node has given
//! is over when the machine comes back.

use nearflash_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The origin of a node's time, which all cores share.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Nanos);

impl Epoch {
    /// Time begins now.
    #[must_use]
    pub fn now() -> Self {
        Self(read())
    }

    /// The time of this node that is that time since the machine's start.
    #[must_use]
    pub fn at(self, since_boot: Nanos) -> Nanos {
        since_boot.since(self.0)
    }

    /// The time since then.
    #[inline]
    pub(crate) fn elapsed(self) -> Nanos {
        read().since(self.0)
    }
}

/// The system's clock that never stops and is never set.
#[inline]
fn read() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let epoch = Epoch::now();
        let first = epoch.elapsed();
        while epoch.elapsed() == first {}
        assert!(epoch.elapsed() > first && first < Nanos::from_secs(3600));
    }
}
