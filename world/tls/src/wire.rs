//! The bytes between a stream and its peer, as the library reads and writes them: a BIO over memory.
//!
//! Invariant: a BIO of [`method`] has a pointer to the [`Wire`] of its stream, which frees the BIO first. No
//! reference to a wire exists while the library runs.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::StartError;
use crate::key::{Identity, KeySource, PskKey, Suite};
use crate::openssl as ffi;
use crate::traffic::Secrets;

/// Both directions of a connection, and the keys of its handshake.
pub(crate) struct Wire {
    /// Input that its caller lends for one call.
    lent: *const [u8],
    /// Input that no call has taken yet.
    held: Vec<u8>,
    held_taken: usize,
    /// Output, encrypted.
    pub(crate) output: Vec<u8>,
    pub(crate) keys: Keys,
    /// Empty unless the server exports keys.
    pub(crate) secrets: Secrets,
}

/// The keys of a handshake.
pub(crate) enum Keys {
    Server {
        source: std::sync::Arc<dyn KeySource>,
        /// The first identity that has a key, or else the first one that the client offers.
        identity: Option<Identity>,
        /// The key of that identity, until the handshake is over.
        key: Option<PskKey>,
        /// The suite of an open connection.
        suite: Option<Suite>,
    },
    Client {
        identity: Box<[u8]>,
        key: PskKey,
    },
}

impl Wire {
    pub(crate) fn new(keys: Keys) -> Self {
        let lent = ptr::slice_from_raw_parts(NonNull::dangling().as_ptr(), 0);
        Self {
            lent,
            held: Vec::new(),
            held_taken: 0,
            output: Vec::new(),
            keys,
            secrets: Secrets::default(),
        }
    }

    /// Lends input to the library, behind that which is held. [`Self::take_back`] must follow before `input` ends.
    pub(crate) fn lend(&mut self, input: &[u8]) {
        self.lent = input;
    }

    /// Keeps the lent input that the library has not read.
    pub(crate) fn take_back(&mut self) {
        let nothing = ptr::slice_from_raw_parts(NonNull::dangling().as_ptr(), 0);
        let lent = std::mem::replace(&mut self.lent, nothing);
        if self.held_taken == self.held.len() {
            self.held_taken = 0;
            // The memory is not kept: most connections never hold input.
            self.held = Vec::new();
        }
        if !lent.is_empty() {
            // SAFETY: the input that was lent lives until this call returns.
            self.held.extend_from_slice(unsafe { &*lent });
        }
    }

    /// Whether it keeps input.
    pub(crate) fn holds_input(&self) -> bool {
        self.held_taken < self.held.len()
    }

    /// Copies input to the library: first that which is held.
    fn read(&mut self, into: &mut [u8]) -> usize {
        let held = &self.held[self.held_taken..];
        if !held.is_empty() {
            let len = held.len().min(into.len());
            into[..len].copy_from_slice(&held[..len]);
            self.held_taken += len;
            return len;
        }
        // SAFETY: `lent` is empty, or its caller has borrowed it for this call into the library.
        let lent = unsafe { &*self.lent };
        let (now, later) = lent.split_at(lent.len().min(into.len()));
        into[..now.len()].copy_from_slice(now);
        self.lent = later;
        now.len()
    }
}

/// The method of a BIO, shared by all.
struct Method(NonNull<ffi::BIO_METHOD>);

// SAFETY: it is not changed after it was made.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

fn method() -> Result<*const ffi::BIO_METHOD, StartError> {
    static METHOD: OnceLock<Option<Method>> = OnceLock::new();
    let made = METHOD.get_or_init(|| {
        // SAFETY: the functions have the signatures that the library requires, and the name is static.
        unsafe {
            let method = NonNull::new(ffi::BIO_meth_new(ffi::BIO_TYPE_NONE, c"memory".as_ptr()))?;
            ffi::BIO_meth_set_read(method.as_ptr(), Some(read));
            ffi::BIO_meth_set_write(method.as_ptr(), Some(write));
            ffi::BIO_meth_set_ctrl(method.as_ptr(), Some(control));
            Some(Method(method))
        }
    });
    let made = made.as_ref().ok_or_else(StartError::last)?;
    Ok(made.0.as_ptr())
}

/// A BIO over a wire.
pub(crate) fn bio(wire: NonNull<Wire>) -> Result<NonNull<ffi::BIO>, StartError> {
    let method = method()?;
    // SAFETY: the method is complete. The data is set before anything uses the BIO.
    unsafe {
        let bio = NonNull::new(ffi::BIO_new(method)).ok_or_else(StartError::last)?;
        ffi::BIO_set_data(bio.as_ptr(), wire.as_ptr().cast());
        ffi::BIO_set_init(bio.as_ptr(), 1);
        Ok(bio)
    }
}

/// The wire of a connection, for a callback of the library.
///
/// # Safety
/// The connection must be that of a stream, and no other reference to its wire may exist during `'a`.
pub(crate) unsafe fn of_connection<'a>(ssl: *mut ffi::SSL) -> &'a mut Wire {
    // SAFETY: a stream sets a BIO of this module before it uses the connection.
    unsafe { of_bio(ffi::SSL_get_rbio(ssl)) }
}

/// # Safety
/// As for [`of_connection`].
unsafe fn of_bio<'a>(bio: *mut ffi::BIO) -> &'a mut Wire {
    // SAFETY: `bio` stored the pointer, and the wire lives longer than the BIO.
    unsafe { &mut *ffi::BIO_get_data(bio).cast::<Wire>() }
}

unsafe extern "C" fn read(bio: *mut ffi::BIO, into: *mut c_char, len: c_int) -> c_int {
    let len = usize::try_from(len).unwrap_or_default();
    // SAFETY: the library passes a BIO of this module, and room for `len` bytes. The room is only written to.
    let taken = unsafe {
        ffi::BIO_clear_retry_flags(bio);
        of_bio(bio).read(std::slice::from_raw_parts_mut(into.cast(), len))
    };
    if taken == 0 {
        // SAFETY: as above. More input may follow.
        unsafe { ffi::BIO_set_retry_read(bio) };
        return -1;
    }
    c_int::try_from(taken).expect("it is not more than the length")
}

unsafe extern "C" fn write(bio: *mut ffi::BIO, bytes: *const c_char, len: c_int) -> c_int {
    let count = usize::try_from(len).unwrap_or_default();
    // SAFETY: the library passes a BIO of this module and `len` bytes.
    unsafe {
        ffi::BIO_clear_retry_flags(bio);
        let bytes = std::slice::from_raw_parts(bytes.cast(), count);
        of_bio(bio).output.extend_from_slice(bytes);
    }
    len
}

unsafe extern "C" fn control(
    _: *mut ffi::BIO,
    command: c_int,
    _: c_long,
    _: *mut c_void,
) -> c_long {
    c_long::from(command == ffi::BIO_CTRL_FLUSH)
}
