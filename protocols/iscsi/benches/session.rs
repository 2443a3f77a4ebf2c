//! The cost of the sessions without the kernel's TCP: both ends run in one thread, with no socket
//! between them.
//!
//! `BENCH=1 cargo bench -p nearflash-iscsi` runs the full size; without it a small one, so that it
//! cannot rot. The hash is of the bytes exchanged: the same work is done each time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures time and prints it"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_iscsi::chap::{CHALLENGE_LEN, Challenge};
use nearflash_iscsi::initiator::{
    CommandData, CommandWindow, InitiatorConfig, InitiatorSession, RequestingEnd, cdb,
};
use nearflash_iscsi::login::{LoginConfig, SessionKind};
use nearflash_iscsi::params::DigestWish;
use nearflash_iscsi::serving::{
    Admission, Demand, Exports, NONCE_LEN, Portal, PortalConfig, ServingEnd, SessionConfig,
    TargetSession,
};
use nearflash_iscsi::{Chunk, Receiving};
use nearflash_request::{BufferId, Completion, Operation, Outcome, Payload, Support, VolumeId};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_session::Origin;
use nearflash_units::{BlockSize, Blocks, ByteLen, Nanos};

const DEPTH: u16 = 128;
const BLOCK: u32 = 4096;
const HEADER_LEN: usize = 48;
const TARGET: &str = "iqn.2026-11.io.nearflash:bench";
/// Offsets of the serial numbers in headers that the peer checks.
const MAX_CMD_SN_OFFSET: usize = 32;
const CMD_SN_OFFSET: usize = 24;
const STAT_SN_OFFSET: usize = 24;

/// Both ends, the streams between them, and the time spent in each.
struct Bench {
    initiator: InitiatorSession,
    target: TargetSession,
    portal: Portal,
    to_target: Vec<u8>,
    to_initiator: Vec<u8>,
    payload: Vec<u8>,
    received: Vec<u8>,
    in_target: Duration,
    in_initiator: Duration,
    hash: u64,
}

impl Bench {
    fn new(digests: bool) -> Self {
        let mut config = SessionConfig::with_nonce([0; NONCE_LEN]);
        config.anonymous = true;
        let mut offer = config.offer;
        let wish = if digests { DigestWish::Crc } else { DigestWish::None };
        (offer.header_digest, offer.data_digest) = (wish, wish);
        let login = LoginConfig {
            initiator: "iqn.2026-11.io.nearflash:client".to_owned(),
            initiator_alias: None,
            isid: [0x80, 0, 0, 0, 0, 1],
            tsih: 0,
            cid: 1,
            kind: SessionKind::Normal { target: TARGET.to_owned() },
            account: None,
            challenge: Challenge { identifier: 0, bytes: [0; CHALLENGE_LEN] },
            offer,
        };
        let window = Arc::new(CommandWindow::new(1));
        let config_of_initiator = InitiatorConfig { login, window, task_count: DEPTH };
        let local = "127.0.0.1:3260".parse().expect("an address");
        let mut bench = Self {
            initiator: InitiatorSession::new(config_of_initiator),
            target: TargetSession::new(config, Arc::new(exports()), local, Nanos(0)),
            portal: Portal::new(PortalConfig::default()),
            to_target: Vec::new(),
            to_initiator: Vec::new(),
            payload: vec![0; 4096],
            received: vec![0; 4096],
            in_target: Duration::ZERO,
            in_initiator: Duration::ZERO,
            hash: 0,
        };
        while !bench.initiator.is_ready() {
            bench.turn();
        }
        bench.hear_attentions();
        (bench.in_target, bench.in_initiator, bench.hash) = Default::default();
        bench
    }

    /// Consumes the POWER ON unit attention that a new session reports once.
    fn hear_attentions(&mut self) {
        loop {
            let cdb = cdb::test_unit_ready();
            self.initiator.submit(0, &cdb, CommandData::None, &[]).expect("there is room");
            let completion = loop {
                self.turn_ends();
                if let Some(completion) = self.initiator.poll_completion() {
                    break completion;
                }
            };
            if completion.is_good() {
                return;
            }
        }
    }

