//! A host's checks of its answers.

use nearflash_nvme::log::{CHANGED_NAMESPACES_MAX, GetLogPage, LogId};
use nearflash_nvme::{Command, NamespaceId, Status};
use nearflash_nvme_tcp::host::HostCompletion;
use nearflash_request::Nexus;

use super::Worker;
use crate::host::pending::{AdminStep, Pending};
use crate::host::queue::Queue;
use crate::judge::{Answer, Checks, StepId, What};
use crate::outside::Outside;
use crate::reservations::Ends;

impl Worker {
    pub(super) fn take_completions(&mut self, checks: &mut Checks, outside: &mut Outside) {
        let mut admin_done = Vec::new();
        while let Some((completion, pending)) = self.admin.as_mut().and_then(Queue::poll) {
            let Pending::Admin(step) = pending else { continue };
            admin_done.push((step, completion));
        }
        for (step, completion) in admin_done {
            self.admin_done(step, &completion);
        }
        let mut lost = Vec::new();
        for queue in &mut self.queues {
            while let Some((completion, pending)) = queue.poll() {
                outside.note("answer", &[u64::from(completion.cid.0), u64::from(queue.link.0)]);
                let status = completion.entry.status();
                let io = match pending {
                    Pending::Io(io) => io,
                    Pending::Rivalry => {
                        judge_rivalry(queue.asker.nexus, status, checks);
                        continue;
                    }
                    Pending::Admin(step) => {
                        assert!(status.is_success(), "{step:?} was answered {status}");
                        continue;
                    }
                };
                if let What::StepCompare(id) | What::StepWrite(id) = io.what {
                    let is_first = matches!(io.what, What::StepCompare(_));
                    io.buffer.map(|buffer| queue.memory.give_back(buffer));
                    step_answered(queue, id, is_first, &completion, checks, outside);
                    continue;
                }
                let answer = Answer::of_nvme(status);
                if answer == Answer::PathLost {
                    lost.push(io.clone());
                }
                let seen = io.judge(answer, &mut queue.memory, checks, outside);
                self.workload.learn(seen);
            }
        }
        lost.iter().for_each(|io| self.keep(io));
    }

    fn admin_done(&mut self, step: AdminStep, completion: &HostCompletion) {
        let status = completion.entry.status();
        if step == AdminStep::Event && status.code() == Status::ABORTED_SQ_DELETION {
            return; // the controller was reset
        }
        let is_late = status.code() == Status::COMMAND_SEQUENCE_ERROR && self.resets;
        assert!(status.is_success() || is_late, "{step:?} was answered {status}");
        match step {
            AdminStep::Event => {
                self.events += 1;
                let len = u32::try_from(CHANGED_NAMESPACES_MAX * 4).expect("4 KiB");
                let page = GetLogPage::new(LogId::CHANGED_NAMESPACES, len);
                self.ask(page.to_command(NamespaceId::ALL), AdminStep::EventPage);
            }
            AdminStep::EventPage => self.ask(Command::async_event_request(), AdminStep::Event),
            AdminStep::Queues
            | AdminStep::Enable
            | AdminStep::Reset
            | AdminStep::KeepAlive
            | AdminStep::Abort => {}
        }
    }
}

/// A change of reservations was answered: with its expected result, or because there are too many
/// changes at a time.
fn judge_rivalry(nexus: Nexus, status: Status, checks: &mut Checks) {
    match status.code() {
        _ if status.is_success() => checks.reservations.answered(nexus, Ends::Done),
        Status::RESERVATION_CONFLICT => checks.reservations.answered(nexus, Ends::Conflict),
        Status::INVALID_FIELD => checks.reservations.answered(nexus, Ends::Refused),
        Status::TRANSIENT_TRANSPORT_ERROR => {}
        _ => panic!("a change of reservations was answered {status}"),
    }
}

fn step_answered(
    queue: &mut Queue,
    id: StepId,
    is_first: bool,
    completion: &HostCompletion,
    checks: &mut Checks,
    outside: &mut Outside,
) {
    let state = queue.steps.get_mut(&id).expect("both halves are in flight together");
    let half = if is_first { &mut state.first } else { &mut state.second };
    *half = Some(Answer::of_nvme(completion.entry.status()));
    if state.first.is_some() && state.second.is_some() {
        let state = queue.steps.remove(&id).expect("seen above");
        state.judge(false, checks, outside);
    }
}
