//! Completions: response capsules, and data to the host before or instead of them.
//!
//! Spec: NVMe/TCP 1.1, 3.3.2.2 and 3.6.2.7–9; SQ head and flow control: NVMe Base 2.0, 3.3.2.1.

use nearflash_nvme::serving::Connected;
use nearflash_nvme::{CommandId, CompletionEntry, Status};
use nearflash_request::{Completion, Outcome, Payload};
use zerocopy::little_endian::U32;

use super::slots::{Kind, Part, Stage};
use super::{State, TargetSession};
use crate::digest::{Digests, append_zeroes, digest, digest_of_zeroes};
use crate::length;
use crate::pdu::{
    CapsuleResp, CommonHeader, DataAlignment, DataIds, DataPdu, PADDING, PduFlags, PduType,
};
use nearflash_session::Output;

/// SQHD of a Connect response if SQ flow control is disabled. NVMe Base 2.0, 6.3.
const SQ_HEAD_UNUSED: u16 = 0xFFFF;

/// The source of data to the host.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataSource<'a> {
    /// The payload of a completed read.
    Payload(Payload),
    /// These bytes, followed by zeroes if the data is longer.
    Bytes(&'a [u8]),
}

/// The parameters of this connection's PDUs to the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answering {
    digests: Digests,
    /// The common header of every C2HData, apart from SUCCESS and PLEN.
    data_common: CommonHeader,
    /// The length of the padding between the C2HData header, or its digest, and the data.
    padding: usize,
    /// The number of submission queue entries. `sq_head` counts the completions modulo this number.
    sq_entries: u16,
    sq_head: u16,
    flow_control: bool,
}

impl Answering {
    pub(super) fn new(digests: Digests, alignment: DataAlignment) -> Self {
        let mut data_common = CommonHeader::bare(PduType::C2H_DATA, 24);
        data_common.flags = PduFlags::LAST;
        let padding = data_common.lay_out(digests, alignment, 0);
        Self { digests, data_common, padding, sq_entries: 1, sq_head: 0, flow_control: true }
    }

    pub(super) fn become_queue(&mut self, sq_entries: u16, flow_control: bool) {
        self.sq_entries = sq_entries;
        self.flow_control = flow_control;
    }

    /// Frees one more entry of the submission queue and returns the new SQHD.
    #[inline]
    fn next_sq_head(&mut self) -> u16 {
        self.sq_head += 1;
        if self.sq_head >= self.sq_entries {
            self.sq_head = 0;
        }
        self.sq_head
    }

    /// Queues a C2HData with all of a command's data. `len` is not zero. `data_digest` is only used
    /// if data digests are enabled.
    #[inline]
    fn push_data(
        &self,
        output: &mut Output,
        cid: CommandId,
        (source, len): (DataSource<'_>, u32),
        flags: PduFlags,
        data_digest: u32,
    ) {
        let mut common = self.data_common;
        common.flags = common.flags.with(flags);
        let digest_len = if self.digests.data { 4 } else { 0 };
        common.pdu_len = U32::new(u32::from(common.data_offset) + len + digest_len);
        let ids = DataIds { command_id: cid.0, transfer_tag: 0 };
        let words = DataPdu::new(common, ids, 0, len).to_words();
        if let (DataSource::Payload(payload), 0) = (source, self.padding) {
            output.push_header_and_payload(words, self.digests, payload, (0, len));
        } else {
            output.push_header(words, self.digests);
            output.push_bytes(&PADDING[..self.padding]);
            match source {
                DataSource::Payload(payload) => output.push_payload(payload, (0, len)),
                DataSource::Bytes(bytes) => {
                    output.push_bytes(bytes);
                    let behind = length(len) - bytes.len();
                    if behind > 0 {
                        output.push_zeroes(u32::try_from(behind).expect("it is part of len"));
                    }
                }
            }
        }
        if self.digests.data {
            output.push_digest(data_digest);
        }
    }
}

impl TargetSession {
    /// Completes a read that succeeded.
    #[inline]
    pub(super) fn answer_read(&mut self, index: u16, payload: Payload, bytes: &[u8]) {
        let (cid, len) = (self.slots[index].cid, self.slots[index].len);
        let data_digest = match payload {
            _ if !self.answering.digests.data => 0,
            Payload::Buffer(_) => digest(&bytes[..length(len)]),
            _ => digest_of_zeroes(length(len)),
        };
        self.slots.give_back(index);
        let without_response = !self.answering.flow_control;
        let flags = if without_response { PduFlags::SUCCESS } else { PduFlags::default() };
        let source = (DataSource::Payload(payload), len);
        self.answering.push_data(&mut self.output, cid, source, flags, data_digest);
        if !without_response {
            self.respond(CompletionEntry::new(cid, Status::SUCCESS));
        }
    }

