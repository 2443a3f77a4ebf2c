//! Functions that abort commands of others: aborts, resets, preemptions with abort.
//!
//! A command may be answered as aborted only if such a function was under way between sending and
//! answer. A function is under way from its request until it is known to be over. A function whose
//! connection is lost stays under way.

use nearflash_request::Nexus;

use crate::machine::NodeId;
use crate::witness::Tick;

/// Identifies one of these functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndingId(usize);

#[derive(Debug)]
struct Ending {
    node: NodeId,
    /// The nexus whose commands it may abort; `None` for all.
    of: Option<Nexus>,
    over: Tick,
}

#[derive(Debug, Default)]
pub(crate) struct Endings(Vec<Ending>);

impl Endings {
    /// A peer requests a function of a node.
    pub(crate) fn begins(&mut self, node: NodeId, of: Option<Nexus>) -> EndingId {
        self.0.push(Ending { node, of, over: Tick::NEVER });
        EndingId(self.0.len() - 1)
    }

    /// It is over.
    pub(crate) fn is_over(&mut self, id: EndingId, now: Tick) {
        self.0[id.0].over = now;
    }

    /// A node is gone, and all functions with it.
    pub(crate) fn are_over(&mut self, node: NodeId, now: Tick) {
        let gone = self.0.iter_mut().filter(|ending| ending.node == node);
        gone.for_each(|ending| ending.over = ending.over.min(now));
    }

    /// Whether a node's command of this nexus, answered now, may have been aborted.
    pub(crate) fn explain(&self, (node, nexus): (NodeId, Nexus), sent: Tick) -> bool {
        let may_end =
            |ending: &Ending| ending.node == node && ending.of.is_none_or(|of| of == nexus);
        self.0.iter().any(|ending| may_end(ending) && ending.over > sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: (NodeId, Nexus) = (NodeId(0), Nexus::NONE);

    #[test]
    fn a_function_explains_what_was_sent_before_it_was_over_and_is_its_own() {
        let mut endings = Endings::default();
        assert!(!endings.explain(WHO, Tick(1)));
        let id = endings.begins(WHO.0, Some(WHO.1));
        assert!(endings.explain(WHO, Tick(1)));
        endings.is_over(id, Tick(5));
        assert!(endings.explain(WHO, Tick(4)));
        assert!(!endings.explain(WHO, Tick(6)), "sent after it was over");
        assert!(!endings.explain((NodeId(1), WHO.1), Tick(4)), "another node");
    }
}
