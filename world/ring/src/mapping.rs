//! Memory of the system: a sealed file, and mappings of it. Under Miri, which has neither, memory of the heap
//! that one end sees alone.

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

    /// Never to be run as a program; a kernel that does not know that flag is asked without.
    fn memfd() -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        match rustix::fs::memfd_create("nearflash-rings", flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => Ok(rustix::fs::memfd_create("nearflash-rings", flags)?),
            made => Ok(made?),
        }
    }

    /// Maps the beginning of a file that is at least so long.
    pub(crate) fn map(fd: impl AsFd, len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing. The file is at
        // least that long, and is sealed against becoming shorter.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, fd, 0)? };
        NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// It is all of a mapping of [`map`], and nobody has a pointer into it any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the caller's. A failure would leave it mapped, which harms nothing.
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
        // SAFETY: a mapping has a header, and so a length.
        let start = unsafe { alloc_zeroed(layout(len)) };
        NonNull::new(start).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// It is all of a mapping of [`map`], and nobody has a pointer into it any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: allocated by `map` with this layout.
        unsafe { dealloc(start.as_ptr(), layout(len)) };
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, PAGE_LEN).expect("a geometry is within its bounds")
    }
}
