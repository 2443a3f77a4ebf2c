//! Sockets: direct calls send and receive, and the ring watches quiet sockets.
//!
//! Measured (4 KiB reads, one connection, both sides spinning, `docs/performance.md`): a plain
//! non-blocking `recv` and one `sendmsg` per turn set the minimum latency; ring entries for both
//! cost an additional system call per turn, and are never faster on a busy connection. The ring
//! pays off where connections are quiet, and one wait covers a thousand of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{io, mem};

use nearflash_engine::Pool;
use nearflash_session::Chunk;
use nearflash_shard::{Peer, PeerState, Place, Received, Sent, SocketId};

/// The maximum number of parts of one send: the kernel's limit, `UIO_MAXIOV`.
const SEND_PARTS_MAX: usize = 1024;

/// The maximum number of bytes of one send: more than a socket accepts at once, and few enough to
/// keep a turn short.
const SEND_LEN_MAX: usize = 2 << 20;

/// The length of one part of a run of zeroes.
const ZEROES_LEN: usize = 128 * 1024;

/// The size of `ucred`, the system's description of a Unix socket's peer.
#[expect(clippy::cast_possible_truncation, reason = "three words")]
const UCRED_LEN: libc::socklen_t = size_of::<libc::ucred>() as libc::socklen_t;

pub(crate) static ZEROES: [u8; ZEROES_LEN] = [0; ZEROES_LEN];

/// The id of a socket that `accept` returned on this node: its descriptor.
#[expect(clippy::cast_sign_loss, reason = "an open descriptor is not negative")]
pub(crate) fn socket_id(fd: RawFd) -> SocketId {
    SocketId(fd as u32)
}

#[expect(clippy::cast_possible_wrap, reason = "descriptors are below RLIMIT_NOFILE")]
pub(crate) fn raw_fd(socket: SocketId) -> RawFd {
    socket.0 as RawFd
}

