//! A node's answers at a client's direct session; eight bytes say what happens next.
#![no_main]

use nearflash_direct::check::check_client_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_client_never_panics(input));
