//! Fair queueing: deficit round robin over members, on one or several levels.
//!
//! Each round gives a member a quantum; it is served while it has credit left, and an overdraft is
//! deducted from its next rounds. So a member that asks for little waits for a quantum and one item
//! of each other member at most, no matter what they ask for.
//!
//! This module knows nothing about what is queued. Invariants: a queue is served in its order; a
//! member that cannot be served is passed over and keeps its place.

use std::collections::{BTreeMap, VecDeque};

/// The credit that a member gets in each round, in bytes.
pub(crate) const QUANTUM: i64 = 64 << 10;

/// The minimum cost of an item, in bytes: the overhead of handling one.
const COST_MIN: u64 = 4 << 10;

/// The maximum cost of an item, in bytes: the longest transfer.
const COST_MAX: u64 = 1 << 20;

/// Something that items wait in.
pub(crate) trait Waiting: Default {
    /// The type of a waiting item.
    type Item;
    /// The keys that lead to the queue of an item, one per level.
    type Path;

    /// Appends an item, which moves this many bytes, to its queue.
    fn push(&mut self, path: Self::Path, item: Self::Item, bytes: u64);

    /// Offers the first item of each queue, in turn, until one is taken. Returns it with its cost.
    fn serve(&mut self, takes: &mut impl FnMut(&Self::Item) -> bool) -> Option<(Self::Item, i64)>;

    /// Removes the items for which `is_meant` holds, in the order of each queue.
    fn extract(
        &mut self,
        is_meant: &mut impl FnMut(&Self::Item) -> bool,
        out: &mut Vec<Self::Item>,
    );

    /// Whether nothing waits in it.
    fn is_empty(&self) -> bool;

    /// Calls `look` for every waiting item.
    fn each(&self, look: &mut impl FnMut(&Self::Item));
}

