//! Payload from the client: segments of writes into pool buffers, small messages into own bytes.

use nearflash_request::BufferId;
use nearflash_session::Receiving;
use nearflash_units::ByteLen;

use super::demands::{Ready, Span};
use super::{State, TargetSession};
use crate::error::PeerError;
use crate::segments;
use crate::wire::{RequestHeader, Status};

/// Where the payload of the current message goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Sink {
    /// Nowhere: its request was refused.
    #[default]
    Drop,
    /// To the session's own bytes.
    Small(RequestHeader),
    /// To the write of this tag.
    Slot(u32),
}

/// The message whose payload is coming.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    offset: u64,
    len: u32,
    /// The segment that is coming, and how many there are; equal when all have come.
    segment: u32,
    count: u32,
    sink: Sink,
    /// Where the segment goes.
    buffer: Option<BufferId>,
    /// From where in the buffer, and how long the buffer must be.
    span: Span,
    /// How much of the segment has come.
    received: usize,
}

impl Incoming {
    /// A message's payload begins: `len` bytes, not 0, cut as those at `offset` are.
    #[inline]
    pub(super) fn begin(&mut self, offset: u64, len: u32, sink: Sink) {
        let count = segments::count(offset, len);
        *self = Self { offset, len, segment: 0, count, sink, ..Self::default() };
    }

    /// Whether none is coming.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.segment == self.count
    }

    pub(super) const fn take_buffer(&mut self) -> Option<BufferId> {
        self.buffer.take()
    }
}

impl TargetSession {
    /// Where the next bytes of the stream belong.
    #[inline]
    pub fn receiving(&self) -> Receiving {
        if self.incoming.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.is_closing() {
            return Receiving::Paused;
        }
        let Sink::Slot(_) = self.incoming.sink else { return Receiving::Bytes };
        let left = self.stream.body.data_left();
        match self.incoming.buffer {
            _ if left == 0 => Receiving::Bytes,
            Some(buffer) => {
                let offset = self.incoming.span.skip + self.incoming.received;
                Receiving::Payload { buffer, offset, len: left }
            }
            None if self.is_dropped() => Receiving::Bytes,
            None => Receiving::Paused,
        }
    }

    /// The next bytes of the payload are in the buffer that [`Self::receiving`] named; here they
    /// are once more.
    ///
    /// # Panics
    /// When that many were not awaited.
    #[inline]
    pub fn handle_payload(&mut self, bytes: &[u8]) {
        assert!(self.incoming.buffer.is_some(), "payload comes only into a buffer");
        self.stream.body.count_data(bytes);
        self.incoming.received += bytes.len();
        if self.stream.body.is_over() {
            self.end_segment_of_write();
        }
    }

    /// How large a buffer a request's payload is waiting for, if one is.
    #[inline]
    pub fn wants_buffer(&self) -> Option<ByteLen> {
        if self.stands_still() {
            return Some(ByteLen::from_usize(self.incoming.span.buffer_len));
        }
        self.rings.as_ref().filter(|_| !self.is_closing())?.wants_buffer()
    }

    /// Whether the buffer that [`Self::wants_buffer`] asks for is for what is next in the stream:
    /// nothing of it moves before it is there.
    #[inline]
    pub fn stands_still(&self) -> bool {
        matches!(self.incoming.sink, Sink::Slot(_))
            && !self.incoming.is_over()
            && self.incoming.buffer.is_none()
            && self.stream.body.data_left() > 0
            && !self.is_closing()
            && !self.is_dropped()
    }

    /// The buffer that [`Self::wants_buffer`] asked for, of at least that length.
    ///
    /// # Panics
    /// When none was asked for.
    #[inline]
    pub fn provide_buffer(&mut self, buffer: BufferId) {
        if self.stands_still() {
            self.incoming.buffer = Some(buffer);
            return;
        }
        let rings = self.rings.as_mut().expect("a buffer comes only when wanted");
        let ready = rings.provide_buffer(buffer);
        self.ready.push_back(ready);
    }

    /// Whether the client owes the rest of a message.
    pub fn awaits_data(&self) -> bool {
        self.stream.is_midway() || !self.incoming.is_over()
    }

    /// Whether what is coming is for a write of which a segment has failed already.
    #[inline]
    fn is_dropped(&self) -> bool {
        match self.incoming.sink {
            Sink::Slot(tag) => !self.slots[tag].failed.is_ok(),
            Sink::Drop | Sink::Small(_) => true,
        }
    }

    /// The next segment of what is coming begins.
    #[inline]
    pub(super) fn begin_segment(&mut self) {
        let Incoming { offset, len, segment, .. } = self.incoming;
        let segment = segments::segment(offset, len, segment);
        self.stream.begin_body(crate::length(segment.len));
        self.incoming.received = 0;
        if let Sink::Slot(tag) = self.incoming.sink {
            self.incoming.span = Span::of(&self.slots[tag], segment);
        }
    }

    /// Takes what `rest` has of the current message's payload; `false` when more is needed first, or
    /// a buffer, or it is for a buffer.
    #[inline]
    pub(super) fn consume_payload(&mut self, rest: &mut &[u8]) -> Result<bool, PeerError> {
        while !self.incoming.is_over() {
            if self.is_closing() {
                return Ok(false);
            }
            if self.stream.body.data_left() > 0 {
                match self.incoming.sink {
                    Sink::Small(_) => {
                        let data = self.stream.body.take_data(rest);
                        self.small.extend_from_slice(data);
                    }
                    Sink::Slot(_) if self.incoming.buffer.is_some() || !self.is_dropped() => {
                        return Ok(false);
                    }
                    Sink::Slot(_) | Sink::Drop => {
                        self.stream.body.take_data(rest);
                    }
                }
            }
            self.stream.body.take_digest(rest);
            if !self.stream.body.is_over() {
                return Ok(false);
            }
            match self.incoming.sink {
                Sink::Small(header) => {
                    self.incoming.segment += 1;
                    self.end_small(&header)?;
                }
                Sink::Slot(_) => self.end_segment_of_write(),
                Sink::Drop => self.end_segment(),
            }
        }
        Ok(true)
    }

    #[inline]
    fn end_segment(&mut self) {
        self.incoming.segment += 1;
        if !self.incoming.is_over() {
            self.begin_segment();
        }
    }

    /// A segment of a write has all come: it is handed out, unless it was damaged or the write has
    /// failed meanwhile.
    #[inline]
    fn end_segment_of_write(&mut self) {
        let Sink::Slot(tag) = self.incoming.sink else { unreachable!("the caller has looked") };
        let segment = self.incoming.segment;
        let buffer = self.incoming.buffer.take();
        if !self.stream.body_is_sound() {
            self.slots[tag].fail(Status::DATA_DIGEST, 0);
        }
        self.end_segment();
        match buffer {
            Some(buffer) if self.slots[tag].failed.is_ok() => {
                self.ready.push_back(Ready::new(tag, segment, Some(buffer)));
            }
            buffer => {
                self.orphans.extend(buffer);
                self.end_part(tag);
            }
        }
    }

    /// Whether the session still takes what comes by rings.
    #[inline]
    pub(super) const fn is_in(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }
}
