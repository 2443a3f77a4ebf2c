//! The direct client over real sockets, against a scripted node.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, reason = "small constants")]

use crate::fake_node;

use std::collections::HashSet;
use std::time::Duration;

use fake_node::{FakeNode, KEY, SECRET, Script, VOLUME, VOLUME_LEN};
use nearflash::direct::{
    Buffer, Client, Completion, Credentials, Error, Lost, Options, QueueOptions, QueuePair, Status,
    Token,
};

fn options() -> Options {
    Options::default()
        .silence_max(Duration::from_secs(5))
        .reconnect_max(Duration::from_secs(5))
        .spin_max(Duration::from_micros(20))
}

fn client(node: &FakeNode) -> Client {
    Client::connect_with(&node.url, Credentials::NONE, options()).unwrap()
}

fn pair(node: &FakeNode) -> QueuePair {
    client(node).queue_pair(VOLUME, QueueOptions::default()).unwrap()
}

/// Bytes that encode their offset.
fn pattern(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

fn fill(node: &FakeNode) {
    node.bytes().copy_from_slice(&pattern(0, VOLUME_LEN));
}

/// Polls until no operation is in flight.
fn finish(pair: &mut QueuePair) -> Vec<Completion> {
    let mut done = Vec::new();
    while pair.in_flight() > 0 {
        if pair.poll(&mut done).unwrap() == 0 {
            pair.wait(Duration::from_secs(5)).unwrap();
        }
    }
    done
}

#[test]
fn connecting_tells_what_the_volume_is() {
    let node = FakeNode::start(&[Script::default()]);
    let client = client(&node);
    assert_eq!(client.volume_name(), Some(VOLUME));
    let volume = client.open_named().unwrap();
    assert_eq!((volume.len(), volume.block_size()), (VOLUME_LEN as u64, 4096));
    let info = volume.info();
    assert!(info.is_readable && info.is_writable);
}

#[test]
fn what_is_written_is_read_at_any_place_and_length() {
    for digest in ["", "?digest=header", "?digest=data", "?digest=header,data"] {
        let node = FakeNode::start(&[Script::default()]);
        let url = format!("{}{digest}", node.url);
        let client = Client::connect_with(&url, Credentials::NONE, options()).unwrap();
        let volume = client.open(VOLUME).unwrap();
        for (offset, len) in [(0, 1), (4095, 2), (8192, 4096), (1 << 20, 777), (5, 10 << 20)] {
            let bytes = pattern(offset, len);
            volume.write_at(&bytes, offset as u64).unwrap();
            let mut read = vec![0xA5; len];
            volume.read_at(&mut read, offset as u64).unwrap();
            assert!(read == bytes, "{len} bytes at {offset}{digest}");
            assert!(node.bytes()[offset..offset + len] == bytes, "{len} bytes at {offset}{digest}");
        }
    }
}

#[test]
fn reads_land_in_their_buffers_however_they_are_ordered() {
    for swaps in [false, true] {
        let node = FakeNode::start(&[Script { swaps, ..Script::default() }]);
        fill(&node);
        let mut pair = pair(&node);
        let mut places = vec![(0, 0); pair.depth() as usize];
        for round in 0..8 {
            for number in 0..48 {
                let len = [1, 512, 4096, 70_000, 1 << 20][(number + round) % 5];
                let offset = (number * 65_537 + round) % (VOLUME_LEN - len);
                let buffer = Buffer::from(vec![0xA5; len]);
                let token = pair.post_read_at(buffer, offset as u64).unwrap();
                places[token.index()] = (offset, len);
            }
            for done in finish(&mut pair) {
                let (offset, len) = places[done.token.index()];
                done.result.unwrap();
                assert!(*done.buffer.unwrap() == pattern(offset, len), "{len} at {offset}");
            }
        }
    }
}

#[test]
fn completions_taken_in_parts_all_come_and_none_is_slept_over() {
    let node = FakeNode::start(&[Script::default()]);
    fill(&node);
    let mut pair = pair(&node);
    let posted: HashSet<Token> = (0..32)
        .map(|at| pair.post_read_at(Buffer::from(vec![0; 512]), at * 512).unwrap())
        .collect();
    let (mut ended, mut part) = (HashSet::new(), Vec::new());
    while pair.in_flight() > 0 {
        let count = pair.poll_up_to(&mut part, 5).unwrap();
        assert!(count == part.len() && count <= 5, "{count} at once");
        ended.extend(part.drain(..).map(|done| (done.result.unwrap(), done.token).1));
        if count == 5 {
            assert!(pair.wait(Duration::from_secs(5)).unwrap(), "there may be more already");
        } else if count == 0 {
            pair.wait(Duration::from_secs(5)).unwrap();
        }
    }
    assert_eq!(ended, posted);
}

#[test]
fn atomic_operations_give_the_word_that_was_there() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = client(&node).open(VOLUME).unwrap();
    assert_eq!(volume.fetch_add(4096, 5).unwrap(), 0);
    assert_eq!(volume.fetch_add(4096, u64::MAX).unwrap(), 5);
    assert_eq!(volume.compare_and_swap(4096, 3, 9).unwrap(), 4, "another word: not put");
    assert_eq!(volume.compare_and_swap(4096, 4, 9).unwrap(), 4);
    assert_eq!(node.bytes()[4096..4104], 9u64.to_le_bytes());
    let error = volume.fetch_add(4097, 1).unwrap_err();
    assert_eq!(error.status(), Some(Status::INVALID_FIELD));
}

