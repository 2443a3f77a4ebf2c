//! Several connections at one core; ten bytes say what happens next.
#![no_main]

use nearflash_fuzz::shard::check_shard;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_shard(input));
