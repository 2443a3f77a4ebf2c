//! Pseudo-random numbers from a seed: splitmix64.

/// A generator. The same seed gives the same numbers forever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "no number is below 0");
        let scaled = (self.bits() >> 32) * u64::from(bound);
        u32::try_from(scaled >> 32).expect("a product of 32-bit numbers, halved")
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        const STEPS: f64 = 4_294_967_296.0;
        f64::from(u32::try_from(self.bits() >> 32).expect("32 bits remain")) / STEPS
    }
}

/// Spreads the bits of a number over all 64 bits.
pub(crate) const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[nearflash_units::index(random.below(7))] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.fraction())));
    }
}
