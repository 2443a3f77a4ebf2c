//! The inode: everything that a volume records about a file or a directory, except for its name.
//!
//! A record has 256 bytes and a CRC-32C over its number and itself, so that neither a damaged record
//! nor one that is stored under another number is used: a wrong run is another file's data.

use std::fmt;

use nearflash_units::{ByteLen, Nanos};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Run;
use crate::run::ALIGNMENT;

/// The length of a record.
pub const INODE_LEN: usize = 256;

/// The greatest length of a file: offsets in it are signed in POSIX, and it ends with a whole block.
pub const FILE_LEN_MAX: ByteLen = ByteLen((1 << 63) - 4096);

/// The number of runs that a record has room for.
pub const RUNS_MAX: usize = 8;

/// The number of an inode. It is never used again, also not after the file is removed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InodeNumber(pub u64);

impl InodeNumber {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for InodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, whose contents are the kernel's.
    Fifo,
    /// A socket, which is a name only.
    Socket,
    /// A character device, whose number is [`Inode::device`].
    CharDevice,
    /// A block device, whose number is [`Inode::device`].
    BlockDevice,
}

impl Kind {
    /// All kinds, in the order of their stored numbers, which begin at 1.
    const ALL: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::Socket,
        Self::CharDevice,
        Self::BlockDevice,
    ];

    pub(crate) fn encode(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
            Self::Symlink => 3,
            Self::Fifo => 4,
            Self::Socket => 5,
            Self::CharDevice => 6,
            Self::BlockDevice => 7,
        }
    }

    pub(crate) fn decode(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// Whether inodes of this kind have the number of a device.
    fn is_device(self) -> bool {
        matches!(self, Self::CharDevice | Self::BlockDevice)
    }
}

/// The permission bits of a mode, with set-user-ID, set-group-ID and the sticky bit.
pub const MODE_MASK: u32 = 0o7777;

/// The owner of an inode, and the rights of others.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Permissions {
    /// The permission bits, within [`MODE_MASK`].
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A file or a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inode {
    /// Its kind.
    pub kind: Kind,
    /// The permission bits, within [`MODE_MASK`].
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of a device; 0 for other kinds.
    pub device: u32,
    /// The number of links as POSIX counts them: the entries of a file; 2 for a directory, and 1 more
    /// for each directory in it. A file without links is removed when no process has it open.
    pub links: u32,
    /// The length of a file, or of a symbolic link's target; 0 for other kinds. The part of a file
    /// behind its runs reads as zeroes.
    pub size: ByteLen,
    /// Whether blocks behind the size stay when the file is closed, since fallocate(2) asked for them.
    pub keeps_space: bool,
    /// The directory of a directory; the root is its own. 0 for other kinds.
    pub parent: InodeNumber,
    /// The version of `runs`, from 1 on.
    pub version: u32,
    /// Increases with every change of the inode or of a directory's entries.
    pub change: u64,
    /// Time of creation, since the start of 1970.
    pub created_at: Nanos,
    /// Time of the last access that was recorded, since the start of 1970.
    pub accessed_at: Nanos,
    /// Time of the last change of the contents, since the start of 1970.
    pub modified_at: Nanos,
    /// Time of the last change of the inode, since the start of 1970.
    pub changed_at: Nanos,
    /// The blocks that hold a file's bytes, in their order.
    pub runs: Vec<Run>,
}

