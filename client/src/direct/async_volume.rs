//! A volume for asynchronous applications, on tokio.
//!
//! One task drives the queue pair: it sends all operations posted since its last run together, and
//! passes completions to the futures that wait for them. Dropping a future does not cancel its
//! operation: the queue pair keeps the buffer until the node has answered.
//!
//! A runtime waits for sockets, so even on the node's own machine the Unix socket carries the
//! payload: shared memory is for callers that poll.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use nearflash_direct::Status;
use tokio::io::Interest;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::async_cursor::AsyncCursor;
use super::buffer::Buffer;
use super::client::Client;
use super::completion::{Completion, PostError, Token};
use super::error::{Error, Lost};
use super::options::QueueOptions;
use super::pieces::{Pieces, ZERO_LEN, part, step_of, whole_blocks};
use super::queue_pair::QueuePair;
use super::readiness::Readiness;
use super::slices::{Source, len_of, scatter};
use super::volume::VolumeInfo;

/// The maximum number of turns of the queue pair before other tasks run.
const TURNS_MAX: usize = 16;
/// The length of one write of zeroes.
const ZEROES_LEN: u32 = 256 * 1024;
/// The maximum number of repetitions of a read over new connections.
const REPEATS_MAX: u32 = 8;

/// A volume for asynchronous applications; clones share one connection.
///
/// A lost connection is re-established, and calls wait for that, for at most
/// [`Options::reconnect_max`](super::Options::reconnect_max). After that time they fail, and each
/// later call tries once more for as long. Reads that were in flight are repeated; operations that
/// may have changed the volume are not, and end with [`Error::Unknown`]. The volume needs a tokio
/// runtime with I/O and time.
///
/// A call with a time-out is one within `tokio::time::timeout`. Its operation continues at the node:
/// a write may still take effect, also after later calls.
#[derive(Clone)]
pub struct AsyncVolume {
    shared: Arc<Shared>,
    _driver: Arc<Driver>,
}

/// Stops the task with the last clone of the volume.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Shared {
    name: Box<str>,
    state: Mutex<State>,
    /// The places in the queue pair.
    places: Arc<Semaphore>,
    /// An operation was posted.
    posted: Notify,
    /// A reconnect has succeeded or failed.
    settled: Notify,
    /// A call needs the connection after a reconnect has failed.
    wanted: Notify,
}

struct State {
    pair: QueuePair,
    /// By token index.
    waiters: Vec<Option<Waiter>>,
    done: Vec<Completion>,
    /// The number of failed reconnects.
    failures: u64,
    /// The error of the last failed reconnect.
    failure: Option<Error>,
    /// Whether the driver reconnects only when a call needs a connection.
    is_given_up: bool,
}

/// The receiver of an operation's completion, which may have been dropped.
struct Waiter {
    to: oneshot::Sender<Completion>,
    _place: OwnedSemaphorePermit,
}

