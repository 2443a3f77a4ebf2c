//! The asynchronous volume over real sockets, against a scripted node.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
use crate::fake_node;

use std::io::{IoSlice, IoSliceMut, SeekFrom};
use std::time::Duration;

use fake_node::{FakeNode, Script, VOLUME};
use nearflash::direct::{
    AsyncVolume, Buffer, Client, Credentials, Error, Lost, Options, QueueOptions,
};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

async fn open(node: &FakeNode) -> AsyncVolume {
    open_with(node, Options::default().silence_max(Duration::from_secs(5))).await
}

async fn open_with(node: &FakeNode, options: Options) -> AsyncVolume {
    let url = node.url.clone();
    let connect = move || Client::connect_with(&url, Credentials::NONE, options);
    let client = tokio::task::spawn_blocking(connect).await.unwrap().unwrap();
    let queue_options = QueueOptions::default().depth(16);
    client.open_async(VOLUME, queue_options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_volume() {
    for node in
        [FakeNode::start(&[Script::default()]), FakeNode::start_local("async", Script::default())]
    {
        let volume = open(&node).await;
        // More operations than the queue pair has places.
        let tasks = (0..64u64).map(|task| {
            let volume = volume.clone();
            tokio::spawn(async move {
                let bytes = vec![u8::try_from(task).unwrap(); 5000];
                let offset = task * 5000;
                volume.write_at(&bytes[..], offset).await.unwrap();
                assert_eq!(*volume.read_at(Buffer::new(5000), offset).await.unwrap(), *bytes);
                volume.fetch_add(8 << 20, 1).await.unwrap();
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        volume.flush().await.unwrap();
        assert_eq!(node.flushes(), 1);
        assert_eq!(volume.compare_and_swap(8 << 20, 64, 0).await.unwrap(), 64);
    }
}

#[tokio::test]
async fn a_dropped_future_leaves_its_buffer_with_the_node_and_the_volume_works_on() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node).await;
    for round in 0..200u64 {
        let write = volume.write_at(&[7u8; 4096][..], round * 4096);
        // Posted, and dropped before or after the answer.
        let dropped = tokio::time::timeout(Duration::from_micros(round), write).await;
        drop(dropped);
    }
    let read = volume.read_at(Buffer::new(1 << 20), 0).await.unwrap();
    assert!(read.chunks(4096).all(|block| block == [0; 4096] || block == [7; 4096]));
    assert!(read.chunks(4096).any(|block| block == [7; 4096]));
}

#[tokio::test]
async fn reads_survive_a_lost_connection_and_writes_are_never_repeated() {
    let closing = Script { closes_at: Some(1), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, closing, Script::default()]);
    let volume = open(&node).await;
    volume.write_at(&b"flash"[..], 0).await.unwrap();
    assert_eq!(
        *volume.read_at(Buffer::new(5), 0).await.unwrap(),
        *b"flash",
        "the second request: lost, repeated"
    );
    let error: Error = volume.fetch_add(4096, 1).await.unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert_eq!(*volume.read_at(Buffer::new(5), 0).await.unwrap(), *b"flash");
    assert_eq!(volume.fetch_add(4096, 1).await.unwrap(), 1, "it had happened, once");
}

/// A volume that tries only once to reconnect, and its node. The node has gone, and the volume has
/// noticed. The number of attempts that this took is not fixed: the volume may have made one by
/// itself, before the call that it refused.
async fn after_an_outage() -> (FakeNode, AsyncVolume) {
    let impatient =
        Options::default().silence_max(Duration::from_secs(5)).reconnect_max(Duration::ZERO);
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, Script::default()]);
    let volume = open_with(&node, impatient).await;
    node.set_down(true);
    let error = volume.read_at(Buffer::new(5), 0).await.unwrap_err().error;
    assert!(matches!(error, Error::ConnectionLost(_)), "lost, and given up: {error}");
    (node, volume)
}

#[tokio::test]
async fn after_a_long_outage_each_call_tries_again_until_the_node_is_back() {
    let (node, volume) = after_an_outage().await;
    let before = node.connections();
    let refused = volume.write_at(&b"flash"[..], 0).await.unwrap_err();
    assert!(matches!(refused.error, Error::ConnectionLost(_)), "{}", refused.error);
    assert_eq!(node.connections(), before + 1, "tried once");
    assert_eq!(*refused.buffer, *b"flash", "the buffer is returned");
    node.set_down(false);
    volume.write_at(refused.buffer, 0).await.unwrap();
    assert_eq!(*volume.read_at(Buffer::new(5), 0).await.unwrap(), *b"flash");
}

#[tokio::test]
async fn calls_of_all_clones_wait_for_one_attempt() {
    let (node, volume) = after_an_outage().await;
    let before = node.connections();
    // The attempt does not end before all calls are there.
    node.hold(true);
    let clones: [AsyncVolume; 8] = std::array::from_fn(|_| volume.clone());
    let flushes = clones.map(|volume| tokio::spawn(async move { volume.flush().await }));
    tokio::task::yield_now().await;
    node.hold(false);
    for flush in flushes {
        assert!(matches!(flush.await.unwrap(), Err(Error::ConnectionLost(_))));
    }
    assert_eq!(node.connections(), before + 1);
    node.set_down(false);
    volume.flush().await.unwrap();
}

#[tokio::test]
async fn a_refused_operation_gives_its_buffer_back() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node).await;
    let refused = volume.read_at(Buffer::new(64), volume.len()).await.unwrap_err();
    assert_eq!((refused.error.name(), refused.buffer.len()), ("OUT_OF_RANGE", 64));
    let refused = volume.write_at(Buffer::new(0), 0).await.unwrap_err();
    assert_eq!(refused.error.name(), "INVALID_LENGTH");
}

