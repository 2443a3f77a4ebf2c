//! The session as its driver sees it.

use nearflash_request::BufferId;
use nearflash_session::{Chunk, Data, Head, PayloadPart, Receiving, RequestingEnd};

use super::{HostSession, State};
use crate::digest::Digests;
use crate::error::PeerError;
use crate::length;

impl RequestingEnd for HostSession {
    type PeerError = PeerError;
    /// The length of a C2HData header without digest.
    const HEADER_LEN: usize = 24;

    #[inline]
    fn receiving(&self) -> Receiving {
        if self.framer.body.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.state == State::Closing {
            return Receiving::Paused;
        }
        let Some(sink) = self.sink.filter(|_| self.framer.body.data_is_next()) else {
            return Receiving::Bytes;
        };
        let command = &self.posted[sink.cid];
        match command.data {
            Data::Incoming(buffer) => Receiving::Payload {
                buffer,
                offset: length(command.moved),
                len: self.framer.body.data_left(),
            },
            _ => Receiving::Bytes,
        }
    }

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            if !self.framer.body.is_over() && !self.consume_body(&mut rest) {
                break;
            }
            if self.is_paused() {
                break;
            }
            let head = match self.framer.take_head(&mut rest) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(error) => return Err(self.refuse_head(error, rest)),
            };
            match head {
                Head::InPlace(head) => self.dispatch(head)?,
                Head::Gathered => self.dispatch(&self.framer.gathered())?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        let sink = self.sink.expect("payload comes only when awaited");
        debug_assert!(matches!(self.posted[sink.cid].data, Data::Incoming(_)), "not for a buffer");
        self.framer.body.count_data(bytes);
        self.count_received(sink.cid, bytes.len());
        if self.framer.body.is_over() {
            self.end_body();
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

    #[inline]
    fn output_len(&self) -> usize {
        self.output.len()
    }

    #[inline]
    fn advance_output(&mut self, sent: usize) {
        self.output.advance(sent, &mut |_: BufferId| {});
        self.posted.sent(self.output.position());
    }

    fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    #[inline]
    fn has_digests(&self) -> bool {
        self.digests() != Digests::NONE
    }
}
