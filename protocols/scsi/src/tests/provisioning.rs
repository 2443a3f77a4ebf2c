//! Units with unmapping, whose unmapped blocks are anchored or deallocated.

use nearflash_units::ByteLen;

use super::{RESOURCE, Session, THICK, THIN};
use crate::{Action, Sense, Task};

/// UNMAP of block 9 with these flags.
fn unmap(session: &Session, flags: u8) -> Result<Task, Sense> {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend([0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0]);
    session.ask_with(&[0x42, flags, 0, 0, 0, 0, 0, 0, 24, 0], &list)
}

/// WRITE SAME (16) of block 9 with these flags.
fn write_same(session: &Session, flags: u8) -> Result<Task, Sense> {
    session.ask(&[0x93, flags, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0])
}

#[test]
fn what_becomes_of_unmapped_blocks_is_told_in_three_places() {
    for (kind, page, managed) in
        [(THICK, [0, 0, 0, 0], 0), (RESOURCE, [0, 0xC6, 1, 0], 0xC0), (THIN, [0, 0xC4, 2, 0], 0xC0)]
    {
        let session = Session::new(kind);
        assert_eq!(session.data(&[0x12, 1, 0xB2, 1, 0, 0])[4..], page);
        let capacity = session.data(&[0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]);
        assert_eq!(capacity[14], managed);
        let limits = session.data(&[0x12, 1, 0xB0, 1, 0, 0]);
        assert_eq!(limits[20..28] != [0; 8], managed != 0);
    }
}

#[test]
fn a_unit_that_keeps_its_storage_anchors_what_is_unmapped_and_no_other_does() {
    let kept = Session::new(RESOURCE);
    for flags in [0, 1] {
        let Ok(Task::Request(task)) = unmap(&kept, flags) else { panic!() };
        assert!(matches!(task.action, Action::Deallocate(_)));
    }
    for flags in [0x08, 0x18] {
        assert!(matches!(write_same(&kept, flags), Ok(Task::Request(_))), "{flags:#x}");
    }
    assert_eq!(write_same(&kept, 0x10), Err(Sense::cdb_field(1, 4)), "without UNMAP");
    let thin = Session::new(THIN);
    let asked = thin.ask(&[0x42, 1, 0, 0, 0, 0, 0, 0, 24, 0]);
    assert_eq!(asked, Err(Sense::cdb_field(1, 0)));
    assert_eq!(write_same(&thin, 0x18), Err(Sense::cdb_field(1, 4)));
    let full = Session::new(THICK);
    assert_eq!(full.ask(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]), Err(Sense::INVALID_OPCODE));
    assert_eq!(write_same(&full, 0x08), Err(Sense::cdb_field(1, 3)));
    let Ok(Task::Parameters(len)) = kept.ask(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]) else { panic!() };
    assert_eq!(len, ByteLen(24));
}