    /// Completes any request except a successful read.
    pub(super) fn answer_request(&mut self, index: u16, done: Completion) {
        self.output.orphan_payload(done.payload);
        let slot = &mut self.slots[index];
        if let Part::First(Some(second)) = slot.part {
            let (first_status, second_status) = super::fused::statuses(done.outcome);
            self.answer(index, first_status);
            self.answer(second, second_status);
            return;
        }
        if done.outcome != Outcome::Success {
            slot.failed = slot.failed.or(Some(done.outcome.into()));
        }
        let Stage::Submitted { pending } = &mut slot.stage else { unreachable!("seen above") };
        *pending -= 1;
        if *pending == 0 {
            let status = slot.failed.unwrap_or(Status::SUCCESS);
            self.answer(index, status);
        }
    }

    /// Passes in the controller's completion of a [`super::Demand::Admin`] and its data. Data
    /// beyond the length of the host's buffer is not sent.
    ///
    /// # Panics
    /// If no such command is in flight.
    pub fn handle_admin_response(&mut self, entry: CompletionEntry, data: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        let cid = entry.command_id();
        let index = self.slots.handed_out(cid).expect("an admin command is answered once");
        let data = &data[..data.len().min(length(self.slots[index].len))];
        self.slots.give_back(index);
        if !data.is_empty() {
            let len = u32::try_from(data.len()).expect("cut to a 32-bit length");
            self.push_own_data(cid, data, len);
        }
        self.respond(entry);
    }

    /// Passes in the subsystem's completion of a [`super::Demand::Connect`]; `queue` if it
    /// succeeded.
    ///
    /// # Panics
    /// If no Connect is in flight.
    pub fn handle_connected(&mut self, mut entry: CompletionEntry, queue: Option<Connected>) {
        if self.state == State::Closing {
            return;
        }
        let index = self.slots.handed_out(entry.command_id()).expect("a Connect is answered once");
        let flow_control = match self.slots[index].kind {
            Kind::ConnectHandedOut { flow_control } => flow_control,
            _ => panic!("the Connect is answered before anything else"),
        };
        self.slots.give_back(index);
        match queue {
            Some(queue) => {
                self.become_queue(queue, flow_control);
                // The Connect itself is the queue's first entry.
                let head = self.answering.next_sq_head();
                entry.sq_head = if flow_control { head } else { SQ_HEAD_UNUSED }.into();
            }
            None => self.state = State::AwaitingConnect,
        }
        self.push_response(entry);
    }

    /// Sends data that is not in a pool buffer: these bytes, followed by zeroes up to `len`.
    pub(super) fn push_own_data(&mut self, cid: CommandId, bytes: &[u8], len: u32) {
        let data_digest = if self.answering.digests.data {
            append_zeroes(digest(bytes), length(len) - bytes.len())
        } else {
            0
        };
        let source = (DataSource::Bytes(bytes), len);
        let flags = PduFlags::default();
        self.answering.push_data(&mut self.output, cid, source, flags, data_digest);
    }

    /// Completes the command in a slot without data. Its buffer is returned at the next
    /// opportunity.
    pub(super) fn answer(&mut self, index: u16, status: Status) {
        let slot = &mut self.slots[index];
        let cid = slot.cid;
        self.output.orphan_all(slot.buffer.take());
        self.slots.give_back(index);
        self.respond(CompletionEntry::new(cid, status));
    }

    /// Completes a command that never had a slot with an error.
    pub(super) fn refuse(&mut self, cid: CommandId, status: Status) {
        self.respond(CompletionEntry::new(cid, status));
    }

    #[inline]
    pub(super) fn respond(&mut self, mut entry: CompletionEntry) {
        if self.answering.flow_control {
            entry.sq_head = self.answering.next_sq_head().into();
        }
        self.push_response(entry);
    }

    #[inline]
    fn push_response(&mut self, entry: CompletionEntry) {
        let digests = self.answering.digests;
        let common = CommonHeader::bare(PduType::CAPSULE_RESP, 24).digested(digests);
        self.output.push_header(CapsuleResp { common, entry }.to_words(), digests);
    }
}
