//! Invalid messages from a node, sent to a client session.

use std::collections::BTreeMap;

use nearflash_request::BufferId;
use nearflash_session::check::{InFlight, Requesting, Trial};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::target::{LEN_MAX, NAME, VOLUME_LEN};
use crate::Digests;
use crate::block_digest::digests_len;
use crate::client::{ClientConfig, ClientOperation, ClientSession, RequestTag, VolumeHandle};
use crate::digest::digest;
use crate::segments;
use crate::stream::DIGEST_OFFSET;
use crate::wire::{
    AnswerHeader, DIGEST_BLOCK_LEN, DIGEST_KEY_LEN, Features, HelloAnswer, Opcode, OpenAnswer,
    Rights, SEGMENT_LEN_MAX, Status, VERSION,
};

const VOLUME: VolumeHandle = VolumeHandle(0);
const CREDITS: u32 = 8;

/// A session and its requests.
#[derive(Debug)]
struct Bench {
    trial: Trial<ClientSession, u32>,
    digests: Digests,
    /// The opcode and the offset of each request.
    asked: BTreeMap<u32, (Opcode, u64)>,
}

/// For all answers of a node: there is no panic and no endless loop, every request either ends once
/// or is reported as one that never will, and no read succeeds without all of its data.
///
/// The first byte selects the kind of connection. Each group of eight bytes after it selects the
/// next step.
pub fn check_client_never_panics(input: &[u8]) {
    let Some((selector, instructions)) = input.split_first() else { return };
    let mut bench = Bench::new(*selector);
    for instruction in instructions.chunks_exact(8) {
        bench.follow(instruction.try_into().expect("chunks of eight"));
    }
    bench.end();
}

impl Bench {
    fn new(selector: u8) -> Self {
        let digests = Digests { header: selector & 1 != 0, data: selector & 2 != 0 };
        let client = ClientSession::new(ClientConfig {
            key: None,
            digests,
            rings: selector & 4 != 0,
            nonce: [2; 16],
        });
        let mut bench =
            Self { trial: Trial::new(client), digests: Digests::NONE, asked: BTreeMap::new() };
        // Most streams are to get past this.
        if selector & 0xC0 != 0 {
            bench.accept(digests, selector & 4 != 0);
        }
        bench
    }

    fn accept(&mut self, digests: Digests, rings: bool) {
        self.trial.end.take_output(usize::MAX);
        let features =
            Features::of(digests) | if rings { Features::RINGS } else { 0 } | Features::ZERO;
        let hello = HelloAnswer {
            version: U16::new(VERSION),
            proof_wanted: 0,
            reserved0: 0,
            features: Features(U32::new(features)),
            len_max: U32::new(LEN_MAX),
            segment_len_max: U32::new(SEGMENT_LEN_MAX),
            credits_max: U32::new(CREDITS),
            handles_max: U32::new(4),
            boot: U64::new(0),
            nonce: [1; 16],
        };
        self.answer(Opcode::HELLO, 0, hello.as_bytes());
        self.digests = digests;
        self.trial.end.session.open(NAME).expect("a sound node is believed");
        self.answer_open(0, 3);
        assert!(self.trial.end.session.volume(VOLUME).is_some(), "{:?}", self.trial.end.error);
    }

    fn answer_open(&mut self, number: u32, epoch: u32) {
        let open = OpenAnswer {
            bytes: U64::new(VOLUME_LEN),
            block_size: U32::new(512),
            epoch: U32::new(epoch),
            uuid: [9; 16],
            rights: Rights::READ_WRITE,
            reserved: [0; 7],
        };
        self.answer(Opcode::OPEN, number, open.as_bytes());
    }

    fn follow(&mut self, instruction: [u8; 8]) {
        let [what, a, b, c, d, e, mutation, place] = instruction;
        let tag = u32::from(b % 8);
        let mutation = [mutation, place];
        let offset = if a & 1 == 0 { 0 } else { (1 << 20) - u64::from(c) };
        let len = u32::from(d) * 8 + u32::from(a & 2);
        match what % 12 {
            0 | 1 => {
                let buffer = self.trial.end.memory.take(crate::length(len));
                self.submit(ClientOperation::Read { buffer, offset, len }, Some(buffer));
            }
            2 => {
                let buffer = self.trial.end.memory.take(crate::length(len));
                let operation = ClientOperation::Write { buffer, offset, len, durable: e & 1 == 0 };
                self.submit(operation, Some(buffer));
            }
            3 if a & 4 != 0 => {
                let (deallocate, durable) = (e & 1 == 0, e & 2 == 0);
                self.submit(ClientOperation::Zero { offset, len, deallocate, durable }, None);
            }
            3 if a & 8 != 0 => {
                let len = (u32::from(d) + 1) * DIGEST_BLOCK_LEN;
                let buffer = self.trial.end.memory.take(crate::length(digests_len(len)));
                let key = [e; DIGEST_KEY_LEN];
                self.submit(ClientOperation::Digest { buffer, offset, len, key }, Some(buffer));
            }
            3 => self.submit(ClientOperation::Flush, None),
            4 => {
                let addend = u64::from(e);
                self.submit(ClientOperation::FetchAdd { offset, addend, durable: false }, None);
            }
            5..8 => {
                self.answer_next(tag, if e < 200 { Status::OK } else { Status(e.into()) }, mutation)
            }
            8 => {
                self.trial.end.take_output(usize::from(a) << (b % 8));
            }
            9 => {
                self.trial.is_sound = false;
                self.trial.feed(&instruction);
            }
            10 => {
                let _ = self.trial.end.session.refresh(VOLUME);
                self.answer_open(u32::from(a), u32::from(c));
            }
            _ => {
                self.trial.is_sound = false;
                let opcode = Opcode(a | if e > 20 { Opcode::ANSWER } else { 0 });
                let payload = vec![c; usize::from(d)];
                self.push(opcode, tag, ended(Status(e.into()), c.into()), &payload, mutation);
            }
        }
        self.take_completions();
    }

