//! A link's rings: memory that it shares with a node on this machine.
//!
//! Requests and answers are entries of the rings, and the node's devices read and write the payload
//! in the data area. A buffer outside of that memory is copied through it. The stream carries the
//! other messages, and reports that the node is gone: it is checked at intervals.
//!
//! Invariant: no slice is accessible, or allocated again, while the node may write to it: in
//! flight, the ring holds it, and not its buffer.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nearflash_direct::PeerError;
use nearflash_direct::client::{
    ClientEvent, ClientOperation, RequestTag, SubmitError, VolumeHandle,
};
use nearflash_request::BufferId;
use nearflash_ring::{Area, ClientEnd, Entry, Geometry, Original, Payload, Slice, receive_passed};
use nearflash_session::RequestingEnd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::sched_yield;

use super::buffer::Buffer;
use super::error::Lost;
use super::session::Connection;
use super::slots::{Slot, Slots};
use crate::stream::Memory as _;

/// The length of the operands of one atomic operation: two words.
const OPERANDS_LEN: u32 = 16;
/// The length of a data area is a multiple of this.
const PAGE_LEN: usize = 4096;
/// The number of turns without an answer between two checks of the stream. A check costs as much as
/// ten turns.
const TURNS_PER_LOOK: u32 = 256;
/// The most answers taken in one turn.
const ANSWERS_PER_TURN_MAX: u32 = 256;
/// The maximum number of bytes received from the stream at a time while rings are being attached.
const RECEIVE_LEN: usize = 4096;

/// The reason why an operation was not submitted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// The session's reason.
    Session(SubmitError),
    /// The shared memory has no free run of this length.
    NoMemory { len: usize },
}

impl From<SubmitError> for Refused {
    fn from(error: SubmitError) -> Self {
        Self::Session(error)
    }
}

/// The outcome of a request for rings.
#[allow(clippy::large_enum_variant, reason = "made once for a connection, and taken apart at once")]
pub(super) enum Attached {
    Yes(Ring),
    /// The node grants no rings: the stream carries the requests.
    No,
    /// The node sent memory that cannot be mapped, and expects requests there: the connection is
    /// unusable.
    Unusable,
}

/// The rings of a link.
pub(super) struct Ring {
    end: ClientEnd,
    area: Area,
    entries_max: u32,
    /// The tags of operations in flight, by slot.
    tags: Vec<RequestTag>,
    answers: Vec<Entry>,
    /// Whether the submission ring has entries that are not published.
    is_unseen: bool,
    /// The error of the ring, which the next turn reports.
    broken: Option<Lost>,
    idle_turns: u32,
    /// The stream's socket, if the program may have replaced its descriptor.
    socket: Option<Original>,
}

impl Ring {
    /// Requests rings from the node, and maps them.
    pub(super) fn attach(
        connection: &mut Connection,
        shared_len: usize,
        timeout: Duration,
    ) -> Result<Attached, Lost> {
        let Some(geometry) = geometry(connection, shared_len) else { return Ok(Attached::No) };
        let data_len = u64::try_from(geometry.data_len()).expect("at most DATA_LEN_MAX");
        if connection.session.attach(geometry.entries(), data_len).is_err() {
            return Ok(Attached::No);
        }
        let mut descriptors = Vec::new();
        if !await_attached(connection, &mut descriptors, timeout)? {
            return Ok(Attached::No);
        }
        let mut descriptors = descriptors.into_iter();
        // The descriptors are missing when this process has reached its limit of open files.
        let (Some(memory), Some(bell)) = (descriptors.next(), descriptors.next()) else {
            return Ok(Attached::Unusable);
        };
        let Ok((end, area)) = ClientEnd::new(&memory, bell, geometry) else {
            return Ok(Attached::Unusable);
        };
        Ok(Attached::Yes(Self::new(end, area, geometry, connection.memory.depth())))
    }

    fn new(end: ClientEnd, area: Area, geometry: Geometry, depth: u32) -> Self {
        Self {
            end,
            area,
            entries_max: geometry.entries(),
            tags: vec![RequestTag(0); index(depth)],
            answers: Vec::with_capacity(index(ANSWERS_PER_TURN_MAX)),
            is_unseen: false,
            broken: None,
            idle_turns: 0,
            socket: None,
        }
    }

    /// The maximum number of operations in flight.
    pub(super) fn entries_max(&self) -> u32 {
        self.entries_max
    }

    /// A buffer in the data area.
    pub(super) fn buffer(&mut self, len: usize) -> Option<Buffer> {
        self.area.take(len).map(Buffer::shared)
    }

