//! Posts of a queue pair with several buffers, of zeroes, and with a time-out, against a scripted
//! node.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
use crate::fake_node;

use std::time::Duration;

use fake_node::{FakeNode, Script, VOLUME, VOLUME_LEN};
use nearflash::direct::{Buffer, Lost};
use nearflash::{Client, Completion, Credentials, Error, Options, QueueOptions, QueuePair};

/// Short, so that tests that wait for it are.
const SOON: Duration = Duration::from_millis(30);
/// Without the time-out of an operation, it would not end before somebody ends the test.
const HOUR: Duration = Duration::from_secs(3600);

fn pair(node: &FakeNode) -> QueuePair {
    let options = Options::default().silence_max(HOUR).reconnect_max(HOUR);
    let client = Client::connect_with(&node.url, Credentials::NONE, options).unwrap();
    client.queue_pair(VOLUME, QueueOptions::default()).unwrap()
}

/// Waits until no operation is in flight. Returns the completions in the order of their posts.
fn finish(pair: &mut QueuePair) -> Vec<Completion> {
    let mut done = Vec::new();
    while pair.in_flight() > 0 {
        if pair.poll(&mut done).unwrap() == 0 {
            pair.wait(HOUR).unwrap();
        }
    }
    done.sort_unstable_by_key(|done| done.token);
    done
}

fn buffers(parts: &[&[u8]]) -> Vec<Buffer> {
    parts.iter().map(|part| Buffer::from(*part)).collect()
}

#[test]
fn the_volume_is_described_as_by_the_other_types() {
    let node = FakeNode::start(&[Script::default()]);
    let pair = pair(&node);
    assert_eq!((pair.name(), pair.len()), (VOLUME, pair.info().len));
    assert_eq!(pair.block_size(), pair.info().block_size);
}

#[test]
fn buffers_are_read_and_written_as_one() {
    for node in
        [FakeNode::start(&[Script::default()]), FakeNode::start_local("parts", Script::default())]
    {
        let mut pair = pair(&node);
        let parts = buffers(&[b"near", b"", b"fla", b"sh"]);
        let token = pair.post_write_vectored_at(parts, 4093).unwrap();
        let done = finish(&mut pair).remove(0);
        assert!(done.result.is_ok() && done.token == token && done.buffer.is_none());
        assert_eq!(done.buffers.iter().map(|it| it.len()).collect::<Vec<_>>(), [4, 0, 3, 2]);
        assert_eq!(&node.bytes()[4093..4102], b"nearflash");

        let places = buffers(&[&[0xA5; 1], &[0xA5; 5], &[], &[0xA5; 3]]);
        pair.post_read_vectored_at(places, 4093).unwrap();
        let done = finish(&mut pair).remove(0);
        let read: Vec<&[u8]> = done.buffers.iter().map(|it| &**it).collect();
        assert!(done.result.is_ok());
        assert_eq!(read, [&b"n"[..], b"earfl", b"", b"ash"]);
    }
}

#[test]
fn a_refused_operation_returns_all_its_buffers() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    let long = usize::try_from(pair.len_max()).unwrap();
    for parts in [vec![], vec![Buffer::new(0)], vec![Buffer::new(long), Buffer::new(1)]] {
        let lens = |parts: &[Buffer]| parts.iter().map(|it| it.len()).collect::<Vec<_>>();
        let posted = lens(&parts);
        let refused = pair.post_read_vectored_at(parts, 0).unwrap_err();
        assert!(matches!(refused.error, Error::Length { .. }), "{refused}");
        assert_eq!(lens(&refused.buffer), posted);
        let refused = pair.post_write_vectored_at(refused.buffer, 0).unwrap_err();
        assert!(matches!(refused.error, Error::Length { .. }), "{refused}");
        assert_eq!(lens(&refused.buffer), posted);
    }
    let end = pair.len();
    pair.post_read_vectored_at(buffers(&[b"kept", b"too"]), end).unwrap();
    let done = finish(&mut pair).remove(0);
    assert_eq!(done.result.unwrap_err().name(), "OUT_OF_RANGE");
    assert_eq!((&*done.buffers[0], &*done.buffers[1]), (&b"kept"[..], &b"too"[..]));
}

#[test]
fn zeroes_replace_exactly_their_range() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    node.bytes().fill(7);
    pair.post_write_zeroes(4001, 10_000).unwrap();
    let done = finish(&mut pair).remove(0);
    assert!(done.result.is_ok() && done.buffer.is_none() && done.buffers.is_empty());
    let mut expected = vec![7; VOLUME_LEN];
    expected[4001..14_001].fill(0);
    assert!(*node.bytes() == expected);
    assert_eq!(node.zeroed(), 0, "parts of blocks are sent");
    for len in [0, u64::from(pair.len_max()) + 1, u64::MAX] {
        let refused = pair.post_write_zeroes(0, len).unwrap_err();
        assert!(matches!(refused, Error::Length { len: of, .. } if of == len), "{refused}");
    }
}

