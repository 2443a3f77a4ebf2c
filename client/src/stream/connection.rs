//! A connection with a session and the memory of its payload.
//!
//! A turn sends all queued data in one call, and receives with a few others. Expected payload is
//! received directly into its buffer (for several buffers, see `scattered`), and the bytes after it
//! into a staging buffer; payload among those is copied.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Receiving, RequestingEnd};
use nearflash_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, readv};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::Memory;
use super::error::{LinkError, taken};
use super::forecast::Forecast;
use super::received::Received;
use super::scatter::{STAGED_BEHIND_PAYLOAD_LEN, Scatter};
#[cfg(feature = "tls")]
use super::secured::Secured;

/// The maximum number of chunks of one send: the kernel's limit (IOV_MAX).
const CHUNKS_PER_SEND_MAX: usize = 1024;
/// The length of expected payload from which little is staged after it, so that the next payload is
/// also received in place rather than copied.
const IN_PLACE_LEN_MIN: usize = 32 * 1024;
/// The maximum number of receives of one turn: the first header, the payload after it, and the
/// bytes that arrived meanwhile. Measurements with 2 and with 8 gave the same rates, at any depth
/// and length.
const RECEIVES_PER_TURN_MAX: usize = 3;
/// The number of reads in flight from which only the first header is received by itself, and all
/// payload after it in place. With fewer reads, the additional call costs more than the copies it
/// saves.
const SCATTERED_READS_MIN: usize = 8;
pub(crate) struct Connection<S, M> {
    pub(super) socket: OwnedFd,
    pub(crate) session: S,
    pub(crate) memory: M,
    pub(crate) forecast: Forecast,
    pub(super) scatter: Scatter,
    pub(super) staging: Vec<u8>,
    /// The bytes of the staging buffer that the session has not consumed yet.
    pub(super) staged: Range<usize>,
    /// The records of a socket that speaks TLS.
    #[cfg(feature = "tls")]
    pub(super) secured: Option<Box<Secured>>,
}

