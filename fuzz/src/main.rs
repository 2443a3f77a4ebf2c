//! All targets in one program, so that one is linked: `FUZZ_TARGET` names the one to fuzz.
#![no_main]

mod memory;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nearflash_inputs::TARGETS;

static CHECK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    target
        .unwrap_or_else(|| panic!("FUZZ_TARGET='{name}' is not a target of nearflash-inputs"))
        .check
});

fuzz_target!(|input: &[u8]| CHECK(input));
