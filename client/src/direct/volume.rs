//! A volume for blocking calls.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::client::Client;
use super::error::Error;
use super::options::QueueOptions;
use super::worker::{Job, WORKER_DEPTH, Worker};

/// Threads that are served at the same time; more take turns.
const WORKERS_MAX: usize = 16;

/// What a node says of a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VolumeInfo {
    /// Its size in bytes.
    pub len: u64,
    /// Of a logical block, in bytes: what is written atomically.
    pub block_size: u32,
    /// Its identity, which another volume of the same name has not.
    pub uuid: [u8; 16],
    /// Of its map: grows with every change of its layout.
    pub epoch: u32,
    /// Some of it may be read.
    pub is_readable: bool,
    /// Some of it may be written.
    pub is_writable: bool,
}

/// A volume for blocking calls. Any number of threads may use one; those that call at the same time
/// have a connection each, so that they do not wait for one another.
///
/// A lost connection is made again. Reads are repeated then; what may have changed the volume is
/// not, and ends with [`Error::Unknown`]: it took effect or not, and does not any more once another
/// call, of any thread, does anything.
pub struct Volume {
    client: Client,
    name: Box<str>,
    crew: Mutex<Crew>,
    returned: Condvar,
}

/// The connections of a volume.
struct Crew {
    idle: Vec<Worker>,
    /// Connections that are being made again. Nobody begins anything meanwhile: what the lost ones had
    /// under way may still take effect.
    healing: usize,
    /// Of all there are, how many more there may be.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes, as of the last answer.
    #[expect(clippy::len_without_is_empty, reason = "no volume is empty")]
    pub fn len(&self) -> u64 {
        self.info().len
    }

    /// Of a logical block, in bytes.
    pub fn block_size(&self) -> u32 {
        self.info().block_size
    }

    /// All that the node says of it.
    pub fn info(&self) -> VolumeInfo {
        self.crew().info
    }

    /// Reads the whole of `bytes` at `offset`, both of any alignment and length.
    ///
    /// # Errors
    /// When the range is not all within the volume and our grants, the device fails, or the node
    /// cannot be reached.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.read(bytes, offset))
    }

    /// Writes the whole of `bytes` at `offset`. Atomic for each logical block; durable after
    /// [`Self::flush`].
    ///
    /// # Errors
    /// As [`Self::read_at`]; a part may have been written then.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.write(bytes, offset))
    }

    /// Everything whose call has returned is on stable media when this returns.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn flush(&self) -> Result<(), Error> {
        self.with_worker(|worker| worker.one(Job::Flush)).map(|_| ())
    }

    /// The contents of `len` bytes at `offset` are no longer needed; whole blocks of them are given
    /// back to the device. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.with_worker(|worker| worker.discard(offset, len))
    }

    /// Puts `new` in place of the little-endian 8-byte word at `offset` if it is `expected`, and
    /// returns the word that was there: `expected` if it was put.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is no multiple of 8.
    pub fn compare_and_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, Error> {
        self.with_worker(|worker| worker.one(Job::CompareAndSwap { offset, expected, new }))
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴, and returns the word that was
    /// there.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is no multiple of 8.
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

    /// An idle connection, a new one, or the next that is returned; but first, every connection that
    /// was lost is made again.
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

    /// Makes a lost connection again, or leaves it as it is for the next who calls.
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
