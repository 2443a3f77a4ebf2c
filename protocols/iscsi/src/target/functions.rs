//! Task management functions and logout: what waits until commands that came before are answered.
//!
//! Spec: RFC 7143, 11.5 and 11.6, 4.2.3 (aborts), 11.14 (logout). A command that still collects data,
//! or waits for its turn, is given up without a word. One that was handed out is waited for: nobody
//! may believe a write over that is on its way to the device. Its answer goes out before the
//! function's.

use nearflash_request::{ChangeResult, ResetScope};

use super::answers::Answer;
use super::slots::{Begin, Cut, Kind, Reset, Stage};
use super::{State, TargetSession};
use crate::error::PeerError;
use crate::pdu::{
    AsyncEvent, LogoutReason, LogoutRequest, LogoutResult, NO_TAG, Opcode, RejectReason,
    ScsiCommand, TaskFunction, TaskRequest, TaskResult,
};

/// Which commands something waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    Slot(u16),
    Unit(u16),
    All,
}

/// What is done when they are answered.
#[derive(Clone, Copy, Debug)]
enum Then {
    Answer(TaskResult),
    Reset(Reset),
    Logout { reason: LogoutReason, cid: u16 },
}

/// A function that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    itt: u32,
    is_immediate: bool,
    scope: Scope,
    /// Commands that began later are none of its business.
    began: u32,
    then: Then,
}

impl TargetSession {
    /// Task Management Function Request.
    pub(super) fn on_function(&mut self, request: &TaskRequest) {
        let function = TaskFunction(request.flags & 0x7F);
        let itt = request.itt.get();
        let lun = request.lun.number().filter(|lun| self.units.get(*lun).is_some());
        let scope = match (function, lun) {
            (TaskFunction::ABORT_TASK, _) => {
                let referenced = request.referenced_itt.get();
                if self.early.forget_command(|command| command.itt.get() == referenced) > 0 {
                    let result = TaskResult::COMPLETE;
                    return self.answer_function(itt, is_immediate(request), result);
                }
                let Some(index) = self.slots.by_itt(referenced) else {
                    return self.wait(
                        request,
                        Scope::All,
                        Then::Answer(TaskResult::NO_TASK),
                        false,
                    );
                };
                Scope::Slot(index)
            }
            (
                TaskFunction::ABORT_TASK_SET
                | TaskFunction::CLEAR_TASK_SET
                | TaskFunction::LOGICAL_UNIT_RESET,
                Some(lun),
            ) => Scope::Unit(lun),
            (
                TaskFunction::ABORT_TASK_SET
                | TaskFunction::CLEAR_TASK_SET
                | TaskFunction::LOGICAL_UNIT_RESET,
                None,
            ) => return self.answer_function(itt, is_immediate(request), TaskResult::NO_LUN),
            (TaskFunction::TARGET_WARM_RESET | TaskFunction::TARGET_COLD_RESET, _) => Scope::All,
            (TaskFunction::TASK_REASSIGN, _) => {
                let result = TaskResult::NO_REASSIGNMENT;
                return self.answer_function(itt, is_immediate(request), result);
            }
            _ => {
                let result = TaskResult::NOT_SUPPORTED;
                return self.answer_function(itt, is_immediate(request), result);
            }
        };
        self.begin_function(request, function, scope);
    }

    fn begin_function(&mut self, request: &TaskRequest, function: TaskFunction, scope: Scope) {
        let given_up = self.give_up_all(scope);
        let then = match (function, scope) {
            // Answered before the function is: by then there is no such task.
            (TaskFunction::ABORT_TASK, _) if given_up == 0 => Then::Answer(TaskResult::NO_TASK),
            (TaskFunction::LOGICAL_UNIT_RESET, Scope::Unit(lun)) => {
                match self.units.get(lun).map(|unit| unit.volume) {
                    Some(volume) => reset(volume, ResetScope::LogicalUnit, false),
                    None => Then::Answer(TaskResult::NO_LUN),
                }
            }
            (TaskFunction::TARGET_WARM_RESET | TaskFunction::TARGET_COLD_RESET, _) => {
                let is_cold = function == TaskFunction::TARGET_COLD_RESET;
                match self.units.iter().next().map(|unit| unit.volume) {
                    Some(volume) => reset(volume, ResetScope::Target, is_cold),
                    None => Then::Answer(TaskResult::COMPLETE),
                }
            }
            _ => Then::Answer(TaskResult::COMPLETE),
        };
        self.wait(request, scope, then, true);
    }

