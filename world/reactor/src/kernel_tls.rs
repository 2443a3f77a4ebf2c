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
    /// It cannot. The socket still carries the bytes unchanged.
    Unavailable,
    /// It handles one direction only.
    Halfway,
}

/// The first version whose sockets are ready only if a whole record has arrived. Before it, half a record keeps a core
/// awake.
const VERSION_MIN: (u32, u32) = (6, 5);

/// Whether this kernel handles TLS records. Asks for its module, which the kernel loads for root.
pub(crate) fn is_available() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version_of(&release).is_some_and(|version| version >= VERSION_MIN) && has_module()
}

/// The version of a release such as 6.12.9-amd64.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|symbol: char| !symbol.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn has_module() -> bool {
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

/// Tells the peer that nothing follows, if there is room for it. The socket stays open for sending: the kernel may still
/// have the rest of a record.
pub(crate) fn send_close(socket: SocketId) {
    const TYPE_LEN: u32 = 1;
    // SAFETY: the call only computes a length. The buffer below has room for it.
    let control_len = unsafe { libc::CMSG_SPACE(TYPE_LEN) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_release() {
        assert_eq!(version_of("6.12.9-amd64\n"), Some((6, 12)));
        assert_eq!(version_of("6.5-rc1"), Some((6, 5)));
        assert_eq!(version_of("linux"), None);
        assert_eq!(version_of(""), None);
    }

    /// A pair of Unix sockets has no TLS.
    #[test]
    fn a_socket_that_the_kernel_cannot_take_carries_its_bytes_unchanged() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;

        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let keys =
            || DirectionKeys { key: Zeroizing::new(vec![1; 16]), iv: Zeroizing::new([2; 12]) };
        let keys = TrafficKeys { suite: Suite::Aes128Sha256, send: keys(), receive: keys() };
        let socket = crate::sockets::socket_id(ours.as_raw_fd());
        assert_eq!(hand_over(socket, &keys), Err(NotInKernel::Unavailable));
        theirs.write_all(b"bytes").unwrap();
        let mut received = [0; 5];
        ours.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"bytes");
    }
}
