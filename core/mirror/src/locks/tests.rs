//! The locks against a list that is searched from its beginning.

use proptest::prelude::*;

use super::*;

fn range(mirror: u32, offset: u64, len: u64) -> Range {
    Range { mirror: MirrorId(mirror), offset: ByteOffset(offset), len: ByteLen(len) }
}

fn overlap(one: Range, other: Range) -> bool {
    one.mirror == other.mirror
        && one.offset.0 < other.offset.0 + other.len.0
        && other.offset.0 < one.offset.0 + one.len.0
}

/// All locks in the order of their requests, and which are granted.
#[derive(Default)]
struct Naive(Vec<(u64, Range, bool)>);

impl Naive {
    /// Grants what can be granted. Returns the newly granted ones.
    fn grant(&mut self) -> Vec<u64> {
        let mut granted = Vec::new();
        for at in 0..self.0.len() {
            let is_free = self.0[..at].iter().all(|(_, range, _)| !overlap(*range, self.0[at].1));
            if is_free && !self.0[at].2 {
                self.0[at].2 = true;
                granted.push(self.0[at].0);
            }
        }
        granted
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire(u32, u64, u64),
    /// Gives back a lock that is held or waits: the place among all, modulo their number.
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u32, 0..48_u64, 1..12_u64).prop_map(|(m, offset, len)| Step::Acquire(m, offset, len)),
        (0..64_usize).prop_map(Step::Release),
    ]
}

/// However locks are asked for and given back, the same ones are held as in the naive list.
fn check_locks_equal_a_list(steps: &[Step]) {
    let (mut locks, mut naive) = (RangeLocks::new(), Naive::default());
    let mut tickets: Vec<(u64, Ticket)> = Vec::new();
    for (name, step) in (0_u64..).zip(steps) {
        match *step {
            Step::Acquire(mirror, offset, len) => {
                let range = range(mirror, offset, len);
                let (ticket, is_granted) = locks.acquire(range, name);
                naive.0.push((name, range, false));
                assert_eq!(is_granted, naive.grant() == [name]);
                tickets.push((name, ticket));
            }
            Step::Release(_) if tickets.is_empty() => {}
            Step::Release(at) => {
                let (name, ticket) = tickets.remove(at % tickets.len());
                let mut granted = Vec::new();
                locks.release(ticket, &mut granted);
                naive.0.retain(|(other, ..)| *other != name);
                let names: Vec<u64> = granted.iter().map(|(_, asker)| *asker).collect();
                assert_eq!(names, naive.grant());
                assert!(granted.iter().all(|(t, name)| tickets.contains(&(*name, *t))));
            }
        }
        assert_eq!(locks.is_empty(), tickets.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn the_locks_that_are_held_are_those_of_a_list_that_is_searched_in_order(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        check_locks_equal_a_list(&steps);
    }
}

#[test]
fn a_lock_waits_for_an_earlier_one_that_waits_itself() {
    let mut locks = RangeLocks::new();
    let (first, is_first_granted) = locks.acquire(range(0, 0, 8), 'a');
    let (second, is_second_granted) = locks.acquire(range(0, 4, 8), 'b');
    // It overlaps the second one alone. Without fairness, it would pass it again and again.
    let (_, is_third_granted) = locks.acquire(range(0, 8, 8), 'c');
    assert!(is_first_granted && !is_second_granted && !is_third_granted);
    let mut granted = Vec::new();
    locks.release(first, &mut granted);
    assert_eq!(granted, [(second, 'b')]);
}

#[test]
fn locks_of_a_steady_load_need_no_further_memory() {
    let mut locks = RangeLocks::new();
    let mut held = std::collections::VecDeque::new();
    let mut granted = Vec::new();
    for turn in 0..10_000_u64 {
        held.push_back(locks.acquire(range(0, turn * 4096, 4096), ()).0);
        if held.len() > 32 {
            locks.release(held.pop_front().expect("it is not empty"), &mut granted);
        }
    }
    assert_eq!(locks.nodes.len(), 33);
    assert!(granted.is_empty());
}

#[test]
fn the_treap_of_ten_thousand_ascending_locks_is_shallow() {
    fn depth(locks: &RangeLocks<()>, at: u32) -> usize {
        if at == NONE {
            return 0;
        }
        let node = &locks.nodes[index(at)];
        1 + depth(locks, node.left).max(depth(locks, node.right))
    }
    let mut locks = RangeLocks::new();
    for turn in 0..10_000_u64 {
        locks.acquire(range(0, turn * 4096, 4096), ());
    }
    assert!(depth(&locks, locks.root) < 48);
}
