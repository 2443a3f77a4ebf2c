use nearflash_units::BlockSize;
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::{CommandId, Placement};

const ONE: NamespaceId = NamespaceId(1);

fn table() -> NamespaceTable {
    let entry = NamespaceEntry {
        volume: VolumeId(70),
        block_size: BlockSize::B4096,
        blocks: Blocks(1000),
        support: Support::ALL,
        write_protected: false,
    };
    let protected = NamespaceEntry { volume: VolumeId(71), write_protected: true, ..entry };
    NamespaceTable::new([(ONE, entry), (NamespaceId(2), protected)], ByteLen(1 << 20))
}

fn decoded(command: Command) -> VolumeCommand {
    match decode(&command, &table()).unwrap() {
        IoCommand::Volume(command) => command,
        IoCommand::FlushAll => panic!("a command to one namespace was expected"),
    }
}

fn refused(command: Command) -> Status {
    decode(&command, &table()).unwrap_err()
}

#[test]
fn a_read_asks_for_its_range_and_its_bytes_to_the_host() {
    let command = decoded(Command::read(ONE, Lba(10), 3, 16384));
    assert_eq!(command.volume, VolumeId(70));
    assert_eq!(command.range, BlockRange { start: Lba(10), count: Blocks(4) });
    assert_eq!(command.operation, IoOperation::Read);
    assert_eq!(command.transfer, Transfer::ToHost(ByteLen(16384)));
}

#[test]
fn writes_and_compares_bring_their_bytes() {
    let write = decoded(Command::write(ONE, Lba(0), 0, 4096));
    assert_eq!(write.operation, IoOperation::Write { force_unit_access: false });
    assert_eq!(write.transfer, Transfer::FromHost(ByteLen(4096)));
    let durable = decoded(Command::write(ONE, Lba(0), 0, 4096).with_force_unit_access());
    assert_eq!(durable.operation, IoOperation::Write { force_unit_access: true });
    let compare = decoded(Command::compare(ONE, Lba(5), 1, 8192));
    assert_eq!(compare.operation, IoOperation::Compare);
    assert_eq!(compare.transfer, Transfer::FromHost(ByteLen(8192)));
}

#[test]
fn write_zeroes_of_any_length_moves_no_data() {
    let command = decoded(Command::write_zeroes(ONE, Lba(0), u16::MAX).with_deallocate());
    assert_eq!(command.range.count, Blocks(65536));
    assert_eq!(command.transfer, Transfer::None);
    let expected = IoOperation::WriteZeroes { deallocate: true, force_unit_access: false };
    assert_eq!(command.operation, expected);
}

#[test]
fn dataset_management_brings_its_ranges_and_says_whether_to_deallocate() {
    let command = decoded(Command::deallocate(ONE, 255));
    assert_eq!(command.operation, IoOperation::DatasetManagement { deallocate: true });
    assert_eq!(command.transfer, Transfer::FromHost(ByteLen(4096)));
    let hint = Command { cdw11: 0.into(), ..Command::deallocate(ONE, 0) };
    let expected = IoOperation::DatasetManagement { deallocate: false };
    assert_eq!(decoded(hint).operation, expected);
}

#[test]
fn flush_of_all_namespaces_is_told_from_flush_of_one() {
    assert_eq!(decode(&Command::flush(NamespaceId::ALL), &table()), Ok(IoCommand::FlushAll));
    assert_eq!(decoded(Command::flush(ONE)).operation, IoOperation::Flush);
    assert_eq!(refused(Command::flush(NamespaceId(3))), Status::INVALID_NAMESPACE.dnr());
}

#[test]
fn all_namespaces_at_once_can_be_flushed_but_not_read() {
    let command = Command::read(NamespaceId::ALL, Lba(0), 0, 4096);
    assert_eq!(refused(command), Status::INVALID_NAMESPACE.dnr());
}

