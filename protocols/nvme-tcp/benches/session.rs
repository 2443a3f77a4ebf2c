//! The cost of the sessions apart from the kernel's TCP: both ends in one thread, without a socket.
//!
//! `BENCH=1 cargo bench -p nearflash-nvme-tcp` runs the full size. Without `BENCH` a small size
//! runs, so that the benchmark stays tested. The hash covers the bytes exchanged and shows that
//! each run does the same work.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures time and prints it"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_nvme::serving::{Connected, QueueKind};
use nearflash_nvme::{
    Command, CompletionEntry, ControllerId, NamespaceEntry, NamespaceId, NamespaceTable, Nqn,
    QueueId, Status,
};
use nearflash_nvme_tcp::host::{CommandData, HostConfig, HostSession, RequestingEnd};
use nearflash_nvme_tcp::serving::{Demand, ServingEnd, SessionConfig, TargetSession};
use nearflash_nvme_tcp::{Chunk, Digests, Receiving};
use nearflash_request::{
    BufferId, Completion, Identity, Nexus, Operation, Outcome, Payload, Support, VolumeId,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};

const DEPTH: u16 = 128;
const BLOCK: u32 = 4096;
const NSID: NamespaceId = NamespaceId(1);

/// Both ends, the streams between them, and the time spent in each.
struct Bench {
    host: HostSession,
    target: TargetSession,
    to_target: Vec<u8>,
    to_host: Vec<u8>,
    payload: Vec<u8>,
    received: Vec<u8>,
    in_target: Duration,
    in_host: Duration,
    hash: u64,
}

impl Bench {
    fn new(flow_control: bool, digests: Digests) -> Self {
        let name = Nqn::new("nqn.2026-11.io.nearflash:bench").expect("a name");
        let host = HostSession::new(HostConfig {
            digests,
            alignment: Default::default(),
            queue: QueueId(1),
            sq_entries: DEPTH + 1,
            flow_control,
            in_capsule_len_max: 16 * 1024,
            controller: ControllerId(1),
            keep_alive_ms: 0,
            host_id: uuid::Uuid::nil(),
            host: name.clone(),
            subsystem: name,
        });
        let mut bench = Self {
            host,
            target: TargetSession::new(SessionConfig::default(), Nanos(0)),
            to_target: Vec::new(),
            to_host: Vec::new(),
            payload: vec![0; 4096],
            received: vec![0; 4096],
            in_target: Duration::ZERO,
            in_host: Duration::ZERO,
            hash: 0,
        };
        while !bench.host.is_ready() {
            bench.turn();
        }
        (bench.in_target, bench.in_host, bench.hash) = Default::default();
        bench
    }

    fn turn(&mut self) {
        let start = Instant::now();
        append(&mut self.to_target, self.host.output(), &self.payload);
        self.host.advance_output(self.host.output_len());
        let submitted = Instant::now();
        self.turn_target();
        let answered = Instant::now();
        self.receive_at_host();
        self.in_target += answered - submitted;
        self.in_host += answered.elapsed() + (submitted - start);
    }

