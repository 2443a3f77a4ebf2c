//! Sessions that want buffers for payload, next to requests that want them.

use super::*;
use crate::{Grant, PAGE_LEN, Want};
use nearflash_request::Due;

const PAGE: ByteLen = ByteLen(PAGE_LEN as u64);
const SHORT: ByteLen = ByteLen(16 << 10);
const LONG: ByteLen = ByteLen(MIB / 2);

impl Node {
    fn open(&mut self, host: &str) -> AccountId {
        self.engines[0].accounts().open(Some(host))
    }

    fn take(&mut self, account: AccountId, due: Due, len: ByteLen) -> Option<BufferId> {
        self.engines[0].take_for_payload(account, due, len, &mut self.pools[0])
    }

    /// A want that waits. Each connection is its account.
    fn want(&mut self, account: AccountId, due: Due, len: ByteLen, may_give_way: bool) {
        assert_eq!(self.take(account, due, len), None);
        let asker =
            Asker { owner: owner(account), account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        self.engines[0].want(asker, Want { len, due, volume: None, may_give_way });
    }

    fn grants(&mut self) -> Vec<Grant> {
        self.engines[0].resume(&mut self.pools[0]);
        std::iter::from_fn(|| self.engines[0].poll_grant()).collect()
    }

    fn give_back(&mut self, account: AccountId, buffer: BufferId) {
        let len = self.pools[0].len_of(buffer);
        self.engines[0].accounts().give_back(account, len);
        self.pools[0].give_back(buffer);
    }

    /// Every page of the pool, each of a connection of its own.
    fn fill(&mut self) -> Vec<(AccountId, BufferId)> {
        let mut held = Vec::new();
        loop {
            let account = self.engines[0].accounts().open(None);
            let Some(buffer) = self.take(account, Due::Next, PAGE) else { return held };
            held.push((account, buffer));
        }
    }
}

fn owner(account: AccountId) -> Owner {
    Owner(account.0 as u64)
}

#[test]
fn a_long_want_is_met_while_short_reads_take_what_comes_back() {
    let mut node = Node::new(1, 1);
    (0..400).for_each(|tag| node.submit(0, tag, (0, 8), Operation::Read));
    node.run();
    let account = node.open("long");
    node.want(account, Due::Later, LONG, false);
    for tag in 400..2_000 {
        let answered = node.dice.below(node.answers.len());
        let (_, answer) = node.answers.swap_remove(answered);
        let Payload::Buffer(buffer) = answer.completion.payload else { panic!("a read failed") };
        node.pools[0].give_back(buffer);
        if let [grant] = node.grants()[..] {
            assert_eq!(node.pools[0].len_of(grant.buffer.unwrap()), LONG);
            assert_eq!(node.engines[0].accounts().held(account), LONG);
            return;
        }
        node.submit(0, tag, (0, 8), Operation::Read);
        node.run();
    }
    panic!("it never had room");
}

#[test]
fn who_comes_later_takes_nothing_that_another_one_waits_for() {
    let mut node = Node::new(1, 1);
    let held = node.fill();
    let (first, second) = (node.open("first"), node.open("second"));
    node.want(first, Due::Next, PAGE, false);
    let (account, buffer) = held[0];
    node.give_back(account, buffer);
    node.want(second, Due::Next, PAGE, false);
    let owners: Vec<Owner> = node.grants().iter().map(|grant| grant.owner).collect();
    assert_eq!(owners, [owner(first)]);
    let (account, buffer) = held[1];
    node.give_back(account, buffer);
    let owners: Vec<Owner> = node.grants().iter().map(|grant| grant.owner).collect();
    assert_eq!(owners, [owner(second)]);
}

/// The rest of the pool is for what is next in streams, which needs it when nothing of its connection
/// comes back without it.
#[test]
fn what_is_next_in_a_stream_takes_the_last_pages_once_its_connection_has_nothing_under_way() {
    let mut node = Node::new(1, 1);
    let held = node.fill();
    let (other, account) = (node.open("other"), node.open("host"));
    node.want(other, Due::Later, PAGE, false);
    let (_, payload) = held[0];
    node.ask_as(account, 1, Operation::Write { payload, force_unit_access: false });
    node.want(account, Due::Next, PAGE, false);
    let (_, last) = held[1];
    node.give_back(held[1].0, last);
    assert!(node.grants().is_empty(), "its write is under way");
    node.run();
    assert_eq!(node.answers.len(), 1);
    node.engines[0].accounts().end_payload(account);
    let owners: Vec<Owner> = node.grants().iter().map(|grant| grant.owner).collect();
    assert_eq!(owners, [owner(account)], "what comes later leaves the last pages");
}

#[test]
fn a_session_that_may_give_way_is_asked_when_there_is_no_room() {
    let mut node = Node::new(1, 1);
    let held = node.fill();
    let account = node.open("host");
    node.want(account, Due::Next, PAGE, true);
    let [grant] = node.grants()[..] else { panic!("it is asked once") };
    assert!(grant.buffer.is_none() && grant.owner == owner(account));
    node.want(account, Due::Next, PAGE, false);
    assert!(node.grants().is_empty(), "it waits");
    node.give_back(held[0].0, held[0].1);
    assert!(node.grants()[0].buffer.is_some());
}

#[test]
fn what_is_withdrawn_is_given_back_and_charged_to_nobody() {
    let mut node = Node::new(1, 1);
    let held = node.fill();
    let account = node.open("host");
    node.want(account, Due::Next, PAGE, false);
    node.want(account, Due::Later, SHORT, false);
    for (account, buffer) in held {
        node.give_back(account, buffer);
    }
    node.engines[0].resume(&mut node.pools[0]);
    assert_eq!(node.engines[0].accounts().held(account), ByteLen(PAGE.0 + SHORT.0));
    node.engines[0].withdraw(owner(account), &mut node.pools[0]);
    assert!(node.grants().is_empty());
    assert_eq!(node.engines[0].accounts().held(account), ByteLen(0));
    node.want_nothing();
}

impl Node {
    /// Nothing waits: a buffer is there at once.
    fn want_nothing(&mut self) {
        let account = self.open("nobody");
        let buffer = self.take(account, Due::Later, PAGE).unwrap();
        self.give_back(account, buffer);
        self.assert_all_returned();
    }
}
