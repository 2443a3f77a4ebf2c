//! A random order that visits every index once, without memory of those visited.

use super::splitmix64;

/// Pairs of rounds of the Feistel network.
const ROUND_PAIRS: usize = 2;
/// An odd number without a pattern: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A pseudo-random permutation of `0..count`.
///
/// A Feistel network over as many bits as `count` needs, iterated until the result is in range:
/// less than two steps on average, no memory, and any count. A job calls it for every operation, so
/// a round is one multiplication.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [[u64; 2]; ROUND_PAIRS],
}

impl Permutation {
    /// The permutation of `0..count` for a key.
    ///
    /// # Panics
    /// When `count` is zero or above 2^62.
    pub fn new(count: u64, key: u64) -> Self {
        assert!(count > 0 && count <= 1 << 62, "a range has between one and 2^62 blocks");
        let bits = u64::BITS - (count - 1).leading_zeros();
        let low_bits = bits.div_ceil(2);
        let mut state = key;
        Self {
            count,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|_| std::array::from_fn(|_| splitmix64(&mut state))),
        }
    }

    /// The index at `position`.
    ///
    /// # Panics
    /// When `position` is not below the count.
    #[inline]
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

    /// Each half is changed by a function of the other, so this is a bijection for any function.
    #[inline]
    fn shuffle(&self, index: u64) -> u64 {
        let (mut high, mut low) = (index >> self.low_bits, index & self.low_mask);
        for [first, second] in self.keys {
            high ^= scramble(low, first) & self.high_mask;
            low ^= scramble(high, second) & self.low_mask;
        }
        high << self.low_bits | low
    }
}

#[inline]
fn scramble(half: u64, key: u64) -> u64 {
    (half ^ key).wrapping_mul(SPREAD) >> 32
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
