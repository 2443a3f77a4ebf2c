//! A volume for blocking calls.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nearflash_direct::Seal;

use super::client::Client;
use super::error::{Error, LATE};
use super::options::QueueOptions;
use super::queue_pair::{QueuePair, Source as QueueSource};
use super::seal_key::SealKey;
use super::slices::Source;
use super::volume_info::VolumeInfo;
use super::worker::{Job, Reconnection, WORKER_DEPTH, Worker};

/// The maximum number of threads that are served at the same time; more wait their turn.
const WORKERS_MAX: usize = 16;

/// A volume for blocking calls. Any number of threads may share it; concurrent calls have separate
/// connections, so that they do not wait for each other. Clones share the connections.
///
/// A lost connection is re-established. Reads are then repeated; an operation that may have changed
/// the volume is not, and ends with [`Error::Unknown`]. Before any later call of any thread
/// proceeds, that operation has either taken effect or never will.
#[derive(Clone)]
pub struct Volume {
    shared: Arc<Shared>,
    timeout: Option<Duration>,
}

/// The state of all clones.
struct Shared {
    client: Client,
    source: QueueSource,
    name: Box<str>,
    crew: Mutex<Crew>,
    returned: Condvar,
}

/// The connections of a volume.
struct Crew {
    idle: Vec<Worker>,
    /// The number of connections that are being re-established. No call begins meanwhile, since
    /// operations of the lost connections may still take effect.
    healing: usize,
    /// The number of connections that may still be added.
    left: usize,
    /// The number of connections, and of those that may still be added.
    total: usize,
    /// The number of lost connections that were replaced.
    replaced: u64,
    /// Those of them with which writes may have been lost.
    losses: u64,
    info: VolumeInfo,
}

impl Crew {
    /// Takes over what a worker has counted.
    fn count(&mut self, worker: &mut Worker) {
        self.replaced += worker.take_replaced();
        self.losses += worker.take_losses();
    }
}

impl Client {
    /// Opens a volume for blocking calls from any number of threads.
    ///
    /// # Errors
    /// When the volume does not exist, the client has no right to it, or the node cannot be
    /// reached.
    pub fn open(&self, volume: &str) -> Result<Volume, Error> {
        Volume::open(self.clone(), self.source_of(volume), volume)
    }

    /// Opens the object of a seal for blocking calls from any number of threads. The client needs no grant. Its
    /// name is empty. A lost connection is re-established as long as the seal is good.
    ///
    /// # Errors
    /// As [`QueuePair::open_sealed`](super::QueuePair::open_sealed).
    pub fn open_sealed(&self, seal: &Seal) -> Result<Volume, Error> {
        Volume::open(self.clone(), QueueSource::Seal(Arc::new(seal.clone())), "")
    }

    /// Opens the volume that the URL names.
    ///
    /// # Errors
    /// As [`Self::open`], and when the URL names no volume.
    pub fn open_named(&self) -> Result<Volume, Error> {
        self.open(self.volume_name().ok_or(Error::NoVolume)?)
    }
}

impl Volume {
    fn open(client: Client, source: QueueSource, name: &str) -> Result<Self, Error> {
        let worker = hire(&client, source.clone(), None)?;
        Ok(Self::with_crew(client, (source, name), vec![worker], WORKERS_MAX - 1))
    }

    /// A volume over the connections of its owner, and no others.
    #[cfg(feature = "ownership")]
    pub(super) fn owned(client: Client, name: &str, workers: Vec<Worker>) -> Self {
        let source = client.source_of(name);
        Self::with_crew(client, (source, name), workers, 0)
    }

    /// A volume with these connections, at least one, and at most `left` more.
    fn with_crew(
        client: Client,
        (source, name): (QueueSource, &str),
        idle: Vec<Worker>,
        left: usize,
    ) -> Self {
        let total = idle.len() + left;
        let crew =
            Crew { info: idle[0].info(), idle, healing: 0, left, total, replaced: 0, losses: 0 };
        let (crew, returned) = (Mutex::new(crew), Condvar::new());
        let shared = Arc::new(Shared { client, source, name: name.into(), crew, returned });
        Self { shared, timeout: None }
    }

