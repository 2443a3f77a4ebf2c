//! Both ends against one another: twelve bytes are a scenario.
#![no_main]

use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::check::{PairScenario, check_pair};

nearflash_fuzz::fuzz_target!(|input: [u8; 12]| {
    let [seed @ .., options, capsule, alignment, operations] = input;
    check_pair(PairScenario {
        seed: u64::from_le_bytes(seed),
        digests: Digests { header: options & 1 != 0, data: options & 2 != 0 },
        flow_control: options & 4 != 0,
        in_capsule_len_max: u32::from(capsule % 33) * 512,
        alignment: alignment % 32,
        operations: usize::from(operations),
    });
});
