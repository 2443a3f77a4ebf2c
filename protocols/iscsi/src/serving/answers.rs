//! Answers: Data-In with the status in the last, SCSI Responses, and every other PDU to the
//! initiator.
//!
//! Spec: RFC 7143, 11.4 (SCSI Response), 11.7 (Data-In), 11.17 (Reject); residuals: 11.4.5.

use nearflash_request::{BufferId, ChangeResult, Completion, Payload, Tag};
use nearflash_scsi::{Failure, RequestTask, Sense, Status};
use nearflash_session::digest;

use super::commands::len32;
use super::slots::{Kind, Stage};
use super::{State, TargetSession};
use crate::length;
use crate::pdu::{DataIn, FINAL, HEADER_LEN, NO_TAG, Opcode, RejectReason, ScsiResponse, word};
use crate::small::{push_data, push_tail};

#[derive(Clone, Copy, Debug)]
pub(super) enum DataSource<'a> {
    /// In a pool buffer; with its bytes, if a data digest is needed.
    Buffer(BufferId, &'a [u8]),
    Zeroes,
    Bytes(&'a [u8]),
}

/// The difference between the expected and the actual transfer length, as flag and count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Residual {
    flag: u8,
    count: u32,
}

impl Residual {
    #[inline]
    pub(super) const fn of(expected: u32, wanted: u32) -> Self {
        if expected == wanted {
            Self { flag: 0, count: 0 }
        } else if expected < wanted {
            Self { flag: ScsiResponse::OVERFLOW, count: wanted - expected }
        } else {
            Self { flag: ScsiResponse::UNDERFLOW, count: expected - wanted }
        }
    }
}

/// The first eight bytes of a header.
#[inline]
fn head(opcode: Opcode, flags: u8, [third, fourth]: [u8; 2], data_len: u32) -> u64 {
    word(u32::from_be_bytes([opcode.0, flags, third, fourth]), data_len)
}

/// The fields that answer PDUs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) opcode: Opcode,
    pub(super) flags: u8,
    /// Bytes 2 and 3.
    pub(super) codes: [u8; 2],
    /// Bytes 8 to 15.
    pub(super) lun: [u8; 8],
    pub(super) itt: u32,
    /// Bytes 20 to 23.
    pub(super) tag: u32,
    /// Bytes 36 to 47.
    pub(super) rest: [u32; 3],
}

impl Answer {
    /// Everything else zero.
    pub(super) const fn new(opcode: Opcode, itt: u32) -> Self {
        let (lun, rest) = ([0; 8], [0; 3]);
        Self { opcode, flags: FINAL, codes: [0; 2], lun, itt, tag: 0, rest }
    }
}

impl TargetSession {
    /// Answers every request that is not a successful read or write of the common form.
    #[cold]
    pub(super) fn answer_request(&mut self, index: u16, done: Completion, payload: &[u8]) {
        let kind = std::mem::take(&mut self.tasks.slots[index].kind);
        let task = match kind {
            Kind::Series(series) => return self.answer_piece(index, series, done, payload),
            Kind::Request { task, .. } => task,
            Kind::Read { range, .. } => self.plain_task(index, range, false),
            Kind::Write { range, .. } => self.plain_task(index, range, true),
            _ => panic!("only requests are answered by the engine"),
        };
        let reads = task.data_in.0 > 0;
        match (task.answer(&done), done.payload) {
            (Err(failure), other) => {
                self.link.output.orphan_payload(other);
                if reads {
                    self.tasks.slots[index].wanted = 0;
                }
                self.fail(index, failure);
            }
            (Ok(_), Payload::Buffer(_) | Payload::Zeroes) => {
                self.answer_with(index, source_of(done.payload, payload));
            }
            (Ok(data), _) => self.answer_data(index, &data),
        }
    }

