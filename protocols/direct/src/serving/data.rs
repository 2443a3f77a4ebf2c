//! Payload from the client: segments of writes go into pool buffers, small messages into memory of
//! the session.

use nearflash_request::BufferId;
use nearflash_units::ByteLen;

use super::demands::{Ready, Span};
use super::{ServingEnd, State, TargetSession};
use crate::error::PeerError;
use crate::segments;
use crate::stream::begin_segment;
use crate::wire::{RequestHeader, Status};

/// The destination of the payload of the current message.
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
    /// The segment that is being received, and the number of segments. They are equal when all were
    /// received.
    segment: u32,
    count: u32,
    pub(super) sink: Sink,
    /// The destination of the segment.
    pub(super) buffer: Option<BufferId>,
    /// The offset in the buffer, and the required length of the buffer.
    span: Span,
    /// The number of bytes of the segment received.
    received: usize,
}

impl Incoming {
    /// Begins a message's payload: `len` bytes, not 0, in the segments of a range at `offset`.
    #[inline]
    pub(super) fn begin(&mut self, offset: u64, len: u32, sink: Sink) {
        let count = segments::count(offset, len);
        *self = Self { offset, len, segment: 0, count, sink, ..Self::default() };
    }

    /// Whether none is coming.
    pub(super) const fn is_over(&self) -> bool {
        self.segment == self.count
    }

    /// How large a buffer its segment wants.
    #[inline]
    pub(super) fn buffer_len(&self) -> ByteLen {
        ByteLen::from_usize(self.span.buffer_len)
    }

    /// The destination of its next byte, once there is a buffer.
    #[inline]
    pub(super) fn place(&self) -> Option<(BufferId, usize)> {
        Some((self.buffer?, self.span.skip + self.received))
    }

    /// The number of bytes of its segment that are in the buffer.
    #[inline]
    pub(super) fn count(&mut self, len: usize) {
        assert!(self.buffer.is_some(), "payload comes only into a buffer");
        self.received += len;
    }
}

impl TargetSession {
    /// The write whose data is next in the stream, if it waits for a buffer.
    #[inline]
    pub(super) fn standing_slot(&self) -> Option<u32> {
        let Sink::Slot(number) = self.incoming.sink else { return None };
        let waits = !self.incoming.is_over()
            && self.incoming.place().is_none()
            && self.stream.body.data_left() > 0
            && !self.is_dropped();
        waits.then_some(number)
    }

    /// Whether the payload belongs to a write with a failed segment.
    #[inline]
    pub(super) fn is_dropped(&self) -> bool {
        match self.incoming.sink {
            Sink::Slot(tag) => !self.slots[tag].failed.is_ok(),
            Sink::Drop | Sink::Small(_) => true,
        }
    }

    /// Begins the next segment of the payload.
    #[inline]
    pub(super) fn begin_segment(&mut self) {
        let Incoming { offset, len, segment, .. } = self.incoming;
        let segment = segments::segment(offset, len, segment);
        begin_segment(&mut self.stream, segment.len);
        self.incoming.received = 0;
        if let Sink::Slot(tag) = self.incoming.sink {
            self.incoming.span = Span::of(&self.slots[tag], segment);
        }
    }

    /// Takes the current message's payload in `rest`; `false` if more is needed, or a buffer.
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
            if !self.stream.body.take_end(rest) {
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

    /// Hands out a received segment of a write, unless it is damaged or the write has failed.
    #[inline]
    pub(super) fn end_segment_of_write(&mut self) {
        let Sink::Slot(tag) = self.incoming.sink else { unreachable!("the caller has looked") };
        let segment = self.incoming.segment;
        let buffer = self.incoming.buffer.take();
        if self.stream.body.damage().is_some() {
            self.slots[tag].fail(Status::DATA_DIGEST, 0);
        }
        self.end_segment();
        match buffer {
            Some(buffer) if self.slots[tag].failed.is_ok() => {
                self.ready.push_back(Ready::new(tag, segment, Some(buffer)));
            }
            buffer => {
                self.output.orphan_all(buffer);
                self.end_part(tag);
            }
        }
    }

    /// Whether the session still takes entries of the rings.
    pub(super) const fn is_in(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }
}
