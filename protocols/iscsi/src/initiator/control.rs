//! PDUs other than commands: login, pings, task management, text, logout and asynchronous messages.
//!
//! Spec: RFC 7143, 11.5, 11.6, 11.9 to 11.11, 11.14, 11.15 and 11.17 to 11.19.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::config::{Ending, Event, SubmitError, TaskId};
use super::discovery::{TARGETS_TEXT_LEN_MAX, parse_targets};
use super::sense::Sense;
use super::{InitiatorSession, State};
use crate::error::PeerError;
use crate::pdu::{
    Async, AsyncEvent, BasicHeader, CONTINUE, DataSegmentLen, FINAL, HEADER_LEN, LoginResponse,
    LogoutReason, LogoutRequest, LogoutResponse, LunField, NO_TAG, NopIn, NopOut, Opcode, Reject,
    Serial, TaskFunction, TaskRequest, TaskResponse, TaskResult, TextRequest, TextResponse,
};
use crate::small::push_small;
use crate::text::{Gathering, Outgoing};

/// Tags that no command has: commands are numbered below [`super::TASKS_MAX`].
const PING_TAG: u32 = 0xFFF0;
const TEXT_TAG: u32 = 0xFFF1;
const LOGOUT_TAG: u32 = 0xFFF2;
const MANAGE_TAG: u32 = 0xFFF3;
const FENCE_TAG: u32 = 0xFFF4;

/// A task management function that is under way, and the commands that it affects.
#[derive(Clone, Copy, Debug)]
pub struct Managing {
    function: TaskFunction,
    lun: LunField,
    task: Option<TaskId>,
    /// Its CmdSN: it affects commands with lower numbers.
    number: Serial,
}

impl InitiatorSession {
    /// Handles a PDU, except Data-In and R2T, with all its data.
    pub(super) fn on_whole(
        &mut self,
        opcode: Opcode,
        head: &[u8; HEADER_LEN],
        data: &[u8],
    ) -> Result<(), PeerError> {
        match opcode {
            Opcode::LOGIN_RESPONSE => self.on_login_response(head, data),
            Opcode::SCSI_RESPONSE => self.on_whole_response(head, data),
            Opcode::NOP_IN => self.on_nop_in(head),
            Opcode::TASK_RESPONSE => self.on_task_response(head),
            Opcode::TEXT_RESPONSE => self.on_text_response(head, data),
            Opcode::LOGOUT_RESPONSE => self.on_logout_response(head),
            Opcode::ASYNC => self.on_async(head, data),
            Opcode::REJECT => self.on_reject(head, data),
            _ => unreachable!("others are not gathered"),
        }
    }

    fn on_login_response(&mut self, head: &[u8; HEADER_LEN], data: &[u8]) -> Result<(), PeerError> {
        let header =
            LoginResponse::ref_from_bytes(head).expect("the head has this header's length");
        let State::LoggingIn(login) = &mut self.state else {
            unreachable!("gathered during the login only")
        };
        if let Some(established) = login.handle(header, data, &mut self.output)? {
            self.establish(established);
        }
        Ok(())
    }

    /// RFC 7143, 11.19: an answer to a ping, or a ping, or an update of the command window.
    fn on_nop_in(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header = NopIn::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::NOP_IN;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let tag = header.itt.get();
        if tag == NO_TAG {
            if header.ttt.get() != NO_TAG {
                self.push_request(NopOut::new(header.lun, NO_TAG, header.ttt.get()), &[]);
            }
            return Ok(());
        }
        self.take_stat_sn(opcode, header.stat_sn)?;
        if tag == self.tag_base | FENCE_TAG && self.errands.fenced > 0 {
            self.pass_fence();
            return Ok(());
        }
        if tag != self.tag_base | PING_TAG || !std::mem::take(&mut self.errands.is_pinging) {
            return Err(PeerError::UnknownTask { opcode, tag });
        }
        self.errands.events.push_back(Event::Pong);
        Ok(())
    }

    /// Pings the target: [`Event::Pong`] reports its answer.
    ///
    /// # Errors
    /// When the connection is not ready or a ping is under way.
    pub fn ping(&mut self) -> Result<(), SubmitError> {
        if !self.is_ready() || self.errands.is_pinging {
            return Err(SubmitError::NotReady);
        }
        self.errands.is_pinging = true;
        let ping = NopOut::new(LunField::default(), self.tag_base | PING_TAG, NO_TAG);
        self.push_request(ping, &[]);
        Ok(())
    }

    /// Queues an immediate request: CmdSN and ExpStatSN are at the same place in each.
    fn push_request(&mut self, header: impl IntoBytes + Immutable, data: &[u8]) {
        let mut header: [u8; HEADER_LEN] =
            header.as_bytes().try_into().expect("every header has 48 bytes");
        header[24..28].copy_from_slice(self.window.next().field().as_bytes());
        header[28..32].copy_from_slice(self.exp_stat_sn.field().as_bytes());
        push_small(&mut self.output, self.connection.digests, &header, data);
    }

