//! Answers, and the forms of their payload.

use nearflash_session::wire;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::{DATA_LEN_MAX, MessageError, NAME_LEN_MAX, RUNS_MAX};

wire! {
    /// The head of an answer.
    #[derive(Default)]
    pub struct AnswerHead: [u8; AnswerHead::LEN] {
        pub errno: U32 = "0, or the error number of Linux; the payload is then a message in UTF-8",
        pub(crate) payload_len: U32,
        pub value: U64 = "A number: an inode, an offset, or a count",
    }

    /// The attributes of an inode.
    #[derive(Default)]
    pub struct InodeRecord: [u8; InodeRecord::LEN] {
        pub number: U64 = "The inode's number",
        pub kind: u8 = "1 file, 2 directory, 3 symbolic link, 4 FIFO, 5 socket, 6 character device, 7 block device",
        pub flags: u8 = "Bit 0: space behind the end stays when the file is closed",
        pub run_count: u8 = "The number of runs, at most [`RUNS_MAX`]",
        pub(crate) reserved: u8,
        pub mode: U32 = "Permission bits",
        pub uid: U32 = "The owner",
        pub gid: U32 = "The group",
        pub device: U32 = "The number of a device",
        pub links: U32 = "The number of links",
        pub size: U64 = "The length of a file or of a target",
        pub parent: U64 = "The directory of a directory; otherwise 0",
        pub change: U64 = "Grows with every change",
        pub created_at: U64 = "Nanoseconds since the start of 1970",
        pub accessed_at: U64 = "Nanoseconds since the start of 1970",
        pub modified_at: U64 = "Nanoseconds since the start of 1970",
        pub changed_at: U64 = "Nanoseconds since the start of 1970",
        pub version: U32 = "The version of the runs",
        pub(crate) reserved_too: U32,
        pub runs: [RunRecord; RUNS_MAX] = "The blocks of a file, in their order; those behind `run_count` are 0",
    }

    /// A run of blocks of 4,096 bytes.
    #[derive(Default)]
    pub struct RunRecord: [u8; 16] {
        pub start: U64 = "The first block",
        pub count: U64 = "The number of blocks",
    }

    /// The answer to USAGE.
    #[derive(Default)]
    pub struct UsageRecord: [u8; 24] {
        pub total: U64 = "The space for files, used and free, in bytes",
        pub free: U64 = "The free space in bytes",
        pub inodes: U64 = "The number of inodes",
    }

    /// An entry of a directory. The bytes of its name follow.
    struct EntryHead: [u8; 10] {
        inode: U64,
        kind: u8,
        name_len: u8,
    }
}

impl AnswerHead {
    /// Its length.
    pub const LEN: usize = 16;
}

impl InodeRecord {
    /// Its length.
    pub const LEN: usize = 224;
    /// Bit 0 of the flags.
    pub const KEEPS_SPACE: u8 = 1;

    /// Reads the payload of an answer.
    ///
    /// # Errors
    /// When it has another length, or too many runs.
    pub fn decode(payload: &[u8]) -> Result<Self, MessageError> {
        let record = Self::read_from_bytes(payload).map_err(|_| MessageError::Length)?;
        if usize::from(record.run_count) > RUNS_MAX {
            return Err(MessageError::Value);
        }
        Ok(record)
    }
}

impl UsageRecord {
    /// Reads the payload of an answer.
    ///
    /// # Errors
    /// When it has another length.
    pub fn decode(payload: &[u8]) -> Result<Self, MessageError> {
        Self::read_from_bytes(payload).map_err(|_| MessageError::Length)
    }
}

/// An answer of the owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer<'a> {
    /// 0, or the error number of Linux.
    pub errno: u32,
    /// A number.
    pub value: u64,
    /// At most [`DATA_LEN_MAX`] bytes, whose form depends on the operation; the message of an error.
    pub payload: &'a [u8],
}

impl<'a> Answer<'a> {
    /// A request was carried out.
    pub const fn done(value: u64, payload: &'a [u8]) -> Self {
        Self { errno: 0, value, payload }
    }

    /// A request has failed. A message that is too long is cut.
    pub fn failed(errno: u32, message: &'a str) -> Self {
        let payload = message.as_bytes();
        Self { errno, value: 0, payload: &payload[..payload.len().min(MESSAGE_TEXT_LEN_MAX)] }
    }

