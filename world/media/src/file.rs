//! A file or a block device, opened and locked, with the properties that the system reports.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nearflash_space::Name;
use nearflash_units::{BlockSize, ByteLen, ByteOffset};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat, StatxFlags,
    fallocate, fcntl_getfl, fcntl_setfl, flock, fstat, fsync, ftruncate, ioctl_blksszget, major,
    minor, open, seek, statx,
};
use rustix::io::{Errno, pread, pwrite};

use crate::aligned::Aligned;
use crate::error::OpenError;
use crate::holder::Holder;

/// The time for which an open retries while the device is busy: its file may be closed shortly
/// after its process has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same time after a node was killed: its operations end when the device completes them.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(60);

/// The interval between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// The parameters of opening a file or a block device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a Name,
    pub(crate) path: &'a Path,
    pub(crate) is_block: bool,
    /// Whether the operator has chosen the kernel's page cache instead of `O_DIRECT`.
    pub(crate) page_cache: bool,
    /// The previous owner of the data directory, if it was killed rather than stopped.
    pub(crate) ended: Option<u32>,
}

/// An open file or block device, exclusively locked.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) fd: OwnedFd,
    pub(crate) is_block: bool,
    pub(crate) direct: bool,
    pub(crate) len: ByteLen,
    pub(crate) block_size: BlockSize,
    pub(crate) volatile_cache: bool,
}

impl Asked<'_> {
    fn io(&self, action: &'static str, errno: Errno) -> OpenError {
        let (name, path) = (self.name.clone(), self.path.to_owned());
        OpenError::Io { name, action, path, source: errno.into() }
    }

    fn wrong_kind(&self, is: &'static str, remedy: &'static str) -> OpenError {
        let (name, path) = (self.name.clone(), self.path.to_owned());
        OpenError::WrongKind { name, path, is, remedy }
    }

    fn in_use(&self, by: impl ToString, remedy: &'static str) -> OpenError {
        let (name, path, by) = (self.name.clone(), self.path.to_owned(), by.to_string());
        OpenError::InUse { name, path, by, remedy }
    }

    /// Creates a sparse file of this size, and makes it durable.
    pub(crate) fn create(&self, size: ByteLen) -> Result<(), OpenError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd =
            open(self.path, flags, Mode::RUSR | Mode::WUSR).map_err(|e| self.io("create", e))?;
        let sized = ftruncate(&fd, size.0).and_then(|()| fsync(&fd));
        sized.map_err(|errno| {
            // The next start would mistake an empty file for a device.
            let _ = std::fs::remove_file(self.path);
            self.io("set the size of", errno)
        })?;
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let synced = open(folder, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).and_then(fsync);
        synced.map_err(|e| self.io("sync the directory of", e))
    }

    /// Opens and locks the device. `None` if the file does not exist.
    pub(crate) fn open(&self) -> Result<Option<OpenFile>, OpenError> {
        let (fd, mut direct) = match self.patiently(Errno::BUSY, || self.open_direct(), || None) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::BUSY) => {
                return Err(
                    self.in_use("the system or another program", "unmount or stop it first")
                );
            }
            Err(Errno::ISDIR) => return Err(self.wrong_kind("a directory", "name a file in it")),
            Err(errno) => return Err(self.io("open", errno)),
        };
        let stat = fstat(&fd).map_err(|e| self.io("stat", e))?;
        self.check_kind(&stat)?;
        self.lock(&fd)?;
        let len = seek(&fd, SeekFrom::End(0)).map_err(|e| self.io("measure", e))?;
        self.clear_flags(&fd, OFlags::NONBLOCK)?;
        let block_size = match self.is_block {
            true => Some(self.block_size(&fd)?),
            false => direct.then(|| direct_block_size(&fd)).flatten(),
        };
        if block_size.is_none() {
            self.clear_flags(&fd, OFlags::DIRECT)?;
            direct = false;
        }
        if !direct && !self.page_cache {
            self.warn_of_page_cache();
        }
        let block_size = block_size.unwrap_or(BlockSize::B512);
        let volatile_cache = !self.is_block || !direct || block_is_volatile(&stat);
        let len = ByteLen(len >> block_size.shift() << block_size.shift());
        let is_block = self.is_block;
        Ok(Some(OpenFile { fd, is_block, direct, len, block_size, volatile_cache }))
    }

    /// Returns the descriptor, and whether it uses direct I/O.
    fn open_direct(&self) -> Result<(OwnedFd, bool), Errno> {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if self.is_block {
            flags |= OFlags::EXCL; // without CREATE: nobody else, not even a mount
        }
        if self.page_cache {
            return Ok((open(self.path, flags, Mode::empty())?, false));
        }
        match open(self.path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) => Ok((fd, true)),
            Err(Errno::INVAL) => open(self.path, flags, Mode::empty()).map(|fd| (fd, false)),
            Err(errno) => Err(errno),
        }
    }

    fn block_size(&self, fd: &OwnedFd) -> Result<BlockSize, OpenError> {
        let bytes = ioctl_blksszget(fd).map_err(|e| self.io("read the block size of", e))?;
        let invalid = || self.io("use the block size of", Errno::INVAL);
        BlockSize::from_bytes(bytes).ok_or_else(invalid)
    }

    fn warn_of_page_cache(&self) {
        tracing::warn!(
            "device '{}': {} is used through the page cache, because its file system refuses \
             O_DIRECT: expect higher latency, and memory used twice",
            self.name,
            self.path.display()
        );
    }

    /// Clears flags. `NONBLOCK` only keeps the open of a pipe from waiting for the other end; in
    /// the ring it would fail operations that should wait.
    fn clear_flags(&self, fd: &OwnedFd, flags: OFlags) -> Result<(), OpenError> {
        let set = fcntl_getfl(fd).and_then(|set| fcntl_setfl(fd, set - flags));
        set.map_err(|e| self.io("set up", e))
    }

    /// Locks a file against other nodes. A block device is opened exclusively, which is stronger,
    /// and the system's device manager takes its lock at times.
    fn lock(&self, fd: &OwnedFd) -> Result<(), OpenError> {
        if self.is_block {
            return Ok(());
        }
        let lock = || flock(fd, FlockOperation::NonBlockingLockExclusive);
        let holder = || Holder::of(fd);
        self.patiently(Errno::WOULDBLOCK, lock, holder).map_err(|errno| match errno {
            Errno::WOULDBLOCK => match holder() {
                Some(holder) => self.in_use(holder, "stop it first"),
                None => self.in_use("another node or program", "stop it first"),
            },
            other => self.io("lock", other),
        })
    }

    /// Retries while the error is `busy`, for a bounded time. The lock becomes free only when the
    /// last operation of its previous owner has ended, so that none of them takes effect later. If `holder` is
    /// another process, which runs, that owner is not what the start waits for.
    fn patiently<T>(
        &self,
        busy: Errno,
        mut attempt: impl FnMut() -> Result<T, Errno>,
        holder: impl Fn() -> Option<Holder>,
    ) -> Result<T, Errno> {
        let mut deadline = None;
        loop {
            match attempt() {
                Err(errno) if errno == busy => {}
                over => return over,
            }
            let now = Instant::now();
            let until = *deadline.get_or_insert_with(|| {
                let is_held = |pid: &u32| holder().is_none_or(|holder| holder.pid == *pid);
                let Some(pid) = self.ended.filter(is_held) else { return now + PATIENCE };
                let (name, path) = (self.name, self.path.display());
                tracing::warn!(
                    "device '{name}': waiting for the last operations of process {pid}, which has \
                     ended, on {path}"
                );
                now + PATIENCE_AFTER_KILL
            });
            if now >= until {
                return Err(busy);
            }
            std::thread::sleep(POLL);
        }
    }

    fn check_kind(&self, stat: &Stat) -> Result<(), OpenError> {
        match (FileType::from_raw_mode(stat.st_mode), self.is_block) {
            (FileType::RegularFile, false) | (FileType::BlockDevice, true) => Ok(()),
            (FileType::RegularFile, true) => {
                Err(self.wrong_kind("a file", "write file: before it"))
            }
            (FileType::BlockDevice, false) => {
                Err(self.wrong_kind("a block device", "write block: before it"))
            }
            _ => Err(self.wrong_kind("neither a file nor a block device", "name one of them")),
        }
    }
}

