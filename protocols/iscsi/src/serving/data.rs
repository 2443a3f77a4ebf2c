//! Data from the initiator: in the command's PDU, unsolicited after it, or solicited by an R2T.
//!
//! Spec: RFC 7143, 4.2.5.2, 11.7 and 11.8. A command has one R2T outstanding at a time, for as much
//! as MaxBurstLength allows, which satisfies every MaxOutstandingR2T. Data in excess of the
//! command's length is received and dropped.

use nearflash_request::Due;
use nearflash_scsi::{Failure, Sense};
use nearflash_units::ByteLen;

use super::answers::Answer;
use super::slots::{Kind, Stage};
use super::{Sink, State, TargetSession};
use crate::error::PeerError;
use crate::length;
use crate::pdu::{DataOut, LunField, NO_TAG, Opcode, RejectReason};

impl TargetSession {
    /// The command whose data is next in the stream, if it waits for a buffer.
    #[inline]
    pub(super) fn standing_slot(&self) -> Option<u16> {
        let Sink::Slot { index, .. } = self.link.sink else { return None };
        if self.is_stopped() || self.link.framer.body.data_left() == 0 {
            return None;
        }
        let slot = &self.tasks.slots[index];
        let is_payload = slot.room() > 0 && !matches!(slot.kind, Kind::Parameters { .. });
        (is_payload && slot.place().is_none()).then_some(index)
    }

    /// The command whose data waits for a buffer.
    #[inline]
    pub(super) fn slot_without_buffer(&self, due: Due) -> Option<u16> {
        match due {
            Due::Next => self.standing_slot(),
            Due::Later if self.is_stopped() => None,
            Due::Later => self.tasks.awaiting_buffer.first().map(|(index, _)| index),
        }
    }

    /// SCSI Data-Out: the next part of a sequence.
    pub(super) fn on_data(&mut self, data: &DataOut) -> Result<(), PeerError> {
        let opcode = Opcode::DATA_OUT;
        self.link.sink = Sink::Drop;
        let (itt, ttt) = (data.itt.get(), data.ttt.get());
        let slots = &self.tasks.slots;
        let found = match ttt {
            // Unsolicited data comes in the order of the commands.
            NO_TAG => self.tasks.unsolicited.iter().copied().find(|index| slots[*index].itt == itt),
            _ => slots.by_transfer_tag(ttt).filter(|index| slots[*index].itt == itt),
        };
        let Some(index) = found else {
            self.on_unknown_data(data);
            return Ok(());
        };
        let slot = &mut self.tasks.slots[index];
        let (offset, len) = (data.offset.get(), data.data_len.get());
        let (received, expected) = (data.data_sn.get(), slot.data_sn);
        if received != expected {
            // Treated like a damaged PDU: the command fails, the connection stays. RFC 7143, 7.7
            // and 7.8.
            slot.failed.get_or_insert(Failure::Check(Sense::DATA_DIGEST));
        }
        let left = slot.burst_end - slot.received;
        if offset != slot.received || len > left {
            return Err(PeerError::DataOutOfRange { opcode, offset, len, expected: slot.received });
        }
        let is_last = data.is_final();
        // The initiator must send all the data of an R2T, and F only with the last of it.
        if slot.stage == Stage::Solicited && is_last != (len == left) {
            return Err(PeerError::DataOutOfRange {
                opcode,
                offset,
                len,
                expected: slot.burst_end,
            });
        }
        slot.data_sn = slot.data_sn.wrapping_add(1);
        self.link.sink = Sink::Slot { index, is_last };
        if self.link.framer.body.is_over() {
            self.end_data();
        }
        Ok(())
    }

    /// Data for no command. After a command was aborted, its data may still be on the way.
    #[cold]
    fn on_unknown_data(&mut self, data: &DataOut) {
        if !self.tasks.has_aborted {
            self.reject(RejectReason::INVALID_FIELD, zerocopy::IntoBytes::as_bytes(data));
        }
    }

    /// Consumes the PDU's body in `rest`. Returns `false` if more, or a buffer, is needed first.
    #[inline]
    pub(super) fn consume_body(&mut self, rest: &mut &[u8]) -> Result<bool, PeerError> {
        while self.link.framer.body.data_left() > 0 {
            if rest.is_empty() {
                return Ok(false);
            }
            match self.link.sink {
                Sink::Drop => {
                    self.link.framer.body.take_data(rest);
                }
                Sink::Small => {
                    let data = self.link.framer.body.take_data(rest);
                    self.link.small.extend_from_slice(data);
                }
                Sink::Slot { index, .. } => {
                    if !self.consume_slot_data(index, rest) {
                        return Ok(false);
                    }
                }
            }
        }
        if !self.link.framer.body.take_end(rest) {
            return Ok(false);
        }
        match self.link.sink {
            // Damage to data that was dropped does not matter.
            Sink::Drop => {}
            Sink::Small => return self.end_small().map(|()| true),
            Sink::Slot { .. } => self.end_data(),
        }
        Ok(true)
    }

