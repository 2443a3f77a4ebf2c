//! Answers to requests, by the stream.

use super::ClientSession;
use super::config::RequestTag;
use super::input::Sink;
use super::slots::Stage;
use crate::error::PeerError;
use crate::segments::{self, Segment};
use crate::wire::{AnswerHeader, Opcode, SEGMENT_LEN_MAX, Status};

impl ClientSession {
    /// A part of a read's answer: a segment's bytes follow, or none and it has failed.
    #[inline]
    pub(super) fn on_read_answer(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let opcode = Opcode(header.opcode);
        let unasked = Err(PeerError::Unasked { opcode });
        let tag = header.tag.get();
        let Some(slot) = self.slots.in_flight(tag, Opcode::READ) else { return unasked };
        let (offset, asked_len, seen) = (slot.offset, slot.len, slot.segments);
        let tag = RequestTag(tag);
        self.take_credits(header);
        let is_last = header.flags & AnswerHeader::MORE == 0;
        let len = header.len.get();
        if len == 0 {
            if !is_last || header.status().is_ok() {
                return unasked;
            }
            self.complete(tag, header.status(), header.value.get());
            return Ok(());
        }
        let Some(number) = segment_of(offset, asked_len, header.value.get(), len) else {
            return unasked;
        };
        let seen_now = seen | 1 << number;
        let is_all = seen_now.count_ones() == segments::count(offset, asked_len);
        if seen_now == seen || !header.status().is_ok() || is_last != is_all {
            return unasked;
        }
        self.slots[tag].segments = seen_now;
        let at = usize::try_from(header.value.get()).expect("within the read");
        self.sink = Sink::Read { tag, at, is_last };
        self.stream.begin_body(crate::length(len));
        Ok(())
    }

    /// Every other answer has no payload.
    pub(super) fn on_answer(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let opcode = Opcode(header.opcode);
        let unasked = PeerError::Unasked { opcode };
        let asked = opcode.asked().ok_or(unasked)?;
        self.slots.in_flight(header.tag.get(), asked).ok_or(unasked)?;
        if header.len.get() != 0 || header.flags & AnswerHeader::MORE != 0 {
            return Err(unasked);
        }
        self.take_credits(header);
        self.complete(RequestTag(header.tag.get()), header.status(), header.value.get());
        Ok(())
    }

    /// A segment of a read has all come.
    #[inline]
    pub(super) fn end_part(&mut self, tag: RequestTag, is_last: bool) {
        self.sink = Sink::Drop;
        if !self.stream.body_is_sound() {
            self.slots[tag].status = Status::DATA_DIGEST;
        }
        if is_last {
            let status = self.slots[tag].status;
            self.complete(tag, status, 0);
        }
    }

    /// A request is answered. It is over when its buffer is no longer needed.
    #[inline]
    pub(super) fn complete(&mut self, tag: RequestTag, status: Status, value: u64) {
        let is_sent = self.slots[tag].sent_until <= self.output.position();
        let slot = &mut self.slots[tag];
        (slot.status, slot.value) = (status, value);
        if is_sent {
            slot.stage = Stage::Completed;
            self.completions.push_back(tag);
        } else {
            slot.stage = Stage::AnsweredEarly;
            self.early.push(tag);
        }
    }

    /// Something was sent: requests that were answered before it was may be over now.
    #[cold]
    pub(super) fn complete_early(&mut self) {
        let position = self.output.position();
        let (slots, completions) = (&mut self.slots, &mut self.completions);
        self.early.retain(|tag| {
            let is_sent = slots[*tag].sent_until <= position;
            if is_sent {
                slots[*tag].stage = Stage::Completed;
                completions.push_back(*tag);
            }
            !is_sent
        });
    }

    /// How many requests the node will have from now on: never none, never more than was agreed.
    #[inline]
    pub(super) fn take_credits(&mut self, header: &AnswerHeader) {
        let credits_max = self.agreed.map_or(1, |agreed| agreed.credits_max);
        self.credits = header.credits.get().clamp(1, credits_max);
    }
}

/// Which segment of a read `len` bytes at `at` within it are; `None` when they are none.
#[inline]
fn segment_of(offset: u64, asked_len: u32, at: u64, len: u32) -> Option<u32> {
    if at >= u64::from(asked_len) {
        return None;
    }
    let segment_len = u64::from(SEGMENT_LEN_MAX);
    let number = u32::try_from((offset % segment_len + at) / segment_len).ok()?;
    let start = u32::try_from(at).ok()?;
    (segments::segment(offset, asked_len, number) == Segment { start, len }).then_some(number)
}
