//! Data that describes a unit.

use super::{PROTECTED, Session, THICK, THIN};
use crate::Sense;
use crate::check::unit;

#[test]
fn inquiry_data_is_cut_where_the_allocation_length_says() {
    let session = Session::new(THIN);
    let whole = session.data(&[0x12, 0, 0, 1, 0, 0]);
    assert_eq!((whole.len(), whole[4]), (96, 91));
    assert_eq!(whole[..4], [0, 0, 6, 0x12]);
    assert_eq!(whole[8..32], *b"NEARFLSHnearflash volume");
    for len in 0..=255 {
        let cut = session.data(&[0x12, 0, 0, 0, len, 0]);
        assert_eq!(cut, whole[..whole.len().min(usize::from(len))]);
    }
}

#[test]
fn a_page_without_evpd_and_an_unknown_page_are_wrong_fields() {
    let session = Session::new(THIN);
    assert_eq!(session.ask(&[0x12, 0, 1, 1, 0, 0]), Err(Sense::cdb_field(2, 7)));
    assert_eq!(session.ask(&[0x12, 1, 1, 1, 0, 0]), Err(Sense::cdb_field(2, 7)));
}

#[test]
fn every_page_listed_is_there_and_as_long_as_it_says() {
    for kind in [THICK, THIN] {
        let session = Session::new(kind);
        let listed = session.data(&[0x12, 1, 0, 0, 255, 0]);
        assert_eq!(listed[4..], [0x00, 0x80, 0x83, 0x8F, 0xB0, 0xB1, 0xB2]);
        for &code in &listed[4..] {
            let page = session.data(&[0x12, 1, code, 1, 255, 0]);
            assert_eq!(page[1], code);
            let len = usize::from(u16::from_be_bytes([page[2], page[3]]));
            assert_eq!(len + 4, page.len());
        }
    }
}

#[test]
fn designators_follow_one_another_to_the_end() {
    let session = Session::new(THIN);
    let page = session.data(&[0x12, 1, 0x83, 1, 255, 0]);
    let mut rest = &page[4..];
    let mut kinds = Vec::new();
    while let [set, kind, 0, len, tail @ ..] = rest {
        let (name, tail) = tail.split_at(usize::from(*len));
        assert!(!name.is_empty());
        kinds.push((set & 0xF, kind >> 4 & 3, kind & 0xF));
        rest = tail;
    }
    assert!(rest.is_empty());
    let expected = [(1, 0, 3), (2, 0, 1), (1, 0, 0xA), (1, 1, 4), (1, 1, 5), (3, 1, 8), (3, 2, 8)];
    assert_eq!(kinds, expected);
}

#[test]
fn limits_are_in_blocks_of_the_unit() {
    let small = Session::new(THIN).data(&[0x12, 1, 0xB0, 1, 255, 0]);
    assert_eq!((small.len(), small[3], small[5]), (64, 60, 255));
    assert_eq!(small[6..8], 8_u16.to_be_bytes());
    assert_eq!(small[28..36], (8_u64 << 32 | 1 << 31).to_be_bytes());
    assert_eq!(small[8..16], (16_384_u64 << 32 | 2048).to_be_bytes());
    assert_eq!(small[20..24], (1_u32 << 20).to_be_bytes());
    assert_eq!(small[36..44], 32_768_u64.to_be_bytes());
    let large = Session::new(THICK | 1).data(&[0x12, 1, 0xB0, 1, 255, 0]);
    assert_eq!((large[5], &large[6..8]), (128, &1_u16.to_be_bytes()[..]));
    assert_eq!(large[8..16], (2048_u64 << 32 | 256).to_be_bytes());
    assert_eq!(large[20..28], [0; 8]); // no UNMAP
}