#[test]
fn flushes_and_discards_reach_the_node() {
    let node = FakeNode::start(&[Script::default()]);
    fill(&node);
    let volume = client(&node).open(VOLUME).unwrap();
    volume.flush().unwrap();
    assert_eq!(node.flushes(), 1);
    volume.discard(4096, 10 << 20).unwrap();
    assert!(node.bytes()[4096..4096 + (10 << 20)].iter().all(|byte| *byte == 0));
    assert_eq!(node.bytes()[..4096], pattern(0, 4096));
}

#[test]
fn a_refused_operation_keeps_its_status_and_the_queue_works_on() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    for (offset, expected) in [(VOLUME_LEN as u64, Err(Status::OUT_OF_RANGE)), (0, Ok(()))] {
        pair.post_read_at(Buffer::new(4096), offset).unwrap();
        let done = finish(&mut pair).remove(0);
        let result = done.result.map(|_| ()).map_err(|error| error.status().unwrap());
        assert_eq!(result, expected);
        assert_eq!(done.buffer.unwrap().len(), 4096, "the buffer is the caller's again");
    }
}

#[test]
fn a_full_queue_refuses_and_takes_again_after_a_completion() {
    let node = FakeNode::start(&[Script { credits: Some(8), ..Script::default() }]);
    let mut pair = pair(&node);
    assert_eq!(pair.depth(), 8);
    let mut taken = 0;
    let refused = loop {
        match pair.post_write_at(Buffer::from(&b"flash"[..]), taken * 4096) {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(taken, 8);
    assert!(matches!(refused.error, Error::QueueFull { depth: 8 }), "{refused}");
    assert_eq!(*refused.buffer, *b"flash");
    assert_eq!(finish(&mut pair).len(), 8);
    pair.post_write_at(refused.buffer, 0).unwrap();
    assert_eq!(finish(&mut pair).len(), 1);
}

#[test]
fn tokens_index_the_same_table_over_every_connection() {
    // The second connection is the queue pair's; the third may have more operations in flight.
    let first = Script { credits: Some(4), closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), first, Script::default()]);
    let mut pair = pair(&node);
    let depth = pair.depth();
    assert_eq!(depth, 4);
    pair.post_flush().unwrap();
    finish(&mut pair);
    pair.reconnect().unwrap();
    while let Ok(token) = pair.post_flush() {
        assert!(token.index() < depth as usize);
    }
    assert_eq!(finish(&mut pair).len(), 4);
}

#[test]
fn a_length_that_no_operation_has_is_refused_with_its_buffer() {
    let node = FakeNode::start(&[Script::default()]);
    let mut pair = pair(&node);
    for len in [0, (8 << 20) + 1] {
        let refused = pair.post_write_at(Buffer::new(len), 0).unwrap_err();
        assert!(matches!(refused.error, Error::Length { .. }), "{refused}");
        assert_eq!(refused.buffer.len(), len);
    }
    assert_eq!(pair.in_flight(), 0);
}

