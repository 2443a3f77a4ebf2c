//! Both ends of the direct protocol against one another: ten bytes are a scenario.
#![no_main]

use nearflash_direct::Digests;
use nearflash_direct::check::{PairScenario, check_pair};

nearflash_fuzz::fuzz_target!(|input: [u8; 10]| {
    let [seed @ .., options, operations] = input;
    check_pair(PairScenario {
        seed: u64::from_le_bytes(seed),
        digests: Digests { header: options & 1 != 0, data: options & 2 != 0 },
        with_key: options & 4 != 0,
        by_rings: options & 8 != 0,
        large_blocks: options & 16 != 0,
        operations: usize::from(operations),
    });
});
