//! A configuration file.
#![no_main]

use nearflash_node::check::check_config_file;

nearflash_fuzz::fuzz_target!(|text: &str| check_config_file(text));
