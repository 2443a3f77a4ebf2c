//! Carrying out changes, one after the other.

use nearflash_planner::{Change, Refusal, Step};
use nearflash_records::state::ClusterState;
use nearflash_records::store::{ModRevision, Operation, Txn};
use nearflash_units::Nanos;

use super::{ANSWER_TIMEOUT, Agent, CHANGES_MAX, Task};

/// The number of a change, given by the caller.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ChangeId(pub u64);

/// The outcome of a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The store is as the change wants it.
    Done,
    /// It is not possible; earlier steps of it may have taken effect.
    Refused(Refusal),
    /// Too many changes wait; nothing was done.
    Busy,
}

/// A change under way.
#[derive(Debug)]
pub(super) struct Running {
    /// The number that a caller gave it; `None` if a job of the cluster needs it.
    id: Option<ChangeId>,
    change: Change,
    /// The transaction that was sent, until its outcome is known.
    txn: Option<Txn>,
    /// A copy of the transaction got no answer, and may take effect at any time.
    pub(super) is_unknown: bool,
    /// An earlier transaction may have taken effect.
    begun: bool,
    /// The transaction that took effect last, and its revision; the state must show it before the
    /// next step.
    committed: Option<(Txn, ModRevision)>,
    /// The read that must have ended before the next step.
    plans_from_read: u64,
    /// The read that must have ended before the change is refused.
    refuses_from_read: u64,
    /// The read that must have ended before the change is done. Its own transaction will do as well.
    ends_from_read: u64,
}

impl Running {
    /// Whether the next step can be planned.
    pub(super) fn is_ready(&self, state: &ClusterState, reads_ended: u64) -> bool {
        self.txn.is_none() && self.is_shown(state) && reads_ended >= self.plans_from_read
    }

    /// Whether the state has all that our own transaction wrote. Its revision does not prove it: a
    /// watch may lose one event and report the next.
    fn is_shown(&self, state: &ClusterState) -> bool {
        self.committed.as_ref().is_none_or(|(txn, revision)| {
            txn.puts.iter().all(|put| state.revision(&put.key) >= *revision)
                && txn.deletes.iter().all(|key| {
                    let found = state.revision(key);
                    found == ModRevision(0) || found > *revision
                })
        })
    }
}

impl Agent {
    /// Submits a change; its outcome comes from [`Self::poll_outcome`].
    pub fn submit(&mut self, now: Nanos, id: ChangeId, change: Change) {
        if self.changes.len() >= CHANGES_MAX {
            self.outcomes.push_back((id, Outcome::Busy));
            return;
        }
        self.add(now, Some(id), change);
    }

    /// Adds a change to those that wait.
    pub(super) fn add(&mut self, now: Nanos, id: Option<ChangeId>, change: Change) {
        self.changes.push_back(Running {
            id,
            change,
            txn: None,
            is_unknown: false,
            begun: false,
            committed: None,
            plans_from_read: 0,
            refuses_from_read: self.reads_begun + 1,
            ends_from_read: self.reads_begun + 1,
        });
        if self.changes.len() == 1 {
            self.due.insert(Task::Step, now);
        }
    }

    /// The next outcome of a change.
    pub fn poll_outcome(&mut self) -> Option<(ChangeId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// Sends the change's transaction again, or plans the next one.
    pub(super) fn step(&mut self, now: Nanos) {
        if let Some(rolled_back) = &self.rolled_back {
            let refused = Refusal::StoreRolledBack(rolled_back.clone());
            while !self.changes.is_empty() {
                self.conclude(now, Outcome::Refused(refused.clone()));
            }
            return;
        }
        if self.reads_ended == 0 || self.waiting.values().any(|it| it.task == Task::Step) {
            return; // the end of the read, or the answer, comes back here
        }
        let Some(running) = self.changes.front_mut() else { return };
        if let Some(txn) = running.txn.clone() {
            self.request(now, Task::Step, Operation::Txn(txn));
            return;
        }
        if self.reads_ended < running.plans_from_read {
            return;
        }
        if !running.is_shown(&self.state) {
            // The watch has not shown our own transaction in time.
            self.read_first(now);
            return;
        }
        let may_refuse = self.reads_ended >= running.refuses_from_read;
        let may_end = self.reads_ended >= running.ends_from_read;
        match running.change.plan(&self.state, running.begun) {
            Ok(Step::Submit(txn)) => {
                running.txn = Some(txn.clone());
                self.request(now, Task::Step, Operation::Txn(txn));
            }
            // The watch may be behind: nothing is concluded from what it shows.
            Ok(Step::Done) if may_end => self.conclude(now, Outcome::Done),
            Err(refusal) if may_refuse => self.conclude(now, Outcome::Refused(refusal)),
            Ok(Step::Done) | Err(_) => self.read_first(now),
        }
    }

    /// Takes the answer to the change's transaction.
    pub(super) fn take_outcome(&mut self, now: Nanos, succeeded: bool, revision: u64) {
        let Some(running) = self.changes.front_mut() else { return };
        let txn = running.txn.take();
        // Compares that no longer hold may have been changed by an unanswered copy.
        running.begun |= succeeded || running.is_unknown;
        running.is_unknown = false;
        if succeeded {
            running.committed = txn.map(|txn| (txn, ModRevision(revision)));
            running.refuses_from_read = self.reads_begun + 1;
            running.ends_from_read = 0;
            let is_shown = running.is_shown(&self.state);
            self.due.insert(Task::Step, if is_shown { now } else { now.plus(ANSWER_TIMEOUT) });
        } else {
            self.read_first(now);
        }
    }

    /// Reads everything before the change is planned again.
    fn read_first(&mut self, now: Nanos) {
        self.start_reading(now);
        if let Some(running) = self.changes.front_mut() {
            running.plans_from_read = self.reads_begun;
            // The read shows our own transaction, or a store that was restored without it.
            running.committed = None;
        }
    }

    fn conclude(&mut self, now: Nanos, outcome: Outcome) {
        match self.changes.pop_front().map(|running| running.id) {
            Some(Some(id)) => self.outcomes.push_back((id, outcome)),
            Some(None) => {
                self.jobs.iter_mut().for_each(|jobs| jobs.handle_outcome(now, outcome.clone()));
                self.due.insert(Task::Jobs, now);
            }
            None => {}
        }
        if !self.changes.is_empty() {
            self.due.insert(Task::Step, now);
        }
    }
}
