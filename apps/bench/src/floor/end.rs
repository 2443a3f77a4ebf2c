//! One end of a connection, and the sleep of a side on all of its ends.

use std::io::IoSlice;
use std::net::TcpStream;
use std::os::fd::AsFd;

use nearflash_units::ByteLen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use super::error::FloorError;
use super::exchange::MessageCounter;
use super::spec::{Tuning, Waits};

/// The longest sleep, so that a side notices the end of the run.
const SLEEP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The waiting of one side.
pub(super) struct Sleeper<'a> {
    waits: Waits,
    wakers: Vec<PollFd<'a>>,
}

impl<'a> Sleeper<'a> {
    pub(super) fn new(waits: Waits) -> Self {
        Self { waits, wakers: Vec::new() }
    }

    pub(super) fn sleeps(&self) -> bool {
        self.waits == Waits::Asleep
    }

    /// Sleeps until an end has input, or room for output that is due. Each receive of a turn takes
    /// everything or is followed by another turn, so nothing is missed.
    #[inline]
    pub(super) fn rest<T>(
        &mut self,
        items: &mut [T],
        end: impl Fn(&mut T) -> &mut End<'a>,
    ) -> Result<(), FloorError> {
        if self.waits == Waits::Spinning {
            return Ok(());
        }
        self.wakers.clear();
        for item in items.iter_mut() {
            let end = end(item);
            let output = if end.due > 0 { PollFlags::OUT } else { PollFlags::empty() };
            self.wakers.push(PollFd::from_borrowed_fd(end.socket.as_fd(), PollFlags::IN | output));
        }
        match poll(&mut self.wakers, Some(&SLEEP_MAX)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(FloorError::Socket(errno.into())),
        }
        for (item, waker) in items.iter_mut().zip(&self.wakers) {
            // An end without input has room for output, or an error that its next call reports.
            end(item).is_ready = !(waker.revents() - PollFlags::OUT).is_empty();
        }
        Ok(())
    }
}

/// The state that all connections of a side share.
pub(super) struct Side {
    inbox: Vec<u8>,
    receives_max: usize,
    /// The bytes that are sent repeatedly. Their values do not matter, and a small buffer stays in
    /// the cache.
    outgoing: Box<[u8]>,
    /// Maximum number of repetitions per send.
    repeats_max: usize,
}

impl Side {
    pub(super) fn new(tuning: &Tuning) -> Self {
        Self {
            inbox: vec![0; tuning.receive_len],
            receives_max: tuning.receives_max,
            outgoing: vec![0x5A; tuning.send_buffer_len].into_boxed_slice(),
            repeats_max: tuning.send_len / tuning.send_buffer_len,
        }
    }

    fn send_repeated(&self, socket: &TcpStream, due: usize) -> Result<usize, Errno> {
        let whole = due / self.outgoing.len();
        let mut slices = vec![IoSlice::new(&self.outgoing); whole.min(self.repeats_max)];
        if whole < self.repeats_max {
            slices.push(IoSlice::new(&self.outgoing[..due % self.outgoing.len()]));
        }
        sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT)
    }
}

/// One end of a connection.
pub(super) struct End<'a> {
    socket: &'a TcpStream,
    incoming: MessageCounter,
    /// Bytes to be sent.
    pub(super) due: usize,
    /// Whether the next turn receives from the socket: always, unless the side sleeps on it.
    is_ready: bool,
}

impl<'a> End<'a> {
    pub(super) fn new(socket: &'a TcpStream, incoming_len: ByteLen) -> Self {
        Self { socket, incoming: MessageCounter::new(incoming_len), due: 0, is_ready: true }
    }

    /// Receives the available data; returns the number of bytes and of messages completed.
    #[inline]
    pub(super) fn receive(&mut self, side: &mut Side) -> Result<(usize, usize), FloorError> {
        if !self.is_ready {
            return Ok((0, 0));
        }
        let received = receive_all(self.socket, &mut side.inbox, side.receives_max)?;
        Ok((received, self.incoming.take(received)))
    }

    /// Sends everything that is due, or as much as one call takes.
    #[inline]
    pub(super) fn send(&mut self, side: &Side) -> Result<(), FloorError> {
        if self.due == 0 {
            return Ok(());
        }
        let sent = if self.due <= side.outgoing.len() {
            send(self.socket, &side.outgoing[..self.due], SendFlags::DONTWAIT)
        } else {
            side.send_repeated(self.socket, self.due)
        };
        self.due -= moved(sent)?;
        Ok(())
    }
}

/// The number of bytes that a call transferred; 0 if it would have blocked.
#[inline]
fn moved(result: Result<usize, Errno>) -> Result<usize, FloorError> {
    match result {
        Ok(len) => Ok(len),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(FloorError::Closed),
        Err(errno) => Err(FloorError::Socket(errno.into())),
    }
}

/// Receives once; `Ok(0)` if no data is available.
#[inline]
fn receive(socket: &TcpStream, buffer: &mut [u8]) -> Result<usize, FloorError> {
    match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(FloorError::Closed),
        other => moved(other.map(|(len, _)| len)),
    }
}

/// Receives until no more data is available, at most `times_max` times.
#[inline]
fn receive_all(
    socket: &TcpStream,
    buffer: &mut [u8],
    times_max: usize,
) -> Result<usize, FloorError> {
    let mut sum = 0;
    for _ in 0..times_max {
        let received = receive(socket, buffer)?;
        sum += received;
        if received < buffer.len() {
            break;
        }
    }
    Ok(sum)
}
