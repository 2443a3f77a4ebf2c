//! Single rules, step by step. How they work together is the simulation's part.

mod moves;

use nearflash_device::MirrorKey;
use uuid::Uuid;

use super::*;
use crate::Role;

const A: NodeKey = [1; 16];
const B: NodeKey = [2; 16];
const KEY: MirrorKey = MirrorKey { volume: Uuid::from_bytes([7; 16]), number: 0 };

fn element(replica: u32, incarnation: u64) -> Element {
    Element { replica, incarnation }
}

/// The first primary is on A.
fn record(term: u32, primary: u32, in_sync: Vec<Element>) -> Record {
    let (term, kept_since, token) = (Term(term), Term(0), Token::FIRST);
    Record { term, primary, in_sync, kept_since, token }
}

/// The token of an addition.
const TOKEN: Token = Token(9);

fn added(record: Record) -> Record {
    Record { token: TOKEN, ..record }
}

fn join(incarnation: u64, tokens: Tokens) -> Pulse {
    Pulse::Join { mirror: KEY, incarnation, tokens }
}

fn both() -> Known {
    Known { record: record(1, 0, vec![element(0, 1), element(1, 1)]), revision: 10 }
}

fn slice(node: NodeKey, incarnation: u64) -> SliceState {
    SliceState { slice: node, incarnation, power: 1 }
}

/// The membership of a node, with its slice in that incarnation.
fn membership(node: NodeKey, incarnation: u64, known: Known) -> Membership {
    let mut membership =
        Membership::new(node, 1, vec![slice(node, incarnation)], Nanos::from_secs(100));
    let replica = |ordinal, node| Replica { ordinal, slice: node, node };
    let replicas = vec![replica(0, A), replica(1, B)];
    membership.set_mirrors(vec![MirrorConfig {
        key: KEY,
        replicas,
        leaving: None,
        places: 5,
        known,
        note: None,
    }]);
    membership
}

/// Answers everything that the cores are asked, until there is something else.
fn settle(membership: &mut Membership) -> Vec<Action> {
    let mut others = Vec::new();
    while let Some(action) = membership.poll_action() {
        match action {
            Action::Publish(number, views) => {
                membership.handle_shown(number);
                others.push(Action::Publish(number, views));
            }
            Action::Drain(number, _) => membership.handle_drained(number),
            Action::Note(_, notes) => membership.handle_noted(&notes),
            action => others.push(action),
        }
    }
    others
}

fn views(actions: &[Action]) -> Vec<View> {
    let of = |action: &Action| match action {
        Action::Publish(_, views) => Some(views[0].1),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

/// The sessions of the replicas to which a primary writes.
fn sessions(view: &View) -> Vec<u32> {
    view.remotes.iter().flatten().map(|remote| remote.session).collect()
}

fn read(actions: &[Action]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        Action::Read(_, call) => Some(*call),
        _ => None,
    })
}

fn proposal(actions: &[Action]) -> Option<(u64, i64, Record)> {
    actions.iter().find_map(|action| match action {
        Action::Propose(_, call, it) => Some((*call, it.revision, it.record.clone())),
        _ => None,
    })
}

/// A store that has this record refuses a proposal.
fn refused(known: Known) -> StoreAnswer {
    StoreAnswer::Refused(Conflict { known, places: 5, is_fenced: false })
}

fn fenced(known: Known) -> StoreAnswer {
    StoreAnswer::Refused(Conflict { known, places: 5, is_fenced: true })
}

fn hello(node: NodeKey, incarnation: u64) -> Pulse {
    Pulse::Hello { run: incarnation, slices: vec![slice(node, incarnation)], ahead: Vec::new() }
}

fn at(millis: u64) -> Nanos {
    Nanos::from_secs(100).plus(Nanos::from_millis(millis))
}

#[test]
fn a_secondary_takes_over_at_once_when_the_process_of_the_primary_has_ended() {
    let mut b = membership(B, 1, both());
    assert_eq!(views(&settle(&mut b)).last().map(|view| view.role), Some(Role::Secondary));
    b.handle_pulse(A, hello(A, 1));
    // A connection that is lost proves nothing.
    b.handle_pulse_end(A, false);
    assert_eq!(settle(&mut b), []);
    b.handle_pulse(A, hello(A, 1));
    b.handle_pulse_end(A, true);
    let call = read(&settle(&mut b)).expect("the record is read");
    b.handle_store(KEY, call, StoreAnswer::Read(both()));
    let actions = settle(&mut b);
    assert_eq!(views(&actions)[0].role, Role::Nobody);
    let (call, revision, next) = proposal(&actions).expect("it proposes itself");
    assert_eq!((revision, next), (10, record(2, 1, vec![element(1, 1)])));
    b.handle_store(KEY, call, StoreAnswer::Committed(11));
    let view = views(&settle(&mut b)).pop().expect("a view");
    assert_eq!((view.role, view.term, view.needs_lease), (Role::Primary, Term(2), false));
}