    fn turn_target(&mut self) {
        let mut rest = &self.to_target[..];
        while !rest.is_empty() {
            let taken = match self.target.receiving() {
                Receiving::Bytes => self.target.handle_input(rest).expect("the host is sound"),
                Receiving::Payload { offset, len, .. } => {
                    self.received[offset..offset + len].copy_from_slice(&rest[..len]);
                    self.target.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => {
                    assert!(self.target.wants_buffer().is_some());
                    self.target.provide_buffer(BufferId(0));
                    0
                }
            };
            rest = &rest[taken..];
        }
        self.to_target.clear();
        while let Some(demand) = self.target.poll_demand() {
            match demand {
                Demand::Request(request) => {
                    let payload = match request.operation {
                        Operation::Read => Payload::Zeroes,
                        _ => Payload::None,
                    };
                    let done = Completion { tag: request.tag, outcome: Outcome::Success, payload };
                    self.target.handle_completion(done, &[]);
                }
                Demand::Connect(demand) => {
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::new(cid, Status::SUCCESS);
                    self.target.handle_connected(entry, Some(connected()));
                }
                Demand::Change(..) => unreachable!("only reads"),
                Demand::Admin(_) => unreachable!("an I/O queue"),
                Demand::Authentication(_) => unreachable!("it need not authenticate"),
            }
        }
        append(&mut self.to_host, self.target.output(), &self.payload);
        self.target.advance_output(self.target.output_len(), &mut |_| {});
    }

    fn receive_at_host(&mut self) {
        let mut rest = &self.to_host[..];
        while !rest.is_empty() {
            let taken = match self.host.receiving() {
                Receiving::Bytes => self.host.handle_input(rest).expect("the target is sound"),
                Receiving::Payload { offset, len, .. } => {
                    self.received[offset..offset + len].copy_from_slice(&rest[..len]);
                    self.host.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => unreachable!("the host has sent everything"),
            };
            rest = &rest[taken..];
        }
        self.hash = self.hash.wrapping_mul(31).wrapping_add(ByteLen::of(&self.to_host).0);
        self.to_host.clear();
        while let Some(completion) = self.host.poll_completion() {
            assert!(completion.entry.status().is_success());
            black_box(completion);
        }
    }

    fn submit(&mut self, is_write: bool) {
        let start = Instant::now();
        for lba in 0..u64::from(DEPTH) {
            let (buffer, len) = (BufferId(0), BLOCK);
            let (command, data) = if is_write {
                (Command::write(NSID, Lba(lba), 0, len), CommandData::Outgoing { buffer, len })
            } else {
                (Command::read(NSID, Lba(lba), 0, len), CommandData::Incoming { buffer, len })
            };
            self.host.submit(&command, data, &self.payload).expect("there is room");
        }
        self.in_host += start.elapsed();
    }
}

/// The target alone, without moving any payload: its cost on top of a loop of `recv` and `send`.
fn target_alone(rounds: u32) {
    let mut bench = Bench::new(false, Digests::NONE);
    bench.submit(false);
    let mut stream = Vec::new();
    append(&mut stream, bench.host.output(), &bench.payload);
    let start = Instant::now();
    let sent = serve(&mut bench.target, &stream, rounds);
    let commands = rounds * u32::from(DEPTH);
    println!("target_alone n={commands} hash={sent:016x} target={:?}", start.elapsed() / commands);
}

/// A function of its own, so that a profiler can count its instructions separately.
#[inline(never)]
fn serve(target: &mut TargetSession, stream: &[u8], rounds: u32) -> usize {
    let mut sent = 0;
    for _ in 0..rounds {
        let taken = target.handle_input(black_box(stream)).expect("the host is sound");
        assert_eq!(taken, stream.len());
        while let Some(demand) = target.poll_demand() {
            let Demand::Request(request) = demand else { unreachable!("only reads") };
            let (tag, outcome) = (request.tag, Outcome::Success);
            let done = Completion { tag, outcome, payload: Payload::Zeroes };
            target.handle_completion(done, &[]);
        }
        sent += target.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        target.advance_output(target.output_len(), &mut |_| {});
    }
    sent
}

/// The host alone with prepared answers, without moving any payload.
fn host_alone(rounds: u32) {
    let mut bench = Bench::new(false, Digests::NONE);
    bench.submit(false);
    append(&mut bench.to_target, bench.host.output(), &bench.payload);
    bench.turn_target();
    let answers = std::mem::take(&mut bench.to_host);
    let start = Instant::now();
    let sent = ask(&mut bench, &answers, rounds);
    let commands = rounds * u32::from(DEPTH);
    println!("host_alone n={commands} hash={sent:016x} host={:?}", start.elapsed() / commands);
}

/// A function of its own, as [`serve`].
#[inline(never)]
fn ask(bench: &mut Bench, answers: &[u8], rounds: u32) -> usize {
    let mut sent = 0;
    for _ in 0..rounds {
        let mut rest = black_box(answers);
        while !rest.is_empty() {
            let taken = match bench.host.receiving() {
                Receiving::Bytes => bench.host.handle_input(rest).expect("the target is sound"),
                Receiving::Payload { len, .. } => {
                    bench.host.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => unreachable!("the host has sent everything"),
            };
            rest = &rest[taken..];
        }
        while let Some(completion) = bench.host.poll_completion() {
            black_box(completion);
        }
        sent += bench.host.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        bench.host.advance_output(bench.host.output_len());
        // Slots are reused last in, first out, so the same answers are valid for every second
        // batch.
        bench.submit(false);
    }
    sent
}

fn connected() -> Connected {
    let entry = NamespaceEntry {
        volume: VolumeId(0),
        block_size: BlockSize::B4096,
        blocks: Blocks(1 << 20),
        support: Support::ALL,
        write_protected: false,
    };
    let table = NamespaceTable::new([(NSID, entry)], ByteLen(1 << 20));
    Connected {
        controller: ControllerId(1),
        queue: QueueId(1),
        sq_entries: (DEPTH + 1).into(),
        disable_sq_flow_control: false,
        kind: QueueKind::Io,
        namespaces: Arc::new(table),
        nexus: Nexus(1),
        identity: Identity::Nvme { host_id: [1; 16], controller: 1 },
        authentication: None,
    }
}

/// The cost of a send without the kernel: the stream is copied once.
fn append<'a>(stream: &mut Vec<u8>, chunks: impl Iterator<Item = Chunk<'a>>, payload: &[u8]) {
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(bytes) => stream.extend_from_slice(bytes),
            Chunk::Buffer { offset, len, .. } => {
                stream.extend_from_slice(&payload[offset..offset + len]);
            }
            Chunk::Zeroes(len) => stream.extend_from_slice(&payload[..len]),
        }
    }
}

fn main() {
    let rounds: u32 = if std::env::var_os("BENCH").is_some() { 20_000 } else { 10 };
    target_alone(rounds);
    host_alone(rounds);
    for (name, is_write, flow_control, digests) in [
        ("read_4k", false, false, Digests::NONE),
        ("read_4k_flow_control", false, true, Digests::NONE),
        ("read_4k_digests", false, false, Digests::BOTH),
        ("write_4k", true, false, Digests::NONE),
    ] {
        let mut bench = Bench::new(flow_control, digests);
        for _ in 0..rounds {
            bench.submit(is_write);
            while bench.host.commands_in_flight() > 0 {
                bench.turn();
            }
        }
        let commands = rounds * u32::from(DEPTH);
        println!(
            "{name} n={commands} hash={:016x} target={:?} host={:?} per command",
            bench.hash,
            bench.in_target / commands,
            bench.in_host / commands,
        );
    }
}
