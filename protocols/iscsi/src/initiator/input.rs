//! From bytes to completions: the loop over received bytes, and the PDUs that each state allows.

use nearflash_session::{Data, Head, Receiving};

use super::{EVENTS_MAX, InitiatorSession, PARTS_MAX, Sink, State, TaskId};
use crate::error::PeerError;
use crate::framer::basic_header;
use crate::length;
use crate::pdu::{BasicHeader, HEADER_LEN, Opcode};
use zerocopy::FromBytes;

impl InitiatorSession {
    /// The destination of the next bytes of the stream.
    #[inline]
    pub fn receiving(&self) -> Receiving {
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

    /// Takes bytes of the stream: all headers and small data in them. Returns the number of
    /// consumed bytes. It stops where payload begins and where [`Self::receiving`] returns a pause.
    /// The outcome does not depend on how the stream is split.
    ///
    /// # Errors
    /// When the target violated the protocol or ended the connection: the session is closing.
    #[inline]
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
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

    /// Records that payload was received into the buffer that [`Self::receiving`] named; `bytes` is
    /// a view of it.
    ///
    /// # Panics
    /// When this many bytes were not expected.
    #[inline]
    pub fn handle_payload(&mut self, bytes: &[u8]) {
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
    fn is_paused(&self) -> bool {
        self.output.part_count() > PARTS_MAX
            || self.parts.len() > PARTS_MAX
            || self.errands.events.len() > EVENTS_MAX
            || self.is_closing()
    }

    #[inline]
    fn dispatch(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
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
    fn consume_body(&mut self, rest: &mut &[u8]) -> Result<bool, PeerError> {
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
    fn count_received(&mut self, id: TaskId, len: usize) {
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