    /// Requests a task management function for a logical unit or one command: [`Event::Managed`]
    /// reports its result. Then [`Self::conclude`] must be called for the session's other
    /// connections, too.
    ///
    /// # Errors
    /// When the connection is not ready or one is under way.
    pub fn manage(
        &mut self,
        function: TaskFunction,
        lun: u16,
        task: Option<TaskId>,
    ) -> Result<Managing, SubmitError> {
        if !self.is_ready() || self.errands.managing.is_some() {
            return Err(SubmitError::NotReady);
        }
        let task = task.filter(|task| self.posted.find(task.0).is_some());
        let lun = LunField::new(lun);
        let itt = self.tag_base | MANAGE_TAG;
        let referenced = task.map_or(NO_TAG, |task| self.tag(task));
        let mut header = TaskRequest::new(function, lun, itt, referenced);
        if let Some(task) = task {
            header.ref_cmd_sn = self.posted[task.0].answer.cmd_sn.field();
        }
        let number = self.window.next();
        self.push_request(header, &[]);
        let managing = Managing { function, lun, task, number };
        self.errands.managing = Some(managing);
        Ok(managing)
    }

    /// A function of another connection of the session has ended with `result`: the commands that
    /// it ended here get no response. PDUs that the target sent here before may still come. The
    /// target has waited for them (RFC 7143, 4.2.2.3.3), unless it has lost this connection. So
    /// this connection first sends a ping, whose answer comes after these PDUs.
    pub fn conclude(&mut self, managing: &Managing, result: TaskResult) {
        if managing.function != TaskFunction::ABORT_TASK && self.is_ready() {
            self.errands.concluded.push((*managing, result));
            self.push_fence();
        }
    }

    fn push_fence(&mut self) {
        if self.errands.fenced == 0 && !self.errands.concluded.is_empty() {
            self.errands.fenced = self.errands.concluded.len();
            let ping = NopOut::new(LunField::default(), self.tag_base | FENCE_TAG, NO_TAG);
            self.push_request(ping, &[]);
        }
    }

    /// All PDUs that were sent before the fence have arrived.
    fn pass_fence(&mut self) {
        let fenced = std::mem::take(&mut self.errands.fenced);
        let passed: Vec<_> = self.errands.concluded.drain(..fenced).collect();
        passed.into_iter().for_each(|(managing, result)| self.end_managed(managing, result));
        self.push_fence();
    }

    fn on_task_response(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header = TaskResponse::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::TASK_RESPONSE;
        self.take_stat_sn(opcode, header.stat_sn)?;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let tag = header.itt.get();
        let managing = self.errands.managing.take();
        let managing = managing.filter(|_| tag == self.tag_base | MANAGE_TAG);
        let managing = managing.ok_or(PeerError::UnknownTask { opcode, tag })?;
        self.end_managed(managing, header.response);
        self.errands.events.push_back(Event::Managed(header.response));
        Ok(())
    }

    /// Completes the commands that the function ended: they get no response.
    fn end_managed(&mut self, managing: Managing, result: TaskResult) {
        let Managing { function, lun, task, number } = managing;
        let is_over = match function {
            // A task that the target does not know will never be answered.
            TaskFunction::ABORT_TASK => {
                matches!(result, TaskResult::COMPLETE | TaskResult::NO_TASK)
            }
            _ => result == TaskResult::COMPLETE,
        };
        if !is_over {
            return;
        }
        let tasks: Vec<TaskId> = self.posted.in_flight().map(TaskId).collect();
        for id in tasks {
            let is_meant = match function {
                TaskFunction::ABORT_TASK => Some(id) == task,
                TaskFunction::ABORT_TASK_SET
                | TaskFunction::CLEAR_TASK_SET
                | TaskFunction::LOGICAL_UNIT_RESET => self.posted[id.0].answer.lun == lun,
                TaskFunction::TARGET_WARM_RESET
                | TaskFunction::TARGET_COLD_RESET
                | TaskFunction::I_T_NEXUS_RESET => true,
                _ => false,
            };
            let is_earlier = self.posted[id.0].answer.cmd_sn.is_before(number);
            if is_meant && is_earlier && self.posted.find(id.0).is_some() {
                self.complete(id, Ending::Aborted);
            }
        }
    }

    /// Requests all targets ("All"), one by name, or the session's own (""): [`Event::Targets`].
    ///
    /// # Errors
    /// When the connection is not ready or text is under way.
    pub fn send_targets(&mut self, which: &str) -> Result<(), SubmitError> {
        if !self.is_ready() || self.errands.text.is_some() {
            return Err(SubmitError::NotReady);
        }
        let mut text = Outgoing::default();
        text.push("SendTargets", which);
        let (data, _) = text.next_part(u32::MAX);
        let header = TextRequest::new(FINAL, self.tag_base | TEXT_TAG, NO_TAG);
        self.push_text(header, data);
        self.errands.text = Some(Gathering::new(TARGETS_TEXT_LEN_MAX));
        Ok(())
    }