    fn turn(&mut self) {
        self.turn_ends();
        while let Some(completion) = self.initiator.poll_completion() {
            assert!(completion.is_good());
            black_box(completion);
        }
    }

    fn turn_ends(&mut self) {
        let start = Instant::now();
        while let Some(part) = self.initiator.wants_payload() {
            self.initiator.provide_payload(&self.payload[part.offset..][..part.len]);
        }
        append(&mut self.to_target, self.initiator.output(), &self.payload);
        self.initiator.advance_output(self.initiator.output_len());
        let submitted = Instant::now();
        self.turn_target();
        let answered = Instant::now();
        self.receive_at_initiator();
        self.in_target += answered - submitted;
        self.in_initiator += answered.elapsed() + (submitted - start);
    }

    fn turn_target(&mut self) {
        let mut rest = &self.to_target[..];
        while !rest.is_empty() {
            let taken = match self.target.receiving() {
                Receiving::Bytes => self.target.handle_input(rest).expect("the peer is sound"),
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
                Demand::Login(demand) => {
                    let admission = self.portal.login(&demand, origin()).expect("there is room");
                    let Admission::Granted(granted) = admission else {
                        unreachable!("nothing is in the way")
                    };
                    self.target.handle_login(Ok(granted));
                }
                Demand::Change(..) => unreachable!("only reads and writes"),
            }
        }
        append(&mut self.to_initiator, self.target.output(), &self.payload);
        self.target.advance_output(self.target.output_len(), &mut |_| {});
    }

    fn receive_at_initiator(&mut self) {
        let mut rest = &self.to_initiator[..];
        while !rest.is_empty() {
            let taken = match self.initiator.receiving() {
                Receiving::Bytes => self.initiator.handle_input(rest).expect("the peer is sound"),
                Receiving::Payload { offset, len, .. } => {
                    self.received[offset..offset + len].copy_from_slice(&rest[..len]);
                    self.initiator.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => unreachable!("the initiator has sent everything"),
            };
            rest = &rest[taken..];
        }
        self.hash = self.hash.wrapping_mul(31).wrapping_add(ByteLen::of(&self.to_initiator).0);
        self.to_initiator.clear();
    }

    fn submit(&mut self, is_write: bool) {
        let start = Instant::now();
        for lba in 0..u64::from(DEPTH) {
            let (buffer, len) = (BufferId(0), BLOCK);
            let submitted = if is_write {
                self.initiator.write(0, (lba, 1), (buffer, len), &self.payload)
            } else {
                self.initiator.read(0, (lba, 1), buffer, len)
            };
            submitted.expect("there is room");
        }
        self.in_initiator += start.elapsed();
    }
}

fn exports() -> Exports {
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId(0),
        uuid: [7; 16],
        name: "bench".to_owned(),
        block_size: BlockSize::B4096,
        blocks: Blocks(1 << 20),
        volatile_cache: true,
        provisioning: nearflash_scsi::Provisioning::Thin,
        support: Support::ALL,
        on_every_node: false,
        write_protected: false,
        software_write_protected: false,
        descriptor_sense: false,
        epoch: 1,
    };
    let units = Arc::new(LogicalUnits::new(TARGET, 1, [unit]));
    Exports::new([(TARGET.into(), units)], [])
}

/// Numbers the PDUs of a stream anew: each has a header and `data_len` bytes behind it.
fn renumber(stream: &mut [u8], data_len: usize, offset: usize, first: &mut u32) {
    for pdu in stream.chunks_exact_mut(HEADER_LEN + data_len) {
        pdu[offset..offset + 4].copy_from_slice(&first.to_be_bytes());
        *first = first.wrapping_add(1);
    }
}

fn number_at(stream: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(stream[offset..offset + 4].try_into().expect("four bytes"))
}

