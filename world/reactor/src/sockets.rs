//! Sockets: received from and sent to directly, watched through the ring when quiet.
//!
//! Measured (4 KiB reads, one connection, both sides spinning, `docs/performance.md`): a plain
//! non-blocking `recv` and one `sendmsg` a turn are what the floor is made of; the same through
//! ring entries costs an enter a turn more and is never quicker while the connection is busy. The
//! ring earns its place where a connection is quiet, and one wait has to cover a thousand.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{io, mem};

use nearflash_engine::Pool;
use nearflash_session::Chunk;
use nearflash_shard::{Peer, Place, Received, Sent, SocketId};

/// Parts of one send: the kernel's own bound, UIO_MAXIOV.
const SEND_PARTS_MAX: usize = 1024;

/// Bytes of one send: more than a socket takes at once, and little enough that a turn stays short.
const SEND_LEN_MAX: usize = 2 << 20;

/// A run of zeroes is sent in parts of this length.
const ZEROES_LEN: usize = 128 * 1024;

/// What the system says of a Unix socket's other end.
#[expect(clippy::cast_possible_truncation, reason = "three words")]
const UCRED_LEN: libc::socklen_t = size_of::<libc::ucred>() as libc::socklen_t;

static ZEROES: [u8; ZEROES_LEN] = [0; ZEROES_LEN];

/// A file descriptor whose every socket was made by `accept` on this node.
#[expect(clippy::cast_sign_loss, reason = "an open descriptor is not negative")]
pub(crate) fn socket_id(fd: RawFd) -> SocketId {
    SocketId(fd as u32)
}

#[expect(clippy::cast_possible_wrap, reason = "descriptors are below RLIMIT_NOFILE")]
pub(crate) fn raw_fd(socket: SocketId) -> RawFd {
    socket.0 as RawFd
}

/// Receives without waiting: into `place` of the pool, then into `staging`.
#[inline]
pub(crate) fn receive(
    socket: SocketId,
    place: Option<Place>,
    staging: &mut [u8],
    pool: &mut Pool,
) -> Received {
    let staging_part =
        libc::iovec { iov_base: staging.as_mut_ptr().cast(), iov_len: staging.len() };
    let result = match place {
        None => {
            // SAFETY: the kernel writes at most `staging.len()` bytes to the staging area, which is
            // borrowed for this call.
            unsafe {
                libc::recv(raw_fd(socket), staging_part.iov_base, staging.len(), libc::MSG_DONTWAIT)
            }
        }
        Some(place) => {
            let bytes = &mut pool.bytes_mut(place.buffer)[place.offset..place.offset + place.len];
            let direct = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut parts = [direct, staging_part];
            // SAFETY: an all-zero message header is a valid one.
            let mut header: libc::msghdr = unsafe { mem::zeroed() };
            header.msg_iov = parts.as_mut_ptr();
            header.msg_iovlen = parts.len();
            // SAFETY: both parts name memory borrowed for this call, of their exact lengths.
            unsafe { libc::recvmsg(raw_fd(socket), &raw mut header, libc::MSG_DONTWAIT) }
        }
    };
    match usize::try_from(result) {
        Ok(0) => Received::Closed,
        Ok(len) => Received::Bytes(len),
        Err(_) if would_block() => Received::Nothing,
        Err(_) => Received::Closed,
    }
}

/// Pieces up to this length are gathered into one part: to the kernel, a part more costs what
/// copying a kilobyte does. (512-byte answers at depth 128: see `docs/performance.md`.)
const GATHERED_PIECE_LEN_MAX: usize = 1024;

/// At the head of a send, pieces are gathered up to here, however long they are: an answer that is
/// sent alone is one part then, which a call without a message header takes. (Reads of 4 KiB at
/// depth 1: see `docs/performance.md`.)
const GATHERED_HEAD_LEN: usize = 8 * 1024;

/// How much one send gathers; pieces beyond that are parts of their own.
const GATHERED_LEN: usize = 256 * 1024;

/// The parts of one send, kept between sends for their memory.
#[derive(Debug)]
pub(crate) struct SendParts {
    parts: Vec<libc::iovec>,
    /// Small pieces, one behind the other.
    gathered: Box<[u8]>,
    gathered_len: usize,
    /// Which parts are gathered ones, and where in `gathered` they begin: they get their address
    /// when nothing more is written there.
    runs: Vec<(usize, usize)>,
    /// The last part is a gathered one.
    is_gathering: bool,
}

