//! From bytes to completions: the loop over received bytes, and the messages that each state
//! allows.

use nearflash_session::{Head, RequestingEnd, offset};

use super::{ClientSession, State};
use crate::error::PeerError;
use crate::stream::{begin_segment, header};
use crate::wire::{AnswerHeader, HEADER_LEN, Opcode};

/// The destination of the payload of the current answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    /// There is no payload.
    Drop,
    /// To the session's own bytes.
    Small(AnswerHeader),
    /// To the buffer of a read, or of a request for digests.
    Read {
        tag: u16,
        /// The offset of the next byte in the buffer.
        at: usize,
        /// Nothing more comes for this request.
        is_last: bool,
    },
}

impl ClientSession {
    #[inline]
    pub(super) fn take_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            if !self.stream.body.is_over() && !self.consume_payload(&mut rest)? {
                break;
            }
            if self.is_closing() {
                break;
            }
            let Some(head) = self.stream.take_head(&mut rest)? else { break };
            match head {
                Head::InPlace(head) => self.dispatch(header(head))?,
                Head::Gathered => self.dispatch(&self.stream.gathered())?,
            }
        }
        Ok(bytes.len() - rest.len())
    }

    #[inline]
    fn dispatch(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header: &AnswerHeader = zerocopy::transmute_ref!(head);
        let opcode = Opcode(header.opcode);
        if let State::Ready = self.state {
            if opcode == Opcode::READ.answer() {
                return self.on_read_answer(header);
            }
            if opcode == Opcode::DIGEST.answer() {
                return self.on_digest_answer(header);
            }
            if is_about_a_volume(opcode) {
                return self.on_answer(header);
            }
        }
        match (&self.state, opcode.asked()) {
            (_, Some(Opcode::GOODBYE)) => Err(PeerError::Goodbye(header.status())),
            (State::AwaitingHello(_), Some(Opcode::HELLO))
            | (State::AwaitingProof(_), Some(Opcode::PROVE))
            | (State::Ready, Some(_)) => self.begin_small(header),
            (State::AwaitingHello(_), _) => Err(PeerError::NotDirect),
            _ => Err(PeerError::Sequence(opcode)),
        }
    }

    /// Handles an answer to a message of the session; its payload is gathered first.
    fn begin_small(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        let len = header.len.get();
        let opcode = Opcode(header.opcode);
        if len > opcode.payload_len_max() {
            return Err(PeerError::HeaderField { opcode, offset: offset!(AnswerHeader, len) });
        }
        if len == 0 {
            return self.on_small(header, &[]);
        }
        self.small.clear();
        self.sink = Sink::Small(*header);
        begin_segment(&mut self.stream, len);
        Ok(())
    }

    /// Takes the current answer's payload in `rest`; `false` if more is needed, or a buffer.
    #[inline]
    fn consume_payload(&mut self, rest: &mut &[u8]) -> Result<bool, PeerError> {
        if self.stream.body.data_left() > 0 {
            match self.sink {
                Sink::Read { .. } => return Ok(false),
                Sink::Small(_) => {
                    let data = self.stream.body.take_data(rest);
                    self.small.extend_from_slice(data);
                }
                Sink::Drop => unreachable!("payload is announced for somebody"),
            }
        }
        if !self.stream.body.take_end(rest) {
            return Ok(false);
        }
        match self.sink {
            Sink::Read { tag, is_last, .. } => self.end_part(tag, is_last),
            Sink::Small(header) => self.end_small(&header)?,
            Sink::Drop => {}
        }
        Ok(true)
    }

    fn end_small(&mut self, header: &AnswerHeader) -> Result<(), PeerError> {
        self.sink = Sink::Drop;
        if self.stream.body.damage().is_some() {
            return Err(PeerError::DataDigest(Opcode(header.opcode)));
        }
        let payload = std::mem::take(&mut self.small);
        let handled = self.on_small(header, &payload);
        self.small = payload;
        handled
    }

    fn on_small(&mut self, header: &AnswerHeader, payload: &[u8]) -> Result<(), PeerError> {
        match (&self.state, Opcode(header.opcode).asked()) {
            (State::AwaitingHello(_), _) => self.on_hello(header, payload),
            (State::AwaitingProof(_), _) => self.on_prove(payload),
            _ => self.on_session_answer(header, payload),
        }
    }
}

#[inline]
fn is_about_a_volume(answer: Opcode) -> bool {
    matches!(
        answer.asked(),
        Some(
            Opcode::READ
                | Opcode::WRITE
                | Opcode::FLUSH
                | Opcode::DISCARD
                | Opcode::ZERO
                | Opcode::COMPARE_AND_SWAP
                | Opcode::FETCH_ADD
        )
    )
}
