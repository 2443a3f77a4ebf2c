//! One end of a connection, with its memory.

use nearflash_request::{Completion, Payload, Request};

use super::{Memory, Volume};
use crate::receiving::Receiving;
use crate::requesting::RequestingEnd;
use crate::serving::ServingEnd;

/// A serving end, its buffers, and the error that ended it.
#[derive(Debug)]
pub struct Serving<S: ServingEnd> {
    /// The session.
    pub session: S,
    /// Its buffers.
    pub memory: Memory,
    /// Its error.
    pub error: Option<S::PeerError>,
}

/// A requesting end, its buffers, and the error that ended it.
#[derive(Debug)]
pub struct Requesting<R: RequestingEnd> {
    /// The session.
    pub session: R,
    /// Its buffers.
    pub memory: Memory,
    /// Its error.
    pub error: Option<R::PeerError>,
}

/// One step of receiving: the number of consumed bytes; `None` if the session is paused or fails.
macro_rules! receive {
    ($end:ident, $bytes:ident) => {
        match $end.session.receiving() {
            Receiving::Paused => None,
            _ if $bytes.is_empty() => Some(0),
            Receiving::Bytes => match $end.session.handle_input($bytes) {
                Ok(taken) => Some(taken),
                Err(error) => {
                    assert!($end.session.is_closing(), "an error ends the session");
                    $end.error = Some(error);
                    None
                }
            },
            Receiving::Payload { buffer, offset, len } => {
                let part = $end.memory.receive((buffer, offset, len), $bytes);
                $end.session.handle_payload(part);
                Some(part.len())
            }
        }
    };
}

impl<S: ServingEnd> Serving<S> {
    /// A session that has no buffer.
    pub fn new(session: S) -> Self {
        Self { session, memory: Memory::default(), error: None }
    }

    /// Passes in the next bytes of a stream. Returns the number of consumed bytes; `None` if the
    /// session is paused, or fails.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<usize> {
        receive!(self, bytes)
    }

    /// Provides the buffer that the session waits for. Returns `false` if the session waits for no buffer.
    pub fn provide_buffer(&mut self) -> bool {
        let wanted = self.session.wants_buffer();
        if let Some(len) = wanted {
            let buffer = self.memory.take(len.to_usize());
            self.session.provide_buffer(buffer);
        }
        wanted.is_some()
    }

    /// Completes a request.
    pub fn complete(&mut self, request: Request, volume: &mut Volume) {
        let done = volume.complete(request, &mut self.memory);
        self.handle_completion(done);
    }

    /// Passes in the completion of a request.
    pub fn handle_completion(&mut self, done: Completion) {
        let bytes = match done.payload {
            Payload::Buffer(buffer) if self.session.wants_payload_bytes() => {
                self.memory.bytes(buffer)
            }
            _ => &[],
        };
        self.session.handle_completion(done, bytes);
    }

    /// Takes at most `len` bytes of the session's output.
    pub fn take_output(&mut self, len: usize) -> Vec<u8> {
        let mut stream = Vec::new();
        self.session.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.session.output_len());
        stream.truncate(len);
        let memory = &mut self.memory;
        self.session.advance_output(stream.len(), &mut |buffer| memory.give_back(buffer));
        stream
    }

    /// Closes the connection, while the engine still has these requests. No buffer may be missing.
    pub fn end(mut self, requests: impl IntoIterator<Item = Request>, volume: &mut Volume) {
        let memory = &mut self.memory;
        self.session.release_all(&mut |buffer| memory.give_back(buffer));
        for request in requests {
            if let Payload::Buffer(buffer) = volume.complete(request, &mut self.memory).payload {
                self.memory.give_back(buffer);
            }
        }
        assert_eq!(self.memory.taken(), 0, "every buffer is given back");
    }
}

impl<R: RequestingEnd> Requesting<R> {
    /// A session that has no buffer.
    pub fn new(session: R) -> Self {
        Self { session, memory: Memory::default(), error: None }
    }

    /// Passes in the next bytes of a stream. Returns the number of consumed bytes; `None` if the
    /// session is paused, or fails.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<usize> {
        receive!(self, bytes)
    }

    /// Takes at most `len` bytes of the session's output.
    pub fn take_output(&mut self, len: usize) -> Vec<u8> {
        while let Some(part) = self.session.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..][..part.len];
            self.session.provide_payload(bytes);
        }
        let mut stream = Vec::new();
        self.session.output().for_each(|chunk| self.memory.append(&mut stream, chunk));
        assert_eq!(stream.len(), self.session.output_len());
        stream.truncate(len);
        self.session.advance_output(stream.len());
        stream
    }
}
