//! A load that verifies: threads write and read blocks of one volume through several nodes, while nodes
//! are killed, stopped and cut off.
//!
//! Each block has one writer, which knows the last stamp that was acknowledged and the last one that was
//! sent. A write whose outcome is unknown is repeated with a later stamp. A read must return the last
//! acknowledged stamp or a later one, and none that is earlier than one which a read has returned before.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearflash::direct::Status;
use nearflash::{Client, Credentials, Error, Options, Volume};

use super::stamp::Stamp;

/// The length of a block.
const BLOCK: u64 = 4096;

/// The same.
const BLOCK_LEN: usize = 4096;

/// The number of blocks of one writer.
const BLOCKS: u64 = 32;

/// The distance between blocks, so that neighbours lie on different mirrors: a stripe unit of 64 KiB.
const DISTANCE: u64 = 16;

/// A writer flushes once in this number of writes.
const FLUSH_PERIOD: u64 = 32;

/// The pause of a thread whose node does not answer.
const PAUSE: Duration = Duration::from_millis(5);

/// The number of violations that are described.
const DESCRIBED_MAX: usize = 20;

/// The parts of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadSize {
    /// Writers at each node.
    pub writers: usize,
    /// Readers at each node.
    pub readers: usize,
    /// The pause of each thread between two operations.
    pub pause: Duration,
}

/// The kind of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It writes blocks of its own.
    Writer,
    /// It reads blocks of every writer.
    Reader,
}

/// A kind of false answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Violation {
    /// At the end, a block is older than its last acknowledged write.
    Lost,
    /// A read returned less than what had been acknowledged before it began.
    Stale,
    /// A read returned less than an earlier read.
    Reverting,
    /// A block is not one that anybody wrote, or is one that the node refused to write.
    Foreign,
}

/// The number of false answers of each kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Violations {
    /// Acknowledged writes that are not there at the end.
    pub lost: u64,
    /// Reads that are older than an acknowledged write.
    pub stale: u64,
    /// Reads that are older than an earlier read.
    pub reverting: u64,
    /// Reads of bytes that nobody wrote there, or that were refused.
    pub foreign: u64,
    /// The first ones.
    pub described: Vec<String>,
}

impl Violations {
    /// The number of all.
    pub fn count(&self) -> u64 {
        self.lost + self.stale + self.reverting + self.foreign
    }

    fn add(&mut self, violation: Violation, text: String) {
        match violation {
            Violation::Lost => self.lost += 1,
            Violation::Stale => self.stale += 1,
            Violation::Reverting => self.reverting += 1,
            Violation::Foreign => self.foreign += 1,
        }
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("{violation:?}: {text}"));
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, stale, reverting, foreign, described } = self;
        write!(f, "lost {lost}, stale {stale}, reverting {reverting}, foreign {foreign}")?;
        described.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The state of one block.
#[derive(Debug, Default)]
struct Block {
    acknowledged: AtomicU64,
    sent: AtomicU64,
    /// The latest stamp that a read has returned.
    seen: AtomicU64,
    /// The stamps that a node refused to write.
    refused: Mutex<Vec<u64>>,
}

/// A thread's progress.
#[derive(Debug)]
struct Progress {
    node: usize,
    kind: Kind,
    /// The number of operations that succeeded.
    done: AtomicU64,
    /// The number of operations that failed.
    failed: AtomicU64,
    /// The time of the last success, in nanoseconds since the start of the load.
    last: AtomicU64,
    /// The longest time between two successes since it was asked last.
    longest: AtomicU64,
    /// The last error.
    error: Mutex<String>,
}

/// The things that all threads know.
#[derive(Debug)]
struct Shared {
    volume: String,
    pause: Duration,
    started: Instant,
    is_over: AtomicBool,
    blocks: Vec<Block>,
    violations: Mutex<Violations>,
}

/// Threads that write and read until they are told to end.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<(Arc<Progress>, JoinHandle<()>)>,
}

impl Progress {
    fn error(&self) -> std::sync::MutexGuard<'_, String> {
        self.error.lock().expect("no thread panics with the lock")
    }
}