impl<S: RequestingEnd, M: Memory> Connection<S, M> {
    /// A connection over a non-blocking socket. The first turn sends the session's first bytes.
    pub(crate) fn new(socket: OwnedFd, session: S, memory: M, staging_len: usize) -> Self {
        Self {
            socket,
            session,
            memory,
            forecast: Forecast::default(),
            scatter: Scatter::default(),
            staging: vec![0; staging_len],
            staged: 0..0,
            #[cfg(feature = "tls")]
            secured: None,
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Uses another descriptor of the same socket.
    pub(crate) fn replace_socket(&mut self, socket: OwnedFd) {
        self.socket = socket;
    }

    /// One turn. Returns whether there was progress. Never waits.
    #[inline]
    pub(crate) fn turn(&mut self) -> Result<bool, LinkError<S::PeerError>> {
        let mut moved = self.send()?;
        for _ in 0..RECEIVES_PER_TURN_MAX {
            let Received { len, is_all } = self.receive()?;
            moved |= len > 0;
            if is_all {
                break;
            }
        }
        Ok(moved)
    }

    /// Sleeps until the socket is readable, or writable while there is data to send, at most for
    /// `span`. Returns `false` after that time.
    pub(crate) fn wait(&self, span: Nanos) -> Result<bool, LinkError<S::PeerError>> {
        wait_any(std::iter::once(self), span)
    }

    fn interest(&self) -> PollFd<'_> {
        let mut interest = PollFlags::IN;
        if self.has_unsent() {
            interest |= PollFlags::OUT;
        }
        PollFd::new(&self.socket, interest)
    }

    /// Whether there is data to send that the socket has not accepted yet.
    pub(crate) fn has_unsent(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.secured.as_ref().is_some_and(|secured| secured.has_unsent()) {
            return true;
        }
        self.session.output_len() > 0
    }

    /// Whether a turn can receive without anything arriving at the socket.
    pub(crate) fn holds_input(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.secured.as_ref().is_some_and(|secured| secured.holds_input()) {
            return self.session.receiving() != Receiving::Paused;
        }
        false
    }

    /// Turns until `is_done` returns `true`; `false` after `timeout`.
    pub(crate) fn turn_until(
        &mut self,
        timeout: Nanos,
        mut is_done: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, LinkError<S::PeerError>> {
        let end = Instant::now() + timeout.to_duration();
        loop {
            let moved = self.turn();
            if is_done(self) {
                return Ok(true);
            }
            if !moved? {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(false);
                }
                self.wait(Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)))?;
            }
        }
    }

    /// Sends all queued data, in one call if the socket accepts it.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<bool, LinkError<S::PeerError>> {
        while let Some(part) = self.session.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..][..part.len];
            self.session.provide_payload(bytes);
        }
        #[cfg(feature = "tls")]
        if self.secured.is_some() {
            return self.send_secured();
        }
        let mut moved = false;
        while self.session.output_len() > 0 {
            let Some(sent) = self.send_once()? else { break };
            self.session.advance_output(sent);
            moved = true;
        }
        Ok(moved)
    }

    /// Sends once; `None` when the socket accepts no data now.
    #[inline]
    fn send_once(&mut self) -> Result<Option<usize>, LinkError<S::PeerError>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut chunks = self.session.output();
        // Commands without payload form one chunk, regardless of their number.
        let first = chunks.next();
        let (Some(Chunk::Bytes(bytes)), None) = (first, chunks.next()) else {
            return taken(self.send_chunks(flags));
        };
        taken(send(&self.socket, bytes, flags))
    }

    fn send_chunks(&self, flags: SendFlags) -> Result<usize, Errno> {
        let slices: Vec<IoSlice<'_>> = self
            .session
            .output()
            .take(CHUNKS_PER_SEND_MAX)
            .map(|chunk| match chunk {
                Chunk::Bytes(bytes) => IoSlice::new(bytes),
                Chunk::Buffer { buffer, offset, len } => {
                    IoSlice::new(&self.memory.bytes(buffer)[offset..][..len])
                }
                Chunk::Zeroes(_) => unreachable!("a requesting end never sends a run of zeroes"),
            })
            .collect();
        sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), flags)
    }

    /// Receives once.
    #[inline]
    fn receive(&mut self) -> Result<Received, LinkError<S::PeerError>> {
        self.consume()?;
        if !self.staged.is_empty() {
            return Ok(Received::NOTHING);
        }
        #[cfg(feature = "tls")]
        if self.secured.is_some() {
            return self.receive_secured();
        }
        let (received, offered) = match self.session.receiving() {
            Receiving::Paused if self.is_over() => return Err(LinkError::Closed),
            Receiving::Paused => return Ok(Received::NOTHING),
            Receiving::Bytes => {
                let is_scattered = self.is_scattered(SCATTERED_READS_MIN);
                let len = if is_scattered { S::HEADER_LEN } else { self.staging.len() };
                let received = recv(&self.socket, &mut self.staging[..len], RecvFlags::DONTWAIT);
                let received = taken(received.map(|(len, _)| len))?;
                self.staged = 0..received.unwrap_or(0);
                (received, len)
            }
            Receiving::Payload { buffer, offset, len } => {
                if offset == 0 {
                    self.forecast.begun(buffer);
                }
                if self.is_scattered(1) {
                    self.receive_scattered(buffer, offset, len)?
                } else {
                    self.receive_payload(buffer, offset, len)?
                }
            }
        };
        match received {
            None => Ok(Received::NOTHING),
            Some(0) => Err(LinkError::Closed),
            Some(len) => {
                self.consume()?;
                Ok(Received { len, is_all: len < offered })
            }
        }
    }

    #[inline]
    fn is_scattered(&mut self, reads_min: usize) -> bool {
        !self.session.has_digests() && self.forecast.is_worth(reads_min)
    }

    /// Receives payload in place, and the bytes after it into the staging buffer. Returns the
    /// number of received bytes, and the room that was offered.
    fn receive_payload(
        &mut self,
        buffer: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<(Option<usize>, usize), LinkError<S::PeerError>> {
        let place = &mut self.memory.bytes_mut(buffer)[offset..][..len];
        let is_large = len >= IN_PLACE_LEN_MIN;
        let behind = if is_large { STAGED_BEHIND_PAYLOAD_LEN } else { self.staging.len() };
        let behind = behind.min(self.staging.len());
        let slices = &mut [IoSliceMut::new(place), IoSliceMut::new(&mut self.staging[..behind])];
        let received = taken(readv(&self.socket, slices))?;
        let in_place = received.unwrap_or(0).min(len);
        if in_place > 0 {
            self.session.handle_payload(&self.memory.bytes(buffer)[offset..][..in_place]);
        }
        self.staged = 0..received.unwrap_or(0) - in_place;
        Ok((received, len + behind))
    }

    /// Passes the staged bytes to the session.
    #[inline]
    pub(super) fn consume(&mut self) -> Result<(), LinkError<S::PeerError>> {
        while !self.staged.is_empty() {
            let bytes = &self.staging[self.staged.clone()];
            let taken = match self.session.receiving() {
                Receiving::Paused => break,
                Receiving::Bytes => self.session.handle_input(bytes).map_err(LinkError::Peer)?,
                Receiving::Payload { buffer, offset, len } => {
                    if offset == 0 {
                        self.forecast.begun(buffer);
                    }
                    let bytes = &bytes[..len.min(bytes.len())];
                    self.memory.bytes_mut(buffer)[offset..][..bytes.len()].copy_from_slice(bytes);
                    self.session.handle_payload(bytes);
                    bytes.len()
                }
            };
            self.staged.start += taken;
        }
        Ok(())
    }

    /// Whether the session is closing and has sent everything.
    pub(super) fn is_over(&self) -> bool {
        self.session.is_closing() && !self.has_unsent()
    }
}

/// Sleeps until one of the connections is ready, at most for `span`. Returns `false` after that
/// time.
pub(crate) fn wait_any<'a, S: RequestingEnd + 'a, M: Memory + 'a>(
    connections: impl Iterator<Item = &'a Connection<S, M>>,
    span: Nanos,
) -> Result<bool, LinkError<S::PeerError>> {
    let mut interests = Vec::new();
    for connection in connections {
        if connection.holds_input() {
            return Ok(true);
        }
        interests.push(connection.interest());
    }
    let timeout = Timespec {
        tv_sec: i64::try_from(span.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(span.0 % 1_000_000_000).expect("below a second"),
    };
    match poll(&mut interests, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(LinkError::Socket(errno.into())),
    }
}