/// Error: bytes are not a valid inode.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum InodeError {
    /// The record is not of the right length.
    #[error("its record has {0} bytes instead of {INODE_LEN}")]
    Length(usize),
    /// Bytes have changed since the record was written, or it belongs to another number.
    #[error("its checksum is {found:#010x}, computed {computed:#010x}")]
    Checksum { found: u32, computed: u32 },
    /// A field has a value that is never written, although the checksum is valid.
    #[error("its field is invalid: {0}")]
    Field(&'static str),
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDiskRun {
    start: U64,
    count: U64,
}

/// A record in its stored form. Reserved bytes are zero.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    kind: u8,
    run_count: u8,
    reserved: [u8; 2],
    links: U32,
    size: U64,
    version: U32,
    flags: U32,
    change: U64,
    created_at: U64,
    modified_at: U64,
    runs: [OnDiskRun; RUNS_MAX],
    mode: U32,
    uid: U32,
    gid: U32,
    device: U32,
    accessed_at: U64,
    changed_at: U64,
    parent: U64,
    reserved_end: [u8; 36],
    /// CRC-32C of the number and of the record with this field as zero.
    checksum: U32,
}
const _: () = assert!(size_of::<OnDisk>() == INODE_LEN);

/// The bit of the flags for [`Inode::keeps_space`].
const KEEPS_SPACE: u32 = 1;

impl OnDisk {
    fn computed_checksum(mut self, number: InodeNumber) -> u32 {
        self.checksum = U32::ZERO;
        crc32c::crc32c_append(crc32c::crc32c(&number.0.to_le_bytes()), self.as_bytes())
    }
}

impl Inode {
    /// A new inode without contents. A directory has no parent until it gets a name.
    pub fn new(kind: Kind, permissions: Permissions, now: Nanos) -> Self {
        let Permissions { mode, uid, gid } = permissions;
        Self {
            kind,
            mode: mode & MODE_MASK,
            uid,
            gid,
            device: 0,
            links: if kind == Kind::Directory { 2 } else { 1 },
            size: ByteLen(0),
            keeps_space: false,
            parent: InodeNumber(0),
            version: 1,
            change: 1,
            created_at: now,
            accessed_at: now,
            modified_at: now,
            changed_at: now,
            runs: Vec::new(),
        }
    }

    /// The inode changes, and its time of change with it.
    pub fn touch(&mut self, now: Nanos) {
        self.change = self.change.wrapping_add(1);
        self.changed_at = now;
    }

    /// The record of this inode under its number.
    ///
    /// # Panics
    /// When there are more than [`RUNS_MAX`] runs, which no allocation returns.
    pub fn encode(&self, number: InodeNumber) -> [u8; INODE_LEN] {
        assert!(self.runs.len() <= RUNS_MAX, "an inode has at most {RUNS_MAX} runs");
        let mut raw = OnDisk::new_zeroed();
        raw.kind = self.kind.encode();
        raw.run_count = u8::try_from(self.runs.len()).expect("at most 8");
        raw.links = U32::new(self.links);
        raw.size = U64::new(self.size.0);
        raw.version = U32::new(self.version);
        raw.flags = U32::new(if self.keeps_space { KEEPS_SPACE } else { 0 });
        raw.change = U64::new(self.change);
        raw.created_at = U64::new(self.created_at.0);
        raw.modified_at = U64::new(self.modified_at.0);
        raw.mode = U32::new(self.mode);
        raw.uid = U32::new(self.uid);
        raw.gid = U32::new(self.gid);
        raw.device = U32::new(self.device);
        raw.accessed_at = U64::new(self.accessed_at.0);
        raw.changed_at = U64::new(self.changed_at.0);
        raw.parent = U64::new(self.parent.0);
        for (place, run) in raw.runs.iter_mut().zip(&self.runs) {
            place.start = U64::new(run.start.0);
            place.count = U64::new(run.count.0);
        }
        raw.checksum = U32::new(raw.computed_checksum(number));
        zerocopy::transmute!(raw)
    }

