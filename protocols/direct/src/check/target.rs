//! Invalid messages from a client, sent to a target session.

use std::sync::Arc;

use nearflash_request::{Operation, Outcome, Request, VolumeId};
use nearflash_session::Receiving;
use nearflash_session::check::{Serving, Volume, in_parts};
use nearflash_units::{BlockSize, Nanos};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::NOW;
use super::driver::{take_demands, take_entry, take_ring_output};
use crate::Digests;
use crate::Face;
use crate::digest::digest;
use crate::proof::client_proof;
use crate::secret::Secret;
use crate::segments;
use crate::serving::{
    Access, CredentialExport, Demand, Export, Exports, Revoked, ServingEnd, SessionConfig,
    TargetSession,
};
use crate::stream::DIGEST_OFFSET;
use crate::wire::{
    AttachRequest, Bearer, DIGEST_KEY_LEN, DigestRequest, Features, HEADER_LEN, HelloAnswer,
    HelloRequest, IDENTITY_LEN, Opcode, RequestHeader, RevokeRequest, Rights, Run, SALT_LEN,
    SEAL_GOOD_MAX, SealKey, SealTerms, VERSION,
};

/// The number of the only volume.
pub(crate) const VOLUME: VolumeId = VolumeId(7);
/// Its name.
pub const NAME: &str = "data";
pub(crate) const KEY: &str = "check";
/// Its epoch.
pub const EPOCH: u32 = 3;
pub(crate) const VOLUME_LEN: u64 = (1 << 20) + (64 << 10);
pub(crate) const CREDITS: u32 = 8;
pub(crate) const LEN_MAX: u32 = 256 << 10;
const AREA_LEN: u64 = 64 << 10;
const SEGMENT: u64 = 1 << 20;
/// The salt of the node's seal keys.
pub(crate) const SALT: [u8; SALT_LEN] = [6; SALT_LEN];
/// The UUID of the volume.
pub(crate) const UUID: [u8; 16] = [9; 16];

/// The relation of a client and a node: bits of a fuzzer's first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    pub(crate) digests: Digests,
    pub(crate) with_key: bool,
    pub(crate) local: bool,
    /// The handshake is done, and the volume open, before the hostile bytes.
    pub(crate) is_in: bool,
    /// Rings are attached too.
    pub(crate) by_rings: bool,
    /// The client is another node of the cluster, and the volume the replica face of a mirror.
    pub(crate) on_replica: bool,
    /// The client has a bearer in place of the key.
    pub(crate) with_bearer: bool,
}

impl Stand {
    /// Most inputs must get past the handshake.
    pub(crate) const fn of(selector: u8) -> Self {
        Self {
            digests: Digests { header: selector & 1 != 0, data: selector & 2 != 0 },
            with_key: selector & 4 != 0,
            local: selector & 8 != 0,
            is_in: selector & 0xC0 != 0,
            by_rings: selector & 8 != 0 && selector & 16 != 0 && selector & 0xC0 != 0,
            on_replica: selector & 4 != 0 && selector & 24 == 0 && selector & 32 != 0,
            with_bearer: selector & 4 != 0 && selector & 16 != 0 && selector & 0xC0 == 0xC0,
        }
    }
}

/// A session, a volume, and a record of its actions.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) end: Serving<TargetSession>,
    /// The seals that are void.
    pub(crate) revoked: Revoked,
    volume: Volume,
    pub(crate) requests: Vec<Request>,
    /// All that the session has sent.
    pub(crate) sent: Vec<u8>,
    /// The entries that it has put into the completion ring.
    pub(crate) entries: Vec<[u8; HEADER_LEN]>,
    /// The demands that it has made.
    pub(crate) demanded: Vec<String>,
}

/// A volume that does what direct requests ask for.
pub(super) fn volume(len: usize, block_size: BlockSize) -> Volume {
    Volume::new(len, block_size, |operation| {
        matches!(
            operation,
            Operation::Read
                | Operation::ReadInto { .. }
                | Operation::Write { .. }
                | Operation::WriteBytes { .. }
                | Operation::WriteZeroes { .. }
                | Operation::Deallocate { .. }
                | Operation::CompareAndSwap { .. }
                | Operation::FetchAdd { .. }
                | Operation::Flush
        )
    })
}

