//! Answers: headers, each followed by its payload to the client.

use nearflash_request::Payload;
use zerocopy::little_endian::{U16, U32, U64};

use super::demands::Around;
use super::slots::Kind;
use super::{ServingEnd, TargetSession};
use crate::Digests;
use crate::block_digest::{BlockDigest, block_digest, digests_len};
use crate::digest::{digest, digest_of_zeroes};
use crate::segments;
use crate::stream::{push_message, seal};
use crate::wire::{
    AnswerHeader, DIGEST_BLOCK_LEN, DIGEST_KEY_LEN, DIGEST_LEN_MAX, Opcode, RequestHeader, Status,
};

const BLOCK_LEN: usize = DIGEST_BLOCK_LEN as usize;

const DIGESTS_LEN_MAX: usize = digests_len(DIGEST_LEN_MAX) as usize;

impl TargetSession {
    /// Everything but a read that goes well.
    pub(super) fn complete(&mut self, number: u32, payload: Payload) {
        match payload {
            Payload::Buffer(buffer) => self.output.orphan(buffer),
            Payload::Word(word) if self.slots[number].failed.is_ok() => {
                self.slots[number].value = word;
            }
            _ => {}
        }
        self.end_part(number);
    }

    /// A segment of a read has its data: this sends its part of the answer.
    #[inline]
    pub(super) fn answer_part(
        &mut self,
        number: u32,
        segment: u32,
        payload: Payload,
        bytes: &[u8],
    ) {
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
        let words = seal(header.to_words(), self.stream.rules.digests);
        let place = (skip, segment.len);
        self.output.push_header_and_payload(words, Digests::NONE, payload, place);
        if self.stream.rules.digests.data {
            let len = crate::length(segment.len);
            let digest = match payload {
                Payload::Buffer(_) => digest(&bytes[crate::length(skip)..][..len]),
                _ => digest_of_zeroes(len),
            };
            self.output.push_digest(digest);
        }
    }

    /// The blocks of a DIGEST are read: this answers with their digests.
    pub(super) fn answer_digests(
        &mut self,
        number: u32,
        key: &[u8; DIGEST_KEY_LEN],
        payload: Payload,
        bytes: &[u8],
    ) {
        let len = crate::length(self.slots[number].len);
        let mut digests = [0; DIGESTS_LEN_MAX];
        let places = digests.chunks_exact_mut(size_of::<BlockDigest>());
        if let Payload::Buffer(buffer) = payload {
            for (place, block) in places.zip(bytes[..len].chunks_exact(BLOCK_LEN)) {
                place.copy_from_slice(&block_digest(key, block));
            }
            self.output.orphan(buffer);
        } else {
            let digest = block_digest(key, &[0; BLOCK_LEN]);
            places.for_each(|place| place.copy_from_slice(&digest));
        }
        self.slots.give_back(number);
        let mut header = self.header(Opcode::DIGEST, Status::OK, number, 0);
        let digests = &digests[..len / BLOCK_LEN * size_of::<BlockDigest>()];
        header.len = U32::new(u32::try_from(digests.len()).expect("small payload"));
        push_message(&mut self.output, header.to_words(), digests, self.stream.rules.digests);
    }

    /// Ends a request without payload; its tag is free again.
    pub(super) fn answer(&mut self, number: u32, status: Status, value: u64) {
        let kind = self.slots[number].kind;
        self.slots.give_back(number);
        let header = self.header(kind.opcode(), status, number, value);
        self.push_answer(header);
    }

    /// Refuses a request that never had a slot.
    #[cold]
    pub(super) fn refuse(&mut self, header: &RequestHeader, status: Status, value: u64) {
        let answer = self.header(Opcode(header.opcode), status, header.tag.get(), value);
        self.push_answer(answer);
    }

    /// By the way that requests come.
    pub(super) fn push_answer(&mut self, header: AnswerHeader) {
        if self.is_closing() {
            return;
        }
        let words = header.to_words();
        match &mut self.rings {
            // Memory needs no digest.
            Some(rings) => rings.push_entry(words),
            None => self.output.push_words(seal(words, self.stream.rules.digests)),
        }
    }

    /// The answer to a message of the session, which is always sent over the stream.
    pub(super) fn answer_session(
        &mut self,
        asked: &RequestHeader,
        status: Status,
        value: u64,
        payload: &[u8],
    ) {
        let mut header = self.header(Opcode(asked.opcode), status, asked.tag.get(), value);
        header.len = U32::new(u32::try_from(payload.len()).expect("small payload"));
        push_message(&mut self.output, header.to_words(), payload, self.stream.rules.digests);
    }

    /// The last words.
    pub(super) fn push_goodbye(&mut self, status: Status, tag: u32, value: u64) {
        let header = self.header(Opcode::GOODBYE, status, tag, value);
        self.output.push_words(seal(header.to_words(), self.stream.rules.digests));
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
    pub(super) const fn opcode(self) -> Opcode {
        match self {
            Self::Read => Opcode::READ,
            Self::Write => Opcode::WRITE,
            Self::Flush => Opcode::FLUSH,
            Self::Discard => Opcode::DISCARD,
            Self::Zero { .. } => Opcode::ZERO,
            Self::CompareAndSwap { .. } => Opcode::COMPARE_AND_SWAP,
            Self::FetchAdd { .. } => Opcode::FETCH_ADD,
            Self::Digest { .. } => Opcode::DIGEST,
        }
    }
}