#[test]
fn capacity_is_the_last_block_and_the_size_of_blocks() {
    let session = Session::new(THIN);
    assert_eq!(session.data(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]), [0, 0, 0x0F, 0x9F, 0, 0, 2, 0]);
    let long = [0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    let data = session.data(&long);
    assert_eq!(data[..12], [0, 0, 0, 0, 0, 0, 0x0F, 0x9F, 0, 0, 2, 0]);
    assert_eq!((data.len(), data[12], data[14]), (32, 0, 0xC0));
    // Eight logical blocks per physical block, aligned at LBA 0.
    assert_eq!((data[13], data[14] & 0x3F, data[15]), (3, 0, 0));
    assert_eq!(Session::new(THIN | 1).data(&long)[13], 0);
    assert_eq!(Session::new(THICK).data(&long)[14], 0);
    for len in 0..16 {
        let cut = [0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, len, 0, 0];
        assert_eq!(session.data(&cut), data[..usize::from(len)]);
    }
    let at = [0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 32, 0, 0];
    assert_eq!(session.ask(&at), Err(Sense::cdb_field(2, 7)));
}

#[test]
fn a_capacity_past_32_bits_is_left_to_the_longer_command() {
    let blocks = nearflash_units::Blocks(1 << 33);
    let session = Session::of(crate::LogicalUnit { blocks, ..unit(THIN) });
    assert_eq!(session.data(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0])[..4], [0xFF; 4]);
}

#[test]
fn report_luns_wants_room_for_one_and_tells_how_many_there_are() {
    let session = Session::new(THIN);
    let with = |select, len| [0xA0, 0, select, 0, 0, 0, 0, 0, 0, len, 0, 0];
    assert_eq!(session.ask(&with(0, 15)), Err(Sense::cdb_field(6, 7)));
    assert_eq!(session.data(&with(0, 16)), [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(session.data(&with(1, 16)), [0; 8]);
    assert_eq!(session.ask(&with(3, 16)), Err(Sense::cdb_field(2, 7)));
}

#[test]
fn operation_codes_are_told_as_they_are_carried_out() {
    let session = Session::new(THIN);
    let all = session.data(&[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0]);
    let (listed, _) = all[4..].as_chunks::<8>();
    assert_eq!(listed.len() * 8 + 4, all.len());
    for &[opcode, _, high, low, _, flags, _, len] in listed {
        let (own, other) = if flags & 1 == 0 { (1, 2) } else { (2, 1) };
        let ask = |option| [0xA3, 0x0C, option, opcode, high, low, 0, 0, 0xFF, 0xFF, 0, 0];
        let one = session.data(&ask(own));
        assert_eq!(one[..5], [0, 3, 0, len, opcode]);
        assert_eq!(session.ask(&ask(other)), Err(Sense::cdb_field(2, 2)));
        assert_eq!(session.data(&ask(3)), one);
        let timed = session.data(&ask(own | 0x80));
        assert_eq!((timed[1], timed.len()), (0x83, one.len() + 12));
    }
    let timed = session.data(&[0xA3, 0x0C, 0x80, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0]);
    assert_eq!(timed.len(), 4 + listed.len() * 20);
    assert!(timed[4..].chunks(20).all(|entry| entry[5] & 2 != 0 && entry[9] == 10));
}

#[test]
fn unmap_is_a_command_of_thin_units_alone() {
    let ask = [0xA3, 0x0C, 1, 0x42, 0, 0, 0, 0, 0, 64, 0, 0];
    assert_eq!(Session::new(THIN).data(&ask)[1], 3);
    assert_eq!(Session::new(THICK).data(&ask), [0, 1, 0, 0]);
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Session::new(THICK).ask(&unmap), Err(Sense::INVALID_OPCODE));
}

#[test]
fn one_port_group_is_active_and_optimized() {
    let data = Session::new(THIN).data(&[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]);
    assert_eq!(data, [0, 0, 0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn defect_lists_are_empty_in_whatever_format() {
    let session = Session::new(PROTECTED);
    assert_eq!(session.data(&[0x37, 0, 0x1D, 0, 0, 0, 0, 0, 32, 0]), [0, 0x1D, 0, 0]);
    let long = [0xB7, 0x08, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    assert_eq!(session.data(&long), [0, 0x08, 0, 0, 0, 0, 0, 0]);
}
