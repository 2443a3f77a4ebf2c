//! The system's OpenSSL: its functions, which are found when TLS is first used.
//!
//! A program that links OpenSSL loads it at every start, whether it has a connection with TLS or not: 1.7 MB of
//! resident memory, and thousands of relocations. It does not start at all where OpenSSL is missing.
//!
//! The declarations are those of OpenSSL's headers since 1.1.1. Macros of the headers are functions here.
//! [`load`] must succeed before any of the other functions is called: a context exists only after that call.
#![allow(non_snake_case, clippy::upper_case_acronyms, reason = "the names of the library")]

use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The names of the library, the newest first. It loads `libcrypto`, in which its functions are found, too.
const NAMES: [&CStr; 2] = [c"libssl.so.3", c"libssl.so.1.1"];

macro_rules! opaque {
    ($($name:ident)*) => { $(
        /// An object of the library, of which only pointers exist.
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )* };
}

opaque! { BIO BIO_METHOD EVP_MD SSL SSL_CIPHER SSL_CTX SSL_METHOD SSL_SESSION }

pub(crate) const BIO_CTRL_FLUSH: c_int = 11;
pub(crate) const BIO_TYPE_NONE: c_int = 0;
pub(crate) const SSL_CLIENT_HELLO_ERROR: c_int = 0;
pub(crate) const SSL_CLIENT_HELLO_SUCCESS: c_int = 1;
pub(crate) const SSL_ERROR_WANT_READ: c_int = 2;
pub(crate) const SSL_ERROR_WANT_WRITE: c_int = 3;
pub(crate) const SSL_ERROR_ZERO_RETURN: c_int = 6;
pub(crate) const SSL_VERIFY_PEER: c_int = 1;
pub(crate) const TLS1_3_VERSION: c_int = 0x304;

const BIO_FLAGS_READ: c_int = 1;
/// Reading, writing and the special kind.
const BIO_FLAGS_RWS: c_int = 7;
const BIO_FLAGS_SHOULD_RETRY: c_int = 8;
const OPENSSL_INIT_LOAD_SSL_STRINGS: u64 = 0x0020_0000;
/// The end of the process frees nothing: other threads may still use the library.
const OPENSSL_INIT_NO_ATEXIT: u64 = 0x0008_0000;
const SSL_CTRL_MODE: c_int = 33;
const SSL_CTRL_SET_SESS_CACHE_MODE: c_int = 44;
const SSL_CTRL_SET_GROUPS_LIST: c_int = 92;
const SSL_CTRL_SET_MIN_PROTO_VERSION: c_int = 123;
const SSL_CTRL_SET_MAX_PROTO_VERSION: c_int = 124;
const SSL_MODE_RELEASE_BUFFERS: c_long = 0x10;
const SSL_SESS_CACHE_OFF: c_long = 0;
/// The part of an error that is its reason, in every version: no reason that matters here is longer.
const REASON_MASK: c_ulong = 0xfff;

type BioRead = unsafe extern "C" fn(*mut BIO, *mut c_char, c_int) -> c_int;
type BioWrite = unsafe extern "C" fn(*mut BIO, *const c_char, c_int) -> c_int;
type BioControl = unsafe extern "C" fn(*mut BIO, c_int, c_long, *mut c_void) -> c_long;
type ClientHello = unsafe extern "C" fn(*mut SSL, *mut c_int, *mut c_void) -> c_int;
type KeyLog = unsafe extern "C" fn(*const SSL, *const c_char);
/// The kind of [`SSL_CTX_set_verify`]'s callback, which is not used.
type Verify = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
type FindSession =
    unsafe extern "C" fn(*mut SSL, *const c_uchar, usize, *mut *mut SSL_SESSION) -> c_int;
type UseSession = unsafe extern "C" fn(
    *mut SSL,
    *const EVP_MD,
    *mut *const c_uchar,
    *mut usize,
    *mut *mut SSL_SESSION,
) -> c_int;