/// The exports of the node in these checks.
pub(crate) fn exports(with_key: bool, epoch: u32) -> Exports {
    // The right to read ends within a block, and the right to write before that block.
    let grants = [(0..VOLUME_LEN - 700, Rights::READ), (0..VOLUME_LEN / 2, Rights::READ_WRITE)];
    let credential = CredentialExport {
        secret: secret(),
        expired: false,
        access: [(VOLUME, Arc::new(Access::new(grants)))].into(),
    };
    Exports::new([(NAME.into(), export(epoch))], with_key.then(|| (KEY.into(), credential)))
}

fn export(epoch: u32) -> Export {
    Export {
        volume: VOLUME,
        bytes: VOLUME_LEN,
        block_size: BlockSize::B512,
        epoch,
        uuid: UUID,
        is_remote: false,
        is_public: true,
        face: None,
    }
}

pub(crate) const fn secret() -> Secret {
    Secret::new([0x5A; 32])
}

/// Of the holder of the credential.
fn bearer() -> Bearer {
    SealKey::derive(Some((KEY, &secret())), 1, UUID, SALT).bearer(NOW.0 / Nanos::from_secs(1).0)
}

/// A listener's configuration for these checks.
pub(crate) fn config(stand: Stand) -> SessionConfig {
    SessionConfig {
        anonymous: !stand.with_key,
        local: stand.local,
        len_max: LEN_MAX,
        credits: CREDITS,
        handles_max: 4,
        ..SessionConfig::with_nonce([1; 16])
    }
}

/// The exports, as the client stands to the node.
fn exports_for(stand: Stand, epoch: u32) -> Exports {
    let exports = exports(stand.with_key, epoch);
    if !stand.on_replica {
        return exports;
    }
    let access = [(VOLUME, Arc::new(Access::full()))].into();
    let credential = CredentialExport { secret: secret(), expired: false, access };
    let face = Some(Face::Replica);
    let export = Export { is_public: false, face, ..export(epoch) };
    let exports = Exports::new([(NAME.into(), export)], [(KEY.into(), credential.clone())]);
    exports.with_peers(KEY, credential, 1)
}

impl Bench {
    pub(crate) fn new(stand: Stand) -> Self {
        let exports = Arc::new(exports_for(stand, EPOCH));
        let mut bench = Self::with(config(stand), exports);
        if stand.is_in {
            bench.let_in(stand);
        }
        bench
    }

    pub(crate) fn with(config: SessionConfig, exports: Arc<Exports>) -> Self {
        let len = usize::try_from(VOLUME_LEN).expect("a small volume");
        Self {
            end: Serving::new(TargetSession::new(config, exports, Nanos(0))),
            revoked: Revoked::new(SALT),
            volume: volume(len, BlockSize::B512),
            requests: Vec::new(),
            sent: Vec::new(),
            entries: Vec::new(),
            demanded: Vec::new(),
        }
    }

    /// Sends the handshake of a correct client.
    pub(crate) fn let_in(&mut self, stand: Stand) {
        let hello = hello(stand);
        self.feed(&hello);
        self.send();
        if stand.with_key {
            let answer_len = HEADER_LEN + size_of::<HelloAnswer>();
            let transcript = [&hello[..], &self.sent[..answer_len]].concat();
            let secret = if stand.with_bearer { bearer().secret().clone() } else { secret() };
            let proof = client_proof(&secret, &transcript);
            self.feed(&message(Opcode::PROVE, RequestHeader::default(), &proof, stand.digests));
        }
        self.take_demands();
        assert!(self.end.session.is_ready(), "a sound client is let in: {:?}", self.end.error);
        let header = RequestHeader { volume: U16::new(0xFFFF), ..RequestHeader::default() };
        self.feed(&message(Opcode::OPEN, header, NAME.as_bytes(), stand.digests));
        self.send();
        if stand.by_rings {
            let request = AttachRequest {
                entries: U32::new(CREDITS),
                reserved: U32::new(0),
                data_len: U64::new(AREA_LEN),
            };
            let header = RequestHeader::default();
            self.feed(&message(Opcode::ATTACH, header, request.as_bytes(), stand.digests));
            self.settle();
            assert!(self.end.session.takes_entries(), "rings are attached");
        }
        self.sent.clear();
        self.demanded.clear();
    }

