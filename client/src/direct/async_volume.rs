//! A volume for asynchronous applications, on tokio.
//!
//! One task drives the queue pair: it sends all operations posted since its last run together, and
//! passes completions to the futures that wait for them. Dropping a future does not cancel its
//! operation: the queue pair keeps the buffer until the node has answered. The operation of a call
//! whose time-out has passed continues with a copy of the buffer.
//!
//! A runtime waits for sockets, so even on the node's own machine the Unix socket carries the
//! payload: shared memory is for callers that poll.

mod driver;

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use nearflash_direct::Status;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use self::driver::{Driver, Shared, blocking};
use super::buffer::Buffer;
use super::client::Client;
use super::completion::{PostError, Token};
use super::error::{Error, Lost};
use super::options::QueueOptions;
use super::pieces::{Pieces, ZERO_LEN, part, step_of, whole_blocks};
use super::queue_pair::QueuePair;
use super::slices::{Source, len_of, scatter};
use super::volume_info::VolumeInfo;

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
/// [`Self::with_timeout`] limits the time of a call. When a future is dropped instead, its operation
/// continues at the node: a write may still take effect, also after later calls.
///
/// ```no_run
/// use std::time::Duration;
///
/// use nearflash::direct::Buffer;
/// use nearflash::{Client, Error, QueueOptions};
///
/// async fn run(client: &Client) -> Result<(), Error> {
///     let volume = client.open_async("data", QueueOptions::default()).await?;
///     let buffer = volume.write_at(&b"flash"[..], 4000).await?;
///     volume.with_timeout(Duration::from_millis(20)).read_at(buffer, 4000).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct AsyncVolume {
    shared: Arc<Shared>,
    _driver: Arc<Driver>,
    timeout: Option<Duration>,
}

impl Client {
    /// Opens a volume for asynchronous calls.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open_async(
        &self,
        volume: &str,
        options: QueueOptions,
    ) -> Result<AsyncVolume, Error> {
        AsyncVolume::open(self.clone(), volume, options).await
    }
}

impl AsyncVolume {
    async fn open(client: Client, volume: &str, options: QueueOptions) -> Result<Self, Error> {
        // A runtime can wait for sockets only.
        let options = QueueOptions { shared_len: 0, ..options };
        let name = volume.to_owned();
        let pair = blocking(move || client.queue_pair(&name, options)).await?;
        let (shared, driver) = Shared::start(volume, pair)?;
        Ok(Self { shared, _driver: Arc::new(driver), timeout: None })
    }

