//! The cost of the sessions without the kernel's TCP: each end alone, in one thread, without
//! sockets and without moving payload.
//!
//! `BENCH=1 cargo bench -p nearflash-direct` runs the full size; without it a small one, so that it
//! cannot rot. `ONLY=read_512` runs one kind of request, for a profiler. The hash is of the bytes
//! exchanged: the same work is done each time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures time and prints it"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use nearflash_direct::client::{
    ClientConfig, ClientOperation, ClientSession, RequestingEnd, VolumeHandle,
};
use nearflash_direct::serving::{
    Access, CredentialExport, Demand, Export, Exports, Revoked, ServingEnd, SessionConfig,
    TargetSession,
};
use nearflash_direct::wire::{Rights, Run, SALT_LEN, SealKey, SealTerms};
use nearflash_direct::{Chunk, Digests, Receiving, Secret, block_digest};
use nearflash_request::{BufferId, Completion, Outcome, Payload, VolumeId};
use nearflash_units::{BlockSize, Nanos};

const DEPTH: u32 = 128;
const VOLUME_LEN: u64 = 4 << 30;

/// How the two are connected.
#[derive(Clone, Copy)]
struct Setup {
    name: &'static str,
    len: u32,
    digests: Digests,
    /// Grants in the session; 0 for a door that is open to everybody.
    grants: u64,
    /// Sealed objects that are open, and the runs of each; the requests go to all of them in turn.
    seals: Option<(u16, u64)>,
}

struct Pair {
    client: ClientSession,
    target: TargetSession,
    /// The volume, or the sealed objects.
    handles: Vec<VolumeHandle>,
    /// The length of each.
    len: u64,
}

fn exports(grants: u64) -> Exports {
    let export = Export {
        volume: VolumeId(0),
        bytes: VOLUME_LEN,
        block_size: BlockSize::B512,
        epoch: 1,
        uuid: [0; 16],
        is_remote: false,
        is_public: true,
        face: None,
    };
    let part = VOLUME_LEN / grants.max(1);
    // A hole of a block in each, so that none touches the next.
    let ranges = (0..grants).map(|at| (at * part..(at + 1) * part - 512, Rights::READ_WRITE));
    let credential = CredentialExport {
        secret: Secret::new([7; 32]),
        expired: false,
        access: [(VolumeId(0), Arc::new(Access::new(ranges)))].into(),
    };
    let credentials = (grants > 0).then(|| ("bench".into(), credential));
    Exports::new([("bench".into(), export)], credentials)
}

impl Pair {
    fn new(setup: Setup) -> Self {
        let config =
            SessionConfig { anonymous: true, credits: DEPTH, ..SessionConfig::with_nonce([1; 16]) };
        let client = ClientSession::new(ClientConfig {
            key: (setup.grants > 0).then(|| ("bench".into(), Secret::new([7; 32]))),
            digests: setup.digests,
            rings: false,
            nonce: [2; 16],
        });
        let target = TargetSession::new(config, Arc::new(exports(setup.grants)), Nanos(0));
        let handles = vec![VolumeHandle(0)];
        let mut pair = Self { client, target, handles, len: VOLUME_LEN };
        pair.exchange();
        pair.client.open("bench").expect("the session is ready");
        pair.exchange();
        assert!(pair.client.volume(VolumeHandle(0)).is_some(), "the volume is open");
        if let Some((objects, runs)) = setup.seals {
            pair.open_sealed(objects, runs);
        }
        pair
    }

