//! A target's answers to commands: Data-In, R2T and SCSI Response.
//!
//! Spec: RFC 7143, 11.4, 11.7 and 11.8.

use nearflash_session::Data;
use zerocopy::FromBytes;
use zerocopy::big_endian::U32;

use super::config::{Ending, Status, TaskId};
use super::sense::Sense;
use super::{Answer, InitiatorSession, Sink};
use crate::error::PeerError;
use crate::pdu::{DataIn, HEADER_LEN, NO_TAG, Opcode, R2t, ScsiResponse, Serial};

const FLAGS_OFFSET: u32 = 1;
const ITT_OFFSET: u32 = 16;
const TTT_OFFSET: u32 = 20;
const DESIRED_LEN_OFFSET: u32 = 44;

/// The length in bytes of the SenseLength field before the sense data of a response.
const SENSE_LEN_FIELD: usize = 2;

impl InitiatorSession {
    /// Data comes in order, so the next offset is the length received so far.
    #[inline]
    pub(super) fn on_data_in(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header = DataIn::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::DATA_IN;
        let id = self.find(opcode, header.itt)?;
        let command = &mut self.posted[id.0];
        if !command.data.is_incoming() {
            return Err(PeerError::HeaderField { opcode, offset: ITT_OFFSET });
        }
        let (received, expected) = (header.data_sn.get(), command.answer.data_sn);
        if received != expected {
            return Err(PeerError::Serial { opcode, received, expected });
        }
        let (offset, len) = (header.offset.get(), header.data_len.get());
        if offset != command.moved || len > command.len - command.moved {
            return Err(PeerError::DataOutOfRange { opcode, offset, len, expected: command.moved });
        }
        command.answer.data_sn = command.answer.data_sn.wrapping_add(1);
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let mut completes = None;
        if header.has_status() {
            if !header.is_final() {
                return Err(PeerError::HeaderField { opcode, offset: FLAGS_OFFSET });
            }
            self.take_stat_sn(opcode, header.stat_sn)?;
            let has_underflow = header.flags & DataIn::UNDERFLOW != 0;
            let underflow = if has_underflow { header.residual.get() } else { 0 };
            completes = Some(Answer { status: Status(header.status), underflow });
        }
        self.sink = Sink::Task { id, completes };
        Ok(())
    }

    #[inline]
    pub(super) fn end_data(&mut self, id: TaskId, completes: Option<Answer>) {
        if self.framer.body.damage().is_some() {
            self.posted[id.0].damaged = true;
        }
        if let Some(answer) = completes {
            self.answer(id, answer);
        }
    }

    /// A response with sense data is handled when it is complete.
    #[inline]
    pub(super) fn on_response(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        if self.framer.body.data_left() > 0 {
            self.keep(head);
            return Ok(());
        }
        self.on_whole_response(head, &[])
    }

    #[inline]
    pub(super) fn on_whole_response(
        &mut self,
        head: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        let header = ScsiResponse::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::SCSI_RESPONSE;
        let id = self.find(opcode, header.itt)?;
        self.take_stat_sn(opcode, header.stat_sn)?;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        if header.response != 0 {
            self.complete(id, Ending::TargetFailed(header.response));
            return Ok(());
        }
        self.posted[id.0].answer.sense = sense(data);
        let has_underflow = header.flags & ScsiResponse::UNDERFLOW != 0;
        let underflow = if has_underflow { header.residual.get() } else { 0 };
        self.answer(id, Answer { status: Status(header.status), underflow });
        Ok(())
    }

    /// Data is asked for in order, so no byte is asked for twice.
    #[inline]
    pub(super) fn on_r2t(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header = R2t::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::R2T;
        let refused = |offset| PeerError::HeaderField { opcode, offset };
        let id = self.find(opcode, header.itt)?;
        let burst_max = self.session.max_burst_len;
        let command = &mut self.posted[id.0];
        if !command.data.is_outgoing() {
            return Err(refused(ITT_OFFSET));
        }
        let (received, expected) = (header.r2t_sn.get(), command.answer.data_sn);
        if received != expected {
            return Err(PeerError::Serial { opcode, received, expected });
        }
        let (offset, len, ttt) = (header.offset.get(), header.desired_len.get(), header.ttt.get());
        if ttt == NO_TAG {
            return Err(refused(TTT_OFFSET));
        }
        if len == 0 || len > burst_max {
            return Err(refused(DESIRED_LEN_OFFSET));
        }
        if offset != command.moved || len > command.len - command.moved {
            return Err(PeerError::DataOutOfRange { opcode, offset, len, expected: command.moved });
        }
        command.moved += len;
        command.answer.data_sn = command.answer.data_sn.wrapping_add(1);
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        self.send_data(id, ttt, offset, len);
        Ok(())
    }

    /// The command that a PDU names.
    #[inline]
    pub(super) fn find(&self, opcode: Opcode, itt: U32) -> Result<TaskId, PeerError> {
        let tag = itt.get();
        let index = u16::try_from(tag ^ self.tag_base).ok();
        let index = index.filter(|index| self.posted.find(*index).is_some());
        index.map(TaskId).ok_or(PeerError::UnknownTask { opcode, tag })
    }

    /// Checks and counts StatSN. At error recovery level 0, no number is ever missing.
    #[inline]
    pub(super) fn take_stat_sn(&mut self, opcode: Opcode, field: U32) -> Result<(), PeerError> {
        let received = Serial::of(field);
        if received != self.exp_stat_sn {
            let (received, expected) = (received.0, self.exp_stat_sn.0);
            return Err(PeerError::Serial { opcode, received, expected });
        }
        self.exp_stat_sn = received.next();
        Ok(())
    }

    /// ExpCmdSN and MaxCmdSN of a PDU.
    #[inline]
    pub(super) fn move_window(&self, exp_cmd_sn: U32, max_cmd_sn: U32) {
        self.window.update(Serial::of(exp_cmd_sn), Serial::of(max_cmd_sn), self.is_shared);
    }

    /// Completes a command with the answer of the logical unit.
    #[inline]
    fn answer(&mut self, id: TaskId, answer: Answer) {
        let command = &mut self.posted[id.0];
        let is_good = answer.status == Status::GOOD;
        let is_damaged = match command.data {
            // A read that succeeds has all its data, except for the residual that the target
            // reports.
            Data::Incoming(_) => {
                command.damaged
                    || is_good
                        && u64::from(command.moved) + u64::from(answer.underflow)
                            != u64::from(command.len)
            }
            Data::SmallIncoming(_) => command.damaged,
            Data::None => false,
            Data::Outgoing(_) | Data::SmallOutgoing(_) => {
                command.moved = command.len.saturating_sub(answer.underflow);
                false
            }
        };
        let ending =
            if is_damaged && is_good { Ending::Damaged } else { Ending::Answered(answer.status) };
        self.complete(id, ending);
    }

    /// A command is over.
    #[inline]
    pub(super) fn complete(&mut self, id: TaskId, ending: Ending) {
        self.posted[id.0].answer.ending = ending;
        self.posted.complete(id.0, self.output.position());
    }
}

/// The sense data of a response; `None` if the response has no valid sense data.
fn sense(data: &[u8]) -> Option<Sense> {
    let (len, sense) = data.split_first_chunk::<SENSE_LEN_FIELD>()?;
    let len = usize::from(u16::from_be_bytes(*len)).min(sense.len());
    Sense::parse(&sense[..len])
}
