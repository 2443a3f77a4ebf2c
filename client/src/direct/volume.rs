//! A volume for blocking calls.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::client::Client;
use super::error::Error;
use super::options::QueueOptions;
use super::worker::{Job, WORKER_DEPTH, Worker};

/// The most threads that are served at the same time; more wait their turn.
const WORKERS_MAX: usize = 16;

/// The properties of a volume, as the node reports them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct VolumeInfo {
    /// Its size in bytes.
    pub len: u64,
    /// The size of a logical block, in bytes; a write is atomic for each block.
    pub block_size: u32,
    /// The UUID, which another volume of the same name does not have.
    pub uuid: [u8; 16],
    /// The number of the layout, which grows with every change.
    pub epoch: u32,
    /// Whether some of the volume may be read.
    pub is_readable: bool,
    /// Whether some of the volume may be written.
    pub is_writable: bool,
}

/// A volume for blocking calls. Any number of threads may share it; concurrent calls have separate
/// connections, so that they do not wait for each other.
///
/// A lost connection is made again. Reads are then repeated; an operation that may have changed the
/// volume is not, and ends with [`Error::Unknown`]. Before any later call of any thread proceeds,
/// that operation has either taken effect or never will.
pub struct Volume {
    client: Client,
    name: Box<str>,
    crew: Mutex<Crew>,
    returned: Condvar,
}

/// The connections of a volume.
struct Crew {
    idle: Vec<Worker>,
    /// The number of connections that are being made again. No call begins meanwhile, since
    /// operations of the lost connections may still take effect.
    healing: usize,
    /// The number of connections that may still be added.
    left: usize,
    info: VolumeInfo,
}

impl Volume {
    pub(super) fn open(client: Client, name: &str) -> Result<Self, Error> {
        let worker = hire(&client, name)?;
        let (info, left) = (worker.info(), WORKERS_MAX - 1);
        let crew = Crew { info, idle: vec![worker], healing: 0, left };
        Ok(Self { client, name: name.into(), crew: Mutex::new(crew), returned: Condvar::new() })
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.name
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
        self.crew().info
    }

    /// Fills `bytes` from `offset`; both are of any alignment and length.
    ///
    /// # Errors
    /// When the range is not within the volume and the client's grants, the device fails, or the
    /// node cannot be reached.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.read(bytes, offset))
    }

    /// Writes all of `bytes` at `offset`. The write is atomic for each logical block, and durable
    /// after [`Self::flush`].
    ///
    /// # Errors
    /// As [`Self::read_at`]; some of the bytes may have been written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.write(bytes, offset))
    }

    /// Makes every operation whose call has returned durable on stable media.
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

    fn with_worker<T>(
        &self,
        work: impl FnOnce(&mut Worker) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut worker = self.take_worker()?;
        let result = work(&mut worker);
        let mut crew = self.crew();
        crew.info = worker.info();
        crew.idle.push(worker);
        drop(crew);
        self.returned.notify_one();
        result
    }

    /// An idle connection, a new one, or the next that is returned, after every lost connection is
    /// made again.
    fn take_worker(&self) -> Result<Worker, Error> {
        let mut crew = self.crew();
        loop {
            if let Some(at) = crew.idle.iter().position(Worker::is_lost) {
                let worker = crew.idle.swap_remove(at);
                crew.healing += 1;
                drop(crew);
                self.heal(worker)?;
                crew = self.crew();
            } else if crew.healing > 0 || (crew.idle.is_empty() && crew.left == 0) {
                crew = self.returned.wait(crew).expect("nothing panics while it holds the crew");
            } else if let Some(worker) = crew.idle.pop() {
                return Ok(worker);
            } else {
                crew.left -= 1;
                break;
            }
        }
        drop(crew);
        hire(&self.client, &self.name).inspect_err(|_| {
            self.crew().left += 1;
            self.returned.notify_one();
        })
    }

    /// Makes a lost connection again, or leaves that to the next call.
    fn heal(&self, mut worker: Worker) -> Result<(), Error> {
        let healed = worker.heal();
        let mut crew = self.crew();
        crew.healing -= 1;
        crew.idle.push(worker);
        drop(crew);
        self.returned.notify_all();
        healed
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().expect("nothing panics while it holds the crew")
    }
}

fn hire(client: &Client, name: &str) -> Result<Worker, Error> {
    let options = QueueOptions { depth: WORKER_DEPTH, ..QueueOptions::default() };
    Ok(Worker::new(client.queue_pair(name, options)?, client.options().spin_max))
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("name", &self.name).finish_non_exhaustive()
    }
}
