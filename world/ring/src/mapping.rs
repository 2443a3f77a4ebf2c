//! Memory of the system: a sealed file, and mappings of it. Under Miri, which has neither, memory
//! of the heap, which only one end sees.

#[cfg(miri)]
pub(crate) use heap::{map, sealed_file, unmap};
#[cfg(not(miri))]
pub(crate) use system::{map, sealed_file, unmap};

#[cfg(not(miri))]
mod system {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::ptr::{self, NonNull};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate};
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    /// A file of zeroes that can neither shrink nor grow.
    pub(crate) fn sealed_file(len: u64) -> io::Result<OwnedFd> {
        let fd = memfd()?;
        ftruncate(&fd, len)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(fd)
    }

    /// The file cannot be executed; a kernel that does not know that flag gets a call without it.
    fn memfd() -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        match rustix::fs::memfd_create("nearflash-rings", flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => Ok(rustix::fs::memfd_create("nearflash-rings", flags)?),
            made => Ok(made?),
        }
    }

    /// Maps the first `len` bytes of a file that is at least that long.
    pub(crate) fn map(fd: impl AsFd, len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address of the new mapping, which aliases nothing. The
        // file is at least that long, and is sealed against shrinking.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, fd, 0)? };
        NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// The range is a whole mapping of [`map`], and there are no pointers into it any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: as promised by the caller. A failure would leave it mapped, which is harmless.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::ptr::NonNull;

    use rustix::mm::MapFlags;

    use crate::geometry::PAGE_LEN;

    pub(crate) fn sealed_file(_: u64) -> io::Result<OwnedFd> {
        Ok(UnixStream::pair()?.0.into())
    }

    pub(crate) fn map(_: impl AsFd, len: usize, _: MapFlags) -> io::Result<NonNull<u8>> {
        // SAFETY: a geometry includes a header, so `len` is not zero.
        let start = unsafe { alloc_zeroed(layout(len)) };
        NonNull::new(start).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// The range is a whole mapping of [`map`], and there are no pointers into it any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: allocated by `map` with this layout.
        unsafe { dealloc(start.as_ptr(), layout(len)) };
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, PAGE_LEN).expect("a geometry is within its bounds")
    }
}