#[test]
fn whole_blocks_of_zeroes_are_sent_only_to_an_old_node() {
    for is_old in [false, true] {
        let node = FakeNode::start(&[Script { is_old, ..Script::default() }]);
        let mut pair = pair(&node);
        node.bytes().fill(7);
        pair.with_timeout(HOUR).post_write_zeroes(4096, 8192).unwrap();
        assert!(finish(&mut pair)[0].result.is_ok());
        let mut expected = vec![7; VOLUME_LEN];
        expected[4096..12_288].fill(0);
        assert!(*node.bytes() == expected);
        assert_eq!(node.zeroed(), u32::from(!is_old));
    }
}

/// A node that answers nothing on the first connection of the queue pair.
fn silent_node() -> FakeNode {
    let silent = Script { silent_at: Some(0), ..Script::default() };
    FakeNode::start(&[Script::default(), silent, Script::default()])
}

#[test]
fn a_late_operation_ends_with_its_connection_and_returns_the_buffers() {
    let node = silent_node();
    let mut pair = pair(&node);
    pair.post_write_at(Buffer::from(&b"flash"[..]), 0).unwrap();
    pair.with_timeout(HOUR).post_flush().unwrap();
    pair.with_timeout(SOON).post_read_at(Buffer::new(4096), 0).unwrap();
    let mut timed = pair.with_timeout(SOON);
    timed.post_write_vectored_at(buffers(&[b"near", b"flash"]), 8192).unwrap();
    timed.post_fetch_add(0, 1).unwrap();
    drop(timed);
    let [write, flush, read, vectored, add] = finish(&mut pair).try_into().unwrap();
    for done in [&flush, &read] {
        let is_meant = matches!(done.result, Err(Error::ConnectionLost(Lost::TimedOut)));
        assert!(is_meant, "{:?}", done.result);
    }
    for done in [&write, &vectored, &add] {
        assert!(matches!(done.result, Err(Error::Unknown(Lost::TimedOut))), "{:?}", done.result);
    }
    assert_eq!(write.buffer.as_deref(), Some(&b"flash"[..]));
    assert_eq!(read.buffer.unwrap().len(), 4096);
    assert_eq!((&*vectored.buffers[0], &*vectored.buffers[1]), (&b"near"[..], &b"flash"[..]));

    assert!(pair.is_lost());
    pair.reconnect().unwrap();
    pair.with_timeout(HOUR).post_write_at(Buffer::from(&b"flash"[..]), 0).unwrap();
    assert!(finish(&mut pair)[0].result.is_ok());
    assert!(node.bytes().starts_with(b"flash"));
}

#[test]
fn an_operation_that_ends_in_time_does_not_end_the_connection_later() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    pair.with_timeout(SOON).post_flush().unwrap();
    // It may be late on a busy machine; then the next round is not.
    while finish(&mut pair)[0].result.is_err() {
        pair.reconnect().unwrap();
        pair.with_timeout(SOON).post_flush().unwrap();
    }
    assert!(!pair.wait(SOON).unwrap(), "nothing is in flight");
    pair.post_flush().unwrap();
    assert!(finish(&mut pair)[0].result.is_ok());
    assert!(!pair.is_lost());
}

#[test]
fn a_post_without_time_is_refused_and_the_connection_remains() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    let mut timed = pair.with_timeout(Duration::ZERO);
    let refused = timed.post_write_at(Buffer::from(&b"flash"[..]), 0).unwrap_err();
    assert!(matches!(refused.error, Error::ConnectionLost(Lost::TimedOut)), "{refused}");
    assert_eq!(*refused.buffer, *b"flash");
    let refused = timed.post_write_vectored_at(buffers(&[b"flash"]), 0).unwrap_err();
    assert_eq!(*refused.buffer[0], *b"flash");
    assert!(timed.post_flush().is_err() && !timed.is_lost());
    drop(timed);
    pair.with_timeout(Duration::MAX).post_write_at(Buffer::from(&b"FLASH"[..]), 5).unwrap();
    assert!(finish(&mut pair)[0].result.is_ok());
    assert!(node.bytes().starts_with(b"\0\0\0\0\0FLASH"));
}

#[test]
fn a_reconnect_ends_when_its_time_is_over() {
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, Script::default()]);
    let mut pair = pair(&node);
    pair.post_flush().unwrap();
    assert!(finish(&mut pair)[0].result.is_err());
    node.set_down(true);
    let error = pair.with_timeout(SOON).reconnect().unwrap_err();
    assert!(matches!(error, Error::ConnectionLost(Lost::TimedOut)), "{error}");
    // The node takes the connection, and says nothing.
    node.hold(true);
    let error = pair.with_timeout(SOON).reconnect().unwrap_err();
    assert!(matches!(error, Error::ConnectionLost(Lost::TimedOut)), "{error}");
    node.set_down(false);
    node.hold(false);
    pair.reconnect().unwrap();
}
