//! Answers: headers, and payload to the client behind them.

use nearflash_request::{Completion, Outcome, Payload};
use zerocopy::little_endian::{U16, U32, U64};

use super::TargetSession;
use super::demands::{Around, parts_of};
use super::slots::Kind;
use crate::digest::{digest, digest_of_zeroes};
use crate::segments;
use crate::stream::seal;
use crate::wire::{AnswerHeader, Opcode, RequestHeader, Status};

impl TargetSession {
    /// The engine's answer. `payload` is the bytes of its buffer when
    /// [`Self::wants_payload_bytes`], otherwise it may be empty. The buffer is the session's until
    /// it is sent.
    ///
    /// # Panics
    /// When no such request is in flight, or a read succeeded without payload.
    #[inline]
    pub fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        if self.is_closing() {
            if let Payload::Buffer(buffer) = done.payload {
                self.orphans.push(buffer);
            }
            return;
        }
        let (number, segment) = parts_of(done.tag);
        let slot = &mut self.slots[number];
        assert!(slot.is_taken && slot.pending > 0, "a request is answered once");
        if done.outcome != Outcome::Success {
            slot.fail(done.outcome.into(), 0);
        }
        if self.rings.is_some() {
            return self.complete_by_ring(number, segment, done.payload);
        }
        if slot.kind == Kind::Read && slot.failed.is_ok() {
            self.answer_part(number, segment, done.payload, payload);
        } else {
            self.complete(number, done.payload);
        }
    }

    /// Everything but a read that goes well.
    pub(super) fn complete(&mut self, number: u32, payload: Payload) {
        match payload {
            Payload::Buffer(buffer) => self.orphans.push(buffer),
            Payload::Word(word) if self.slots[number].failed.is_ok() => {
                self.slots[number].value = word;
            }
            _ => {}
        }
        self.end_part(number);
    }

    /// A segment of a read has its data and so its part of the answer.
    #[inline]
    fn answer_part(&mut self, number: u32, segment: u32, payload: Payload, bytes: &[u8]) {
        let slot = &mut self.slots[number];
        let segment = segments::segment(slot.offset, slot.len, segment);
        let skip = Around::of(slot, segment).skip;
        slot.pending -= 1;
        let is_last = slot.pending == 0;
        if is_last {
            self.slots.give_back(number);
        }
        let header = AnswerHeader {
            opcode: Opcode::READ.answer().0,
            flags: if is_last { 0 } else { AnswerHeader::MORE },
            status: U16::new(Status::OK.0),
            tag: U32::new(number),
            value: U64::new(u64::from(segment.start)),
            len: U32::new(segment.len),
            credits: U32::new(self.credits),
            ..AnswerHeader::default()
        };
        self.output.push_words(seal(header.to_words(), self.stream.digests));
        match payload {
            Payload::Buffer(buffer) => self.output.push_buffer(buffer, skip, segment.len),
            Payload::Zeroes => self.output.push_zeroes(segment.len),
            other => panic!("a read that succeeded has payload, not {other:?}"),
        }
        if self.stream.digests.data {
            let len = crate::length(segment.len);
            let digest = match payload {
                Payload::Buffer(_) => digest(&bytes[crate::length(skip)..][..len]),
                _ => digest_of_zeroes(len),
            };
            self.output.push_bytes(&digest.to_le_bytes());
        }
    }

    /// A request is over, without payload: its tag is free again.
    pub(super) fn answer(&mut self, number: u32, status: Status, value: u64) {
        let kind = self.slots[number].kind;
        self.slots.give_back(number);
        let header = self.header(kind.opcode(), status, number, value);
        self.push_answer(header);
    }

    /// A request is refused that never had a slot.
    #[cold]
    pub(super) fn refuse(&mut self, header: &RequestHeader, status: Status, value: u64) {
        let answer = self.header(Opcode(header.opcode), status, header.tag.get(), value);
        self.push_answer(answer);
    }

    /// By the way that requests come.
    fn push_answer(&mut self, header: AnswerHeader) {
        if self.is_closing() {
            return;
        }
        let words = header.to_words();
        match &mut self.rings {
            // Memory needs no digest.
            Some(rings) => rings.push_entry(words),
            None => self.output.push_words(seal(words, self.stream.digests)),
        }
    }

    /// The answer to a message of the session: always by the stream.
    pub(super) fn answer_session(
        &mut self,
        asked: &RequestHeader,
        status: Status,
        value: u64,
        payload: &[u8],
    ) {
        let mut header = self.header(Opcode(asked.opcode), status, asked.tag.get(), value);
        header.len = U32::new(u32::try_from(payload.len()).expect("small payload"));
        self.output.push_words(seal(header.to_words(), self.stream.digests));
        if !payload.is_empty() {
            self.output.push_bytes(payload);
            if self.stream.digests.data {
                self.output.push_bytes(&digest(payload).to_le_bytes());
            }
        }
    }

    /// The last words.
    pub(super) fn push_goodbye(&mut self, status: Status, tag: u32, value: u64) {
        let header = self.header(Opcode::GOODBYE, status, tag, value);
        self.output.push_words(seal(header.to_words(), self.stream.digests));
    }

    fn header(&self, asked: Opcode, status: Status, tag: u32, value: u64) -> AnswerHeader {
        AnswerHeader {
            opcode: asked.answer().0,
            status: U16::new(status.0),
            tag: U32::new(tag),
            value: U64::new(value),
            credits: U32::new(self.credits),
            ..AnswerHeader::default()
        }
    }
}

impl Kind {
    const fn opcode(self) -> Opcode {
        match self {
            Self::Read => Opcode::READ,
            Self::Write => Opcode::WRITE,
            Self::Flush => Opcode::FLUSH,
            Self::Discard => Opcode::DISCARD,
            Self::CompareAndSwap { .. } => Opcode::COMPARE_AND_SWAP,
            Self::FetchAdd { .. } => Opcode::FETCH_ADD,
        }
    }
}
