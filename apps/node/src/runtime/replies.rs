//! What cores answer to the control side, gathered until all have.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearflash_engine::CoreId;
use nearflash_shard::ShardStatus;

use crate::Ticket;

/// How long the control side waits for its cores. A core turns many thousand times a second; one
/// that is silent for this long waits for a device that hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a question about the cores' state waits for them. The answer is due when a core hangs, too.
pub(super) const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// One core's answer.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Done as told.
    Done,
    /// How it is.
    Status(Box<ShardStatus>),
}

#[derive(Debug, Default)]
struct State {
    next_number: u64,
    /// By the number of the question.
    given: HashMap<u64, Vec<(CoreId, Reply)>>,
    /// Tickets that are not over, by the number of their question.
    tickets: HashMap<u64, Ticket>,
    drained: Vec<CoreId>,
    /// The cores have ended, with nothing left under way: they answer nothing any more.
    ended: bool,
}

impl State {
    /// Whether so many answers to a question are still to come.
    fn is_awaited(&self, number: u64, count: usize) -> bool {
        !self.ended && self.given.get(&number).is_some_and(|given| given.len() < count)
    }
}

/// Answers, by the number of their question.
#[derive(Debug, Default)]
pub(super) struct Replies {
    state: Mutex<State>,
    changed: Condvar,
}

impl Replies {
    /// A number for a question.
    pub(super) fn ask(&self) -> u64 {
        let mut state = self.lock();
        state.next_number += 1;
        let number = state.next_number;
        state.given.insert(number, Vec::new());
        number
    }

    /// Nobody waits for the answers to a question, only for its ticket.
    pub(super) fn forget(&self, number: u64) {
        self.lock().given.remove(&number);
    }

    /// A ticket for the question of that number, over when `count` cores have quiesced.
    pub(super) fn ticket(&self, number: u64, count: usize) -> Ticket {
        let mut state = self.lock();
        if state.ended {
            return Ticket::over();
        }
        let ticket = Ticket::waiting(count);
        state.tickets.insert(number, ticket.clone());
        ticket
    }

    /// Nothing is under way on a core any more that a ticket waits for.
    pub(super) fn give_quiesced(&self, number: u64) {
        let Some(ticket) = self.lock().tickets.get(&number).cloned() else { return };
        ticket.settle();
        if ticket.is_over() {
            self.lock().tickets.remove(&number);
        }
    }

    /// A core's answer to a question.
    pub(super) fn give(&self, number: u64, core: CoreId, reply: Reply) {
        // Nobody waits any more for an answer that comes after the patience is over.
        if let Some(given) = self.lock().given.get_mut(&number) {
            given.push((core, reply));
        }
        self.changed.notify_all();
    }

    /// A core has nothing left to do.
    pub(super) fn give_drained(&self, core: CoreId) {
        self.lock().drained.push(core);
        self.changed.notify_all();
    }

    /// Waits until `count` cores have answered, or the patience is over. The answers, by core.
    pub(super) fn wait(
        &self,
        number: u64,
        count: usize,
        patience: Duration,
    ) -> Vec<(CoreId, Reply)> {
        let waiting = |state: &mut State| state.is_awaited(number, count);
        let waited = self.changed.wait_timeout_while(self.lock(), patience, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut given = state.given.remove(&number).unwrap_or_default();
        given.sort_by_key(|(core, _)| *core);
        given
    }

    /// The cores are drained and have ended: nobody waits for an answer of theirs.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let tickets = std::mem::take(&mut state.tickets);
        drop(state);
        self.changed.notify_all();
        tickets.into_values().for_each(|ticket| ticket.end());
    }

    /// Waits until `count` cores are drained, or the patience is over. Whether they are.
    pub(super) fn wait_drained(&self, count: usize) -> bool {
        let waiting = |state: &mut State| state.drained.len() < count;
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.drained.len() >= count
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and if it did, the state would still be whole.
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
    fn a_ticket_is_over_when_every_core_has_quiesced_and_then_forgotten() {
        let replies = Replies::default();
        let number = replies.ask();
        let ticket = replies.ticket(number, 2);
        replies.give_quiesced(number);
        assert!(!ticket.is_over());
        replies.give_quiesced(number);
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
        replies.give_quiesced(number);
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