/// The target alone, without moving any payload: what it adds to a loop of `recv` and `send`.
fn target_alone(rounds: u32) {
    let mut bench = Bench::new(false);
    bench.submit(false);
    let mut stream = Vec::new();
    append(&mut stream, bench.initiator.output(), &bench.payload);
    let mut cmd_sn = number_at(&stream, CMD_SN_OFFSET);
    let target = &mut bench.target;
    let mut sent = 0;
    let mut elapsed = Duration::ZERO;
    for _ in 0..rounds {
        renumber(&mut stream, 0, CMD_SN_OFFSET, &mut cmd_sn);
        let start = Instant::now();
        let taken = target.handle_input(black_box(&stream)).expect("the peer is sound");
        assert_eq!(taken, stream.len());
        while let Some(demand) = target.poll_demand() {
            let Demand::Request(request) = demand else { unreachable!("only reads") };
            let (tag, outcome) = (request.tag, Outcome::Success);
            let done = Completion { tag, outcome, payload: Payload::Zeroes };
            target.handle_completion(done, &[]);
        }
        sent += target.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        target.advance_output(target.output_len(), &mut |_| {});
        elapsed += start.elapsed();
    }
    let commands = rounds * u32::from(DEPTH);
    println!("target_alone n={commands} hash={sent:016x} target={:?}", elapsed / commands);
}

/// The initiator alone, its answers ready made, without moving any payload.
fn initiator_alone(rounds: u32) {
    let mut bench = Bench::new(false);
    bench.submit(false);
    append(&mut bench.to_target, bench.initiator.output(), &bench.payload);
    bench.turn_target();
    let mut answers = std::mem::take(&mut bench.to_initiator);
    let mut stat_sn = number_at(&answers, STAT_SN_OFFSET);
    let data_len = answers.len() / usize::from(DEPTH) - HEADER_LEN;
    let mut sent = 0;
    let mut elapsed = Duration::ZERO;
    for _ in 0..rounds {
        renumber(&mut answers, data_len, STAT_SN_OFFSET, &mut stat_sn);
        // The window advances with the commands.
        for pdu in answers.chunks_exact_mut(HEADER_LEN + data_len) {
            let next = number_at(pdu, MAX_CMD_SN_OFFSET).wrapping_add(u32::from(DEPTH));
            pdu[MAX_CMD_SN_OFFSET..MAX_CMD_SN_OFFSET + 4].copy_from_slice(&next.to_be_bytes());
        }
        let start = Instant::now();
        let mut rest = black_box(&answers[..]);
        while !rest.is_empty() {
            let taken = match bench.initiator.receiving() {
                Receiving::Bytes => bench.initiator.handle_input(rest).expect("the peer is sound"),
                Receiving::Payload { len, .. } => {
                    bench.initiator.handle_payload(&rest[..len]);
                    len
                }
                Receiving::Paused => unreachable!("the initiator has sent everything"),
            };
            rest = &rest[taken..];
        }
        while let Some(completion) = bench.initiator.poll_completion() {
            black_box(completion);
        }
        sent += bench.initiator.output().map(|chunk| black_box(chunk).len()).sum::<usize>();
        bench.initiator.advance_output(bench.initiator.output_len());
        bench.submit(false);
        elapsed += start.elapsed();
    }
    let commands = rounds * u32::from(DEPTH);
    println!("initiator_alone n={commands} hash={sent:016x} initiator={:?}", elapsed / commands);
}

/// The user-space cost of a send: the stream is copied once.
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
    let full = std::env::var_os("BENCH").is_some();
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u32 = rounds.unwrap_or(if full { 20_000 } else { 10 });
    target_alone(rounds);
    initiator_alone(rounds);
    for (name, is_write, digests) in
        [("read_4k", false, false), ("read_4k_digests", false, true), ("write_4k", true, false)]
    {
        let mut bench = Bench::new(digests);
        for _ in 0..rounds {
            bench.submit(is_write);
            while bench.initiator.tasks_in_flight() > 0 {
                bench.turn();
            }
        }
        let commands = rounds * u32::from(DEPTH);
        println!(
            "{name} n={commands} hash={:016x} target={:?} initiator={:?} per command",
            bench.hash,
            bench.in_target / commands,
            bench.in_initiator / commands,
        );
    }
}

/// Where every initiator comes from.
fn origin() -> Origin {
    Origin::of([192, 0, 2, 1].into())
}
