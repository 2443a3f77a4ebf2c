//! The owner block: 512 bytes that lie within one logical block of the volume.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..8 | the term, little-endian; changed only by compare-and-swap. 0: the volume never had an owner |
//! | 8..512 | the record of the owner, for people, with a CRC-32C; zeroes before the first owner |
//!
//! The record decides nothing about writes. It names the owner in messages, and its beat shows that
//! the owner is alive. A write of the record is one write within one block, so it is atomic against
//! the compare-and-swap.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the owner block: the smallest logical block.
pub const OWNER_BLOCK_LEN: usize = 512;
/// The start of the record within the block.
pub const RECORD_OFFSET: usize = 8;
/// Length of the record.
pub const OWNER_RECORD_LEN: usize = OWNER_BLOCK_LEN - RECORD_OFFSET;

const MAGIC: [u8; 8] = *b"nfowner\x1a";
const VERSION: u32 = 1;
const HELD: u8 = 1;
const RELEASED: u8 = 2;
const NAME_LEN: usize = 64;
const ADDRESS_LEN: usize = 128;

/// The number of an ownership. It grows with every change of owner.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Term(pub u64);

impl Term {
    /// The term of a volume that never had an owner.
    pub const NONE: Self = Self(0);

    /// The next term; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

/// Error: the bytes behind the term are not a valid record.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RecordError {
    /// The block has other contents.
    #[error("it holds other data")]
    Foreign,
    /// Bytes have changed since the record was written.
    #[error("its checksum is {found:#010x}, computed {computed:#010x}")]
    Checksum { found: u32, computed: u32 },
    /// Written by a later version.
    #[error("it has version {0}, this program knows {VERSION}")]
    Version(u32),
    /// A field has a value that no version writes, although the checksum is valid.
    #[error("its {0} is invalid")]
    Field(&'static str),
}

/// The owner of a volume, as it describes itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct OwnerRecord {
    /// The term of the owner that wrote the record. A block with a higher term has an owner that has
    /// not written its record yet.
    pub term: Term,
    /// Grows while the owner is alive.
    pub beat: u64,
    /// Whether the owner has ended its ownership. The volume can then be taken at once.
    pub is_released: bool,
    name: Box<str>,
    address: Box<str>,
}

/// The record in its form on the volume.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    magic: [u8; 8],
    version: U32,
    /// CRC-32C of all [`OWNER_RECORD_LEN`] bytes, this field as zero.
    checksum: U32,
    term: U64,
    beat: U64,
    state: u8,
    reserved: [u8; 7],
    /// Padded with NUL.
    name: [u8; NAME_LEN],
    /// Padded with NUL.
    address: [u8; ADDRESS_LEN],
    rest: [u8; 272],
}
const _: () = assert!(size_of::<OnDisk>() == OWNER_RECORD_LEN);

impl OnDisk {
    fn computed_checksum(mut self) -> u32 {
        self.checksum = U32::ZERO;
        crc32c::crc32c(self.as_bytes())
    }
}

impl OwnerRecord {
    /// The record of an owner that begins. `name` and `address` are for messages: they are cut to 63
    /// and 127 bytes, and control characters are replaced.
    pub fn new(term: Term, name: &str, address: &str) -> Self {
        let (name, address) = (printable(name, NAME_LEN - 1), printable(address, ADDRESS_LEN - 1));
        Self { term, beat: 0, is_released: false, name, address }
    }

    /// The owner's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address at which the owner can be reached.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The record as the bytes behind the term.
    pub fn encode(&self) -> [u8; OWNER_RECORD_LEN] {
        let mut raw = OnDisk::new_zeroed();
        raw.magic = MAGIC;
        raw.version = U32::new(VERSION);
        raw.term = U64::new(self.term.0);
        raw.beat = U64::new(self.beat);
        raw.state = if self.is_released { RELEASED } else { HELD };
        raw.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        raw.address[..self.address.len()].copy_from_slice(self.address.as_bytes());
        raw.checksum = U32::new(raw.computed_checksum());
        zerocopy::transmute!(raw)
    }

