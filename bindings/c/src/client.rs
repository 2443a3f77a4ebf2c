//! Reaching a node; and how pointers become references.

use std::ffi::{CStr, c_char, c_int};

use nearflash::{Client, Credentials};

use crate::error::{Failure, code_of};

/// A handle of a client.
pub struct NearflashClient(pub(crate) Client);

impl NearflashClient {
    /// The volume's name, or that which the URL named.
    pub(crate) fn volume_name<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str, Failure> {
        let named = name.or_else(|| self.0.volume_name());
        Ok(named.ok_or(nearflash::Error::NoVolume)?)
    }
}

/// # Safety
/// NULL, or a pointer to a text that ends with NUL and outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::Argument("a text is not UTF-8"))
}

/// # Safety
/// NULL, or a pointer to a value that nobody changes while the result lives.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as_ref looks at NULL, and the rest is the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(NULL)
}

/// # Safety
/// NULL, or a pointer to a value that nobody else uses while the result lives.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: as_mut looks at NULL, and the rest is the caller's promise.
    unsafe { pointer.as_mut() }.ok_or(NULL)
}

const NULL: Failure = Failure::Argument("a pointer is NULL that may not be");

/// Puts a result where the caller wants it.
///
/// # Safety
/// NULL, or a pointer to memory that may be written; it need not hold a value yet.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(NULL);
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Hands a value out as a handle.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn put_handle<T>(place: *mut *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(NULL);
    }
    // SAFETY: the caller's promise.
    unsafe { put(place, Box::into_raw(Box::new(value))) }
}

/// Takes a handle back and drops what it stands for.
///
/// # Safety
/// NULL, or a pointer that [`put_handle`] gave out and that was not taken back yet.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the pointer is of a box, and nobody else has it.
        drop(unsafe { Box::from_raw(handle) });
    }
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
    code_of(|| {
        // SAFETY: the header asks for texts, or NULL.
        let (url, key, secret) = unsafe { (text(url)?, text(key)?, text(secret)?) };
        let url = url.ok_or(NULL)?;
        let credentials = match (key, secret) {
            (Some(key), Some(secret)) => {
                Credentials::new(key, secret).map_err(nearflash::Error::from)?
            }
            (None, None) => Credentials::NONE,
            _ => return Err(Failure::Argument("a key and its secret come together")),
        };
        let connected = Client::connect(url, credentials)?;
        // SAFETY: the header asks for a place to write to.
        unsafe { put_handle(client, NearflashClient(connected)) }
    })
}

/// # Safety
/// See `nearflash.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearflash_client_free(client: *mut NearflashClient) {
    // SAFETY: the header asks for a handle that is not used any more, or NULL.
    unsafe { free(client) }
}