impl AsyncVolume {
    /// Opens a volume.
    ///
    /// # Errors
    /// When the volume does not exist, the client has no right to it, or the node cannot be
    /// reached.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(client: &Client, volume: &str, options: QueueOptions) -> Result<Self, Error> {
        // A runtime can wait for sockets only.
        let options = QueueOptions { shared_len: 0, ..options };
        let (connector, name) = (client.clone(), volume.to_owned());
        let pair = blocking(move || connector.queue_pair(&name, options)).await?;
        let readiness = readiness(&pair)?;
        let depth = usize::try_from(pair.depth()).expect("usize is at least 32 bits wide");
        let waiters = (0..depth).map(|_| None).collect();
        let shared = Arc::new(Shared {
            name: volume.into(),
            state: Mutex::new(State::new(pair, waiters)),
            places: Arc::new(Semaphore::new(depth)),
            posted: Notify::new(),
            settled: Notify::new(),
            wanted: Notify::new(),
        });
        let driver = tokio::spawn(drive(Arc::clone(&shared), readiness));
        Ok(Self { shared, _driver: Arc::new(Driver(driver.abort_handle())) })
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
        self.shared.state().pair.info()
    }

    /// The maximum number of operations in flight; further calls wait.
    pub fn depth(&self) -> u32 {
        self.shared.state().pair.depth()
    }

    /// The longest operation, in bytes. Longer reads and writes are several, one after the other.
    pub fn len_max(&self) -> u32 {
        self.shared.state().pair.len_max()
    }

    /// Fills a buffer from `offset`, and returns it; both are of any alignment and length.
    ///
    /// # Errors
    /// When the range is not within the volume and the client's grants, the device fails, or the
    /// node cannot be reached. The error returns the buffer.
    pub async fn read_at(&self, mut buffer: Buffer, offset: u64) -> Result<Buffer, PostError> {
        if self.is_one(buffer.len()) {
            return self.read_one(buffer, offset).await;
        }
        for piece in self.pieces(offset, buffer.len()) {
            match self.read_one(Buffer::new(piece.len), piece.offset(offset)).await {
                Ok(read) => buffer[piece.start..][..piece.len].copy_from_slice(&read),
                Err(PostError { error, .. }) => return Err(PostError { error, buffer }),
            }
        }
        Ok(buffer)
    }

    async fn read_one(&self, mut buffer: Buffer, offset: u64) -> Result<Buffer, PostError> {
        let mut repeats = 0;
        loop {
            if let Err(error) = self.shared.connected().await {
                return Err(PostError { error, buffer });
            }
            let read = self.with_buffer(buffer, |pair, buffer| pair.post_read(buffer, offset));
            let refused = match read.await {
                Ok(buffer) => return Ok(buffer),
                Err(refused) => refused,
            };
            let is_lost = matches!(refused.error, Error::ConnectionLost(_));
            if !is_lost || repeats == REPEATS_MAX {
                return Err(refused);
            }
            repeats += 1;
            buffer = refused.buffer;
        }
    }

    /// Writes all of a buffer at `offset`, and returns it. The write is atomic for each logical
    /// block, and durable after [`Self::flush`].
    ///
    /// # Errors
    /// As [`Self::read_at`]; some of the bytes may have been written.
    pub async fn write_at(
        &self,
        bytes: impl Into<Buffer>,
        offset: u64,
    ) -> Result<Buffer, PostError> {
        let buffer = bytes.into();
        if self.is_one(buffer.len()) {
            return self.write_one(buffer, offset).await;
        }
        for piece in self.pieces(offset, buffer.len()) {
            let bytes = Buffer::from(&buffer[piece.start..][..piece.len]);
            if let Err(PostError { error, .. }) = self.write_one(bytes, piece.offset(offset)).await
            {
                return Err(PostError { error, buffer });
            }
        }
        Ok(buffer)
    }

    async fn write_one(&self, buffer: Buffer, offset: u64) -> Result<Buffer, PostError> {
        if let Err(error) = self.shared.connected().await {
            return Err(PostError { error, buffer });
        }
        self.with_buffer(buffer, |pair, buffer| pair.post_write(buffer, offset)).await
    }

    /// Whether one operation is long enough.
    fn is_one(&self, len: usize) -> bool {
        u32::try_from(len).is_ok_and(|len| len <= self.len_max())
    }

    fn pieces(&self, offset: u64, len: usize) -> Pieces {
        Pieces::new(offset, len, step_of(self.len_max()))
    }

    /// [`Self::read_at`] with several slices, one after the other.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn read_vectored_at(
        &self,
        slices: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<(), Error> {
        let buffer = Buffer::new(len_of(slices.iter().map(|slice| &**slice)));
        scatter(slices, 0, &self.read_at(buffer, offset).await?);
        Ok(())
    }

    /// [`Self::write_at`] with several slices, one after the other. A block is written at once, also
    /// if several slices have parts of it.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub async fn write_vectored_at(
        &self,
        slices: &[IoSlice<'_>],
        offset: u64,
    ) -> Result<(), Error> {
        let source = Source::Slices(slices);
        let mut buffer = Buffer::new(source.len());
        source.copy(0, &mut buffer);
        self.write_at(buffer, offset).await?;
        Ok(())
    }

    /// Writes `len` zeroes at `offset`, as [`Self::write_at`] does. Whole blocks are zeroed by the
    /// node, which may release their storage; only a node of an older version receives the zeroes.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.shared.connected().await?;
        let blocks = whole_blocks(offset, len, self.block_size());
        let Some(blocks) = blocks.filter(|_| self.shared.state().pair.can_zero()) else {
            return self.send_zeroes(offset, len).await;
        };
        self.send_zeroes(offset, blocks.start - offset).await?;
        let mut at = blocks.start;
        while at < blocks.end {
            let part = part(at, blocks.end - at, ZERO_LEN);
            self.without_buffer(|pair| pair.post_write_zeroes(at, part)).await?;
            at += part;
        }
        self.send_zeroes(blocks.end, offset + len - blocks.end).await
    }

    async fn send_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        let out_of_range = |_| Error::Status(Status::OUT_OF_RANGE);
        let len = usize::try_from(len).map_err(out_of_range)?;
        let mut buffer = Buffer::new(usize::try_from(ZEROES_LEN).expect("a small constant"));
        for piece in Pieces::new(offset, len, ZEROES_LEN) {
            buffer.set_len(piece.len);
            buffer = self.write_one(buffer, piece.offset(offset)).await?;
        }
        Ok(())
    }

    /// The volume with a position, for code that reads and writes files.
    pub fn cursor(&self) -> AsyncCursor {
        AsyncCursor::new(self.clone())
    }

    /// Makes every operation that has completed before durable on stable media.
    ///
    /// If the node's machine loses power, its devices may lose writes that were not flushed. A flush
    /// after the next connection was made does not report that: it succeeds.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn flush(&self) -> Result<(), Error> {
        self.without_buffer(QueuePair::post_flush).await.map(|_| ())
    }

    /// Deallocates `len` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let step = step_of(self.len_max());
        let mut done = 0;
        while done < len {
            let at = offset.saturating_add(done);
            let part = part(at, len - done, step);
            self.without_buffer(|pair| pair.post_discard(at, part)).await?;
            done += part;
        }
        Ok(())
    }

    /// Replaces the little-endian 8-byte word at `offset` by `new` if it equals `expected`, and
    /// returns the previous word: `expected` if it was replaced.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is not a multiple of 8.
    pub async fn compare_and_swap(
        &self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, Error> {
        self.without_buffer(|pair| pair.post_compare_and_swap(offset, expected, new)).await
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴, and returns the previous
    /// word.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is not a multiple of 8.
    pub async fn fetch_add(&self, offset: u64, addend: u64) -> Result<u64, Error> {
        self.without_buffer(|pair| pair.post_fetch_add(offset, addend)).await
    }

    async fn with_buffer(
        &self,
        buffer: Buffer,
        post: impl FnOnce(&mut QueuePair, Buffer) -> Result<Token, PostError>,
    ) -> Result<Buffer, PostError> {
        let place = self.shared.place().await;
        let posted = self.shared.post(place, |pair| post(pair, buffer))?;
        let done = posted.await.expect("every operation completes");
        let buffer = done.buffer.expect("it comes back");
        match done.result {
            Ok(_) => Ok(buffer),
            Err(error) => Err(PostError { error, buffer }),
        }
    }

    async fn without_buffer(
        &self,
        post: impl FnOnce(&mut QueuePair) -> Result<Token, Error>,
    ) -> Result<u64, Error> {
        self.shared.connected().await?;
        let place = self.shared.place().await;
        let posted = self.shared.post(place, post)?;
        posted.await.expect("every operation completes").result
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue pair")
    }

    async fn place(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.places).acquire_owned().await;
        place.expect("the semaphore is never closed")
    }

    fn post<E>(
        &self,
        place: OwnedSemaphorePermit,
        post: impl FnOnce(&mut QueuePair) -> Result<Token, E>,
    ) -> Result<oneshot::Receiver<Completion>, E> {
        let (to, receiver) = oneshot::channel();
        let mut state = self.state();
        let token = post(&mut state.pair)?;
        state.waiters[token.index()] = Some(Waiter { to, _place: place });
        drop(state);
        self.posted.notify_one();
        Ok(receiver)
    }

    /// Waits until a lost connection is re-established, or one reconnect has failed. Starts a
    /// reconnect if the last one has already failed.
    #[inline]
    async fn connected(&self) -> Result<(), Error> {
        let failures_before = {
            let state = self.state();
            if !state.pair.is_lost() {
                return Ok(());
            }
            state.failures
        };
        loop {
            let mut settled = pin!(self.settled.notified());
            settled.as_mut().enable();
            if let Some(result) = self.settlement(failures_before) {
                return result;
            }
            settled.await;
        }
    }

    /// The state of the connection for a call that began after `failures_before` failures; `None`
    /// during a reconnect.
    fn settlement(&self, failures_before: u64) -> Option<Result<(), Error>> {
        let mut state = self.state();
        if !state.pair.is_lost() {
            return Some(Ok(()));
        }
        if state.failures > failures_before {
            return state.failure.clone().map(Err);
        }
        if std::mem::take(&mut state.is_given_up) {
            self.wanted.notify_one();
        }
        None
    }
}

