//! From bytes to handlers: the loop over received bytes, and the messages that each state allows.

use nearflash_session::{Head, offset};

use super::data::Sink;
use super::{OUTPUT_BYTES_MAX, State, TargetSession};
use crate::error::PeerError;
use crate::stream::header;
use crate::wire::{HEADER_LEN, Opcode, RequestHeader, Status};

impl TargetSession {
    #[inline]
    pub(super) fn take_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            if !self.incoming.is_over() && !self.consume_payload(&mut rest)? {
                break;
            }
            if self.is_paused() {
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

    /// Whether no more input is taken until output was sent or a demand was answered, or never
    /// again.
    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        // More parts than the answers to all requests can have. The limit in bytes bounds messages
        // that never have a slot.
        self.output.exceeds(16 * self.slots.count() + 16, OUTPUT_BYTES_MAX)
            || matches!(
                self.state,
                State::Closing
                    | State::Attaching(..)
                    | State::Claiming(..)
                    | State::Sealing(..)
                    | State::Proving(_)
            )
    }

    /// One header. Its payload, if any, is still to come.
    #[inline]
    fn dispatch(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header: &RequestHeader = zerocopy::transmute_ref!(head);
        let opcode = Opcode(header.opcode);
        if let State::Ready(_) = self.state {
            return match opcode {
                Opcode::READ => self.on_read(header),
                Opcode::WRITE => self.on_write(header),
                _ => self.on_other(header),
            };
        }
        match (&self.state, opcode) {
            (State::AwaitingHello, Opcode::HELLO) | (State::AwaitingProof(_), Opcode::PROVE) => {
                self.begin_small(header)
            }
            (State::AwaitingHello, _) => Err(PeerError::NotDirect),
            (_, Opcode::GOODBYE) => Err(goodbye(header)),
            _ => Err(PeerError::Sequence(opcode)),
        }
    }

    /// Everything except reads and writes, from an admitted client.
    fn on_other(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        let opcode = Opcode(header.opcode);
        match opcode {
            Opcode::FLUSH | Opcode::DISCARD | Opcode::ZERO => self.on_plain(header),
            Opcode::COMPARE_AND_SWAP | Opcode::FETCH_ADD | Opcode::DIGEST => {
                self.check_transport(opcode)?;
                self.begin_small(header)
            }
            Opcode::OPEN
            | Opcode::ATTACH
            | Opcode::CLAIM
            | Opcode::OPEN_SEALED
            | Opcode::REVOKE
            | Opcode::FILES => self.begin_small(header),
            Opcode::CLOSE => self.on_close(header),
            Opcode::SEAL_KEY => self.on_seal_key(header),
            Opcode::PING => {
                self.answer_session(header, Status::OK, 0, &[]);
                Ok(())
            }
            Opcode::GOODBYE => Err(goodbye(header)),
            Opcode::HELLO | Opcode::PROVE => Err(PeerError::Sequence(opcode)),
            _ if opcode.asked().is_some() => Err(PeerError::Sequence(opcode)),
            _ if opcode.has_payload() => self.begin_small(header),
            _ => {
                self.answer_session(header, Status::INVALID_OPCODE, 0, &[]);
                Ok(())
            }
        }
    }

    /// Begins payload that is not a volume's bytes: it is gathered, and then handled.
    fn begin_small(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        let (opcode, len) = (Opcode(header.opcode), header.len.get());
        if len > opcode.payload_len_max() {
            let offset = offset!(RequestHeader, len);
            return Err(PeerError::HeaderField { opcode, offset });
        }
        if len == 0 {
            return self.on_small(header, &[]);
        }
        self.small.clear();
        self.small.reserve_exact(crate::length(len));
        self.incoming.begin(0, len, Sink::Small(*header));
        self.begin_segment();
        Ok(())
    }

    /// Handles a message whose small payload is complete.
    pub(super) fn end_small(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        let payload = std::mem::take(&mut self.small);
        let handled = if self.stream.body.damage().is_none() {
            self.on_small(header, &payload)
        } else {
            self.on_damaged(header)
        };
        self.keep_small(payload);
        handled
    }

    fn on_small(&mut self, header: &RequestHeader, payload: &[u8]) -> Result<(), PeerError> {
        match Opcode(header.opcode) {
            Opcode::HELLO => self.on_hello(header, payload),
            Opcode::PROVE => self.on_prove(header, payload),
            Opcode::OPEN => self.on_open(header, payload),
            Opcode::ATTACH => self.on_attach(header, payload),
            Opcode::CLAIM => self.on_claim(header, payload),
            Opcode::OPEN_SEALED => self.on_open_sealed(header, payload),
            Opcode::REVOKE => self.on_revoke(header, payload),
            Opcode::FILES => self.on_files(header, payload),
            Opcode::COMPARE_AND_SWAP | Opcode::FETCH_ADD => self.on_atomic(header, payload),
            Opcode::DIGEST => self.on_digest(header, payload),
            _ => {
                self.answer_session(header, Status::INVALID_OPCODE, 0, &[]);
                Ok(())
            }
        }
    }

    /// A message with damaged payload has no effect.
    fn on_damaged(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        match Opcode(header.opcode) {
            Opcode::COMPARE_AND_SWAP | Opcode::FETCH_ADD | Opcode::DIGEST => {
                self.check_tag(header)?;
                self.refuse(header, Status::DATA_DIGEST, 0);
            }
            opcode => return Err(PeerError::DataDigest(opcode)),
        }
        Ok(())
    }
}

fn goodbye(header: &RequestHeader) -> PeerError {
    // A client's GOODBYE has its status in the same place as an answer.
    PeerError::Goodbye(Status(header.volume.get()))
}