#[test]
fn an_unknown_opcode_is_refused_before_its_namespace() {
    for opcode in [0x04, 0x0C, 0x19, 0x7F, 0x80, 0xFF] {
        let command = Command::new(opcode, NamespaceId(9));
        assert_eq!(refused(command), Status::INVALID_OPCODE.dnr(), "{opcode:#x}");
    }
}

#[test]
fn reservation_commands_bring_their_keys() {
    let commands = [
        (IoOpcode::RESERVATION_REGISTER, 0, 16),
        (IoOpcode::RESERVATION_ACQUIRE, 0x100, 16),
        (IoOpcode::RESERVATION_RELEASE, 0x100, 8),
        (IoOpcode::RESERVATION_RELEASE, 1, 8),
    ];
    for (opcode, cdw10, len) in commands {
        // The namespace is write protected, which does not affect reservations.
        let asked = Command::reservation(opcode, NamespaceId(2), cdw10, len);
        let command = decoded(asked);
        assert!(matches!(command.operation, IoOperation::Reservation(_)), "{opcode:?}");
        assert_eq!(command.transfer, Transfer::FromHost(ByteLen(u64::from(len))));
        assert_eq!(refused(Command { nsid: 9.into(), ..asked }), Status::INVALID_NAMESPACE.dnr());
        let wrong = Command { cdw10: 7.into(), ..asked };
        assert_eq!(refused(wrong), Status::INVALID_FIELD.dnr(), "{opcode:?}");
    }
}

#[test]
fn a_report_is_of_128_bit_host_identifiers_and_as_long_as_asked() {
    let asked = Command::reservation_report(ONE, 4096);
    let command = decoded(asked);
    assert_eq!(command.operation, IoOperation::ReservationReport);
    assert_eq!(command.transfer, Transfer::ToHost(ByteLen(4096)));
    let short = Command { cdw11: 0.into(), ..asked };
    assert_eq!(refused(short), Status::HOST_IDENTIFIER_INCONSISTENT.dnr());
    let huge = Command { cdw10: u32::MAX.into(), ..asked };
    assert_eq!(refused(huge), Status::INVALID_FIELD.dnr());
}

#[test]
fn more_data_than_a_command_may_move_is_refused() {
    assert!(decode(&Command::read(ONE, Lba(0), 255, 1 << 20), &table()).is_ok());
    let command = Command::read(ONE, Lba(0), 256, (1 << 20) + 4096);
    assert_eq!(refused(command), Status::INVALID_FIELD.dnr());
}

#[test]
fn a_write_protected_namespace_is_read_but_not_changed() {
    let two = NamespaceId(2);
    let expected = Status::NAMESPACE_WRITE_PROTECTED.dnr();
    assert_eq!(refused(Command::write(two, Lba(0), 0, 4096)), expected);
    assert_eq!(refused(Command::write_zeroes(two, Lba(0), 0)), expected);
    assert_eq!(refused(Command::deallocate(two, 0)), expected);
    assert_eq!(decoded(Command::read(two, Lba(0), 0, 4096)).volume, VolumeId(71));
}

#[test]
fn prps_and_reserved_fusing_are_invalid_fields() {
    let read = Command::read(ONE, Lba(0), 0, 4096);
    assert_eq!(refused(Command { flags: 0, ..read }), Status::INVALID_FIELD.dnr());
    assert_eq!(refused(read.with_fused(Fused::First)), Status::INVALID_FIELD.dnr());
    let write = Command::write(ONE, Lba(0), 0, 4096);
    assert_eq!(refused(write.with_fused(Fused::First)), Status::INVALID_FIELD.dnr());
    assert_eq!(refused(write.with_fused(Fused::Reserved)), Status::INVALID_FIELD.dnr());
}

#[test]
fn protection_fields_are_passed_over_without_protection() {
    let read = Command::read(ONE, Lba(0), 0, 4096);
    let guarded = Command {
        cdw12: (0xF << 26).into(),
        cdw14: 7.into(),
        cdw15: 7.into(),
        metadata: 7.into(),
        ..read
    };
    assert_eq!(decoded(guarded), decoded(read));
}