    /// Adds a slot's operation to the submission ring.
    #[inline]
    pub(super) fn submit(
        &mut self,
        connection: &mut Connection,
        volume: VolumeHandle,
        slot: BufferId,
    ) -> Result<(), Refused> {
        let operation = connection.memory.get(slot).operation;
        let slice = match operation {
            ClientOperation::Read { .. } | ClientOperation::Write { .. } => {
                Some(self.slice(&mut connection.memory, slot, &operation)?)
            }
            _ => None,
        };
        // The ring adds the location of the payload.
        let (tag, entry) = match connection.session.submit_entry(volume, &operation, 0) {
            Ok(submitted) => submitted,
            Err(error) => {
                if let Some(slice) = slice {
                    connection.memory.buffer_mut(slot).returned(slice);
                }
                return Err(error.into());
            }
        };
        connection.memory.tagged(tag, slot);
        self.tags[index(slot.0)] = tag;
        let (words, words_len) = operation.operands();
        let payload = match slice {
            Some(slice) => Payload::Slice(slice),
            None if words_len > 0 => Payload::Words(&words[..words_len]),
            None => Payload::None,
        };
        match self.end.push(&entry, payload) {
            Ok(true) => self.is_unseen = true,
            // The session never has more requests in flight than the ring has entries.
            Ok(false) | Err(_) => self.broken = Some(Lost::Peer(PeerError::RingBroken)),
        }
        Ok(())
    }

    /// The operation's payload in the data area: the slice of its buffer, or a copy.
    #[inline]
    fn slice(
        &mut self,
        slots: &mut Slots,
        slot: BufferId,
        operation: &ClientOperation,
    ) -> Result<Slice, Refused> {
        if let Some(slice) = slots.buffer_mut(slot).lend(&self.area) {
            return Ok(slice);
        }
        let bytes = slots.bytes(slot);
        let len = bytes.len();
        let mut slice = self.area.take(len).ok_or(Refused::NoMemory { len })?;
        if matches!(operation, ClientOperation::Write { .. }) {
            slice.copy_from_slice(bytes);
        }
        Ok(slice)
    }

    /// Publishes the added requests to the node.
    #[inline]
    pub(super) fn publish(&mut self) {
        if self.is_unseen {
            self.is_unseen = false;
            self.end.publish();
        }
    }

    /// Publishes the added requests, and takes the answers. Returns whether there was progress.
    /// Never waits.
    #[inline]
    pub(super) fn turn(&mut self, connection: &mut Connection) -> Result<bool, Lost> {
        self.publish();
        if let Some(lost) = self.broken {
            return Err(lost);
        }
        self.answers.clear();
        self.take_answers()?;
        if self.answers.is_empty() && connection.memory.in_flight() > 0 && self.shares_processor() {
            // The node's core answers only if it gets the processor.
            sched_yield();
            self.take_answers()?;
        }
        for answer in &self.answers {
            connection.session.handle_entry(answer).map_err(Lost::Peer)?;
        }
        let moved = !self.answers.is_empty();
        self.idle_turns = if moved { 0 } else { self.idle_turns + 1 };
        if self.idle_turns >= TURNS_PER_LOOK || connection.session.output_len() > 0 {
            self.idle_turns = 0;
            self.check_socket(connection)?;
            return Ok(connection.turn()? || moved);
        }
        Ok(moved)
    }

    #[inline]
    fn take_answers(&mut self) -> Result<(), Lost> {
        let taken = self.end.take(ANSWERS_PER_TURN_MAX, &mut self.answers);
        taken.map(drop).map_err(|_| Lost::Peer(PeerError::RingBroken))
    }

    /// Whether the node's core is on the processor of the calling thread.
    #[inline]
    pub(super) fn shares_processor(&mut self) -> bool {
        self.end.shares_processor()
    }

    /// Ends an operation: its buffer takes its slice back, and the data of a read is copied to a
    /// buffer outside the data area.
    #[inline]
    pub(super) fn completed(&mut self, slots: &mut Slots, slot: BufferId) {
        let Some(slice) = self.end.reclaim(self.tags[index(slot.0)].0) else { return };
        let is_read = matches!(slots.get(slot).operation, ClientOperation::Read { .. });
        let buffer = slots.buffer_mut(slot);
        if is_read && !buffer.is_lent() {
            buffer[..slice.len()].copy_from_slice(&slice);
        }
        buffer.returned(slice);
    }

