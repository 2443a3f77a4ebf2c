//! The memory of a core's buffers: a private mapping, to which the kernel writes outside of Rust's
//! references. Code that hands a part of it to the kernel uses a pointer; references are made to
//! whole buffers only, and only while no operation on them is in flight.

use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::{io, ptr, slice};

use nearflash_engine::Arena;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The mapping, unmapped when the last owner is dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

/// A core's arena, shared by its pool and its reactor.
#[derive(Clone, Debug)]
pub(crate) struct Mapped(Rc<Mapping>);

impl Mapped {
    /// Reserves memory without touching its pages.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address of the new mapping, which overlaps no other.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags) }?;
        let base = NonNull::new(base.cast()).expect("a mapping does not begin at zero");
        Ok(Self(Rc::new(Mapping { base, len })))
    }

    /// A pointer to a part of the arena, for the kernel and for raw copies.
    #[inline]
    pub(crate) fn pointer(&self, part: Range<usize>) -> NonNull<u8> {
        assert!(part.start <= part.end && part.end <= self.0.len, "a part of the arena");
        // SAFETY: the part is within the mapping, as asserted above.
        unsafe { self.0.base.add(part.start) }
    }
}

impl Arena for Mapped {
    #[inline]
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        let (start, len) = (self.pointer(range.clone()), range.len());
        // SAFETY: the bytes are mapped, and initialized by the system, for as long as `self` lives.
        // The range is that of one taken buffer. Nothing writes to it while the reference lives:
        // safe code would need `&mut self`, and the kernel writes only during an operation on that
        // buffer, when no code asks for its bytes (the contract of `Arena`).
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    #[inline]
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let (start, len) = (self.pointer(range.clone()), range.len());
        // SAFETY: as for `bytes`; there is no other reference, since references are taken from the
        // pool's arena only, which is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    fn pair_mut(&mut self, filled: Range<usize>, other: Range<usize>) -> (&mut [u8], &[u8]) {
        assert!(filled.end <= other.start || other.end <= filled.start, "two buffers");
        let (to, from) = (self.pointer(filled.clone()), self.pointer(other.clone()));
        // SAFETY: as for `bytes_mut` and `bytes`; the two ranges are disjoint.
        unsafe {
            let to = slice::from_raw_parts_mut(to.as_ptr(), filled.len());
            (to, slice::from_raw_parts(from.as_ptr(), other.len()))
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole of this value's own mapping, to which there are no references: they
        // live no longer than the arena that they were taken from, and the reactor has waited for
        // every operation.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_engine::Pool;
    use nearflash_units::ByteLen;

    #[test]
    fn buffers_of_a_mapping_are_aligned_apart_and_writable() {
        let arena = Mapped::new(Pool::arena_len(ByteLen(1))).unwrap();
        let mut pool = Pool::over(Box::new(arena.clone()), ByteLen(1));
        let (one, other) = (pool.take(ByteLen(1)).unwrap(), pool.take(ByteLen(8192)).unwrap());
        for buffer in [one, other] {
            assert_eq!(arena.pointer(pool.place(buffer)).as_ptr().align_offset(4096), 0);
        }
        pool.bytes_mut(one).fill(1);
        let (filled, from) = pool.pair_mut(other, one);
        filled[..4096].copy_from_slice(from);
        assert_eq!(pool.bytes(other)[..4097], [&[1; 4096][..], &[0]].concat());
    }
}
