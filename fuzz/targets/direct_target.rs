//! Bytes and ring entries at a node's direct session, in each of its states: the first two bytes
//! say which, and how the rest is cut.
#![no_main]

use nearflash_direct::check::check_target_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_target_never_panics(input));
