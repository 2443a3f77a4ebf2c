//! I/O commands and ranges, 64 bytes each.
#![no_main]

use nearflash_nvme::check::check_decode_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_decode_never_panics(input));
