//! The session as its driver sees it. Payload is digested when it is submitted.

use nearflash_session::{Chunk, Data, Receiving, RequestingEnd};

use super::input::Sink;
use super::{ClientSession, State};
use crate::Digests;
use crate::error::PeerError;
use crate::wire::HEADER_LEN;

impl RequestingEnd for ClientSession {
    type PeerError = PeerError;
    const HEADER_LEN: usize = HEADER_LEN;

    #[inline]
    fn receiving(&self) -> Receiving {
        if self.is_closing() {
            return Receiving::Paused;
        }
        let left = self.stream.body.data_left();
        match self.sink {
            Sink::Read { tag, at, .. } if left > 0 => {
                let Data::Incoming(buffer) = self.posted[tag].data else {
                    panic!("a read has a buffer")
                };
                let offset = self.posted[tag].answer.buffer_offset + at;
                Receiving::Payload { buffer, offset, len: left }
            }
            _ => Receiving::Bytes,
        }
    }

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        self.take_input(bytes).map_err(|error| self.terminate(error))
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        self.stream.body.count_data(bytes);
        let Sink::Read { tag, at, is_last } = &mut self.sink else {
            panic!("payload comes only when awaited")
        };
        *at += bytes.len();
        let (tag, is_last) = (*tag, *is_last);
        if self.stream.body.is_over() {
            self.end_part(tag, is_last);
        }
    }

    #[inline]
    fn output(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.output.chunks()
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }

    #[inline]
    fn advance_output(&mut self, sent: usize) {
        self.output.advance(sent, &mut |_| {});
        self.posted.sent(self.output.position());
    }

    fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing)
    }

    #[inline]
    fn has_digests(&self) -> bool {
        self.agreed().is_none_or(|agreed| agreed.digests != Digests::NONE)
    }
}
