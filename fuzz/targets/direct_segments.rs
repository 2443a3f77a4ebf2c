//! Almost sound messages of the direct protocol with right digests, cut anywhere: eight bytes say
//! what each is.
#![no_main]

use nearflash_direct::check::{
    check_segmentation_does_not_matter, check_target_never_panics, stream_of,
};

nearflash_fuzz::fuzz_target!(|input: &[u8]| {
    let [selector, first, second, third, instructions @ ..] = input else { return };
    let stream = stream_of(*selector, instructions);
    check_segmentation_does_not_matter(*selector, &stream, &[*first, *second, *third]);
    check_target_never_panics(&[&[*selector, *first], &stream[..]].concat());
});
