//! Units as types: a position, a count and a size do not mix, and only the block size converts
//! between them.
//!
//! This crate knows nothing about protocols, devices or time sources. All arithmetic either cannot
//! overflow or reports an overflow.

mod blocks;
mod bytes;
mod one_line;
mod time;

pub use blocks::{BlockSize, Blocks, Lba};
pub use bytes::{ByteLen, ByteOffset, KIB, MIB, ParseSizeError, parse_size};
pub use one_line::OneLine;
pub use time::{Nanos, ParseDurationError, UnixTime, parse_duration};

/// A number of 32 bits as an index.
#[inline]
pub fn index(number: u32) -> usize {
    usize::try_from(number).expect("usize is at least 32 bits wide")
}