    /// The same volume, whose calls through this value end after `timeout` at the latest. A call
    /// that ends so may have begun to change the volume: then its error is [`Error::Unknown`], and
    /// otherwise [`Error::ConnectionLost`], both with [`Lost::TimedOut`]. The error returns the
    /// buffer: an operation under way continues with a copy. The calls of other tasks are not
    /// disturbed. If the call may have changed the volume, the next call of any task first waits
    /// until it has ended.
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
        let deadline = self.deadline();
        if self.is_one(buffer.len()) {
            return self.read_one(buffer, offset, deadline).await;
        }
        for piece in self.pieces(offset, buffer.len()) {
            let part = Buffer::new(piece.len);
            match self.read_one(part, piece.offset(offset), deadline).await {
                Ok(read) => buffer[piece.start..][..piece.len].copy_from_slice(&read),
                Err(PostError { error, .. }) => return Err(PostError { error, buffer }),
            }
        }
        Ok(buffer)
    }

    async fn read_one(
        &self,
        mut buffer: Buffer,
        offset: u64,
        deadline: Option<Instant>,
    ) -> Result<Buffer, PostError> {
        let mut repeats = 0;
        loop {
            let place = match self.shared.place(deadline).await {
                Ok(place) => place,
                Err(error) => return Err(PostError { error, buffer }),
            };
            let post = |pair: &mut QueuePair, buffer| pair.post_read_at(buffer, offset);
            let refused = match self.with_place(place, buffer, deadline, post).await {
                Ok(buffer) => return Ok(buffer),
                Err(refused) => refused,
            };
            let may_repeat = match refused.error {
                Error::ConnectionLost(lost) => lost != Lost::TimedOut,
                _ => false,
            };
            if !may_repeat || repeats == REPEATS_MAX {
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
        self.write_all(bytes.into(), offset, QueuePair::post_write_at).await
    }

    /// [`Self::write_at`], and the data is on stable media before the call returns.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub async fn write_durable_at(
        &self,
        bytes: impl Into<Buffer>,
        offset: u64,
    ) -> Result<Buffer, PostError> {
        self.write_all(bytes.into(), offset, QueuePair::post_write_durable_at).await
    }

    async fn write_all(
        &self,
        buffer: Buffer,
        offset: u64,
        post: PostBuffer,
    ) -> Result<Buffer, PostError> {
        let deadline = self.deadline();
        if self.is_one(buffer.len()) {
            return self.with_buffer(buffer, deadline, |pair, it| post(pair, it, offset)).await;
        }
        for piece in self.pieces(offset, buffer.len()) {
            let part = Buffer::from(&buffer[piece.start..][..piece.len]);
            let at = piece.offset(offset);
            let written = self.with_buffer(part, deadline, |pair, it| post(pair, it, at)).await;
            if let Err(PostError { error, .. }) = written {
                let error = error.after_changes(piece.start > 0);
                return Err(PostError { error, buffer });
            }
        }
        Ok(buffer)
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
        let deadline = self.deadline();
        self.shared.ready(deadline).await?;
        let blocks = whole_blocks(offset, len, self.block_size());
        let Some(blocks) = blocks.filter(|_| self.shared.state().pair.can_zero()) else {
            return self.send_zeroes(offset, len, deadline).await;
        };
        self.send_zeroes(offset, blocks.start - offset, deadline).await?;
        let mut at = blocks.start;
        while at < blocks.end {
            let part = part(at, blocks.end - at, ZERO_LEN);
            let post = |pair: &mut QueuePair| pair.post_write_zeroes(at, part);
            let zeroed = self.without_buffer(deadline, post).await;
            zeroed.map_err(|error| error.after_changes(at > offset))?;
            at += part;
        }
        let rest = self.send_zeroes(blocks.end, offset + len - blocks.end, deadline).await;
        rest.map_err(|error| error.after_changes(true))
    }

    async fn send_zeroes(
        &self,
        offset: u64,
        len: u64,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let out_of_range = |_| Error::Status(Status::OUT_OF_RANGE);
        let len = usize::try_from(len).map_err(out_of_range)?;
        let mut buffer = Buffer::new(usize::try_from(ZEROES_LEN).expect("a small constant"));
        for piece in Pieces::new(offset, len, ZEROES_LEN) {
            buffer.set_len(piece.len);
            let at = piece.offset(offset);
            let post = |pair: &mut QueuePair, it| pair.post_write_at(it, at);
            let written = self.with_buffer(buffer, deadline, post).await;
            buffer = written.map_err(|it| it.error.after_changes(piece.start > 0))?;
        }
        Ok(())
    }

    /// Makes every operation that has completed before durable on stable media.
    ///
    /// If the node's machine loses power, its devices may lose writes that were not flushed. A flush
    /// after the next connection was made does not report that: it succeeds.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn flush(&self) -> Result<(), Error> {
        self.without_buffer(self.deadline(), QueuePair::post_flush).await.map(|_| ())
    }

    /// Deallocates `len` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let step = step_of(self.len_max());
        let deadline = self.deadline();
        let mut done = 0;
        while done < len {
            let at = offset.saturating_add(done);
            let part = part(at, len - done, step);
            let post = |pair: &mut QueuePair| pair.post_discard(at, part);
            let discarded = self.without_buffer(deadline, post).await;
            discarded.map_err(|error| error.after_changes(done > 0))?;
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
        let post = |pair: &mut QueuePair| pair.post_compare_and_swap(offset, expected, new);
        self.without_buffer(self.deadline(), post).await
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴, and returns the previous
    /// word.
    ///
    /// # Errors
    /// As [`Self::read_at`], and when the offset is not a multiple of 8.
    pub async fn fetch_add(&self, offset: u64, addend: u64) -> Result<u64, Error> {
        let post = |pair: &mut QueuePair| pair.post_fetch_add(offset, addend);
        self.without_buffer(self.deadline(), post).await
    }

    /// The end of the time of a call that begins now.
    fn deadline(&self) -> Option<Instant> {
        // A time-out beyond the range of the clock never expires.
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    async fn with_buffer(
        &self,
        buffer: Buffer,
        deadline: Option<Instant>,
        post: impl FnOnce(&mut QueuePair, Buffer) -> Result<Token, PostError>,
    ) -> Result<Buffer, PostError> {
        match self.shared.place(deadline).await {
            Ok(place) => self.with_place(place, buffer, deadline, post).await,
            Err(error) => Err(PostError { error, buffer }),
        }
    }

    async fn with_place(
        &self,
        place: OwnedSemaphorePermit,
        buffer: Buffer,
        deadline: Option<Instant>,
        post: impl FnOnce(&mut QueuePair, Buffer) -> Result<Token, PostError>,
    ) -> Result<Buffer, PostError> {
        let posted = self.shared.post(place, |pair| post(pair, buffer))?;
        let done = self.shared.completion(posted, deadline).await;
        let buffer = done.buffer.expect("it comes back");
        match done.result {
            Ok(_) => Ok(buffer),
            Err(error) => Err(PostError { error, buffer }),
        }
    }

    async fn without_buffer(
        &self,
        deadline: Option<Instant>,
        post: impl FnOnce(&mut QueuePair) -> Result<Token, Error>,
    ) -> Result<u64, Error> {
        let place = self.shared.place(deadline).await?;
        let posted = self.shared.post(place, post)?;
        self.shared.completion(posted, deadline).await.result
    }
}

/// A function that posts a buffer.
type PostBuffer = fn(&mut QueuePair, Buffer, u64) -> Result<Token, PostError>;

impl fmt::Debug for AsyncVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncVolume").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
