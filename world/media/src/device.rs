//! An opened device: its name, its properties, and the medium that the reactor submits to.

mod file_state;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_device::{DOUBT_MAX, DeviceProperties, DeviceResult, Health, RUN_UNIT};
use nearflash_space::{GRANULE, Name};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::io::Errno;
use uuid::Uuid;

pub use self::file_state::FileRoom;
pub(crate) use self::file_state::FileState;
use self::file_state::truncated;

use crate::file::{Storage, file_run, read_at, zero_range};
use crate::spec::NullDelays;
use crate::{ModelDevice, RamRegion};

/// The length of the range that is zeroed between two reports of progress.
const ZERO_STEP_LEN: u64 = 256 << 20;

/// The interval at which a device that waits checks whether to go on.
const WAIT_STEP: Duration = Duration::from_millis(10);

/// A device, exclusively locked while this value lives. Every core shares it.
#[derive(Debug)]
pub struct Device {
    pub(crate) name: Name,
    pub(crate) uuid: Uuid,
    pub(crate) properties: DeviceProperties,
    pub(crate) health: Arc<Health>,
    pub(crate) data_start: ByteOffset,
    pub(crate) data_len: ByteLen,
    pub(crate) kind: Kind,
    pub(crate) file: FileState,
    pub(crate) source: Option<Box<str>>,
}

/// The access to a device's blocks.
#[derive(Debug)]
pub enum Kind {
    /// Through io_uring: a file or a block device.
    Uring(UringDevice),
    /// In memory, synchronously.
    Ram(RamRegion),
    /// None: reads return zeroes, writes are discarded, and each takes its delay.
    Null(NullDelays),
    /// A model of flash or of phase-change memory: in memory, with the time that the model gives.
    Model(Box<ModelDevice>),
    /// A volume of another node, which the cores reach over the network.
    Remote,
}

/// The file behind a device, for io_uring.
#[derive(Debug)]
pub struct UringDevice {
    pub(crate) fd: OwnedFd,
    pub(crate) is_block: bool,
    pub(crate) direct: bool,
}

impl Device {
    /// A volume of another node.
    pub fn remote(name: Name, uuid: Uuid, properties: DeviceProperties) -> Self {
        Self::unlabelled(name, uuid, properties, Kind::Remote)
    }

    /// A device without a label, all of whose granules may hold volumes.
    pub(crate) fn unlabelled(
        name: Name,
        uuid: Uuid,
        properties: DeviceProperties,
        kind: Kind,
    ) -> Self {
        let data_len = ByteLen(properties.len.0 / GRANULE.0 * GRANULE.0);
        let (data_start, health) = (ByteOffset(0), Arc::default());
        let file = FileState::default();
        Self { name, uuid, properties, health, data_start, data_len, kind, file, source: None }
    }

    /// Zeroes a range of whole blocks durably, before it becomes part of a volume, so that a volume
    /// never exposes data of another volume, or its own from before it was shrunk. This takes as
    /// long as the device does. `goes_on` is called with the number of bytes zeroed since its last
    /// call, and stops the work by returning `false`. Returns whether the whole range is zeroed.
    ///
    /// # Errors
    /// When the device cannot be written, is truncated, or has no room for storage that must be kept.
    pub fn zero(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        storage: Storage,
        goes_on: &mut dyn FnMut(ByteLen) -> bool,
    ) -> io::Result<bool> {
        self.zero_steps(offset, len, storage, goes_on).inspect_err(|error| {
            if error.kind() == io::ErrorKind::StorageFull {
                self.note_refusal();
            }
        })
    }

    fn zero_steps(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        storage: Storage,
        goes_on: &mut dyn FnMut(ByteLen) -> bool,
    ) -> io::Result<bool> {
        self.check_whole()?;
        for (offset, len) in steps(offset, len) {
            let is_whole = match &self.kind {
                // A block device has storage for all of its blocks anyway.
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
                Kind::Model(model) => {
                    model.zero(offset, len).map_err(io::Error::other)?;
                    goes_on(len)
                }
                Kind::Remote => return Err(io::ErrorKind::Unsupported.into()),
            };
            if !is_whole {
                return Ok(false);
            }
        }
        self.check_whole()?;
        match &self.kind {
            Kind::Uring(device) => self.sync(&device.fd, goes_on),
            Kind::Ram(_) | Kind::Null(_) | Kind::Model(_) | Kind::Remote => Ok(true),
        }
    }

