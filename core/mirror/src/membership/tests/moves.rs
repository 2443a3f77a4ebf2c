//! A replica that moves to another node.

use super::*;

/// A node of a mirror with A and B in sync, of which one is to give its place to C. All nodes have greeted.
fn moving(node: NodeKey, leaving: Option<u32>) -> Membership {
    let mut it = Membership::new(node, 1, vec![slice(node, 1)], at(0));
    for other in [A, B, C].into_iter().filter(|other| *other != node) {
        it.handle_pulse(other, hello(other, 1));
    }
    let replica = |(ordinal, node)| Replica { ordinal, slice: node, node };
    let replicas = [(0, A), (1, B), (2, C)].map(replica).to_vec();
    let known = both();
    it.set_mirrors(vec![MirrorConfig {
        key: KEY,
        replicas,
        leaving,
        places: 6,
        known,
        note: None,
    }]);
    settle(&mut it);
    it
}

/// The replica of C gets everything from A.
fn copied() -> Membership {
    let mut a = moving(A, Some(1));
    a.handle_pulse(C, join(1, [None; 2]));
    let joined = Pulse::Joined { mirror: KEY, term: Term(1), session: 1 };
    assert_eq!(settle(&mut a), [Action::Send(C, joined)]);
    a.handle_pulse(C, Pulse::Ready { mirror: KEY, session: 1 });
    let actions = settle(&mut a);
    assert!(actions.contains(&Action::Resync(KEY, 1, Scope::All)), "its bytes are unknown");
    let view = views(&actions).pop().expect("a view");
    assert_eq!(view.remotes.map(|it| it.map(|it| it.has_all)), [Some(true), Some(false)]);
    a.handle_resynced(KEY, 1, TOKEN);
    settle(&mut a);
    a.handle_pulse(C, Pulse::Kept { mirror: KEY, session: 1 });
    settle(&mut a);
    a
}

/// The last time until which reads may be answered.
fn lease(actions: &[Action]) -> Option<Nanos> {
    let of = |action: &Action| match action {
        Action::Leases(leases) => Some(leases[0].1),
        _ => None,
    };
    actions.iter().filter_map(of).next_back()
}

/// The primary asks both, and only one of them gives a lease.
fn granted_by(a: &mut Membership, node: NodeKey, millis: u64) -> Vec<Action> {
    let sequence = question(a, node, millis);
    grant(a, node, sequence);
    settle(a)
}

#[test]
fn the_third_replica_takes_the_place_of_the_one_that_leaves_in_one_proposal() {
    let mut a = copied();
    granted_by(&mut a, B, 200);
    let call = read(&granted_by(&mut a, C, 400)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, proposal) = settle(&mut a)
        .into_iter()
        .find_map(|action| match action {
            Action::Propose(_, call, proposal) => Some((call, proposal)),
            _ => None,
        })
        .expect("it is proposed");
    let next = added(record(2, 0, vec![element(0, 1), element(2, 1)]));
    assert_eq!(proposal, Proposal { revision: 10, places: Some(6), record: next });
    // Until the outcome is known, writes and reads need both.
    a.handle_store(KEY, call, StoreAnswer::Unknown);
    let until = at(200).plus(LEASE);
    assert_eq!(lease(&granted_by(&mut a, C, 560)), Some(until), "that of B was given before");
    a.set_now(at(900));
    a.handle_timeout();
    let (call, ..) = self::proposal(&settle(&mut a)).expect("the same is sent again");
    a.handle_store(KEY, call, StoreAnswer::Committed(11));
    let view = views(&settle(&mut a)).pop().expect("a view");
    assert_eq!((view.term, sessions(&view), view.needs_lease), (Term(2), vec![1], true));
    assert!(view.remotes[0].is_none(), "it keeps its place");
    // The one that has left has nowhere to go.
    a.handle_pulse(B, join(1, [Some(Token::FIRST), None]));
    assert_eq!(settle(&mut a), []);
}

#[test]
fn nobody_joins_two_replicas_in_sync_of_which_none_leaves() {
    for leaving in [None, Some(0), Some(2)] {
        let mut a = moving(A, leaving);
        a.handle_pulse(C, join(1, [None; 2]));
        assert_eq!(settle(&mut a), [], "{leaving:?}");
    }
}

#[test]
fn a_primary_that_is_to_leave_hands_over_first() {
    let mut a = moving(A, Some(0));
    let call = read(&granted_by(&mut a, B, 200)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (_, _, next) = proposal(&settle(&mut a)).expect("it hands over");
    assert_eq!(next, record(2, 1, vec![element(1, 1)]));
}

#[test]
fn a_replica_that_lacks_little_returns_before_one_to_which_everything_is_copied() {
    let mut a = moving(A, Some(1));
    a.handle_pulse_end(B, true);
    let call = read(&settle(&mut a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, ..) = proposal(&settle(&mut a)).expect("it goes on alone");
    a.handle_store(KEY, call, StoreAnswer::Committed(11));
    settle(&mut a);
    a.handle_pulse(C, join(1, [None; 2]));
    a.handle_pulse(C, Pulse::Ready { mirror: KEY, session: 1 });
    assert!(settle(&mut a).contains(&Action::Resync(KEY, 1, Scope::All)));
    a.handle_pulse(B, hello(B, 2));
    let tokens = [Some(Token::FIRST), None];
    // The earlier attempt ends on all cores before the next one begins.
    a.handle_pulse(B, join(2, tokens));
    a.handle_pulse(C, join(1, [None; 2]));
    settle(&mut a);
    a.handle_pulse(B, join(2, tokens));
    let joined = Pulse::Joined { mirror: KEY, term: Term(2), session: 3 };
    assert!(settle(&mut a).contains(&Action::Send(B, joined)));
}

#[test]
fn a_replica_that_asks_a_node_which_is_not_primary_is_told_the_record() {
    let mut b = moving(B, Some(0));
    b.handle_pulse(C, join(1, [None; 2]));
    assert_eq!(settle(&mut b), [Action::Send(C, Pulse::Tell(KEY, both()))]);
}
