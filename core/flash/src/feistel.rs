//! A keyed permutation of `0..count`: a Feistel network over an even number of bits, with cycle
//! walking for other counts.

use crate::random::{Random, mix};

/// Rounds of the network: enough to break up regular patterns of addresses.
const ROUNDS: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Feistel {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Feistel {
    pub(crate) fn new(count: u32, seed: u64) -> Self {
        let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
        let mut random = Random::new(seed);
        let keys = std::array::from_fn(|_| random.bits());
        Self { count: u64::from(count), half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// The number that takes the place of `number`, which is below the count.
    pub(crate) fn permute(&self, number: u32) -> u32 {
        let mut found = u64::from(number);
        // The network permutes up to four times as many numbers. Walking along a cycle of it
        // returns to a number below the count, since it began with one.
        loop {
            found = self.network(found);
            if found < self.count {
                return u32::try_from(found).expect("the count has 32 bits");
            }
        }
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let halves = (number >> self.half_bits, number & mask);
        let (left, right) = self
            .keys
            .iter()
            .fold(halves, |(left, right), key| (right, left ^ (mix(right ^ key) & mask)));
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_has_one_place(count in 1_u32..3_000, seed: u64) {
            let feistel = Feistel::new(count, seed);
            let mut places: Vec<u32> = (0..count).map(|number| feistel.permute(number)).collect();
            places.sort_unstable();
            prop_assert!(places.into_iter().eq(0..count));
        }
    }

    #[test]
    fn neighbours_do_not_stay_together() {
        let feistel = Feistel::new(1_024, 7);
        let near = (0..1_023)
            .filter(|&number| feistel.permute(number).abs_diff(feistel.permute(number + 1)) <= 8)
            .count();
        // A random permutation puts 1.6 % of the pairs so close.
        assert!(near < 40, "{near}");
    }
}