    /// The same volume, whose calls through this value end after `timeout` at the latest, except
    /// for the resolution of the node's name. If such a call may have begun to change the volume,
    /// its error is [`Error::Unknown`], otherwise [`Error::ConnectionLost`]; both carry
    /// [`Lost::TimedOut`](super::Lost::TimedOut). Its connection is given up, so the next call of
    /// any thread first waits until none of its operations is under way any more.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use nearflash::direct::Lost;
    /// use nearflash::{Error, Volume};
    ///
    /// /// Whether the bytes were read in time.
    /// fn is_read(volume: &Volume, bytes: &mut [u8]) -> Result<bool, Error> {
    ///     match volume.with_timeout(Duration::from_millis(20)).read_at(bytes, 0) {
    ///         Err(Error::ConnectionLost(Lost::TimedOut)) => Ok(false),
    ///         read => read.map(|()| true),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The volume's size in bytes, as of the last answer.
    #[expect(clippy::len_without_is_empty, reason = "no volume is empty")]
    pub fn len(&self) -> u64 {
        self.info().len
    }

    /// The size of a logical block, in bytes.
    pub fn block_size(&self) -> u32 {
        self.info().block_size
    }

    /// The volume's properties, as the node reports them.
    pub fn info(&self) -> VolumeInfo {
        self.shared.crew().info
    }

    /// The number of connections that were lost and replaced since the volume was opened.
    ///
    /// A program that must know whether a flush covers its earlier writes compares this number
    /// before the first of them and after the flush. If it has changed, the node's machine may have
    /// lost writes together with the connection; [`Self::losses`] counts only these.
    pub fn replaced_connections(&self) -> u64 {
        self.shared.crew().replaced
    }

    /// The number of connections that were lost and replaced, and with which the node may have lost writes that
    /// it had answered, because it or its machine was started anew. A node that only stood still, or that was
    /// not reached for a while, has lost none. A node that does not say counts as one that has.
    ///
    /// A flush covers the earlier writes that were answered if this number is the same before the first of them
    /// and after the flush.
    pub fn losses(&self) -> u64 {
        self.shared.crew().losses
    }

    /// Waits for all calls under way, and replaces every connection that is lost, so that
    /// [`Self::replaced_connections`] and [`Self::losses`] have counted all of them. Other calls wait meanwhile.
    ///
    /// A node that was restarted has ended all connections, but each is noticed only when it is used.
    ///
    /// # Errors
    /// When the node cannot be reached.
    pub fn check_connections(&self) -> Result<(), Error> {
        let mut workers = self.shared.take_all();
        let mut checked = Ok(());
        for worker in &mut workers {
            worker.begin(None);
            // A flush changes nothing, and tells whether the connection is lost.
            let flushed = worker.one(Job::Flush).map(drop).or_else(|_| worker.heal());
            checked = checked.and(flushed);
        }
        let mut crew = self.shared.crew();
        crew.healing -= 1;
        for mut worker in workers {
            crew.count(&mut worker);
            crew.idle.push(worker);
        }
        drop(crew);
        self.shared.returned.notify_all();
        checked
    }

    /// Fills `bytes` from `offset`; both are of any alignment and length.
    ///
    /// # Errors
    /// When the range is not within the volume and the client's grants, the device fails, or the
    /// node cannot be reached.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        self.read_vectored_at(&mut [IoSliceMut::new(bytes)], offset)
    }

    /// [`Self::read_at`] with several slices, one after the other.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn read_vectored_at(
        &self,
        slices: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<(), Error> {
        self.with_worker(|worker| worker.read(slices, offset))
    }

    /// Writes all of `bytes` at `offset`. The write is atomic for each logical block, and durable
    /// after [`Self::flush`].
    ///
    /// # Errors
    /// As [`Self::read_at`]; some of the bytes may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// [`Self::write_at`] with several slices, one after the other. A block is written at once, also
    /// if several slices have parts of it.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.write(Source::Slices(slices), offset, false))
    }

    /// [`Self::write_at`], and the data is on stable media before the call returns.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let slices = [IoSlice::new(bytes)];
        self.with_worker(|worker| worker.write(Source::Slices(&slices), offset, true))
    }

    /// Writes `len` zeroes at `offset`, as [`Self::write_at`] does. Whole blocks are zeroed by the
    /// node, which may release their storage; only a node of an older version receives the zeroes.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.zero(offset, len))
    }

    /// Makes every operation whose call has returned durable on stable media.
    ///
    /// If the node's machine loses power, its devices may lose writes that were not flushed. A flush
    /// after the next connection was made does not report that: it succeeds.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn flush(&self) -> Result<(), Error> {
        self.with_worker(|worker| worker.one(Job::Flush)).map(|_| ())
    }

    /// Deallocates `len` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.discard(offset, len))
    }

    /// Replaces the little-endian 8-byte word at `offset` by `new` if it equals `expected`, and
    /// returns the previous word: `expected` if it was replaced.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is not a multiple of 8.
    pub fn compare_and_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, Error> {
        self.with_worker(|worker| worker.one(Job::CompareAndSwap { offset, expected, new }))
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴, and returns the previous
    /// word.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is not a multiple of 8.
    pub fn fetch_add(&self, offset: u64, addend: u64) -> Result<u64, Error> {
        self.with_worker(|worker| worker.one(Job::FetchAdd { offset, addend }))
    }

    /// The key under which this client's credential mints seals for the volume:
    /// [`QueuePair::seal_key`](super::QueuePair::seal_key).
    ///
    /// # Errors
    /// When the node refuses, or cannot be reached.
    pub fn seal_key(&self) -> Result<SealKey, Error> {
        self.with_worker(|worker| worker.ask(QueuePair::seal_key))
    }

    /// Revokes the seals of an object below a version:
    /// [`QueuePair::revoke`](super::QueuePair::revoke). After a lost connection, they are revoked over the
    /// next one.
    ///
    /// # Errors
    /// As [`Self::seal_key`].
    pub fn revoke(&self, object: u64, version: u32) -> Result<(), Error> {
        self.with_worker(|worker| worker.ask(|pair| pair.revoke(object, version)))
    }

    /// Revokes all seals under keys of earlier generations:
    /// [`QueuePair::revoke_keys`](super::QueuePair::revoke_keys).
    ///
    /// # Errors
    /// As [`Self::seal_key`].
    pub fn revoke_keys(&self, generation: u32) -> Result<(), Error> {
        self.with_worker(|worker| worker.ask(|pair| pair.revoke_keys(generation)))
    }

    pub(super) fn with_worker<T>(
        &self,
        work: impl FnOnce(&mut Worker) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // A time-out beyond the range of the clock never expires.
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut worker = self.shared.take_worker(deadline)?;
        worker.begin(deadline);
        let result = work(&mut worker);
        let mut crew = self.shared.crew();
        crew.info = worker.info();
        crew.count(&mut worker);
        crew.idle.push(worker);
        drop(crew);
        self.shared.returned.notify_one();
        result
    }
}

