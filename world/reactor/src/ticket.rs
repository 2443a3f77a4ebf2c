//! Tickets: every core has adopted a change, while requests that the older state allowed may still
//! be under way. A ticket is over when they have ended.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The wait for the older requests of a change.
#[derive(Clone, Debug, Default)]
#[must_use = "a change is not done before its ticket is over"]
pub struct Ticket(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    is_over: Condvar,
}

type Then = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// The parts of the wait that are not over.
    left: usize,
    then: Vec<Then>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Ticket {
    /// A ticket that is already over.
    pub fn over() -> Self {
        Self::default()
    }

    /// A ticket that is over when [`Self::settle`] has been called `parts` times.
    pub fn waiting(parts: usize) -> Self {
        let ticket = Self::default();
        ticket.lock().left = parts;
        ticket
    }

    /// A ticket that is over when all of these are.
    pub fn all(tickets: impl IntoIterator<Item = Self>) -> Self {
        let tickets: Vec<Self> = tickets.into_iter().collect();
        let all = Self::waiting(tickets.len());
        for ticket in tickets {
            let all = all.clone();
            ticket.when_over(move || all.settle());
        }
        all
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.lock().left == 0
    }

    /// Ends one part of the wait.
    pub fn settle(&self) {
        // A ticket may be settled after [`Self::end`].
        self.settle_by(|left| left.saturating_sub(1));
    }

    /// Ends the whole wait: the cores have ended, and so has every request.
    pub fn end(&self) {
        self.settle_by(|_| 0);
    }

    fn settle_by(&self, settled: impl FnOnce(usize) -> usize) {
        let mut state = self.lock();
        state.left = settled(state.left);
        if state.left > 0 {
            return;
        }
        let then = std::mem::take(&mut state.then);
        drop(state);
        self.0.is_over.notify_all();
        then.into_iter().for_each(|then| then());
    }

    /// Calls `then` when the ticket is over: at once, or from the thread that settles it. `then`
    /// must not block.
    pub fn when_over(&self, then: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.left > 0 {
            return state.then.push(Box::new(then));
        }
        drop(state);
        then();
    }

    /// Waits until the ticket is over, for at most `patience`. Returns whether it is over.
    pub fn wait(&self, patience: Duration) -> bool {
        let waiting = |state: &mut State| state.left > 0;
        let waited = self.0.is_over.wait_timeout_while(self.lock(), patience, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.left == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_ticket_is_over_when_each_of_its_parts_is() {
        let (one, two) = (Ticket::waiting(1), Ticket::waiting(2));
        let both = Ticket::all([one.clone(), two.clone(), Ticket::over()]);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        both.when_over(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        one.settle();
        two.settle();
        assert!(!both.is_over() && !both.wait(Duration::ZERO));
        two.settle();
        assert!(both.is_over() && both.wait(Duration::ZERO));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_ticket_whose_cores_have_ended_is_over() {
        let ticket = Ticket::waiting(3);
        ticket.settle();
        ticket.end();
        assert!(ticket.is_over());
    }
}
