//! The properties as proptests.

use proptest::prelude::*;

use super::*;
use crate::digest::Digests;

proptest! {
    #[test]
    fn raw_streams_never_panic_the_target(input in prop::collection::vec(any::<u8>(), 0..600)) {
        check_target_never_panics(&input);
    }

    #[test]
    fn almost_sound_streams_never_panic_the_target(
        selector: u8,
        instructions in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut input = vec![selector];
        input.extend(stream_of(selector, &instructions));
        check_target_never_panics(&input);
    }

    #[test]
    fn no_controller_panics_the_host(input in prop::collection::vec(any::<u8>(), 0..600)) {
        check_host_never_panics(&input);
    }

    #[test]
    fn however_tcp_cuts_the_stream_the_target_does_the_same(
        selector: u8,
        instructions in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let stream = stream_of(selector, &instructions);
        check_segmentation_does_not_matter(selector, &stream, &cuts);
        check_segmentation_does_not_matter(selector, &instructions, &cuts);
    }

    #[test]
    fn both_ends_agree_whatever_is_asked_and_however_tcp_cuts(
        seed: u64,
        (header, data) in any::<(bool, bool)>(),
        flow_control: bool,
        in_capsule_len_max in prop::sample::select(vec![0u32, 4096, 16 * 1024]),
        alignment in 0u8..32,
    ) {
        let digests = Digests { header, data };
        let operations = 40;
        check_pair(PairScenario {
            seed, digests, flow_control, in_capsule_len_max, alignment, operations,
        });
    }
}
