//! The answers of cores to the control side, collected until every core has answered.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash_engine::{CoreId, Traced};
use nearflash_shard::{ConnectedClient, ShardStatus};

use crate::ticket::Ticket;

/// The time for which the control side waits for its cores. A core turns many thousand times a
/// second; one that does not answer for this long waits for a device that hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The time for which a status question waits for the cores. The answer is due even if a core
/// hangs.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// Called once, when every core has done something. It must return at once.
pub type Then = Box<dyn FnOnce() + Send>;

/// One core's answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The core has adopted the message.
    Done,
    /// The status of the core.
    Status(Box<ShardStatus>),
    /// The clients that have a volume open.
    Users(Box<[ConnectedClient]>),
    /// The records of a trace.
    Traced(Box<Traced>),
}

#[derive(Default)]
struct State {
    next_number: u64,
    /// By the number of the question.
    given: HashMap<u64, Vec<(CoreId, Reply)>>,
    /// The calls that are due when so many more cores have answered, by the number of their question.
    calls: HashMap<u64, (usize, Then)>,
    /// The tickets that are not over, by the number of their question.
    tickets: HashMap<u64, Ticket>,
    drained: Vec<CoreId>,
    /// The cores have ended with no request under way, and answer nothing any more.
    ended: bool,
}

impl State {
    /// Whether fewer than `count` cores have answered a question.
    fn is_awaited(&self, number: u64, count: usize) -> bool {
        !self.ended && self.given.get(&number).is_some_and(|given| given.len() < count)
    }
}

/// Answers, by the number of their question.
#[derive(Default)]
pub struct Replies {
    state: Mutex<State>,
    changed: Condvar,
}

impl Replies {
    /// Begins a question, and returns its number.
    pub fn ask(&self) -> u64 {
        let mut state = self.lock();
        state.next_number += 1;
        let number = state.next_number;
        state.given.insert(number, Vec::new());
        number
    }

    /// Begins a question after whose `count` answers there is a call. Returns its number.
    pub fn ask_then(&self, count: usize, then: Then) -> u64 {
        let mut state = self.lock();
        state.next_number += 1;
        let number = state.next_number;
        state.calls.insert(number, (count, then));
        number
    }

    /// Discards the answers to a question, of which only the ticket is used.
    pub fn forget(&self, number: u64) {
        self.lock().given.remove(&number);
    }

    /// A ticket for the trace with this number; it is over when `count` cores have all its records.
    pub fn ticket(&self, number: u64, count: usize) -> Ticket {
        let mut state = self.lock();
        if state.ended {
            return Ticket::over();
        }
        let ticket = Ticket::waiting(count);
        state.tickets.insert(number, ticket.clone());
        ticket
    }

    /// Drops the tickets that are over without an answer of every core.
    pub fn drop_over(&self) {
        self.lock().tickets.retain(|_, ticket| !ticket.is_over());
    }

    /// Records that a core has all records of the trace with this number.
    pub fn give_complete(&self, number: u64) {
        let Some(ticket) = self.lock().tickets.get(&number).cloned() else { return };
        ticket.settle();
        if ticket.is_over() {
            self.lock().tickets.remove(&number);
        }
    }

    /// Records a core's answer to a question.
    pub fn give(&self, number: u64, core: CoreId, reply: Reply) {
        if let Some(then) = self.last_call(number) {
            return then();
        }
        // An answer after the end of the wait is dropped.
        if let Some(given) = self.lock().given.get_mut(&number) {
            given.push((core, reply));
        }
        self.changed.notify_all();
    }

    /// The call that is due with this answer.
    fn last_call(&self, number: u64) -> Option<Then> {
        let mut state = self.lock();
        let (left, _) = state.calls.get_mut(&number)?;
        *left -= 1;
        let is_last = *left == 0;
        is_last.then(|| state.calls.remove(&number)).flatten().map(|(_, then)| then)
    }

    /// Records that a core has drained.
    pub fn give_drained(&self, core: CoreId) {
        self.lock().drained.push(core);
        self.changed.notify_all();
    }

    /// Waits until `count` cores have answered, or for `patience`. Returns the answers, by core.
    pub fn wait(&self, number: u64, count: usize, patience: Duration) -> Vec<(CoreId, Reply)> {
        let waiting = |state: &mut State| state.is_awaited(number, count);
        let waited = self.changed.wait_timeout_while(self.lock(), patience, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut given = state.given.remove(&number).unwrap_or_default();
        given.sort_by_key(|(core, _)| *core);
        given
    }

    /// Ends every wait: the cores are drained and have ended, so no answer will come.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let tickets = std::mem::take(&mut state.tickets);
        drop(state);
        self.changed.notify_all();
        tickets.into_values().for_each(|ticket| ticket.end());
    }

    /// Waits until `count` cores are drained, or until the deadline. Returns whether they are.
    pub fn wait_drained(&self, count: usize, deadline: Instant) -> bool {
        let waiting = |state: &mut State| state.drained.len() < count;
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), left, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.drained.len() >= count
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held, and if it did, the state would still be
        // consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_question_is_answered_when_every_core_has() {
        let replies = Arc::new(Replies::default());
        let number = replies.ask();
        let asked = Arc::clone(&replies);
        let core = std::thread::spawn(move || {
            asked.give(number, CoreId(1), Reply::Done);
            asked.give(number, CoreId(0), Reply::Done);
        });
        let given = replies.wait(number, 2, PATIENCE);
        assert_eq!(given.iter().map(|(core, _)| core.0).collect::<Vec<_>>(), [0, 1]);
        core.join().unwrap();
    }

    #[test]
    fn a_core_that_does_not_answer_is_waited_for_no_longer_than_the_patience() {
        let replies = Replies::default();
        let number = replies.ask();
        replies.give(number, CoreId(1), Reply::Done);
        let given = replies.wait(number, 2, Duration::from_millis(1));
        assert_eq!(given.iter().map(|(core, _)| core.0).collect::<Vec<_>>(), [1]);
        replies.give(number, CoreId(0), Reply::Done);
        assert!(replies.lock().given.is_empty(), "a late answer is forgotten");
    }

    #[test]
    fn a_ticket_is_over_when_every_core_has_all_records_and_then_forgotten() {
        let replies = Replies::default();
        let number = replies.ask();
        let ticket = replies.ticket(number, 2);
        replies.give_complete(number);
        assert!(!ticket.is_over());
        replies.give_complete(number);
        assert!(ticket.is_over() && replies.lock().tickets.is_empty());
    }

    #[test]
    fn cores_that_have_ended_are_not_waited_for() {
        let replies = Arc::new(Replies::default());
        let number = replies.ask();
        let waits = Arc::clone(&replies);
        let ticket = replies.ticket(number, 2);
        let asker = std::thread::spawn(move || waits.wait(number, 2, PATIENCE).len());
        replies.give(number, CoreId(0), Reply::Done);
        replies.give_complete(number);
        replies.end();
        assert_eq!(asker.join().unwrap(), 1);
        assert!(ticket.is_over() && replies.ticket(replies.ask(), 2).is_over());
        assert!(replies.wait(replies.ask(), 2, PATIENCE).is_empty());
    }

    #[test]
    fn an_answer_to_a_question_nobody_asked_is_forgotten() {
        let replies = Replies::default();
        replies.give(7, CoreId(0), Reply::Done);
        assert!(replies.wait(7, 0, PATIENCE).is_empty());
    }
}
