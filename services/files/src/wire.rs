//! The messages of `nearflash-files-calls` in the types of this crate.

use nearflash::direct::Rights;
use nearflash_files::{AttributeWrite, Inode, InodeNumber, Kind, Renaming, Replace, Run};
use nearflash_files_calls::answer::{InodeRecord, RunRecord, UsageRecord};
use nearflash_files_calls::{MessageError, RequestHead, set};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};
use zerocopy::little_endian::{U32, U64};

use crate::{Allocation, AttributeChanges, Usage};

/// The variants of operations, each at its number.
const KINDS: [Kind; 7] = [
    Kind::File,
    Kind::Directory,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::CharDevice,
    Kind::BlockDevice,
];
const RENAMINGS: [Renaming; 4] =
    [Renaming::Replace, Renaming::NoReplace, Renaming::Exchange, Renaming::Whiteout];
const LINKINGS: [Linking; 3] =
    [Linking::Named, Linking::Open(Replace::Never), Linking::Open(Replace::Allowed)];
const ATTRIBUTE_WRITES: [AttributeWrite; 3] =
    [AttributeWrite::Any, AttributeWrite::Create, AttributeWrite::Replace];
const ALLOCATIONS: [Allocation; 4] =
    [Allocation::Extend, Allocation::KeepSize, Allocation::Zero, Allocation::ZeroAndExtend];

/// The inodes that LINK gives a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Linking {
    Named,
    Open(Replace),
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let at = all.iter().position(|it| it == one);
    at.and_then(|at| u8::try_from(at).ok()).expect("every variant has a number")
}

/// The number of a kind, from 1 on.
pub(crate) fn kind_number(kind: Kind) -> u8 {
    number_of(&KINDS, &kind) + 1
}

pub(crate) fn kind(number: u8) -> Option<Kind> {
    KINDS.get(usize::from(number).checked_sub(1)?).copied()
}

/// The number of rights on the bytes of a file: bit 0 to read, bit 1 to write.
pub(crate) fn rights_number(rights: Rights) -> u8 {
    u8::from(rights.has(Rights::READ)) | u8::from(rights.has(Rights::WRITE)) << 1
}

pub(crate) fn rights(number: u8) -> Option<Rights> {
    [Rights::READ, Rights::WRITE, Rights::READ_WRITE]
        .into_iter()
        .find(|it| rights_number(*it) == number)
}

pub(crate) fn renaming_number(renaming: Renaming) -> u8 {
    number_of(&RENAMINGS, &renaming)
}

pub(crate) fn renaming(number: u8) -> Option<Renaming> {
    RENAMINGS.get(usize::from(number)).copied()
}

pub(crate) fn linking_number(linking: Linking) -> u8 {
    number_of(&LINKINGS, &linking)
}

pub(crate) fn linking(number: u8) -> Option<Linking> {
    LINKINGS.get(usize::from(number)).copied()
}

pub(crate) fn attribute_write_number(write: AttributeWrite) -> u8 {
    number_of(&ATTRIBUTE_WRITES, &write)
}

pub(crate) fn attribute_write(number: u8) -> Option<AttributeWrite> {
    ATTRIBUTE_WRITES.get(usize::from(number)).copied()
}

pub(crate) fn allocation_number(allocation: Allocation) -> u8 {
    number_of(&ALLOCATIONS, &allocation)
}

pub(crate) fn allocation(number: u8) -> Option<Allocation> {
    ALLOCATIONS.get(usize::from(number)).copied()
}

pub(crate) fn inode_record(number: InodeNumber, inode: &Inode) -> InodeRecord {
    let mut record = InodeRecord::default();
    record.number = U64::new(number.0);
    record.kind = kind_number(inode.kind);
    record.flags = if inode.keeps_space { InodeRecord::KEEPS_SPACE } else { 0 };
    record.run_count = u8::try_from(inode.runs.len()).expect("a file has few runs");
    record.mode = U32::new(inode.mode);
    record.uid = U32::new(inode.uid);
    record.gid = U32::new(inode.gid);
    record.device = U32::new(inode.device);
    record.links = U32::new(inode.links);
    record.size = U64::new(inode.size.0);
    record.parent = U64::new(inode.parent.0);
    record.change = U64::new(inode.change);
    record.created_at = U64::new(inode.created_at.0);
    record.accessed_at = U64::new(inode.accessed_at.0);
    record.modified_at = U64::new(inode.modified_at.0);
    record.changed_at = U64::new(inode.changed_at.0);
    record.version = U32::new(inode.version);
    for (place, run) in record.runs.iter_mut().zip(&inode.runs) {
        *place = RunRecord { start: U64::new(run.start.0), count: U64::new(run.count.0) };
    }
    record
}

