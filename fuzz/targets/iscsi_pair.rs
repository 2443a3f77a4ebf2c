//! Both ends of iSCSI against one another: eleven bytes are a scenario.
#![no_main]

use nearflash_iscsi::check::{PairScenario, check_pair};

nearflash_fuzz::fuzz_target!(|input: [u8; 11]| {
    let [seed @ .., options, receive_len, operations] = input;
    check_pair(PairScenario {
        seed: u64::from_le_bytes(seed),
        digests: [options & 1 != 0, options & 2 != 0],
        with_account: options & 4 != 0,
        connections: 1 + u16::from(options >> 3 & 3),
        initial_r2t: options & 32 != 0,
        immediate_data: options & 64 != 0,
        receive_len_max: 512 * (1 + u32::from(receive_len)),
        operations: usize::from(operations),
    });
});
