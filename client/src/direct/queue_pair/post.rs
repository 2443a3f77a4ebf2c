//! Posting: an operation takes a slot, and the link takes its request.

use std::io::IoSlice;

use nearflash_direct::Status;
use nearflash_direct::client::{ClientOperation, SubmitError};
use nearflash_request::BufferId;

use super::super::buffer::Buffer;
use super::super::completion::{PostError, Token};
use super::super::error::{Error, LATE, Lost};
use super::super::handle::Handle;
use super::super::ring::Refused;
use super::super::slices::{Source, len_of};
use super::super::slots::Payload;
use super::{QueuePair, no_memory};

impl QueuePair {
    /// Reads at `offset` as many bytes as the buffer's length; both are in bytes and of any
    /// alignment.
    ///
    /// # Errors
    /// When the queue pair's depth is reached, the buffer is empty or too long, or the connection
    /// is lost. The error returns the buffer.
    #[inline]
    pub fn post_read_at(&mut self, buffer: Buffer, offset: u64) -> Result<Token, PostError> {
        self.post_read_on(self.target, buffer, offset)
    }

    /// [`Self::post_read_at`] on another volume or a sealed object.
    ///
    /// # Errors
    /// As [`Self::post_read_at`], and with [`Status::STALE_EPOCH`] when a seal could not be opened again
    /// after a reconnect: its owner gives a new one. The completion has this status when the seal was
    /// revoked.
    #[inline]
    pub fn post_read_on(
        &mut self,
        handle: Handle,
        buffer: Buffer,
        offset: u64,
    ) -> Result<Token, PostError> {
        let read = |buffer, len| ClientOperation::Read { buffer, offset, len };
        self.post_buffer(handle, buffer, read)
    }

    /// Writes the buffer at `offset`. The write is atomic for each logical block, and durable after
    /// a flush.
    ///
    /// # Errors
    /// As [`Self::post_read_at`].
    #[inline]
    pub fn post_write_at(&mut self, buffer: Buffer, offset: u64) -> Result<Token, PostError> {
        self.post_write_on(self.target, buffer, offset)
    }

