//! A volume for blocking calls.

use super::error::Error;

/// What a node says of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VolumeInfo {
    /// Its size in bytes.
    pub len: u64,
    /// Of a logical block, in bytes: what is written atomically.
    pub block_size: u32,
    /// Its identity, which another volume of the same name has not.
    pub uuid: [u8; 16],
    /// Of its map: grows with every change of its layout.
    pub epoch: u32,
    /// Some of it may be read.
    pub is_readable: bool,
    /// Some of it may be written.
    pub is_writable: bool,
}

/// A volume for blocking calls. Any number of threads may use one; those that call at the same time
/// have a connection each, so that they do not wait for one another.
///
/// A lost connection is made again. Reads are repeated then; what may have changed the volume is
/// not, and ends with [`Error::Unknown`].
#[derive(Debug)]
pub struct Volume {
    never: std::convert::Infallible,
}

impl Volume {
    /// Its name.
    pub fn name(&self) -> &str {
        match self.never {}
    }

    /// Its size in bytes, as of the last answer.
    pub fn len(&self) -> u64 {
        match self.never {}
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        match self.never {}
    }

    /// Of a logical block, in bytes.
    pub fn block_size(&self) -> u32 {
        match self.never {}
    }

    /// All that the node says of it.
    pub fn info(&self) -> VolumeInfo {
        match self.never {}
    }

    /// Reads the whole of `bytes` at `offset`, both of any alignment and length.
    ///
    /// # Errors
    /// When the range is not all within the volume and our grants, the device fails, or the node
    /// cannot be reached.
    pub fn read_at(&self, _bytes: &mut [u8], _offset: u64) -> Result<(), Error> {
        match self.never {}
    }

    /// Writes the whole of `bytes` at `offset`. Atomic for each logical block; durable after
    /// [`Self::flush`].
    ///
    /// # Errors
    /// As [`Self::read_at`]; a part may have been written then.
    pub fn write_at(&self, _bytes: &[u8], _offset: u64) -> Result<(), Error> {
        match self.never {}
    }

    /// Everything whose call has returned is on stable media when this returns.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn flush(&self) -> Result<(), Error> {
        match self.never {}
    }

    /// The contents of `len` bytes at `offset` are no longer needed.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn discard(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        match self.never {}
    }

    /// Puts `new` in place of the little-endian 8-byte word at `offset` if it is `expected`, and
    /// returns the word that was there: `expected` if it was put.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is no multiple of 8.
    pub fn compare_and_swap(&self, _offset: u64, _expected: u64, _new: u64) -> Result<u64, Error> {
        match self.never {}
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴, and returns the word that was
    /// there.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is no multiple of 8.
    pub fn fetch_add(&self, _offset: u64, _addend: u64) -> Result<u64, Error> {
        match self.never {}
    }
}
