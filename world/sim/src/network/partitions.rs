//! Partitions: ways on which nothing arrives until they are over.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_units::Nanos;

use super::{Delivery, LinkId, Network, Way};

/// A set of one-way pairs on which nothing arrives for a while.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PartitionId(u32);

/// The current partitions, and the deliveries that they delay.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    ways: BTreeMap<PartitionId, BTreeSet<Way>>,
    count: u32,
    /// Deliveries that the partitions delay, in order.
    held: Vec<Delivery>,
}

impl Network {
    /// From now on nothing arrives on these ways.
    pub(crate) fn part(&mut self, ways: impl IntoIterator<Item = Way>) -> PartitionId {
        let Partitions { ways: all, count, .. } = &mut self.partitions;
        *count += 1;
        all.insert(PartitionId(*count), ways.into_iter().collect());
        PartitionId(*count)
    }

    /// A partition is over: what was sent on its ways arrives.
    pub(crate) fn heal(&mut self, now: Nanos, id: PartitionId) {
        self.partitions.ways.remove(&id);
        let held = std::mem::take(&mut self.partitions.held);
        for delivery in &held {
            self.deliver(now, *delivery);
        }
        for Delivery { link: id, .. } in held {
            if self.partitions.held.iter().all(|delivery| delivery.link != id) {
                self.link_mut(id).held_since = None;
            }
        }
    }

    /// All partitions are over.
    pub(crate) fn heal_all(&mut self, now: Nanos) {
        while let Some((id, _)) = self.partitions.ways.pop_first() {
            self.heal(now, id);
        }
    }

    /// The links on which something sent before `since` has not arrived yet.
    pub(crate) fn held_longer(&self, since: Nanos) -> BTreeSet<LinkId> {
        let held = self.partitions.held.iter().map(|delivery| delivery.link);
        held.filter(|id| self.links[id].held_since.is_some_and(|at| at < since)).collect()
    }

    /// Delivers an event, unless its way is cut.
    pub(crate) fn deliver(&mut self, now: Nanos, delivery: Delivery) {
        let way = self.links[&delivery.link].way_to(delivery.side);
        if !self.partitions.ways.values().any(|ways| ways.contains(&way)) {
            return self.arrive(now, delivery);
        }
        let link = self.link_mut(delivery.link);
        link.held_since.get_or_insert(now);
        link.was_cut = true;
        self.partitions.held.push(delivery);
    }

    /// Whether a partition has held back anything on this link.
    pub(crate) fn was_cut(&self, link: LinkId) -> bool {
        self.links[&link].was_cut
    }
}
