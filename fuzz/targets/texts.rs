//! Sizes, times, names, devices and volumes, as people write them.
#![no_main]

use nearflash_fuzz::texts::check_texts;

nearflash_fuzz::fuzz_target!(|text: &str| check_texts(text));