    fn push_text(&mut self, mut header: TextRequest, data: &[u8]) {
        let len = u32::try_from(data.len()).expect("a single key is short");
        header.data_len = DataSegmentLen::new(len);
        self.push_request(header, data);
    }

    fn on_text_response(&mut self, head: &[u8; HEADER_LEN], data: &[u8]) -> Result<(), PeerError> {
        let header = TextResponse::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::TEXT_RESPONSE;
        self.take_stat_sn(opcode, header.stat_sn)?;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let (tag, ttt) = (header.itt.get(), header.ttt.get());
        let text = self.errands.text.as_mut().filter(|_| tag == self.tag_base | TEXT_TAG);
        let text = text.ok_or(PeerError::UnknownTask { opcode, tag })?;
        text.push(data)?;
        let is_over = header.flags & FINAL != 0 && header.flags & CONTINUE == 0;
        if is_over {
            let targets = parse_targets(&text.take())?;
            self.errands.text = None;
            self.errands.events.push_back(Event::Targets(targets));
            return Ok(());
        }
        if ttt == NO_TAG || data.is_empty() {
            // The exchange cannot continue, or would never end.
            return Err(PeerError::Sequence(opcode));
        }
        let mut next = TextRequest::new(FINAL, tag, ttt);
        next.lun = header.lun;
        self.push_text(next, &[]);
        Ok(())
    }

    /// Requests the end of the connection or session. [`Event::LoggedOut`] comes last.
    ///
    /// # Errors
    /// When the connection is not ready.
    pub fn logout(&mut self, reason: LogoutReason) -> Result<(), SubmitError> {
        if !self.is_ready() {
            return Err(SubmitError::NotReady);
        }
        self.state = State::LoggingOut;
        let cid = u16::try_from(self.tag_base >> 16).expect("the upper half of a tag has 16 bits");
        self.push_request(LogoutRequest::new(reason, self.tag_base | LOGOUT_TAG, cid), &[]);
        Ok(())
    }

    fn on_logout_response(&mut self, head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
        let header =
            LogoutResponse::ref_from_bytes(head).expect("the head has this header's length");
        let opcode = Opcode::LOGOUT_RESPONSE;
        let tag = header.itt.get();
        let is_asked = matches!(self.state, State::LoggingOut);
        if !is_asked || tag != self.tag_base | LOGOUT_TAG {
            return Err(PeerError::UnknownTask { opcode, tag });
        }
        self.take_stat_sn(opcode, header.stat_sn)?;
        self.errands.events.push_back(Event::LoggedOut(header.response));
        self.state = State::Closing;
        Ok(())
    }

    fn on_async(&mut self, head: &[u8; HEADER_LEN], data: &[u8]) -> Result<(), PeerError> {
        let header = Async::ref_from_bytes(head).expect("the head has this header's length");
        self.take_stat_sn(Opcode::ASYNC, header.stat_sn)?;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let cid = self.tag_base >> 16;
        let event = match header.event {
            AsyncEvent::LOGOUT => Event::LogoutRequested { seconds: header.parameter3.get() },
            AsyncEvent::CONNECTION_DROP if u32::from(header.parameter1.get()) != cid => {
                // The target drops another connection, which notices that by itself.
                return Ok(());
            }
            AsyncEvent::CONNECTION_DROP | AsyncEvent::SESSION_DROP => {
                return Err(PeerError::Ended(header.event));
            }
            AsyncEvent::SCSI => {
                let sense = data.split_first_chunk::<2>().and_then(|(_, data)| Sense::parse(data));
                Event::Reported(sense)
            }
            // Other events need no action.
            _ => Event::Reported(None),
        };
        self.errands.events.push_back(event);
        Ok(())
    }

    /// RFC 7143, 11.17: a rejected command is over; a Reject of any other PDU ends the connection.
    fn on_reject(&mut self, head: &[u8; HEADER_LEN], data: &[u8]) -> Result<(), PeerError> {
        let header = Reject::ref_from_bytes(head).expect("the head has this header's length");
        self.take_stat_sn(Opcode::REJECT, header.stat_sn)?;
        self.move_window(header.exp_cmd_sn, header.max_cmd_sn);
        let Ok((fault, _)) = BasicHeader::ref_from_prefix(data) else {
            return Err(PeerError::Sequence(Opcode::REJECT));
        };
        let opcode = fault.opcode.opcode();
        if opcode == Opcode::SCSI_COMMAND {
            let id = self.find(Opcode::REJECT, fault.itt)?;
            self.complete(id, Ending::Rejected(header.reason));
            return Ok(());
        }
        Err(PeerError::Rejected { opcode, reason: header.reason })
    }
}
