//! Memory in several pieces, as POSIX describes it.

use std::ffi::c_void;
use std::io::{IoSlice, IoSliceMut};

use crate::error::Failure;

/// A `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "POSIX documents the fields")]
pub struct IoVec {
    pub base: *mut c_void,
    pub len: usize,
}

/// The caller's pieces, none of which is NULL unless it is empty.
///
/// # Safety
/// `pieces` is NULL, or points to `count` pieces that do not change while the result lives.
pub(crate) unsafe fn checked<'a>(
    pieces: *const IoVec,
    count: usize,
) -> Result<&'a [IoVec], Failure> {
    let pieces = match (pieces.is_null(), count) {
        (_, 0) => &[][..],
        (true, _) => return Err(Failure::Argument("the iovec is NULL")),
        // SAFETY: not NULL; the caller promises the rest.
        (false, _) => unsafe { std::slice::from_raw_parts(pieces, count) },
    };
    match pieces.iter().any(|piece| piece.base.is_null() && piece.len > 0) {
        true => Err(Failure::Argument("bytes are NULL")),
        false => Ok(pieces),
    }
}

/// The length of all pieces.
pub(crate) fn len_of(pieces: &[IoVec]) -> usize {
    // Pieces that do not overlap are no longer than the address space.
    pieces.iter().map(|piece| piece.len).fold(0, usize::saturating_add)
}

/// The bytes of the pieces.
///
/// # Safety
/// They are readable, and do not change while the result lives.
pub(crate) unsafe fn slices<'a>(pieces: &[IoVec]) -> Vec<IoSlice<'a>> {
    let pieces = pieces.iter().filter(|piece| piece.len > 0);
    let bytes = pieces.map(|piece| {
        // SAFETY: `checked` found that it is not NULL; the caller promises the rest.
        IoSlice::new(unsafe { std::slice::from_raw_parts(piece.base.cast(), piece.len) })
    });
    bytes.collect()
}

/// The places of the pieces.
///
/// # Safety
/// They are writable, do not overlap, and have no other user while the result lives.
pub(crate) unsafe fn places<'a>(pieces: &[IoVec]) -> Vec<IoSliceMut<'a>> {
    let pieces = pieces.iter().filter(|piece| piece.len > 0);
    let bytes = pieces.map(|piece| {
        // SAFETY: `checked` found that it is not NULL; the caller promises the rest.
        IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(piece.base.cast(), piece.len) })
    });
    bytes.collect()
}
