//! Functions that abort commands of others: aborts, resets, preemptions with abort.
//!
//! A command may be answered as aborted only if such a function was under way between sending and
//! answer. A function is under way from its request until it is known to be over. A function whose
//! connection is lost stays under way.

use nearflash_request::Nexus;

use crate::witness::Tick;

/// Identifies one of these functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndingId(usize);

#[derive(Debug)]
struct Ending {
    /// The nexus whose commands it may abort; `None` for all.
    of: Option<Nexus>,
    over: Tick,
}

#[derive(Debug, Default)]
pub(crate) struct Endings(Vec<Ending>);

impl Endings {
    /// A peer requests a function.
    pub(crate) fn begins(&mut self, of: Option<Nexus>) -> EndingId {
        self.0.push(Ending { of, over: Tick::NEVER });
        EndingId(self.0.len() - 1)
    }

    /// It is over.
    pub(crate) fn is_over(&mut self, id: EndingId, now: Tick) {
        self.0[id.0].over = now;
    }

    /// The node is gone, and all functions with it.
    pub(crate) fn are_over(&mut self, now: Tick) {
        self.0.iter_mut().for_each(|ending| ending.over = ending.over.min(now));
    }

    /// Whether a command of this nexus, answered now, may have been aborted.
    pub(crate) fn explain(&self, nexus: Nexus, sent: Tick) -> bool {
        let may_end = |ending: &Ending| ending.of.is_none_or(|of| of == nexus);
        self.0.iter().any(|ending| may_end(ending) && ending.over > sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_explains_what_was_sent_before_it_was_over_and_is_its_own() {
        let mut endings = Endings::default();
        assert!(!endings.explain(Nexus::NONE, Tick(1)));
        let id = endings.begins(Some(Nexus::NONE));
        assert!(endings.explain(Nexus::NONE, Tick(1)));
        endings.is_over(id, Tick(5));
        assert!(endings.explain(Nexus::NONE, Tick(4)));
        assert!(!endings.explain(Nexus::NONE, Tick(6)), "sent after it was over");
    }
}
