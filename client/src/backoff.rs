//! The wait before a reconnect.

use nearflash_units::Nanos;

/// A wait that doubles with every failure, between bounds. Pure: the caller does the waiting.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Nanos,
    longest: Nanos,
}

impl Backoff {
    /// A wait from `first` to `longest`.
    pub(crate) fn new(first: Nanos, longest: Nanos) -> Self {
        Self { next: first, longest }
    }

    /// The wait after another failure.
    pub(crate) fn next_wait(&mut self) -> Nanos {
        let wait = self.next;
        self.next = wait.plus(wait).min(self.longest);
        wait
    }
}

impl Default for Backoff {
    /// From 100 ms to 10 s, the reconnect delay of Linux.
    fn default() -> Self {
        Self::new(Nanos::from_millis(100), Nanos::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Nanos::from_millis(100), Nanos::from_millis(350));
        let waits: Vec<u64> = (0..4).map(|_| backoff.next_wait().0 / 1_000_000).collect();
        assert_eq!(waits, [100, 200, 350, 350]);
    }
}
