//! Locks on ranges of mirrors: two writes of one block are never under way together.
//!
//! A lock is granted when no earlier lock overlaps it, whether that one is held or waits. So
//! overlapping locks are granted in the order of their requests, and others never wait.
//!
//! All locks of a core are in one treap, ordered by mirror, start and number. Each node knows the
//! highest end below it. A request or a release costs O(log n + k) for n locks, of which k overlap.
//! The nodes are in one vector and are reused: nothing is allocated once it has grown.
//!
//! It must not know who asks, or for which purpose.
//!
//! Invariant: a lock's `blockers` is the number of earlier locks that overlap it.

#[cfg(test)]
mod tests;

use nearflash_units::{ByteLen, ByteOffset, index};

use crate::table::MirrorId;

/// A byte of a mirror; ordered by mirror first, so one treap holds the ranges of all.
type Position = (u32, u64);

/// No node.
const NONE: u32 = u32::MAX;

/// A range of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Range {
    /// The mirror.
    pub mirror: MirrorId,
    /// The first byte.
    pub offset: ByteOffset,
    /// The length.
    pub len: ByteLen,
}

/// A lock that is held or waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ticket {
    node: u32,
    /// The order of the request. It is never used again.
    number: u64,
}

#[derive(Debug)]
struct Node<T> {
    start: Position,
    end: Position,
    /// The highest end of this node and all below it.
    highest: Position,
    priority: u64,
    number: u64,
    left: u32,
    right: u32,
    blockers: u32,
    asker: T,
}

/// The locks of one core, each with the one who asked for it.
#[derive(Debug)]
pub(crate) struct RangeLocks<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    root: u32,
    next: u64,
    /// The overlapping locks of a search; kept for its memory.
    found: Vec<u32>,
}

impl<T: Copy> RangeLocks<T> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, next: 0, found: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root == NONE
    }

    /// The mirror of a lock that was not given back.
    pub(crate) fn mirror(&self, ticket: Ticket) -> MirrorId {
        MirrorId(self.nodes[index(ticket.node)].start.0)
    }

    /// Asks for a lock. Returns its ticket, and whether it is granted already.
    pub(crate) fn acquire(&mut self, range: Range, asker: T) -> (Ticket, bool) {
        let start = (range.mirror.0, range.offset.0);
        let end = (range.mirror.0, range.offset.0.saturating_add(range.len.0));
        self.found.clear();
        self.find(self.root, start, end);
        let blockers = u32::try_from(self.found.len()).expect("nodes have numbers of 32 bits");
        let number = self.next;
        self.next += 1;
        let priority = priority(number);
        let (left, right) = (NONE, NONE);
        let node =
            Node { start, end, highest: end, priority, number, left, right, blockers, asker };
        let at = self.place(node);
        self.root = self.insert(self.root, at);
        (Ticket { node: at, number }, blockers == 0)
    }

    /// Gives a lock back, or gives up waiting for it. Appends the locks that are granted by this.
    ///
    /// # Panics
    /// When the ticket was given back before, which is a bug of the caller.
    pub(crate) fn release(&mut self, ticket: Ticket, granted: &mut Vec<(Ticket, T)>) {
        let Node { start, end, number, .. } = self.nodes[index(ticket.node)];
        assert_eq!(number, ticket.number, "a lock is given back once");
        self.root = self.remove(self.root, ticket.node);
        self.nodes[index(ticket.node)].number = u64::MAX;
        self.free.push(ticket.node);
        self.found.clear();
        self.find(self.root, start, end);
        // In the order of the requests, whatever their starts are.
        let (nodes, found) = (&mut self.nodes, &mut self.found);
        found.sort_unstable_by_key(|at| nodes[index(*at)].number);
        for at in found.iter().copied() {
            let node = &mut nodes[index(at)];
            if node.number < number {
                continue;
            }
            node.blockers -= 1;
            if node.blockers == 0 {
                granted.push((Ticket { node: at, number: node.number }, node.asker));
            }
        }
    }

    fn place(&mut self, node: Node<T>) -> u32 {
        if let Some(at) = self.free.pop() {
            self.nodes[index(at)] = node;
            return at;
        }
        let at = u32::try_from(self.nodes.len()).expect("locks are bounded by the pool");
        self.nodes.push(node);
        at
    }

    /// Adds to `found` the locks below `at` that overlap the range.
    fn find(&mut self, at: u32, start: Position, end: Position) {
        if at == NONE || self.nodes[index(at)].highest <= start {
            return;
        }
        let Node { left, right, start: first, end: last, .. } = self.nodes[index(at)];
        self.find(left, start, end);
        if first >= end {
            return;
        }
        if last > start {
            self.found.push(at);
        }
        self.find(right, start, end);
    }

    fn key(&self, at: u32) -> (Position, u64) {
        let Node { start, number, .. } = self.nodes[index(at)];
        (start, number)
    }

    /// Adds a node to a tree. Returns the root.
    fn insert(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        let key = self.key(new);
        if self.nodes[index(new)].priority > self.nodes[index(at)].priority {
            let (below, above) = self.split(at, key);
            let node = &mut self.nodes[index(new)];
            (node.left, node.right) = (below, above);
            self.update(new);
            return new;
        }
        let Node { left, right, .. } = self.nodes[index(at)];
        if self.key(at) < key {
            self.nodes[index(at)].right = self.insert(right, new);
        } else {
            self.nodes[index(at)].left = self.insert(left, new);
        }
        self.update(at);
        at
    }

    /// Removes a node from the tree that contains it. Returns the root.
    fn remove(&mut self, at: u32, old: u32) -> u32 {
        assert_ne!(at, NONE, "a lock is given back once");
        let Node { left, right, .. } = self.nodes[index(at)];
        if at == old {
            return self.merge(left, right);
        }
        if self.key(at) < self.key(old) {
            self.nodes[index(at)].right = self.remove(right, old);
        } else {
            self.nodes[index(at)].left = self.remove(left, old);
        }
        self.update(at);
        at
    }

    /// Cuts a tree into the nodes before `key`, and the others.
    fn split(&mut self, at: u32, key: (Position, u64)) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let Node { start, number, left, right, .. } = self.nodes[index(at)];
        if (start, number) < key {
            let (below, above) = self.split(right, key);
            self.nodes[index(at)].right = below;
            self.update(at);
            (at, above)
        } else {
            let (below, above) = self.split(left, key);
            self.nodes[index(at)].left = above;
            self.update(at);
            (below, at)
        }
    }

    /// Joins two trees, of which the first one is before the second one.
    fn merge(&mut self, below: u32, above: u32) -> u32 {
        if below == NONE || above == NONE {
            return if below == NONE { above } else { below };
        }
        let (low, high) = (&self.nodes[index(below)], &self.nodes[index(above)]);
        if low.priority > high.priority {
            let right = self.merge(low.right, above);
            self.nodes[index(below)].right = right;
            self.update(below);
            below
        } else {
            let left = self.merge(below, high.left);
            self.nodes[index(above)].left = left;
            self.update(above);
            above
        }
    }

    fn update(&mut self, at: u32) {
        let Node { left, right, end, .. } = self.nodes[index(at)];
        let below = |node: u32| if node == NONE { end } else { self.nodes[index(node)].highest };
        self.nodes[index(at)].highest = end.max(below(left)).max(below(right));
    }
}

/// A number that looks random, so that the treap is balanced. It depends on the order of requests
/// alone, which no host can use to unbalance it: a host does not choose the numbers.
fn priority(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