/// Items in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Queue<T>(VecDeque<(T, i64)>);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Waiting for Queue<T> {
    type Item = T;
    type Path = ();

    fn push(&mut self, (): (), item: T, bytes: u64) {
        let cost = bytes.clamp(COST_MIN, COST_MAX);
        self.0.push_back((item, i64::try_from(cost).expect("a cost is below 2 MiB")));
    }

    fn serve(&mut self, takes: &mut impl FnMut(&T) -> bool) -> Option<(T, i64)> {
        self.0.front().is_some_and(|(item, _)| takes(item)).then(|| self.0.pop_front())?
    }

    fn extract(&mut self, is_meant: &mut impl FnMut(&T) -> bool, out: &mut Vec<T>) {
        for (item, cost) in std::mem::take(&mut self.0) {
            if is_meant(&item) {
                out.push(item);
            } else {
                self.0.push_back((item, cost));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each(&self, look: &mut impl FnMut(&T)) {
        self.0.iter().for_each(|(item, _)| look(item));
    }
}

/// Members, each with its waiting items.
#[derive(Debug)]
pub(crate) struct Turns<K, W> {
    members: BTreeMap<K, Member<W>>,
    /// The members in the order of their turns.
    order: VecDeque<K>,
}

#[derive(Debug)]
struct Member<W> {
    /// The bytes that it may still take in this round; negative after an overdraft.
    credit: i64,
    waiting: W,
}

impl<K, W> Default for Turns<K, W> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Ord, W: Waiting> Waiting for Turns<K, W> {
    type Item = W::Item;
    type Path = (K, W::Path);

    fn push(&mut self, (key, path): Self::Path, item: W::Item, bytes: u64) {
        let order = &mut self.order;
        let member = self.members.entry(key).or_insert_with(|| {
            order.push_back(key);
            Member { credit: QUANTUM, waiting: W::default() }
        });
        member.waiting.push(path, item, bytes);
    }

    fn serve(&mut self, takes: &mut impl FnMut(&W::Item) -> bool) -> Option<(W::Item, i64)> {
        let mut passed = 0;
        while passed < self.order.len() {
            let key = *self.order.front()?;
            let member = self.members.get_mut(&key).expect("only members have turns");
            if member.credit <= 0 {
                // It sits out this round. Its credit has grown, so that it may be served in the
                // next.
                member.credit += QUANTUM;
                passed = 0;
            } else if let Some((item, cost)) = member.waiting.serve(takes) {
                member.credit -= cost;
                if member.waiting.is_empty() {
                    self.members.remove(&key);
                    self.order.pop_front();
                }
                return Some((item, cost));
            } else {
                passed += 1;
            }
            self.order.rotate_left(1);
        }
        None
    }

    fn extract(&mut self, is_meant: &mut impl FnMut(&W::Item) -> bool, out: &mut Vec<W::Item>) {
        self.members.values_mut().for_each(|member| member.waiting.extract(is_meant, out));
        self.members.retain(|_, member| !member.waiting.is_empty());
        self.order.retain(|key| self.members.contains_key(key));
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn each(&self, look: &mut impl FnMut(&W::Item)) {
        self.members.values().for_each(|member| member.waiting.each(look));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Volumes, then hosts, then queues of (queue, number, bytes).
    type Flows = Turns<u8, Turns<u8, Turns<u8, Queue<Item>>>>;
    type Item = ([u8; 3], u32, u64);

    fn push(flows: &mut Flows, item: Item) {
        let [volume, host, queue] = item.0;
        flows.push((volume, (host, (queue, ()))), item, item.2);
    }

    fn any_item() -> impl Strategy<Value = ([u8; 3], u64)> {
        let bytes = prop_oneof![Just(0), Just(4096), Just(65_536), 0..2_u64 << 20];
        ([0..3_u8, 0..3_u8, 0..2_u8], bytes)
    }

    proptest! {
        /// Every item is served once, each queue in its order, no matter which members are refused
        /// in between.
        #[test]
        fn nothing_is_lost_and_nobody_overtakes_in_a_queue(
            items in prop::collection::vec(any_item(), 0..200),
            refusals in prop::collection::vec((0..3_u8, 0..4_usize), 0..100),
        ) {
            let mut flows = Flows::default();
            for (number, (path, bytes)) in (0..).zip(items.iter().copied()) {
                push(&mut flows, (path, number, bytes));
            }
            let mut refusals = refusals.into_iter();
            let mut last = BTreeMap::new();
            let mut served = 0;
            while served < items.len() {
                let refused = refusals.next();
                let mut takes = |item: &Item| {
                    refused.is_none_or(|(refused, level)| item.0.get(level) != Some(&refused))
                };
                if let Some(((path, number, _), _)) = flows.serve(&mut takes) {
                    prop_assert!(last.insert(path, number).is_none_or(|last| last < number));
                    served += 1;
                } else {
                    prop_assert!(refused.is_some(), "what nobody refuses is served");
                }
            }
            prop_assert!(flows.is_empty() && flows.serve(&mut |_| true).is_none());
        }

        /// Hosts of one volume that always have waiting items get equal service, no matter how
        /// large the items and how many the queues.
        #[test]
        fn hosts_that_always_wait_get_the_same(
            hosts in prop::collection::vec((1..1_u64 << 20, 17..40_u8), 2..6),
        ) {
            let mut flows = Flows::default();
            let mut got = vec![0; hosts.len()];
            let all: Vec<(u8, u64, u8)> =
                (0..).zip(&hosts).map(|(host, (bytes, queues))| (host, *bytes, *queues)).collect();
            for (host, bytes, queues) in &all {
                (0..*queues).for_each(|queue| push(&mut flows, ([0, *host, queue], 0, *bytes)));
            }
            for _ in 0..2_000 {
                let ((path, number, bytes), cost) = flows.serve(&mut |_| true).unwrap();
                got[usize::from(path[1])] += cost;
                push(&mut flows, (path, number + 1, bytes));
            }
            let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
            let bound = QUANTUM + 2 * i64::try_from(COST_MAX).unwrap();
            prop_assert!(most - least <= bound, "{got:?}");
        }

        /// A host with few requests, on another volume, is served after a quantum and an item of
        /// each other volume.
        #[test]
        fn who_asks_for_little_waits_a_bounded_time(
            floods in prop::collection::vec((0..1_u64 << 20, 1..40_u32), 1..6),
            before in 0..50_usize,
        ) {
            let mut flows = Flows::default();
            for (volume, (bytes, count)) in (1..).zip(&floods) {
                (0..*count).for_each(|number| push(&mut flows, ([volume, 0, 0], number, *bytes)));
            }
            for _ in 0..before {
                flows.serve(&mut |_| true);
            }
            push(&mut flows, ([0, 9, 9], 0, 4096));
            let mut waited = 0;
            loop {
                let ((path, ..), cost) = flows.serve(&mut |_| true).unwrap();
                if path[0] == 0 {
                    break;
                }
                waited += cost;
            }
            let each = QUANTUM + i64::try_from(COST_MAX).unwrap();
            prop_assert!(waited <= each * i64::try_from(floods.len()).unwrap());
        }
    }

    #[test]
    fn what_is_taken_out_is_gone_and_the_rest_keeps_its_order() {
        let mut flows = Flows::default();
        for number in 0..6 {
            let host = u8::from(number % 2 == 1);
            push(&mut flows, ([0, host, 0], number, 4096));
        }
        let mut out = Vec::new();
        flows.extract(&mut |item| item.1 % 3 == 0, &mut out);
        out.sort_unstable();
        assert_eq!(out.iter().map(|item| item.1).collect::<Vec<_>>(), [0, 3]);
        let rest = std::iter::from_fn(|| flows.serve(&mut |_| true));
        assert_eq!(rest.map(|(item, _)| item.1).collect::<Vec<_>>(), [2, 4, 1, 5]);
    }
}
