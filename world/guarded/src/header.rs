//! The two copies of the header of the database. Each is a sector, in a block of its own.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{BLOCK, BLOCK_LEN};

/// The length of the header of a `redb` file, format 3.
pub const HEADER_LEN: usize = 320;

pub(crate) const COPY_LEN: usize = 512;

/// The length of the part below that has both copies.
pub const HEADER_AREA_LEN: usize = BLOCK_LEN + COPY_LEN;

const MAGIC: [u8; 8] = *b"nrstore\x1a";

/// A copy as it is below.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    magic: [u8; 8],
    /// CRC-32C of all bytes of the copy, this field as zero.
    checksum: U32,
    reserved: U32,
    generation: U64,
    header: [u8; HEADER_LEN],
    rest: [u8; 168],
}
const _: () = assert!(size_of::<OnDisk>() == COPY_LEN);

impl OnDisk {
    fn computed_checksum(mut self) -> u32 {
        self.checksum = U32::ZERO;
        crc32c::crc32c(self.as_bytes())
    }
}

/// A header, and the number of those that were written before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) generation: u64,
    pub(crate) bytes: [u8; HEADER_LEN],
}

impl Header {
    /// The place below of this copy.
    pub(crate) fn offset(&self) -> u64 {
        self.generation % 2 * BLOCK
    }

    pub(crate) fn encode(&self) -> [u8; COPY_LEN] {
        let mut raw = OnDisk::new_zeroed();
        (raw.magic, raw.header) = (MAGIC, self.bytes);
        raw.generation = U64::new(self.generation);
        raw.checksum = U32::new(raw.computed_checksum());
        zerocopy::transmute!(raw)
    }

    fn decode(copy: &[u8]) -> Option<Self> {
        let raw = OnDisk::read_from_bytes(copy).ok()?;
        let is_whole = raw.magic == MAGIC && raw.checksum.get() == raw.computed_checksum();
        is_whole.then(|| Self { generation: raw.generation.get(), bytes: raw.header })
    }

    /// The copy that counts: the whole one, or the later one of two.
    pub(crate) fn newest(area: &[u8; HEADER_AREA_LEN]) -> Option<Self> {
        let first = Self::decode(&area[..COPY_LEN]);
        let second = Self::decode(&area[BLOCK_LEN..]);
        first.into_iter().chain(second).max_by_key(|copy| copy.generation)
    }
}

/// The header of the database in the first bytes of a guarded store; `None` if neither copy is whole.
pub fn newest_header(area: &[u8; HEADER_AREA_LEN]) -> Option<[u8; HEADER_LEN]> {
    Header::newest(area).map(|header| header.bytes)
}

/// Whether a file that begins with these bytes is not one that `redb` has written without a guard.
pub fn is_guarded(start: &[u8]) -> bool {
    !start.starts_with(b"redb\x1a\x0a")
}
