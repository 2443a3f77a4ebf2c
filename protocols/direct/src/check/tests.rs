//! The properties, called with many inputs.

use proptest::prelude::*;

use super::{
    PairScenario, check_client_never_panics, check_pair, check_segmentation_does_not_matter,
    check_target_never_panics, stream_of,
};
use crate::Digests;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_ends_agree_with_a_model_of_the_volume(
        seed: u64, header: bool, data: bool, with_key: bool, by_rings: bool, large_blocks: bool,
        sealed: bool, operations in 0usize..120,
    ) {
        let digests = Digests { header, data };
        check_pair(PairScenario {
            seed, digests, with_key, by_rings, large_blocks, sealed, operations,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_break_a_target(input in prop::collection::vec(any::<u8>(), 0..600)) {
        check_target_never_panics(&input);
    }

    #[test]
    fn no_almost_sound_messages_break_a_target(
        selector: u8, cut: u8, instructions in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let stream = stream_of(selector, &instructions);
        check_target_never_panics(&[&[selector, cut], &stream[..]].concat());
    }

    #[test]
    fn a_target_does_the_same_however_its_stream_is_cut(
        selector: u8,
        instructions in prop::collection::vec(any::<u8>(), 0..200),
        cuts in prop::collection::vec(any::<u8>(), 1..5),
    ) {
        let stream = stream_of(selector, &instructions);
        check_segmentation_does_not_matter(selector, &stream, &cuts);
    }

    #[test]
    fn no_answers_break_a_client(input in prop::collection::vec(any::<u8>(), 0..800)) {
        check_client_never_panics(&input);
    }
}
