//! The header of a block that a program finds again at its next start, and the choice between two copies.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..8 | a magic, which says what the block is |
//! | 8..12 | the version of its fields, little-endian |
//! | 12..16 | CRC-32C of the whole block with these four bytes as zero, little-endian |
//! | 16.. | the fields |
//!
//! A later version keeps the header in its place, so that an earlier program can tell it from damage.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A block in its form on the device.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OnDisk<T> {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    /// The fields after the header.
    pub fields: T,
}

/// Error: bytes are not a valid block. The messages follow the name of the block.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum OnDiskError {
    /// The magic is missing: the device has other contents, or none.
    #[error("is missing")]
    Absent,
    /// Bytes have changed since the block was written. Only another copy shows whether the medium or this
    /// program is at fault.
    #[error("checksum is {found:#010x}, computed {computed:#010x}")]
    Checksum { found: u32, computed: u32 },
    /// Written by another version of the program.
    #[error("version {found}, this program knows {known}")]
    Version { found: u32, known: &'static str },
    /// A field has a value that no version writes, although the checksum is valid.
    #[error("field is invalid: {0}")]
    Field(&'static str),
}

impl<T: FromBytes + Immutable + IntoBytes + KnownLayout + Unaligned> OnDisk<T> {
    /// A block with these fields.
    pub fn new(magic: [u8; 8], version: u32, fields: T) -> Self {
        let mut block = Self { magic, version: U32::new(version), checksum: U32::ZERO, fields };
        block.checksum = U32::new(block.computed_checksum());
        block
    }

    fn computed_checksum(&self) -> u32 {
        let header = crc32c::crc32c(self.magic.as_bytes());
        let header = crc32c::crc32c_append(header, self.version.as_bytes());
        let header = crc32c::crc32c_append(header, U32::ZERO.as_bytes());
        crc32c::crc32c_append(header, self.fields.as_bytes())
    }

    /// The version, and the fields, which the caller still has to check.
    ///
    /// # Errors
    /// When the block has another magic, or its bytes have changed.
    pub fn open(self, magic: [u8; 8]) -> Result<(u32, T), OnDiskError> {
        if self.magic != magic {
            return Err(OnDiskError::Absent);
        }
        let (found, computed) = (self.checksum.get(), self.computed_checksum());
        match found == computed {
            true => Ok((self.version.get(), self.fields)),
            false => Err(OnDiskError::Checksum { found, computed }),
        }
    }
}

/// The copy that counts: the valid one, or, if both are valid, that with the higher generation.
///
/// # Errors
/// When neither is valid: the fault of the first, or of the second when the first is absent.
pub fn choose_copy<T>(
    copies: [Result<T, OnDiskError>; 2],
    generation: impl Fn(&T) -> u64,
) -> Result<T, OnDiskError> {
    match copies {
        [Ok(first), Ok(second)] if generation(&second) > generation(&first) => Ok(second),
        [Ok(one), _] | [_, Ok(one)] => Ok(one),
        [Err(OnDiskError::Absent), second] => second,
        [first, _] => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Block = OnDisk<[u8; 16]>;
    const MAGIC: [u8; 8] = *b"nrtest\0\x1a";

    #[test]
    fn a_block_is_laid_out_as_the_table_says() {
        let bytes: [u8; 32] = zerocopy::transmute!(Block::new(MAGIC, 0x0102, [7; 16]));
        assert_eq!(bytes[..12], *b"nrtest\0\x1a\x02\x01\0\0");
        assert_eq!(bytes[16..], [7; 16]);
        let mut without = bytes;
        without[12..16].fill(0);
        assert_eq!(bytes[12..16], crc32c::crc32c(&without).to_le_bytes());
    }

    #[test]
    fn a_changed_byte_is_noticed_and_another_magic_is_another_block() {
        let bytes: [u8; 32] = zerocopy::transmute!(Block::new(MAGIC, 1, [7; 16]));
        let open = |bytes: [u8; 32]| -> Result<(u32, [u8; 16]), OnDiskError> {
            let block: Block = zerocopy::transmute!(bytes);
            block.open(MAGIC)
        };
        assert_eq!(open(bytes), Ok((1, [7; 16])));
        for at in 0..32 {
            let mut changed = bytes;
            changed[at] ^= 0x10;
            let is_absent = open(changed) == Err(OnDiskError::Absent);
            assert!(open(changed).is_err() && is_absent == (at < 8), "byte {at}");
        }
        assert_eq!(open([0; 32]), Err(OnDiskError::Absent));
    }

    #[test]
    fn the_whole_copy_of_the_higher_generation_counts() {
        let torn = Err(OnDiskError::Checksum { found: 1, computed: 2 });
        let absent = Err(OnDiskError::Absent);
        let choose = |first, second| choose_copy([first, second], |it: &u64| *it);
        for (first, second, chosen) in [
            (Ok(7), Ok(8), Ok(8)),
            (Ok(8), Ok(7), Ok(8)),
            (torn, Ok(7), Ok(7)),
            (Ok(8), absent, Ok(8)),
            (absent, torn, torn),
            (torn, absent, torn),
            (absent, absent, absent),
        ] {
            assert_eq!(choose(first, second), chosen);
        }
    }
}
