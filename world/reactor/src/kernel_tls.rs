//! TLS records that the kernel handles: its documentation is networking/tls.rst.
//!
//! The socket then carries plaintext, as one without TLS does. The kernel refuses every record that is not data: an
//! alert, such as the one that ends a connection, or a change of keys. Receiving then fails, and the connection ends.

use std::io;
use std::os::fd::RawFd;

use libc::{c_int, c_void, socklen_t};
use nearflash_shard::SocketId;
use nearflash_tls::{DirectionKeys, Suite, TrafficKeys};
use zeroize::Zeroizing;

use crate::sockets::raw_fd;

/// The name of the kernel's upper-layer protocol.
const ULP: &[u8] = b"tls";
/// An alert with the level warning and the description `close_notify`. RFC 8446, 6.1.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The content type of alerts. RFC 8446, 5.1.
const ALERT: u8 = 21;

/// Why the kernel does not handle a connection's records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotInKernel {
    /// It cannot, and the socket is as before.
    Unavailable,
    /// It handles one direction only.
    Halfway,
}

/// Whether this kernel handles TLS records. Asks for its module, which the kernel loads for root.
pub(crate) fn is_available() -> bool {
    // SAFETY: the call takes no memory.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return false;
    }
    let result = set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, ULP);
    // SAFETY: the socket was made above, and nothing else has it.
    unsafe { libc::close(socket) };
    // The protocol exists, and refuses a socket without a connection.
    result.is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
}

/// The kernel handles the records of this connection from here on.
pub(crate) fn hand_over(socket: SocketId, keys: &TrafficKeys) -> Result<(), NotInKernel> {
    let fd = raw_fd(socket);
    let unavailable = |_| NotInKernel::Unavailable;
    set(fd, libc::IPPROTO_TCP, libc::TCP_ULP, ULP).map_err(unavailable)?;
    set(fd, libc::SOL_TLS, libc::TLS_RX, &crypto_info(keys.suite, &keys.receive))
        .map_err(unavailable)?;
    set(fd, libc::SOL_TLS, libc::TLS_TX, &crypto_info(keys.suite, &keys.send))
        .map_err(|_| NotInKernel::Halfway)
}

/// A `tls12_crypto_info_aes_gcm_128` or `_256`, for record 0.
#[expect(clippy::host_endian_bytes, reason = "the kernel's structure has the order of its machine")]
fn crypto_info(suite: Suite, keys: &DirectionKeys) -> Zeroizing<Vec<u8>> {
    let cipher = match suite {
        Suite::Aes128Sha256 => libc::TLS_CIPHER_AES_GCM_128,
        Suite::Aes256Sha384 => libc::TLS_CIPHER_AES_GCM_256,
    };
    let (salt, iv) = keys.iv.split_at(size_of::<u32>());
    let first_record = 0_u64.to_be_bytes();
    let parts: [&[u8]; 6] = [
        &libc::TLS_1_3_VERSION.to_ne_bytes(),
        &cipher.to_ne_bytes(),
        iv,
        &keys.key,
        salt,
        &first_record,
    ];
    Zeroizing::new(parts.concat())
}

/// Tells the peer that nothing follows, if there is room for it.
pub(crate) fn send_close(socket: SocketId) {
    const TYPE_LEN: u32 = 1;
    // SAFETY: the call only computes a length. The buffer below has room for it.
    let control_len = unsafe { libc::CMSG_SPACE(TYPE_LEN) } as usize;
    let mut alert = CLOSE_NOTIFY;
    // Words, as headers of control messages must be aligned.
    let mut control = [0_u64; 8];
    let mut part = libc::iovec { iov_base: alert.as_mut_ptr().cast(), iov_len: alert.len() };
    // SAFETY: an all-zero message header is a valid one. The control message fits into `control`, which is aligned, and
    // all memory outlives the call.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = control_len as _;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_TLS;
        (*message).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*message).cmsg_len = libc::CMSG_LEN(TYPE_LEN) as _;
        *libc::CMSG_DATA(message) = ALERT;
        // Without room, the end of the connection tells the peer.
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(raw_fd(socket), &raw const header, flags);
    }
}

fn set(fd: RawFd, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    let len = socklen_t::try_from(value.len()).expect("an option is short");
    // SAFETY: the kernel reads `len` bytes of memory that is borrowed for this call.
    let result =
        unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast::<c_void>(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
