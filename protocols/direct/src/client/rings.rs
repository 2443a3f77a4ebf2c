//! Requests over rings: headers are entries, and payload is in a data area that the node shares.

use nearflash_session::Posted;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::config::{ClientEvent, RequestTag, SubmitError, VolumeHandle};
use super::operation::ClientOperation;
use super::volumes::Asked;
use super::{ClientSession, Transport};
use crate::error::PeerError;
use crate::stream::bytes_of;
use crate::wire::{AnswerHeader, AttachRequest, HEADER_LEN, Opcode, Status};

impl ClientSession {
    /// Requests rings of `entries` entries, a power of two, and a data area whose length is a
    /// multiple of 4 KiB. [`ClientEvent::Attached`] reports the answer. It must be called while
    /// nothing is in flight.
    ///
    /// # Errors
    /// When the session is not connected, something is in flight, or the node offers none.
    pub fn attach(&mut self, entries: u32, data_len: u64) -> Result<(), SubmitError> {
        let is_offered = self.agreed.is_some_and(|agreed| agreed.rings);
        if !is_offered || self.transport != Transport::Stream || self.posted.in_use() > 0 {
            return Err(SubmitError::WrongTransport);
        }
        let request = AttachRequest {
            entries: U32::new(entries),
            reserved: U32::new(0),
            data_len: U64::new(data_len),
        };
        self.ask(Opcode::ATTACH, 0, request.as_bytes(), Asked::Attach { entries })?;
        self.transport = Transport::Changing;
        Ok(())
    }

    pub(super) fn attached(&mut self, entries: u32, status: Status) {
        self.transport = if status.is_ok() { Transport::Rings } else { Transport::Stream };
        if status.is_ok() {
            // Nothing was submitted since the request for rings, so these slots are empty.
            if let Some(agreed) = &mut self.agreed {
                agreed.credits_max = agreed.credits_max.min(entries);
                self.credits = self.credits.min(entries);
                self.posted = Posted::new(agreed.slots());
            }
        }
        let result = if status.is_ok() { Ok(()) } else { Err(status) };
        self.events.push_back(ClientEvent::Attached(result));
    }

    /// The entry of a request for the submission ring. The payload, or the operands of an atomic
    /// operation ([`ClientOperation::operands`]), must be at `place` in the data area from before
    /// this call until the request completes.
    ///
    /// # Errors
    /// When the request was not accepted.
    #[inline]
    pub fn submit_entry(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        place: u32,
    ) -> Result<(RequestTag, [u8; HEADER_LEN]), SubmitError> {
        if self.transport != Transport::Rings {
            return Err(SubmitError::WrongTransport);
        }
        let (tag, header) = self.prepare(volume, operation, place)?;
        Ok((tag, bytes_of(header.to_words())))
    }

    /// Handles an entry that was copied out of the completion ring. A session that is closing
    /// ignores it.
    ///
    /// # Errors
    /// When the node violated the protocol: the session is closing.
    #[inline]
    pub fn handle_entry(&mut self, entry: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        if !self.is_ready() {
            return Ok(());
        }
        let header: AnswerHeader = zerocopy::transmute!(*entry);
        self.on_answer(&header).map_err(|error| self.terminate(error))
    }
}