    /// The general task for a read or write of the common form, to make its sense data.
    fn plain_task(
        &self,
        index: u16,
        range: nearflash_request::BlockRange,
        writes: bool,
    ) -> Box<RequestTask> {
        use nearflash_scsi::Action;
        let unit = self.tasks.slots[index].lun.and_then(|lun| self.units.get(lun));
        let block_size = unit.map_or(nearflash_units::BlockSize::B512, |unit| unit.block_size);
        let action = if writes { Action::Write { force_unit_access: false } } else { Action::Read };
        let mut task = RequestTask::new(action, range, block_size);
        if !writes {
            task.data_in = nearflash_units::ByteLen(u64::from(self.tasks.slots[index].wanted));
        }
        Box::new(task)
    }

    /// The control side's answer.
    ///
    /// # Panics
    /// When no such change is under way.
    pub fn handle_change(&mut self, tag: Tag, result: &ChangeResult) {
        if self.state == State::Closing {
            return;
        }
        let index = index_of(tag);
        let slot = self.tasks.slots.get(usize::from(index)).expect("a change is answered once");
        assert!(slot.stage == Stage::Submitted, "a change is answered once");
        let kind = std::mem::take(&mut self.tasks.slots[index].kind);
        match kind {
            Kind::Change { task, .. } => match task.answer(result) {
                Ok(data) => self.answer_data(index, &data),
                Err(failure) => self.fail(index, failure),
            },
            Kind::Function(task) => self.answer_handed_out(index, task, result),
            _ => panic!("only changes are answered by the control side"),
        }
        if !self.siblings.functions.is_empty() {
            self.settle_functions();
        }
    }

    pub(super) fn answer_data(&mut self, index: u16, data: &[u8]) {
        if data.is_empty() {
            self.answer_good(index);
        } else {
            self.tasks.slots[index].wanted = len32(data.len());
            self.answer_with(index, DataSource::Bytes(data));
        }
    }

    /// Answers GOOD with data: as many Data-In as necessary, with the status in the last.
    #[inline]
    pub(super) fn answer_with(&mut self, index: u16, source: DataSource<'_>) {
        let slot = &self.tasks.slots[index];
        let (itt, expected, wanted) = (slot.itt, slot.expected, slot.wanted);
        let residual = Residual::of(expected, wanted);
        let len = expected.min(wanted);
        self.release_slot(index);
        if len == 0 {
            if let DataSource::Buffer(buffer, _) = source {
                self.link.output.orphan(buffer);
            }
            return self.push_response(itt, Status::GOOD, residual, 0, &[]);
        }
        let burst_max = self.shared.params.max_burst_len;
        if len > self.link.params.send_len_max || len > burst_max {
            let span = Span { start: 0, end: len, number: 0, is_last: true };
            self.push_in_parts(itt, source, span, residual);
            return;
        }
        let part = Part { number: 0, offset: 0, within: 0, len, is_end: true, is_last: true };
        self.push_data_in(itt, source, part, FINAL, residual);
    }

    /// RFC 7143, 11.7.1: F ends each sequence of MaxBurstLength. Returns the next DataSN.
    #[cold]
    pub(super) fn push_in_parts(
        &mut self,
        itt: u32,
        source: DataSource<'_>,
        span: Span,
        residual: Residual,
    ) -> u32 {
        let burst_max = self.shared.params.max_burst_len;
        let (mut offset, mut number) = (span.start, span.number);
        while offset < span.end {
            let burst_left = burst_max - offset % burst_max;
            let len = self.link.params.send_len_max.min(burst_left).min(span.end - offset);
            let is_end = offset + len == span.end;
            let is_last = is_end && span.is_last;
            let flags = if is_last || len == burst_left { FINAL } else { 0 };
            let part = Part { number, offset, within: offset - span.start, len, is_end, is_last };
            self.push_data_in(itt, source, part, flags, residual);
            offset += len;
            number += 1;
        }
        number
    }

