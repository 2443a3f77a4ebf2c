//! All randomness of a run, from one seed: splitmix64, which needs no dependency and never changes.

use nearflash_units::Nanos;

/// A stream of numbers that is a function of its seed.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Another stream, so that more draws in one do not change the other.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.roll())
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both inclusive.
    ///
    /// # Panics
    /// When `high` is below `low`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low}..={high} is empty");
        match (high - low).checked_add(1) {
            Some(width) => low + self.roll() % width,
            None => self.roll(),
        }
    }

    /// An index into `len` elements.
    ///
    /// # Panics
    /// When `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.len(0, len - 1)
    }

    /// A length from `low` to `high`, both inclusive.
    pub fn len(&mut self, low: usize, high: usize) -> usize {
        let wide = |len: usize| u64::try_from(len).expect("usize is at most 64 bits wide");
        usize::try_from(self.between(wide(low), wide(high))).expect("no more than a usize")
    }

    /// A span from `range.0` to `range.1`.
    pub fn span(&mut self, range: (Nanos, Nanos)) -> Nanos {
        Nanos(self.between(range.0.0, range.1.0))
    }

    /// True `rate` times in a thousand.
    pub fn permille(&mut self, rate: u32) -> bool {
        self.between(0, 999) < u64::from(rate)
    }

    /// True every second time.
    pub fn coin(&mut self) -> bool {
        self.roll() & 1 == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_its_seed() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            std::array::from_fn::<u64, 8, _>(|_| dice.roll())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_are_reached_and_kept() {
        let mut dice = Dice::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| dice.between(3, 6)).collect();
        assert!((3..=6).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (3..=6).contains(number)));
    }
}