    /// Reads for the control side. Offset and length are multiples of 4 KiB. This takes as long as the device does.
    ///
    /// # Errors
    /// When the device cannot be read, or is on another node.
    pub fn read(&self, offset: ByteOffset, into: &mut [u8]) -> io::Result<()> {
        if !self.has(offset, ByteLen::from_usize(into.len())) {
            return Err(truncated());
        }
        match &self.kind {
            Kind::Uring(device) => {
                into.copy_from_slice(&read_at(&device.fd, offset, into.len())?);
            }
            Kind::Ram(region) => region.read(offset, into),
            Kind::Null(_) => into.fill(0),
            Kind::Model(model) => match model.contents() {
                Some(contents) => contents.read(offset, into),
                None => into.fill(0),
            },
            Kind::Remote => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    /// Makes the zeroes durable, and waits until the success can be believed: the kernel reports a
    /// failed write-back once, for the writes of any process. False if `goes_on` ended the wait.
    fn sync(&self, fd: &OwnedFd, goes_on: &mut dyn FnMut(ByteLen) -> bool) -> io::Result<bool> {
        let promise = self.health.begin();
        if let Err(errno) = rustix::fs::fdatasync(fd) {
            self.health.fail(promise);
            return Err(errno.into());
        }
        let (success, since) = (self.health.end(promise), Instant::now());
        loop {
            let known = self.health.judge(success);
            let is_overdue = since.elapsed() >= Duration::from_nanos(DOUBT_MAX.0);
            match known.or_else(|| is_overdue.then(|| self.health.judge_overdue(success))) {
                Some(true) => return Ok(true),
                Some(false) => return Err(io::Error::other("it is suspect: clear it first")),
                None if !goes_on(ByteLen(0)) => return Ok(false),
                None => std::thread::sleep(WAIT_STEP),
            }
        }
    }

    /// Releases the lock of a file that is no longer used. The lock belongs to the open file
    /// description; a ring that is being torn down keeps a reference to it for some time after its
    /// process has ended.
    pub fn release(&self) {
        if let Kind::Uring(device) = &self.kind
            && !device.is_block
        {
            // On failure, the lock ends with the last reference.
            let _ = rustix::fs::flock(&device.fd, rustix::fs::FlockOperation::Unlock);
        }
    }

    /// The allocation of the run of blocks that begins at `offset` and has at most `len` bytes:
    /// mapped to storage, or unmapped and reading as zeroes. A block device does not support this.
    /// The call queries the file system synchronously, which usually has the answer in memory.
    pub fn allocation(&self, offset: ByteOffset, len: ByteLen) -> DeviceResult {
        match &self.kind {
            Kind::Uring(device) if device.is_block => DeviceResult::Unsupported,
            // Behind its end, a file has no storage either.
            Kind::Uring(_) if !self.look() && !self.has(offset, len) => DeviceResult::MediumError,
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
            Kind::Model(model) => model.allocation(offset, len, ByteLen(RUN_UNIT).to_usize()),
            Kind::Remote => DeviceResult::Unsupported,
        }
    }

    /// The name that users give the device.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The UUID in the label; for a device without a label (RAM, null, a model), the one that the node
    /// records.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The properties that the engine and the protocols need.
    pub fn properties(&self) -> DeviceProperties {
        self.properties
    }

    /// Whether a report that data is on stable media can be trusted.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The range of whole granules that volumes can use.
    pub fn data_area(&self) -> (ByteOffset, ByteLen) {
        (self.data_start, self.data_len)
    }

    /// The kind, the path or size, and the options that it is configured with, without `wipe`. `None` for a volume of
    /// another node.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The medium to submit operations to.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
}

/// Cuts a range into steps, after each of which progress is reported.
fn steps(offset: ByteOffset, len: ByteLen) -> impl Iterator<Item = (ByteOffset, ByteLen)> {
    (0..len.0.div_ceil(ZERO_STEP_LEN)).map(move |step| {
        let start = step * ZERO_STEP_LEN;
        (ByteOffset(offset.0 + start), ByteLen((len.0 - start).min(ZERO_STEP_LEN)))
    })
}

/// Waits for the delay while `goes_on` returns `true`. Returns whether the whole delay has passed.
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

    /// Whether it is a block device, whose blocks `BLKDISCARD` deallocates, and not a punched hole.
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// Whether it is opened with `O_DIRECT`: offsets, lengths and buffers are multiples of the
    /// block size.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}
