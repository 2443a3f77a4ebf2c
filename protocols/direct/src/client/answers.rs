//! Answers to requests, over the stream.

use super::input::Sink;
use super::{ClientEvent, ClientSession, Request, RequestTag};
use crate::error::PeerError;
use crate::segments::{self, Segment};
use crate::stream::begin_segment;
use crate::wire::{AnswerHeader, Opcode, SEGMENT_LEN_MAX, Status};

impl ClientSession {
    /// A part of a read's answer: a segment's bytes follow, or none if it has failed.
    #[inline]
    pub(super) fn on_read_answer(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let opcode = Opcode(header.opcode);
        let unasked = Err(PeerError::Unasked(opcode));
        let Some(tag) = self.find(header, Opcode::READ) else { return unasked };
        let (Request { offset, segments: seen, .. }, asked_len) =
            (self.posted[tag].answer, self.posted[tag].len);
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
        self.posted[tag].answer.segments = seen_now;
        let at = usize::try_from(header.value.get()).expect("within the read");
        self.sink = Sink::Read { tag, at, is_last };
        begin_segment(&mut self.stream, len);
        Ok(())
    }

    /// The digests of a range follow, all at once, or none if it has failed.
    pub(super) fn on_digest_answer(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let unasked = Err(PeerError::Unasked(Opcode(header.opcode)));
        let Some(tag) = self.find(header, Opcode::DIGEST) else { return unasked };
        let (status, len) = (header.status(), header.len.get());
        let wanted = if status.is_ok() { self.posted[tag].len } else { 0 };
        if len != wanted || header.flags & (AnswerHeader::MORE | AnswerHeader::RECEIVED) != 0 {
            return unasked;
        }
        self.take_credits(header);
        if len == 0 {
            self.complete(tag, status, header.value.get());
            return Ok(());
        }
        self.sink = Sink::Read { tag, at: 0, is_last: true };
        begin_segment(&mut self.stream, len);
        Ok(())
    }

    /// The request in flight of this opcode that an answer names.
    #[inline]
    fn find(&self, header: &AnswerHeader, opcode: Opcode) -> Option<u16> {
        let tag = u16::try_from(header.tag.get()).ok()?;
        self.posted.find(tag).filter(|request| request.answer.opcode == opcode).map(|_| tag)
    }

    /// Every other answer has no payload.
    pub(super) fn on_answer(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let opcode = Opcode(header.opcode);
        let unasked = PeerError::Unasked(opcode);
        let asked = opcode.asked().ok_or(unasked)?;
        let tag = self.find(header, asked).ok_or(unasked)?;
        if header.len.get() != 0 || header.flags & AnswerHeader::MORE != 0 {
            return Err(unasked);
        }
        let is_news = header.flags & AnswerHeader::RECEIVED != 0;
        if is_news && !std::mem::take(&mut self.posted[tag].answer.awaits_received) {
            return Err(unasked);
        }
        self.take_credits(header);
        if is_news {
            self.events.push_back(ClientEvent::Received(RequestTag::of(tag)));
            return Ok(());
        }
        self.complete(tag, header.status(), header.value.get());
        Ok(())
    }

    /// A segment of a read has all come.
    #[inline]
    pub(super) fn end_part(&mut self, tag: u16, is_last: bool) {
        self.sink = Sink::Drop;
        if self.stream.body.damage().is_some() {
            self.posted[tag].answer.status = Status::DATA_DIGEST;
        }
        if is_last {
            let status = self.posted[tag].answer.status;
            self.complete(tag, status, 0);
        }
    }

    /// Records an answer. The request completes when its buffer is no longer needed.
    #[inline]
    pub(super) fn complete(&mut self, tag: u16, status: Status, value: u64) {
        let request = &mut self.posted[tag];
        (request.answer.status, request.answer.value) = (status, value);
        self.posted.complete(tag, self.output.position());
    }

    /// The number of requests that the node accepts from now on: at least one, and at most the
    /// agreed number.
    #[inline]
    pub(super) fn take_credits(&mut self, header: &AnswerHeader) {
        let credits_max = self.agreed.map_or(1, |agreed| agreed.credits_max);
        self.credits = header.credits.get().clamp(1, credits_max);
    }
}

/// The number of a read's segment of `len` bytes at `at`; `None` when there is no such segment.
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
