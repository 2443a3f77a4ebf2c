//! A controller's answers at a host's session; eight bytes say what happens next.
#![no_main]

use nearflash_nvme_tcp::check::check_host_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_host_never_panics(input));
