//! Task management functions: the commands that they affect, and the actions that wait until these
//! are answered.
//!
//! Spec: RFC 7143, 11.5 and 4.2.3 (aborts). A command that still collects data, or waits for its
//! turn, is given up without an answer. A command that was handed out is awaited, because a write
//! on its way to the device must not appear to be over. Its answer is sent before the function's.
//!
//! A function that affects many commands applies to commands with lower numbers on all connections
//! of the session: it waits until these have come (4.2.3.3), and the other connections are informed
//! (`siblings.rs`). The control side waits for requests that the other connections have already
//! handed out, and for commands of other sessions that the function ends: see
//! [`ChangeKind::EndTasks`] and [`ChangeKind::Reset`].

use nearflash_request::{ChangeKind, ChangeResult, ResetScope, TaskSet};

use super::TargetSession;
use super::answers::Answer;
use super::slots::{After, Begin, Cut, FunctionTask, Kind, Slot, Stage};
use crate::pdu::{
    LogoutResult, Opcode, RejectReason, Serial, TaskFunction, TaskRequest, TaskResult,
};

/// The location of the commands that a function affects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    Nothing,
    Slot(u16),
    Unit(u16),
    All,
}

/// The commands that a function affects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reach {
    scope: Scope,
    /// Only commands with lower numbers are affected.
    before: Option<Serial>,
}

/// The part of a function that the session's other connections carry out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// These commands are over.
    GiveUp(Reach),
    /// The initiator must acknowledge the PDUs sent so far.
    Acknowledge,
    /// The connection of that CID ends, or every one.
    Close(Option<u16>),
}

/// The action once these commands are answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    Answer(TaskResult),
    HandOut(FunctionTask),
    /// This connection closes, unless the logout names another one.
    LogOut {
        goes: bool,
        result: LogoutResult,
    },
}

/// A function or a logout that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) itt: u32,
    pub(super) is_immediate: bool,
    pub(super) reach: Reach,
    /// The request that the session's other connections must handle first.
    pub(super) order: Option<Order>,
    pub(super) then: Then,
}

impl TargetSession {
    pub(super) fn on_function(&mut self, request: &TaskRequest) {
        match request.function() {
            TaskFunction::ABORT_TASK => self.abort_task(request),
            TaskFunction::ABORT_TASK_SET
            | TaskFunction::CLEAR_TASK_SET
            | TaskFunction::LOGICAL_UNIT_RESET
            | TaskFunction::TARGET_WARM_RESET
            | TaskFunction::TARGET_COLD_RESET => self.abort_many(request),
            TaskFunction::TASK_REASSIGN => {
                self.answer_function(request, TaskResult::NO_REASSIGNMENT);
            }
            _ => self.answer_function(request, TaskResult::NOT_SUPPORTED),
        }
    }

    fn abort_task(&mut self, request: &TaskRequest) {
        let referenced = request.referenced_itt.get();
        if self.skip_command(|command| command.itt.get() == referenced) {
            return self.answer_function(request, TaskResult::COMPLETE);
        }
        let Some(index) = self.tasks.slots.by_itt(referenced) else {
            return self.abort_missing(request);
        };
        let reach = Reach { scope: Scope::Slot(index), before: None };
        // A command that is answered before the function: by then the task no longer exists.
        let is_given_up = self.give_up_all(reach) > 0;
        let result = if is_given_up { TaskResult::COMPLETE } else { TaskResult::NO_TASK };
        let (itt, is_immediate) = (request.itt.get(), request.opcode.is_immediate());
        let then = Then::Answer(result);
        self.wait(Function { itt, is_immediate, reach, order: None, then });
    }

    /// Aborts a command that is not here. If its number shows that it may still come, the number
    /// counts as received, because others may wait for it; the command is ignored when it comes.
    /// RFC 7143, 11.6.1.
    fn abort_missing(&mut self, request: &TaskRequest) {
        let [number, asked_at] = [request.ref_cmd_sn, request.cmd_sn].map(Serial::of);
        let is_skipped = number.is_before(asked_at) && self.skip(number);
        self.tasks.has_aborted |= is_skipped;
        let result = if is_skipped { TaskResult::COMPLETE } else { TaskResult::NO_TASK };
        self.answer_function(request, result);
    }