    #[inline]
    fn push_data_in(
        &mut self,
        itt: u32,
        source: DataSource<'_>,
        part: Part,
        flags: u8,
        residual: Residual,
    ) {
        let Part { number, offset, within, len, is_end, is_last } = part;
        let mut stat_sn = 0;
        let mut status = (flags, 0);
        if is_last {
            stat_sn = self.next_stat_sn();
            status = (flags | residual.flag | DataIn::STATUS, residual.count);
        }
        let (flags, residual_count) = status;
        let words = [
            head(Opcode::DATA_IN, flags, [0; 2], len),
            0,
            word(itt, NO_TAG),
            word(stat_sn, self.shared.numbers.expected().0),
            word(self.shared.numbers.last().0, number),
            word(offset, residual_count),
        ];
        self.link.output.push_header(words, self.link.params.digests);
        let start = length(within);
        let end = start + length(len);
        match source {
            DataSource::Buffer(buffer, _) if is_end => {
                self.link.output.push_buffer(buffer, within, len)
            }
            DataSource::Buffer(buffer, _) => {
                self.link.output.push_part_of_buffer(buffer, within, len)
            }
            DataSource::Zeroes => self.link.output.push_zeroes(len),
            DataSource::Bytes(bytes) => self.link.output.push_bytes(&bytes[start..end]),
        }
        let digests = self.link.params.digests;
        push_tail(&mut self.link.output, digests, length(len), || match source {
            DataSource::Buffer(_, bytes) | DataSource::Bytes(bytes) => {
                digest::digest(&bytes[start..end])
            }
            DataSource::Zeroes => digest::digest_of_zeroes(length(len)),
        });
    }

    /// GOOD, without data.
    #[inline]
    pub(super) fn answer_good(&mut self, index: u16) {
        let slot = &self.tasks.slots[index];
        let (itt, expected, r2ts) = (slot.itt, slot.expected, slot.r2t_sn);
        let wanted = slot.wanted;
        self.release_slot(index);
        self.push_response(itt, Status::GOOD, Residual::of(expected, wanted), r2ts, &[]);
    }

    /// Answers a command that failed, with the reason.
    #[cold]
    pub(super) fn fail(&mut self, index: u16, failure: Failure) {
        let slot = &self.tasks.slots[index];
        let (itt, expected, r2ts) = (slot.itt, slot.expected, slot.r2t_sn);
        let wanted = if matches!(slot.kind, Kind::Read { .. }) { 0 } else { slot.wanted };
        let data = failure.sense().map(|sense| self.sense_segment(slot.lun, sense));
        let (residual, data) = (Residual::of(expected, wanted), data.unwrap_or_default());
        self.release_slot(index);
        self.push_response(itt, failure.status(), residual, r2ts, &data);
    }

    /// A data segment with sense data, in the unit's format. RFC 7143, 11.4.7.
    pub(super) fn sense_segment(&self, lun: Option<u16>, sense: Sense) -> Vec<u8> {
        let unit = lun.and_then(|lun| self.units.get(lun));
        let sense = sense.to_bytes(unit.is_some_and(|unit| unit.descriptor_sense));
        let len = u16::try_from(sense.len()).expect("sense data is shorter than 64 KiB");
        [&len.to_be_bytes()[..], &sense].concat()
    }

    #[inline]
    fn push_response(
        &mut self,
        itt: u32,
        status: Status,
        residual: Residual,
        r2t_count: u32,
        data: &[u8],
    ) {
        let answer = Answer {
            flags: FINAL | residual.flag,
            codes: [0, status.0],
            rest: [r2t_count, 0, residual.count],
            ..Answer::new(Opcode::SCSI_RESPONSE, itt)
        };
        self.push_answer(&answer, data);
    }

    /// Queues a PDU that uses a StatSN.
    #[inline]
    pub(super) fn push_answer(&mut self, answer: &Answer, data: &[u8]) {
        let stat_sn = self.next_stat_sn();
        self.push_pdu(answer, stat_sn, data);
    }

