//! Invalid messages from a node, sent to a client session.

use std::collections::BTreeMap;

use nearflash_request::BufferId;
use nearflash_session::Receiving;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::target::{LEN_MAX, NAME, VOLUME_LEN};
use crate::Digests;
use crate::block_digest::digests_len;
use crate::client::{ClientConfig, ClientOperation, ClientSession, RequestTag, VolumeHandle};
use crate::digest::digest;
use crate::error::PeerError;
use crate::segments;
use crate::stream::DIGEST_OFFSET;
use crate::wire::{
    AnswerHeader, DIGEST_BLOCK_LEN, DIGEST_KEY_LEN, Features, HelloAnswer, Opcode, OpenAnswer,
    Rights, SEGMENT_LEN_MAX, Status, VERSION,
};
use nearflash_session::check::Memory;

const VOLUME: VolumeHandle = VolumeHandle(0);
const CREDITS: u32 = 8;

/// The check's record of a request in flight.
#[derive(Debug)]
struct InFlight {
    buffer: Option<BufferId>,
    opcode: Opcode,
    offset: u64,
    len: u32,
    /// The segment that a sound node would send next.
    segment: u32,
}

/// A session, its buffers, and its requests.
#[derive(Debug)]
struct Bench {
    client: ClientSession,
    memory: Memory,
    digests: Digests,
    in_flight: BTreeMap<u32, InFlight>,
    error: Option<PeerError>,
    /// Only whole messages were sent, so the data that a read received is known.
    is_sound: bool,
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
        let mut bench = Self {
            client,
            memory: Memory::default(),
            digests: Digests::NONE,
            in_flight: BTreeMap::new(),
            error: None,
            is_sound: true,
        };
        // Most streams are to get past this.
        if selector & 0xC0 != 0 {
            bench.accept(digests, selector & 4 != 0);
        }
        bench
    }

    fn accept(&mut self, digests: Digests, rings: bool) {
        self.send(usize::MAX);
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
        self.client.open(NAME).expect("a sound node is believed");
        self.answer_open(0, 3);
        assert!(self.client.volume(VOLUME).is_some(), "{:?}", self.error);
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
                let buffer = self.memory.take(crate::length(len));
                self.submit(ClientOperation::Read { buffer, offset, len }, Some(buffer));
            }
            2 => {
                let buffer = self.memory.take(crate::length(len));
                let operation = ClientOperation::Write { buffer, offset, len, durable: e & 1 == 0 };
                self.submit(operation, Some(buffer));
            }
            3 if a & 4 != 0 => {
                let (deallocate, durable) = (e & 1 == 0, e & 2 == 0);
                self.submit(ClientOperation::Zero { offset, len, deallocate, durable }, None);
            }
            3 if a & 8 != 0 => {
                let len = (u32::from(d) + 1) * DIGEST_BLOCK_LEN;
                let buffer = self.memory.take(crate::length(digests_len(len)));
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
            8 => self.send(usize::from(a) << (b % 8)),
            9 => {
                self.is_sound = false;
                self.feed(&instruction);
            }
            10 => {
                let _ = self.client.refresh(VOLUME);
                self.answer_open(u32::from(a), u32::from(c));
            }
            _ => {
                self.is_sound = false;
                let opcode = Opcode(a | if e > 20 { Opcode::ANSWER } else { 0 });
                let payload = vec![c; usize::from(d)];
                self.push(opcode, tag, ended(Status(e.into()), c.into()), &payload, mutation);
            }
        }
        self.take_completions();
    }

    fn submit(&mut self, operation: ClientOperation, buffer: Option<BufferId>) {
        let payload = buffer.map_or(&[][..], |buffer| self.memory.bytes(buffer));
        match self.client.submit(VOLUME, &operation, payload) {
            Ok(RequestTag(tag)) => {
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
                let request = InFlight { buffer, opcode, offset, len, segment: 0 };
                let twin = self.in_flight.insert(tag, request);
                assert!(twin.is_none(), "a tag names one request in flight");
            }
            Err(_) => buffer.into_iter().for_each(|buffer| self.memory.give_back(buffer)),
        }
    }

    /// Sends the answer that a correct node would send next to a request, if it is in flight.
    fn answer_next(&mut self, tag: u32, status: Status, mutation: [u8; 2]) {
        let Some(request) = self.in_flight.get_mut(&tag) else {
            return self.push(Opcode::READ, tag, ended(status, 0), &[], mutation);
        };
        let (opcode, offset, len) = (request.opcode, request.offset, request.len);
        if opcode == Opcode::DIGEST && status.is_ok() {
            let digests = vec![0; crate::length(len)];
            return self.push(opcode, tag, AnswerHeader::default(), &digests, mutation);
        }
        if opcode != Opcode::READ || !status.is_ok() {
            return self.push(opcode, tag, ended(status, 7), &[], mutation);
        }
        let count = segments::count(offset, len);
        let part = segments::segment(offset, len, request.segment.min(count - 1));
        request.segment += 1;
        let header = AnswerHeader {
            flags: if request.segment < count { AnswerHeader::MORE } else { 0 },
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
            self.is_sound = false;
            let at = usize::from(place) % bytes.len();
            bytes[at] ^= 1 << (mutation & 7);
        } else if mutation > 230 {
            self.is_sound = false;
            bytes.truncate(usize::from(place) % bytes.len());
        }
        self.feed(&bytes);
    }

    /// Passes all of `bytes`, unless the session fails or ends.
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            let taken = match self.client.receiving() {
                Receiving::Paused => return,
                Receiving::Bytes => match self.client.handle_input(bytes) {
                    Ok(taken) => taken,
                    Err(error) => {
                        assert!(self.client.is_closing(), "an error ends the session");
                        self.error = Some(error);
                        return;
                    }
                },
                Receiving::Payload { buffer, offset, len } => {
                    let part = &bytes[..len.min(bytes.len())];
                    let place = offset..offset + part.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(part);
                    self.client.handle_payload(part);
                    part.len()
                }
            };
            bytes = &bytes[taken..];
        }
    }

    /// Takes at most `len` bytes of the session's output.
    fn send(&mut self, len: usize) {
        let mut stream = Vec::new();
        self.client.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.client.output_len());
        self.client.advance_output(stream.len().min(len));
    }

    fn take_completions(&mut self) {
        while self.client.poll_event().is_some() {}
        while let Some(completion) = self.client.poll_completion() {
            let request = self.in_flight.remove(&completion.tag.0).expect("it ends once");
            let Some(buffer) = request.buffer else { continue };
            let has_data = matches!(request.opcode, Opcode::READ | Opcode::DIGEST);
            if has_data && completion.status.is_ok() && self.is_sound {
                let received = !self.memory.bytes(buffer).contains(&0xA5);
                assert!(received, "a read that succeeds has all its data");
            }
            self.memory.give_back(buffer);
        }
    }

    /// Loses the connection; no request and no buffer may be missing.
    fn end(mut self) {
        self.send(usize::MAX);
        self.take_completions();
        let left: Vec<u32> = self.client.in_flight().map(|RequestTag(tag)| tag).collect();
        let known: Vec<u32> = self.in_flight.keys().copied().collect();
        assert_eq!(left, known, "every request has ended or is named");
    }
}

/// The header fields that report a request's result.
fn ended(status: Status, value: u64) -> AnswerHeader {
    let (status, value) = (U16::new(status.0), U64::new(value));
    AnswerHeader { status, value, ..AnswerHeader::default() }
}
