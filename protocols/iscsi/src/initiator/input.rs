//! From bytes to completions: the loop over received bytes, and the PDUs that each state allows.

use nearflash_session::Data;

use super::{EVENTS_MAX, InitiatorSession, PARTS_MAX, RequestingEnd, Sink, State, TaskId};
use crate::error::PeerError;
use crate::pdu::{BasicHeader, HEADER_LEN, Opcode};
use zerocopy::FromBytes;

impl InitiatorSession {
    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        self.output.part_count() > PARTS_MAX
            || self.parts.len() > PARTS_MAX
            || self.errands.events.len() > EVENTS_MAX
            || self.is_closing()
    }

    #[inline]
    pub(super) fn dispatch(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        self.sink = Sink::Skipped;
        let header = BasicHeader::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = header.opcode.opcode();
        let handled = match (&self.state, opcode) {
            (State::Ready | State::LoggingOut, Opcode::DATA_IN) => self.on_data_in(head),
            (State::Ready | State::LoggingOut, Opcode::SCSI_RESPONSE) => self.on_response(head),
            (State::Ready | State::LoggingOut, Opcode::R2T) => self.on_r2t(head),
            _ => self.gather(head, opcode),
        };
        handled.map_err(|error| self.fail(error))?;
        if self.framer.body.is_over() { self.end_body() } else { Ok(()) }
    }

    /// Collects any other PDU, which is handled when it is complete.
    fn gather(&mut self, head: &[u8; HEADER_LEN], opcode: Opcode) -> Result<(), PeerError> {
        let is_expected = match &self.state {
            State::LoggingIn(_) => opcode == Opcode::LOGIN_RESPONSE,
            State::Ready | State::LoggingOut => matches!(
                opcode,
                Opcode::NOP_IN
                    | Opcode::TASK_RESPONSE
                    | Opcode::TEXT_RESPONSE
                    | Opcode::LOGOUT_RESPONSE
                    | Opcode::ASYNC
                    | Opcode::REJECT
            ),
            State::Closing => false,
        };
        if !is_expected {
            return Err(PeerError::Sequence(opcode));
        }
        self.keep(head);
        Ok(())
    }

    /// Begins to collect a PDU's data.
    pub(super) fn keep(&mut self, head: &[u8; HEADER_LEN]) {
        self.small_header = *head;
        self.small.clear();
        self.sink = Sink::Small;
    }

    /// Consumes the PDU's body in `rest`. Returns `false` if more is needed, or it is payload.
    #[inline]
    pub(super) fn consume_body(&mut self, rest: &mut &[u8]) -> Result<bool, PeerError> {
        if self.framer.body.data_left() > 0 {
            match self.sink {
                Sink::Skipped => {
                    self.framer.body.take_data(rest);
                }
                Sink::Small => self.small.extend_from_slice(self.framer.body.take_data(rest)),
                Sink::Task { id, .. } => {
                    let Data::SmallIncoming(small) = &mut self.posted[id.0].data else {
                        return Ok(false);
                    };
                    let data = self.framer.body.take_data(rest);
                    small.extend_from_slice(data);
                    self.count_received(id, data.len());
                }
            }
        }
        if !self.framer.body.take_end(rest) {
            return Ok(false);
        }
        self.end_body()?;
        Ok(true)
    }

    #[inline]
    pub(super) fn count_received(&mut self, id: TaskId, len: usize) {
        let len = u32::try_from(len).expect("a PDU has less than 4 GiB of data");
        self.posted[id.0].moved += len;
    }

    #[inline]
    fn end_body(&mut self) -> Result<(), PeerError> {
        match std::mem::replace(&mut self.sink, Sink::Skipped) {
            Sink::Skipped => Ok(()),
            Sink::Task { id, completes } => {
                self.end_data(id, completes);
                Ok(())
            }
            Sink::Small => self.end_small().map_err(|error| self.fail(error)),
        }
    }

    #[cold]
    fn end_small(&mut self) -> Result<(), PeerError> {
        let header = self.small_header;
        let basic =
            BasicHeader::ref_from_bytes(&header).expect("the head has this header's length");
        let opcode = basic.opcode.opcode();
        if let Some((received, computed)) = self.framer.body.damage() {
            return Err(PeerError::DataDigest { opcode, received, computed });
        }
        let data = std::mem::take(&mut self.small);
        let handled = self.on_whole(opcode, &header, &data);
        self.small = data;
        handled
    }
}
