//! Receives: the loop over received bytes, the check of each PDU, and completions.

use nearflash_nvme::{CommandId, CompletionEntry, Status};
use zerocopy::FromBytes;

use super::{HostSession, PARTS_MAX, Sink, State};
use crate::digest::Digests;
use crate::error::PeerError;
use crate::framer::header_at_fault;
use crate::length;
use crate::pdu::{CapsuleResp, CommonHeader, DataPdu, InitPdu, PduFlags, PduType};
use nearflash_session::{Data, PostedCommand, offset};

/// The minimum of MAXH2CDATA. NVMe/TCP 1.1, 3.6.2.3.
const H2C_DATA_LEN_MIN: u32 = 4096;

type Command = PostedCommand<CompletionEntry>;

/// Whether data of a read is missing.
#[inline]
fn came_short(command: &Command) -> bool {
    matches!(command.data, Data::Incoming(_)) && command.moved < command.len
}

impl HostSession {
    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        self.output.part_count() > PARTS_MAX
            || self.parts.len() > PARTS_MAX
            || self.state == State::Closing
    }

    #[inline]
    pub(super) fn dispatch(&mut self, head: &[u8]) -> Result<(), PeerError> {
        self.sink = None;
        let (common, _) = CommonHeader::ref_from_prefix(head).expect("a head has its header");
        let handled = match (self.state, common.pdu_type) {
            (State::Ready, PduType::C2H_DATA) => self.on_data(head),
            (State::Ready, PduType::CAPSULE_RESP) => self.on_response(head),
            (State::Ready | State::Connecting, PduType::R2T) => self.on_r2t(head),
            (State::Connecting, PduType::CAPSULE_RESP) => self.on_connect_response(head),
            (State::AwaitingIcResp, PduType::IC_RESP) => self.on_ic_resp(head),
            (_, PduType::C2H_TERM_REQ) => Err(PeerError::of_request(head)),
            (_, pdu) => Err(PeerError::Sequence(pdu)),
        };
        handled.inspect_err(|error| self.close(error, &head[..usize::from(common.header_len)]))
    }

    #[cold]
    pub(super) fn refuse_head(&mut self, error: PeerError, rest: &[u8]) -> PeerError {
        let header = header_at_fault(&self.framer, rest).to_vec();
        self.close(&error, &header);
        error
    }

    /// NVMe/TCP 1.1, 3.3: the transport's parameters are negotiated, so Connect follows.
    fn on_ic_resp(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let (response, _) = InitPdu::ref_from_prefix(head).expect("the framer checked the length");
        let pdu = PduType::IC_RESP;
        let refused = |offset| PeerError::HeaderField { pdu, offset };
        if response.format_version.get() != 0 {
            let offset = offset!(InitPdu, format_version);
            return Err(PeerError::UnsupportedParameter { pdu, offset });
        }
        if !response.alignment.is_valid() {
            return Err(refused(offset!(InitPdu, alignment)));
        }
        let digests = Digests::from(response.digests);
        if digests.and(self.config.digests) != digests {
            return Err(refused(offset!(InitPdu, digests)));
        }
        let h2c_data_len_max = response.limit.get();
        if h2c_data_len_max < H2C_DATA_LEN_MIN {
            return Err(refused(offset!(InitPdu, limit)));
        }
        self.h2c_data_len_max = h2c_data_len_max;
        self.controller_alignment = response.alignment;
        self.framer.rules.digests = digests;
        self.state = State::Connecting;
        self.submit_connect();
        Ok(())
    }

    fn on_connect_response(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let entry = response(head);
        self.find(PduType::CAPSULE_RESP, ENTRY_CID, entry.cid.get())?;
        self.posted.give_back(entry.cid.get());
        self.connected = Some(entry);
        self.state = if entry.status().is_success() { State::Ready } else { State::Closing };
        Ok(())
    }

    #[inline]
    fn on_response(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let entry = response(head);
        let command = self.find(PduType::CAPSULE_RESP, ENTRY_CID, entry.cid.get())?;
        // A successful read must have all its data. A failed command may have less.
        let came_short = came_short(command) && entry.status().is_success();
        self.posted[entry.cid.get()].damaged |= came_short;
        self.complete(entry);
        Ok(())
    }

    /// NVMe/TCP 1.1, 3.6.2.9. Data arrives in order, so the expected offset is the length received.
    #[inline]
    fn on_data(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let (data, _) = DataPdu::ref_from_prefix(head).expect("the framer checked the length");
        let pdu = PduType::C2H_DATA;
        let refused = |offset| PeerError::HeaderField { pdu, offset };
        let cid = data.command_id.get();
        let command = self.find(pdu, offset!(DataPdu, command_id), cid)?;
        if !command.data.is_incoming() {
            return Err(refused(offset!(DataPdu, command_id)));
        }
        let (offset, len) = (data.data_offset.get(), data.data_len.get());
        if length(len) != self.framer.body.data_left() {
            return Err(refused(offset!(DataPdu, data_len)));
        }
        if offset != command.moved || len > command.len - command.moved {
            return Err(PeerError::DataOutOfRange { offset, len, expected: command.moved });
        }
        let completes = data.common.flags.has(PduFlags::SUCCESS);
        if completes && !data.common.flags.has(PduFlags::LAST) {
            return Err(refused(offset!(CommonHeader, flags)));
        }
        self.sink = Some(Sink { cid, completes });
        Ok(())
    }

    /// NVMe/TCP 1.1, 3.6.2.10. R2Ts are in order, so no byte is requested twice.
    fn on_r2t(&mut self, head: &[u8]) -> Result<(), PeerError> {
        let (r2t, _) = DataPdu::ref_from_prefix(head).expect("the framer checked the length");
        let pdu = PduType::R2T;
        let refused = |offset| PeerError::HeaderField { pdu, offset };
        let cid = r2t.command_id.get();
        let command = self.find(pdu, offset!(DataPdu, command_id), cid)?;
        if !command.data.is_outgoing() {
            return Err(refused(offset!(DataPdu, command_id)));
        }
        let (offset, len) = (r2t.data_offset.get(), r2t.data_len.get());
        if len == 0 {
            return Err(refused(offset!(DataPdu, data_len)));
        }
        if offset != command.moved || len > command.len - command.moved {
            return Err(PeerError::DataOutOfRange { offset, len, expected: command.moved });
        }
        self.posted[cid].moved += len;
        self.send_data(cid, r2t.transfer_tag.get(), offset, len);
        Ok(())
    }

    /// The command whose identifier is at `offset` of a PDU.
    #[inline]
    fn find(&self, pdu: PduType, offset: u32, cid: u16) -> Result<&Command, PeerError> {
        self.posted.find(cid).ok_or(PeerError::HeaderField { pdu, offset })
    }

    /// Consumes the current PDU's body from `rest`. Returns `false` if more bytes are needed first,
    /// or if payload is next.
    #[inline]
    pub(super) fn consume_body(&mut self, rest: &mut &[u8]) -> bool {
        self.framer.body.skip_padding(rest);
        if self.framer.body.data_is_next() {
            let Some(sink) = self.sink else {
                self.framer.body.take_data(rest);
                return self.try_end_body(rest);
            };
            let Data::SmallIncoming(small) = &mut self.posted[sink.cid].data else { return false };
            let data = self.framer.body.take_data(rest);
            small.extend_from_slice(data);
            self.count_received(sink.cid, data.len());
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
    pub(super) fn count_received(&mut self, cid: u16, len: usize) {
        let len = u32::try_from(len).expect("no PDU has 4 GiB of data");
        self.posted[cid].moved += len;
    }

    #[inline]
    pub(super) fn end_body(&mut self) {
        let Some(Sink { cid, completes }) = self.sink.take() else { return };
        let command = &mut self.posted[cid];
        command.damaged |= self.framer.body.damage().is_some();
        if completes {
            command.damaged |= came_short(command);
            self.complete(CompletionEntry::new(CommandId(cid), Status::SUCCESS));
        }
    }

    /// Completes a command.
    #[inline]
    fn complete(&mut self, entry: CompletionEntry) {
        let cid = entry.cid.get();
        let command = &mut self.posted[cid];
        command.answer = if command.damaged && entry.status().is_success() {
            CompletionEntry::new(CommandId(cid), Status::TRANSIENT_TRANSPORT_ERROR)
        } else {
            entry
        };
        self.posted.complete(cid, self.output.position());
    }
}

/// The offset of CID in a response capsule.
const ENTRY_CID: u32 = 8 + 12;

#[inline]
fn response(head: &[u8]) -> CompletionEntry {
    CapsuleResp::ref_from_prefix(head).expect("the framer checked the length").0.entry
}
