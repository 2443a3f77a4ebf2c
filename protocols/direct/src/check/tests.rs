//! The properties, called with many inputs.

use proptest::prelude::*;

use super::{PairScenario, check_pair};
use crate::digest::Digests;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_ends_agree_with_a_model_of_the_volume(
        seed: u64, header: bool, data: bool, with_key: bool, by_rings: bool, large_blocks: bool,
        operations in 0usize..120,
    ) {
        let digests = Digests { header, data };
        check_pair(PairScenario { seed, digests, with_key, by_rings, large_blocks, operations });
    }
}
