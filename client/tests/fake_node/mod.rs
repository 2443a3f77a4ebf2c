//! A minimal scripted node: sockets, bytes and the protocol's session are real, the rest follows a
//! script. One thread per connection; the volume is in memory.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearflash_direct::serving::{
    Access, CredentialExport, Demand, Export, Exports, ServingEnd, SessionConfig, TargetSession,
};
use nearflash_direct::wire::{HEADER_LEN, HelloAnswer};
use nearflash_direct::{Chunk, Receiving, Secret};
use nearflash_request::{
    BlockRange, BufferId, Completion, Operation, Outcome, Payload, Request, VolumeId,
};
use nearflash_units::{BlockSize, Nanos};

/// The size of a logical block.
pub(crate) const BLOCK_LEN: usize = 4096;
/// The length of the volume, in bytes.
pub(crate) const VOLUME_LEN: usize = 12 << 20;
/// The name of the only volume.
pub(crate) const VOLUME: &str = "data";
/// The only key id, if there is one.
pub(crate) const KEY: &str = "app";
/// Its secret, as `nearflash credential create` prints it.
pub(crate) const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// The interval at which an idle connection checks its script.
const LOOK_SPAN: Duration = Duration::from_millis(2);

/// The behaviour of the node on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Script {
    /// Executes the request with this number, from 0, and closes the connection instead of
    /// answering it.
    pub(crate) closes_at: Option<usize>,
    /// Sends nothing from the request with this number on.
    pub(crate) silent_at: Option<usize>,
    /// Executes the request with this number only while the node holds nothing.
    pub(crate) late_at: Option<usize>,
    /// Answers requests that arrived together in reverse order.
    pub(crate) swaps: bool,
    /// The maximum number of requests in flight.
    pub(crate) credits: Option<u32>,
    /// Grants shared memory, but sends no descriptors.
    pub(crate) feigns_rings: bool,
    /// Agrees to no feature, like a node of the first version.
    pub(crate) is_old: bool,
}

/// The state that all connections share.
struct Shared {
    bytes: Mutex<Vec<u8>>,
    epoch: AtomicU32,
    uuid: AtomicU32,
    has_key: bool,
    flushes: AtomicU32,
    zeroed: AtomicU32,
    durable_writes: AtomicU32,
    /// A late request waits.
    is_late: AtomicBool,
    /// The number of connections so far.
    connections: AtomicUsize,
    /// New connections are closed at once, as by a node that restarts.
    is_down: AtomicBool,
    /// Connections that are to be closed at once stay open for now, and late requests wait.
    holds: AtomicBool,
}

/// A listening node.
pub(crate) struct FakeNode {
    /// Its URL, with the volume's name.
    pub(crate) url: String,
    shared: Arc<Shared>,
    socket: Option<PathBuf>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The socket of a connection.
trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

impl FakeNode {
    /// Serves TCP connections until the process ends: the n-th connection follows the n-th script,
    /// and all further ones the last.
    pub(crate) fn start(scripts: &[Script]) -> Self {
        Self::start_with(scripts, false)
    }

    /// A node with a credential, which every client then needs.
    pub(crate) fn with_key() -> Self {
        Self::start_with(&[Script::default()], true)
    }

    fn start_with(scripts: &[Script], has_key: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("direct://{}/{VOLUME}", listener.local_addr().unwrap());
        let (node, scripts) = (Self::new(url, has_key, None), scripts.to_vec());
        let shared = Arc::clone(&node.shared);
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(LOOK_SPAN)).unwrap();
                serve(Box::new(stream), scripts[index.min(scripts.len() - 1)], &shared);
            }
        });
        node
    }

    /// Serves connections of a Unix socket.
    pub(crate) fn start_local(name: &str, script: Script) -> Self {
        let path = format!("nearflash-{name}-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(path);
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("direct+local:{}/{VOLUME}", path.display());
        let node = Self::new(url, false, Some(path));
        let shared = Arc::clone(&node.shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(LOOK_SPAN)).unwrap();
                serve(Box::new(stream), script, &shared);
            }
        });
        node
    }

    fn new(url: String, has_key: bool, socket: Option<PathBuf>) -> Self {
        let shared = Arc::new(Shared {
            bytes: Mutex::new(vec![0; VOLUME_LEN]),
            epoch: AtomicU32::new(1),
            uuid: AtomicU32::new(7),
            has_key,
            flushes: AtomicU32::new(0),
            zeroed: AtomicU32::new(0),
            durable_writes: AtomicU32::new(0),
            is_late: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
            holds: AtomicBool::new(false),
        });
        Self { url, shared, socket }
    }

    /// Whether new connections are closed at once.
    #[allow(dead_code, reason = "not every test that has this module has an outage")]
    pub(crate) fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Whether connections that are to be closed at once stay open, and late requests wait, until
    /// this is set to `false`.
    #[allow(dead_code, reason = "not every test that has this module has an outage")]
    pub(crate) fn hold(&self, holds: bool) {
        self.shared.holds.store(holds, Ordering::Relaxed);
    }

    /// The number of connections so far.
    #[allow(dead_code, reason = "not every test that has this module has an outage")]
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The contents of the volume.
    pub(crate) fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.shared.bytes.lock().unwrap()
    }

    /// Changes the epoch of the volume's layout.
    pub(crate) fn next_epoch(&self) {
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the volume by another one of the same name.
    pub(crate) fn replace_volume(&self) {
        self.shared.uuid.fetch_add(1, Ordering::Relaxed);
        self.next_epoch();
    }

    /// The number of durable writes so far.
    #[allow(dead_code, reason = "not every test that has this module writes so")]
    pub(crate) fn durable_writes(&self) -> u32 {
        self.shared.durable_writes.load(Ordering::Relaxed)
    }

    /// Whether a late request waits.
    #[allow(dead_code, reason = "not every test that has this module has late requests")]
    pub(crate) fn is_late(&self) -> bool {
        self.shared.is_late.load(Ordering::Relaxed)
    }

    /// The number of flushes so far.
    pub(crate) fn flushes(&self) -> u32 {
        self.shared.flushes.load(Ordering::Relaxed)
    }

    /// The number of ranges zeroed without payload so far.
    #[allow(dead_code, reason = "not every test that has this module zeroes")]
    pub(crate) fn zeroed(&self) -> u32 {
        self.shared.zeroed.load(Ordering::Relaxed)
    }
}

