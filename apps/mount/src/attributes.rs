//! Inodes as the kernel sees them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use nearflash_files_service::{Inode, InodeNumber, Kind, MODE_MASK, Name, NameError};
use nearflash_units::Nanos;

/// The bits that a change of the contents or the owner clears.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o0010;

/// The unit of `st_blocks`.
const SECTOR: u64 = 512;
/// The preferred length of requests.
const REQUEST_LEN: u32 = 4096;

pub(crate) fn number(number: INodeNo) -> InodeNumber {
    InodeNumber(number.0)
}

pub(crate) fn attributes(number: InodeNumber, inode: &Inode) -> FileAttr {
    let held: u64 = inode.runs.iter().map(|run| run.len().0).sum();
    FileAttr {
        ino: INodeNo(number.0),
        size: inode.size.0,
        blocks: held / SECTOR,
        atime: time(inode.accessed_at),
        mtime: time(inode.modified_at),
        ctime: time(inode.changed_at),
        crtime: time(inode.created_at),
        kind: file_type(inode.kind),
        perm: u16::try_from(inode.mode & MODE_MASK).expect("12 bits"),
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.device,
        blksize: REQUEST_LEN,
        flags: 0,
    }
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind that mknod(2) names in `mode`.
pub(crate) fn kind_of(mode: u32) -> Option<Kind> {
    match mode & 0o170_000 {
        0 | 0o100_000 => Some(Kind::File),
        0o010_000 => Some(Kind::Fifo),
        0o140_000 => Some(Kind::Socket),
        0o020_000 => Some(Kind::CharDevice),
        0o060_000 => Some(Kind::BlockDevice),
        _ => None,
    }
}

/// The mode after a change of the contents or the owner, if it differs. POSIX, chown() and write():
/// such a change clears the set-user-ID bit, and the set-group-ID bit of a file that its group may
/// execute.
pub(crate) fn without_privileges(inode: &Inode) -> Option<u32> {
    let group = if inode.mode & GROUP_EXECUTES == 0 { 0 } else { SET_GROUP };
    let cleared = inode.mode & !(SET_USER | group);
    (inode.kind != Kind::Directory && cleared != inode.mode).then_some(cleared)
}

/// Whether a write may have to clear bits of this inode.
pub(crate) fn is_privileged(inode: &Inode) -> bool {
    inode.mode & (SET_USER | SET_GROUP) != 0
}

/// The group of a new inode, and its mode: a directory with the set-group-ID bit passes its group on.
pub(crate) fn inherited(parent: &Inode, kind: Kind, mode: u32, gid: u32) -> (u32, u32) {
    if parent.mode & SET_GROUP == 0 {
        return (mode, gid);
    }
    let passed_on = if kind == Kind::Directory { SET_GROUP } else { 0 };
    (mode | passed_on, parent.gid)
}

fn time(at: Nanos) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(at.0)
}

/// A time that a program sets. Times before 1970 become its start.
pub(crate) fn moment(time: TimeOrNow) -> Nanos {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn name(bytes: &std::ffi::OsStr) -> Result<Name, Errno> {
    use std::os::unix::ffi::OsStrExt as _;
    Name::new(bytes.as_bytes()).map_err(|error| match error {
        NameError::TooLong(_) | NameError::PathTooLong(_) => Errno::ENAMETOOLONG,
        NameError::Empty | NameError::Byte | NameError::Dots => Errno::EINVAL,
    })
}