impl Default for SendParts {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            gathered: vec![0; GATHERED_LEN].into_boxed_slice(),
            gathered_len: 0,
            runs: Vec::new(),
            is_gathering: false,
        }
    }
}

impl SendParts {
    /// Sends as many of the chunks as one call takes.
    #[inline]
    pub(crate) fn send<'a>(
        &mut self,
        socket: SocketId,
        chunks: impl Iterator<Item = Chunk<'a>>,
        pool: &Pool,
    ) -> Sent {
        self.clear();
        let mut len = 0;
        for chunk in chunks {
            if self.parts.len() >= SEND_PARTS_MAX || len >= SEND_LEN_MAX {
                break;
            }
            len += chunk.len();
            match chunk {
                Chunk::Bytes(bytes) => self.push(bytes),
                Chunk::Buffer { buffer, offset, len } => {
                    self.push(&pool.bytes(buffer)[offset..offset + len]);
                }
                Chunk::Zeroes(len) => self.push_zeroes(len),
            }
        }
        let result = self.send_message(socket);
        // Nothing is kept that points to memory which the caller only lent.
        self.clear();
        result
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.runs.clear();
        self.gathered_len = 0;
        self.is_gathering = false;
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let is_first = self.parts.is_empty() || (self.parts.len() == 1 && self.is_gathering);
        let is_head = is_first && self.gathered_len + bytes.len() <= GATHERED_HEAD_LEN;
        if (is_head || bytes.len() <= GATHERED_PIECE_LEN_MAX) && self.gather(bytes) {
            return;
        }
        self.is_gathering = false;
        self.parts
            .push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
    }

    /// Copies a piece behind those gathered before; `false` when there is no room.
    #[inline]
    fn gather(&mut self, bytes: &[u8]) -> bool {
        let start = self.gathered_len;
        let end = start + bytes.len();
        let Some(place) = self.gathered.get_mut(start..end) else { return false };
        place.copy_from_slice(bytes);
        self.gathered_len = end;
        match self.parts.last_mut() {
            Some(last) if self.is_gathering => last.iov_len += bytes.len(),
            _ => {
                self.runs.push((self.parts.len(), start));
                let iov_base = std::ptr::null_mut();
                self.parts.push(libc::iovec { iov_base, iov_len: bytes.len() });
            }
        }
        self.is_gathering = true;
        true
    }

    fn push_zeroes(&mut self, len: usize) {
        let mut left = len;
        while left > 0 && self.parts.len() < SEND_PARTS_MAX {
            let part = left.min(ZEROES_LEN);
            self.push(&ZEROES[..part]);
            left -= part;
        }
    }

    fn send_message(&mut self, socket: SocketId) -> Sent {
        for (part, start) in &self.runs {
            self.parts[*part].iov_base = self.gathered[*start..].as_ptr().cast_mut().cast();
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let result = if let [part] = self.parts[..] {
            // SAFETY: as below.
            unsafe { libc::send(raw_fd(socket), part.iov_base, part.iov_len, flags) }
        } else {
            // SAFETY: an all-zero message header is a valid one.
            let mut header: libc::msghdr = unsafe { mem::zeroed() };
            header.msg_iov = self.parts.as_mut_ptr();
            header.msg_iovlen = self.parts.len();
            // SAFETY: every part names memory that the caller lent for this call (chunks and pool),
            // that is static, or that is ours and not written to meanwhile; the kernel only reads
            // it.
            unsafe { libc::sendmsg(raw_fd(socket), &raw const header, flags) }
        };
        match usize::try_from(result) {
            Ok(len) => Sent::Bytes(len),
            Err(_) if would_block() => Sent::Bytes(0),
            Err(_) => Sent::Closed,
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) local: SocketAddr,
}

/// How the system finds out that a peer that says nothing is gone: asked after a minute, and then
/// four times. NVMe hosts say so themselves; a direct client may be silent for as long as it likes,
/// and one whose machine died would be kept for ever.
const KEEPALIVE: socket2::TcpKeepalive = socket2::TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);

/// Prepares an accepted descriptor: no Nagle, since answers are gathered already.
pub(crate) fn prepare_tcp(fd: RawFd) -> io::Result<Prepared> {
    // SAFETY: the descriptor came from an accept that has just completed, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let socket = socket2::SockRef::from(&fd);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    let address = |address: io::Result<socket2::SockAddr>| {
        address?.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    };
    let (peer, local) = (address(socket.peer_addr())?, address(socket.local_addr())?);
    if peer.ip().to_canonical().is_loopback() {
        // Congestion control that paces (bbr, the default of some systems) has nothing to pace for
        // on a loopback, and costs a quarter of the bandwidth there. What the administrator chose
        // for real networks is left alone. A kernel without cubic keeps its default.
        let _ = socket.set_tcp_congestion(b"cubic");
    }
    Ok(Prepared { fd, peer: Peer::Address(peer), local })
}

