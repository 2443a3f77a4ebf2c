//! Sealed objects over the connections of a volume.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use nearflash_direct::Seal;

use super::error::Error;
use super::slices::Source;
use super::volume::Volume;

/// A sealed object for blocking calls, from [`Volume::object`]. Any number of objects share the connections of
/// their volume, and any number of threads an object. Offsets are the object's.
///
/// Each connection opens the seal with the first call that uses it. A seal can be opened for a minute, so a
/// connection that is made or used for the first time later refuses the object, as it does after the seal was
/// revoked: with [`Status::STALE_EPOCH`](super::Status::STALE_EPOCH). The owner then gives another seal.
#[derive(Clone, Debug)]
pub struct Object {
    volume: Volume,
    seal: Arc<Seal>,
}

impl Volume {
    /// The object of a seal. Nothing is opened yet.
    pub fn object(&self, seal: Seal) -> Object {
        Object { volume: self.clone(), seal: Arc::new(seal) }
    }
}

impl Object {
    /// The seal.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no object is empty")]
    pub fn len(&self) -> u64 {
        self.seal.terms().len()
    }

    /// Fills `bytes` from `offset`; both are of any alignment and length.
    ///
    /// # Errors
    /// When the range is not within the object, the seal is void or gives no right to read, or the node cannot
    /// be reached.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let slices = &mut [IoSliceMut::new(bytes)];
        self.volume.with_worker(|worker| {
            worker.on_object(&self.seal, |worker| worker.read(slices, offset))
        })
    }

    /// Writes all of `bytes` at `offset`. The write is durable after the next flush of the volume.
    ///
    /// # Errors
    /// As [`Self::read_at`], for the right to write; [`Error::Unknown`] when the bytes may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let slices = &[IoSlice::new(bytes)];
        self.volume.with_worker(|worker| {
            let source = Source::Slices(slices);
            worker.on_object(&self.seal, |worker| worker.write(source, offset, false))
        })
    }
}