#[tokio::test]
async fn calls_longer_than_one_operation_are_cut() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node).await;
    let len = usize::try_from(volume.len_max()).unwrap() + 5000;
    let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
    let written = volume.write_at(&bytes[..], 77).await.unwrap();
    assert!(*written == *bytes && node.bytes()[77..][..len] == *bytes);
    assert!(*volume.read_at(Buffer::new(len), 77).await.unwrap() == *bytes);
    let refused = volume.read_at(Buffer::new(len), volume.len() - 1).await.unwrap_err();
    assert_eq!((refused.error.name(), refused.buffer.len()), ("OUT_OF_RANGE", len));
    volume.discard(0, volume.len()).await.unwrap();
    assert!(node.bytes().iter().all(|byte| *byte == 0));
    assert_eq!(volume.discard(4096, volume.len()).await.unwrap_err().name(), "OUT_OF_RANGE");
    assert_eq!(volume.depth(), 16);
}

#[tokio::test]
async fn slices_and_zeroes_are_written_as_a_whole() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node).await;
    volume.write_vectored_at(&[IoSlice::new(b"fla"), IoSlice::new(b"sh")], 10).await.unwrap();
    let (mut a, mut b) = ([0; 4], [0; 1]);
    let mut places = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    volume.read_vectored_at(&mut places, 10).await.unwrap();
    assert_eq!((&a, &b), (b"flas", b"h"));
    volume.write_durable_at(&b"flash"[..], 0).await.unwrap();
    assert_eq!((&node.bytes()[..5], node.durable_writes()), (&b"flash"[..], 1));
    node.bytes().fill(7);
    volume.write_zeroes(77, 3 << 20).await.unwrap();
    assert_eq!(node.zeroed(), 1, "whole blocks are not sent");
    let bytes = node.bytes();
    assert!(bytes[..77].iter().chain(&bytes[77 + (3 << 20)..]).all(|byte| *byte == 7));
    assert!(bytes[77..][..3 << 20].iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn a_cursor_reads_and_writes_like_a_file() {
    let node = FakeNode::start(&[Script::default()]);
    let mut cursor = open(&node).await.cursor();
    let bytes: Vec<u8> = (0..=250).cycle().take(300_000).collect();
    cursor.seek(SeekFrom::Start(77)).await.unwrap();
    assert_eq!(tokio::io::copy(&mut &bytes[..], &mut cursor).await.unwrap(), 300_000);
    cursor.flush().await.unwrap();
    assert_eq!(node.flushes(), 2, "copying flushes, too");
    assert!(node.bytes()[77..][..bytes.len()] == bytes);
    assert_eq!(cursor.seek(SeekFrom::Current(-299_000)).await.unwrap(), 1077);
    let mut read = vec![0; 299_000];
    cursor.read_exact(&mut read).await.unwrap();
    assert!(read == bytes[1000..]);

    cursor.seek(SeekFrom::End(-4)).await.unwrap();
    assert_eq!(cursor.write(b"flash").await.unwrap(), 4);
    let full = cursor.write(b"h").await.unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(cursor.read(&mut [0; 4]).await.unwrap(), 0);
    assert!(cursor.seek(SeekFrom::Current(i64::MIN)).await.is_err());
    cursor.shutdown().await.unwrap();
}

/// Short, so that tests that wait for it are.
const SOON: Duration = Duration::from_millis(30);

#[tokio::test]
async fn a_call_ends_when_its_time_is_over_and_the_next_call_works() {
    let silent = Script { silent_at: Some(0), ..Script::default() };
    let options = Options::default().silence_max(Duration::from_millis(300));
    let node = FakeNode::start(&[Script::default(), silent, Script::default()]);
    let volume = open_with(&node, options).await;
    let late = volume.with_timeout(SOON).read_at(Buffer::from(&b"a"[..]), 0).await.unwrap_err();
    assert!(matches!(late.error, Error::ConnectionLost(Lost::TimedOut)), "{late}");
    assert_eq!(*late.buffer, *b"a");
    volume.read_at(late.buffer, 0).await.unwrap();

    let node = FakeNode::start(&[Script::default(), silent, Script::default()]);
    let volume = open_with(&node, options).await;
    let late = volume.with_timeout(SOON).write_at(&b"flash"[..], 0).await.unwrap_err();
    assert!(matches!(late.error, Error::Unknown(Lost::TimedOut)), "{late}");
    assert_eq!(*late.buffer, *b"flash");
    volume.with_timeout(Duration::from_secs(30)).write_at(late.buffer, 0).await.unwrap();
    assert!(node.bytes().starts_with(b"flash"));
}

/// A node whose first request of the volume waits until the node holds nothing any more.
fn late_node() -> FakeNode {
    let late = Script { late_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), late, Script::default()]);
    node.hold(true);
    node
}