/// Prepares an accepted descriptor of a Unix socket: who it was that connected.
pub(crate) fn prepare_unix(fd: RawFd) -> io::Result<Prepared> {
    // SAFETY: the descriptor came from an accept that has just completed, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = UCRED_LEN;
    // SAFETY: the kernel writes at most `len` bytes, the size of what is borrowed for the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let peer = Peer::Process { pid: u32::try_from(who.pid).unwrap_or_default(), uid: who.uid };
    Ok(Prepared { fd, peer, local: (Ipv4Addr::UNSPECIFIED, 0).into() })
}

/// Says that nothing more will be sent.
pub(crate) fn shut_down_output(socket: SocketId) {
    // SAFETY: takes no memory; a descriptor that is no socket is answered with an error, which
    // means there is nothing left to shut down.
    let _ = unsafe { libc::shutdown(raw_fd(socket), libc::SHUT_WR) };
}

/// Ends the connection. Watches on it complete.
pub(crate) fn close(socket: SocketId) {
    let fd = raw_fd(socket);
    // SAFETY: takes no memory. It also ends a watch, which holds the socket open inside the ring.
    let _ = unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
    // SAFETY: the shard that closes a socket owns it and forgets its number.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// The descriptor's number, given up to the shard: it comes back by [`close`].
pub(crate) fn release(fd: OwnedFd) -> SocketId {
    let socket = socket_id(fd.as_raw_fd());
    mem::forget(fd);
    socket
}

fn would_block() -> bool {
    let error = io::Error::last_os_error();
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::ByteLen;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Pieces short and long, more of the short ones than are gathered, sent in as many calls as
    /// the socket takes.
    #[test]
    fn pieces_arrive_in_order_whether_gathered_or_not() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = socket_id(ours.as_raw_fd());
        let mut pool = Pool::new(ByteLen(1 << 20));
        let buffer = pool.take(ByteLen(4096)).unwrap();
        pool.bytes_mut(buffer).fill(7);
        let bytes: Vec<u8> = (0..=250u8).cycle().take(64 * 1024).collect();
        let mut expected = Vec::new();
        let mut parts = SendParts::default();
        for round in 0..300usize {
            let lens = [1 + round % 32, 1024, 1025, round * 3 % 4096, 512, 1 + round % 700];
            let chunks = [
                Chunk::Bytes(&bytes[round..][..lens[0]]),
                Chunk::Buffer { buffer, offset: 1, len: lens[1] },
                Chunk::Bytes(&bytes[..lens[2]]),
                Chunk::Zeroes(1 + lens[3]),
                Chunk::Buffer { buffer, offset: 0, len: lens[4] },
                Chunk::Bytes(&bytes[2 * round..][..lens[5]]),
            ];
            let repeated = chunks.iter().copied().cycle().take(6 * 40);
            let Sent::Bytes(sent) = parts.send(socket, repeated.clone(), &pool) else {
                panic!("the socket is open");
            };
            expected.clear();
            for chunk in repeated {
                match chunk {
                    Chunk::Bytes(bytes) => expected.extend_from_slice(bytes),
                    Chunk::Buffer { len, .. } => expected.resize(expected.len() + len, 7),
                    Chunk::Zeroes(len) => expected.resize(expected.len() + len, 0),
                }
            }
            assert!(sent > 0);
            let mut received = vec![0; sent];
            theirs.read_exact(&mut received).unwrap();
            assert!(received == expected[..sent], "round {round}");
        }
    }

    /// All of a turn's answers are one part as long as they are small.
    #[test]
    fn small_pieces_are_one_part() {
        let mut parts = SendParts::default();
        (0..100).for_each(|_| parts.push(&[1; 32]));
        assert_eq!(parts.parts.len(), 1);
        parts.push(&[2; 4096]);
        assert_eq!(parts.parts.len(), 1, "the head is one part");
        parts.push(&[2; 4096]);
        parts.push(&[3; 32]);
        assert_eq!(parts.parts.len(), 3);
        while parts.gathered_len + 1000 <= GATHERED_LEN {
            parts.push(&[4; 1000]);
        }
        assert_eq!(parts.parts.len(), 3);
        parts.push(&[5; 1000]);
        assert_eq!(parts.parts.len(), 4, "what finds no room is a part of its own");
    }
}
