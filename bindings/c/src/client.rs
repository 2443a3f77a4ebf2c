//! Connecting to a node; and the conversion of pointers to references.

use std::ffi::{CStr, c_char, c_int};

use nearflash::{Client, Credentials};

use crate::error::{Failure, code_of};
use crate::options::{NearflashConnectOptions, copied};

/// A handle of a client.
pub struct NearflashClient(pub(crate) Client);

impl NearflashClient {
    /// The given name of a volume, or else that of the URL.
    pub(crate) fn volume_name<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, Failure> {
        let named = name.or_else(|| self.0.volume_name());
        Ok(named.ok_or(nearflash::Error::NoVolume)?)
    }
}

/// # Safety
/// `text` is NULL, or a pointer to a string that ends with NUL and outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL; the caller promises the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::Argument("a string is not UTF-8"))
}

/// # Safety
/// `pointer` is NULL, or points to a value that does not change while the result lives.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: `as_ref` handles NULL; the caller promises the rest.
    unsafe { pointer.as_ref() }.ok_or(NULL)
}

/// # Safety
/// `pointer` is NULL, or points to a value that has no other user while the result lives.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: `as_mut` handles NULL; the caller promises the rest.
    unsafe { pointer.as_mut() }.ok_or(NULL)
}

const NULL: Failure = Failure::Argument("a required pointer is NULL");

/// Writes a result to the caller's place.
///
/// # Safety
/// `place` is NULL, or points to writable memory, which need not be initialized.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(NULL);
    }
    // SAFETY: not NULL; the caller promises the rest.
    unsafe { place.write(value) };
    Ok(())
}

/// Runs the body of a function that returns a handle. After an error, the caller's handle is NULL.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn open<T>(
    place: *mut *mut T,
    work: impl FnOnce() -> Result<T, Failure>,
) -> c_int {
    code_of(|| {
        // SAFETY: as promised by the caller.
        unsafe { put(place, std::ptr::null_mut()) }?;
        let handle = Box::new(work()?);
        // SAFETY: as promised by the caller.
        unsafe { put(place, Box::into_raw(handle)) }
    })
}

/// Takes a handle back and drops its value.
///
/// # Safety
/// `handle` is NULL, or a pointer from [`open`] that has not been taken back yet.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the pointer is that of a box, to which there is no other reference.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// The number of the version, as the header composes it.
#[unsafe(no_mangle)]
pub extern "C" fn nearflash_version() -> u32 {
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ]
    .map(|part| part.parse::<u32>().expect("versions are numbers"));
    major << 16 | minor << 8 | patch
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_connect(
    url: *const c_char,
    key: *const c_char,
    secret: *const c_char,
    client: *mut *mut NearflashClient,
) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { nearflash_connect_with(url, key, secret, std::ptr::null(), client) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_connect_with(
    url: *const c_char,
    key: *const c_char,
    secret: *const c_char,
    options: *const NearflashConnectOptions,
    client: *mut *mut NearflashClient,
) -> c_int {
    let connect = || {
        // SAFETY: the header requires strings, or NULL.
        let (url, key, secret) = unsafe { (text(url)?, text(key)?, text(secret)?) };
        // SAFETY: the header requires options with their size, or NULL.
        let options = unsafe { copied(options) }?.options()?;
        let credentials = match (key, secret) {
            (Some(key), Some(secret)) => {
                Credentials::new(key, secret).map_err(nearflash::Error::from)?
            }
            (None, None) => Credentials::NONE,
            _ => return Err(Failure::Argument("a key needs its secret, and a secret its key")),
        };
        Ok(NearflashClient(Client::connect_with(url.ok_or(NULL)?, credentials, options)?))
    };
    // SAFETY: the header requires a writable place.
    unsafe { open(client, connect) }
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_client_free(client: *mut NearflashClient) {
    // SAFETY: the header requires a handle that is no longer used, or NULL.
    unsafe { free(client) }
}
