//! That `docs/direct-protocol.md` says what is done here: its tables and its test vectors.

use std::sync::Arc;

use nearflash_request::{Completion, Outcome, Payload, VolumeId};
use nearflash_session::Chunk;
use nearflash_units::{BlockSize, Nanos};

use crate::Digests;
use crate::client::{ClientConfig, ClientOperation, ClientSession, RequestingEnd, VolumeHandle};
use crate::proof::{CLIENT_LABEL, NODE_LABEL};
use crate::secret::Secret;
use crate::serving::{
    Access, CredentialExport, Demand, Export, Exports, ServingEnd, SessionConfig, TargetSession,
};
use crate::wire::{self, HEADER_LEN, Opcode, Status};

const DOCUMENT: &str = include_str!("../../../docs/direct-protocol.md");

/// Bytes as the document writes them: 32 a line.
fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let words = line
            .chunks(4)
            .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn bytes_of<'a>(chunks: impl Iterator<Item = Chunk<'a>>) -> Vec<u8> {
    let mut stream = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { len, .. } | Chunk::Zeroes(len) => stream.resize(stream.len() + len, 0),
        }
    }
    stream
}

fn counting<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + u8::try_from(at).unwrap())
}

struct Vectors {
    client: ClientSession,
    target: TargetSession,
}

impl Vectors {
    fn new() -> Self {
        let secret = Secret::new(counting(0));
        let client = ClientSession::new(ClientConfig {
            key: Some(("app".into(), secret.clone())),
            digests: Digests::BOTH,
            rings: false,
            nonce: counting(0xA0),
        });
        let export = Export {
            volume: VolumeId(0),
            bytes: 1 << 30,
            block_size: BlockSize::B4096,
            epoch: 7,
            uuid: counting(0xC0),
            is_remote: false,
            is_public: true,
            face: None,
        };
        let credential = CredentialExport {
            secret,
            expired: false,
            access: [(VolumeId(0), Arc::new(Access::full()))].into(),
        };
        let exports = Exports::new([("data".into(), export)], [("app".into(), credential)]);
        let config = SessionConfig::with_nonce(counting(0xB0));
        let target = TargetSession::new(config, Arc::new(exports), Nanos(0));
        Self { client, target }
    }

    fn client_says(&mut self) -> Vec<u8> {
        let stream = bytes_of(self.client.output());
        self.client.advance_output(stream.len());
        assert_eq!(self.target.handle_input(&stream), Ok(stream.len()));
        stream
    }

    fn node_says(&mut self) -> Vec<u8> {
        let stream = bytes_of(self.target.output());
        self.target.advance_output(stream.len(), &mut |_| {});
        assert_eq!(self.client.handle_input(&stream), Ok(stream.len()));
        stream
    }
}

/// Every vector, by the name that stands above it.
fn walk(mut each: impl FnMut(&str, &[u8])) {
    let mut vectors = Vectors::new();
    let hello = vectors.client_says();
    each("HELLO", &hello);
    let answer = vectors.node_says();
    each("answer to HELLO", &answer);
    let transcript = [hello, answer].concat();
    each("HMAC input of the client", &[CLIENT_LABEL, &transcript].concat());
    let prove = vectors.client_says();
    each("HMAC output of the client", &prove[HEADER_LEN..HEADER_LEN + 32]);
    each("PROVE", &prove);
    each("HMAC input of the node", &[NODE_LABEL, &transcript].concat());
    let answer = vectors.node_says();
    each("HMAC output of the node", &answer[HEADER_LEN..HEADER_LEN + 32]);
    each("answer to PROVE", &answer);
    vectors.client.open("data").unwrap();
    each("OPEN", &vectors.client_says());
    each("answer to OPEN", &vectors.node_says());
    let add = ClientOperation::FetchAdd { offset: 4104, addend: 5, durable: true };
    vectors.client.submit(VolumeHandle(0), &add, &[]).unwrap();
    each("FETCH_ADD", &vectors.client_says());
    let Some(Demand::Request(request)) = vectors.target.poll_demand() else { panic!("a request") };
    let (tag, outcome, payload) = (request.tag, Outcome::Success, Payload::Word(0x0102_0304));
    vectors.target.handle_completion(Completion { tag, outcome, payload }, &[]);
    each("answer to FETCH_ADD", &vectors.node_says());
}

#[test]
fn the_documents_test_vectors_are_what_both_ends_say() {
    walk(|name, bytes| {
        let wanted = format!("{name}\n{}\n", hex(bytes));
        assert!(DOCUMENT.contains(&wanted), "the document has no such lines:\n{wanted}");
    });
}

#[test]
fn every_opcode_and_status_is_in_the_document_as_it_is_here() {
    for opcode in Opcode::all() {
        let row = format!("| `{}` | {:#04x} |", opcode.name(), opcode.0);
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for status in Status::all() {
        let row = format!("| {} | `{}` | {} |", status.0, status.name(), status.sentence());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}

#[test]
fn every_bound_is_in_the_document_as_it_is_here() {
    for (name, value) in [
        ("SEGMENT_LEN_MAX", wire::SEGMENT_LEN_MAX),
        ("LEN_MAX", wire::LEN_MAX),
        ("SMALL_LEN_MAX", wire::SMALL_LEN_MAX),
        ("FILES_LEN_MAX", wire::FILES_LEN_MAX),
        ("CREDITS_MAX", wire::CREDITS_MAX),
        ("NAME_LEN_MAX", u32::try_from(wire::NAME_LEN_MAX).unwrap()),
        ("DIGEST_LEN_MAX", wire::DIGEST_LEN_MAX),
        ("DIGEST_BLOCK_LEN", wire::DIGEST_BLOCK_LEN),
        ("DIGEST_KEY_LEN", u32::try_from(wire::DIGEST_KEY_LEN).unwrap()),
        ("BLOCK_DIGEST_LEN", wire::BLOCK_DIGEST_LEN),
        ("SEAL_RUNS_MAX", u32::try_from(wire::SEAL_RUNS_MAX).unwrap()),
        ("SEAL_LEN_MAX", u32::try_from(wire::SEAL_LEN_MAX).unwrap()),
        ("SEAL_GOOD_MAX", u32::try_from(wire::SEAL_GOOD_MAX).unwrap()),
        ("BEARER_LEN_MAX", u32::try_from(wire::BEARER_LEN_MAX).unwrap()),
        ("TLS_IDENTITY_LEN_MAX", u32::try_from(crate::TLS_IDENTITY_LEN_MAX).unwrap()),
        ("BEARER_GOOD_MAX", u32::try_from(wire::BEARER_GOOD_MAX).unwrap()),
    ] {
        let row = format!("| `{name}` | {value} |");
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}