impl Load {
    /// Starts the threads at these nodes, given by their addresses for direct clients.
    pub fn start(nodes: &[SocketAddr], volume: &str, size: LoadSize) -> Self {
        let count = u64::try_from(nodes.len() * size.writers).unwrap_or_default() * BLOCKS;
        let shared = Arc::new(Shared {
            volume: volume.to_owned(),
            pause: size.pause,
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            blocks: (0..count).map(|_| Block::default()).collect(),
            violations: Mutex::default(),
        });
        let kinds = [(Kind::Writer, size.writers), (Kind::Reader, size.readers)];
        let kinds = kinds.map(|(kind, count)| vec![kind; count]).concat();
        let mut threads = Vec::new();
        let mut writer = 0;
        for (node, address) in nodes.iter().enumerate() {
            for &kind in &kinds {
                let thread = Thread::new(&shared, *address, (node, kind), writer);
                writer += u64::from(kind == Kind::Writer);
                let progress = Arc::clone(&thread.progress);
                threads.push((progress, std::thread::spawn(move || thread.run())));
            }
        }
        Self { shared, threads }
    }

    fn progress(&self, node: usize, kind: Kind) -> impl Iterator<Item = &Progress> {
        let threads = self.threads.iter().map(|(progress, _)| progress.as_ref());
        threads.filter(move |it| it.node == node && it.kind == kind)
    }

    /// The number of operations of this kind that have succeeded at a node.
    pub fn done(&self, node: usize, kind: Kind) -> u64 {
        self.progress(node, kind).map(|it| it.done.load(Ordering::SeqCst)).sum()
    }

    /// The smallest number of operations of this kind that a thread at a node has done.
    pub fn done_by_each(&self, node: usize, kind: Kind) -> u64 {
        let done = self.progress(node, kind).map(|it| it.done.load(Ordering::SeqCst));
        done.min().unwrap_or_default()
    }

    /// The number of operations that each thread has done.
    pub fn done_by_thread(&self) -> Vec<u64> {
        self.threads.iter().map(|(it, _)| it.done.load(Ordering::SeqCst)).collect()
    }

    /// The number of operations of this kind that have failed at a node.
    pub fn failed(&self, node: usize, kind: Kind) -> u64 {
        self.progress(node, kind).map(|it| it.failed.load(Ordering::SeqCst)).sum()
    }

    /// The last errors of the threads at a node.
    pub fn errors(&self, node: usize) -> Vec<String> {
        let threads = [Kind::Writer, Kind::Reader].into_iter();
        threads.flat_map(|kind| self.progress(node, kind)).map(|it| it.error().clone()).collect()
    }

    /// The longest time for which a thread of this kind at a node had no success, since this was asked
    /// last; the present wait counts.
    pub fn take_longest(&self, node: usize, kind: Kind) -> Duration {
        let now = self.shared.now();
        let longest = |it: &Progress| {
            let waits = now.saturating_sub(it.last.load(Ordering::SeqCst));
            it.longest.swap(0, Ordering::SeqCst).max(waits)
        };
        let longest = self.progress(node, kind).map(longest).max();
        Duration::from_nanos(longest.unwrap_or_default())
    }

    /// The number of operations of all threads that have succeeded.
    pub fn done_in_all(&self) -> u64 {
        self.threads.iter().map(|(it, _)| it.done.load(Ordering::SeqCst)).sum()
    }

    /// The false answers so far.
    pub fn violations(&self) -> Violations {
        self.shared.violations().clone()
    }

    /// Ends the threads, reads every block at each of these nodes, and returns all false answers.
    ///
    /// # Errors
    /// When a node does not answer.
    ///
    /// # Panics
    /// If a thread of the load has panicked.
    pub fn end(self, nodes: &[SocketAddr]) -> Result<Violations, Error> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for (_, thread) in self.threads {
            thread.join().expect("a thread of the load does not panic");
        }
        for (turn, address) in (0..).zip(nodes) {
            let volume = open(*address, &self.shared.volume)?;
            for index in 0..self.shared.blocks.len() {
                self.shared.read(&volume, index, Some(turn))?;
            }
        }
        Ok(self.shared.violations().clone())
    }
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn violations(&self) -> std::sync::MutexGuard<'_, Violations> {
        self.violations.lock().expect("no thread panics with the lock")
    }

    /// Reads a block, and judges it. The last reads have a turn.
    fn read(&self, volume: &Volume, index: usize, turn: Option<u32>) -> Result<(), Error> {
        let block = &self.blocks[index];
        let acknowledged = block.acknowledged.load(Ordering::SeqCst);
        let seen = block.seen.load(Ordering::SeqCst);
        let lba = lba(index);
        let mut bytes = [0xA5; BLOCK_LEN];
        volume.read_at(&mut bytes, lba * BLOCK)?;
        let sent = block.sent.load(Ordering::SeqCst);
        let found = if bytes == [0; BLOCK_LEN] {
            Some(0)
        } else {
            Stamp::of(&bytes).filter(|stamp| stamp.lba == lba).map(|stamp| stamp.sequence)
        };
        let refused = block.refused.lock().expect("no thread panics with the lock");
        let violation = match found {
            None => Some(Violation::Foreign),
            Some(found) if found < acknowledged && turn.is_some() => Some(Violation::Lost),
            Some(found) if found < acknowledged => Some(Violation::Stale),
            Some(found) if found < seen => Some(Violation::Reverting),
            Some(found) if found > sent || refused.contains(&found) => Some(Violation::Foreign),
            Some(_) => None,
        };
        if let Some(violation) = violation {
            let text = format!(
                "block {lba} has {found:?}: acknowledged {acknowledged}, seen {seen}, sent {sent}, \
                 turn {turn:?}, at {:?}",
                self.started.elapsed()
            );
            self.violations().add(violation, text);
        }
        block.seen.fetch_max(found.unwrap_or_default(), Ordering::SeqCst);
        Ok(())
    }
}