    /// Queues a PDU that answers nothing: it carries the next StatSN, without using it.
    #[inline]
    pub(super) fn push_unasked(&mut self, answer: &Answer, data: &[u8]) {
        self.push_pdu(answer, self.link.stat_sn, data);
    }

    #[inline]
    fn push_pdu(&mut self, answer: &Answer, stat_sn: u32, data: &[u8]) {
        if self.state == State::Closing {
            return;
        }
        let data_len = len32(data.len());
        let [first, second, third] = answer.rest;
        let words = [
            head(answer.opcode, answer.flags, answer.codes, data_len),
            u64::from_le_bytes(answer.lun),
            word(answer.itt, answer.tag),
            word(stat_sn, self.shared.numbers.expected().0),
            word(self.shared.numbers.last().0, first),
            word(second, third),
        ];
        self.link.output.push_header(words, self.link.params.digests);
        push_data(&mut self.link.output, self.link.params.digests, data);
    }

    /// Rejects a PDU: the Reject carries its header.
    #[cold]
    pub(super) fn reject(&mut self, reason: RejectReason, header: &[u8]) {
        let header = &header[..header.len().min(HEADER_LEN)];
        let answer = Answer { codes: [reason.0, 0], ..Answer::new(Opcode::REJECT, NO_TAG) };
        self.push_answer(&answer, header);
    }

    #[inline]
    fn next_stat_sn(&mut self) -> u32 {
        let stat_sn = self.link.stat_sn;
        self.link.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    /// Ends a command: frees its slot, its buffers and its place in the window.
    #[inline]
    pub(super) fn release_slot(&mut self, index: u16) {
        let slot = &mut self.tasks.slots[index];
        if !matches!(slot.kind, Kind::Read { .. }) {
            self.link.output.orphan_all(slot.buffers.take().into_iter().flatten());
        }
        if slot.is_immediate {
            self.tasks.immediate_count -= 1;
        } else if slot.is_due {
            self.shared.numbers.give_back();
        }
        self.tasks.slots.give_back(index);
    }
}

/// One Data-In of several.
#[derive(Clone, Copy, Debug)]
struct Part {
    number: u32,
    offset: u32,
    /// Where its data begins in what it is taken from.
    within: u32,
    len: u32,
    /// The last of what it is taken from.
    is_end: bool,
    /// The last of the command: it has the status.
    is_last: bool,
}

/// The range of a command's data that is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Where it begins, and where it ends.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The number of its first Data-In.
    pub(super) number: u32,
    /// No data follows.
    pub(super) is_last: bool,
}

#[inline]
pub(super) fn source_of(payload: Payload, bytes: &[u8]) -> DataSource<'_> {
    match payload {
        Payload::Buffer(buffer) => DataSource::Buffer(buffer, bytes),
        Payload::Zeroes => DataSource::Zeroes,
        other => panic!("a read that succeeded has payload, not {other:?}"),
    }
}

/// A request's tag is its slot.
#[inline]
pub(super) fn index_of(tag: Tag) -> u16 {
    u16::try_from(tag.0).expect("a tag is the index of a slot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_session::Output;

    #[test]
    fn a_residual_is_what_is_missing_or_too_much() {
        assert_eq!(Residual::of(512, 512), Residual { flag: 0, count: 0 });
        assert_eq!(Residual::of(200, 512), Residual { flag: ScsiResponse::OVERFLOW, count: 312 });
        assert_eq!(
            Residual::of(10_000, 512),
            Residual { flag: ScsiResponse::UNDERFLOW, count: 9488 }
        );
    }

    #[test]
    fn fields_are_in_network_order() {
        let mut output = Output::default();
        output.push_words([word(0x0102_0304, 0x0506_0708)]);
        assert_eq!(output.last_bytes(8), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
