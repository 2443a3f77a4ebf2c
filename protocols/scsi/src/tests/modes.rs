//! Mode pages.

use nearflash_request::{ChangeKind, Modes};

use super::{PROTECTED, SOFTWARE_PROTECTED, Session, THIN};
use crate::{ReportReply, Sense, Task};

/// The offset of the control page in MODE SENSE (6) data without a block descriptor.
const PAGE_AT: usize = 4;

fn control_page(session: &Session, page_control: u8) -> Vec<u8> {
    session.data(&[0x1A, 0x08, page_control << 6 | 0x0A, 0, 255, 0])
}

fn select(session: &Session, list: &[u8]) -> Result<Modes, Sense> {
    let len = u8::try_from(list.len()).unwrap();
    match session.ask_with(&[0x15, 0x10, 0, 0, len, 0], list)? {
        Task::Change(change) => {
            assert_eq!(change.reply, ReportReply::Status);
            let ChangeKind::SetModes(modes) = change.kind else { panic!("{change:?}") };
            Ok(modes)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_pages_are_those_that_can_be_had_alone() {
    let session = Session::new(THIN | 2);
    let all = session.data(&[0x1A, 0, 0x3F, 0xFF, 255, 0]);
    assert_eq!(usize::from(all[0]) + 1, all.len());
    assert_eq!((all[2], all[3]), (0x10, 8)); // DPOFUA; one block descriptor
    assert_eq!(all[4..12], [0, 0, 0x0F, 0xA0, 0, 0, 2, 0]);
    let mut rest = &all[12..];
    while let [first, second, ..] = *rest {
        let (subpage, len) = match first & 0x40 {
            0 => (0, usize::from(second) + 2),
            _ => (second, usize::from(u16::from_be_bytes([rest[2], rest[3]])) + 4),
        };
        let alone = session.data(&[0x1A, 0x08, first & 0x3F, subpage, 255, 0]);
        assert_eq!(alone[4..], rest[..len]);
        rest = &rest[len..];
    }
    let caching = session.data(&[0x1A, 0x08, 0x08, 0, 255, 0]);
    assert_eq!(caching[4..7], [0x08, 18, 0x04]); // WCE
}

#[test]
fn long_mode_data_says_the_same() {
    let session = Session::new(PROTECTED);
    let short = session.data(&[0x1A, 0, 0x3F, 0, 255, 0]);
    let long = session.data(&[0x5A, 0x10, 0x3F, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(usize::from(u16::from_be_bytes([long[0], long[1]])) + 2, long.len());
    assert_eq!(long[2..8], [0, 0x90, 1, 0, 0, 16]); // WP, DPOFUA; LONGLBA
    assert_eq!(long[8..24], [0, 0, 0, 0, 0, 0, 0x0F, 0xA0, 0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(long[24..], short[12..]);
}

#[test]
fn saved_pages_unknown_pages_and_unknown_subpages_are_refused() {
    let session = Session::new(THIN);
    assert_eq!(session.ask(&[0x1A, 0, 0xCA, 0, 255, 0]), Err(Sense::SAVING_NOT_SUPPORTED));
    assert_eq!(session.ask(&[0x1A, 0, 0x05, 0, 255, 0]), Err(Sense::cdb_field(2, 5)));
    assert_eq!(session.ask(&[0x1A, 0, 0x0A, 9, 255, 0]), Err(Sense::cdb_field(3, 7)));
}

#[test]
fn what_mode_sense_gives_mode_select_takes_back() {
    for (kind, write_protected) in [(THIN, false), (THIN | SOFTWARE_PROTECTED, true)] {
        let session = Session::new(kind);
        let mut list = session.data(&[0x1A, 0, 0x3F, 0xFF, 255, 0]);
        list[0] = 0;
        let modes = select(&session, &list).unwrap();
        assert_eq!(modes, Modes { write_protected, descriptor_sense: false });
    }
}

#[test]
fn only_what_can_be_changed_is_changed() {
    let session = Session::new(THIN);
    let changeable = control_page(&session, 1);
    let mut list = control_page(&session, 0);
    list[0] = 0;
    list[2] = 0;
    for (byte, mask) in list.iter_mut().zip(&changeable).skip(PAGE_AT + 2) {
        *byte |= mask;
    }
    let both = Modes { write_protected: true, descriptor_sense: true };
    assert_eq!(select(&session, &list), Ok(both));
    for (index, mask) in changeable.iter().enumerate().skip(PAGE_AT + 2) {
        for bit in (0..8).filter(|bit| mask & 1 << bit == 0) {
            let mut refused = list.clone();
            refused[index] ^= 1 << bit;
            let at = u16::try_from(index).unwrap();
            assert_eq!(select(&session, &refused), Err(Sense::parameter_field(at, bit)));
        }
    }
}

#[test]
fn the_default_page_is_that_of_a_unit_nobody_changed() {
    let changed = Session::new(THIN | SOFTWARE_PROTECTED | 32);
    let unchanged = Session::new(THIN);
    assert_eq!(control_page(&changed, 2)[PAGE_AT..], control_page(&unchanged, 0)[PAGE_AT..]);
    assert_ne!(control_page(&changed, 0)[PAGE_AT..], control_page(&unchanged, 0)[PAGE_AT..]);
}

#[test]
fn a_list_that_is_cut_or_of_another_unit_changes_nothing() {
    let session = Session::new(THIN);
    let mut list = session.data(&[0x1A, 0, 0x0A, 0, 255, 0]);
    list[0] = 0;
    for len in [13, list.len() - 1] {
        assert_eq!(select(&session, &list[..len]), Err(Sense::PARAMETER_LIST_LENGTH));
    }
    let mut other_size = list.clone();
    other_size[10] = 0x10;
    assert_eq!(select(&session, &other_size), Err(Sense::parameter_field(9, 7)));
    let mut other_count = list.clone();
    other_count[4] = 1;
    assert_eq!(select(&session, &other_count), Err(Sense::parameter_field(4, 7)));
    let mut other_len = list;
    other_len[13] = 9;
    assert_eq!(select(&session, &other_len), Err(Sense::parameter_field(13, 7)));
    assert_eq!(session.ask(&[0x15, 0x11, 0, 0, 16, 0]), Err(Sense::cdb_field(1, 0)));
}