#[test]
fn a_secondary_keeps_its_lease_before_it_takes_over() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.set_now(at(400));
    b.handle_pulse(A, hello(A, 1));
    let question = Question { mirror: KEY, term: Term(1), session: 0 };
    b.handle_pulse(A, Pulse::Ask { sequence: 1, questions: vec![question], heard: None });
    let granted = settle(&mut b);
    let grant = Pulse::Grant { sequence: 1, mirrors: vec![KEY] };
    assert_eq!(granted, [Action::Send(A, grant)]);
    b.set_now(at(400 + 1020 + 250));
    b.handle_timeout();
    assert_eq!(read(&settle(&mut b)), None);
    b.set_now(at(400 + 1020 + 251));
    b.handle_timeout();
    assert!(read(&settle(&mut b)).is_some());
}

#[test]
fn while_the_store_does_not_answer_nothing_is_stopped_and_leases_are_given_again() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.set_now(at(2000));
    b.handle_timeout();
    let call = read(&settle(&mut b)).expect("the record is read");
    let question = Question { mirror: KEY, term: Term(1), session: 0 };
    b.handle_pulse(A, Pulse::Ask { sequence: 1, questions: vec![question], heard: None });
    let actions = settle(&mut b);
    assert_eq!(views(&actions), []);
    let grant = Pulse::Grant { sequence: 1, mirrors: vec![KEY] };
    assert!(actions.contains(&Action::Send(A, grant)));
    // The false alarm is over.
    b.handle_store(KEY, call, StoreAnswer::Read(both()));
    assert_eq!(settle(&mut b), []);
}

#[test]
fn a_proposal_without_an_answer_stays_stopped_and_is_sent_again() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.handle_pulse_end(A, true);
    let call = read(&settle(&mut b)).expect("the record is read");
    b.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, _, first) = proposal(&settle(&mut b)).expect("it proposes itself");
    b.handle_store(KEY, call, StoreAnswer::Unknown);
    b.handle_pulse(A, hello(A, 1));
    let question = Question { mirror: KEY, term: Term(1), session: 0 };
    b.handle_pulse(A, Pulse::Ask { sequence: 1, questions: vec![question], heard: None });
    let grant = Pulse::Grant { sequence: 1, mirrors: vec![] };
    assert_eq!(settle(&mut b), [Action::Send(A, grant)]);
    b.set_now(at(300));
    b.handle_timeout();
    let (_, _, again) = proposal(&settle(&mut b)).expect("the same one");
    assert_eq!(again, first);
    // It has taken effect: whoever has told, the record has changed.
    b.handle_record(KEY, Known { record: first, revision: 11 });
    assert_eq!(views(&settle(&mut b)).pop().map(|view| view.role), Some(Role::Primary));
}

#[test]
fn a_suspect_waits_for_the_other_one_and_goes_on_when_both_have_restarted() {
    let mut a = membership(A, 2, both());
    let actions = settle(&mut a);
    assert_eq!(views(&actions).pop().map(|view| view.role), Some(Role::Nobody));
    a.set_now(at(10_000));
    a.handle_timeout();
    assert_eq!(read(&settle(&mut a)), None, "the other one may be newer");
    a.handle_pulse(B, hello(B, 1));
    assert_eq!(read(&settle(&mut a)), None, "the other one is not suspect");
    a.handle_pulse(B, hello(B, 2));
    let call = read(&settle(&mut a)).expect("it was the primary");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (_, _, next) = proposal(&settle(&mut a)).expect("it goes on");
    assert_eq!(next, record(2, 0, vec![element(0, 2)]));
}

