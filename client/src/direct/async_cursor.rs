//! An asynchronous volume for code that reads and writes files.

use std::fmt;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::async_volume::AsyncVolume;
use super::buffer::Buffer;
use super::completion::PostError;
use super::cursor::{check_room, room, sought};
use super::pieces::behind;

/// An asynchronous volume with a position, for code that reads and writes files: as
/// [`Cursor`](super::Cursor) is for a [`Volume`](super::Volume), and with one call at a time.
pub struct AsyncCursor {
    volume: AsyncVolume,
    position: u64,
    read: Option<Pending<Buffer>>,
    write: Option<Pending<Buffer>>,
    flush: Option<Pending<()>>,
}

/// A call that is not over.
type Pending<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl AsyncVolume {
    /// The volume with a position, for code that reads and writes files.
    pub fn cursor(&self) -> AsyncCursor {
        AsyncCursor { volume: self.clone(), position: 0, read: None, write: None, flush: None }
    }
}

impl AsyncCursor {
    /// The volume.
    pub fn volume(&self) -> &AsyncVolume {
        &self.volume
    }

    fn room(&self, wanted: usize) -> usize {
        room(self.volume.len(), self.position, wanted)
    }
}

fn only_error(refused: PostError) -> io::Error {
    refused.error.into()
}

/// Starts a call unless one is under way, and polls it.
fn poll_call<T>(
    pending: &mut Option<Pending<T>>,
    context: &mut Context<'_>,
    start: impl FnOnce() -> io::Result<Pending<T>>,
) -> Poll<io::Result<T>> {
    let mut call = match pending.take() {
        Some(call) => call,
        None => start()?,
    };
    let polled = call.as_mut().poll(context);
    if polled.is_pending() {
        *pending = Some(call);
    }
    polled
}

impl AsyncRead for AsyncCursor {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.room(bytes.remaining());
        if len == 0 {
            return Poll::Ready(Ok(()));
        }
        let (volume, position) = (self.volume.clone(), self.position);
        let read = ready!(poll_call(&mut self.read, context, || {
            let buffer = Buffer::new(len);
            Ok(Box::pin(async move { volume.read_at(buffer, position).await.map_err(only_error) }))
        }))?;
        // The caller may have less room than when the call began.
        let taken = read.len().min(bytes.remaining());
        bytes.put_slice(&read[..taken]);
        self.position = behind(self.position, taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncCursor {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let len = self.room(bytes.len());
        let (volume, position) = (self.volume.clone(), self.position);
        let written = ready!(poll_call(&mut self.write, context, || {
            check_room(len, bytes.len())?;
            let buffer = Buffer::from(&bytes[..len]);
            Ok(Box::pin(async move { volume.write_at(buffer, position).await.map_err(only_error) }))
        }))?;
        self.position = behind(self.position, written.len());
        Poll::Ready(Ok(written.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let volume = self.volume.clone();
        poll_call(&mut self.flush, context, || {
            Ok(Box::pin(async move { Ok(volume.flush().await?) }))
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl AsyncSeek for AsyncCursor {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        // Data from the old position is not wanted any more.
        self.read = None;
        self.position = sought(self.volume.len(), self.position, to)?;
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.position))
    }
}

impl fmt::Debug for AsyncCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCursor")
            .field("volume", &self.volume)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
