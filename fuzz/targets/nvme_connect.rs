//! A Connect: the command, then its 1024 bytes of data.
#![no_main]

use nearflash_nvme::check::check_connect_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_connect_never_panics(input));
