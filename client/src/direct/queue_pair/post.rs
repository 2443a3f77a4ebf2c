//! Posting: an operation takes a slot, and the link takes its request.

use nearflash_direct::Status;
use nearflash_direct::client::{ClientOperation, SubmitError};
use nearflash_request::BufferId;

use super::super::buffer::Buffer;
use super::super::completion::{PostError, Token};
use super::super::error::{Error, Lost};
use super::super::ring::Refused;
use super::super::slots::Slot;
use super::{QueuePair, no_memory};

impl QueuePair {
    /// Reads at `offset` as many bytes as the buffer's length; both are in bytes and of any
    /// alignment.
    ///
    /// # Errors
    /// When the queue pair's depth is reached, the buffer is empty or too long, or the connection
    /// is lost. The error returns the buffer.
    #[inline]
    pub fn post_read(&mut self, buffer: Buffer, offset: u64) -> Result<Token, PostError> {
        self.post_buffer(buffer, |buffer, len| ClientOperation::Read { buffer, offset, len })
    }

    /// Writes the buffer at `offset`. The write is atomic for each logical block, and durable after
    /// a flush.
    ///
    /// # Errors
    /// As [`Self::post_read`].
    #[inline]
    pub fn post_write(&mut self, buffer: Buffer, offset: u64) -> Result<Token, PostError> {
        self.post_buffer(buffer, |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: false,
        })
    }

    /// Writes the buffer at `offset`; the data is on stable media before the completion.
    ///
    /// # Errors
    /// As [`Self::post_read`].
    pub fn post_write_durable(&mut self, buffer: Buffer, offset: u64) -> Result<Token, PostError> {
        self.post_buffer(buffer, |buffer, len| ClientOperation::Write {
            buffer,
            offset,
            len,
            durable: true,
        })
    }

    /// Makes every operation that completed before this post durable on stable media.
    ///
    /// # Errors
    /// When the queue pair's depth is reached, or the connection is lost.
    pub fn post_flush(&mut self) -> Result<Token, Error> {
        self.post(None, |_| ClientOperation::Flush).map_err(|(error, _)| error)
    }

    /// Deallocates `len` bytes at `offset`, whose contents are no longer needed; the device
    /// releases whole blocks of them. They read as before or as zeroes.
    ///
    /// # Errors
    /// As [`Self::post_flush`], and when the length is not valid for one operation.
    pub fn post_discard(&mut self, offset: u64, len: u64) -> Result<Token, Error> {
        let len = u32::try_from(len).map_err(|_| self.length_refused(len))?;
        let operation = ClientOperation::Discard { offset, len };
        self.post(None, |_| operation).map_err(|(error, _)| error)
    }

    /// Zeroes `len` bytes at `offset`, both in whole logical blocks, without sending any bytes. The
    /// node may release the storage of the blocks. As durable as a write.
    ///
    /// # Errors
    /// As [`Self::post_discard`], and when the node cannot do this ([`Self::can_zero`]). The node
    /// refuses parts of blocks.
    pub fn post_write_zeroes(&mut self, offset: u64, len: u64) -> Result<Token, Error> {
        let len = u32::try_from(len).map_err(|_| self.length_refused(len))?;
        let operation = ClientOperation::Zero { offset, len, deallocate: true, durable: false };
        self.post(None, |_| operation).map_err(|(error, _)| error)
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
        self.post(None, |_| operation).map_err(|(error, _)| error)
    }

    /// Adds to the little-endian 8-byte word at `offset`, modulo 2⁶⁴; completes with the previous
    /// word.
    ///
    /// # Errors
    /// As [`Self::post_compare_and_swap`].
    pub fn post_fetch_add(&mut self, offset: u64, addend: u64) -> Result<Token, Error> {
        let operation = ClientOperation::FetchAdd { offset, addend, durable: false };
        self.post(None, |_| operation).map_err(|(error, _)| error)
    }

    #[inline]
    fn post_buffer(
        &mut self,
        buffer: Buffer,
        operation: impl FnOnce(BufferId, u32) -> ClientOperation,
    ) -> Result<Token, PostError> {
        let Ok(len) = u32::try_from(buffer.len()) else {
            let len = u64::try_from(buffer.len()).expect("usize is at most 64 bits wide");
            let error = self.length_refused(len);
            return Err(PostError { error, buffer });
        };
        self.post(Some(buffer), |slot| operation(slot, len))
            .map_err(|(error, buffer)| PostError { error, buffer: buffer.expect("it comes back") })
    }

    /// Posts an operation. When no other operation is in flight, the doorbell rings at once, since
    /// the caller waits for this one. Otherwise the next poll rings it for many: a caller that has
    /// just received many completions is about to post as many, and the first of them is not sent
    /// alone.
    #[inline]
    fn post(
        &mut self,
        buffer: Option<Buffer>,
        operation: impl FnOnce(BufferId) -> ClientOperation,
    ) -> Result<Token, (Error, Option<Buffer>)> {
        if let Some(lost) = self.lost {
            return Err((Error::ConnectionLost(lost), buffer));
        }
        let Some(slot) = self.link.slots().next() else {
            return Err((self.full(), buffer));
        };
        let token = self.link.slots_mut().fill(operation(slot), buffer);
        if let Err(refused) = self.link.submit(self.volume.handle, slot) {
            let Slot { operation, buffer, .. } = self.link.slots_mut().empty(slot);
            return Err((self.refused(refused, &operation), buffer));
        }
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
