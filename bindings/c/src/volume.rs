//! A volume for blocking calls.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use nearflash::Volume;
use nearflash::direct::{Seal, VolumeInfo};

use crate::client::{NearflashClient, free, open, put, shared, text};
use crate::error::{Failure, code_of};
use crate::iovec::{IoVec, checked, places, slices};

/// A handle of a volume.
pub struct NearflashVolume(Volume);

/// The properties of a volume, with the layout of the header.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents the fields")]
pub struct NearflashVolumeInfo {
    pub len: u64,
    pub block_size: u32,
    pub epoch: u32,
    pub uuid: [u8; 16],
    pub is_readable: bool,
    pub is_writable: bool,
}

impl From<VolumeInfo> for NearflashVolumeInfo {
    fn from(info: VolumeInfo) -> Self {
        let VolumeInfo { len, block_size, uuid, epoch, is_readable, is_writable, .. } = info;
        Self { len, block_size, epoch, uuid, is_readable, is_writable }
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_volume_open(
    client: *mut NearflashClient,
    name: *const c_char,
    volume: *mut *mut NearflashVolume,
) -> c_int {
    let opened = || {
        // SAFETY: the header requires a client, and a string or NULL.
        let (client, name) = unsafe { (shared(client.cast_const())?, text(name)?) };
        Ok(NearflashVolume(client.0.open(client.volume_name(name)?)?))
    };
    // SAFETY: the header requires a writable place.
    unsafe { open(volume, opened) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_volume_open_sealed(
    client: *mut NearflashClient,
    seal: *const c_void,
    seal_len: usize,
    volume: *mut *mut NearflashVolume,
) -> c_int {
    let opened = || {
        // SAFETY: the header requires a client, and the bytes of the seal.
        let (client, _) = unsafe { (shared(client.cast_const())?, shared(seal.cast::<u8>())?) };
        // SAFETY: as above; it is not NULL.
        let bytes = unsafe { std::slice::from_raw_parts(seal.cast::<u8>(), seal_len) };
        let seal = Seal::decode(bytes).map_err(|_| Failure::Argument("the bytes are no seal"))?;
        Ok(NearflashVolume(client.0.open_sealed(&seal)?))
    };
    // SAFETY: the header requires a writable place.
    unsafe { open(volume, opened) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_volume_with_timeout(
    volume: *const NearflashVolume,
    timeout_ns: u64,
    timed: *mut *mut NearflashVolume,
) -> c_int {
    let timeout = Duration::from_nanos(timeout_ns);
    // SAFETY: the header requires a volume.
    let limited = || Ok(NearflashVolume(unsafe { shared(volume) }?.0.with_timeout(timeout)));
    // SAFETY: the header requires a writable place.
    unsafe { open(timed, limited) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_volume_free(volume: *mut NearflashVolume) {
    // SAFETY: the header requires a handle that is no longer used, or NULL.
    unsafe { free(volume) }
}

/// # Safety
/// As [`shared`].
unsafe fn with(
    volume: *const NearflashVolume,
    work: impl FnOnce(&Volume) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: as promised by the caller.
    code_of(|| work(&unsafe { shared(volume) }?.0))
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_volume_get_info(
    volume: *const NearflashVolume,
    info: *mut NearflashVolumeInfo,
) -> c_int {
    // SAFETY: the header requires a volume and a writable place.
    unsafe { with(volume, |volume| put(info, volume.info().into())) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_read(
    volume: *const NearflashVolume,
    bytes: *mut u8,
    len: usize,
    offset: u64,
) -> c_int {
    let read = |volume: &Volume| {
        let bytes = match (bytes.is_null(), len) {
            (_, 0) => &mut [][..],
            (true, _) => return Err(Failure::Argument("`bytes` is NULL")),
            // SAFETY: not NULL; the header requires memory of that length that only this call uses.
            (false, _) => unsafe { std::slice::from_raw_parts_mut(bytes, len) },
        };
        Ok(volume.read_at(bytes, offset)?)
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, read) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_write(
    volume: *const NearflashVolume,
    bytes: *const u8,
    len: usize,
    offset: u64,
) -> c_int {
    let write = |volume: &Volume| {
        // SAFETY: the header requires memory of that length.
        Ok(volume.write_at(unsafe { readable(bytes, len) }?, offset)?)
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, write) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_write_durable(
    volume: *const NearflashVolume,
    bytes: *const u8,
    len: usize,
    offset: u64,
) -> c_int {
    let write = |volume: &Volume| {
        // SAFETY: the header requires memory of that length.
        Ok(volume.write_durable_at(unsafe { readable(bytes, len) }?, offset)?)
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, write) }
}

/// # Safety
/// `bytes` is NULL, or points to `len` bytes that do not change while the result lives.
unsafe fn readable<'a>(bytes: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::Argument("`bytes` is NULL")),
        // SAFETY: not NULL; the caller promises the rest.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes, len) }),
    }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_readv(
    volume: *const NearflashVolume,
    iov: *const IoVec,
    count: usize,
    offset: u64,
) -> c_int {
    let read = |volume: &Volume| {
        // SAFETY: the header requires as many pieces, of memory that only this call uses.
        let mut places = unsafe { places(checked(iov, count)?) };
        Ok(volume.read_vectored_at(&mut places, offset)?)
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, read) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_writev(
    volume: *const NearflashVolume,
    iov: *const IoVec,
    count: usize,
    offset: u64,
) -> c_int {
    let write = |volume: &Volume| {
        // SAFETY: the header requires as many pieces, of readable memory.
        let slices = unsafe { slices(checked(iov, count)?) };
        Ok(volume.write_vectored_at(&slices, offset)?)
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, write) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_write_zeroes(
    volume: *const NearflashVolume,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the header requires a volume.
    unsafe { with(volume, |volume| Ok(volume.write_zeroes(offset, len)?)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_flush(volume: *const NearflashVolume) -> c_int {
    // SAFETY: the header requires a volume.
    unsafe { with(volume, |volume| Ok(volume.flush()?)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_replaced_connections(
    volume: *const NearflashVolume,
    count: *mut u64,
) -> c_int {
    // SAFETY: the header requires a volume and a writable place.
    unsafe { with(volume, |volume| put(count, volume.replaced_connections())) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_discard(
    volume: *const NearflashVolume,
    offset: u64,
    len: u64,
) -> c_int {
    // SAFETY: the header requires a volume.
    unsafe { with(volume, |volume| Ok(volume.discard(offset, len)?)) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_compare_and_swap(
    volume: *const NearflashVolume,
    offset: u64,
    expected: u64,
    desired: u64,
    previous: *mut u64,
) -> c_int {
    let swap = |volume: &Volume| {
        let word = volume.compare_and_swap(offset, expected, desired)?;
        // SAFETY: the header requires a writable place.
        unsafe { put(previous, word) }
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, swap) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_fetch_add(
    volume: *const NearflashVolume,
    offset: u64,
    addend: u64,
    previous: *mut u64,
) -> c_int {
    let add = |volume: &Volume| {
        let word = volume.fetch_add(offset, addend)?;
        // SAFETY: the header requires a writable place.
        unsafe { put(previous, word) }
    };
    // SAFETY: the header requires a volume.
    unsafe { with(volume, add) }
}
