//! The records of a connection whose socket speaks TLS.
//!
//! Spec: RFC 8446, 5 and 6. A turn encrypts the session's output in batches of full records, and
//! decrypts input into the payload's buffer and the staging buffer. Payload is not received by
//! forecast: the library decrypts into memory of its own and copies from there in any case.
//!
//! A batch leaves the session when it is encrypted, so the session may release the batch's payload.
//! Invariants: a batch is encrypted only when every record before it was sent, so a connection holds
//! at most one; input is received only when all held input was decrypted.

use std::io;
use std::os::fd::BorrowedFd;

use nearflash_session::Chunk;
use nearflash_tls::{Failure, Opened, RECORD_LEN, Stream};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Memory;
use super::error::{LinkError, taken};
use super::received::Received;

/// The maximum number of bytes that one call receives.
const INPUT_LEN: usize = 128 * 1024;
/// The maximum plaintext of one batch.
pub(super) const BATCH_LEN: usize = 16 * RECORD_LEN;

/// The records of one connection.
pub(super) struct Secured {
    stream: Box<Stream>,
    /// Received records.
    input: Box<[u8]>,
    /// Gathers plaintext that is shorter than a record.
    record: Vec<u8>,
    /// The records to send, of which `sent` bytes were.
    records: Vec<u8>,
    sent: usize,
}

impl Secured {
    pub(super) fn new(stream: Box<Stream>) -> Self {
        let input = vec![0; INPUT_LEN].into_boxed_slice();
        let record = Vec::with_capacity(RECORD_LEN);
        Self { stream, input, record, records: Vec::new(), sent: 0 }
    }

    /// Whether plaintext can be received without anything arriving.
    pub(super) fn holds_input(&self) -> bool {
        self.stream.holds_input()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.records.len() || !self.stream.output().is_empty()
    }

    #[cfg(test)]
    pub(super) fn unsent_len(&self) -> usize {
        self.records.len() - self.sent + self.stream.output().len()
    }

    /// Sends the encrypted records. Returns whether all were sent.
    pub(super) fn send_records<P>(&mut self, socket: BorrowedFd<'_>) -> Result<bool, LinkError<P>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while self.has_unsent() {
            if self.sent == self.records.len() {
                self.records.clear();
                let spare = std::mem::take(&mut self.records);
                (self.records, self.sent) = (self.stream.take_output(spare), 0);
            }
            match taken(send(socket, &self.records[self.sent..], flags))? {
                Some(sent) => self.sent += sent,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Encrypts the beginning of the output. Returns its length.
    pub(super) fn seal_batch<'a>(
        &mut self,
        chunks: impl Iterator<Item = Chunk<'a>>,
        memory: &impl Memory,
    ) -> Result<usize, Failure> {
        let mut room = BATCH_LEN;
        for chunk in chunks {
            let bytes = match chunk {
                Chunk::Bytes(bytes) => bytes,
                Chunk::Buffer { buffer, offset, len } => &memory.bytes(buffer)[offset..][..len],
                Chunk::Zeroes(_) => unreachable!("a requesting end never sends a run of zeroes"),
            };
            let bytes = &bytes[..bytes.len().min(room)];
            self.gather(bytes)?;
            room -= bytes.len();
            if room == 0 {
                break;
            }
        }
        self.seal_gathered()?;
        Ok(BATCH_LEN - room)
    }

    fn gather(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if self.record.is_empty() && bytes.len() >= RECORD_LEN {
                // Full records need not be gathered.
                let (now, later) = bytes.split_at(bytes.len() - bytes.len() % RECORD_LEN);
                self.stream.seal(now)?;
                bytes = later;
                continue;
            }
            let room = RECORD_LEN - self.record.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.record.extend_from_slice(now);
            bytes = later;
            if self.record.len() == RECORD_LEN {
                self.seal_gathered()?;
            }
        }
        Ok(())
    }

    fn seal_gathered(&mut self) -> Result<(), Failure> {
        let sealed = self.stream.seal(&self.record);
        self.record.clear();
        sealed
    }

    /// Receives once, and decrypts into both parts. Returns the length of the plaintext, and whether
    /// the socket has no more data for now; `None` when nothing has arrived.
    pub(super) fn receive<P>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: [&mut [u8]; 2],
    ) -> Result<Option<Received>, LinkError<P>> {
        let (len, is_all) = if self.stream.holds_input() {
            (0, false)
        } else {
            let received = recv(socket, &mut *self.input, RecvFlags::DONTWAIT);
            match taken(received.map(|(len, _)| len))? {
                None => return Ok(None),
                // An end without the alert close_notify is one, too: the session knows whether it
                // lacks an answer.
                Some(0) => return Err(LinkError::Closed),
                Some(len) => (len, len < self.input.len()),
            }
        };
        match self.stream.open(&self.input[..len], parts) {
            Ok(Opened::Bytes(len)) => {
                Ok(Some(Received { len, is_all: is_all && !self.stream.holds_input() }))
            }
            Ok(Opened::Closed) => Err(LinkError::Closed),
            Err(failure) => {
                // The other end learns the reason from an alert, if there is room for it.
                let _ = self.send_records::<P>(socket);
                Err(broken(failure))
            }
        }
    }

    /// Tells the other end that nothing follows, if there is room for that.
    pub(super) fn close(&mut self, socket: BorrowedFd<'_>) {
        self.stream.close();
        let _ = self.send_records::<()>(socket);
    }
}

/// The records are wrong, or the other end has reported that ours are.
pub(super) fn broken<P>(failure: Failure) -> LinkError<P> {
    LinkError::Socket(io::Error::new(io::ErrorKind::InvalidData, failure))
}