impl Shared {
    /// All connections, once no call uses one. No call begins until the caller has returned them.
    fn take_all(&self) -> Vec<Worker> {
        let mut crew = self.crew();
        crew.healing += 1;
        while crew.idle.len() < crew.total - crew.left {
            crew = self.returned.wait(crew).expect(UNPOISONED);
        }
        std::mem::take(&mut crew.idle)
    }

    /// An idle connection, a new one, or the next that is returned, after every lost connection is
    /// re-established.
    fn take_worker(&self, deadline: Option<Instant>) -> Result<Worker, Error> {
        let mut crew = self.crew();
        loop {
            if let Some(at) = crew.idle.iter().position(Worker::is_lost) {
                let worker = crew.idle.swap_remove(at);
                crew.healing += 1;
                drop(crew);
                self.heal(worker, deadline)?;
                crew = self.crew();
            } else if crew.healing > 0 || (crew.idle.is_empty() && crew.left == 0) {
                crew = self.wait(crew, deadline)?;
            } else if let Some(worker) = crew.idle.pop() {
                return Ok(worker);
            } else {
                crew.left -= 1;
                break;
            }
        }
        drop(crew);
        hire(&self.client, self.source.clone(), deadline).inspect_err(|_| {
            self.crew().left += 1;
            self.returned.notify_one();
        })
    }

    /// Waits until a connection is returned.
    fn wait<'a>(
        &self,
        crew: MutexGuard<'a, Crew>,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, Crew>, Error> {
        let Some(deadline) = deadline else {
            return Ok(self.returned.wait(crew).expect(UNPOISONED));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // Another call may take the connection of which this one was notified.
            self.returned.notify_one();
            return Err(LATE);
        }
        Ok(self.returned.wait_timeout(crew, left).expect(UNPOISONED).0)
    }

    /// Re-establishes a lost connection, or leaves that to the next call.
    fn heal(&self, mut worker: Worker, deadline: Option<Instant>) -> Result<(), Error> {
        worker.begin(deadline);
        let healed = worker.heal();
        let mut crew = self.crew();
        crew.healing -= 1;
        crew.count(&mut worker);
        crew.idle.push(worker);
        drop(crew);
        self.returned.notify_all();
        healed
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics while it holds the crew";

fn hire(client: &Client, source: QueueSource, deadline: Option<Instant>) -> Result<Worker, Error> {
    let options = QueueOptions::default().depth(WORKER_DEPTH);
    let hired = client.pair_of(source, options, deadline);
    let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let pair = hired.map_err(|error| if is_late() { LATE } else { error })?;
    Ok(Worker::new(pair, client.options().spin_max, Reconnection::Free))
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("name", &self.name()).finish_non_exhaustive()
    }
}
