//! A session against a client that is written here byte by byte.

mod bearers;
mod closing;
mod data;
mod faces;
mod files;
mod grants;
mod handshake;
mod requests;
mod rings;
mod seals;
mod volumes;

use std::ops::Range;
use std::sync::Arc;

use nearflash_request::{Completion, Operation, Outcome, Payload};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::Digests;
use crate::Secret;
use crate::check::target::{
    Bench, CREDITS, EPOCH, KEY, LEN_MAX, NAME, Stand, VOLUME, VOLUME_LEN, config, exports, hello,
    message, secret,
};
use crate::proof::{client_proof, node_proof};
use crate::wire::{
    AnswerHeader, AttachRequest, DIGEST_LEN_MAX, DigestRequest, Features, HEADER_LEN, HelloAnswer,
    NEW_HANDLE, NO_TAG, Opcode, OpenAnswer, RequestHeader, Rights, SEGMENT_LEN_MAX, Status,
    VERSION,
};

/// A stream to an open door.
const OPEN: Stand = Stand {
    digests: Digests::NONE,
    with_key: false,
    local: false,
    is_in: true,
    by_rings: false,
    on_replica: false,
    with_bearer: false,
};
/// One whose client has a key.
const KEYED: Stand = Stand { with_key: true, ..OPEN };
const RINGS: Stand = Stand { local: true, by_rings: true, ..OPEN };
/// Before the handshake.
const OUTSIDE: Stand = Stand { is_in: false, ..OPEN };

fn header(tag: u32, offset: u64, len: u32) -> RequestHeader {
    RequestHeader {
        tag: U32::new(tag),
        offset: U64::new(offset),
        len: U32::new(len),
        epoch: U32::new(EPOCH),
        ..RequestHeader::default()
    }
}

fn read(tag: u32, offset: u64, len: u32) -> Vec<u8> {
    message(Opcode::READ, header(tag, offset, len), &[], Digests::NONE)
}

fn write(tag: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    message(Opcode::WRITE, header(tag, offset, 0), payload, Digests::NONE)
}

impl Bench {
    /// The answers sent since the last call, with their payload.
    fn answers(&mut self) -> Vec<(AnswerHeader, Vec<u8>)> {
        self.send();
        let sent = std::mem::take(&mut self.sent);
        let mut rest = &sent[..];
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let (header, after) = AnswerHeader::read_from_prefix(rest).unwrap();
            let (payload, after) = after.split_at(crate::length(header.len.get()));
            answers.push((header, payload.to_vec()));
            rest = after;
        }
        answers
    }

    fn answer(&mut self) -> (AnswerHeader, Vec<u8>) {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "one answer: {answers:?}");
        answers.remove(0)
    }

    /// The answer to one message.
    fn ask(&mut self, message: &[u8]) -> (AnswerHeader, Vec<u8>) {
        self.feed(message);
        self.settle();
        self.answer()
    }

    /// The statuses of all answers, once everything is done.
    fn statuses_of_all(&mut self) -> Vec<Status> {
        self.settle();
        self.answers().iter().map(|(header, _)| header.status()).collect()
    }

    fn status_of(&mut self, message: &[u8]) -> Status {
        self.ask(message).0.status()
    }

    /// The last words of a session that has ended.
    fn goodbye(&mut self) -> (Status, u32, u64) {
        assert!(self.end.session.is_closing(), "the session has ended");
        let (header, _) = self.answer();
        assert_eq!(header.opcode, Opcode::GOODBYE.answer().0);
        (header.status(), header.tag.get(), header.value.get())
    }

    fn fail_one(&mut self, outcome: Outcome) {
        let request = self.requests.remove(0);
        if let Operation::Write { payload, .. } | Operation::WriteBytes { payload, .. } =
            request.operation
        {
            self.end.memory.give_back(payload);
        }
        let done = Completion { tag: request.tag, outcome, payload: Payload::None };
        self.end.session.handle_completion(done, &[]);
    }
}

fn granted(grants: &[(Range<u64>, Rights)], expired: bool) -> Arc<Exports> {
    let credential = CredentialExport {
        secret: secret(),
        expired,
        access: [(VOLUME, Arc::new(Access::new(grants.to_vec())))].into(),
    };
    Arc::new(Exports::new([(NAME.into(), export())], [(KEY.into(), credential)]))
}

fn export() -> Export {
    Export {
        volume: VOLUME,
        bytes: VOLUME_LEN,
        block_size: nearflash_units::BlockSize::B512,
        epoch: EPOCH,
        uuid: [9; 16],
        is_remote: false,
        is_public: true,
        face: None,
    }
}

fn prove(bench: &mut Bench, stand: Stand, key_secret: &Secret) -> Vec<u8> {
    let hello = hello(stand);
    bench.feed(&hello);
    bench.send();
    let transcript = [&hello[..], &bench.sent[..]].concat();
    bench.sent.clear();
    let proof = client_proof(key_secret, &transcript);
    let prove = message(Opcode::PROVE, RequestHeader::default(), &proof, Digests::NONE);
    bench.feed(&prove);
    transcript
}