    /// Decodes the record of `number`.
    ///
    /// # Errors
    /// When the bytes are not a valid record of this number.
    pub fn decode(number: InodeNumber, bytes: &[u8]) -> Result<Self, InodeError> {
        let raw = OnDisk::read_from_bytes(bytes).map_err(|_| InodeError::Length(bytes.len()))?;
        let (found, computed) = (raw.checksum.get(), raw.computed_checksum(number));
        if found != computed {
            return Err(InodeError::Checksum { found, computed });
        }
        let inode = Self {
            kind: Kind::decode(raw.kind).ok_or(InodeError::Field("kind"))?,
            mode: raw.mode.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            device: raw.device.get(),
            links: raw.links.get(),
            size: ByteLen(raw.size.get()),
            keeps_space: raw.flags.get() & KEEPS_SPACE != 0,
            parent: InodeNumber(raw.parent.get()),
            version: raw.version.get(),
            change: raw.change.get(),
            created_at: Nanos(raw.created_at.get()),
            accessed_at: Nanos(raw.accessed_at.get()),
            modified_at: Nanos(raw.modified_at.get()),
            changed_at: Nanos(raw.changed_at.get()),
            runs: decode_runs(&raw).ok_or(InodeError::Field("runs"))?,
        };
        let reserved = [raw.reserved.as_slice(), &raw.reserved_end];
        if raw.flags.get() & !KEEPS_SPACE != 0 || reserved.concat().iter().any(|byte| *byte != 0) {
            return Err(InodeError::Field("reserved"));
        }
        inode.checked()
    }

    fn checked(self) -> Result<Self, InodeError> {
        let kind = self.kind;
        let is_sized = matches!(kind, Kind::File | Kind::Symlink);
        let faults = [
            (kind != Kind::File && !self.runs.is_empty(), "runs of no file"),
            (!is_sized && self.size.0 != 0, "size"),
            (self.size.0 > FILE_LEN_MAX.0, "size"),
            (kind != Kind::File && self.keeps_space, "space of no file"),
            (!kind.is_device() && self.device != 0, "device"),
            ((kind == Kind::Directory) != (self.parent.0 != 0), "parent"),
            (self.mode > MODE_MASK, "mode"),
            (self.version == 0, "version"),
        ];
        match faults.iter().find(|(is_present, _)| *is_present) {
            Some((_, field)) => Err(InodeError::Field(field)),
            None => Ok(self),
        }
    }
}

