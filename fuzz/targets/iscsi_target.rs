//! Bytes at a target's session, in each of its stages: the first byte says which and with which
//! digests, the second how the rest is cut.
#![no_main]

use nearflash_iscsi::check::{Setup, Stage, check_target_never_panics};

nearflash_fuzz::fuzz_target!(|input: &[u8]| {
    let [selector, part_len, stream @ ..] = input else { return };
    let stage = Stage::ALL[usize::from(selector >> 2) % Stage::ALL.len()];
    let (header_digest, data_digest) = (selector & 1 != 0, selector & 2 != 0);
    let setup = Setup { header_digest, data_digest, ..Setup::default() };
    check_target_never_panics(stage, setup, stream, usize::from(*part_len));
});