    /// Passes all of `bytes`, unless the session fails or ends, and meets its demands.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.end.receive(bytes) {
                Some(taken) => bytes = &bytes[taken..],
                None if self.end.error.is_none() && self.unpause() => {}
                None => return,
            }
        }
    }

    /// Whether a paused session continues.
    fn unpause(&mut self) -> bool {
        while self.end.provide_buffer() {}
        if self.end.session.receiving() == Receiving::Paused {
            self.send();
        }
        if self.end.session.receiving() == Receiving::Paused {
            self.take_demands();
        }
        self.end.session.receiving() != Receiving::Paused
    }

    /// An entry of the submission ring.
    pub(crate) fn feed_entry(&mut self, entry: &[u8; HEADER_LEN]) {
        if self.end.session.takes_entries() {
            take_entry(&mut self.end, entry);
        }
    }

    /// Takes what the session wants done.
    pub(crate) fn take_demands(&mut self) {
        let Self { end, revoked, requests, demanded, .. } = self;
        while end.provide_buffer() {}
        let mut show = |demand: &Demand| demanded.push(format!("{demand:?}"));
        while let Some(attach) = take_demands(end, revoked, requests, &mut show) {
            let len = usize::try_from(attach.data_len).ok().filter(|len| *len <= 1 << 20);
            let made = len.map(|len| end.memory.area = vec![0xEE; len]);
            end.session.handle_attached(made.ok_or(crate::Status::INVALID_FIELD));
        }
    }

    /// Answers the oldest request.
    pub(crate) fn answer_one(&mut self) {
        if !self.requests.is_empty() {
            let request = self.requests.remove(0);
            let done = self.volume.complete(request, &mut self.end.memory);
            assert_ne!(done.outcome, Outcome::OutOfRange, "the session has checked the range");
            self.end.handle_completion(done);
        }
    }

    /// Sends all that the session has to say.
    pub(crate) fn send(&mut self) {
        self.sent.extend(self.end.take_output(usize::MAX));
        take_ring_output(&mut self.end, |entry| self.entries.push(entry));
    }

    /// Meets all demands, and passes on all answers and output.
    pub(crate) fn settle(&mut self) {
        loop {
            self.take_demands();
            if self.requests.is_empty() {
                break;
            }
            self.answer_one();
        }
        self.send();
    }

    /// Closes the connection; no buffer may be missing.
    pub(crate) fn end(mut self) {
        let Serving { session, memory, .. } = &mut self.end;
        session.release_all(&mut |buffer| memory.give_back(buffer));
        while !self.requests.is_empty() {
            self.answer_one();
        }
        self.end.end([], &mut self.volume);
    }
}

/// A sound client's first message.
pub(crate) fn hello(stand: Stand) -> Vec<u8> {
    let features = Features::of(stand.digests) | if stand.by_rings { Features::RINGS } else { 0 };
    let payload = HelloRequest {
        magic: HelloRequest::MAGIC,
        version_min: U16::new(VERSION),
        version_max: U16::new(VERSION),
        features: Features(U32::new(features)),
        nonce: [2; 16],
    };
    let key = match stand {
        Stand { with_key: false, .. } => String::new(),
        Stand { with_bearer: true, .. } => bearer().id(),
        _ => KEY.to_owned(),
    };
    let payload = [payload.as_bytes(), key.as_bytes()].concat();
    message(Opcode::HELLO, RequestHeader::default(), &payload, Digests::NONE)
}

/// A message with correct lengths and digests. The offset of a WRITE determines the segments of its
/// payload.
pub(crate) fn message(
    opcode: Opcode,
    header: RequestHeader,
    payload: &[u8],
    digests: Digests,
) -> Vec<u8> {
    let mut header = RequestHeader { opcode: opcode.0, ..header };
    if opcode.has_payload() {
        header.len = U32::new(u32::try_from(payload.len()).expect("short"));
    }
    if digests.header {
        header.digest = U32::new(digest(&header.as_bytes()[..DIGEST_OFFSET]));
    }
    let mut bytes = header.as_bytes().to_vec();
    let offset = if opcode == Opcode::WRITE { header.offset.get() } else { 0 };
    for number in 0..segments::count(offset, header.len.get()) {
        if payload.is_empty() {
            break;
        }
        let part = segments::segment(offset, header.len.get(), number);
        let part = &payload[crate::length(part.start)..][..crate::length(part.len)];
        bytes.extend_from_slice(part);
        if digests.data {
            bytes.extend_from_slice(&digest(part).to_le_bytes());
        }
    }
    bytes
}

