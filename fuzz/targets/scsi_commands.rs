//! SCSI commands and their parameters: the first byte is a unit's kind.
#![no_main]

use nearflash_scsi::check::{
    check_any_command, check_commands_against_memory, check_forms_agree, check_usage_map,
};

nearflash_fuzz::fuzz_target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else { return };
    check_any_command(*kind, bytes);
    check_usage_map(*kind, bytes);
    check_commands_against_memory(*kind, bytes);
    if let [a, b, c, d, e, f, ..] = *bytes {
        check_forms_agree(u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
    }
});