#[test]
fn a_changed_layout_is_learned_and_nobody_notices() {
    let node = FakeNode::start(&[Script::default()]);
    fill(&node);
    let mut pair = pair(&node);
    let epoch = pair.info().epoch;
    let mut buffer = Buffer::new(4096);
    for round in 0..20 {
        node.next_epoch();
        let mut tokens = vec![pair.post_read_at(buffer, round * 4096).unwrap()];
        tokens.extend((0..10).map(|_| pair.post_fetch_add(1 << 20, 1).unwrap()));
        let mut done = finish(&mut pair);
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
        let read = done.iter().position(|done| done.token == tokens[0]).unwrap();
        buffer = done.remove(read).buffer.unwrap();
        assert_eq!(*buffer, pattern(round as usize * 4096, 4096));
    }
    assert!(pair.info().epoch > epoch);
    let word = u64::from_le_bytes(pattern(1 << 20, 8).try_into().unwrap());
    assert_eq!(node.bytes()[1 << 20..][..8], word.wrapping_add(200).to_le_bytes());
}

#[test]
fn another_volume_of_the_same_name_is_not_taken_for_the_first() {
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, Script::default()]);
    let mut pair = pair(&node);
    node.replace_volume();
    let posted = pair.post_read_at(Buffer::new(1), 0);
    let done = finish(&mut pair).remove(0);
    assert_eq!(done.token, posted.unwrap());
    assert_eq!(done.result.unwrap_err().status(), Some(Status::NO_SUCH_VOLUME));
    let error = pair.reconnect().unwrap_err();
    assert_eq!(error.status(), Some(Status::NO_SUCH_VOLUME));
}

#[test]
fn a_lost_connection_tells_of_each_operation_whether_it_may_have_happened() {
    // The first connection is the test connection of `Client::connect`.
    let closing = Script { closes_at: Some(2), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, Script::default()]);
    let mut pair = pair(&node);
    let mut posted: Vec<Token> = (0..4)
        .map(|number| pair.post_write_at(Buffer::from(vec![1; 512]), number * 4096).unwrap())
        .collect();
    posted.push(pair.post_read_at(Buffer::new(512), 0).unwrap());
    let mut done = finish(&mut pair);
    done.sort_unstable_by_key(|done| done.token);
    let tokens: Vec<Token> = done.iter().map(|done| done.token).collect();
    assert_eq!(tokens, posted, "each ends once");
    for (number, Completion { result, buffer, .. }) in done.into_iter().enumerate() {
        match (number, result) {
            // Each was answered before the connection was lost, or not.
            (0 | 1, Ok(0)) | (0..4, Err(Error::Unknown(_))) => {}
            (4, Err(Error::ConnectionLost(_))) => {}
            (_, result) => panic!("operation {number}: {result:?}"),
        }
        assert_eq!(buffer.unwrap().len(), 512, "the buffer is the caller's again");
    }
    assert!(pair.is_lost());
    assert!(pair.poll(&mut Vec::new()).is_err() && pair.wait(Duration::ZERO).is_err());
    let refused = pair.post_read_at(Buffer::new(1), 0).unwrap_err();
    assert!(matches!(refused.error, Error::ConnectionLost(_)), "{refused}");
    pair.reconnect().unwrap();
    let token = pair.post_read_at(Buffer::new(512), 0).unwrap();
    assert!(!posted.contains(&token));
    assert!(finish(&mut pair).remove(0).result.is_ok());
}

#[test]
fn blocking_reads_survive_lost_connections_and_writes_are_never_repeated() {
    let closing = |at| Script { closes_at: Some(at), ..Script::default() };
    let scripts = [Script::default(), closing(0), closing(3), closing(1), Script::default()];
    let node = FakeNode::start(&scripts);
    fill(&node);
    let volume = client(&node).open(VOLUME).unwrap();
    let mut read = vec![0; 5 << 20];
    volume.read_at(&mut read, 77).unwrap();
    assert!(read == pattern(77, 5 << 20));
    let node = FakeNode::start(&[Script::default(), closing(0), Script::default()]);
    let volume = client(&node).open(VOLUME).unwrap();
    let error = volume.fetch_add(0, 1).unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert_eq!(volume.fetch_add(0, 1).unwrap(), 1, "it had happened, once");
}

