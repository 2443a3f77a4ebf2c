//! Bytes at a controller's session in each of its states: the first says which.
#![no_main]

use nearflash_nvme_tcp::check::check_target_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_target_never_panics(input));