    /// Handles a function that affects all commands of a unit, or of the target.
    fn abort_many(&mut self, request: &TaskRequest) {
        let number = Serial::of(request.cmd_sn);
        if request.opcode.is_immediate() && self.comes_before_its_turn(number) {
            return self.hold_function(number, request);
        }
        let function = request.function();
        let is_of_unit =
            !matches!(function, TaskFunction::TARGET_WARM_RESET | TaskFunction::TARGET_COLD_RESET);
        let (scope, unit) = if is_of_unit {
            let Some(unit) = request.lun.number().and_then(|lun| self.units.get(lun)) else {
                return self.answer_function(request, TaskResult::NO_LUN);
            };
            (Scope::Unit(unit.lun), Some(unit))
        } else {
            (Scope::All, self.units.iter().next())
        };
        let then = match (unit.map(|unit| unit.volume), change_of(function)) {
            // The only connection of a session has all its commands, and knows when they have
            // ended.
            (Some(_), ChangeKind::EndTasks(TaskSet::Own)) if !self.shared.is_multiple => {
                Then::Answer(TaskResult::COMPLETE)
            }
            (Some(volume), kind) => Then::HandOut(FunctionTask {
                volume,
                kind,
                after: match function {
                    TaskFunction::TARGET_COLD_RESET => After::BeginAnew,
                    _ => After::Nothing,
                },
            }),
            (None, _) => Then::Answer(TaskResult::COMPLETE),
        };
        let reach = Reach { scope, before: Some(self.first_unaffected(number)) };
        self.give_up_all(reach);
        let order = self.shared.is_multiple.then_some(Order::GiveUp(reach));
        let (itt, is_immediate) = (request.itt.get(), request.opcode.is_immediate());
        self.wait(Function { itt, is_immediate, reach, order, then });
    }

    /// The first unaffected command. Earlier ones on a session's only connection are affected.
    fn first_unaffected(&self, number: Serial) -> Serial {
        let expected = self.shared.numbers.expected();
        match self.shared.is_multiple && number.is_before(expected) {
            true => number,
            false => expected,
        }
    }

    pub(super) fn wait(&mut self, function: Function) {
        self.siblings.is_concerned |= function.order.is_some();
        self.siblings.functions.push(function);
        self.settle_functions();
    }

    /// Gives up commands that still collect data or wait for their turn, and commands that run
    /// piece by piece as soon as the piece that was handed out is done. Returns the number of these
    /// commands.
    pub(super) fn give_up_all(&mut self, reach: Reach) -> usize {
        let meant = self.tasks.slots.collecting();
        let meant = meant.filter(|(index, slot)| reach.includes(*index, slot));
        let meant: Vec<u16> = meant.map(|(index, _)| index).collect();
        meant.iter().for_each(|index| self.give_up(*index));
        meant.len() + self.cut_short(Cut::Silently, |index, slot| reach.includes(index, slot))
    }

    /// Another initiator reset the unit or cleared its task set: commands that still collect data
    /// are aborted with TASK ABORTED (TAS). SAM-5, 5.6. Commands that wait for their turn begin
    /// after that.
    pub(super) fn abort_unit(&mut self, lun: u16) {
        let meant = self.tasks.slots.collecting();
        let meant = meant.filter(|(_, slot)| slot.is_due && slot.lun == Some(lun));
        let meant: Vec<u16> = meant.map(|(index, _)| index).collect();
        meant.iter().for_each(|index| self.abort(*index));
        self.cut_short(Cut::TaskAborted, |_, slot| slot.lun == Some(lun));
        self.settle_functions();
    }

    /// Performs the functions whose commands are all answered.
    #[cold]
    pub(super) fn settle_functions(&mut self) {
        while let Some(place) =
            self.siblings.functions.iter().position(|waiting| self.is_settled(waiting))
        {
            let Function { itt, is_immediate, then, .. } = self.siblings.functions.remove(place);
            match then {
                Then::Answer(result) => {
                    self.finish_function(is_immediate);
                    self.push_function_response(itt, result);
                }
                Then::HandOut(task) => self.hand_out_function(itt, is_immediate, task),
                Then::LogOut { goes, result } => {
                    self.finish_function(is_immediate);
                    self.conclude_logout(itt, goes, result);
                }
            }
        }
    }

    fn is_settled(&self, waiting: &Function) -> bool {
        let is_under_way = |(index, slot): (u16, &Slot)| {
            slot.stage == Stage::Submitted && waiting.reach.includes(index, slot)
        };
        waiting.order.is_none() && !self.tasks.slots.iter().any(is_under_way)
    }

