//! Data from the host: in capsules and in H2CData, into pool buffers or into small buffers of the
//! session.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2 (data transfer). One R2T requests all of a command's data. At most one
//! is therefore outstanding per command, which every MAXR2T allows.

use nearflash_nvme::Status;
use nearflash_request::Due;
use nearflash_session::offset;

use super::slots::{Part, Stage};
use super::{Sink, State, TargetSession};
use crate::error::PeerError;
use crate::length;
use crate::pdu::{CommonHeader, DataIds, DataPdu, PduFlags, PduType};

impl TargetSession {
    /// The command whose in-capsule data is next in the stream, if the data waits for a buffer.
    #[inline]
    pub(super) fn capsule_without_buffer(&self) -> Option<u16> {
        let Sink::Slot(index) = self.sink else { return None };
        let slot = &self.slots[index];
        let waits = slot.stage == Stage::ReceivingCapsule && slot.buffer.is_none();
        (waits && slot.kind.has_payload()).then_some(index)
    }

    /// The command whose payload waits for a buffer.
    #[inline]
    pub(super) fn slot_without_buffer(&self, due: Due) -> Option<u16> {
        match due {
            _ if self.state == State::Closing => None,
            Due::Next => self.capsule_without_buffer(),
            Due::Later => self.awaiting_buffer.first().map(|(index, _)| index),
        }
    }

    /// Sends the R2T for all of a command's data.
    pub(super) fn request_data(&mut self, index: u16) {
        let slot = &mut self.slots[index];
        slot.stage = Stage::ReceivingRequested;
        let ids = DataIds { command_id: slot.cid.0, transfer_tag: index };
        let mut pdu = DataPdu::r2t(ids, 0, slot.len);
        let digests = self.framer.rules.digests;
        pdu.common = pdu.common.digested(digests);
        self.output.push_header(pdu.to_words(), digests);
    }

    /// Handles an H2CData: the next part of the data that an R2T requested.
    pub(super) fn on_data(&mut self, data: &DataPdu) -> Result<(), PeerError> {
        let pdu = PduType::H2C_DATA;
        let refused = |offset| PeerError::HeaderField { pdu, offset };
        let index = data.transfer_tag.get();
        let slot = self
            .slots
            .get(usize::from(index))
            .filter(|slot| slot.stage == Stage::ReceivingRequested)
            .ok_or(refused(offset!(DataPdu, transfer_tag)))?;
        if slot.cid.0 != data.command_id.get() {
            return Err(refused(offset!(DataPdu, command_id)));
        }
        let (offset, len) = (data.data_offset.get(), data.data_len.get());
        if length(len) != self.framer.body.data_left() {
            return Err(refused(offset!(DataPdu, data_len)));
        }
        let left = slot.len - slot.received;
        if offset != slot.received || len > left {
            return Err(PeerError::DataOutOfRange { offset, len, expected: slot.received });
        }
        if data.common.flags.has(PduFlags::LAST) != (len == left) {
            return Err(refused(offset!(CommonHeader, flags)));
        }
        self.sink = Sink::Slot(index);
        Ok(())
    }

    /// Consumes the PDU's body in `rest`. Returns `false` if more is needed, or payload is next.
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
        let is_over = self.framer.body.take_end(rest);
        if is_over {
            self.end_body();
        }
        is_over
    }

    #[inline]
    pub(super) fn count_received(&mut self, index: u16, len: usize) {
        let len = u32::try_from(len).expect("no PDU has 4 GiB of data");
        self.slots[index].received += len;
    }

    /// Ends the data of a PDU. A wrong digest fails the command alone: NVMe/TCP 1.1, 3.5.
    #[inline]
    pub(super) fn end_body(&mut self) {
        let Sink::Slot(index) = std::mem::replace(&mut self.sink, Sink::Drop) else { return };
        let slot = &mut self.slots[index];
        if self.framer.body.damage().is_some() {
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
