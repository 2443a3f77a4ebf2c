//! Data from the host: in capsules and in H2CData, into pool buffers or small own ones.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2 (data transfer). A command's data is asked for with one R2T for all of
//! it, so never more than one is outstanding and MAXR2T is kept whatever it is.

use nearflash_nvme::Status;
use nearflash_request::BufferId;
use nearflash_units::ByteLen;
use zerocopy::IntoBytes;

use super::slots::{Part, Slot, Stage};
use super::{Sink, State, TargetSession, length};
use crate::error::PeerError;
use crate::pdu::{DataIds, DataPdu, PduFlags, PduType, R2t};
use nearflash_session::Receiving;

impl TargetSession {
    /// Where the next bytes of the stream belong.
    #[inline]
    pub fn receiving(&self) -> Receiving {
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

    /// The next bytes of the payload are in the buffer that [`Self::receiving`] named; here they
    /// are once more.
    ///
    /// # Panics
    /// When that many were not awaited.
    #[inline]
    pub fn handle_payload(&mut self, bytes: &[u8]) {
        let Sink::Slot(index) = self.sink else { panic!("payload comes only when awaited") };
        assert!(self.slots[index].buffer.is_some(), "payload comes only into a buffer");
        self.framer.body.count_data(bytes);
        self.count_received(index, bytes.len());
        if self.framer.body.is_over() {
            self.end_body();
        }
    }

    /// How large a buffer a command's payload is waiting for, if one is.
    #[inline]
    pub fn wants_buffer(&self) -> Option<ByteLen> {
        self.wanting_slot().map(|index| ByteLen(u64::from(self.slots[index].len)))
    }

    /// Whether the buffer that [`Self::wants_buffer`] asks for is for data in a capsule: nothing of
    /// the stream moves before it is there, not even data that was asked for.
    #[inline]
    pub fn stands_still(&self) -> bool {
        let is_capsule = |index: usize| wants_capsule_buffer(&self.slots[index]);
        matches!(self.sink, Sink::Slot(index) if is_capsule(index)) && self.state != State::Closing
    }

    /// Whether the host owes data: the rest of a PDU, or what an R2T asked for. Looks at every
    /// command, so it is for now and then.
    pub fn awaits_data(&self) -> bool {
        self.framer.is_midway() || self.slots.any_awaits_data()
    }

    /// The buffer that [`Self::wants_buffer`] asked for, of at least that length.
    ///
    /// # Panics
    /// When none was asked for.
    #[inline]
    pub fn provide_buffer(&mut self, buffer: BufferId) {
        let index = self.wanting_slot().expect("a buffer comes only when wanted");
        self.slots[index].buffer = Some(buffer);
        if self.slots[index].stage == Stage::AwaitingBuffer {
            self.awaiting_buffer.pop_front();
            self.request_data(index);
        }
    }

    /// The command at the head of the stream comes first: nothing behind it moves without.
    #[inline]
    fn wanting_slot(&self) -> Option<usize> {
        if self.state == State::Closing {
            return None;
        }
        match self.sink {
            Sink::Slot(index) if wants_capsule_buffer(&self.slots[index]) => Some(index),
            _ => self.awaiting_buffer.front().copied(),
        }
    }

    /// Sends the R2T for all of a command's data.
    pub(super) fn request_data(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.stage = Stage::ReceivingRequested;
        let tag = u16::try_from(index).expect("there are at most 65,535 slots");
        let ids = DataIds { command_id: slot.cid.0, transfer_tag: tag };
        let mut pdu = R2t::new(ids, 0, slot.len);
        self.answering.finish_header(&mut pdu.common);
        self.answering.push_header(&mut self.output, pdu.as_bytes());
    }

    /// H2CData: the next part of what an R2T asked for.
    pub(super) fn on_data(&mut self, data: &DataPdu) -> Result<(), PeerError> {
        let pdu = PduType::H2C_DATA;
        let refused = |offset| PeerError::HeaderField { pdu, offset };
        let index = usize::from(data.transfer_tag.get());
        let slot = self
            .slots
            .get(index)
            .filter(|slot| slot.stage == Stage::ReceivingRequested)
            .ok_or(refused(DataPdu::TRANSFER_TAG_OFFSET))?;
        if slot.cid.0 != data.command_id.get() {
            return Err(refused(DataPdu::COMMAND_ID_OFFSET));
        }
        let (offset, len) = (data.data_offset.get(), data.data_len.get());
        if length(len) != self.framer.body.data_left() {
            return Err(refused(DataPdu::DATA_LEN_OFFSET));
        }
        let left = slot.len - slot.received;
        if offset != slot.received || len > left {
            return Err(PeerError::DataOutOfRange { offset, len, expected: slot.received });
        }
        if data.common.flags.has(PduFlags::LAST) != (len == left) {
            return Err(refused(crate::pdu::CommonHeader::FLAGS_OFFSET));
        }
        self.sink = Sink::Slot(index);
        Ok(())
    }

    /// Takes what `rest` has of the current PDU's body; `false` when more is needed first, or a
    /// buffer, or it is payload.
    #[inline]
    pub(super) fn consume_body(&mut self, rest: &mut &[u8]) -> bool {
        self.framer.body.skip_padding(rest);
        if self.framer.body.data_is_next() {
            let Sink::Slot(index) = self.sink else {
                self.framer.body.take_data(rest);
                return self.try_end_body(rest);
            };
            if self.slots[index].kind.has_payload() {
                return false;
            }
            let data = self.framer.body.take_data(rest);
            if let Some(small) = self.slots[index].kind.small_data() {
                small.extend_from_slice(data);
            }
            self.count_received(index, data.len());
        }
        self.try_end_body(rest)
    }

    #[inline]
    fn try_end_body(&mut self, rest: &mut &[u8]) -> bool {
        self.framer.body.take_digest(rest);
        if !self.framer.body.is_over() {
            return false;
        }
        self.end_body();
        true
    }

    #[inline]
    fn count_received(&mut self, index: usize, len: usize) {
        let len = u32::try_from(len).expect("no PDU has 4 GiB of data");
        self.slots[index].received += len;
    }

    /// A PDU's data has all come. A broken data digest fails the command, not the connection:
    /// NVMe/TCP 1.1, 3.5.
    #[inline]
    fn end_body(&mut self) {
        let Sink::Slot(index) = std::mem::replace(&mut self.sink, Sink::Drop) else { return };
        let is_sound = self.framer.body.is_sound(self.framer.rules.digests);
        let slot = &mut self.slots[index];
        if !is_sound {
            slot.failed = slot.failed.or(Some(Status::TRANSIENT_TRANSPORT_ERROR));
        }
        if slot.received < slot.len {
            return;
        }
        if slot.part == Part::Alone {
            self.submit(index);
        } else {
            slot.stage = Stage::Held;
            self.settle_fused(index);
        }
    }
}

#[inline]
fn wants_capsule_buffer(slot: &Slot) -> bool {
    slot.stage == Stage::ReceivingCapsule && slot.buffer.is_none() && slot.kind.has_payload()
}
