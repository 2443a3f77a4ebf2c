//! Text of logins at both ends of it: the first byte says what was said before.
#![no_main]

use nearflash_iscsi::check::{
    check_initiator_login_never_panics, check_login_never_panics, check_pairs,
};

nearflash_fuzz::fuzz_target!(|input: &[u8]| {
    check_login_never_panics(input);
    check_initiator_login_never_panics(input);
    check_pairs(input);
});
