//! The label after a power cut at any moment of its writing: the synced writes are there, and any
//! subset of the sectors of the others.

use std::cell::RefCell;

use super::*;

/// The unit that a device writes atomically.
const SECTOR_LEN: usize = 512;

/// A write, or `None` for a sync.
type Operation = Option<(usize, Vec<u8>)>;

/// The first MiB of a device and the writes to it. The rest of the device is not checked.
#[derive(Default)]
struct Recorder {
    operations: RefCell<Vec<Operation>>,
}

impl LabelMedium for Recorder {
    fn write(&self, offset: ByteOffset, from: &[u8]) -> io::Result<()> {
        let offset = ByteLen(offset.0).to_usize();
        self.operations.borrow_mut().push(Some((offset, from.to_vec())));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.operations.borrow_mut().push(None);
        Ok(())
    }
}

/// Every head that a power cut can leave: for each moment, all subsets of the unsynced sectors that
/// differ.
fn heads(before: &[u8], operations: &[Operation], mut check: impl FnMut(&[u8])) {
    let mut durable = before.to_vec();
    let mut pending: Vec<(usize, &[u8])> = Vec::new();
    for moment in 0..=operations.len() {
        let changes: Vec<_> = pending
            .iter()
            .filter(|(at, sector)| durable[*at..*at + SECTOR_LEN] != **sector)
            .collect();
        assert!(changes.len() <= 10, "few sectors differ at a time");
        for bits in 0..1_u32 << changes.len() {
            let mut head = durable.clone();
            for (_, (at, sector)) in
                changes.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1)
            {
                head[*at..*at + SECTOR_LEN].copy_from_slice(sector);
            }
            check(&head);
        }
        match operations.get(moment) {
            Some(None) => {
                for (at, sector) in pending.drain(..) {
                    durable[at..at + SECTOR_LEN].copy_from_slice(sector);
                }
            }
            Some(Some((offset, bytes))) => {
                let sectors = bytes.chunks_exact(SECTOR_LEN).enumerate();
                let sectors = sectors.map(|(index, bytes)| (offset + index * SECTOR_LEN, bytes));
                pending.extend(sectors.filter(|(at, _)| at + SECTOR_LEN <= before.len()));
            }
            None => {}
        }
    }
}

fn label(name: &str, generation: u64) -> Label {
    let name = name.parse().unwrap();
    Label { generation, ..fresh_label(&name, NODE, FRESH, ByteLen(LEN)) }
}

fn head_with(label: &Label) -> Vec<u8> {
    let mut head = vec![0; LABEL_AREA_LEN.to_usize()];
    for offset in LABEL_OFFSETS {
        let at = ByteLen(offset.0).to_usize();
        head[at..at + LABEL_LEN].copy_from_slice(&label.encode());
    }
    head
}

/// The label that a start finds, or its error, and the copies that it would write.
fn found(head: &[u8], name: &Name) -> (Result<Label, OnDiskError>, Vec<ByteOffset>) {
    let copies = copies_in(head);
    let [first, second] = copies.clone();
    let label = Label::choose(first, second);
    let stale = label.as_ref().map_or(LABEL_OFFSETS.into(), |it| stale_copies(it, name, &copies));
    (label, stale)
}

#[test]
fn a_device_that_gets_another_name_has_one_of_both_whenever_the_power_is_cut() {
    let (old, new) = (label("old", 4), label("new", 5));
    let before = head_with(&old);
    let (own, stale) = found(&before, &new.name);
    let medium = Recorder::default();
    let fresh = label("new", 1);
    let written = write_label(&medium, own.ok(), fresh.clone(), &stale).unwrap();
    assert_eq!(written, new);
    let mut seen = [0, 0];
    heads(&before, &medium.operations.borrow(), |head| {
        let (own, stale) = found(head, &new.name);
        let own = own.unwrap();
        assert!(own == old || own == new, "{own:?}");
        seen[usize::from(own == new)] += 1;
        // The next start completes the rename.
        let again = Recorder::default();
        let written = write_label(&again, Some(own), fresh.clone(), &stale).unwrap();
        assert!(written == new || written.generation == 6, "{written:?}");
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_fresh_device_has_its_label_or_none_whenever_the_power_is_cut() {
    let new = label("new", 1);
    let before = vec![0; LABEL_AREA_LEN.to_usize()];
    let medium = Recorder::default();
    write_label(&medium, None, new.clone(), &LABEL_OFFSETS).unwrap();
    let mut seen = [0, 0];
    heads(&before, &medium.operations.borrow(), |head| match found(head, &new.name).0 {
        Ok(label) => {
            assert_eq!(label, new);
            seen[0] += 1;
        }
        Err(OnDiskError::Absent) => seen[1] += 1,
        Err(other) => panic!("{other}"),
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
