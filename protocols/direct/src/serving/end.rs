//! The session as its driver sees it.

use nearflash_request::{BufferId, Completion, Due, Outcome, VolumeId};
use nearflash_session::{Outbox, Receiving, ServingEnd};
use nearflash_units::{ByteLen, Nanos};

use super::data::Sink;
use super::demands::parts_of;
use super::slots::Kind;
use super::{State, TargetSession};
use crate::Face;
use crate::error::PeerError;

impl ServingEnd for TargetSession {
    type PeerError = PeerError;

    #[inline]
    fn receiving(&self) -> Receiving {
        if self.incoming.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.is_closing() {
            return Receiving::Paused;
        }
        let Sink::Slot(_) = self.incoming.sink else { return Receiving::Bytes };
        let left = self.stream.body.data_left();
        match self.incoming.place() {
            _ if left == 0 => Receiving::Bytes,
            Some((buffer, offset)) => Receiving::Payload { buffer, offset, len: left },
            None if self.is_dropped() => Receiving::Bytes,
            None => Receiving::Paused,
        }
    }

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        self.take_input(bytes).map_err(|error| self.terminate(error))
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        self.incoming.count(bytes.len());
        self.stream.body.count_data(bytes);
        if self.stream.body.is_over() {
            self.end_segment_of_write();
        }
    }

    fn awaits_data(&self) -> bool {
        self.stream.is_midway() || !self.incoming.is_over()
    }

    #[inline]
    fn wants(&self, due: Due) -> Option<ByteLen> {
        match due {
            _ if self.is_closing() => None,
            Due::Next => self.standing_slot().map(|_| self.incoming.buffer_len()),
            Due::Later => self.rings.as_ref()?.wants_buffer().map(|(_, len)| len),
        }
    }

    fn volume_of_want(&self, due: Due) -> Option<VolumeId> {
        let number = match due {
            Due::Next => self.standing_slot()?,
            Due::Later => parts_of(self.rings.as_ref()?.wants_buffer()?.0.tag).0,
        };
        Some(self.slots[number].volume)
    }

    #[inline]
    fn provide(&mut self, due: Due, buffer: BufferId) {
        if due == Due::Next {
            assert!(self.standing_slot().is_some(), "a buffer comes only when wanted");
            self.incoming.buffer = Some(buffer);
            return;
        }
        let rings = self.rings.as_mut().expect("a buffer comes only when wanted");
        let ready = rings.provide_buffer(buffer);
        self.ready.push_back(ready);
    }

    fn wants_payload_bytes(&self) -> bool {
        let may_be_digested = self.face() == Some(Face::Replica);
        (self.stream.rules.digests.data || may_be_digested) && self.rings.is_none()
    }

    #[inline]
    fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        if self.is_closing() {
            return self.output.orphan_payload(done.payload);
        }
        let (number, segment) = parts_of(done.tag);
        let slot = &mut self.slots[number];
        assert!(slot.is_taken && slot.pending > 0, "a request is answered once");
        if done.outcome != Outcome::Success {
            slot.fail(done.outcome.into(), 0);
        }
        if self.rings.is_some() {
            return self.complete_by_ring(number, segment, done.payload);
        }
        match slot.kind {
            Kind::Read if slot.failed.is_ok() => {
                self.answer_part(number, segment, done.payload, payload);
            }
            Kind::Digest { key, .. } if slot.failed.is_ok() => {
                self.answer_digests(number, &key, done.payload, payload);
            }
            _ => self.complete(number, done.payload),
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
            Some(until) if until <= now => Err(self.terminate(PeerError::Silent)),
            _ => Ok(()),
        }
    }

    fn shut_down(&mut self) {
        self.terminate(PeerError::ShuttingDown);
    }

    fn is_closing(&self) -> bool {
        matches!(self.state, State::Closing)
    }

    fn release_incoming(&mut self, released: &mut impl FnMut(BufferId)) {
        self.incoming.buffer.take().into_iter().for_each(released);
    }

    fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.stop();
        self.output.release_all(released);
        self.incoming.buffer.take().into_iter().for_each(&mut *released);
        self.ready.drain(..).filter_map(|ready| ready.buffer).for_each(&mut *released);
        if let Some(rings) = &mut self.rings {
            rings.release_all(released);
        }
    }
}