    /// [`Self::post_write_at`] on another volume or a sealed object.
    ///
    /// # Errors
    /// As [`Self::post_read_on`].
    #[inline]
    pub fn post_write_on(
        &mut self,
        handle: Handle,
        buffer: Buffer,
        offset: u64,
    ) -> Result<Token, PostError> {
        self.post_buffer(handle, buffer, |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: false,
        })
    }

    /// [`Self::post_flush`] on another volume, or on the volume of a sealed object.
    ///
    /// # Errors
    /// As [`Self::post_flush`] and [`Self::post_read_on`].
    pub fn post_flush_on(&mut self, handle: Handle) -> Result<Token, Error> {
        let posted = self.post_on(handle, Payload::default(), |_| ClientOperation::Flush);
        posted.map_err(|(error, _)| error)
    }

    /// Writes the buffer at `offset`; the data is on stable media before the completion.
    ///
    /// # Errors
    /// As [`Self::post_read_at`].
    pub fn post_write_durable_at(
        &mut self,
        buffer: Buffer,
        offset: u64,
    ) -> Result<Token, PostError> {
        self.post_write_durable_on(self.target, buffer, offset)
    }

    /// [`Self::post_write_durable_at`] on another volume or a sealed object.
    ///
    /// # Errors
    /// As [`Self::post_read_on`].
    pub fn post_write_durable_on(
        &mut self,
        handle: Handle,
        buffer: Buffer,
        offset: u64,
    ) -> Result<Token, PostError> {
        self.post_buffer(handle, buffer, |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: true,
        })
    }

    /// [`Self::post_read_at`] with several buffers, one after the other; the completion returns
    /// them. It is one operation: its data is copied from the queue pair's memory.
    ///
    /// # Errors
    /// As [`Self::post_read_at`] for their common length, and when the memory shared with the node
    /// is used up. The error returns the buffers.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), nearflash::Error> {
    /// use nearflash::Buffer;
    ///
    /// # let client = nearflash::Client::connect("direct://a", nearflash::Credentials::NONE)?;
    /// # let mut pair = client.queue_pair("data", nearflash::QueueOptions::default())?;
    /// let (header, body) = (Buffer::new(64), Buffer::new(4096));
    /// pair.post_read_vectored_at(vec![header, body], 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn post_read_vectored_at(
        &mut self,
        buffers: Vec<Buffer>,
        offset: u64,
    ) -> Result<Token, PostError<Vec<Buffer>>> {
        match self.own_buffer(len_of(buffers.iter().map(|it| &**it))) {
            Ok(own) => self.post_parts(own, buffers, |buffer, len| ClientOperation::Read {
                buffer,
                offset,
                len,
            }),
            Err(error) => Err(PostError { error, buffer: buffers }),
        }
    }

    /// [`Self::post_write_at`] with several buffers, one after the other; the completion returns
    /// them. It is one operation: a block is written at once, also if several buffers have parts of
    /// it. Its data is copied to the queue pair's memory.
    ///
    /// # Errors
    /// As [`Self::post_read_vectored_at`].
    pub fn post_write_vectored_at(
        &mut self,
        buffers: Vec<Buffer>,
        offset: u64,
    ) -> Result<Token, PostError<Vec<Buffer>>> {
        let mut own = match self.own_buffer(len_of(buffers.iter().map(|it| &**it))) {
            Ok(own) => own,
            Err(error) => return Err(PostError { error, buffer: buffers }),
        };
        let slices: Vec<IoSlice<'_>> = buffers.iter().map(|it| IoSlice::new(it)).collect();
        Source::Slices(&slices).copy(0, &mut own);
        self.post_parts(own, buffers, |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: false,
        })
    }

    /// Writes `len` zeroes at `offset`, as [`Self::post_write_at`] does. A range of whole blocks,
    /// shorter than 4 GiB, is zeroed by the node, which may release its storage. Of other ranges,
    /// and by a node of an older version ([`Self::can_zero`]), the zeroes are sent.
    ///
    /// # Errors
    /// As [`Self::post_discard`]; if the zeroes are sent, also when they are longer than
    /// [`Self::len_max`], or the memory shared with the node is used up.
    pub fn post_write_zeroes(&mut self, offset: u64, len: u64) -> Result<Token, Error> {
        let block_size = self.handles.block_size_of(self.target).unwrap_or(self.block_size());
        let block_size = u64::from(block_size);
        let is_whole = offset.is_multiple_of(block_size) && len.is_multiple_of(block_size);
        if is_whole && len > 0 && self.can_zero() {
            let len = u32::try_from(len).map_err(|_| self.length_refused(len))?;
            let operation = ClientOperation::Zero { offset, len, deallocate: true, durable: false };
            return self.post(Payload::default(), |_| operation).map_err(|(error, _)| error);
        }
        let short = usize::try_from(len).map_err(|_| self.length_refused(len))?;
        let mut own = self.own_buffer(short)?;
        // Shared memory holds the data of earlier operations.
        own.fill(0);
        let posted = self.post_parts(own, Vec::new(), |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: false,
        });
        Ok(posted?)
    }

    /// Makes every operation that completed before this post durable on stable media.
    ///
    /// # Errors
    /// When the queue pair's depth is reached, or the connection is lost.
    pub fn post_flush(&mut self) -> Result<Token, Error> {
        self.post(Payload::default(), |_| ClientOperation::Flush).map_err(|(error, _)| error)
    }

    /// Deallocates `len` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::post_flush`], and when the length is not valid for one operation.
    pub fn post_discard(&mut self, offset: u64, len: u64) -> Result<Token, Error> {
        let len = u32::try_from(len).map_err(|_| self.length_refused(len))?;
        let operation = ClientOperation::Discard { offset, len };
        self.post(Payload::default(), |_| operation).map_err(|(error, _)| error)
    }

    /// Replaces the little-endian 8-byte word at `offset` by `new` if it equals `expected`;
    /// completes with the previous word.
    ///
    /// # Errors
    /// As [`Self::post_flush`]. The node refuses an offset that is not a multiple of 8.
    pub fn post_compare_and_swap(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Result<Token, Error> {
        let operation = ClientOperation::CompareAndSwap { offset, expected, new, durable: false };
        self.post(Payload::default(), |_| operation).map_err(|(error, _)| error)
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴; completes with the previous
    /// word.
    ///
    /// # Errors
    /// As [`Self::post_compare_and_swap`].
    pub fn post_fetch_add(&mut self, offset: u64, addend: u64) -> Result<Token, Error> {
        let operation = ClientOperation::FetchAdd { offset, addend, durable: false };
        self.post(Payload::default(), |_| operation).map_err(|(error, _)| error)
    }

    /// A buffer that belongs to the queue pair.
    fn own_buffer(&mut self, len: usize) -> Result<Buffer, Error> {
        match u32::try_from(len) {
            Ok(short) if (1..=self.link.len_max()).contains(&short) => self.buffer(len),
            _ => Err(self.length_refused(wide(len))),
        }
    }

    #[inline]
    fn post_buffer(
        &mut self,
        handle: Handle,
        buffer: Buffer,
        operation: impl FnOnce(BufferId, u32) -> ClientOperation,
    ) -> Result<Token, PostError> {
        let Ok(len) = u32::try_from(buffer.len()) else {
            return Err(PostError { error: self.length_refused(wide(buffer.len())), buffer });
        };
        let posted = self.post_on(handle, buffer.into(), |slot| operation(slot, len));
        posted.map_err(|(error, payload)| PostError {
            error,
            buffer: payload.buffer.expect("it comes back"),
        })
    }

    /// Posts an operation on the queue pair's own buffer, on behalf of the caller's.
    fn post_parts(
        &mut self,
        own: Buffer,
        parts: Vec<Buffer>,
        operation: impl FnOnce(BufferId, u32) -> ClientOperation,
    ) -> Result<Token, PostError<Vec<Buffer>>> {
        let len = u32::try_from(own.len()).expect("the length of one operation");
        let payload = Payload { buffer: Some(own), parts: Some(parts) };
        self.post(payload, |slot| operation(slot, len)).map_err(|(error, payload)| PostError {
            error,
            buffer: payload.parts.expect("they come back"),
        })
    }

    /// Posts an operation. When no other operation is in flight, the doorbell rings at once, since
    /// the caller waits for this one. Otherwise the next poll rings it for many: a caller that has
    /// just received many completions is about to post as many, and the first of them is not sent
    /// alone.
    #[inline]
    #[allow(clippy::result_large_err, reason = "inlined, and taken apart at once")]
    fn post(
        &mut self,
        payload: Payload,
        operation: impl FnOnce(BufferId) -> ClientOperation,
    ) -> Result<Token, (Error, Payload)> {
        self.post_on(self.target, payload, operation)
    }

    /// Posts an operation on the object of a handle.
    #[inline]
    #[allow(clippy::result_large_err, reason = "inlined, and taken apart at once")]
    fn post_on(
        &mut self,
        handle: Handle,
        payload: Payload,
        operation: impl FnOnce(BufferId) -> ClientOperation,
    ) -> Result<Token, (Error, Payload)> {
        if let Some(lost) = self.lost {
            return Err((Error::ConnectionLost(lost), payload));
        }
        if self.is_late() {
            return Err((LATE, payload));
        }
        let Some(slot) = self.link.slots().next() else {
            return Err((self.full(), payload));
        };
        let of_node = match self.handles.of_node(handle) {
            Ok(of_node) => of_node,
            Err(status) => return Err((Error::Status(status), payload)),
        };
        let work = (operation(slot), handle);
        let token = self.link.slots_mut().fill(work, payload, self.deadline);
        if let Err(refused) = self.link.submit(of_node, slot) {
            let ended = self.link.slots_mut().empty(slot);
            return Err((self.refused(refused, &ended.operation), ended.payload));
        }
        self.watch_deadline();
        self.unsent += 1;
        if self.link.slots().in_flight() == 1 && !self.is_in_burst {
            self.ring_doorbell();
        }
        Ok(Token(token))
    }

    fn full(&self) -> Error {
        Error::QueueFull { depth: self.link.slots().in_flight() }
    }

    fn length_refused(&self, len: u64) -> Error {
        Error::Length { len, max: u64::from(self.link.len_max()) }
    }

    #[cold]
    fn refused(&self, refused: Refused, operation: &ClientOperation) -> Error {
        let refused = match refused {
            Refused::Session(refused) => refused,
            Refused::NoMemory { len } => return no_memory(len),
        };
        match refused {
            SubmitError::NoCredit => self.full(),
            SubmitError::Length(_) => match operation {
                ClientOperation::Read { len, .. }
                | ClientOperation::Write { len, .. }
                | ClientOperation::Discard { len, .. }
                | ClientOperation::Zero { len, .. } => self.length_refused(u64::from(*len)),
                _ => self.length_refused(0),
            },
            SubmitError::NotAgreed => Error::Status(Status::INVALID_OPCODE),
            SubmitError::NotOpen => Error::Status(Status::NO_SUCH_VOLUME),
            SubmitError::NotConnected | SubmitError::WrongTransport => {
                Error::ConnectionLost(self.lost.unwrap_or(Lost::Closed))
            }
        }
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("usize is at most 64 bits wide")
}
