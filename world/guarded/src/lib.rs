//! A layer below a `redb` database: a checksum for each block, which is checked at every read.
//!
//! `redb` checks its own checksums only when it repairs a file, and trusts the pages that it reads otherwise. A
//! page with other bytes than it has written can make it panic, and a release build aborts on a panic, which
//! `catch_unwind` cannot stop. [`Guarded`] is a storage backend over another one, and returns an error instead
//! of bytes that are not those that were last written: [`Damage`]. It cannot see a block that is whole and out
//! of date, or bytes that somebody has prepared together with their checksums.
//!
//! The guard relies on the way in which `redb` writes, and keeps what it relies on:
//! - Pages are whole blocks, and are written whole. A page that a durable commit can reach is not written
//!   before a later commit is durable. So the block and its checksum need not change at once: after a loss of
//!   power, only blocks that no commit reaches can disagree with their checksums, and they are written before
//!   they are read. A block of checksums also has those of other blocks, which do not change: a write of it
//!   that is torn between two sectors leaves them as they were.
//! - The header is written in place. The guard keeps two copies of it, of one sector each, and writes them in
//!   turn; a copy is durable before the other is written.
//! - Commits must have two phases (`set_two_phase_commit`, `set_quick_repair`). After one of a single phase,
//!   `redb` reads pages that may not be whole, to find out whether they are.
//!
//! The crate knows nothing of the tables, and of the place of the bytes.

mod header;
mod layout;
mod store;

pub use header::{HEADER_AREA_LEN, HEADER_LEN, is_guarded, newest_header};
pub use layout::BLOCK_LEN;
pub use store::Guarded;

/// The bytes of a store are not those that were written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Damage {
    /// Neither copy of the header is whole.
    #[error("its header has the wrong checksum")]
    Header,
    /// A block has other bytes than were written.
    #[error("block {block} has the wrong checksum")]
    Block { block: u64 },
    /// No store has this length.
    #[error("its length of {len} bytes is not one that was written")]
    Len { len: u64 },
}

impl Damage {
    /// The damage that an error reports, if it does.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        error.get_ref().and_then(|cause| cause.downcast_ref()).copied()
    }

    /// The damage that an error of the database reports, if it does.
    pub fn of_database(error: &redb::Error) -> Option<Self> {
        match error {
            redb::Error::Io(error) => Self::of(error),
            _ => None,
        }
    }
}

impl From<Damage> for std::io::Error {
    fn from(damage: Damage) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, damage)
    }
}

#[cfg(test)]
mod tests;
