//! The volume below the files, as an interface: a volume of a node, or the device of a test.

use std::fmt;
use std::io;
use std::sync::Mutex;

use nearflash::Volume;
use nearflash::direct::{Ownership, Status};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

/// The reason for which a node refuses writes of a part of a block.
pub(crate) const NOT_LOCAL: &str =
    "it is a volume of a cluster or of another node, and files need one of the node itself";

/// Error: writes may have been lost together with a connection.
pub(crate) fn lost() -> io::Error {
    let reason =
        "the connection to the node was lost, and the last writes may be, too: repeat them";
    io::Error::new(io::ErrorKind::ConnectionReset, reason)
}

/// The properties of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskProperties {
    /// The name, for messages.
    pub name: String,
    /// The UUID.
    pub uuid: Uuid,
    /// The length.
    pub len: ByteLen,
    /// Whether it can be written.
    pub is_writable: bool,
}

/// A volume: bytes by offset. A write is durable after the next flush that succeeds, unless
/// [`Self::losses`] has changed since before the write.
pub trait Disk: fmt::Debug + Send + Sync {
    /// The properties.
    fn properties(&self) -> DiskProperties;

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// When the volume cannot be read.
    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()>;

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// When the volume cannot be written; some of the bytes may have been.
    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()>;

    /// Writes zeroes.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()>;

    /// Releases storage whose contents are no longer needed.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()>;

    /// Makes all writes durable that have returned since the last of [`Self::losses`].
    ///
    /// # Errors
    /// When one of them may be lost, now or later.
    fn flush(&self) -> io::Result<()>;

    /// Counts all losses that have happened. Otherwise, some may be noticed later.
    ///
    /// # Errors
    /// When the volume cannot be reached.
    fn check_losses(&self) -> io::Result<()> {
        Ok(())
    }

    /// The number of times so far that writes which had returned, and were not flushed, may have been
    /// lost.
    fn losses(&self) -> u64 {
        0
    }

    /// Gives the volume back, if this process owns it. Nothing is written any more.
    ///
    /// # Errors
    /// When the release cannot be written. The next owner then waits for a while.
    fn release(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A volume of a node.
///
/// A connection that was lost and replaced is a loss: the node's machine may have lost power meanwhile,
/// with writes that a flush over the next connection does not cover.
#[derive(Debug)]
pub struct VolumeDisk {
    volume: Volume,
    /// Released when the disk is dropped, if it was not before.
    ownership: Mutex<Option<Ownership>>,
}

impl VolumeDisk {
    /// The disk of a volume that was just opened.
    pub fn new(volume: Volume) -> Self {
        Self { volume, ownership: Mutex::new(None) }
    }

    /// The disk of a volume that this process owns, until the disk is dropped.
    pub fn owned(ownership: Ownership) -> Self {
        Self { volume: ownership.volume().clone(), ownership: Mutex::new(Some(ownership)) }
    }
}

impl Disk for VolumeDisk {
    fn properties(&self) -> DiskProperties {
        let info = self.volume.info();
        DiskProperties {
            name: self.volume.name().to_owned(),
            uuid: Uuid::from_bytes(info.uuid),
            len: ByteLen(info.len),
            is_writable: info.is_writable,
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        Ok(self.volume.read_at(bytes, offset.0)?)
    }

    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()> {
        self.volume.write_at(bytes, offset.0).map_err(|error| match error.status() {
            Some(Status::UNSUPPORTED) => io::Error::new(io::ErrorKind::Unsupported, NOT_LOCAL),
            _ => error.into(),
        })
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        Ok(self.volume.write_zeroes(offset.0, len.0)?)
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        Ok(self.volume.discard(offset.0, len.0)?)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(self.volume.flush()?)
    }

    fn check_losses(&self) -> io::Result<()> {
        Ok(self.volume.check_connections()?)
    }

    fn losses(&self) -> u64 {
        self.volume.replaced_connections()
    }

    fn release(&self) -> io::Result<()> {
        let ownership = self.ownership.lock().expect("nothing panics while it holds it").take();
        ownership.map_or(Ok(()), |ownership| Ok(ownership.release()?))
    }
}
