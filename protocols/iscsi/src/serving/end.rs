//! The session's interface to its driver.

use nearflash_request::{BufferId, Completion, Due, Outcome, VolumeId};
use nearflash_scsi::Failure;
use nearflash_session::{Outbox, Receiving, ServingEnd};
use nearflash_units::{ByteLen, Nanos};

use super::answers::{index_of, source_of};
use super::slots::{Kind, Stage};
use super::{PING_TAG, Sink, State, TargetSession};
use crate::error::PeerError;
use crate::length;
use crate::pdu::{AsyncEvent, LoginStatus};

impl ServingEnd for TargetSession {
    type PeerError = PeerError;

    #[inline]
    fn handle_input(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        self.liveness.has_heard = true;
        self.take_input(bytes).map_err(|error| self.terminate(error))
    }

    #[inline]
    fn receiving(&self) -> Receiving {
        if self.link.framer.body.is_over() {
            return if self.is_paused() { Receiving::Paused } else { Receiving::Bytes };
        }
        if self.is_stopped() {
            return Receiving::Paused;
        }
        let left = self.link.framer.body.data_left();
        let Sink::Slot { index, .. } = self.link.sink else { return Receiving::Bytes };
        let slot = &self.tasks.slots[index];
        let room = length(slot.room());
        if left == 0 || room == 0 || matches!(slot.kind, Kind::Parameters { .. }) {
            return Receiving::Bytes;
        }
        match slot.place() {
            Some((buffer, offset, here)) => Receiving::Payload {
                buffer,
                offset: length(offset),
                len: left.min(room).min(length(here)),
            },
            None => Receiving::Paused,
        }
    }

    #[inline]
    fn handle_payload(&mut self, bytes: &[u8]) {
        let Sink::Slot { index, .. } = self.link.sink else {
            panic!("payload comes only when awaited")
        };
        self.link.framer.body.count_data(bytes);
        self.count_received(index, bytes.len());
        if self.link.framer.body.is_over() {
            self.end_data();
        }
    }

    #[inline]
    fn wants(&self, due: Due) -> Option<ByteLen> {
        let index = self.slot_without_buffer(due)?;
        Some(ByteLen(u64::from(self.tasks.slots[index].buffers.len)))
    }

    fn volume_of_want(&self, due: Due) -> Option<VolumeId> {
        match &self.tasks.slots[self.slot_without_buffer(due)?].kind {
            Kind::Write { volume, .. } | Kind::Request { volume, .. } => Some(*volume),
            _ => None,
        }
    }

    #[inline]
    fn provide(&mut self, due: Due, buffer: BufferId) {
        let index =
            self.slot_without_buffer(due).expect("a buffer is provided only when one is wanted");
        let buffers = &mut self.tasks.slots[index].buffers;
        buffers.put(buffer);
        if due == Due::Later && !buffers.are_missing() {
            self.tasks.awaiting_buffer.pop();
            self.ask_for_data(index);
        }
    }

    /// Prevents a deadlock of the command whose data is next in the stream: the commands that hold
    /// the buffers may wait for data behind it, or for commands on other connections. The command
    /// is answered with TASK SET FULL once its data has passed.
    fn give_way(&mut self) -> bool {
        let Some(index) = self.standing_slot() else { return false };
        if !(self.shared.is_multiple || self.tasks.slots.any_holds_buffers()) {
            return false;
        }
        let slot = &mut self.tasks.slots[index];
        slot.failed = Some(Failure::Full);
        self.link.output.orphan_all(slot.buffers.take().into_iter().flatten());
        true
    }

    fn awaits_data(&self) -> bool {
        let owes = || !self.early.is_empty() || self.tasks.slots.any_awaits_data();
        self.link.framer.is_midway() || (!self.is_stopped() && owes())
    }

    fn wants_payload_bytes(&self) -> bool {
        self.link.params.digests.data
    }

    #[inline]
    fn handle_completion(&mut self, done: Completion, payload: &[u8]) {
        if self.state == State::Closing {
            return self.link.output.orphan_payload(done.payload);
        }
        let index = index_of(done.tag);
        let slot = self.tasks.slots.get(usize::from(index)).expect("a request is answered once");
        assert!(slot.stage == Stage::Submitted, "a request is answered once");
        match slot.kind {
            Kind::Read { .. } if done.outcome == Outcome::Success => {
                self.answer_with(index, source_of(done.payload, payload));
            }
            Kind::Write { .. } if done.outcome == Outcome::Success => self.answer_good(index),
            _ => self.answer_request(index, done, payload),
        }
        if !self.siblings.functions.is_empty() {
            self.settle_functions();
        }
    }

    fn asks_on(&self) -> bool {
        !self.tasks.ready.is_empty() || !self.tasks.awaiting_buffer.is_empty()
    }

    fn outbox(&self) -> &Outbox {
        &self.link.output
    }

    fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.link.output
    }

    fn handle_timeout(&mut self, now: Nanos) -> Result<(), PeerError> {
        self.drop_if_overdue(now);
        if self.state == State::Closing || now < self.liveness.silent_at {
            return Ok(());
        }
        match self.state {
            State::Login => return Err(self.terminate(PeerError::Silent)),
            State::Refusing => {
                let error = self.refuse(LoginStatus::AUTHENTICATION_FAILURE);
                return Err(self.terminate(error));
            }
            // The initiator is not at fault while this end delays it.
            _ if self.liveness.has_heard || self.is_paused() || self.stands_still() => {
                self.liveness.has_heard = false;
                self.liveness.has_pinged = false;
                self.liveness.silent_at = now.plus(self.config.ping_interval);
            }
            _ if self.liveness.has_pinged => return Err(self.terminate(PeerError::Silent)),
            _ => {
                self.push_ping(PING_TAG);
                self.liveness.has_pinged = true;
                self.liveness.silent_at = now.plus(self.config.ping_timeout);
            }
        }
        Ok(())
    }

    fn shut_down(&mut self) {
        if self.state == State::FullFeature {
            self.push_message(AsyncEvent::CONNECTION_DROP, [self.names.cid, 0, 0]);
        }
        self.terminate(PeerError::ShuttingDown);
    }

    fn is_closing(&self) -> bool {
        self.state == State::Closing
    }

    fn release_incoming(&mut self, released: &mut impl FnMut(BufferId)) {
        let collecting: Vec<u16> = self.tasks.slots.collecting().map(|(index, _)| index).collect();
        collecting.into_iter().for_each(|index| self.give_up(index));
        self.link.output.release_orphans(released);
    }

    fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.stop();
        self.tasks.ready.clear();
        self.link.output.release_all(released);
        self.tasks.slots.take_buffers().for_each(released);
    }
}