#[test]
fn a_silent_node_is_given_up_on_within_the_stated_time() {
    let silent = Script { silent_at: Some(1), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), silent]);
    let options = options().silence_max(Duration::from_millis(60));
    let client = Client::connect_with(&node.url, Credentials::NONE, options).unwrap();
    let mut pair = client.queue_pair(VOLUME, QueueOptions::default()).unwrap();
    pair.post_flush().unwrap();
    assert!(finish(&mut pair).remove(0).result.is_ok());
    pair.post_flush().unwrap();
    pair.post_write_at(Buffer::new(1), 0).unwrap();
    let done = finish(&mut pair);
    let results: Vec<Error> = done.into_iter().map(|done| done.result.unwrap_err()).collect();
    assert!(matches!(results[0], Error::ConnectionLost(Lost::Silent { .. })), "{results:?}");
    assert!(matches!(results[1], Error::Unknown(Lost::Silent { .. })), "{results:?}");
}

#[test]
fn a_node_that_is_gone_ends_a_blocking_call() {
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing]);
    let options = options().reconnect_max(Duration::ZERO);
    let client = Client::connect_with(&node.url, Credentials::NONE, options).unwrap();
    let volume = client.open(VOLUME).unwrap();
    let error = volume.read_at(&mut [0; 4096], 0).unwrap_err();
    assert_eq!(error.name(), "CONNECTION_LOST", "{error}");
}

#[test]
fn a_key_is_proved_and_a_wrong_one_is_told_the_remedy() {
    let node = FakeNode::with_key();
    let connect = |credentials| Client::connect_with(&node.url, credentials, options());
    let client = connect(Credentials::new(KEY, SECRET).unwrap()).unwrap();
    client.open(VOLUME).unwrap().write_at(b"flash", 0).unwrap();
    let wrong = Credentials::new(KEY, &SECRET.replace('0', "1")).unwrap();
    for credentials in [wrong, Credentials::new("other", SECRET).unwrap(), Credentials::NONE] {
        let error = connect(credentials.clone()).map(|_| ()).unwrap_err();
        assert_eq!(error.name(), "AUTHENTICATION_FAILED", "{credentials:?}: {error}");
        assert!(error.to_string().contains("nearflash credential create"), "{error}");
        assert!(!error.is_transient());
    }
}

#[test]
fn a_volume_that_is_not_there_is_named() {
    let node = FakeNode::start(&[Script::default()]);
    let error = client(&node).open("other").map(|_| ()).unwrap_err();
    assert_eq!(error.name(), "NO_SUCH_VOLUME");
    assert!(error.to_string().contains("'other'"), "{error}");
}

#[test]
fn a_door_where_nobody_listens_is_named() {
    for url in ["direct://127.0.0.1:1/data", "direct+local:/nowhere/node.sock/data"] {
        let error = Client::connect(url, Credentials::NONE).map(|_| ()).unwrap_err();
        let place = url.rsplit_once('/').unwrap().0;
        assert!(error.is_transient() && error.to_string().contains(place), "{error}");
    }
}

#[test]
fn a_unix_socket_carries_the_same() {
    let node = FakeNode::start_local("same", Script::default());
    let volume = client(&node).open(VOLUME).unwrap();
    let bytes = pattern(3, 3 << 20);
    volume.write_at(&bytes, 3).unwrap();
    let mut read = vec![0; bytes.len()];
    volume.read_at(&mut read, 3).unwrap();
    assert!(read == bytes);
}

#[test]
fn memory_that_cannot_be_shared_leaves_the_unix_socket() {
    let script = Script { feigns_rings: true, ..Script::default() };
    let node = FakeNode::start_local("feigned", script);
    let mut pair = pair(&node);
    pair.post_write_at(Buffer::from(&b"flash"[..]), 4094).unwrap();
    assert!(finish(&mut pair)[0].result.is_ok());
    assert_eq!(node.bytes()[4094..4099], *b"flash");
}

#[test]
fn threads_share_a_volume_without_disturbing_one_another() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = client(&node).open(VOLUME).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..20u64 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..10u64 {
                    let offset = (thread * 10 + round) * 5000;
                    let bytes = vec![(thread + round) as u8; 5000];
                    volume.write_at(&bytes, offset).unwrap();
                    let mut read = vec![0; 5000];
                    volume.read_at(&mut read, offset).unwrap();
                    assert_eq!(read, bytes);
                    volume.fetch_add(8 << 20, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(node.bytes()[8 << 20..][..8], 200u64.to_le_bytes());
}
