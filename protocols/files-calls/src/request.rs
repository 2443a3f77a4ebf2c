//! Requests: one form for all operations.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::{DATA_LEN_MAX, MessageError, NAME_LEN_MAX, Operation};

/// The bits of [`RequestHead::set`]: the attributes that CHANGE sets.
pub mod set {
    /// [`super::RequestHead::mode`].
    pub const MODE: u32 = 1;
    /// [`super::RequestHead::uid`].
    pub const UID: u32 = 2;
    /// [`super::RequestHead::gid`].
    pub const GID: u32 = 4;
    /// The size: [`super::RequestHead::len`].
    pub const SIZE: u32 = 8;
    /// [`super::RequestHead::accessed_at`].
    pub const ACCESSED_AT: u32 = 16;
    /// [`super::RequestHead::modified_at`].
    pub const MODIFIED_AT: u32 = 32;
}

wire! {
    /// The head of a request. Fields that an operation does not use are 0.
    #[derive(Default)]
    pub struct RequestHead: [u8; RequestHead::LEN] {
        pub operation: u8 = "The number of an [`Operation`]",
        pub variant: u8 = "The variant of the operation: a kind, a rule for existing names, an allocation",
        pub(crate) name_len: U16,
        pub(crate) second_len: U16,
        pub(crate) reserved: U16,
        pub inode: U64 = "The inode, or the directory of the name",
        pub other: U64 = "The directory of the second name",
        pub offset: U64 = "An offset in a file",
        pub len: U64 = "A length in a file, a size, or a number",
        pub accessed_at: U64 = "Nanoseconds since the start of 1970",
        pub modified_at: U64 = "Nanoseconds since the start of 1970",
        pub set: U32 = "The attributes to set: bits of [`set`]",
        pub mode: U32 = "Permission bits",
        pub uid: U32 = "The owner",
        pub gid: U32 = "The group",
        pub device: U32 = "The number of a device",
        pub(crate) data_len: U32,
    }
}

impl RequestHead {
    /// Its length.
    pub const LEN: usize = 80;

    /// A head for an operation on an inode.
    pub fn new(operation: Operation, inode: u64) -> Self {
        Self { operation: operation.0, inode: U64::new(inode), ..Self::default() }
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        Operation(self.operation)
    }
}

/// A request of a client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Request<'a> {
    /// The fields.
    pub head: RequestHead,
    /// A name, of at most [`NAME_LEN_MAX`] bytes.
    pub name: &'a [u8],
    /// The second name of RENAME, of at most [`NAME_LEN_MAX`] bytes.
    pub second: &'a [u8],
    /// Other bytes, at most [`DATA_LEN_MAX`].
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without names and bytes.
    pub fn new(operation: Operation, inode: u64) -> Self {
        Self { head: RequestHead::new(operation, inode), ..Self::default() }
    }

    /// The message.
    ///
    /// # Errors
    /// When a part is too long.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let Self { name, second, data, .. } = self;
        check_lengths(name.len(), second.len(), data.len())?;
        let part = |len: usize| u16::try_from(len).map_err(|_| MessageError::TooLong);
        let head = RequestHead {
            name_len: U16::new(part(name.len())?),
            second_len: U16::new(part(second.len())?),
            data_len: U32::new(u32::try_from(data.len()).map_err(|_| MessageError::TooLong)?),
            ..self.head
        };
        let mut bytes =
            Vec::with_capacity(RequestHead::LEN + name.len() + second.len() + data.len());
        for part in [head.as_bytes(), name, second, data] {
            bytes.extend_from_slice(part);
        }
        Ok(bytes)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When its length is not that of its parts, or a part is too long.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let (head, rest) =
            RequestHead::read_from_prefix(bytes).map_err(|_| MessageError::Length)?;
        let (name_len, second_len) =
            (usize::from(head.name_len.get()), usize::from(head.second_len.get()));
        let data_len = usize::try_from(head.data_len.get()).map_err(|_| MessageError::TooLong)?;
        check_lengths(name_len, second_len, data_len)?;
        let (name, rest) = rest.split_at_checked(name_len).ok_or(MessageError::Length)?;
        let (second, data) = rest.split_at_checked(second_len).ok_or(MessageError::Length)?;
        if data.len() != data_len {
            return Err(MessageError::Length);
        }
        let head = RequestHead {
            name_len: U16::new(0),
            second_len: U16::new(0),
            reserved: U16::new(0),
            data_len: U32::new(0),
            ..head
        };
        Ok(Self { head, name, second, data })
    }
}

fn check_lengths(name: usize, second: usize, data: usize) -> Result<(), MessageError> {
    let is_short = name <= NAME_LEN_MAX && second <= NAME_LEN_MAX && data <= DATA_LEN_MAX;
    if is_short { Ok(()) } else { Err(MessageError::TooLong) }
}
