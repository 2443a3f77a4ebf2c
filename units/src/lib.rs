//! Units as types: a position, a count and a size do not mix, and the only road between them is
//! the block size.
//!
//! Knows nothing of protocols, devices or time sources: everything here is arithmetic that cannot
//! overflow without saying so.

mod blocks;
mod bytes;
mod one_line;
mod time;

pub use blocks::{BlockSize, Blocks, Lba};
pub use bytes::{ByteLen, ByteOffset, KIB, MIB, ParseSizeError, parse_size};
pub use one_line::OneLine;
pub use time::{Nanos, ParseDurationError, parse_duration};
