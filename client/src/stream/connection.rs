//! One connection with a session on it and the memory of its payload.
//!
//! A turn sends all that is queued in one call and takes all that has arrived in a few others.
//! Payload that is awaited lands where it belongs (how several do at once, see `scatter`), the bytes
//! behind it in a staging buffer; what of that is payload again is copied once more.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Receiving};
use nearflash_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, readv};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::error::{LinkError, taken};
use super::forecast::Forecast;
use super::scatter::Scatter;
use super::{Memory, Session};

/// Chunks of one send: what the kernel takes (IOV_MAX).
const CHUNKS_PER_SEND_MAX: usize = 1024;
/// From this much awaited payload on, little is staged behind it: the next payload shall land in
/// place too, rather than be copied.
const IN_PLACE_LEN_MIN: usize = 32 * 1024;
/// How much is staged then: a header, and the beginning of what follows.
pub(super) const STAGED_BEHIND_PAYLOAD_LEN: usize = 4096;
/// Receives of one turn: the first header, the payload behind it, and what came meanwhile. With 2 as
/// with 8 the rates were the same, at any depth and length.
const RECEIVES_PER_TURN_MAX: usize = 3;
/// With so many reads in flight, only the first header is received by itself, and all payload in
/// place behind it. With fewer, the call more costs more than the copy less.
const SCATTERED_READS_MIN: usize = 8;
/// The connection.
pub(crate) struct Connection<S, M> {
    pub(super) socket: OwnedFd,
    pub(crate) session: S,
    pub(crate) memory: M,
    pub(crate) forecast: Forecast,
    pub(super) scatter: Scatter,
    pub(super) staging: Vec<u8>,
    /// The bytes of the staging buffer that the session did not take yet.
    pub(super) staged: Range<usize>,
}

impl<S: Session, M: Memory> Connection<S, M> {
    /// Over a socket that does not block. The session's first bytes are sent by the first turn.
    pub(crate) fn new(socket: OwnedFd, session: S, memory: M, staging_len: usize) -> Self {
        Self {
            socket,
            session,
            memory,
            forecast: Forecast::default(),
            scatter: Scatter::default(),
            staging: vec![0; staging_len],
            staged: 0..0,
        }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// One turn; whether anything moved. Never waits.
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

    /// Sleeps until the socket has something or takes something that is due, or until `span` is
    /// over; whether it was before.
    pub(crate) fn wait(&self, span: Nanos) -> Result<bool, LinkError<S::PeerError>> {
        wait_any(std::iter::once(self), span)
    }

    fn interest(&self) -> PollFd<'_> {
        let mut interest = PollFlags::IN;
        if self.session.output_len() > 0 {
            interest |= PollFlags::OUT;
        }
        PollFd::new(&self.socket, interest)
    }

    /// Turns until `is_done` says so; `false` when that was not within `timeout`.
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

    /// Sends all that is queued, in one call as long as the socket takes it.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<bool, LinkError<S::PeerError>> {
        while let Some(part) = self.session.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..][..part.len];
            self.session.provide_payload(bytes);
        }
        let mut moved = false;
        while self.session.output_len() > 0 {
            let Some(sent) = self.send_once()? else { break };
            self.session.advance_output(sent);
            moved = true;
        }
        Ok(moved)
    }

    /// One call; `None` when the socket takes nothing now.
    #[inline]
    fn send_once(&mut self) -> Result<Option<usize>, LinkError<S::PeerError>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut chunks = self.session.output();
        // Commands without payload are one chunk, however many.
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
                Chunk::Zeroes(_) => unreachable!("who asks sends no zeroes that it has not"),
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

    /// Payload in place and what follows it staged: how much came, of how much.
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

    /// Gives the session what is staged.
    #[inline]
    fn consume(&mut self) -> Result<(), LinkError<S::PeerError>> {
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

    /// Nothing more will come, and all was said.
    fn is_over(&self) -> bool {
        self.session.is_closing() && self.session.output_len() == 0
    }
}

/// Sleeps until one of the connections has something to do, or until `span` is over; whether one has.
pub(crate) fn wait_any<'a, S: Session + 'a, M: Memory + 'a>(
    connections: impl Iterator<Item = &'a Connection<S, M>>,
    span: Nanos,
) -> Result<bool, LinkError<S::PeerError>> {
    let mut interests: Vec<PollFd<'_>> = connections.map(Connection::interest).collect();
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

/// What one receive brought.
struct Received {
    len: usize,
    /// No more is there for now.
    is_all: bool,
}

impl Received {
    const NOTHING: Self = Self { len: 0, is_all: true };
}
