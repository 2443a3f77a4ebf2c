//! Almost sound PDUs of an initiator with right digests, cut anywhere: six bytes say what each is.
#![no_main]

use nearflash_iscsi::check::{
    Setup, Stage, check_segmentation_does_not_matter, check_target_never_panics, stream_of,
};

nearflash_fuzz::fuzz_target!(|input: &[u8]| {
    let [selector, part_len, recipe @ ..] = input else { return };
    let (header_digest, data_digest) = (selector & 1 != 0, selector & 2 != 0);
    let setup = Setup { header_digest, data_digest, ..Setup::default() };
    let stream = stream_of(setup, recipe);
    check_segmentation_does_not_matter(setup, &stream, usize::from(*part_len));
    check_target_never_panics(Stage::FullFeature, setup, &stream, usize::from(*part_len));
});
