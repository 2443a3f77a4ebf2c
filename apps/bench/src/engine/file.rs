//! A file or block device of this machine, over io_uring, bypassing the page cache.
//!
//! Its rate is the denominator of every remote figure on a device, so the loop must be as fast as
//! possible: one system call per turn, and none while it spins without work.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nearflash_units::{ByteLen, MIB, Nanos};
use rustix::event::PollFd;

use super::ring::Ring;
use super::{Done, Engine, EngineError, FileError, Opener, Slot, waker};
use crate::BenchError;
use crate::engine::aligned::SlotBuffers;
use crate::workload::Op;

/// The default of [`FileOptions::batch`]. With small batches, refilled slots reach the device while
/// it still has work. Without a limit, a virtio disk reached 0.85 of fio's IOPS at depth 32, and
/// 0.99 with eight.
pub const FILE_BATCH: u32 = 8;

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The file or device.
    pub path: PathBuf,
    /// Bypass the page cache (O_DIRECT).
    pub direct: bool,
    /// Open for writing as well.
    pub writes: bool,
    /// Extend a regular file to at least this length before the measurement.
    pub len_min: Option<ByteLen>,
    /// Maximum number of operations per system call, and of completions taken before their slots
    /// are refilled. The kernel merges adjacent operations of one batch, so in sequential order the
    /// device sees fewer and larger requests.
    pub batch: u32,
}

impl FileOptions {
    pub(super) fn open(&self) -> Result<File, FileError> {
        let mut flags = if self.direct { libc::O_DIRECT } else { 0 };
        if self.writes && is_block_device(&self.path) {
            // O_EXCL without O_CREAT: the kernel refuses a block device that is in use.
            flags |= libc::O_EXCL;
        }
        let opened =
            OpenOptions::new().read(true).write(self.writes).custom_flags(flags).open(&self.path);
        opened.map_err(|source| self.refusal(source))
    }

    fn refusal(&self, source: io::Error) -> FileError {
        let path = self.path.clone();
        match source.raw_os_error() {
            Some(libc::ENOENT) => FileError::Absent { path },
            Some(libc::EINVAL) if self.direct => FileError::NoDirect { path },
            Some(libc::EBUSY) => FileError::InUse { path },
            _ => FileError::Open { path, source },
        }
    }

    /// Extends the file if necessary; returns its length.
    ///
    /// # Errors
    /// When the file cannot be opened or extended.
    pub fn prepare(&self) -> Result<ByteLen, FileError> {
        if let Some(len) = self.len_min
            && !is_block_device(&self.path)
        {
            let made = lay_out(&self.path, len);
            made.map_err(|source| FileError::Open { path: self.path.clone(), source })?;
        }
        let file = self.open()?;
        let kind = file.metadata().map(|metadata| metadata.file_type());
        if !kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()) {
            return Err(FileError::NoStorage { path: self.path.clone() });
        }
        let end = io::Seek::seek(&mut &file, io::SeekFrom::End(0));
        end.map(ByteLen).map_err(|source| self.refusal(source))
    }
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Appends data up to `len`. Reads of unwritten extents would be answered with zeros without
/// accessing the device, and would look too fast. Existing data is kept.
fn lay_out(path: &Path, len: ByteLen) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    let mut chunk = SlotBuffers::new(1, ByteLen(MIB));
    // Random data, since a device may compress data or detect zeros.
    let mut state = len.0;
    for word in chunk.get_mut(0).chunks_mut(8) {
        word.copy_from_slice(&crate::workload::splitmix64(&mut state).to_le_bytes());
    }
    let mut at = file.metadata()?.len();
    if at >= len.0 {
        return Ok(());
    }
    while at < len.0 {
        let step = chunk.get(0).len().min(ByteLen(len.0 - at).to_usize());
        file.write_all_at(&chunk.get(0)[..step], at)?;
        at += ByteLen::from_usize(step).0;
    }
    file.sync_all()?;
    // Drops the page cache, which direct reads would have to look up.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// The engine.
pub struct FileEngine {
    ring: Ring,
    sync: File,
    op_len: ByteLen,
    batch: usize,
}

impl FileEngine {
    /// Opens the file. The engine belongs to the calling thread.
    ///
    /// # Errors
    /// When the file cannot be opened, or io_uring is forbidden.
    pub fn open(options: &FileOptions, depth: usize, op_len: ByteLen) -> Result<Self, BenchError> {
        let file = options.open()?;
        let no_ring = |source| BenchError::NoRing { source };
        let sync = file.try_clone().map_err(no_ring)?;
        let ring = Ring::new(file, depth, op_len).map_err(no_ring)?;
        let batch = usize::try_from(options.batch).expect("usize is at least 32 bits wide");
        Ok(Self { ring, sync, op_len, batch })
    }
}

impl Engine for FileEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        self.ring.buffer(slot)
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.ring.buffer_mut(slot)
    }

    fn submit(&mut self, slot: Slot, op: Op) {
        self.ring.start(slot, op);
        if self.ring.queued() >= self.batch {
            // Operations that the kernel does not accept stay queued; the next poll reports the
            // error.
            let _ = self.ring.enter();
        }
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        self.ring.enter().map_err(failed)?;
        for _ in 0..self.batch {
            let Some(reaped) = self.ring.reap() else { break };
            let result = match reaped.moved {
                Ok(moved) if moved == self.op_len => Ok(()),
                Ok(moved) => Err(EngineError::Short { moved, asked: self.op_len }),
                Err(source) => Err(EngineError::Io { what: "the device failed", source }),
            };
            done.push(Done { slot: reaped.slot, result });
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        self.ring.enter().map_err(failed)
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        self.ring.doze().map_err(failed)
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        wakers.extend(self.ring.bell().map(|bell| waker(bell, false)));
    }

    fn awake(&mut self) {
        self.ring.awake();
    }

    /// A single engine sleeps in the ring, without an eventfd.
    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        if self.ring.in_flight() == 0 {
            std::thread::sleep(span.to_duration());
            return Ok(());
        }
        self.ring.wait(span).map_err(failed)
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        self.sync.sync_data().map_err(|source| EngineError::Io { what: "fdatasync", source })
    }
}

impl Opener for FileOptions {
    type Engine = FileEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<FileEngine, BenchError> {
        FileEngine::open(self, depth, op_len)
    }
}

fn failed(source: io::Error) -> EngineError {
    EngineError::Io { what: "io_uring_enter", source }
}