/// The first messages of a correct anonymous client, with the digests of `selector`: HELLO, and
/// OPEN of the volume that the messages of [`stream_of`] use.
pub fn greeting_of(selector: u8) -> Vec<u8> {
    let stand = Stand { with_key: false, ..Stand::of(selector) };
    let header = RequestHeader { volume: U16::new(0xFFFF), ..RequestHeader::default() };
    let open = message(Opcode::OPEN, header, NAME.as_bytes(), stand.digests);
    [hello(stand), open].concat()
}

const OPCODES: [Opcode; 22] = [
    Opcode::READ,
    Opcode::READ,
    Opcode::WRITE,
    Opcode::WRITE,
    Opcode::FLUSH,
    Opcode::DISCARD,
    Opcode::COMPARE_AND_SWAP,
    Opcode::FETCH_ADD,
    Opcode::OPEN,
    Opcode::CLOSE,
    Opcode::PING,
    Opcode::ATTACH,
    Opcode::CLAIM,
    Opcode::GOODBYE,
    Opcode(0x4E),
    Opcode(0x0E),
    Opcode::HELLO,
    Opcode::ZERO,
    Opcode::DIGEST,
    Opcode::SEAL_KEY,
    Opcode::OPEN_SEALED,
    Opcode::REVOKE,
];

/// Almost valid messages, each from eight bytes: opcode, tag, offset, length, and the error.
pub fn stream_of(selector: u8, instructions: &[u8]) -> Vec<u8> {
    let stand = Stand::of(selector);
    let mut stream = Vec::new();
    for instruction in instructions.chunks_exact(8) {
        let [what, tag, near, at, len, fill, mutation, place] =
            instruction.try_into().expect("chunks of eight");
        let message = message_of([what, tag, near, at, len, fill], stand.digests);
        let begin = stream.len();
        stream.extend_from_slice(&message);
        // Seldom anything.
        if mutation > 240 {
            let at = begin + usize::from(place) % message.len();
            stream[at] ^= 1 << (mutation & 7);
        } else if mutation > 230 {
            stream.truncate(begin + usize::from(place) % message.len());
        }
    }
    stream
}

fn message_of([what, tag, near, at, len, fill]: [u8; 6], digests: Digests) -> Vec<u8> {
    let opcode = OPCODES[usize::from(what) % OPCODES.len()];
    let base = [0, 1 << 20, VOLUME_LEN / 2, VOLUME_LEN - 700, VOLUME_LEN, u64::MAX - 4096];
    let offset = (base[usize::from(near) % base.len()]).saturating_add(u64::from(at) * 8);
    let offset = if opcode == Opcode::DIGEST { offset & !4095 } else { offset };
    let len = match len {
        0..160 => u32::from(len) * 64,
        160..250 => u32::from(len),
        _ => LEN_MAX + 250 - u32::from(len),
    };
    let payload = match opcode {
        Opcode::WRITE => vec![fill; crate::length(len)],
        Opcode::COMPARE_AND_SWAP => vec![fill; 16],
        Opcode::FETCH_ADD => vec![fill; 8],
        Opcode::DIGEST if fill < 240 => {
            let range_len = U32::new(u32::from(at) * if fill < 200 { 4096 } else { 512 });
            let key = [fill; DIGEST_KEY_LEN];
            DigestRequest { key, range_len, ..DigestRequest::default() }.as_bytes().to_vec()
        }
        Opcode::OPEN if fill < 200 => NAME.as_bytes().to_vec(),
        Opcode::CLAIM if fill < 200 => vec![fill; IDENTITY_LEN],
        Opcode::OPEN_SEALED if fill < 240 => sealed(fill & 4 != 0, at, fill),
        Opcode::REVOKE if fill < 240 => {
            let (object, version) = (U64::new(u64::from(at & 1)), U32::new(u32::from(fill & 7)));
            let what = U32::new(u32::from(at / 128));
            RevokeRequest { object, version, what }.as_bytes().to_vec()
        }
        Opcode::ATTACH => {
            let (entries, data_len) = (1 << (fill & 7), u64::from(at) << 12);
            let entries = U32::new(entries);
            AttachRequest { entries, reserved: U32::new(0), data_len: U64::new(data_len) }
                .as_bytes()
                .to_vec()
        }
        opcode if opcode.has_payload() => vec![fill; usize::from(at)],
        _ => Vec::new(),
    };
    let is_new = matches!(opcode, Opcode::OPEN | Opcode::OPEN_SEALED) && fill & 1 == 0;
    let handle = if is_new { 0xFFFF } else { u16::from(fill / 128) };
    let header = RequestHeader {
        volume: U16::new(handle),
        tag: U32::new(u32::from(tag % 10).min(u32::from(tag))),
        offset: U64::new(offset),
        len: U32::new(len),
        epoch: U32::new(if fill == 77 { EPOCH - 1 } else { EPOCH }),
        flags: match opcode {
            Opcode::ZERO => fill & 3,
            Opcode::DIGEST => fill & 4,
            _ => fill & 1,
        },
        place: U32::new(u32::from(at) * 256 + u32::from(fill / 128)),
        ..RequestHeader::default()
    };
    message(opcode, header, &payload, digests)
}