    fn open_sealed(&mut self, objects: u16, runs: u64) {
        const MIB: u64 = 1 << 20;
        self.len = VOLUME_LEN / u64::from(objects) / runs / MIB * MIB * runs;
        let key = SealKey::derive(None, 1, [0; 16], [5; SALT_LEN]);
        let mut revoked = Revoked::new([5; SALT_LEN]);
        for object in 0..objects {
            let start = u64::from(object) * self.len;
            let run = |at| Run { start: start + at * (self.len / runs), len: self.len / runs };
            let terms = SealTerms {
                object: object.into(),
                uuid: [1; 16],
                version: 1,
                rights: Rights::READ,
                good_until: 0,
                runs: (0..runs).rev().map(run).collect(),
            };
            let seal = key.mint(terms).expect("sound terms");
            self.client.open_sealed(&seal, None).expect("the session is ready");
            let stream = bytes_of(self.client.output());
            self.client.advance_output(stream.len());
            assert_eq!(self.target.handle_input(&stream), Ok(stream.len()));
            assert_eq!(self.target.poll_demand(), Some(Demand::Seals));
            self.target.handle_seals(&mut revoked, Nanos(0)).expect("no bearer");
            self.exchange();
        }
        self.handles = (1..=objects).map(VolumeHandle).collect();
        let is_open = |handle: &VolumeHandle| self.client.volume(*handle).is_some();
        assert!(self.handles.iter().all(is_open), "the objects are open");
    }

    /// Until neither end has anything to say.
    fn exchange(&mut self) {
        while self.client.output_len() > 0 || self.target.output_len() > 0 {
            let stream = bytes_of(self.client.output());
            self.client.advance_output(stream.len());
            assert_eq!(self.target.handle_input(&stream), Ok(stream.len()));
            let stream = bytes_of(self.target.output());
            self.target.advance_output(stream.len(), &mut |_| {});
            assert_eq!(self.client.handle_input(&stream), Ok(stream.len()));
        }
    }

    fn submit(&mut self, len: u32) {
        for number in 0..u64::from(DEPTH) {
            // Far apart, as random reads are, and never in a hole between two grants.
            let offset = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.len) & !0xFFF;
            // Not in their order.
            let at = usize::try_from(number).expect("below the depth") * 7919 % self.handles.len();
            let operation = ClientOperation::Read { buffer: BufferId(0), offset, len };
            self.client.submit(self.handles[at], &operation, &[]).expect("there is a credit");
        }
    }
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

/// The target alone: what it adds to a loop of `recv` and `send`.
fn target_alone(setup: Setup, rounds: u32) {
    let mut pair = Pair::new(setup);
    pair.submit(setup.len);
    let stream = bytes_of(pair.client.output());
    let start = Instant::now();
    let sent = serve(&mut pair.target, &stream, rounds);
    let requests = rounds * DEPTH;
    let spent = start.elapsed().as_nanos() as f64 / f64::from(requests);
    println!("target_{} n={requests} hash={sent:016x} {spent:.1} ns each", setup.name);
}

/// A function of its own, so that a profiler can count its instructions alone.
#[inline(never)]
fn serve(target: &mut TargetSession, stream: &[u8], rounds: u32) -> usize {
    let zeroes = vec![0; 4096];
    let mut sent = 0;
    for _ in 0..rounds {
        let taken = target.handle_input(black_box(stream)).expect("the client is sound");
        assert_eq!(taken, stream.len());
        while let Some(demand) = target.poll_demand() {
            let Demand::Request(request) = demand else { unreachable!("only reads") };
            let done = Completion {
                tag: request.tag,
                outcome: Outcome::Success,
                payload: Payload::Buffer(BufferId(0)),
            };
            target.handle_completion(done, &zeroes);
        }
        sent += target.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        target.advance_output(target.output_len(), &mut |_| {});
    }
    sent
}

/// The client alone, its answers ready made.
fn client_alone(setup: Setup, rounds: u32) {
    let mut pair = Pair::new(setup);
    pair.submit(setup.len);
    let stream = bytes_of(pair.client.output());
    pair.client.advance_output(stream.len());
    pair.target.handle_input(&stream).expect("the client is sound");
    while let Some(demand) = pair.target.poll_demand() {
        let Demand::Request(request) = demand else { unreachable!("only reads") };
        let (tag, outcome) = (request.tag, Outcome::Success);
        let done = Completion { tag, outcome, payload: Payload::Zeroes };
        pair.target.handle_completion(done, &[]);
    }
    let answers = bytes_of(pair.target.output());
    let start = Instant::now();
    let sent = ask(&mut pair, &answers, setup.len, rounds);
    let requests = rounds * DEPTH;
    let spent = start.elapsed().as_nanos() as f64 / f64::from(requests);
    println!("client_{} n={requests} hash={sent:016x} {spent:.1} ns each", setup.name);
}