#[tokio::test]
async fn the_next_call_waits_for_a_late_write_and_other_calls_are_not_disturbed() {
    let node = late_node();
    let volume = open(&node).await;
    let before = node.connections();
    let timed = volume.with_timeout(SOON);
    let late = timed.write_at(&b"flash"[..], 0).await.unwrap_err();
    assert!(matches!(late.error, Error::Unknown(Lost::TimedOut)), "{late}");
    let error = timed.flush().await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLost(Lost::TimedOut)), "it has not begun: {error}");
    assert_eq!(node.flushes(), 0);
    let read = tokio::spawn(async move { volume.read_at(Buffer::new(5), 0).await });
    tokio::task::yield_now().await;
    assert!(!read.is_finished());
    node.hold(false);
    assert_eq!(*read.await.unwrap().unwrap(), *b"flash", "the late write came first");
    timed.with_timeout(Duration::MAX).flush().await.unwrap();
    assert_eq!(node.connections(), before, "nothing was lost");
}

#[tokio::test]
async fn a_late_read_delays_nobody_and_does_not_touch_the_returned_buffer() {
    let node = late_node();
    node.bytes().fill(7);
    let volume = open(&node).await;
    let late = volume.with_timeout(SOON).read_at(Buffer::new(8192), 0).await.unwrap_err();
    assert!(matches!(late.error, Error::ConnectionLost(Lost::TimedOut)), "{late}");
    let mut mine = late.buffer;
    mine.fill(0xEE);
    volume.write_at(&b"flash"[..], 0).await.unwrap();
    node.hold(false);
    // The answer to the late read precedes one of these.
    while node.is_late() {
        volume.flush().await.unwrap();
    }
    assert_eq!(*volume.read_at(Buffer::new(5), 0).await.unwrap(), *b"flash");
    assert!(mine.iter().all(|byte| *byte == 0xEE));
}

#[tokio::test]
async fn a_call_without_time_changes_nothing() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node).await;
    let late = volume.with_timeout(Duration::ZERO).write_at(&b"flash"[..], 0).await.unwrap_err();
    assert!(matches!(late.error, Error::ConnectionLost(Lost::TimedOut)), "{late}");
    assert_eq!(*late.buffer, *b"flash");
    let mut zeroes = [7; 5];
    volume.read_vectored_at(&mut [IoSliceMut::new(&mut zeroes)], 0).await.unwrap();
    assert_eq!(zeroes, [0; 5]);
}

#[tokio::test]
async fn a_long_write_that_is_late_may_have_changed_the_volume() {
    // A later part of it is late: the first has changed the volume.
    let late = Script { late_at: Some(1), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), late, Script::default()]);
    node.hold(true);
    let volume = open(&node).await;
    let long = vec![7; usize::try_from(volume.len_max()).unwrap() + 4096];
    // Time for the first part, also on a machine that is busy.
    let late = volume.with_timeout(8 * SOON).write_at(long, 0).await.unwrap_err();
    assert!(matches!(late.error, Error::Unknown(Lost::TimedOut)), "{late}");
    assert!(late.buffer.iter().all(|byte| *byte == 7));
    node.hold(false);
    volume.flush().await.unwrap();
}
