//! Volumes that are removed under load. The nodes hear of it late, one after the other.
//!
//! A node that hears of it withdraws the faces of the mirror, takes it from its membership, and then from
//! the table of its cores. All operations on it must end.

use super::node::Node;
use super::{Event, LAST_OP, MILLI, MIRRORS, Run};
use crate::MirrorId;
use crate::mutant::Mutant;

impl Run {
    /// At least one mirror stays.
    pub(super) fn begin_removals(&mut self) {
        let first = u32::try_from(self.random.below(MIRRORS.into())).expect("it is small");
        for removed in 0..1 + u32::try_from(self.random.below(2)).expect("it is small") {
            let at = 200 * MILLI + self.random.below(LAST_OP - 200 * MILLI);
            self.later(at, Event::Remove((first + removed) % MIRRORS));
        }
    }

    pub(super) fn remove(&mut self, mirror: u32) {
        self.store.removed.insert(mirror);
        self.count("mirrors removed");
        let open = self.ops.iter().filter(|op| op.is_open() && op.is_on(mirror)).count();
        *self.counts.entry("operations on mirrors that are removed").or_default() += open as u64;
        for node in 0..self.nodes.len() {
            let at = self.now + self.watch_delay();
            self.later(at, Event::Gone(node, mirror));
        }
    }

    /// A node hears that a mirror is gone.
    pub(super) fn gone(&mut self, node: usize, mirror: u32) {
        if !self.nodes[node].is_up {
            return;
        }
        if self.nodes[node].gone.insert(mirror) {
            self.tell_membership(node);
        }
        if self.mutant == Some(Mutant::SeatOutlasts) && self.nodes[node].uses(mirror) {
            return self.later(self.now + MILLI, Event::Gone(node, mirror));
        }
        let it = &mut self.nodes[node];
        it.table = it.table.with(MirrorId(mirror), None);
        self.send_table(node, 0);
    }
}

impl Node {
    /// Whether a request on a mirror is under way here.
    fn uses(&self, mirror: u32) -> bool {
        let is_meant = |it: MirrorId| it.0 == mirror;
        self.cores.iter().any(|core| {
            core.jobs.iter().any(|(_, job)| is_meant(job.mirror))
                || core.accepted.iter().any(|(_, accepted)| is_meant(accepted.mirror()))
        })
    }
}