    /// Decodes the bytes behind the term; `None` if they are zeroes, as before the first owner.
    ///
    /// # Errors
    /// When the bytes are not a record.
    pub fn decode(bytes: &[u8; OWNER_RECORD_LEN]) -> Result<Option<Self>, RecordError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let raw: OnDisk = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC {
            return Err(RecordError::Foreign);
        }
        let (found, computed) = (raw.checksum.get(), raw.computed_checksum());
        if found != computed {
            return Err(RecordError::Checksum { found, computed });
        }
        if raw.version.get() != VERSION {
            return Err(RecordError::Version(raw.version.get()));
        }
        if raw.reserved.iter().chain(&raw.rest).any(|byte| *byte != 0) {
            return Err(RecordError::Field("reserved field"));
        }
        let is_released = match raw.state {
            HELD => false,
            RELEASED => true,
            _ => return Err(RecordError::Field("state")),
        };
        Ok(Some(Self {
            term: Term(raw.term.get()),
            beat: raw.beat.get(),
            is_released,
            name: text(&raw.name).ok_or(RecordError::Field("name"))?,
            address: text(&raw.address).ok_or(RecordError::Field("address"))?,
        }))
    }
}

/// The content of an owner block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnerBlock {
    /// The current term.
    pub term: Term,
    /// The last record; `None` before the first.
    pub record: Result<Option<OwnerRecord>, RecordError>,
}

impl OwnerBlock {
    /// Decodes a block. Any bytes have a term.
    pub fn decode(bytes: &[u8; OWNER_BLOCK_LEN]) -> Self {
        let (term, record): ([u8; RECORD_OFFSET], [u8; OWNER_RECORD_LEN]) =
            zerocopy::transmute!(*bytes);
        let term = Term(u64::from_le_bytes(term));
        Self { term, record: OwnerRecord::decode(&record) }
    }

    /// The record of the current owner; `None` if it has not written one.
    pub fn owner(&self) -> Option<&OwnerRecord> {
        let record = self.record.as_ref().ok()?.as_ref();
        record.filter(|record| record.term == self.term)
    }

    /// Whether the block says that the volume has no owner.
    pub fn is_free(&self) -> bool {
        (self.term == Term::NONE && self.record == Ok(None))
            || self.owner().is_some_and(|owner| owner.is_released)
    }
}

/// The text of a field that is padded with NUL.
fn text(field: &[u8]) -> Option<Box<str>> {
    let len = field.iter().position(|byte| *byte == 0)?;
    let (text, padding) = field.split_at(len);
    let text = std::str::from_utf8(text).ok()?;
    let is_valid = padding.iter().all(|byte| *byte == 0) && !text.contains(char::is_control);
    is_valid.then(|| text.into())
}