#[test]
fn a_primary_drops_a_secondary_that_has_restarted_and_takes_it_back_with_a_session() {
    let mut a = membership(A, 1, both());
    settle(&mut a);
    a.handle_pulse(B, hello(B, 2));
    let call = read(&settle(&mut a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, _, alone) = proposal(&settle(&mut a)).expect("it goes on alone");
    assert_eq!(alone, record(2, 0, vec![element(0, 1)]));
    a.handle_store(KEY, call, StoreAnswer::Committed(11));
    settle(&mut a);
    a.handle_pulse(B, join(2, [Some(Token::FIRST), None]));
    let joined = Pulse::Joined { mirror: KEY, term: Term(2), session: 1 };
    assert_eq!(settle(&mut a), [Action::Send(B, joined)]);
    a.handle_pulse(B, Pulse::Ready { mirror: KEY, session: 1 });
    let actions = settle(&mut a);
    let view = views(&actions)[0];
    assert_eq!((sessions(&view), view.needs_lease), (vec![1], false));
    assert!(actions.contains(&Action::Resync(KEY, 1, Scope::Written)));
    // Reads go on until a lease is held, and need it before the record names the replica.
    a.handle_resynced(KEY, 1, TOKEN);
    let keep = Pulse::Keep { mirror: KEY, session: 1, token: TOKEN };
    let actions = settle(&mut a);
    assert!(actions.contains(&Action::Send(B, keep)), "{actions:?}");
    assert_eq!(views(&actions), []);
    a.handle_pulse(B, Pulse::Kept { mirror: KEY, session: 1 });
    assert_eq!(settle(&mut a), []);
    a.set_now(at(200));
    a.handle_timeout();
    let asked = settle(&mut a);
    let Some(Action::Send(_, Pulse::Ask { sequence, .. })) = asked.first() else {
        panic!("a lease is asked for: {asked:?}");
    };
    a.handle_pulse(B, Pulse::Grant { sequence: *sequence, mirrors: vec![KEY] });
    let actions = settle(&mut a);
    assert!(views(&actions)[0].needs_lease);
    let call = read(&actions).expect("the record is read");
    let known = Known { record: alone, revision: 11 };
    a.handle_store(KEY, call, StoreAnswer::Read(known));
    let (_, _, next) = proposal(&settle(&mut a)).expect("it is taken back");
    assert_eq!(next, added(record(3, 0, vec![element(0, 1), element(1, 2)])));
}

#[test]
fn a_process_whose_slice_another_one_has_opened_serves_nothing_any_more() {
    let mut a = membership(A, 1, both());
    settle(&mut a);
    a.handle_failure(KEY, Side::Remote(0));
    let call = read(&settle(&mut a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, ..) = proposal(&settle(&mut a)).expect("it drops the other one");
    a.handle_store(KEY, call, fenced(both()));
    assert_eq!(views(&settle(&mut a)).pop().map(|view| view.role), Some(Role::Nobody));
}

/// Node A before it knows its first mirror, when B has greeted it.
fn without_mirrors() -> Membership {
    let mut a = Membership::new(A, 1, vec![slice(A, 1)], at(0));
    a.handle_pulse(B, hello(B, 1));
    a
}

fn learn(membership: &mut Membership, millis: u64) {
    membership.set_now(at(millis));
    let replica = |ordinal, node| Replica { ordinal, slice: node, node };
    let replicas = vec![replica(0, A), replica(1, B)];
    membership.set_mirrors(vec![MirrorConfig {
        key: KEY,
        replicas,
        leaving: None,
        places: 5,
        known: both(),
        note: None,
    }]);
}

/// Whether it asks the other node for leases.
fn asks(membership: &mut Membership) -> bool {
    membership.handle_timeout();
    settle(membership).iter().any(|it| matches!(it, Action::Send(_, Pulse::Ask { .. })))
}

#[test]
fn a_node_that_greets_before_their_first_mirror_is_known_here_is_asked_for_leases() {
    let mut a = without_mirrors();
    assert!(!asks(&mut a), "they share nothing yet");
    assert_eq!(a.partners().count(), 0);
    learn(&mut a, 1000);
    assert_eq!(a.partners().collect::<Vec<_>>(), [B]);
    assert!(asks(&mut a));
}

#[test]
fn a_node_whose_last_mirror_is_removed_is_known_when_the_next_one_is_there() {
    let mut a = without_mirrors();
    learn(&mut a, 0);
    a.set_mirrors(vec![]);
    assert_eq!(a.partners().count(), 0);
    learn(&mut a, 1000);
    assert!(asks(&mut a));
}

#[test]
fn a_node_that_ended_before_their_first_mirror_is_not_taken_for_the_one_that_runs_now() {
    let mut a = without_mirrors();
    a.handle_pulse_end(B, true);
    learn(&mut a, 1000);
    assert!(!asks(&mut a));
    assert_eq!(read(&settle(&mut a)), None, "nothing is changed");
}

/// A primary that wants to hand over, has stopped, and waits for its writes.
fn stopped() -> Membership {
    let mut primary = membership(A, 1, both());
    settle(&mut primary);
    primary.handle_pulse(B, hello(B, 1));
    let sequence = question(&mut primary, B, 0);
    grant(&mut primary, B, sequence);
    primary.leave();
    let call = read(&settle(&mut primary)).expect("it asks the store");
    primary.handle_store(KEY, call, StoreAnswer::Read(both()));
    let Some(Action::Publish(number, views)) = primary.poll_action() else {
        panic!("it stops");
    };
    // It goes on with what it has sent.
    assert_eq!((views[0].1.role, sessions(&views[0].1)), (Role::Nobody, vec![0]));
    primary.handle_shown(number);
    primary
}

fn drain(membership: &mut Membership) -> u64 {
    let Some(Action::Drain(number, _)) = membership.poll_action() else {
        panic!("it waits for its writes");
    };
    assert_eq!(membership.poll_action(), None);
    number
}

#[test]
fn a_handover_waits_for_writes_under_way_but_not_for_a_device_that_hangs() {
    let handed_over = record(2, 1, vec![element(1, 1)]);
    for is_drained in [true, false] {
        let mut primary = stopped();
        let number = drain(&mut primary);
        if is_drained {
            primary.handle_drained(number);
        } else {
            primary.set_now(at(HANDOVER_MAX.0 / 1_000_000 - 1));
            primary.handle_timeout();
            assert_eq!(proposal(&settle(&mut primary)), None);
            primary.set_now(at(HANDOVER_MAX.0 / 1_000_000));
            primary.handle_timeout();
        }
        let (_, _, proposed) = proposal(&settle(&mut primary)).expect("it hands over");
        assert_eq!(proposed, handed_over);
    }
}

#[test]
fn a_mirror_is_handed_over_only_to_a_replica_whose_slice_knows_it() {
    let mut b = membership(B, 1, both());
    let (notes, _) = unnoted(&mut b);
    b.handle_pulse(A, hello(A, 1));
    let asked = Question { mirror: KEY, term: Term(1), session: 0 };
    let ask = |sequence| Pulse::Ask { sequence, questions: vec![asked], heard: None };
    let granted = |b: &mut Membership| {
        let (_, actions) = unnoted(b);
        let is_grant = |it: &Action| matches!(it, Action::Send(_, Pulse::Grant { mirrors, .. }) if *mirrors == [KEY]);
        actions.iter().any(is_grant)
    };
    b.handle_pulse(A, ask(1));
    assert!(!granted(&mut b), "the slice knows nothing of the mirror yet");
    b.handle_noted(&notes);
    b.handle_pulse(A, ask(2));
    assert!(granted(&mut b));

    let mut a = membership(A, 1, both());
    settle(&mut a);
    a.handle_pulse(B, hello(B, 1));
    a.leave();
    assert_eq!(read(&settle(&mut a)), None, "no lease has shown that the other slice knows it");
    let sequence = question(&mut a, B, 150);
    grant(&mut a, B, sequence);
    assert!(read(&settle(&mut a)).is_some());
}

#[test]
fn a_handover_to_a_node_that_has_ended_meanwhile_is_given_up() {
    let mut primary = stopped();
    let number = drain(&mut primary);
    primary.handle_pulse_end(B, true);
    primary.handle_drained(number);
    let actions = settle(&mut primary);
    assert_eq!(views(&actions).last().map(|view| view.role), Some(Role::Primary));
    assert_eq!(proposal(&actions), None);
    let call = read(&actions).expect("it drops the other one");
    primary.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (_, _, proposed) = proposal(&settle(&mut primary)).expect("it drops the other one");
    assert_eq!(proposed, record(2, 0, vec![element(0, 1)]));
}

const C: NodeKey = [3; 16];

/// A is alone in sync, in term 2.
fn alone() -> Known {
    Known { record: record(2, 0, vec![element(0, 1)]), revision: 11 }
}

/// The list of replicas has changed: A's has ordinal 0, and there may be another one.
fn replace(membership: &mut Membership, other: Option<(u32, NodeKey)>, places: i64) {
    let replica = |(ordinal, node)| Replica { ordinal, slice: node, node };
    let replicas = [(0, A)].into_iter().chain(other).map(replica).collect();
    membership.set_mirrors(vec![MirrorConfig {
        key: KEY,
        replicas,
        leaving: None,
        places,
        known: alone(),
        note: None,
    }]);
}

/// The replica of a node, which has greeted, joins A and gets everything.
fn is_copied(a: &mut Membership, node: NodeKey, session: u32) {
    settle(a);
    a.handle_pulse(node, join(1, [None; 2]));
    let joined = Pulse::Joined { mirror: KEY, term: Term(2), session };
    assert_eq!(settle(a), [Action::Send(node, joined)]);
    a.handle_pulse(node, Pulse::Ready { mirror: KEY, session });
    assert!(settle(a).contains(&Action::Resync(KEY, session, Scope::All)));
    a.handle_resynced(KEY, session, TOKEN);
    settle(a);
    a.handle_pulse(node, Pulse::Kept { mirror: KEY, session });
    settle(a);
}

/// The number of the question that A asks the node.
fn question(a: &mut Membership, node: NodeKey, millis: u64) -> u64 {
    a.set_now(at(millis));
    a.handle_timeout();
    let asked = settle(a).into_iter().find_map(|action| match action {
        Action::Send(to, Pulse::Ask { sequence, .. }) if to == node => Some(sequence),
        _ => None,
    });
    asked.expect("a lease is asked for")
}

fn grant(a: &mut Membership, node: NodeKey, sequence: u64) {
    a.handle_pulse(node, Pulse::Grant { sequence, mirrors: vec![KEY] });
}

/// The proposal to add the replica, after its node has given a lease.
fn addition(a: &mut Membership, node: NodeKey, millis: u64) -> (u64, Proposal) {
    let sequence = question(a, node, millis);
    grant(a, node, sequence);
    let call = read(&settle(a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(alone()));
    let proposals = settle(a).into_iter().find_map(|action| match action {
        Action::Propose(_, call, proposal) => Some((call, proposal)),
        _ => None,
    });
    proposals.expect("it is added")
}

#[test]
fn a_replica_in_the_place_of_another_one_joins_and_is_added_only_to_the_list_that_names_it() {
    let mut a = membership(A, 1, alone());
    a.handle_pulse(C, hello(C, 1));
    replace(&mut a, Some((2, C)), 6);
    assert_eq!(a.partners().collect::<Vec<_>>(), [C]);
    is_copied(&mut a, C, 1);
    let (_, proposal) = addition(&mut a, C, 200);
    let next = added(record(3, 0, vec![element(0, 1), element(2, 1)]));
    assert_eq!(proposal, Proposal { revision: 11, places: Some(6), record: next });
}

#[test]
fn an_addition_that_is_under_way_ends_with_the_place_of_its_replica() {
    let mut a = membership(A, 1, alone());
    a.handle_pulse(B, hello(B, 1));
    a.handle_pulse(C, hello(C, 1));
    is_copied(&mut a, B, 1);
    let (call, proposal) = addition(&mut a, B, 200);
    assert_eq!(proposal.places, Some(5));
    a.handle_store(KEY, call, StoreAnswer::Unknown);
    replace(&mut a, Some((2, C)), 6);
    a.set_now(at(900));
    a.handle_timeout();
    let actions = settle(&mut a);
    assert_eq!(self::proposal(&actions), None, "it is not sent again with another list");
    let last = views(&actions).pop().expect("a view");
    assert_eq!((last.role, sessions(&last)), (Role::Primary, vec![]));
    a.handle_store(KEY, call, StoreAnswer::Committed(12));
    assert_eq!(views(&settle(&mut a)), [], "nobody waits for its answer");
    // The next one begins from the start, with a lease of its own.
    is_copied(&mut a, C, 2);
    assert_eq!(read(&settle(&mut a)), None);
    let (_, proposal) = addition(&mut a, C, 1100);
    assert_eq!((proposal.places, proposal.record.in_sync[1]), (Some(6), element(2, 1)));
}

#[test]
fn a_lease_of_a_replica_that_was_replaced_does_not_count_for_the_next_one() {
    let mut a = membership(A, 1, alone());
    a.handle_pulse(B, hello(B, 1));
    a.handle_pulse(C, hello(C, 1));
    is_copied(&mut a, B, 1);
    let sequence = question(&mut a, B, 200);
    grant(&mut a, B, sequence);
    replace(&mut a, Some((2, C)), 6);
    is_copied(&mut a, C, 2);
    grant(&mut a, B, sequence);
    assert_eq!(read(&settle(&mut a)), None);
}

#[test]
fn an_addition_that_is_refused_with_the_record_unchanged_is_tried_from_the_start() {
    let mut a = membership(A, 1, alone());
    a.handle_pulse(B, hello(B, 1));
    is_copied(&mut a, B, 1);
    let (call, _) = addition(&mut a, B, 200);
    a.handle_store(KEY, call, refused(alone()));
    assert_eq!(
        views(&settle(&mut a)),
        [],
        "perhaps a copy of it takes effect: another store has refused"
    );
    a.set_now(at(1000));
    a.handle_timeout();
    let (call, ..) = proposal(&settle(&mut a)).expect("the same is sent again");
    a.handle_store(
        KEY,
        call,
        StoreAnswer::Refused(Conflict { known: alone(), places: 6, is_fenced: false }),
    );
    let view = views(&settle(&mut a)).pop().expect("a view");
    assert_eq!((view.role, sessions(&view), view.needs_lease), (Role::Primary, vec![], false));
    is_copied(&mut a, B, 2);
}

#[test]
fn a_mirror_with_one_replica_serves_alone_until_it_gets_another_one() {
    let mut a = membership(A, 1, alone());
    settle(&mut a);
    a.handle_pulse(C, hello(C, 1));
    replace(&mut a, None, 6);
    assert_eq!(a.partners().count(), 0);
    a.set_now(at(5000));
    a.handle_timeout();
    assert_eq!(settle(&mut a), [], "nobody is asked for a lease");
    assert!(a.has_left());
    replace(&mut a, Some((2, C)), 7);
    is_copied(&mut a, C, 1);
    replace(&mut a, None, 6);
    assert_eq!(a.partners().count(), 1, "an earlier list changes nothing");
}

#[test]
fn a_replica_that_comes_to_a_node_begins_out_of_sync_and_asks_to_join() {
    let mut c = Membership::new(C, 1, vec![slice(C, 1)], at(0));
    c.handle_pulse(A, hello(A, 1));
    replace(&mut c, Some((2, C)), 6);
    let join = join(1, [None; 2]);
    let actions = settle(&mut c);
    assert!(actions.contains(&Action::Send(A, join)), "{actions:?}");
    assert_eq!(views(&actions).pop().map(|view| view.role), Some(Role::Elsewhere));
}

/// The suspect of a mirror of which it is the only replica in sync goes on alone. Its slice lost its power
/// before this incarnation, and the record was changed in an earlier one.
fn recovered(power: u64) -> Record {
    let known = Known { record: record(4, 0, vec![element(0, 2)]), revision: 10 };
    let state = SliceState { power, ..slice(A, 3) };
    let mut a = Membership::new(A, 1, vec![state], Nanos::from_secs(100));
    let replicas = vec![Replica { ordinal: 0, slice: A, node: A }];
    let (places, known) =
        (5, Known { record: Record { kept_since: Term(2), ..known.record }, ..known });
    let config = MirrorConfig {
        key: KEY,
        replicas,
        leaving: None,
        places,
        known: known.clone(),
        note: None,
    };
    a.set_mirrors(vec![config]);
    let call = read(&settle(&mut a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(known));
    proposal(&settle(&mut a)).expect("it goes on alone").2
}

#[test]
fn the_record_tells_that_the_last_replica_in_sync_has_lost_its_power() {
    for (power, kept_since) in [(1, 2), (2, 2), (3, 5)] {
        let expected = record(5, 0, vec![element(0, 3)]);
        assert_eq!(recovered(power), Record { kept_since: Term(kept_since), ..expected });
    }
}

#[test]
fn after_an_answer_of_an_older_store_a_secondary_asks_again_and_takes_over() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.handle_pulse_end(A, true);
    let call = read(&settle(&mut b)).expect("the record is read");
    let older = Known { record: both().record, revision: 9 };
    b.handle_store(KEY, call, StoreAnswer::Read(older));
    assert_eq!(settle(&mut b), [], "not before its time");
    b.set_now(at(1000));
    b.handle_timeout();
    let call = read(&settle(&mut b)).expect("it is read again");
    // As old, by its revision, and another one.
    let other = Known { record: record(1, 1, vec![element(1, 1)]), revision: 10 };
    b.handle_store(KEY, call, StoreAnswer::Read(other));
    b.set_now(at(2000));
    b.handle_timeout();
    let call = read(&settle(&mut b)).expect("it is read again");
    b.handle_store(KEY, call, StoreAnswer::Read(both()));
    assert!(proposal(&settle(&mut b)).is_some());
}

#[test]
fn a_refusal_of_an_older_store_neither_fences_a_primary_nor_leaves_it_stopped() {
    let mut a = membership(A, 1, both());
    settle(&mut a);
    a.handle_pulse(B, hello(B, 1));
    let sequence = question(&mut a, B, 0);
    grant(&mut a, B, sequence);
    a.leave();
    let call = read(&settle(&mut a)).expect("the record is read");
    a.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (mut call, ..) = proposal(&settle(&mut a)).expect("it hands over");
    // Its record is older; its record is the same, and it shows no reason; it has fenced another process.
    let older = Known { revision: 9, ..both() };
    for (answer, millis) in
        [(refused(older.clone()), 1000), (refused(both()), 2000), (fenced(older), 3000)]
    {
        a.handle_store(KEY, call, answer);
        assert_eq!(views(&settle(&mut a)), []);
        a.set_now(at(millis));
        a.handle_timeout();
        (call, ..) = proposal(&settle(&mut a)).expect("the same is sent again");
    }
    a.handle_store(KEY, call, StoreAnswer::Committed(12));
    let view = views(&settle(&mut a)).pop().expect("a view");
    assert_eq!((view.role, view.term), (Role::Elsewhere, Term(2)));
}

/// The slices answer later. Returns the notes.
fn unnoted(membership: &mut Membership) -> (Vec<(MirrorKey, Note)>, Vec<Action>) {
    let (mut asked, mut others) = (Vec::new(), Vec::new());
    while let Some(action) = membership.poll_action() {
        match action {
            Action::Publish(number, views) => {
                membership.handle_shown(number);
                others.push(Action::Publish(number, views));
            }
            Action::Drain(number, _) => membership.handle_drained(number),
            Action::Note(_, notes) => asked.extend(notes),
            action => others.push(action),
        }
    }
    (asked, others)
}

#[test]
fn a_replica_that_is_alone_serves_when_its_slice_knows_the_term() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.handle_pulse_end(A, true);
    let call = read(&settle(&mut b)).expect("the record is read");
    b.handle_store(KEY, call, StoreAnswer::Read(both()));
    let (call, ..) = proposal(&settle(&mut b)).expect("it proposes itself");
    b.handle_store(KEY, call, StoreAnswer::Committed(11));
    let (notes, actions) = unnoted(&mut b);
    assert_eq!(views(&actions), [], "nothing is served");
    // The same record, by another way.
    let alone = Known { record: record(2, 1, vec![element(1, 1)]), revision: 11 };
    b.handle_record(KEY, alone.clone());
    assert_eq!(unnoted(&mut b), (Vec::new(), Vec::new()));
    b.handle_noted(&notes);
    let (_, actions) = unnoted(&mut b);
    let view = views(&actions).pop().expect("a view");
    assert_eq!((view.role, view.term), (Role::Primary, Term(2)));
    assert!(actions.contains(&Action::Send(A, Pulse::Tell(KEY, alone))));
}

#[test]
fn a_replica_with_the_bytes_of_an_earlier_stay_gets_everything() {
    for (tokens, scope) in [
        ([Some(Token::FIRST), None], Scope::Written),
        ([Some(Token(8)), Some(Token::FIRST)], Scope::Written),
        ([Some(Token(8)), None], Scope::All),
        ([None; 2], Scope::All),
    ] {
        let mut a = membership(A, 1, both());
        settle(&mut a);
        a.handle_pulse(B, hello(B, 2));
        let call = read(&settle(&mut a)).expect("the record is read");
        a.handle_store(KEY, call, StoreAnswer::Read(both()));
        let (call, ..) = proposal(&settle(&mut a)).expect("it goes on alone");
        a.handle_store(KEY, call, StoreAnswer::Committed(11));
        settle(&mut a);
        a.handle_pulse(B, join(2, tokens));
        settle(&mut a);
        a.handle_pulse(B, Pulse::Ready { mirror: KEY, session: 1 });
        assert!(settle(&mut a).contains(&Action::Resync(KEY, 1, scope)), "{tokens:?}");
    }
}

#[test]
fn a_replica_that_returns_says_that_it_keeps_the_token_when_its_slice_has_it() {
    let mut b = membership(B, 2, alone());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.set_now(at(400));
    b.handle_timeout();
    settle(&mut b);
    b.handle_pulse(A, Pulse::Joined { mirror: KEY, term: Term(2), session: 4 });
    settle(&mut b);
    b.handle_pulse(A, Pulse::Keep { mirror: KEY, session: 4, token: TOKEN });
    let (notes, actions) = unnoted(&mut b);
    let kept = Action::Send(A, Pulse::Kept { mirror: KEY, session: 4 });
    assert!(!actions.contains(&kept), "{actions:?}");
    b.handle_noted(&notes);
    assert!(unnoted(&mut b).1.contains(&kept));
    // The answer was lost.
    b.handle_pulse(A, Pulse::Keep { mirror: KEY, session: 4, token: TOKEN });
    assert!(unnoted(&mut b).1.contains(&kept));
}

#[test]
fn a_suspect_without_the_bytes_that_the_record_counts_on_does_not_go_on() {
    let known = Known { record: added(record(5, 1, vec![element(1, 1)])), revision: 20 };
    let goes_on = |tokens: Tokens| {
        let mut b = Membership::new(B, 1, vec![slice(B, 2)], at(0));
        let replicas = vec![
            Replica { ordinal: 0, slice: A, node: A },
            Replica { ordinal: 1, slice: B, node: B },
        ];
        let note = Some(Note { ordinal: 1, term: Term(4), tokens });
        let known = known.clone();
        b.set_mirrors(vec![MirrorConfig {
            key: KEY,
            replicas,
            leaving: None,
            places: 5,
            known,
            note,
        }]);
        let is_read = read(&settle(&mut b)).is_some();
        b.set_now(at(500));
        b.handle_timeout();
        is_read || read(&settle(&mut b)).is_some()
    };
    assert!(goes_on([Some(TOKEN), None]));
    assert!(!goes_on([Some(Token(8)), None]));
}

#[test]
fn on_a_restored_store_that_was_accepted_the_replica_with_the_later_term_goes_on() {
    // A was the primary then; B was alone in term 3 before both nodes ended.
    let start = |node: NodeKey, ordinal, term| {
        let mut it = Membership::new(node, 2, vec![slice(node, 2)], at(0));
        let replicas = vec![
            Replica { ordinal: 0, slice: A, node: A },
            Replica { ordinal: 1, slice: B, node: B },
        ];
        let note = Some(Note { ordinal, term: Term(term), tokens: [Some(Token::FIRST), None] });
        it.set_mirrors(vec![MirrorConfig {
            key: KEY,
            replicas,
            leaving: None,
            places: 5,
            known: both(),
            note,
        }]);
        settle(&mut it);
        it
    };
    for (terms, winner) in [((1, 3), B), ((2, 3), B), ((3, 2), A), ((1, 1), A)] {
        let (mut a, mut b) = (start(A, 0, terms.0), start(B, 1, terms.1));
        let (of_a, of_b) = (a.hello(), b.hello());
        a.handle_pulse(B, of_b);
        b.handle_pulse(A, of_a);
        let goes_on = [read(&settle(&mut a)).is_some(), read(&settle(&mut b)).is_some()];
        assert_eq!(goes_on, [winner == A, winner == B], "{terms:?}");
    }
}

/// The question that a node asks at that time.
fn question_of(membership: &mut Membership, now: Nanos) -> Pulse {
    membership.set_now(now);
    membership.handle_timeout();
    let ask = settle(membership).into_iter().find_map(|action| match action {
        Action::Send(_, pulse @ Pulse::Ask { .. }) => Some(pulse),
        _ => None,
    });
    ask.expect("it asks")
}

/// The standstill that B finds when A asks it 3 s after an answer, while B's clock moves on by this time. Meanwhile,
/// the pulses have ended, and A has greeted again as this process, if there is one.
fn found_after(moved: Nanos, greeted_again: Option<u64>) -> Option<Nanos> {
    let (mut a, mut b) = (membership(A, 1, both()), membership(B, 1, both()));
    settle(&mut a);
    settle(&mut b);
    a.handle_pulse(B, hello(B, 1));
    b.handle_pulse(A, hello(A, 1));
    b.set_now(at(5000));
    b.handle_pulse(A, question_of(&mut a, at(200)));
    let answer = settle(&mut b).into_iter().find_map(|action| match action {
        Action::Send(_, pulse @ Pulse::Grant { .. }) => Some(pulse),
        _ => None,
    });
    a.set_now(at(210));
    a.handle_pulse(B, answer.expect("it answers"));
    settle(&mut a);
    b.set_now(at(5000).plus(moved));
    if let Some(run) = greeted_again {
        a.handle_pulse_end(B, false);
        b.handle_pulse_end(A, false);
        a.handle_pulse(B, hello(B, 1));
        b.handle_pulse(A, Pulse::Hello { run, slices: vec![slice(A, 1)], ahead: Vec::new() });
        settle(&mut b);
    }
    let question = question_of(&mut a, at(3210));
    let find = |b: &mut Membership, question| {
        b.handle_pulse(A, question);
        settle(b).into_iter().find_map(|action| match action {
            Action::EndHosts(from, lost) => Some((from, lost)),
            _ => None,
        })
    };
    let found = find(&mut b, question.clone());
    assert_eq!(find(&mut b, question), None, "it is found once");
    found.map(|(from, lost)| {
        assert_eq!(from, A);
        lost
    })
}

#[test]
fn a_partner_shows_a_node_that_its_clock_stood_still() {
    let (none, all) = (Nanos(0), Some(Nanos::from_secs(3)));
    assert_eq!(found_after(none, None), all);
    assert_eq!(found_after(Nanos::from_millis(2400), None), Some(Nanos::from_millis(600)));
    // Less is the difference of two clocks, and messages take time.
    for moved in [2440, 3000, 10_000] {
        assert_eq!(found_after(Nanos::from_millis(moved), None), None, "{moved}");
    }
    // The pulses have ended meanwhile. Another process has not heard the answer.
    assert_eq!(found_after(none, Some(1)), all);
    assert_eq!(found_after(none, Some(2)), None);
}

#[test]
fn what_a_partner_waited_for_before_it_greeted_proves_nothing() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    let heard = Some(Heard { sequence: 1, ago_ms: 60_000 });
    b.handle_pulse(A, Pulse::Ask { sequence: 2, questions: Vec::new(), heard });
    assert!(!settle(&mut b).iter().any(|action| matches!(action, Action::EndHosts(..))));
}

#[test]
fn a_node_with_a_core_that_does_not_turn_neither_asks_for_leases_nor_drops_the_other_replica() {
    let mut a = membership(A, 1, both());
    settle(&mut a);
    a.handle_pulse(B, hello(B, 1));
    settle(&mut a);
    a.set_stalled(true);
    a.set_now(at(5000));
    a.handle_timeout();
    let questions = vec![];
    assert_eq!(
        settle(&mut a),
        [Action::Send(B, Pulse::Ask { sequence: 1, questions, heard: None })]
    );
    a.set_stalled(false);
    a.handle_timeout();
    assert!(read(&settle(&mut a)).is_some(), "it has lost its lease");
}

#[test]
fn a_node_with_a_core_that_does_not_turn_neither_gives_leases_nor_takes_over() {
    let mut b = membership(B, 1, both());
    settle(&mut b);
    b.handle_pulse(A, hello(A, 1));
    b.set_stalled(true);
    let question = Question { mirror: KEY, term: Term(1), session: 0 };
    b.handle_pulse(A, Pulse::Ask { sequence: 1, questions: vec![question], heard: None });
    let grant = Pulse::Grant { sequence: 1, mirrors: vec![] };
    assert_eq!(settle(&mut b), [Action::Send(A, grant)]);
    b.set_now(at(5000));
    b.handle_timeout();
    assert_eq!(read(&settle(&mut b)), None);
    b.set_stalled(false);
    b.handle_timeout();
    assert!(read(&settle(&mut b)).is_some());
}
