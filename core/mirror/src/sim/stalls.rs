//! Cores that do not turn, while the rest of their process goes on.

use super::history::Time;
use super::{At, Event, MILLI, REPLICA_NODES, Run};

impl Run {
    /// Returns whether nothing else is to fail.
    pub(super) fn begin_stalls(&mut self) -> bool {
        let is_calm = self.slow == 0;
        let count = if is_calm { 1 } else { 3 };
        for _ in 0..count {
            let node = self.draw(REPLICA_NODES);
            let core = self.draw(self.nodes[node].core_count.into());
            let (at, span) = match is_calm {
                true => (1_000 * MILLI + self.random.below(1_000 * MILLI), 9_000 * MILLI),
                false => (self.random.below(6_000 * MILLI), self.random.below(6_000 * MILLI)),
            };
            if is_calm {
                self.stall = Some((node, at..at + span));
            }
            self.later(at, Event::Stall((node, core), span));
        }
        is_calm
    }

    pub(super) fn stall(&mut self, (node, core): At, span: Time) {
        if self.nodes[node].is_up {
            self.count("cores that did not turn");
            let until = &mut self.nodes[node].stalled_until[core];
            *until = (*until).max(self.now + span);
        }
    }

    /// Until when a core does not turn.
    pub(super) fn stalled_until(&self, (node, core): At) -> Time {
        self.nodes[node].stalled_until.get(core).copied().unwrap_or(0)
    }

    /// The core that does something at an event.
    pub(super) fn core_of(&self, event: &Event) -> Option<At> {
        match event {
            Event::Timeout(at, ..)
            | Event::Mail(at, ..)
            | Event::Table(at, ..)
            | Event::Leases(at, ..)
            | Event::TellWritten(at, ..)
            | Event::Copy(at, ..)
            | Event::Result(at, ..) => Some(*at),
            Event::Arrive(sent) => {
                let link = self.sent[*sent].link;
                Some((link.to, link.at.1 % usize::from(self.nodes[link.to].core_count)))
            }
            Event::Back(sent, _) => Some(self.sent[*sent].link.at),
            _ => None,
        }
    }

    /// Whether a core of this node is silent.
    pub(super) fn look_at_cores(&mut self, node: usize) -> bool {
        let now = self.now;
        let it = &mut self.nodes[node];
        for (turns, until) in it.turns.iter_mut().zip(&it.stalled_until) {
            *turns += u64::from(*until <= now);
        }
        let clock = it.clock(now);
        it.heartbeats.look(clock, it.turns.iter().copied());
        let is_stalled = it.heartbeats.silent().next().is_some();
        if is_stalled {
            self.count("looks at silent cores");
        }
        is_stalled
    }
}