/// As [`serve`].
#[inline(never)]
fn ask(pair: &mut Pair, answers: &[u8], len: u32, rounds: u32) -> usize {
    let mut sent = 0;
    for _ in 0..rounds {
        let mut rest = black_box(answers);
        while !rest.is_empty() {
            let taken = match pair.client.receiving() {
                Receiving::Bytes => pair.client.handle_input(rest).expect("the node is sound"),
                Receiving::Payload { len, .. } => {
                    pair.client.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => unreachable!("nothing has ended the session"),
            };
            rest = &rest[taken..];
        }
        while let Some(completion) = pair.client.poll_completion() {
            assert!(completion.status.is_ok());
        }
        pair.submit(len);
        sent += pair.client.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        pair.client.advance_output(pair.client.output_len());
    }
    sent
}

/// The grant's check alone, at random places of the volume.
fn access_alone(grants: u64, rounds: u32) {
    let part = VOLUME_LEN / grants;
    let ranges = (0..grants).map(|at| (at * part..(at + 1) * part - 512, Rights::READ_WRITE));
    let access = Access::new(ranges);
    let checks = rounds * DEPTH;
    let mut allowed = 0u32;
    let mut place = 1u64;
    let start = Instant::now();
    for _ in 0..checks {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = black_box((place >> 20) % (VOLUME_LEN - 512));
        allowed += u32::from(access.allows(offset..offset + 512, Rights::READ));
    }
    let spent = start.elapsed().as_nanos() as f64 / f64::from(checks);
    println!("access_{grants}_grants n={checks} hash={allowed:016x} {spent:.1} ns each");
}

/// The digests of the blocks of a mirror, at either node.
fn digests_alone(rounds: u32) {
    let blocks = (rounds / 20).max(1) * DEPTH;
    let mut block = vec![0; 4096];
    let mut hash = 0u64;
    let start = Instant::now();
    for number in 0..blocks {
        block[..4].copy_from_slice(&number.to_le_bytes());
        let digest = block_digest(&[3; 16], black_box(&block));
        hash ^= u64::from_le_bytes(*digest.first_chunk().expect("it is longer"));
    }
    let spent = start.elapsed().as_nanos() as f64 / f64::from(blocks);
    println!("digest_4k n={blocks} hash={hash:016x} {spent:.1} ns each");
}

fn main() {
    let rounds: u32 = if std::env::var_os("BENCH").is_some() { 20_000 } else { 10 };
    let only = std::env::var("ONLY").ok();
    let open = Setup { name: "read_512", len: 512, digests: Digests::NONE, grants: 0, seals: None };
    for grants in [1, 1000] {
        access_alone(grants, rounds);
    }
    digests_alone(rounds);
    for setup in [
        open,
        Setup { name: "read_4k", len: 4096 - 512, ..open },
        Setup { name: "read_512_sealed", seals: Some((1, 1)), ..open },
        Setup { name: "read_512_sealed_8_runs", seals: Some((1, 8)), ..open },
        Setup { name: "read_512_1000_sealed", seals: Some((1000, 1)), ..open },
        Setup { name: "read_512_1_grant", grants: 1, ..open },
        Setup { name: "read_512_1000_grants", grants: 1000, ..open },
        Setup {
            name: "read_512_header_digest",
            digests: Digests { header: true, data: false },
            ..open
        },
    ] {
        if only.as_deref().is_none_or(|only| only == setup.name) {
            target_alone(setup, rounds);
            client_alone(setup, rounds);
        }
    }
}