/// The inode of a record.
///
/// # Errors
/// When a field has an invalid value.
pub(crate) fn inode_of(record: &InodeRecord) -> Result<(InodeNumber, Inode), MessageError> {
    let runs = record.runs.iter().take(usize::from(record.run_count));
    let runs = runs.map(|run| Run { start: Lba(run.start.get()), count: Blocks(run.count.get()) });
    let inode = Inode {
        kind: kind(record.kind).ok_or(MessageError::Value)?,
        mode: record.mode.get() & nearflash_files::MODE_MASK,
        uid: record.uid.get(),
        gid: record.gid.get(),
        device: record.device.get(),
        links: record.links.get(),
        size: ByteLen(record.size.get()),
        keeps_space: record.flags & InodeRecord::KEEPS_SPACE != 0,
        parent: InodeNumber(record.parent.get()),
        version: record.version.get(),
        change: record.change.get(),
        created_at: Nanos(record.created_at.get()),
        accessed_at: Nanos(record.accessed_at.get()),
        modified_at: Nanos(record.modified_at.get()),
        changed_at: Nanos(record.changed_at.get()),
        runs: runs.collect(),
    };
    let limit = nearflash_files::FILE_LEN_MAX.0;
    let held = inode.runs.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.count.0));
    if held.is_none_or(|blocks| blocks > limit >> nearflash_files::BLOCK.shift()) {
        return Err(MessageError::Value);
    }
    Ok((InodeNumber(record.number.get()), inode))
}

pub(crate) fn usage_record(usage: Usage) -> UsageRecord {
    UsageRecord {
        total: U64::new(usage.total.0),
        free: U64::new(usage.free.0),
        inodes: U64::new(usage.inodes),
    }
}

pub(crate) fn usage_of(record: &UsageRecord) -> Usage {
    Usage {
        total: ByteLen(record.total.get()),
        free: ByteLen(record.free.get()),
        inodes: record.inodes.get(),
    }
}

pub(crate) fn put_changes(head: &mut RequestHead, changes: &AttributeChanges) {
    let mut bits = 0;
    let mut word = |place: &mut U32, value: Option<u32>, bit| {
        if let Some(value) = value {
            (*place, bits) = (U32::new(value), bits | bit);
        }
    };
    word(&mut head.mode, changes.mode, set::MODE);
    word(&mut head.uid, changes.uid, set::UID);
    word(&mut head.gid, changes.gid, set::GID);
    let mut long = |place: &mut U64, value: Option<u64>, bit| {
        if let Some(value) = value {
            (*place, bits) = (U64::new(value), bits | bit);
        }
    };
    long(&mut head.len, changes.size.map(|size| size.0), set::SIZE);
    long(&mut head.accessed_at, changes.accessed_at.map(|time| time.0), set::ACCESSED_AT);
    long(&mut head.modified_at, changes.modified_at.map(|time| time.0), set::MODIFIED_AT);
    head.set = U32::new(bits);
}

pub(crate) fn changes_of(head: &RequestHead) -> AttributeChanges {
    let has = |bit| head.set.get() & bit != 0;
    AttributeChanges {
        mode: has(set::MODE).then(|| head.mode.get()),
        uid: has(set::UID).then(|| head.uid.get()),
        gid: has(set::GID).then(|| head.gid.get()),
        size: has(set::SIZE).then(|| ByteLen(head.len.get())),
        accessed_at: has(set::ACCESSED_AT).then(|| Nanos(head.accessed_at.get())),
        modified_at: has(set::MODIFIED_AT).then(|| Nanos(head.modified_at.get())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_files::Permissions;

    #[test]
    fn an_inode_is_read_as_it_was_written() {
        for kind in KINDS {
            let permissions = Permissions { mode: 0o4755, uid: 1, gid: 2 };
            let runs = vec![Run { start: Lba(300), count: Blocks(256) }; 7];
            let inode = Inode {
                runs,
                keeps_space: true,
                size: ByteLen(5),
                parent: InodeNumber(9),
                ..Inode::new(kind, permissions, Nanos(77))
            };
            let record = inode_record(InodeNumber(4), &inode);
            assert_eq!(inode_of(&record), Ok((InodeNumber(4), inode)));
        }
    }

    #[test]
    fn an_inode_of_an_unknown_kind_or_with_endless_runs_is_refused() {
        let inode = Inode::new(Kind::File, Permissions { mode: 0, uid: 0, gid: 0 }, Nanos(0));
        let record = inode_record(InodeNumber(1), &inode);
        for kind in [0, 8, 255] {
            let mut unknown = record;
            unknown.kind = kind;
            assert_eq!(inode_of(&unknown), Err(MessageError::Value));
        }
        let mut endless = record;
        endless.run_count = 2;
        endless.runs[0].count = U64::new(u64::MAX);
        endless.runs[1].count = U64::new(2);
        assert_eq!(inode_of(&endless), Err(MessageError::Value));
    }

    #[test]
    fn changes_of_attributes_are_read_as_they_were_written() {
        let all = AttributeChanges {
            mode: Some(0),
            uid: Some(1),
            gid: Some(2),
            size: Some(ByteLen(3)),
            accessed_at: Some(Nanos(4)),
            modified_at: Some(Nanos(5)),
        };
        let one = AttributeChanges { modified_at: Some(Nanos(0)), ..Default::default() };
        for changes in [all, one, AttributeChanges::default()] {
            let mut head = RequestHead::default();
            put_changes(&mut head, &changes);
            assert_eq!(changes_of(&head), changes);
        }
    }
}
