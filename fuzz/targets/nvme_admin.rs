//! Commands of an admin queue, 64 bytes each.
#![no_main]

use nearflash_nvme::check::check_admin_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_admin_never_panics(input));