    /// Sleeps until there may be an answer, or the stream is ready, at most for `span`. Returns
    /// `false` after that time.
    pub(super) fn wait(&mut self, connection: &Connection, span: Duration) -> Result<bool, Lost> {
        self.publish();
        self.check_socket(connection)?;
        let is_writing = connection.session.output_len() > 0;
        let woken = self.end.wait(connection.socket(), is_writing, span);
        let woken = woken.map_err(|error| Lost::System(error.kind()))?;
        self.idle_turns = TURNS_PER_LOOK; // it may have been the stream
        Ok(woken)
    }

    /// [`ClientEnd::doze`], after publishing the added requests.
    pub(super) fn doze(&mut self) -> bool {
        self.publish();
        self.end.doze()
    }

    /// The descriptor that signals answers.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.end.bell()
    }

    /// Checks from now on, before each system call on a descriptor, that it is the one of now. So a call
    /// that needs no system call costs none.
    pub(super) fn guard(&mut self, connection: &Connection) {
        self.end.guard_bell();
        self.socket = Original::of(connection.socket());
    }

    /// Whether the descriptors are the guarded ones.
    pub(super) fn has_descriptors(&self, connection: &Connection) -> bool {
        self.end.has_bell() && self.check_socket(connection).is_ok()
    }

    pub(super) fn check_socket(&self, connection: &Connection) -> Result<(), Lost> {
        match self.socket {
            Some(socket) if !socket.is(connection.socket()) => {
                Err(Lost::System(std::io::ErrorKind::NotConnected))
            }
            _ => Ok(()),
        }
    }

    /// Uses another descriptor of the same bell.
    pub(super) fn replace_bell(&mut self, bell: OwnedFd) {
        self.end.replace_bell(bell);
    }

    /// Ends the sleep.
    pub(super) fn awake(&mut self) {
        self.end.awake();
        self.idle_turns = TURNS_PER_LOOK; // it may have been the stream
    }

    /// Ends an operation after the connection is lost: the ring keeps its slice, which the node may
    /// still write to. A buffer that has lent that slice gets other memory: with the same bytes if
    /// the node only reads them, otherwise with zeroes.
    pub(super) fn abandon(&self, slot: BufferId, lost: &mut Slot) {
        let is_only_read = lost.changes_volume();
        let lent = lost.payload.buffer.as_mut().filter(|buffer| buffer.is_lent());
        let Some(buffer) = lent else { return };
        *buffer = Buffer::new(buffer.capacity());
        if is_only_read {
            self.end.copy_out(self.tags[index(slot.0)].0, buffer);
        }
    }
}

/// The geometry to request; `None` when the node offers no rings, or the lengths are out of bounds.
fn geometry(connection: &Connection, shared_len: usize) -> Option<Geometry> {
    let agreed = connection.session.agreed().filter(|agreed| agreed.rings)?;
    let depth = connection.memory.depth();
    let credits = agreed.credits_max.checked_ilog2()?;
    let entries = depth.next_power_of_two().min(1 << credits);
    let operands = index(entries * OPERANDS_LEN).next_multiple_of(PAGE_LEN);
    let data_len = shared_len.checked_next_multiple_of(PAGE_LEN)?.checked_add(operands)?;
    Geometry::new(entries, u64::try_from(data_len).ok()?)
}

/// Receives until the answer is there, with its descriptors. Returns whether rings are granted.
fn await_attached(
    connection: &mut Connection,
    descriptors: &mut Vec<OwnedFd>,
    timeout: Duration,
) -> Result<bool, Lost> {
    let end = Instant::now() + timeout;
    connection.send()?;
    let mut bytes = [0; RECEIVE_LEN];
    loop {
        match receive_passed(connection.socket(), &mut bytes, descriptors) {
            Ok(0) => return Err(Lost::Closed),
            // No operation is in flight, so every message is small and is consumed as a whole.
            Ok(len) => {
                let taken = connection.session.handle_input(&bytes[..len]).map_err(Lost::Peer)?;
                if taken < len {
                    return Err(Lost::Closed);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(Lost::Silent { within: timeout });
                }
                wait_for_input(connection, left);
            }
            Err(error) => return Err(Lost::System(error.kind())),
        }
        while let Some(event) = connection.session.poll_event() {
            if let ClientEvent::Attached(result) = event {
                return Ok(result.is_ok());
            }
        }
    }
}

fn wait_for_input(connection: &Connection, span: Duration) {
    let socket = connection.socket();
    let timeout = Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    // The next receive finds the cause of the end of the wait.
    let _ = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&timeout));
}

#[inline]
fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