fn serve(socket: Box<dyn Socket>, script: Script, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let is_down = shared.is_down.load(Ordering::Relaxed);
    std::thread::spawn(move || {
        if is_down {
            while shared.holds.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_SPAN);
            }
            return;
        }
        let mut connection = Connection::new(socket, script, shared);
        // Until the client or the script closes the connection.
        while connection.turn().is_ok() {}
    });
}

struct Connection {
    socket: Box<dyn Socket>,
    session: TargetSession,
    script: Script,
    shared: Arc<Shared>,
    epoch: u32,
    buffers: HashMap<u32, Vec<u8>>,
    next_buffer: u32,
    staged: Vec<u8>,
    requests: usize,
    has_sent: bool,
    late: Option<Request>,
}

impl Connection {
    fn new(socket: Box<dyn Socket>, script: Script, shared: Arc<Shared>) -> Self {
        let config = SessionConfig {
            anonymous: true,
            local: script.feigns_rings,
            credits: script.credits.unwrap_or(64),
            ..SessionConfig::with_nonce([9; 16])
        };
        let session = TargetSession::new(config, exports(&shared), Nanos(0));
        let epoch = shared.epoch.load(Ordering::Relaxed);
        Self {
            socket,
            session,
            script,
            shared,
            epoch,
            buffers: HashMap::new(),
            next_buffer: 0,
            staged: Vec::new(),
            requests: 0,
            has_sent: false,
            late: None,
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let epoch = self.shared.epoch.load(Ordering::Relaxed);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.session.set_exports(exports(&self.shared));
        }
        self.consume();
        self.carry_out()?;
        self.send()?;
        if self.session.is_closing() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.staged.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.staged.extend_from_slice(&bytes[..len]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Passes the received bytes to the session, and the buffers that it requests.
    fn consume(&mut self) {
        loop {
            if let Some(len) = self.session.wants_buffer() {
                let buffer = self.new_buffer(vec![0xA5; len.to_usize()]);
                self.session.provide_buffer(buffer);
                continue;
            }
            let used = match self.session.receiving() {
                Receiving::Paused => return,
                _ if self.staged.is_empty() => return,
                // The session's goodbye reports an error of the client.
                Receiving::Bytes => self.session.handle_input(&self.staged).unwrap_or(0),
                Receiving::Payload { buffer, offset, len } => {
                    let len = len.min(self.staged.len());
                    let place = self.buffers.get_mut(&buffer.0).unwrap();
                    place[offset..][..len].copy_from_slice(&self.staged[..len]);
                    self.session.handle_payload(&self.staged[..len]);
                    len
                }
            };
            self.staged.drain(..used);
            if self.session.is_closing() || used == 0 {
                return;
            }
        }
    }

    fn carry_out(&mut self) -> io::Result<()> {
        let mut requests = Vec::new();
        while let Some(demand) = self.session.poll_demand() {
            match demand {
                Demand::Request(request) => requests.push(request),
                Demand::Claim(_) => self.session.handle_claimed(),
                Demand::Attach(_) => self.session.handle_attached(Ok(())),
                other => panic!("no rings were agreed: {other:?}"),
            }
        }
        if self.script.swaps {
            requests.reverse();
        }
        if !self.shared.holds.load(Ordering::Relaxed)
            && let Some(late) = self.late.take()
        {
            let done = self.execute(&late);
            self.answer(done);
            self.shared.is_late.store(false, Ordering::Relaxed);
        }
        for request in requests {
            let number = self.requests;
            self.requests += 1;
            if self.script.late_at == Some(number) {
                self.late = Some(request);
                self.shared.is_late.store(true, Ordering::Relaxed);
                continue;
            }
            if self.script.silent_at.is_some_and(|at| at <= number) {
                std::thread::sleep(Duration::from_secs(3600));
            }
            let done = self.execute(&request);
            if self.script.closes_at == Some(number) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.answer(done);
        }
        Ok(())
    }

    fn answer(&mut self, done: Completion) {
        let payload = match done.payload {
            Payload::Buffer(buffer) => self.buffers[&buffer.0].clone(),
            _ => Vec::new(),
        };
        self.session.handle_completion(done, &payload);
    }

    fn send(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        for chunk in self.session.output() {
            match chunk {
                Chunk::Bytes(part) => bytes.extend_from_slice(part),
                Chunk::Buffer { buffer, offset, len } => {
                    bytes.extend_from_slice(&self.buffers[&buffer.0][offset..][..len]);
                }
                Chunk::Zeroes(len) => bytes.resize(bytes.len() + len, 0),
            }
        }
        // The first bytes sent are the answer to HELLO, which nobody proves.
        if self.script.is_old && !bytes.is_empty() && !std::mem::replace(&mut self.has_sent, true) {
            bytes[HEADER_LEN + std::mem::offset_of!(HelloAnswer, features)] = 0;
        }
        let buffers = &mut self.buffers;
        self.session.advance_output(bytes.len(), &mut |buffer: BufferId| {
            buffers.remove(&buffer.0);
        });
        self.socket.write_all(&bytes)
    }

    fn new_buffer(&mut self, bytes: Vec<u8>) -> BufferId {
        self.next_buffer += 1;
        self.buffers.insert(self.next_buffer, bytes);
        BufferId(self.next_buffer)
    }

    fn execute(&mut self, request: &Request) -> Completion {
        let range = range_of(request.range);
        let shared = Arc::clone(&self.shared);
        let mut volume = shared.bytes.lock().unwrap();
        let mut outcome = Outcome::Success;
        let mut payload = Payload::None;
        match &request.operation {
            Operation::Read => {
                payload = Payload::Buffer(self.new_buffer(volume[range].to_vec()));
            }
            Operation::Write { payload: from, force_unit_access } => {
                shared.durable_writes.fetch_add(u32::from(*force_unit_access), Ordering::Relaxed);
                let bytes = self.buffers.remove(&from.0).unwrap();
                volume[range.clone()].copy_from_slice(&bytes[..range.len()]);
            }
            Operation::WriteBytes { payload: from, skip, len, force_unit_access } => {
                shared.durable_writes.fetch_add(u32::from(*force_unit_access), Ordering::Relaxed);
                let bytes = self.buffers.remove(&from.0).unwrap();
                let part = index(*skip)..index(*skip) + index(*len);
                volume[range][part.clone()].copy_from_slice(&bytes[part]);
            }
            Operation::CompareAndSwap { word, expected, new, .. } => {
                let place = &mut volume[range][index(*word)..][..8];
                let was = u64::from_le_bytes(place.try_into().unwrap());
                payload = Payload::Word(was);
                if was == *expected {
                    place.copy_from_slice(&new.to_le_bytes());
                } else {
                    outcome = Outcome::Miscompare;
                }
            }
            Operation::FetchAdd { word, addend, .. } => {
                let place = &mut volume[range][index(*word)..][..8];
                let was = u64::from_le_bytes(place.try_into().unwrap());
                payload = Payload::Word(was);
                place.copy_from_slice(&was.wrapping_add(*addend).to_le_bytes());
            }
            Operation::WriteZeroes { .. } => {
                volume[range].fill(0);
                self.shared.zeroed.fetch_add(1, Ordering::Relaxed);
            }
            Operation::Deallocate { ranges, .. } => {
                for range in ranges {
                    volume[range_of(*range)].fill(0);
                }
            }
            Operation::Flush => {
                self.shared.flushes.fetch_add(1, Ordering::Relaxed);
            }
            other => panic!("no client asks for {other:?}"),
        }
        Completion { tag: request.tag, outcome, payload }
    }
}

fn exports(shared: &Shared) -> Arc<Exports> {
    let volume = VolumeId(shared.uuid.load(Ordering::Relaxed));
    let export = Export {
        volume,
        bytes: u64::try_from(VOLUME_LEN).unwrap(),
        block_size: BlockSize::B4096,
        epoch: shared.epoch.load(Ordering::Relaxed),
        uuid: u128::from(volume.0).to_le_bytes(),
        is_remote: false,
        is_public: true,
        face: None,
    };
    let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let credential = CredentialExport {
        secret: Secret::new(bytes),
        expired: false,
        access: HashMap::from([(volume, Arc::new(Access::full()))]),
    };
    let credentials = shared.has_key.then(|| (KEY.into(), credential));
    Arc::new(Exports::new([(VOLUME.into(), export)], credentials))
}

fn range_of(range: BlockRange) -> std::ops::Range<usize> {
    let start = usize::try_from(range.start.0).unwrap() * BLOCK_LEN;
    start..start + usize::try_from(range.count.0).unwrap() * BLOCK_LEN
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).unwrap()
}
