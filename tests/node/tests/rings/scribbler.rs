//! A client that attaches rings properly, and then writes arbitrary data to all memory that it can
//! reach.

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use nearflash_direct::client::{
    ClientConfig, ClientEvent, ClientSession, RequestingEnd, VolumeInfo,
};
use nearflash_direct::wire::{Opcode, RequestHeader};
use nearflash_direct::{Chunk, Digests};
use nearflash_node_tests::{PATIENCE, eventually};
use nearflash_ring::{receive_passed, send_passing};
use rustix::io::pwrite;
use rustix::net::{SendFlags, send};
use zerocopy::IntoBytes;

/// The number of entries of the submission ring.
const ENTRIES: u32 = 64;
const DATA_LEN: u64 = 1 << 20;

// The layout of the memory, from docs/direct-protocol.md.
const SUBMISSION_TAIL_AT: u64 = 128;
const HEADER_LEN: u64 = 4096;
const ENTRY_LEN: u64 = 32;
const RINGS_LEN: u64 = 3 * ENTRIES as u64 * ENTRY_LEN;
const DATA_AT: u64 = (HEADER_LEN + RINGS_LEN).next_multiple_of(4096);

/// Pseudo-random numbers from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }
}

/// The scribbling client.
pub(crate) struct Scribbler {
    stream: UnixStream,
    session: ClientSession,
    /// The memory, and the client's end of the bell.
    shared: Vec<OwnedFd>,
    volume: VolumeInfo,
    tail: u32,
}