    fn wait(&mut self, request: &TaskRequest, scope: Scope, then: Then, settles: bool) {
        let (itt, is_immediate) = (request.itt.get(), is_immediate(request));
        if !settles {
            if let Then::Answer(result) = then {
                self.answer_function(itt, is_immediate, result);
            }
            return;
        }
        let began = self.slots.began();
        self.functions.push(Function { itt, is_immediate, scope, began, then });
        self.settle_functions();
    }

    /// Logout Request.
    pub(super) fn on_logout(&mut self, request: &LogoutRequest) {
        let reason = LogoutReason(request.flags & 0x7F);
        let (itt, cid) = (request.itt.get(), request.cid.get());
        let is_immediate = request.opcode.is_immediate();
        let refused = match reason {
            LogoutReason::SESSION => None,
            LogoutReason::CONNECTION if cid == self.cid => None,
            LogoutReason::CONNECTION if self.shared.is_multiple() => {
                // Another connection of the session: it ends without a word of its own.
                self.shared.close_one(cid);
                self.has_stirred = true;
                return self.answer_logout(itt, is_immediate, LogoutResult::SUCCESS);
            }
            LogoutReason::CONNECTION => Some(LogoutResult::NO_CONNECTION),
            LogoutReason::RECOVERY => Some(LogoutResult::NO_RECOVERY),
            _ => {
                let header = zerocopy::IntoBytes::as_bytes(request);
                self.finish_function(is_immediate);
                return self.reject(RejectReason::INVALID_FIELD, header);
            }
        };
        if let Some(result) = refused {
            return self.answer_logout(itt, is_immediate, result);
        }
        self.early.clear();
        self.give_up_all(Scope::All);
        self.state = State::LoggingOut;
        let began = self.slots.began();
        let then = Then::Logout { reason, cid };
        self.functions.push(Function { itt, is_immediate, scope: Scope::All, began, then });
        self.settle_functions();
    }

    /// Gives up what still collects data or waits for its turn, and what goes piece by piece as soon as
    /// the piece is done that was handed out. How many there were.
    fn give_up_all(&mut self, scope: Scope) -> usize {
        let meant = |command: &ScsiCommand| match scope {
            Scope::Slot(_) => false,
            Scope::Unit(lun) => command.lun.number() == Some(lun),
            Scope::All => true,
        };
        let early = self.early.forget_command(meant);
        let cut_short =
            self.cut_short(Cut::Silently, |index, slot| scope.includes(index, slot.lun));
        let meant: Vec<u16> = self
            .slots
            .iter()
            .filter(|(index, slot)| slot.is_collecting() && scope.includes(*index, slot.lun))
            .map(|(index, _)| index)
            .collect();
        meant.iter().for_each(|index| self.give_up(*index));
        early + meant.len() + cut_short
    }