/// Declares the table of functions, its search, and a function for each that calls the one of the table.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// The handle must be that of the library.
            unsafe fn find(library: NonNull<c_void>) -> Option<Self> {
                // SAFETY: the library's function of this name has this type.
                unsafe {
                    Some(Self { $($name: {
                        let name = CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ).ok()?;
                        let found = NonNull::new(libc::dlsym(library.as_ptr(), name.as_ptr()))?;
                        std::mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "C" fn($($type),*) $(-> $result)?,
                        >(found)
                    },)* })
                }
            }
        }

        $(
            /// # Safety
            /// As OpenSSL's manual page of this name demands.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: as required here.
                unsafe { (functions().$name)($($argument),*) }
            }
        )*
    };
}

functions! {
    fn BIO_clear_flags(bio: *mut BIO, flags: c_int);
    fn BIO_get_data(bio: *mut BIO) -> *mut c_void;
    fn BIO_meth_new(kind: c_int, name: *const c_char) -> *mut BIO_METHOD;
    fn BIO_meth_set_ctrl(method: *mut BIO_METHOD, control: Option<BioControl>) -> c_int;
    fn BIO_meth_set_read(method: *mut BIO_METHOD, read: Option<BioRead>) -> c_int;
    fn BIO_meth_set_write(method: *mut BIO_METHOD, write: Option<BioWrite>) -> c_int;
    fn BIO_new(method: *const BIO_METHOD) -> *mut BIO;
    fn BIO_set_data(bio: *mut BIO, data: *mut c_void);
    fn BIO_set_flags(bio: *mut BIO, flags: c_int);
    fn BIO_set_init(bio: *mut BIO, is_set: c_int);
    fn ERR_clear_error();
    fn ERR_get_error() -> c_ulong;
    fn ERR_reason_error_string(error: c_ulong) -> *const c_char;
    fn OPENSSL_init_ssl(options: u64, settings: *const c_void) -> c_int;
    fn SSL_CIPHER_find(ssl: *mut SSL, id: *const c_uchar) -> *const SSL_CIPHER;
    fn SSL_CTX_ctrl(context: *mut SSL_CTX, command: c_int, long: c_long, pointer: *mut c_void) -> c_long;
    fn SSL_CTX_free(context: *mut SSL_CTX);
    fn SSL_CTX_new(method: *const SSL_METHOD) -> *mut SSL_CTX;
    fn SSL_CTX_set_ciphersuites(context: *mut SSL_CTX, suites: *const c_char) -> c_int;
    fn SSL_CTX_set_client_hello_cb(context: *mut SSL_CTX, call: Option<ClientHello>, argument: *mut c_void);
    fn SSL_CTX_set_keylog_callback(context: *mut SSL_CTX, call: Option<KeyLog>);
    fn SSL_CTX_set_num_tickets(context: *mut SSL_CTX, count: usize) -> c_int;
    fn SSL_CTX_set_psk_find_session_callback(context: *mut SSL_CTX, find: Option<FindSession>);
    fn SSL_CTX_set_psk_use_session_callback(context: *mut SSL_CTX, pick: Option<UseSession>);
    fn SSL_CTX_set_verify(context: *mut SSL_CTX, mode: c_int, call: Option<Verify>);
    fn SSL_SESSION_free(session: *mut SSL_SESSION);
    fn SSL_SESSION_new() -> *mut SSL_SESSION;
    fn SSL_SESSION_set1_master_key(session: *mut SSL_SESSION, key: *const c_uchar, len: usize) -> c_int;
    fn SSL_SESSION_set_cipher(session: *mut SSL_SESSION, cipher: *const SSL_CIPHER) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut SSL_SESSION, version: c_int) -> c_int;
    fn SSL_client_hello_get0_ext(ssl: *mut SSL, kind: c_uint, out: *mut *const c_uchar, len: *mut usize) -> c_int;
    fn SSL_do_handshake(ssl: *mut SSL) -> c_int;
    fn SSL_free(ssl: *mut SSL);
    fn SSL_get_error(ssl: *const SSL, result: c_int) -> c_int;
    fn SSL_get_rbio(ssl: *const SSL) -> *mut BIO;
    fn SSL_has_pending(ssl: *const SSL) -> c_int;
    fn SSL_new(context: *mut SSL_CTX) -> *mut SSL;
    fn SSL_read_ex(ssl: *mut SSL, into: *mut c_void, len: usize, done: *mut usize) -> c_int;
    fn SSL_session_reused(ssl: *const SSL) -> c_int;
    fn SSL_set_accept_state(ssl: *mut SSL);
    fn SSL_set_bio(ssl: *mut SSL, reads: *mut BIO, writes: *mut BIO);
    fn SSL_set_ciphersuites(ssl: *mut SSL, suites: *const c_char) -> c_int;
    fn SSL_set_connect_state(ssl: *mut SSL);
    fn SSL_shutdown(ssl: *mut SSL) -> c_int;
    fn SSL_write_ex(ssl: *mut SSL, bytes: *const c_void, len: usize, done: *mut usize) -> c_int;
    fn TLS_client_method() -> *const SSL_METHOD;
    fn TLS_server_method() -> *const SSL_METHOD;
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// Loads the library, once. Returns whether it is there, with all functions. It is never unloaded.
pub(crate) fn load() -> bool {
    let open = |name: &&CStr| {
        // SAFETY: the name is text. The initialisers of OpenSSL have no requirements.
        NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) })
    };
    // SAFETY: the handle is that of the library.
    let find = || NAMES.iter().find_map(open).and_then(|it| unsafe { Functions::find(it) });
    let is_there = FUNCTIONS.get_or_init(find).is_some();
    let options = OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_NO_ATEXIT;
    // SAFETY: there are no settings. Only the first call has an effect.
    is_there && unsafe { OPENSSL_init_ssl(options, ptr::null()) } == 1
}

