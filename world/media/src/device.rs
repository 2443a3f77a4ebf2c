//! An opened device: what it is called, what it can do, and what the reactor submits to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nearflash_device::{DeviceProperties, DeviceResult, Health, RUN_UNIT};
use nearflash_space::{GRANULE, Name};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::io::Errno;
use uuid::Uuid;

use crate::RamRegion;
use crate::file::{Storage, file_run, zero_range};

/// The most that is zeroed between two reports of progress.
const ZERO_STEP_LEN: u64 = 256 << 20;

/// How often a device that waits asks whether that is still wanted.
const WAIT_STEP: Duration = Duration::from_millis(10);

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

    /// Makes a range of whole blocks read as zeroes, durably, before it becomes part of a volume, so
    /// that no volume shows another's bytes, or its own from before it shrank. Takes as long as the
    /// device does. `goes_on` hears how many more bytes are zeroed, and ends it by returning `false`.
    /// Whether all is zeroed.
    ///
    /// # Errors
    /// When the device cannot be written, or has no room for what is to keep its storage.
    pub fn zero(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        storage: Storage,
        goes_on: &mut dyn FnMut(ByteLen) -> bool,
    ) -> io::Result<bool> {
        for (offset, len) in steps(offset, len) {
            let is_whole = match &self.kind {
                // A block device has the storage of all its blocks.
                Kind::Uring(device) if device.is_block => {
                    zero_range(&device.fd, offset, len, Storage::Released, goes_on)?.is_whole()
                }
                Kind::Uring(device) => {
                    zero_range(&device.fd, offset, len, storage, goes_on)?.is_whole()
                }
                Kind::Ram(region) => {
                    region.zero(offset, len);
                    goes_on(len)
                }
                Kind::Null(delays) => wait(delays.write, goes_on) && goes_on(len),
            };
            if !is_whole {
                return Ok(false);
            }
        }
        match &self.kind {
            Kind::Uring(device) => self.sync(&device.fd, goes_on),
            Kind::Ram(_) | Kind::Null(_) => Ok(true),
        }
    }

    /// Makes durable what was zeroed, and waits until that is to be believed: the system reports a
    /// failed write-back once, whosever it was. Whether that was wanted to the end.
    fn sync(&self, fd: &OwnedFd, goes_on: &mut dyn FnMut(ByteLen) -> bool) -> io::Result<bool> {
        let promise = self.health.begin();
        if let Err(errno) = rustix::fs::fdatasync(fd) {
            self.health.fail(promise);
            return Err(errno.into());
        }
        let success = self.health.end(promise);
        loop {
            match self.health.judge(success) {
                Some(true) => return Ok(true),
                Some(false) => return Err(io::Error::other("it is suspect: clear it first")),
                None if !goes_on(ByteLen(0)) => return Ok(false),
                None => std::thread::sleep(WAIT_STEP),
            }
        }
    }

    /// Gives up the lock of a file that nothing uses any more. The lock belongs to the open file, of
    /// which a ring that is being torn down keeps a reference for some time after its process has
    /// ended.
    pub fn release(&self) {
        if let Kind::Uring(device) = &self.kind
            && !device.is_block
        {
            // It ends with the last reference in any case.
            let _ = rustix::fs::flock(&device.fd, rustix::fs::FlockOperation::Unlock);
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

/// A range in steps, after each of which progress is reported.
fn steps(offset: ByteOffset, len: ByteLen) -> impl Iterator<Item = (ByteOffset, ByteLen)> {
    (0..len.0.div_ceil(ZERO_STEP_LEN)).map(move |step| {
        let start = step * ZERO_STEP_LEN;
        (ByteOffset(offset.0 + start), ByteLen((len.0 - start).min(ZERO_STEP_LEN)))
    })
}

/// Lets the time pass, as long as that is wanted. Whether it was to the end.
fn wait(delay: Nanos, goes_on: &mut dyn FnMut(ByteLen) -> bool) -> bool {
    let mut left = Duration::from_nanos(delay.0);
    while !left.is_zero() {
        if !goes_on(ByteLen(0)) {
            return false;
        }
        let step = left.min(WAIT_STEP);
        std::thread::sleep(step);
        left -= step;
    }
    true
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
