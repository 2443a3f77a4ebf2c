//! The properties as proptests.

use proptest::prelude::*;

use super::{
    Model, check_any_command, check_commands_against_memory, check_forms_agree, check_usage_map,
    unit,
};
use crate::commands::GROUPS;
use crate::{CDB_LEN, Cdb};

/// A CDB of a supported command, with random values for the bits of its usage data.
fn known_command() -> impl Strategy<Value = [u8; CDB_LEN]> {
    let commands: Vec<_> = GROUPS.into_iter().flatten().collect();
    (prop::sample::select(commands), any::<[u8; CDB_LEN]>(), any::<[u8; CDB_LEN]>()).prop_map(
        |(command, bytes, sparse)| {
            let mut cdb = [0; CDB_LEN];
            for (index, usage) in command.usage.iter().enumerate() {
                cdb[index] = bytes[index] & sparse[index] & usage;
            }
            cdb[0] = command.opcode();
            if let Some(action) = command.service_action() {
                cdb[1] = (cdb[1] & !0x1F) | action;
            }
            cdb
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_command_breaks_a_unit(kind: u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_any_command(kind, &bytes);
    }

    #[test]
    fn no_almost_sound_command_breaks_a_unit(
        kind: u8, cdb in known_command(), list in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        check_any_command(kind, &[&cdb[..], &list].concat());
    }

    #[test]
    fn bits_outside_of_the_usage_map_change_nothing(
        kind: u8, cdb in known_command(), noise: [u8; CDB_LEN], sparse: [u8; CDB_LEN],
    ) {
        let mut noisy = cdb;
        for index in 1..CDB_LEN {
            noisy[index] |= noise[index] & sparse[index];
        }
        check_usage_map(kind, &noisy);
    }

    #[test]
    fn all_forms_of_a_command_name_the_same_blocks(start in 0_u32..5000, count: u16) {
        check_forms_agree(start, count);
        check_forms_agree(start, count & 0xFF);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn commands_agree_with_a_unit_in_memory(
        kind: u8, pieces in prop::collection::vec((known_command(), any::<[u8; 8]>()), 1..20),
    ) {
        let bytes: Vec<u8> = pieces.iter().flat_map(|(cdb, seed)| [&cdb[..], seed].concat()).collect();
        check_commands_against_memory(kind, &bytes);
    }

    #[test]
    fn what_is_written_is_read(start in 0_u8..60, count in 1_u8..4, fill: u8) {
        let mut model = Model::new(unit(4));
        let written = [0x8A, 0, 0, 0, 0, 0, 0, 0, 0, start, 0, 0, 0, count, 0, 0];
        model.execute(&Cdb(written), &[fill]).unwrap();
        let read = model.execute(&Cdb::new(&[0x08, 0, 0, start, count, 0]), &[]).unwrap();
        assert_eq!(read, vec![fill; 512 * usize::from(count)]);
    }
}
