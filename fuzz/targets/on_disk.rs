//! Labels, foreign data and catalog records.
#![no_main]

use nearflash_fuzz::on_disk::check_on_disk;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_on_disk(input));
