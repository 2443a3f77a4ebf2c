//! A random order in which every index comes once, without remembering which ones came.

use super::mix;

/// Rounds of the Feistel network. Three make a permutation that no simple test tells from a random
/// one; the fourth is for comfort.
const ROUNDS: u64 = 4;

/// A pseudo-random permutation of `0..count`.
///
/// A Feistel network over the smallest even number of bits that holds `count`, walked until the
/// result is in range: at most four steps on average, no memory, any count.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    /// One permutation of `0..count` for each key.
    ///
    /// # Panics
    /// When `count` is zero or over 2^62.
    pub fn new(count: u64, key: u64) -> Self {
        assert!(count > 0 && count <= 1 << 62, "a range has between one and 2^62 blocks");
        let bits = u64::BITS - (count - 1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), key: mix(key) }
    }

    /// The index that stands at `position`.
    ///
    /// # Panics
    /// When `position` is not below the count.
    pub fn at(&self, position: u64) -> u64 {
        assert!(position < self.count, "a position lies in the range");
        // A bijection of a larger set, iterated until it lands in the smaller one, is a bijection
        // of the smaller one.
        let mut index = self.shuffle(position);
        while index >= self.count {
            index = self.shuffle(index);
        }
        index
    }

    fn shuffle(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for round in 0..ROUNDS {
            let scrambled = mix(right ^ self.key.rotate_left(16).wrapping_add(round)) & mask;
            (left, right) = (right, left ^ scrambled);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_index_comes_exactly_once(count in 1u64..5000, key: u64) {
            let permutation = Permutation::new(count, key);
            let mut indices: Vec<u64> = (0..count).map(|position| permutation.at(position)).collect();
            indices.sort_unstable();
            prop_assert_eq!(indices, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_keys_give_two_orders() {
        let order = |key| {
            let permutation = Permutation::new(1000, key);
            (0..1000).map(|position| permutation.at(position)).collect::<Vec<_>>()
        };
        assert_ne!(order(1), order(2));
        assert_eq!(order(1), order(1));
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let permutation = Permutation::new(1 << 20, 7);
        let near = (1u64..10_000)
            .filter(|position| {
                permutation.at(*position).abs_diff(permutation.at(position - 1)) < 64
            })
            .count();
        // By chance about one in ten thousand is this near.
        assert!(near < 20, "{near} neighbours stayed near");
    }
}
