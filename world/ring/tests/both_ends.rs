//! Both ends at once, as two threads, and a client that writes arbitrary bytes.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearflash_ring::{Broken, ClientEnd, ENTRY_LEN, Entry, Geometry, Handover, NodeEnd, Payload};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};

/// Longer than any test may take: a lost wake-up is then a failure, not a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// The opcode and the offsets of these indices, from docs/direct-protocol.md.
const FLUSH: u8 = 0x03;
const SUBMISSION_TAIL_AT: u64 = 128;
const SUBMISSION_HEAD_AT: u64 = 256;

/// A request without payload.
fn entry(number: u32, seed: u8) -> Entry {
    let mut entry = [seed ^ number.to_le_bytes()[0]; ENTRY_LEN];
    entry[0] = FLUSH;
    entry[8..12].copy_from_slice(&number.to_le_bytes());
    entry
}

fn sleep_until_rung(node: &NodeEnd) {
    if node.begin_sleep() {
        let bell = node.bell();
        let mut fds = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        let timeout = PATIENCE.try_into().unwrap();
        assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "the client rang");
        assert!(node.silence_bell());
    }
    node.end_sleep();
}

/// Answers every request with itself, `batch` at a time, until all have come; sleeps when idle.
fn serve(mut node: NodeEnd, count: u32, batch: u32) {
    let (mut served, mut entries) = (0, Vec::new());
    while served < count {
        if node.take(batch, &mut entries).unwrap() == 0 {
            sleep_until_rung(&node);
            continue;
        }
        node.put(&entries).unwrap();
        served += u32::try_from(entries.len()).unwrap();
        entries.clear();
    }
}

/// Posts up to `depth` requests at a time; every answer must be that to the next request.
fn ask(mut client: ClientEnd, socket: &UnixStream, count: u32, batch: u32, seed: u8, depth: u32) {
    let (mut posted, mut answered, mut answers) = (0, 0, Vec::new());
    while answered < count {
        let room = (depth - (posted - answered)).min(batch).min(count - posted);
        for _ in 0..room {
            assert_eq!(client.push(&entry(posted, seed), Payload::None), Ok(true));
            posted += 1;
        }
        client.publish();
        if client.take(batch, &mut answers).unwrap() == 0 {
            assert!(client.wait(socket.as_fd(), false, PATIENCE).unwrap(), "the node rang");
        }
        for answer in answers.drain(..) {
            assert_eq!(answer, entry(answered, seed));
            answered += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any sizes and batches, every request is answered once, in order and unchanged, and no
    /// side sleeps while there is an entry for it.
    #[test]
    fn two_ends_lose_nothing_and_wake_each_other(
        shift in 0u32..8,
        count in 1u32..5_000,
        batches in (1u32..40, 1u32..40),
        seed: u8,
    ) {
        let geometry = Geometry::new(1 << shift, 4096).unwrap();
        let (node, Handover { memory, bell }) = NodeEnd::new(geometry).unwrap();
        let (client, _area) = ClientEnd::new(&memory, bell, geometry).unwrap();
        let (socket, _far_end) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || serve(node, count, batches.0));
        ask(client, &socket, count, batches.1, seed, geometry.entries());
        serving.join().unwrap();
    }
}

#[test]
fn a_closed_socket_ends_a_clients_wait() {
    let geometry = Geometry::new(8, 4096).unwrap();
    let (_node, Handover { memory, bell }) = NodeEnd::new(geometry).unwrap();
    let (mut client, _area) = ClientEnd::new(&memory, bell, geometry).unwrap();
    let (socket, far_end) = UnixStream::pair().unwrap();
    assert!(!client.wait(socket.as_fd(), false, Duration::from_millis(1)).unwrap());
    drop(far_end);
    assert!(client.wait(socket.as_fd(), false, PATIENCE).unwrap());
}

#[test]
fn a_client_that_takes_no_answers_breaks_its_ring_and_makes_nobody_wait() {
    let geometry = Geometry::new(4, 4096).unwrap();
    let (mut node, _handover) = NodeEnd::new(geometry).unwrap();
    let put: Vec<_> = (0..9).map(|number| node.put(&[entry(number, 0)])).collect();
    assert_eq!(put, [vec![Ok(()); 8], vec![Err(Broken)]].concat());
}

/// Writes random bytes over header and rings, and at times a plausible index.
fn scribble(memory: &OwnedFd, len: u64, over: &AtomicBool) {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    while !over.load(Ordering::Relaxed) {
        let (place, word) = (next() % (len - 8), next());
        // Every header word is hit often, and small numbers look like indices.
        let place = if word & 1 == 0 { place % 1024 } else { place };
        let word = if word & 2 == 0 { word % 64 } else { word };
        rustix::io::pwrite(memory, &word.to_le_bytes(), place).unwrap();
        // At times, an index that a client could have written, and that the random bytes then
        // overwrite.
        if word & 12 == 0 {
            let mut head = [0; 4];
            rustix::io::pread(memory, &mut head, SUBMISSION_HEAD_AT).unwrap();
            let tail = u32::from_le_bytes(head).wrapping_add(u32::from(place.to_le_bytes()[0]) % 9);
            rustix::io::pwrite(memory, &tail.to_le_bytes(), SUBMISSION_TAIL_AT).unwrap();
        }
    }
}

#[test]
fn a_scribbling_client_gets_errors_and_the_node_goes_on() {
    let geometry = Geometry::new(8, 4096).unwrap();
    let (mut broken, mut taken) = (0u32, 0u32);
    for _ in 0..200 {
        let (mut node, Handover { memory, bell: _bell }) = NodeEnd::new(geometry).unwrap();
        let len = rustix::fs::fstat(&memory).unwrap().st_size.try_into().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let scribbler = {
            let over = Arc::clone(&over);
            thread::spawn(move || scribble(&memory, len, &over))
        };
        let mut data = [0xA5; 4096];
        for _ in 0..2_000 {
            let mut entries = Vec::new();
            let result = node.take(5, &mut entries);
            assert!(entries.len() <= 5);
            assert_eq!(result.unwrap_or_default(), u32::try_from(entries.len()).unwrap());
            taken += u32::try_from(entries.len()).unwrap();
            let put = node.put(&entries);
            node.copy_out(0, &mut data);
            node.zero(17, 100);
            let _ = node.begin_sleep();
            node.end_sleep();
            node.silence_bell();
            if result.is_err() || put.is_err() {
                broken += 1;
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        scribbler.join().unwrap();
    }
    assert!(broken > 0 && taken > 0, "{broken} broken, {taken} taken: the test did something");
}
