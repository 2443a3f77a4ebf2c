//! The session as its driver sees it.

use nearflash_request::{BufferId, Completion, Due, Outcome, VolumeId};
use nearflash_session::{Head, Outbox, Receiving, ServingEnd};
use nearflash_units::{ByteLen, Nanos};

use super::slots::{Kind, Stage};
use super::{Sink, State, TargetSession};
use crate::error::PeerError;
use crate::length;

impl ServingEnd for TargetSession {
    type PeerError = PeerError;

    #[inline]
    fn receiving(&self) -> Receiving {
        let body = &self.framer.body;
        if body.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.state == State::Closing {
            return Receiving::Paused;
        }
        let Sink::Slot(index) = self.sink else { return Receiving::Bytes };
        let slot = &self.slots[index];
        if !body.data_is_next() || !slot.kind.has_payload() {
            return Receiving::Bytes;
        }
        match slot.buffer {
            Some(buffer) => {
                Receiving::Payload { buffer, offset: length(slot.received), len: body.data_left() }
            }
            None => Receiving::Paused,
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
        let Sink::Slot(index) = self.sink else { panic!("payload comes only when awaited") };
        assert!(self.slots[index].buffer.is_some(), "payload comes only into a buffer");
        self.framer.body.count_data(bytes);
        self.count_received(index, bytes.len());
        if self.framer.body.is_over() {
            self.end_body();
        }
    }

    fn awaits_data(&self) -> bool {
        self.framer.is_midway() || self.slots.any_awaits_data()
    }

    #[inline]
    fn wants(&self, due: Due) -> Option<ByteLen> {
        let index = self.slot_without_buffer(due)?;
        Some(ByteLen(u64::from(self.slots[index].len)))
    }

    fn volume_of_want(&self, due: Due) -> Option<VolumeId> {
        match self.slots[self.slot_without_buffer(due)?].kind {
            Kind::Payload { volume, .. } => Some(volume),
            _ => None,
        }
    }

    #[inline]
    fn provide(&mut self, due: Due, buffer: BufferId) {
        let index = self.slot_without_buffer(due).expect("a buffer comes only when wanted");
        self.slots[index].buffer = Some(buffer);
        if due == Due::Later {
            self.awaiting_buffer.pop();
            self.request_data(index);
        }
    }

    fn wants_payload_bytes(&self) -> bool {
        self.framer.rules.digests.data
    }

    #[inline]
    fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        if self.state == State::Closing {
            return self.output.orphan_payload(done.payload);
        }
        // The high half is the index among the command's requests.
        let [low, high, ..] = done.tag.0.to_le_bytes();
        let index = u16::from_le_bytes([low, high]);
        let slot = self.slots.get(usize::from(index)).expect("a request is answered once");
        assert!(matches!(slot.stage, Stage::Submitted { .. }), "a request is answered once");
        if matches!(slot.kind, Kind::Read { .. }) && done.outcome == Outcome::Success {
            self.answer_read(index, done.payload, payload);
        } else {
            self.answer_request(index, done);
        }
    }

    fn outbox(&self) -> &Outbox {
        &self.output
    }

    fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.output
    }

    fn handle_timeout(&mut self, now: Nanos) -> Result<(), PeerError> {
        match self.handshake_until {
            Some(until) if until <= now => {
                self.terminate(PeerError::Silent);
                Err(PeerError::Silent)
            }
            _ => Ok(()),
        }
    }

    fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    fn release_incoming(&mut self, released: &mut impl FnMut(BufferId)) {
        self.slots.take_incoming_buffers().for_each(released);
    }

    fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.stop();
        self.ready.clear();
        self.output.release_all(released);
        self.slots.take_buffers().for_each(released);
    }
}