impl OpenFile {
    /// Reads from `offset` on. `offset` and `len` are multiples of 4 KiB, except at the file's end.
    pub(crate) fn read(&self, offset: ByteOffset, len: usize) -> io::Result<Aligned> {
        read_at(&self.fd, offset, len)
    }
}

/// Reads from `offset` on. `offset` and `len` are multiples of 4 KiB, except at the file's end.
pub(crate) fn read_at(fd: &OwnedFd, offset: ByteOffset, len: usize) -> io::Result<Aligned> {
    let mut bytes = Aligned::new(len);
    let mut done = 0;
    while done < len {
        let at = offset.0 + ByteLen::from_usize(done).0;
        match pread(fd, &mut bytes[done..], at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(bytes)
}

/// Zeroes 64 KiB at `offset`, and releases their storage if the file can. Returns whether it could.
pub(crate) fn releases(fd: &OwnedFd, offset: ByteOffset) -> io::Result<bool> {
    let len = ByteLen(65_536);
    Ok(zero_range(fd, offset, len, Storage::Released, &mut |_| true)? == Zeroed::Released)
}

/// Whether a file can release storage. Nothing is written: the range is behind the end of the file.
pub(crate) fn punches(fd: &OwnedFd, len: ByteLen) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let behind = len.0.next_multiple_of(65_536);
    fallocate(fd, flags, behind, 65_536).is_ok()
}

/// Writes at `offset`. Offset and length are multiples of 4 KiB, except at the file's end.
pub(crate) fn write_at(fd: &OwnedFd, offset: ByteOffset, from: &[u8]) -> io::Result<()> {
    let mut bytes = Aligned::new(from.len());
    bytes.copy_from_slice(from);
    let mut done = 0;
    while done < from.len() {
        let at = offset.0 + ByteLen::from_usize(done).0;
        match pwrite(fd, &bytes[done..], at) {
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The storage of a range after it is zeroed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Storage {
    /// Released, if the device supports it.
    Released,
    /// Allocated, even if it was not before.
    Kept,
}

/// The outcome of zeroing a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Zeroed {
    /// The storage of the range is released.
    Released,
    /// The range is filled with zeroes.
    Written,
    /// `goes_on` stopped the work before the end of the range.
    InPart,
}

impl Zeroed {
    pub(crate) fn is_whole(self) -> bool {
        self != Self::InPart
    }
}

/// Zeroes a range in the cheapest way that the device and `storage` allow: a punched hole, a zeroed
/// range, or written zeroes.
pub(crate) fn zero_range(
    fd: &OwnedFd,
    offset: ByteOffset,
    len: ByteLen,
    storage: Storage,
    goes_on: &mut dyn FnMut(ByteLen) -> bool,
) -> io::Result<Zeroed> {
    let released = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zeroed = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    let ways = [(released, Zeroed::Released), (zeroed, Zeroed::Written)];
    let skipped = usize::from(storage == Storage::Kept);
    for (flags, result) in ways.into_iter().skip(skipped) {
        match fallocate(fd, flags, offset.0, len.0) {
            Ok(()) if goes_on(len) => return Ok(result),
            Ok(()) => return Ok(Zeroed::InPart),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let zeroes = Aligned::new(1 << 20);
    let mut at = offset.0;
    let end = offset.0 + len.0;
    while at < end {
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeroes.len());
        match pwrite(fd, &zeroes[..rest], at) {
            Ok(count) => {
                at += ByteLen::from_usize(count).0;
                if !goes_on(ByteLen::from_usize(count)) {
                    return Ok(Zeroed::InPart);
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Zeroed::Written)
}

/// Whether a file has data at `offset`, and the length of that run within `len`.
pub(crate) fn file_run(
    fd: &OwnedFd,
    offset: ByteOffset,
    len: ByteLen,
) -> Result<(bool, ByteLen), Errno> {
    let end = offset.0 + len.0;
    // Moving the file's position is harmless: every read and write names its offset.
    let data = match seek(fd, SeekFrom::Data(offset.0)) {
        Ok(data) => data,
        // There is no data after `offset`.
        Err(Errno::NXIO) => end,
        Err(errno) => return Err(errno),
    };
    if data > offset.0 {
        return Ok((false, ByteLen(data.min(end) - offset.0)));
    }
    let hole = seek(fd, SeekFrom::Hole(offset.0))?;
    Ok((true, ByteLen(hole.min(end).max(offset.0) - offset.0)))
}

/// The alignment of direct I/O, in memory and in the file; `None` when the file does not support
/// it.
fn direct_block_size(fd: &OwnedFd) -> Option<BlockSize> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let told = statx(fd, "", AtFlags::EMPTY_PATH, asked).ok();
    let told = told.filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    if let Some(told) = told {
        // Zero means that the file does not support direct I/O, even if `open` succeeded.
        let align = told.stx_dio_offset_align.max(told.stx_dio_mem_align);
        return (told.stx_dio_offset_align != 0).then(|| BlockSize::from_bytes(align.max(512)))?;
    }
    // A kernel before 6.1 does not report the alignment, so it is tried.
    let mut bytes = Aligned::new(4096);
    let tries = [(512, BlockSize::B512), (4096, BlockSize::B4096)];
    tries
        .into_iter()
        .find(|(len, _)| pread(fd, &mut bytes[..*len], 0).is_ok())
        .map(|(_, size)| size)
}

/// Whether a power cut may lose a block device's completed writes: yes, unless it reports
/// write-through.
fn block_is_volatile(stat: &Stat) -> bool {
    queue_attribute(stat, "write_cache").is_none_or(|text| text.trim() != "write through")
}

/// Whether a block device releases discarded blocks.
pub(crate) fn block_discards(fd: &OwnedFd) -> bool {
    let text = fstat(fd).ok().and_then(|stat| queue_attribute(&stat, "discard_max_bytes"));
    text.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|bytes| bytes != 0)
}

/// An attribute of a block device's queue. A partition's queue is that of its disk, one directory
/// up.
fn queue_attribute(stat: &Stat, attribute: &str) -> Option<String> {
    let device = format!("/sys/dev/block/{}:{}", major(stat.st_rdev), minor(stat.st_rdev));
    let read = |path: String| std::fs::read_to_string(path).ok();
    read(format!("{device}/queue/{attribute}"))
        .or_else(|| read(format!("{device}/../queue/{attribute}")))
}