/// The driver's next step.
enum Next {
    /// Turn again: there may be more work.
    Again,
    /// Sleep until the socket is ready, an operation is posted, or the time has passed.
    Sleep(Interest, Option<Duration>),
    /// The connection is lost.
    Lost,
}

impl State {
    fn new(pair: QueuePair, waiters: Vec<Option<Waiter>>) -> Self {
        let done = Vec::new();
        Self { pair, waiters, done, failures: 0, failure: None, is_given_up: false }
    }

    fn give_up(&mut self, error: Error) {
        self.failures += 1;
        self.failure = Some(error);
        self.is_given_up = true;
    }

    /// Makes a few turns, and passes completions to their receivers.
    fn advance(&mut self) -> Next {
        let mut moved = true;
        for _ in 0..TURNS_MAX {
            moved = !self.pair.is_lost() && self.pair.turn(&mut self.done, usize::MAX);
            if !moved {
                break;
            }
        }
        // If the connection is lost, this takes the completions that report it. An error means that
        // none are left.
        let _ = self.pair.poll(&mut self.done);
        for done in self.done.drain(..) {
            let waiter = self.waiters[done.token.index()].take().expect("somebody posted it");
            // A future that was dropped needs no completion.
            let _ = waiter.to.send(done);
        }
        if self.pair.is_lost() {
            Next::Lost
        } else if moved {
            Next::Again
        } else {
            let interest = match self.pair.has_unsent() {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            Next::Sleep(interest, self.pair.patience_left())
        }
    }
}

/// Drives the queue pair from connection to connection.
async fn drive(shared: Arc<Shared>, mut readiness: Readiness) {
    loop {
        drive_connection(&shared, &readiness).await;
        match reconnect(&shared).await {
            Ok(new) => {
                readiness = new;
                shared.settled.notify_waiters();
            }
            Err(error) => {
                shared.state().give_up(error);
                shared.settled.notify_waiters();
                shared.wanted.notified().await;
            }
        }
    }
}

/// Drives the queue pair until the connection is lost.
async fn drive_connection(shared: &Shared, readiness: &Readiness) {
    loop {
        match advance(shared, readiness) {
            Next::Lost => return,
            Next::Again => tokio::task::yield_now().await,
            Next::Sleep(interest, left) => sleep(shared, readiness, interest, left).await,
        }
    }
}

/// Turns until there is no progress, and then clears the socket's readiness.
fn advance(shared: &Shared, readiness: &Readiness) -> Next {
    let turns = || shared.state().advance();
    let sleeps = |next: &Next| matches!(next, Next::Sleep(..));
    let next = readiness.attempt(Interest::READABLE, turns, sleeps).unwrap_or_else(turns);
    match next {
        Next::Sleep(interest, _) if interest.is_writable() => {
            readiness.attempt(Interest::WRITABLE, turns, sleeps).unwrap_or(next)
        }
        _ => next,
    }
}

/// Sleeps until the socket is ready, an operation is posted, or the time has passed.
async fn sleep(shared: &Shared, readiness: &Readiness, interest: Interest, left: Option<Duration>) {
    let mut ready = pin!(readiness.ready(interest));
    let mut posted = pin!(shared.posted.notified());
    let mut over = pin!(tokio::time::sleep(left.unwrap_or_default()));
    std::future::poll_fn(|context| {
        let is_ready = ready.as_mut().poll(context).is_ready();
        let is_posted = posted.as_mut().poll(context).is_ready();
        let is_over = left.is_some() && over.as_mut().poll(context).is_ready();
        if is_ready || is_posted || is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Makes the connection again.
async fn reconnect(shared: &Shared) -> Result<Readiness, Error> {
    let reconnector = shared.state().pair.reconnector();
    let pair = blocking(reconnector).await?;
    let readiness = readiness(&pair)?;
    shared.state().pair = pair;
    Ok(readiness)
}

fn readiness(pair: &QueuePair) -> Result<Readiness, Error> {
    let readiness = pair.socket().try_clone_to_owned().and_then(Readiness::of);
    readiness.map_err(|error| Error::ConnectionLost(Lost::System(error.kind())))
}

/// Runs blocking work on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.expect("connecting does not panic")
}

impl fmt::Debug for AsyncVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncVolume").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
