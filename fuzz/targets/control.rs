//! Requests of the control socket.
#![no_main]

use nearflash_node::check::check_control_request;

nearflash_fuzz::fuzz_target!(|input: &[u8]| check_control_request(input));
