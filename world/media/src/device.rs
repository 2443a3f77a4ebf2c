//! An opened device: what it is called, what it can do, and what the reactor submits to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearflash_device::{DeviceProperties, DeviceResult, Health, RUN_UNIT};
use nearflash_space::{GRANULE, Name};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::io::Errno;
use uuid::Uuid;

use crate::RamRegion;
use crate::file::{Storage, file_run, zero_range};

/// A device that is ours for as long as this lives. Shared by every core.
#[derive(Debug)]
pub struct Device {
    pub(crate) name: Name,
    pub(crate) uuid: Uuid,
    pub(crate) properties: DeviceProperties,
    pub(crate) health: Arc<Health>,
    pub(crate) data_start: ByteOffset,
    pub(crate) data_len: ByteLen,
    pub(crate) kind: Kind,
}

/// How blocks of the device are reached.
#[derive(Debug)]
pub enum Kind {
    /// Through the ring: a file or a block device.
    Uring(UringDevice),
    /// In memory, at once.
    Ram(RamRegion),
    /// Nowhere: reads are zeroes, writes are forgotten, and only time passes.
    Null(NullDelays),
}

/// What the ring needs to know of a file or a block device.
#[derive(Debug)]
pub struct UringDevice {
    pub(crate) fd: OwnedFd,
    pub(crate) is_block: bool,
    pub(crate) direct: bool,
}

/// What the null device waits before it answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NullDelays {
    /// Before a read is answered.
    pub read: Nanos,
    /// Before a write is answered, and everything else that changes blocks.
    pub write: Nanos,
}

impl Device {
    /// A device without a label: volumes may lie on all of it.
    pub(crate) fn unlabelled(
        name: Name,
        uuid: Uuid,
        properties: DeviceProperties,
        kind: Kind,
    ) -> Self {
        let data_len = ByteLen(properties.len.0 / GRANULE.0 * GRANULE.0);
        let (data_start, health) = (ByteOffset(0), Arc::default());
        Self { name, uuid, properties, health, data_start, data_len, kind }
    }

    /// Makes a range of whole granules read as zeroes, durably, before it is given to a volume: so
    /// no volume ever reads another's blocks. Takes as long as the device does.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn zero(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        match &self.kind {
            Kind::Uring(device) => {
                zero_range(&device.fd, offset, len, Storage::Released)?;
                Ok(rustix::fs::fdatasync(&device.fd)?)
            }
            Kind::Ram(region) => {
                region.zero(offset, len);
                Ok(())
            }
            Kind::Null(_) => Ok(()),
        }
    }

    /// The same, and a file's blocks are taken from its file system now, for a volume that is to keep
    /// all its storage. Other devices have theirs.
    ///
    /// # Errors
    /// When the device cannot be written, or its file system has no room.
    pub fn allocate(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        match &self.kind {
            Kind::Uring(device) if !device.is_block => {
                zero_range(&device.fd, offset, len, Storage::Kept)?;
                Ok(rustix::fs::fdatasync(&device.fd)?)
            }
            _ => self.zero(offset, len),
        }
    }

    /// How the run of blocks is that begins at `offset` and ends with `len` at the latest: with
    /// storage of its own, or without and read as zeroes. A block device does not know. Asks the
    /// file system at once, which has that in memory most of the time.
    pub fn allocation(&self, offset: ByteOffset, len: ByteLen) -> DeviceResult {
        match &self.kind {
            Kind::Uring(device) if device.is_block => DeviceResult::Unsupported,
            Kind::Uring(device) => match file_run(&device.fd, offset, len) {
                Ok((mapped, len)) => DeviceResult::run(mapped, len),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => DeviceResult::Unsupported,
                Err(_) => DeviceResult::MediumError,
            },
            Kind::Ram(region) => {
                let unit = ByteLen(RUN_UNIT).to_usize();
                let (is_zero, len) = region.run(offset, len, unit);
                DeviceResult::run(!is_zero, len)
            }
            Kind::Null(_) => DeviceResult::run(false, len),
        }
    }

    /// What users call it.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What its label calls it; for devices without a label (RAM, null) what the node does.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// What the engine and the doors need to know of it.
    pub fn properties(&self) -> DeviceProperties {
        self.properties
    }

    /// Whether it is believed when it says that all is on stable media.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Where volumes may lie: from here, so many bytes, whole granules.
    pub fn data_area(&self) -> (ByteOffset, ByteLen) {
        (self.data_start, self.data_len)
    }

    /// What to submit to.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl UringDevice {
    /// The file, open for reading and writing, exclusively locked.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A block device: discarded by `BLKDISCARD` rather than by punching holes.
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// Opened with `O_DIRECT`: offsets, lengths and buffers are multiples of the block size.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}
