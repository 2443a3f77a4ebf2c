//! A call of the program, and the memory that it names.

use libc::{c_int, c_void, iovec};
use rustix::fs::OFlags;

/// The longest call of the kernel, MAX_RW_COUNT: a longer one is cut by it.
const LEN_MAX: usize = 0x7fff_f000;

/// `O_DSYNC` of the kernel, one bit of `O_SYNC`; the constant of `rustix` is `O_SYNC`.
pub(crate) const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC.cast_unsigned());

/// The memory of the program that a call names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory<'a> {
    parts: &'a [iovec],
    len: usize,
}

impl<'a> Memory<'a> {
    /// The memory; `None` if it is empty, or the kernel would refuse or cut it.
    ///
    /// # Safety
    /// Each part is valid for reads and writes of its length, or for reads if nothing is stored there, as
    /// long as the value is used.
    pub(crate) unsafe fn new(parts: &'a [iovec]) -> Option<Self> {
        let mut len = 0_usize;
        for part in parts {
            if part.iov_base.is_null() && part.iov_len > 0 {
                return None;
            }
            len = len.checked_add(part.iov_len).filter(|len| *len <= LEN_MAX)?;
        }
        (len > 0).then_some(Self { parts, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The parts of the range of `len` bytes from `start` on, in order.
    fn pieces(&self, start: usize, len: usize) -> impl Iterator<Item = (*mut c_void, usize)> {
        let (mut skip, mut left) = (start, len);
        self.parts.iter().filter_map(move |part| {
            let skipped = skip.min(part.iov_len);
            skip -= skipped;
            let taken = left.min(part.iov_len - skipped);
            left -= taken;
            // A part that is not reached has no bytes.
            (taken > 0).then(|| (part.iov_base.wrapping_byte_add(skipped), taken))
        })
    }

    /// Stores the bytes of a read.
    pub(crate) fn store(&self, start: usize, bytes: &[u8]) {
        let mut done = 0;
        for (place, len) in self.pieces(start, bytes.len()) {
            // SAFETY: `new` was promised that the part is valid; the piece lies within it and within the
            // bytes, which are this library's.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), place.cast(), len) };
            done += len;
        }
    }

    /// Loads the bytes of a write.
    pub(crate) fn load(&self, start: usize, bytes: &mut [u8]) {
        let mut done = 0;
        for (place, len) in self.pieces(start, bytes.len()) {
            let into = bytes[done..done + len].as_mut_ptr();
            // SAFETY: as in `store`.
            unsafe { std::ptr::copy_nonoverlapping(place.cast(), into, len) };
            done += len;
        }
    }
}

/// A call of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) fd: c_int,
    pub(crate) memory: Memory<'a>,
    pub(crate) offset: u64,
    pub(crate) is_write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_across_parts() {
        let (mut one, mut two) = ([0_u8; 3], [0_u8; 5]);
        let part =
            |bytes: &mut [u8]| iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let parts =
            [part(&mut one), iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, part(&mut two)];
        // SAFETY: the parts are variables of this function.
        let memory = unsafe { Memory::new(&parts) }.unwrap();
        assert_eq!(memory.len(), 8);
        memory.store(2, b"abcd");
        let mut loaded = [0; 6];
        memory.load(1, &mut loaded);
        assert_eq!(&loaded, b"\0abcd\0");
        assert_eq!((one, two), (*b"\0\0a", *b"bcd\0\0"));
    }

    #[test]
    fn calls_that_the_kernel_would_refuse_or_cut_are_left_to_it() {
        let part = |len| iovec { iov_base: std::ptr::null_mut(), iov_len: len };
        // SAFETY: nothing is accessed.
        let is_refused = |parts: &[iovec]| unsafe { Memory::new(parts) }.is_none();
        assert!(is_refused(&[part(0)]) && is_refused(&[part(1)]) && is_refused(&[]));
        let place = std::ptr::NonNull::<c_void>::dangling().as_ptr();
        let long = iovec { iov_base: place, iov_len: LEN_MAX };
        assert!(!is_refused(&[long]) && is_refused(&[long, long]));
    }
}
