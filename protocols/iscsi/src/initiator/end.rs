//! The session as its driver sees it.

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Data, Head, PayloadPart, Receiving, RequestingEnd};

use super::{InitiatorSession, Sink, State};
use crate::Digests;
use crate::error::PeerError;
use crate::framer::basic_header;
use crate::length;
use crate::pdu::HEADER_LEN;

impl RequestingEnd for InitiatorSession {
    type PeerError = PeerError;
    /// The length of the basic header segment of a Data-In PDU.
    const HEADER_LEN: usize = HEADER_LEN;

    #[inline]
    fn receiving(&self) -> Receiving {
        if self.framer.body.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.is_closing() {
            return Receiving::Paused;
        }
        let Sink::Task { id, .. } = self.sink else { return Receiving::Bytes };
        let slot = &self.posted[id.0];
        match (&slot.data, self.framer.body.data_left()) {
            (_, 0) => Receiving::Bytes,
            (Data::Incoming(buffer), len) => {
                Receiving::Payload { buffer: *buffer, offset: length(slot.moved), len }
            }
            _ => Receiving::Bytes,
        }
    }

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            if !self.framer.body.is_over() && !self.consume_body(&mut rest)? {
                break;
            }
            if self.is_paused() {
                break;
            }
            let head = match self.framer.take_head(&mut rest) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(error) => return Err(self.fail(error)),
            };
            match head {
                Head::InPlace(head) => self.dispatch(basic_header(head))?,
                Head::Gathered => self.dispatch(basic_header(&self.framer.gathered()))?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        let Sink::Task { id, completes } = self.sink else {
            unreachable!("payload comes only when awaited")
        };
        debug_assert!(matches!(self.posted[id.0].data, Data::Incoming(_)), "not for a buffer");
        self.framer.body.count_data(bytes);
        self.count_received(id, bytes.len());
        if self.framer.body.is_over() {
            self.sink = Sink::Skipped;
            self.end_data(id, completes);
        }
    }

    #[inline]
    fn wants_payload(&self) -> Option<PayloadPart> {
        self.pending_payload()
    }

    fn provide_payload(&mut self, bytes: &[u8]) {
        self.push_pending(bytes);
    }

    fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output.chunks()
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }

    #[inline]
    fn advance_output(&mut self, sent: usize) {
        self.output.advance(sent, &mut |_: BufferId| {});
        self.posted.sent(self.output.position());
    }

    fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing)
    }

    #[inline]
    fn has_digests(&self) -> bool {
        self.digests() != Digests::NONE
    }
}