/// The runs of a record; `None` if one is not valid.
fn decode_runs(raw: &OnDisk) -> Option<Vec<Run>> {
    let (used, unused) = raw.runs.split_at_checked(usize::from(raw.run_count))?;
    if unused.as_bytes().iter().any(|byte| *byte != 0) {
        return None;
    }
    let runs = used.iter().map(|run| Run::checked(run.start.get(), run.count.get()));
    let runs: Vec<Run> = runs.collect::<Option<_>>()?;
    let before_last = runs.split_last().map_or(&[][..], |(_, rest)| rest);
    before_last.iter().all(|run| run.count.0.is_multiple_of(ALIGNMENT)).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::{Blocks, Lba};
    use proptest::prelude::*;

    const NUMBER: InodeNumber = InodeNumber(7);
    const MODE: Permissions = Permissions { mode: 0o644, uid: 1000, gid: 100 };

    fn run(start: u64, count: u64) -> Run {
        Run { start: Lba(start), count: Blocks(count) }
    }

    fn file(size: u64, runs: Vec<Run>) -> Inode {
        Inode { size: ByteLen(size), runs, ..Inode::new(Kind::File, MODE, Nanos(5)) }
    }

    fn decoded(inode: &Inode) -> Result<Inode, InodeError> {
        Inode::decode(NUMBER, &inode.encode(NUMBER))
    }

    #[test]
    fn a_record_counts_only_under_its_own_number() {
        let bytes = file(1, vec![run(256, 1)]).encode(NUMBER);
        assert!(Inode::decode(NUMBER, &bytes).is_ok());
        let other = Inode::decode(InodeNumber(8), &bytes);
        assert!(matches!(other, Err(InodeError::Checksum { .. })));
        assert_eq!(Inode::decode(NUMBER, &bytes[1..]), Err(InodeError::Length(255)));
    }

    #[test]
    fn a_record_whose_fields_contradict_each_other_is_refused() {
        let field = |inode: &Inode| decoded(inode).unwrap_err();
        assert_eq!(field(&file(u64::MAX, vec![run(0, 1)])), InodeError::Field("size"));
        assert_eq!(field(&file(0, vec![run(256, 0)])), InodeError::Field("runs"));
        assert_eq!(field(&file(0, vec![run(u64::MAX, 2)])), InodeError::Field("runs"));
        assert_eq!(field(&file(0, vec![run(1 << 52, 1)])), InodeError::Field("runs"));
        let first_is_short = vec![run(256, 255), run(1024, 256)];
        assert_eq!(field(&file(0, first_is_short)), InodeError::Field("runs"));
        let of = |kind| Inode { parent: InodeNumber(1), ..Inode::new(kind, MODE, Nanos(0)) };
        let directory = of(Kind::Directory);
        assert!(decoded(&directory).is_ok());
        let with_size = Inode { size: ByteLen(1), ..directory.clone() };
        assert_eq!(field(&with_size), InodeError::Field("size"));
        let with_runs = Inode { runs: vec![run(256, 1)], ..directory.clone() };
        assert_eq!(field(&with_runs), InodeError::Field("runs of no file"));
        let without_parent = Inode { parent: InodeNumber(0), ..directory.clone() };
        assert_eq!(field(&without_parent), InodeError::Field("parent"));
        assert_eq!(field(&of(Kind::File)), InodeError::Field("parent"));
        let with_mode = Inode { mode: MODE_MASK + 1, ..directory.clone() };
        assert_eq!(field(&with_mode), InodeError::Field("mode"));
        let with_device = Inode { device: 1, ..directory };
        assert_eq!(field(&with_device), InodeError::Field("device"));
        let without_version = Inode { version: 0, ..file(0, vec![]) };
        assert_eq!(field(&without_version), InodeError::Field("version"));
    }

    proptest! {
        #[test]
        fn a_record_reads_back_as_it_was_written(
            counts in prop::collection::vec(1_u64..1 << 20, 0..=RUNS_MAX),
            start in 0_u64..1 << 40, links: u32, change: u64, times: (u64, u64, u64, u64),
            mode in 0..=MODE_MASK, owner: (u32, u32), keeps_space: bool,
        ) {
            let runs: Vec<Run> = counts.iter().map(|count| run(start, count * ALIGNMENT)).collect();
            let size = counts.iter().sum::<u64>() << 20;
            let inode = Inode {
                links, change, mode, uid: owner.0, gid: owner.1, keeps_space,
                created_at: Nanos(times.0), modified_at: Nanos(times.1),
                accessed_at: Nanos(times.2), changed_at: Nanos(times.3), ..file(size, runs)
            };
            prop_assert_eq!(decoded(&inode), Ok(inode));
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0..INODE_LEN, change in 1_u8..) {
            let mut bytes = file(9, vec![run(256, 256), run(1024, 3)]).encode(NUMBER);
            bytes[at] ^= change;
            prop_assert!(Inode::decode(NUMBER, &bytes).is_err());
        }

        /// Any bytes with a valid checksum decode without a panic, and a decoded record is written
        /// as the same bytes.
        #[test]
        fn hostile_records_are_refused_or_exact(mut bytes: [u8; INODE_LEN], kind in 0_u8..9, runs in 0_u8..10, sparse: bool) {
            if sparse {
                bytes[4..].fill(0);
                bytes[16] = 1;
            }
            bytes[0] = kind;
            bytes[1] = runs;
            bytes[2..4].fill(0);
            let mut raw: OnDisk = zerocopy::transmute!(bytes);
            raw.checksum = U32::new(raw.computed_checksum(NUMBER));
            let bytes: [u8; INODE_LEN] = zerocopy::transmute!(raw);
            if let Ok(inode) = Inode::decode(NUMBER, &bytes) {
                prop_assert_eq!(inode.encode(NUMBER), bytes);
            }
        }
    }
}