    fn submit(&mut self, operation: ClientOperation, buffer: Option<BufferId>) {
        let (opcode, offset, len) = match operation {
            ClientOperation::Read { offset, len, .. } => (Opcode::READ, offset, len),
            ClientOperation::Write { offset, len, .. } => (Opcode::WRITE, offset, len),
            ClientOperation::FetchAdd { offset, .. } => (Opcode::FETCH_ADD, offset, 8),
            ClientOperation::Zero { offset, len, .. } => (Opcode::ZERO, offset, len),
            ClientOperation::Digest { offset, len, .. } => {
                (Opcode::DIGEST, offset, digests_len(len))
            }
            _ => (Opcode::FLUSH, 0, 0),
        };
        let Requesting { session, memory, .. } = &mut self.trial.end;
        let payload = buffer.map_or(&[][..], |buffer| memory.bytes(buffer));
        let tag = session.submit(VOLUME, &operation, payload).map(|RequestTag(tag)| tag);
        if let Ok(tag) = tag {
            self.asked.insert(tag, (opcode, offset));
        }
        let is_read = matches!(opcode, Opcode::READ | Opcode::DIGEST);
        self.trial.submitted(tag, InFlight { buffer, len, is_read, ..InFlight::default() });
    }

    /// Sends the answer that a correct node would send next to a request, if it is in flight.
    fn answer_next(&mut self, tag: u32, status: Status, mutation: [u8; 2]) {
        let Some(InFlight { len, parts, .. }) = self.trial.get(tag) else {
            return self.push(Opcode::READ, tag, ended(status, 0), &[], mutation);
        };
        let (opcode, offset) = self.asked[&tag];
        if opcode == Opcode::DIGEST && status.is_ok() {
            let digests = vec![0; crate::length(len)];
            return self.push(opcode, tag, AnswerHeader::default(), &digests, mutation);
        }
        if opcode != Opcode::READ || !status.is_ok() {
            return self.push(opcode, tag, ended(status, 7), &[], mutation);
        }
        let count = segments::count(offset, len);
        let part = segments::segment(offset, len, parts.min(count - 1));
        self.trial.count(tag, part.len);
        let header = AnswerHeader {
            flags: if parts + 1 < count { AnswerHeader::MORE } else { 0 },
            value: U64::new(part.start.into()),
            ..AnswerHeader::default()
        };
        let payload = vec![0; crate::length(part.len)];
        self.push(opcode, tag, header, &payload, mutation);
    }

    fn answer(&mut self, opcode: Opcode, tag: u32, payload: &[u8]) {
        self.push(opcode, tag, AnswerHeader::default(), payload, [0; 2]);
    }

    fn push(
        &mut self,
        opcode: Opcode,
        tag: u32,
        header: AnswerHeader,
        payload: &[u8],
        [mutation, place]: [u8; 2],
    ) {
        let mut header = AnswerHeader {
            opcode: opcode.answer().0,
            tag: U32::new(tag),
            len: U32::new(u32::try_from(payload.len()).expect("short")),
            credits: U32::new(CREDITS),
            ..header
        };
        if self.digests.header {
            header.digest = U32::new(digest(&header.as_bytes()[..DIGEST_OFFSET]));
        }
        let mut bytes = [header.as_bytes(), payload].concat();
        if self.digests.data && !payload.is_empty() {
            bytes.extend_from_slice(&digest(payload).to_le_bytes());
        }
        // Seldom anything.
        if mutation > 240 {
            self.trial.is_sound = false;
            let at = usize::from(place) % bytes.len();
            bytes[at] ^= 1 << (mutation & 7);
        } else if mutation > 230 {
            self.trial.is_sound = false;
            bytes.truncate(usize::from(place) % bytes.len());
        }
        self.trial.feed(&bytes);
    }

    fn take_completions(&mut self) {
        while self.trial.end.session.poll_event().is_some() {}
        while let Some(completion) = self.trial.end.session.poll_completion() {
            self.trial.completed(completion.tag.0, completion.status.is_ok(), None);
        }
    }

    /// Loses the connection; no request and no buffer may be missing.
    fn end(mut self) {
        self.trial.end.take_output(usize::MAX);
        self.take_completions();
        let left = self.trial.end.session.in_flight();
        self.trial.check_left(left.map(|RequestTag(tag)| tag));
    }
}

/// The header fields that report a request's result.
fn ended(status: Status, value: u64) -> AnswerHeader {
    let (status, value) = (U16::new(status.0), U64::new(value));
    AnswerHeader { status, value, ..AnswerHeader::default() }
}