fn functions() -> &'static Functions {
    let found = FUNCTIONS.get().and_then(Option::as_ref);
    found.expect("the library is loaded before any of its functions is called")
}

/// Sets a number of a context. Returns whether the library accepts it.
///
/// # Safety
/// The context must be valid, and not yet shared.
unsafe fn set(context: *mut SSL_CTX, command: c_int, number: c_long) -> bool {
    // SAFETY: as required here; the command takes a number.
    unsafe { SSL_CTX_ctrl(context, command, number, ptr::null_mut()) == 1 }
}

/// Allows TLS 1.3 only, keeps no sessions, and frees unused buffers. Returns whether the library accepts it.
///
/// # Safety
/// The context must be valid, and not yet shared.
pub(crate) unsafe fn configure(context: *mut SSL_CTX) -> bool {
    // SAFETY: as required here. The first two return earlier settings.
    unsafe {
        set(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS);
        set(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF);
        set(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION.into())
            && set(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION.into())
    }
}

/// Sets the only groups of a context. Returns whether the library knows them.
///
/// # Safety
/// The context must be valid, and not yet shared.
pub(crate) unsafe fn set_groups(context: *mut SSL_CTX, groups: &CStr) -> bool {
    let groups = groups.as_ptr().cast_mut().cast();
    // SAFETY: as required here; the library copies the text, and does not write to it.
    unsafe { SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, groups) == 1 }
}

/// # Safety
/// The BIO must be valid.
pub(crate) unsafe fn BIO_clear_retry_flags(bio: *mut BIO) {
    // SAFETY: as required here.
    unsafe { BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY) }
}

/// # Safety
/// The BIO must be valid.
pub(crate) unsafe fn BIO_set_retry_read(bio: *mut BIO) {
    // SAFETY: as required here.
    unsafe { BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY) }
}

pub(crate) fn reason_of(error: c_ulong) -> c_int {
    c_int::try_from(error & REASON_MASK).expect("it has twelve bits")
}

/// The library's text for the reason of an error.
pub(crate) fn text_of(error: c_ulong) -> Option<&'static str> {
    // SAFETY: the library returns null, or a text that lives as long as the process.
    let text = unsafe {
        let text = ERR_reason_error_string(error);
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text?.to_str().ok()
}

/// Takes the errors of this thread, of which the first is the cause.
pub(crate) fn take_error() -> c_ulong {
    // SAFETY: the calls have no arguments.
    unsafe {
        let first = ERR_get_error();
        ERR_clear_error();
        first
    }
}
