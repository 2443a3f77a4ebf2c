//! A target's answers at an initiator's session; eight bytes say what happens next.
#![no_main]

use nearflash_iscsi::check::check_initiator_never_panics;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_initiator_never_panics(input));
