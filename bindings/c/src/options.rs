//! Options: structs of C that begin with their size, so that later versions can add fields.

use std::time::Duration;

use nearflash::QueueOptions;
use nearflash::direct::Options;

use crate::error::Failure;

/// In a field of options: 0 instead of the default.
pub const NONE: u64 = u64::MAX;

/// No options are longer.
const SIZE_MAX: usize = 4096;

/// The time-outs of a client, with the layout of the header.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashConnectOptions {
    pub size: usize,
    pub silence_max_ns: u64,
    pub reconnect_max_ns: u64,
    pub spin_max_ns: u64,
}

/// The size of a queue pair, with the layout of the header.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashQueueOptions {
    pub size: usize,
    pub depth: u32,
    pub shared_len: u64,
}

/// Options of C.
///
/// # Safety
/// The first field is the `usize` `size`, and every pattern of bits is a valid value.
pub(crate) unsafe trait Growing: Copy + Default {
    /// The size in the first version that had these options.
    const FIRST_SIZE: usize;
}

// SAFETY: it begins with the size, and all fields are integers.
unsafe impl Growing for NearflashConnectOptions {
    const FIRST_SIZE: usize = size_of::<Self>();
}

// SAFETY: it begins with the size, and all fields are integers.
unsafe impl Growing for NearflashQueueOptions {
    const FIRST_SIZE: usize = size_of::<Self>();
}

/// Copies the caller's options; fields that the caller's version does not have are 0. NULL is the
/// default.
///
/// # Safety
/// `options` is NULL, or points to as many readable bytes as its field `size` says.
pub(crate) unsafe fn copied<T: Growing>(options: *const T) -> Result<T, Failure> {
    let mut copy = T::default();
    if options.is_null() {
        return Ok(copy);
    }
    // SAFETY: not NULL; the size is the first field.
    let size = unsafe { options.cast::<usize>().read() };
    if !(T::FIRST_SIZE..=SIZE_MAX).contains(&size) {
        return Err(Failure::Argument(
            "the field `size` of the options does not match their struct",
        ));
    }
    let known = size.min(size_of::<T>());
    let bytes = options.cast::<u8>();
    // SAFETY: the caller promises that `size` bytes are readable.
    let rest = unsafe { std::slice::from_raw_parts(bytes.add(known), size - known) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Failure::Argument(
            "the options set a field that this version of the library does not have",
        ));
    }
    // SAFETY: both have that length, and every pattern of bits is valid.
    unsafe { std::ptr::copy_nonoverlapping(bytes, (&raw mut copy).cast::<u8>(), known) };
    Ok(copy)
}

impl NearflashConnectOptions {
    pub(crate) fn options(self) -> Result<Options, Failure> {
        if self.silence_max_ns == NONE {
            return Err(Failure::Argument("silence_max_ns cannot be NEARFLASH_NONE"));
        }
        let default = Options::default();
        Ok(default
            .silence_max(span(self.silence_max_ns, default.silence_max))
            .reconnect_max(span(self.reconnect_max_ns, default.reconnect_max))
            .spin_max(span(self.spin_max_ns, default.spin_max)))
    }
}

impl NearflashQueueOptions {
    pub(crate) fn options(self) -> QueueOptions {
        let default = QueueOptions::default();
        let depth = if self.depth == 0 { default.depth } else { self.depth };
        let shared_len = match self.shared_len {
            0 => default.shared_len,
            NONE => 0,
            // More than the address space is more than can be shared.
            len => usize::try_from(len).unwrap_or(usize::MAX),
        };
        default.depth(depth).shared_len(shared_len)
    }
}

fn span(nanos: u64, default: Duration) -> Duration {
    match nanos {
        0 => default,
        NONE => Duration::ZERO,
        nanos => Duration::from_nanos(nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_the_default_and_none_is_zero() {
        let default = Options::default();
        let chosen = NearflashConnectOptions::default().options().unwrap();
        assert_eq!(chosen.silence_max, default.silence_max);
        assert_eq!(chosen.reconnect_max, default.reconnect_max);
        assert_eq!(chosen.spin_max, default.spin_max);
        let wanted = NearflashConnectOptions {
            silence_max_ns: 7,
            reconnect_max_ns: NONE,
            spin_max_ns: 9,
            ..NearflashConnectOptions::default()
        };
        let chosen = wanted.options().unwrap();
        assert_eq!(chosen.silence_max, Duration::from_nanos(7));
        assert_eq!(chosen.reconnect_max, Duration::ZERO);
        assert_eq!(chosen.spin_max, Duration::from_nanos(9));
        let endless = NearflashConnectOptions { silence_max_ns: NONE, ..wanted };
        assert!(endless.options().is_err());

        let queue = NearflashQueueOptions { depth: 3, ..NearflashQueueOptions::default() };
        let chosen = queue.options();
        assert_eq!((chosen.depth, chosen.shared_len), (3, QueueOptions::default().shared_len));
        let alone = NearflashQueueOptions { shared_len: NONE, ..queue };
        assert_eq!(alone.options().shared_len, 0);
    }

    /// The options of a later version.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Later {
        now: NearflashQueueOptions,
        more: u64,
    }

    #[test]
    fn options_of_another_version_are_taken_if_they_say_nothing_unknown() {
        let take = |later: &Later| {
            // SAFETY: it has more bytes than every size here.
            unsafe { copied((&raw const *later).cast::<NearflashQueueOptions>()) }
        };
        let now = NearflashQueueOptions { size: size_of::<Later>(), depth: 5, shared_len: 6 };
        let taken = take(&Later { now, more: 0 }).unwrap();
        assert_eq!((taken.depth, taken.shared_len), (5, 6));
        assert!(take(&Later { now, more: 1 }).is_err());
        for size in [0, size_of::<NearflashQueueOptions>() - 1, SIZE_MAX + 1] {
            let wrong = NearflashQueueOptions { size, ..now };
            assert!(take(&Later { now: wrong, more: 0 }).is_err(), "{size}");
        }
    }
}