    /// The message.
    ///
    /// # Errors
    /// When the payload is too long.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        if self.payload.len() > DATA_LEN_MAX {
            return Err(MessageError::TooLong);
        }
        let payload_len = u32::try_from(self.payload.len()).map_err(|_| MessageError::TooLong)?;
        let head = AnswerHead {
            errno: U32::new(self.errno),
            payload_len: U32::new(payload_len),
            value: U64::new(self.value),
        };
        Ok([head.as_bytes(), self.payload].concat())
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When its length is not that of its parts, or the payload is too long.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let (head, payload) =
            AnswerHead::read_from_prefix(bytes).map_err(|_| MessageError::Length)?;
        if payload.len() > DATA_LEN_MAX {
            return Err(MessageError::TooLong);
        }
        if u32::try_from(payload.len()) != Ok(head.payload_len.get()) {
            return Err(MessageError::Length);
        }
        Ok(Self { errno: head.errno.get(), value: head.value.get(), payload })
    }
}

/// The longest message of an error.
pub const MESSAGE_TEXT_LEN_MAX: usize = 4096;

/// An entry of a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntryRecord<'a> {
    /// The inode that it names.
    pub inode: u64,
    /// The kind of the inode, as in [`InodeRecord::kind`].
    pub kind: u8,
    /// The name: 1 to [`NAME_LEN_MAX`] bytes.
    pub name: &'a [u8],
}

/// Appends an entry to a payload. Returns whether it had room.
pub fn push_entry(payload: &mut Vec<u8>, entry: &EntryRecord<'_>) -> bool {
    let head_len = size_of::<EntryHead>();
    let (Ok(name_len), true) = (u8::try_from(entry.name.len()), !entry.name.is_empty()) else {
        return false;
    };
    if payload.len() + head_len + entry.name.len() > DATA_LEN_MAX {
        return false;
    }
    let head = EntryHead { inode: U64::new(entry.inode), kind: entry.kind, name_len };
    payload.extend_from_slice(head.as_bytes());
    payload.extend_from_slice(entry.name);
    true
}

/// The entries of a payload.
///
/// # Errors
/// When an entry is incomplete or has no name.
pub fn entries(payload: &[u8]) -> Result<Vec<EntryRecord<'_>>, MessageError> {
    let mut rest = payload;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (head, behind) = EntryHead::read_from_prefix(rest).map_err(|_| MessageError::Length)?;
        let name_len = usize::from(head.name_len);
        let (name, behind) = behind.split_at_checked(name_len).ok_or(MessageError::Length)?;
        if name.is_empty() {
            return Err(MessageError::Value);
        }
        entries.push(EntryRecord { inode: head.inode.get(), kind: head.kind, name });
        rest = behind;
    }
    Ok(entries)
}

/// A seal and the bearer of its holder, as a payload: the length of the seal in two bytes, and both. `None` if
/// the seal is too long.
pub fn encode_seal(seal: &[u8], bearer: &[u8]) -> Option<Vec<u8>> {
    let len = u16::try_from(seal.len()).ok()?;
    let payload = [&len.to_le_bytes()[..], seal, bearer].concat();
    (payload.len() <= DATA_LEN_MAX).then_some(payload)
}

/// The seal and the bearer of a payload.
///
/// # Errors
/// When the seal is incomplete.
pub fn seal(payload: &[u8]) -> Result<(&[u8], &[u8]), MessageError> {
    let (len, rest) = payload.split_first_chunk::<2>().ok_or(MessageError::Length)?;
    rest.split_at_checked(u16::from_le_bytes(*len).into()).ok_or(MessageError::Length)
}

/// Names of 1 to [`NAME_LEN_MAX`] bytes, as a payload: each behind a byte with its length. `None` if they
/// do not fit.
pub fn encode_names(names: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    for name in names {
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return None;
        }
        payload.push(u8::try_from(name.len()).ok()?);
        payload.extend_from_slice(name);
    }
    (payload.len() <= DATA_LEN_MAX).then_some(payload)
}

/// The names of a payload.
///
/// # Errors
/// When a name is incomplete or empty.
pub fn names(payload: &[u8]) -> Result<Vec<Vec<u8>>, MessageError> {
    let mut rest = payload;
    let mut names = Vec::new();
    while let Some((len, behind)) = rest.split_first() {
        let (name, behind) =
            behind.split_at_checked(usize::from(*len)).ok_or(MessageError::Length)?;
        if name.is_empty() {
            return Err(MessageError::Value);
        }
        names.push(name.to_vec());
        rest = behind;
    }
    Ok(names)
}