impl Scribbler {
    /// Connects, opens a volume, and attaches rings, as a regular client does.
    pub(crate) fn attach(socket: &Path, volume: &str) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        let config =
            ClientConfig { key: None, digests: Digests::NONE, rings: true, nonce: [7; 16] };
        let mut session = ClientSession::new(config);
        let mut shared = Vec::new();
        exchange(&stream, &mut session, &mut shared, |event| matches!(event, ClientEvent::Ready));
        session.open(volume).unwrap();
        let is_opened = |event: &ClientEvent| matches!(event, ClientEvent::Opened { .. });
        let opened = exchange(&stream, &mut session, &mut shared, is_opened);
        let ClientEvent::Opened { result: Ok(volume), .. } = opened else { panic!("{opened:?}") };
        session.attach(ENTRIES, DATA_LEN).unwrap();
        let is_attached = |event: &ClientEvent| matches!(event, ClientEvent::Attached(Ok(())));
        exchange(&stream, &mut session, &mut shared, is_attached);
        assert_eq!(shared.len(), 2, "the descriptors came with the answer");
        Self { stream, session, shared, volume, tail: 0 }
    }

    /// Executes this number of random steps, or until the node ends the connection.
    pub(crate) fn live(&mut self, steps: u32, dice: &mut Dice) {
        for _ in 0..steps {
            match dice.below(100) {
                // Most steps are requests, so that there is work to disturb.
                0..50 => self.submit(dice),
                50..70 => self.write_anywhere(DATA_AT, DATA_LEN, dice),
                70..80 => self.write_anywhere(HEADER_LEN, RINGS_LEN, dice),
                80..84 => self.write_word(dice),
                84..96 => self.ring_bell(dice),
                96 => self.make_bell_block(),
                98 if dice.below(8) == 0 => self.pass_descriptors(),
                99 if dice.below(8) == 0 => self.say_nonsense(dice),
                _ => thread::yield_now(),
            }
            if self.is_closed() {
                return;
            }
        }
    }

    /// Claims one request more than the ring holds. Returns when the node has ended the connection.
    pub(crate) fn overfill(&self) {
        self.write(SUBMISSION_TAIL_AT, &(ENTRIES + 1).to_le_bytes());
        let _ = send(&self.shared[1], &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        eventually("the node ends the connection", || self.is_closed());
    }

    /// A valid request whose fields may be wrong.
    fn submit(&mut self, dice: &mut Dice) {
        let opcodes = [Opcode::READ, Opcode::WRITE, Opcode::FLUSH, Opcode::ZERO, Opcode::DISCARD]
            .into_iter()
            .chain([Opcode::COMPARE_AND_SWAP, Opcode::FETCH_ADD, Opcode(dice.byte())]);
        let pick = usize::try_from(dice.below(8)).unwrap();
        let sound = |dice: &mut Dice| dice.below(16) != 0;
        let mut header = RequestHeader {
            opcode: opcodes.into_iter().nth(pick).unwrap().0,
            volume: self.volume.handle.0.into(),
            tag: (self.tail % ENTRIES).into(),
            offset: dice.below(self.volume.bytes).into(),
            len: low_word(dice.below(70_000)).into(),
            epoch: self.volume.epoch.into(),
            place: low_word(dice.below(DATA_LEN)).into(),
            ..RequestHeader::default()
        };
        if sound(dice) {
            header.offset = (header.offset.get() / 4096 * 4096).into();
            header.place = (header.place.get() / 4096 * 4096).into();
            header.len = [8, 16, 4096, 16_384][usize::try_from(dice.below(4)).unwrap()].into();
        }
        if !sound(dice) {
            let bytes = header.as_mut_bytes();
            let at = usize::try_from(dice.below(32)).unwrap();
            bytes[at] = dice.byte();
        }
        let place = HEADER_LEN + u64::from(self.tail % ENTRIES) * ENTRY_LEN;
        self.write(place, header.as_bytes());
        self.tail = self.tail.wrapping_add(1);
        self.write(SUBMISSION_TAIL_AT, &self.tail.to_le_bytes());
    }

    fn write(&self, place: u64, bytes: &[u8]) {
        assert_eq!(pwrite(&self.shared[0], bytes, place), Ok(bytes.len()));
    }

    fn write_anywhere(&self, from: u64, len: u64, dice: &mut Dice) {
        let mut bytes = [0; 64];
        bytes.fill_with(|| dice.byte());
        let place = dice.below(len - 64);
        self.write(from + place, &bytes);
    }

    /// Overwrites an index, a flag, or a field of the header.
    fn write_word(&self, dice: &mut Dice) {
        let place = dice.below(16) * 64;
        let word = if dice.below(2) == 0 { dice.next() } else { dice.below(256) };
        self.write(place, &low_word(word).to_le_bytes());
    }

    fn ring_bell(&self, dice: &mut Dice) {
        let rung = vec![1; usize::try_from(dice.below(5_000)).unwrap()];
        let _ = send(&self.shared[1], &rung, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Makes the bell a blocking socket, which a process can do to an open file that it shares.
    fn make_bell_block(&self) {
        let flags = rustix::fs::fcntl_getfl(&self.shared[1]).unwrap();
        let flags = flags - rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&self.shared[1], flags).unwrap();
    }

    fn pass_descriptors(&self) {
        let own = [self.shared[0].as_fd(), self.shared[1].as_fd()];
        let _ = send_passing(self.stream.as_fd(), &[0; 5], &own);
        let _ = send_passing(self.shared[1].as_fd(), &[0; 5], &own);
    }

    fn say_nonsense(&mut self, dice: &mut Dice) {
        let mut bytes = [0; 32];
        bytes.fill_with(|| dice.byte());
        let _ = self.stream.write(&bytes);
        self.session.goodbye();
    }

    fn is_closed(&self) -> bool {
        let mut bytes = [0; 4096];
        match receive_passed(self.stream.as_fd(), &mut bytes, &mut Vec::new()) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn low_word(long: u64) -> u32 {
    u32::try_from(long & u64::from(u32::MAX)).unwrap()
}

/// Sends and receives until the wanted event comes.
fn exchange(
    mut stream: &UnixStream,
    session: &mut ClientSession,
    shared: &mut Vec<OwnedFd>,
    is_wanted: impl Fn(&ClientEvent) -> bool,
) -> ClientEvent {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = [0; 4096];
    while Instant::now() < deadline {
        let output: Vec<u8> = session
            .output()
            .flat_map(|chunk| match chunk {
                Chunk::Bytes(bytes) => bytes.to_vec(),
                other => panic!("no payload before there are requests: {other:?}"),
            })
            .collect();
        stream.write_all(&output).unwrap();
        session.advance_output(output.len());
        match receive_passed(stream.as_fd(), &mut bytes, shared) {
            Ok(len) => assert_eq!(session.handle_input(&bytes[..len]).unwrap(), len),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        while let Some(event) = session.poll_event() {
            if is_wanted(&event) {
                return event;
            }
        }
    }
    panic!("the node does not answer")
}
