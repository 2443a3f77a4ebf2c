//! Lists, names, identify structures and log pages, as a host reads them.
#![no_main]

use nearflash_fuzz::structures::check_structures;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_structures(input));