    /// Consumes a command's data that goes into no buffer. Returns `false` for data that does.
    fn consume_slot_data(&mut self, index: u16, rest: &mut &[u8]) -> bool {
        let slot = &mut self.tasks.slots[index];
        let room = length(slot.room());
        if room == 0 {
            let data = self.link.framer.body.take_data(rest);
            self.count_received(index, data.len());
            return true;
        }
        let Kind::Parameters { data: parameters, .. } = &mut slot.kind else { return false };
        let (mut kept, _) = rest.split_at(room.min(rest.len()));
        let kept = self.link.framer.body.take_data(&mut kept);
        parameters.extend_from_slice(kept);
        *rest = &rest[kept.len()..];
        self.count_received(index, kept.len());
        true
    }

    #[inline]
    pub(super) fn count_received(&mut self, index: u16, len: usize) {
        let len = u32::try_from(len).expect("a PDU has less than 16 MiB of data");
        self.tasks.slots[index].received += len;
    }

    /// Ends a PDU with data. RFC 7143, 7.8: if it is damaged, the command fails once all data has
    /// arrived.
    #[inline]
    pub(super) fn end_data(&mut self) {
        let Sink::Slot { index, is_last } = std::mem::replace(&mut self.link.sink, Sink::Drop)
        else {
            return;
        };
        if self.link.framer.body.damage().is_some() {
            self.reject_damaged();
            self.tasks.slots[index].failed.get_or_insert(Failure::Check(Sense::DATA_DIGEST));
        }
        if is_last {
            self.tasks.unsolicited.retain(|other| *other != index);
            self.go_on(index);
        }
    }

    /// Continues a command after a sequence: requests the next one, or submits the command.
    #[inline]
    pub(super) fn go_on(&mut self, index: u16) {
        let slot = &mut self.tasks.slots[index];
        if !slot.is_due {
            slot.stage = Stage::AwaitingTurn;
            return;
        }
        if slot.room_of_piece() == 0 {
            return self.submit(index);
        }
        if slot.buffers.are_missing() {
            slot.stage = Stage::AwaitingBuffer;
            self.tasks.awaiting_buffer.push(index, ByteLen(u64::from(slot.buffers.len)));
            return;
        }
        self.ask_for_data(index);
    }

    /// Sends the R2T for the next sequence.
    #[inline]
    pub(super) fn ask_for_data(&mut self, index: u16) {
        let burst_max = self.shared.params.max_burst_len;
        let tag = self.tasks.slots.tag(index);
        let slot = &mut self.tasks.slots[index];
        let len = slot.room_of_piece().min(burst_max);
        slot.stage = Stage::Solicited;
        slot.burst_end = slot.received + len;
        slot.data_sn = 0;
        let answer = Answer {
            lun: LunField::new(slot.lun.unwrap_or_default()).0,
            tag,
            rest: [slot.r2t_sn, slot.received, len],
            ..Answer::new(Opcode::R2T, slot.itt)
        };
        slot.r2t_sn = slot.r2t_sn.wrapping_add(1);
        self.push_unasked(&answer, &[]);
    }

    /// Gives up a command that still collects data. It had no effect, and is not answered.
    pub(super) fn give_up(&mut self, index: u16) {
        self.expect_no_more(index);
        self.release_slot(index);
    }

    /// Aborts a command that another initiator ended: it is answered with TASK ABORTED.
    pub(super) fn abort(&mut self, index: u16) {
        self.expect_no_more(index);
        self.fail(index, Failure::Aborted);
    }

    /// Fails a command that still collects data.
    pub(super) fn refuse_data(&mut self, index: u16, sense: Sense) {
        self.expect_no_more(index);
        self.fail(index, Failure::Check(sense));
    }

    /// Discards the data of the command that may still arrive.
    fn expect_no_more(&mut self, index: u16) {
        self.tasks.has_aborted = true;
        self.note_end_of_copy(index);
        self.tasks.unsolicited.retain(|other| *other != index);
        self.tasks.awaiting_buffer.cancel(|other| other == index);
        if !self.tasks.slots[index].is_due {
            self.skip_slot(index);
        }
        if matches!(self.link.sink, Sink::Slot { index: sink, .. } if sink == index) {
            self.link.sink = Sink::Drop;
        }
    }

    /// Whether the session receives nothing more from the stream.
    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self.state, State::LoggingOut | State::Closing)
    }
}