    /// A unit was reset by whomever: what still collects data is aborted, and says so (TAS). SAM-5,
    /// 5.6. What waits for its turn comes after the reset.
    pub(super) fn abort_unit(&mut self, lun: u16) {
        let meant: Vec<u16> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.is_collecting() && slot.is_due && slot.lun == Some(lun))
            .map(|(index, _)| index)
            .collect();
        meant.iter().for_each(|index| self.abort(*index));
        self.cut_short(Cut::TaskAborted, |_, slot| slot.lun == Some(lun));
        self.shared.copies().forget(lun);
    }

    /// Does what waited for commands that are answered by now.
    #[cold]
    pub(super) fn settle_functions(&mut self) {
        while let Some(place) = self.functions.iter().position(|waiting| self.is_settled(waiting)) {
            let Function { itt, is_immediate, then, .. } = self.functions.remove(place);
            match then {
                Then::Answer(result) => self.answer_function(itt, is_immediate, result),
                Then::Reset(reset) => self.hand_out_reset(itt, is_immediate, reset),
                Then::Logout { reason, cid } => self.log_out(itt, is_immediate, reason, cid),
            }
        }
    }

    fn is_settled(&self, waiting: &Function) -> bool {
        !self.slots.iter().any(|(index, slot)| {
            let is_earlier = waiting.began.wrapping_sub(slot.began) < 1 << 31;
            is_earlier && slot.stage == Stage::Submitted && waiting.scope.includes(index, slot.lun)
        })
    }

    fn hand_out_reset(&mut self, itt: u32, is_immediate: bool, reset: Reset) {
        if self.slots.is_full() {
            return self.answer_function(itt, is_immediate, TaskResult::REJECTED);
        }
        let begin = Begin { itt, is_immediate, lun: None, expected: 0, wanted: 0 };
        let index = self.slots.take(begin);
        self.slots[index].kind = Kind::Reset(reset);
        self.ready.push_back(index);
    }

    /// The control side has reset what was to be reset.
    pub(super) fn answer_reset(&mut self, index: u16, reset: Reset, result: &ChangeResult) {
        let itt = self.slots[index].itt;
        self.release_slot(index);
        let is_done = *result == ChangeResult::Done;
        let response = if is_done { TaskResult::COMPLETE } else { TaskResult::REJECTED };
        self.push_function_response(itt, response);
        if is_done && reset.is_cold {
            self.end_session();
        }
    }

    fn answer_function(&mut self, itt: u32, is_immediate: bool, result: TaskResult) {
        self.finish_function(is_immediate);
        self.push_function_response(itt, result);
    }

    fn push_function_response(&mut self, itt: u32, result: TaskResult) {
        let answer = Answer { codes: [result.0, 0], ..Answer::new(Opcode::TASK_RESPONSE, itt) };
        self.push_answer(&answer, &[]);
    }

    /// What is no SCSI command is answered: its place in the window is free.
    pub(super) fn finish_function(&mut self, is_immediate: bool) {
        if is_immediate {
            self.immediate_count -= 1;
        } else {
            self.shared.give_back();
        }
    }

    fn answer_logout(&mut self, itt: u32, is_immediate: bool, result: LogoutResult) {
        self.finish_function(is_immediate);
        let answer = Answer { codes: [result.0, 0], ..Answer::new(Opcode::LOGOUT_RESPONSE, itt) };
        self.push_answer(&answer, &[]);
    }

    fn log_out(&mut self, itt: u32, is_immediate: bool, reason: LogoutReason, cid: u16) {
        debug_assert!(reason == LogoutReason::SESSION || cid == self.cid, "it is this one's");
        self.answer_logout(itt, is_immediate, LogoutResult::SUCCESS);
        if reason == LogoutReason::SESSION && self.shared.is_multiple() {
            self.shared.close_all();
            self.has_stirred = true;
        }
        self.has_logged_out = true;
        self.stop();
    }

    /// Every connection of the session ends.
    pub(super) fn end_session(&mut self) {
        self.push_message(AsyncEvent::SESSION_DROP, [0; 3]);
        self.shared.close_all();
        self.has_stirred = true;
        self.stop();
    }

    /// Whether another connection of the session has said that this one is to close: it does.
    pub(super) fn close_if_told(&mut self) {
        if !self.is_stopped() && self.shared.closes(self.cid) {
            self.shared.closed(self.cid);
            self.has_logged_out = true;
            self.stop();
        }
    }

    /// Asynchronous Message, with its three parameters. RFC 7143, 11.9.
    pub(super) fn push_message(&mut self, event: AsyncEvent, parameters: [u16; 3]) {
        let [first, second, third] = parameters.map(u32::from);
        let code = u32::from_be_bytes([event.0, 0, 0, 0]) | first;
        let rest = [code, second << 16 | third, 0];
        let answer = Answer { rest, ..Answer::new(Opcode::ASYNC, NO_TAG) };
        self.push_answer(&answer, &[]);
    }

    /// A request that is no SCSI command, and whose data is there.
    pub(super) fn count_immediate(&mut self, header: &[u8]) -> bool {
        if self.immediate_count >= super::slots::IMMEDIATE_MAX {
            self.reject(RejectReason::TOO_MANY_IMMEDIATE, header);
            return false;
        }
        self.immediate_count += 1;
        true
    }

    /// Ends the connection in good order because this end goes down: the initiator is told, and
    /// answers that are still to come are not waited for.
    pub fn shut_down(&mut self) {
        if self.state == State::FullFeature {
            self.push_message(AsyncEvent::CONNECTION_DROP, [self.cid, 0, 0]);
        }
        self.terminate(PeerError::ShuttingDown);
    }
}

impl Scope {
    fn includes(self, index: u16, lun: Option<u16>) -> bool {
        match self {
            Self::Slot(slot) => slot == index,
            Self::Unit(unit) => lun == Some(unit),
            Self::All => true,
        }
    }
}

fn is_immediate(request: &TaskRequest) -> bool {
    request.opcode.is_immediate()
}

fn reset(volume: nearflash_request::VolumeId, scope: ResetScope, is_cold: bool) -> Then {
    Then::Reset(Reset { volume, scope, is_cold })
}