/// Receives without waiting, first into `place` of the pool, then into `staging`.
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
            // SAFETY: the kernel writes at most `staging.len()` bytes to `staging`, which is
            // exclusively borrowed for this call.
            unsafe {
                libc::recv(raw_fd(socket), staging_part.iov_base, staging.len(), libc::MSG_DONTWAIT)
            }
        }
        Some(place) => {
            let bytes = &mut pool.bytes_mut(place.buffer)[place.offset..place.offset + place.len];
            let direct = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut parts = [direct, staging_part];
            let mut header = header_of(&mut parts);
            // SAFETY: both parts point to memory borrowed for this call, with its exact length.
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

/// Receives without waiting.
pub(crate) fn receive_bytes(socket: SocketId, into: &mut [u8]) -> Received {
    receive_with(socket, into, libc::MSG_DONTWAIT)
}

/// The first byte that waits to be received, which stays there; or the result of receiving without it.
pub(crate) fn peek(socket: SocketId) -> Result<u8, Received> {
    let mut first = [0];
    match receive_with(socket, &mut first, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
        Received::Bytes(_) => Ok(first[0]),
        other => Err(other),
    }
}

fn receive_with(socket: SocketId, into: &mut [u8], flags: libc::c_int) -> Received {
    // SAFETY: the kernel writes at most `into.len()` bytes to memory that is exclusively borrowed for this call.
    let result = unsafe { libc::recv(raw_fd(socket), into.as_mut_ptr().cast(), into.len(), flags) };
    match usize::try_from(result) {
        Ok(0) => Received::Closed,
        Ok(len) => Received::Bytes(len),
        Err(_) if would_block() => Received::Nothing,
        Err(_) => Received::Closed,
    }
}

/// How many bytes have arrived and were not received.
pub(crate) fn unread(socket: SocketId) -> usize {
    let mut len: libc::c_int = 0;
    // SAFETY: the kernel writes one integer, to a value that is exclusively borrowed for this call.
    let result = unsafe { libc::ioctl(raw_fd(socket), libc::FIONREAD, &raw mut len) };
    if result == 0 { usize::try_from(len).unwrap_or(0) } else { usize::MAX / 2 }
}

/// The length of the part of `tcp_info` that is used: up to `tcpi_bytes_acked`. It has not changed since Linux 4.1.
const TCP_INFO_LEN: usize = 128;

/// The other end of a connection.
pub(crate) fn peer_state(socket: SocketId) -> PeerState {
    tcp_state(socket)
        .unwrap_or_else(|| PeerState { is_over: is_hung_up(socket), ..Default::default() })
}

/// The state of a TCP connection; `None` for another one.
fn tcp_state(socket: SocketId) -> Option<PeerState> {
    let mut info = [0u8; TCP_INFO_LEN];
    #[expect(clippy::cast_possible_truncation, reason = "a small constant")]
    let mut len = TCP_INFO_LEN as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of the exclusively borrowed value.
    let result = unsafe {
        libc::getsockopt(
            raw_fd(socket),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return None;
    }
    // The fields tcpi_unacked and tcpi_bytes_acked of tcp(7).
    #[expect(clippy::host_endian_bytes, reason = "the kernel's own order")]
    let (unacked, reached) = (
        u32::from_ne_bytes(*info[24..].first_chunk().expect("a constant offset")),
        u64::from_ne_bytes(*info[120..].first_chunk().expect("a constant offset")),
    );
    let is_over = !TCP_LIVING.contains(&info[0]);
    Some(PeerState { is_over, owes: unacked > 0, reached })
}

/// The states of a connection whose peer has neither closed nor reset it: established, being accepted, and closed
/// by this end only.
const TCP_LIVING: [u8; 4] = [1, 3, 4, 5];

/// Whether the peer of a connection has closed or reset it, maybe behind bytes that were not received yet.
fn is_hung_up(socket: SocketId) -> bool {
    let mut poll = libc::pollfd { fd: raw_fd(socket), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: the kernel writes to one exclusively borrowed value, and does not wait.
    let count = unsafe { libc::poll(&raw mut poll, 1, 0) };
    count > 0
}

/// Sends as many of the bytes as there is room for.
pub(crate) fn send_bytes(socket: SocketId, bytes: &[u8]) -> Sent {
    if bytes.is_empty() {
        return Sent::Bytes(0);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads at most `bytes.len()` bytes of memory that is borrowed for this call.
    let result = unsafe { libc::send(raw_fd(socket), bytes.as_ptr().cast(), bytes.len(), flags) };
    match usize::try_from(result) {
        Ok(len) => Sent::Bytes(len),
        Err(_) if would_block() => Sent::Bytes(0),
        Err(_) => Sent::Closed,
    }
}

/// The header of a message that is received into, or sent from, these parts.
#[inline]
fn header_of(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: an all-zero message header is a valid one.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    // The count is a `usize` with glibc and an `i32` with musl.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    let count = parts.len().try_into().expect("a message has few parts");
    header.msg_iovlen = count;
    header
}

/// The length up to which pieces are copied into one part: a further part costs the kernel as much
/// as copying a kilobyte. (512-byte answers at depth 128: see `docs/performance.md`.)
const GATHERED_PIECE_LEN_MAX: usize = 1024;

/// The length at the head of a send up to which pieces of any length are copied into one part: a
/// single answer is then one part, which `send` takes without a message header. (Reads of 4 KiB at
/// depth 1: see `docs/performance.md`.)
const GATHERED_HEAD_LEN: usize = 8 * 1024;

/// The maximum number of bytes that one send copies; further pieces are parts of their own.
const GATHERED_LEN: usize = 256 * 1024;

/// The parts of one send; the allocations are reused.
#[derive(Debug)]
pub(crate) struct SendParts {
    parts: Vec<libc::iovec>,
    /// The copied pieces, one after the other.
    gathered: Box<[u8]>,
    gathered_len: usize,
    /// The index of each copied part, and its start in `gathered`: the addresses are set when
    /// `gathered` is complete.
    runs: Vec<(usize, usize)>,
    /// Whether the last part is a copied one.
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
    /// Sends as many of the chunks as one call accepts.
    #[inline]
    pub(crate) fn send<'a>(
        &mut self,
        socket: SocketId,
        chunks: impl Iterator<Item = Chunk<'a>>,
        pool: &Pool,
    ) -> Sent {
        self.clear();
        let (mut len, mut held) = (0, &[][..]);
        for chunk in chunks {
            // The piece held back may become one more part.
            if self.parts.len() + 1 >= SEND_PARTS_MAX || len >= SEND_LEN_MAX {
                break;
            }
            len += chunk.len();
            match chunk {
                Chunk::Bytes(bytes) => self.push(bytes, &mut held),
                Chunk::Buffer { buffer, offset, len } => {
                    self.push(&pool.bytes(buffer)[offset..offset + len], &mut held);
                }
                Chunk::Zeroes(len) => self.push_zeroes(len, &mut held),
            }
        }
        self.push_part(held);
        let result = self.send_message(socket);
        // No pointer to borrowed memory outlives the call.
        self.clear();
        result
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.runs.clear();
        self.gathered_len = 0;
        self.is_gathering = false;
    }

    /// Adds a piece. A short one after a long one is held back: it is copied only if the next one is
    /// short, too.
    #[inline]
    fn push<'a>(&mut self, bytes: &'a [u8], held: &mut &'a [u8]) {
        let is_first = self.parts.is_empty() || (self.parts.len() == 1 && self.is_gathering);
        let is_head = is_first && self.gathered_len + bytes.len() <= GATHERED_HEAD_LEN;
        if is_head && self.gather(bytes) {
            return;
        }
        let is_short = bytes.len() <= GATHERED_PIECE_LEN_MAX;
        let earlier = mem::take(held);
        if is_short && !self.is_gathering && earlier.is_empty() {
            *held = bytes;
            return;
        }
        if !(is_short && self.gather(earlier)) {
            self.push_part(earlier);
        } else if self.gather(bytes) {
            return;
        }
        self.push_part(bytes);
    }

    /// Adds a piece as a part of its own.
    #[inline]
    fn push_part(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.is_gathering = false;
            let iov_base = bytes.as_ptr().cast_mut().cast();
            self.parts.push(libc::iovec { iov_base, iov_len: bytes.len() });
        }
    }

    /// Copies a piece behind the earlier ones; `false` when there is no room.
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

    #[inline]
    fn push_zeroes(&mut self, len: usize, held: &mut &[u8]) {
        let mut left = len;
        while left > 0 && self.parts.len() < SEND_PARTS_MAX {
            let part = left.min(ZEROES_LEN);
            self.push(&ZEROES[..part], held);
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
            let header = header_of(&mut self.parts);
            // SAFETY: every part points to memory that is borrowed for this call (chunks and pool),
            // static, or owned by `self` and not written to during the call; the kernel only reads
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

/// The system's probes of a silent peer: the first after a minute, and then four retries. NVMe
/// hosts send keep-alives themselves; a direct client may be silent for any time, and without
/// probes a client whose machine has failed would never be detected.
const KEEPALIVE: socket2::TcpKeepalive = socket2::TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);

/// Whether fewer than `spare` descriptors may be free: the system gives out the lowest free one. A limit of fewer
/// than twice as many leaves none.
pub(crate) fn leaves_no_spare(fd: RawFd, spare: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure, to a value that is exclusively borrowed for this call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let is_high = u64::try_from(fd).is_ok_and(|fd| fd + spare >= limit.rlim_cur);
    result == 0 && limit.rlim_cur >= 2 * spare && is_high
}

/// Prepares an accepted TCP connection. Nagle's algorithm is off, since the answers of a turn are
/// sent together anyway.
pub(crate) fn prepare_tcp(fd: RawFd) -> io::Result<Prepared> {
    // SAFETY: the descriptor is the result of a completed accept, and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let socket = socket2::SockRef::from(&fd);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    let address = |address: io::Result<socket2::SockAddr>| {
        address?.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    };
    let (peer, local) = (address(socket.peer_addr())?, address(socket.local_addr())?);
    if peer.ip().to_canonical().is_loopback() {
        // Congestion control that paces (bbr, the default of some systems) has no use on a
        // loopback, and costs a quarter of the bandwidth there. On real networks the
        // administrator's choice remains. A kernel without cubic keeps its default.
        let _ = socket.set_tcp_congestion(b"cubic");
    }
    Ok(Prepared { fd, peer: Peer::Address(peer), local })
}

/// Begins a connection to another node.
pub(crate) fn connect(to: SocketAddr) -> io::Result<OwnedFd> {
    let kind = socket2::Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), kind, None)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    // What was not sent when the connection is given up must not arrive later.
    socket.set_linger(Some(Duration::ZERO))?;
    let is_loopback = to.ip().to_canonical().is_loopback();
    if is_loopback {
        // As for an accepted connection.
        let _ = socket.set_tcp_congestion(b"cubic");
    }
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Prepares an accepted connection of a Unix socket, with the credentials of its peer.
pub(crate) fn prepare_unix(fd: RawFd) -> io::Result<Prepared> {
    // SAFETY: the descriptor is the result of a completed accept, and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = UCRED_LEN;
    // SAFETY: the kernel writes at most `len` bytes, the size of the exclusively borrowed value.
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

/// Closes the sending direction of a connection.
pub(crate) fn shut_down_output(socket: SocketId) {
    // SAFETY: the call takes no memory; a descriptor that is not a socket returns an error, and
    // then there is nothing to shut down.
    let _ = unsafe { libc::shutdown(raw_fd(socket), libc::SHUT_WR) };
}

/// Closes a connection. Watches on it complete.
pub(crate) fn close(socket: SocketId) {
    let fd = raw_fd(socket);
    // SAFETY: the call takes no memory. It also ends a watch, which holds the socket open inside
    // the ring.
    let _ = unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
    // SAFETY: the shard that closes a socket owns it and forgets its number.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// Passes a descriptor to the shard; [`close`] takes it back.
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
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, theirs)
    }

    /// Waits until the kernel has delivered what was sent, however busy the machine is.
    fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_end_of_a_tcp_connection_is_seen_behind_bytes_that_were_not_received() {
        let (ours, mut theirs) = tcp_pair();
        let socket = socket_id(ours.as_raw_fd());
        assert_eq!((unread(socket), peer_state(socket).is_over), (0, false));
        theirs.write_all(b"command").unwrap();
        until(|| unread(socket) == 7);
        assert!(!peer_state(socket).is_over);
        drop(theirs);
        until(|| peer_state(socket).is_over);
        let mut bytes = [0; 16];
        assert_eq!(receive_bytes(socket, &mut bytes), Received::Bytes(7));
    }

    #[test]
    fn the_reset_of_a_tcp_connection_is_seen_behind_bytes_that_were_not_received() {
        let (ours, mut theirs) = tcp_pair();
        let socket = socket_id(ours.as_raw_fd());
        theirs.write_all(b"command").unwrap();
        until(|| unread(socket) == 7);
        socket2::SockRef::from(&theirs).set_linger(Some(Duration::ZERO)).unwrap();
        drop(theirs);
        until(|| peer_state(socket).is_over);
        let mut bytes = [0; 16];
        assert_eq!(receive_bytes(socket, &mut bytes), Received::Bytes(7));
    }

    #[test]
    fn what_has_reached_a_tcp_peer_is_counted() {
        let (mut ours, theirs) = tcp_pair();
        let socket = socket_id(ours.as_raw_fd());
        let before = peer_state(socket).reached;
        ours.write_all(b"answer").unwrap();
        until(|| !peer_state(socket).owes);
        assert_eq!(peer_state(socket).reached, before + 6);
        drop(theirs);
    }

    #[test]
    fn the_end_of_a_unix_connection_is_seen_behind_bytes_that_were_not_received() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = socket_id(ours.as_raw_fd());
        theirs.write_all(b"command").unwrap();
        assert_eq!((unread(socket), peer_state(socket).is_over), (7, false));
        drop(theirs);
        assert_eq!((unread(socket), peer_state(socket).is_over), (7, true));
    }

    /// Short and long pieces, more short ones than one send copies, sent in as many calls as the
    /// socket requires.
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

    /// Small answers of a turn are one part.
    #[test]
    fn small_pieces_are_one_part() {
        let (mut parts, mut held) = (SendParts::default(), &[][..]);
        (0..100).for_each(|_| parts.push(&[1; 32], &mut held));
        assert_eq!(parts.parts.len(), 1);
        parts.push(&[2; 4096], &mut held);
        assert_eq!(parts.parts.len(), 1, "the head is one part");
        let copied = parts.gathered_len;
        parts.push(&[2; 4096], &mut held);
        parts.push(&[3; 32], &mut held);
        parts.push(&[2; 4096], &mut held);
        assert_eq!(parts.parts.len(), 4);
        assert_eq!(parts.gathered_len, copied, "a header between payloads is not copied");
        parts.push(&[4; 1000], &mut held);
        while parts.gathered_len + 1000 <= GATHERED_LEN {
            parts.push(&[4; 1000], &mut held);
        }
        assert_eq!(parts.parts.len(), 5);
        parts.push(&[5; 1000], &mut held);
        assert_eq!(parts.parts.len(), 6, "what finds no room is a part of its own");
    }
}