    fn hand_out_function(&mut self, itt: u32, is_immediate: bool, task: FunctionTask) {
        if self.tasks.slots.is_full() {
            // Only an initiator that uses a number twice gets here: there is a slot for every
            // number.
            self.finish_function(is_immediate);
            return match task.after {
                After::Logout { goes } => self.conclude_logout(itt, goes, LogoutResult::FAILED),
                _ => self.push_function_response(itt, TaskResult::REJECTED),
            };
        }
        let number = self.shared.numbers.expected();
        let begin = Begin { itt, number, is_immediate, lun: None, expected: 0, wanted: 0 };
        let index = self.tasks.slots.take(begin);
        self.tasks.slots[index].kind = Kind::Function(task);
        self.tasks.ready.push_back(index);
    }

    /// Handles the control side's answer.
    pub(super) fn answer_handed_out(
        &mut self,
        index: u16,
        task: FunctionTask,
        result: &ChangeResult,
    ) {
        let is_done = *result == ChangeResult::Done;
        if let After::Logout { goes } = task.after {
            let itt = self.tasks.slots[index].itt;
            self.release_slot(index);
            let result = if is_done { LogoutResult::SUCCESS } else { LogoutResult::FAILED };
            return self.conclude_logout(itt, goes, result);
        }
        let response = if is_done { TaskResult::COMPLETE } else { TaskResult::REJECTED };
        let begins_anew = is_done && task.after == After::BeginAnew;
        let answer = FunctionAnswer { index, response, begins_anew };
        if self.shared.is_multiple {
            return self.answer_behind_others(answer);
        }
        self.conclude(answer);
    }

    pub(super) fn conclude(&mut self, answer: FunctionAnswer) {
        let itt = self.tasks.slots[answer.index].itt;
        self.release_slot(answer.index);
        self.push_function_response(itt, answer.response);
        if answer.begins_anew {
            self.begin_anew();
        }
    }

    fn answer_function(&mut self, request: &TaskRequest, result: TaskResult) {
        self.finish_function(request.opcode.is_immediate());
        self.push_function_response(request.itt.get(), result);
    }

    fn push_function_response(&mut self, itt: u32, result: TaskResult) {
        let answer = Answer { codes: [result.0, 0], ..Answer::new(Opcode::TASK_RESPONSE, itt) };
        self.push_answer(&answer, &[]);
    }

    /// A request other than a SCSI command is answered: its place in the window is free.
    pub(super) fn finish_function(&mut self, is_immediate: bool) {
        if is_immediate {
            self.tasks.immediate_count -= 1;
        } else {
            self.shared.numbers.give_back();
        }
    }

    /// Counts an immediate request. Returns `false` if there are too many: then it is rejected.
    pub(super) fn count_immediate(&mut self, header: &[u8]) -> bool {
        if self.tasks.immediate_count >= super::slots::IMMEDIATE_MAX {
            self.reject(RejectReason::TOO_MANY_IMMEDIATE, header);
            return false;
        }
        self.tasks.immediate_count += 1;
        true
    }
}

/// The answer to a function that was handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionAnswer {
    pub(super) index: u16,
    pub(super) response: TaskResult,
    /// Whether the session ends with it.
    pub(super) begins_anew: bool,
}

impl Reach {
    pub(super) const ALL: Self = Self { scope: Scope::All, before: None };
    pub(super) const NOTHING: Self = Self { scope: Scope::Nothing, before: None };

    fn includes(self, index: u16, slot: &Slot) -> bool {
        let is_earlier = |before| slot.is_immediate || slot.number.is_before(before);
        self.before.is_none_or(is_earlier)
            && match self.scope {
                Scope::Nothing => false,
                Scope::Slot(only) => only == index,
                Scope::Unit(unit) => slot.lun == Some(unit),
                Scope::All => true,
            }
    }
}

/// The change that a function requests from the control side.
fn change_of(function: TaskFunction) -> ChangeKind {
    match function {
        TaskFunction::ABORT_TASK_SET => ChangeKind::EndTasks(TaskSet::Own),
        TaskFunction::CLEAR_TASK_SET => ChangeKind::EndTasks(TaskSet::All),
        TaskFunction::LOGICAL_UNIT_RESET => ChangeKind::Reset(ResetScope::LogicalUnit),
        TaskFunction::TARGET_COLD_RESET => ChangeKind::Reset(ResetScope::TargetAndSessions),
        _ => ChangeKind::Reset(ResetScope::Target),
    }
}