#[test]
fn ranges_that_are_not_whole_or_too_many_are_refused() {
    let range = BlockRange { start: Lba(8), count: Blocks(16) };
    let wire = DsmRange::from_range(range).unwrap();
    assert_eq!(dsm_ranges(wire.as_bytes()).unwrap()[..], [range]);
    assert_eq!(dsm_ranges(&[0; 15]), Err(Status::INVALID_FIELD.dnr()));
    assert_eq!(dsm_ranges(&[0; 4096]).map(|ranges| ranges.len()), Ok(256));
    assert_eq!(dsm_ranges(&[0; 4112]), Err(Status::INVALID_FIELD.dnr()));
}

/// A 4 KiB read at LBA 0x1234: FUSE 0, PSDT 01b, and one transport data block for the data.
#[test]
fn a_read_has_the_bytes_that_hosts_send() {
    let mut expected = [0; 64];
    expected[..8].copy_from_slice(&[0x02, 0x40, 0x2A, 0x10, 1, 0, 0, 0]);
    expected[32..40].copy_from_slice(&[0x00, 0x10, 0, 0, 0, 0, 0, 0x5A]);
    expected[40..44].copy_from_slice(&[0x34, 0x12, 0, 0]);
    expected[48..50].copy_from_slice(&[7, 0]);
    let command = Command::read(ONE, Lba(0x1234), 7, 4096).with_command_id(CommandId(0x102A));
    assert_eq!(command.as_bytes(), expected);
}

proptest! {
    #[test]
    fn what_a_host_asks_is_what_the_controller_understands(
        start: u64, blocks_zero_based in 0..256_u16, force: bool,
    ) {
        let len = (u32::from(blocks_zero_based) + 1) * 4096;
        let built = Command::write(ONE, Lba(start), blocks_zero_based, len);
        let built = if force { built.with_force_unit_access() } else { built };
        let command = decoded(built);
        let count = Blocks::from_zero_based(blocks_zero_based);
        prop_assert_eq!(command.range, BlockRange { start: Lba(start), count });
        prop_assert_eq!(command.operation, IoOperation::Write { force_unit_access: force });
        prop_assert_eq!(command.transfer, Transfer::FromHost(ByteLen(u64::from(len))));
        let located = built.sgl.locate_from_host(len..=len, 0);
        prop_assert_eq!(located, Ok((Placement::Transport, len)));
    }

    /// [`plain_read`] and [`decode`] agree on any command.
    #[test]
    fn a_plain_read_is_what_is_decoded(
        (start, blocks_zero_based, nsid) in any::<(u64, u16, u8)>(),
        (opcode, flags) in (0..4_u8, prop::sample::select(vec![0x40, 0x41, 0x80, 0])),
        len in prop::sample::select(vec![0, 4096, 8192, 1 << 20, (1 << 20) + 4096]),
        in_capsule: bool,
    ) {
        let nsid = NamespaceId(u32::from(nsid % 4));
        let blocks_zero_based = blocks_zero_based % 300;
        let read = Command::read(nsid, Lba(start), blocks_zero_based, len);
        let read = if in_capsule { read.with_capsule_data(len) } else { read };
        let command = Command { opcode, flags, ..read };
        let decoded = match decode(&command, &table()) {
            Ok(IoCommand::Volume(decoded)) if decoded.operation == IoOperation::Read => {
                let is_sound = command.sgl.check_to_host(decoded.transfer.len().0, 0).is_ok();
                let VolumeCommand { volume, range, .. } = decoded;
                (is_sound && flags == 0x40).then_some(PlainRead { volume, range, len })
            }
            _ => None,
        };
        prop_assert_eq!(plain_read(&command, &table()), decoded);
    }
}