/// A seal of a few versions, of one run or two. Few are not valid.
fn sealed(with_key: bool, at: u8, fill: u8) -> Vec<u8> {
    let secret = secret();
    let minter = with_key.then_some((KEY, &secret));
    let key = SealKey::derive(minter, 1 + u32::from(fill / 200), UUID, SALT);
    let first = Run { start: u64::from(at & 15) * 512, len: SEGMENT };
    let second = Run { start: u64::from(at) * 512, len: (1 + u64::from(fill)) * 512 };
    let runs = if at & 32 == 0 { vec![second] } else { vec![first, second] };
    let terms = SealTerms {
        object: u64::from(at & 1),
        uuid: [at; 16],
        version: EPOCH,
        rights: Rights(1 + fill % 3),
        good_until: NOW.0 / Nanos::from_secs(1).0 + if at == 99 { SEAL_GOOD_MAX + 1 } else { 0 },
        runs: runs.into(),
    };
    key.mint(terms).expect("sound terms").encode()
}

/// For all input of a client, over the stream or the rings: there is no panic and no endless loop,
/// and every buffer is returned.
///
/// The first byte selects the relation of the two ends, the second the splitting of the bytes.
pub fn check_target_never_panics(input: &[u8]) {
    let [selector, cut, stream @ ..] = input else { return };
    let stand = Stand::of(*selector);
    let mut bench = Bench::new(stand);
    for (number, part) in stream.chunks(usize::from(*cut) * 8 + 1).enumerate() {
        if stand.by_rings && cut & 1 == 1 {
            part.chunks_exact(HEADER_LEN).for_each(|entry| {
                bench.feed_entry(entry.try_into().expect("chunks of an entry"));
            });
        } else {
            bench.feed(part);
        }
        match number % 3 {
            0 => bench.settle(),
            1 => bench.take_demands(),
            _ => bench.send(),
        }
        if number % 5 == 4 {
            let epoch = EPOCH + u32::from(number % 2 == 0);
            bench.end.session.set_exports(Arc::new(exports_for(stand, epoch)));
        }
    }
    bench.end();
}

/// The session's actions and output do not depend on how a stream is split.
pub fn check_segmentation_does_not_matter(selector: u8, stream: &[u8], cuts: &[u8]) {
    let stand = Stand::of(selector);
    let mut whole = Bench::new(stand);
    whole.feed(stream);
    let mut parts = Bench::new(stand);
    in_parts(stream, cuts, |part| parts.feed(part));
    assert_eq!(whole.end.error, parts.end.error);
    whole.settle();
    parts.settle();
    assert_eq!(whole.demanded, parts.demanded);
    assert!(whole.sent == parts.sent, "the same is said");
    assert!(whole.volume.bytes() == parts.volume.bytes(), "the same is done");
    whole.end();
    parts.end();
}