/// The text without control characters, up to `len_max` bytes of it.
fn printable(text: &str, len_max: usize) -> Box<str> {
    let mut printable = String::new();
    for char in text.chars() {
        let char = if char.is_control() { '?' } else { char };
        if printable.len() + char.len_utf8() > len_max {
            break;
        }
        printable.push(char);
    }
    printable.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(term: Term, record: &OwnerRecord) -> [u8; OWNER_BLOCK_LEN] {
        let mut bytes = [0; OWNER_BLOCK_LEN];
        bytes[..RECORD_OFFSET].copy_from_slice(&term.0.to_le_bytes());
        bytes[RECORD_OFFSET..].copy_from_slice(&record.encode());
        bytes
    }

    #[test]
    fn a_record_stands_on_the_volume_byte_for_byte() {
        let mut record = OwnerRecord::new(Term(7), "files on web1", "web1:2049");
        record.beat = 3;
        let bytes = block(Term(7), &record);
        assert_eq!(&bytes[..16], b"\x07\0\0\0\0\0\0\0nfowner\x1a");
        assert_eq!(&bytes[16..20], &[1, 0, 0, 0]);
        assert_eq!((bytes[24], bytes[32], bytes[40]), (7, 3, 1));
        assert_eq!(&bytes[48..62], b"files on web1\0");
        assert_eq!(&bytes[112..122], b"web1:2049\0");
        assert!(bytes[240..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_block_of_zeroes_has_no_owner() {
        let block = OwnerBlock::decode(&[0; OWNER_BLOCK_LEN]);
        assert_eq!(block, OwnerBlock { term: Term::NONE, record: Ok(None) });
        assert!(block.is_free());
    }

    #[test]
    fn a_record_of_an_earlier_term_does_not_name_the_owner() {
        let mut record = OwnerRecord::new(Term(7), "files", "web1");
        let of = |term, record: &OwnerRecord| OwnerBlock::decode(&block(Term(term), record));
        assert_eq!(of(7, &record).owner(), Some(&record));
        assert_eq!(of(8, &record).owner(), None);
        record.is_released = true;
        assert!(of(7, &record).is_free());
        assert!(!of(8, &record).is_free());
    }

    #[test]
    fn other_data_and_damaged_records_are_refused() {
        let mut bytes = OwnerRecord::new(Term(1), "files", "web1").encode();
        bytes[40] ^= 1;
        assert!(matches!(OwnerRecord::decode(&bytes), Err(RecordError::Checksum { .. })));
        assert_eq!(OwnerRecord::decode(&[0xA5; OWNER_RECORD_LEN]), Err(RecordError::Foreign));
    }

    #[test]
    fn fields_that_no_version_writes_are_refused_with_a_valid_checksum() {
        let refused = |change: fn(&mut OnDisk)| {
            let bytes = OwnerRecord::new(Term(1), "files", "web1").encode();
            let mut raw: OnDisk = zerocopy::transmute!(bytes);
            change(&mut raw);
            raw.checksum = U32::new(raw.computed_checksum());
            OwnerRecord::decode(&zerocopy::transmute!(raw)).unwrap_err()
        };
        let field = RecordError::Field;
        assert_eq!(refused(|raw| raw.version = U32::new(2)), RecordError::Version(2));
        assert_eq!(refused(|raw| raw.state = 0), field("state"));
        assert_eq!(refused(|raw| raw.reserved[6] = 1), field("reserved field"));
        assert_eq!(refused(|raw| raw.rest[0] = 1), field("reserved field"));
        assert_eq!(refused(|raw| raw.name = [b'x'; NAME_LEN]), field("name"));
        assert_eq!(refused(|raw| raw.name[0] = 0x1B), field("name"));
        assert_eq!(refused(|raw| raw.address[0] = 0xFF), field("address"));
        assert_eq!(refused(|raw| raw.address[ADDRESS_LEN - 1] = b'x'), field("address"));
    }

    #[test]
    fn long_names_are_cut_between_characters_and_control_characters_are_replaced() {
        let record = OwnerRecord::new(Term(1), &"ü".repeat(40), "a\x1b[2Jb\n");
        assert_eq!(record.name(), "ü".repeat(31));
        assert_eq!(record.address(), "a?[2Jb?");
    }

    proptest! {
        #[test]
        fn decoding_returns_what_was_encoded(
            term: u64, beat: u64, is_released: bool, name: String, address: String,
        ) {
            let record = OwnerRecord::new(Term(term), &name, &address);
            let record = OwnerRecord { beat, is_released, ..record };
            prop_assert_eq!(OwnerRecord::decode(&record.encode()), Ok(Some(record)));
        }

        /// Decoding never panics, and accepts only bytes that encoding produces.
        #[test]
        fn bytes_that_decode_are_those_that_were_encoded(
            at in 0..OWNER_RECORD_LEN, byte: u8, fixes_checksum: bool,
        ) {
            let mut bytes = OwnerRecord::new(Term(5), "files", "web1").encode();
            bytes[at] = byte;
            if fixes_checksum {
                let mut raw: OnDisk = zerocopy::transmute!(bytes);
                raw.checksum = U32::new(raw.computed_checksum());
                bytes = zerocopy::transmute!(raw);
            }
            if let Ok(record) = OwnerRecord::decode(&bytes) {
                prop_assert_eq!(record.map(|record| record.encode()), Some(bytes));
            }
        }
    }
}