struct Thread {
    shared: Arc<Shared>,
    progress: Arc<Progress>,
    address: SocketAddr,
    /// At a writer: its number.
    writer: u64,
    random: u64,
}

impl Thread {
    fn new(
        shared: &Arc<Shared>,
        address: SocketAddr,
        (node, kind): (usize, Kind),
        writer: u64,
    ) -> Self {
        let progress = Progress {
            node,
            kind,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            error: Mutex::default(),
        };
        let random = (writer << 8 | u64::from(address.port())) ^ 0x9E37_79B9_7F4A_7C15;
        let (shared, progress) = (Arc::clone(shared), Arc::new(progress));
        Self { shared, progress, address, writer, random }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::SeqCst)
    }

    fn run(mut self) {
        let mut turn = 0;
        while !self.is_over() {
            let Ok(volume) = open(self.address, &self.shared.volume) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            while !self.is_over() {
                turn += 1;
                let done = match self.progress.kind {
                    Kind::Writer if turn % FLUSH_PERIOD == 0 => match volume.flush() {
                        Ok(()) => continue,
                        failed => failed,
                    },
                    Kind::Writer => self.write(&volume, turn),
                    Kind::Reader => self.read(&volume),
                };
                match done {
                    Ok(()) => self.succeeded(),
                    Err(_) if self.is_over() => break,
                    Err(error) => {
                        self.progress.failed.fetch_add(1, Ordering::SeqCst);
                        let now = self.shared.started.elapsed();
                        *self.progress.error() = format!("{error} at {now:?}");
                        std::thread::sleep(PAUSE);
                        if error.status().is_none() {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn succeeded(&self) {
        let now = self.shared.now();
        let waited = now.saturating_sub(self.progress.last.swap(now, Ordering::SeqCst));
        // The first success tells how long the start took.
        if self.progress.done.fetch_add(1, Ordering::SeqCst) > 0 {
            self.progress.longest.fetch_max(waited, Ordering::SeqCst);
        }
        if !self.shared.pause.is_zero() {
            std::thread::sleep(self.shared.pause);
        }
    }

    fn write(&self, volume: &Volume, turn: u64) -> Result<(), Error> {
        let index = usize::try_from(self.writer * BLOCKS + turn * 7 % BLOCKS).unwrap_or_default();
        let (block, lba) = (&self.shared.blocks[index], lba(index));
        let sequence = block.sent.fetch_add(1, Ordering::SeqCst) + 1;
        let written = volume.write_at(&Stamp { lba, sequence }.block(BLOCK_LEN), lba * BLOCK);
        match &written {
            Ok(()) => block.acknowledged.store(sequence, Ordering::SeqCst),
            // It promises that nothing was done.
            Err(error) if error.status() == Some(Status::DEVICE_UNAVAILABLE) => {
                block.refused.lock().expect("no thread panics with the lock").push(sequence);
            }
            Err(_) => {}
        }
        written
    }

    fn read(&mut self, volume: &Volume) -> Result<(), Error> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = u64::try_from(self.shared.blocks.len()).unwrap_or(1);
        let index = usize::try_from(self.random % count).unwrap_or_default();
        self.shared.read(volume, index, None)
    }
}

/// The address of a block.
fn lba(index: usize) -> u64 {
    u64::try_from(index).unwrap_or_default() * DISTANCE
}

/// Opens a volume at a node.
fn open(address: SocketAddr, volume: &str) -> Result<Volume, Error> {
    let options = Options::default()
        .reconnect_max(Duration::from_secs(1))
        .silence_max(Duration::from_secs(8))
        .spin_max(Duration::ZERO);
    Client::connect_with(&format!("direct://{address}"), Credentials::NONE, options)?.open(volume)
}
