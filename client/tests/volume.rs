//! Calls on a volume with several slices, of zeroes, with a time-out, and as on a file, against a
//! scripted node.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
use crate::fake_node;

use std::io::{
    self, BufRead as _, IoSlice, IoSliceMut, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::time::Duration;

use fake_node::{FakeNode, Script, VOLUME, VOLUME_LEN};
use nearflash::direct::Lost;
use nearflash::{Client, Credentials, Error, Options, Volume};

const MIB: usize = 1 << 20;

fn open(node: &FakeNode) -> Volume {
    let options = Options::default().silence_max(Duration::from_secs(5));
    Client::connect_with(&node.url, Credentials::NONE, options).unwrap().open(VOLUME).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn slices_are_read_and_written_as_one() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    let bytes = pattern(3 * MIB);
    let (a, rest) = bytes.split_at(5);
    let (b, c) = rest.split_at(2 * MIB - 3);
    let slices = [IoSlice::new(a), IoSlice::new(&[]), IoSlice::new(b), IoSlice::new(c)];
    volume.write_vectored_at(&slices, 4001).unwrap();
    assert!(node.bytes()[4001..][..bytes.len()] == bytes);

    let mut first = vec![0; MIB + 1];
    let mut second = vec![0; 2 * MIB - 1];
    let mut places = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    volume.read_vectored_at(&mut places, 4001).unwrap();
    assert!([first, second].concat() == bytes);
    volume.write_vectored_at(&[], 0).unwrap();
}

#[test]
fn a_durable_write_is_one_at_the_node() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    volume.write_at(b"near", 0).unwrap();
    assert_eq!(node.durable_writes(), 0);
    volume.write_durable_at(b"flash", 4).unwrap();
    assert_eq!((&node.bytes()[..9], node.durable_writes()), (&b"nearflash"[..], 1));
}

#[test]
fn zeroes_replace_exactly_their_range() {
    for is_old in [false, true] {
        let node = FakeNode::start(&[Script { is_old, ..Script::default() }]);
        let volume = open(&node);
        node.bytes().fill(7);
        volume.write_zeroes(4001, 3 << 20).unwrap();
        let mut expected = vec![7; VOLUME_LEN];
        expected[4001..][..3 * MIB].fill(0);
        assert!(*node.bytes() == expected);
        assert_eq!(node.zeroed(), u32::from(!is_old), "an old node receives all zeroes");
        volume.write_zeroes(5000, 100).unwrap();
        assert_eq!(node.zeroed(), u32::from(!is_old), "part of a block is written");
        assert_eq!(volume.write_zeroes(volume.len(), 1).unwrap_err().name(), "OUT_OF_RANGE");
        let past_the_end = volume.write_zeroes(volume.len(), 4096).unwrap_err();
        assert_eq!(past_the_end.name(), "OUT_OF_RANGE");
        assert!(volume.write_zeroes(0, u64::MAX).is_err());
        assert!(volume.write_zeroes(u64::MAX, u64::MAX).is_err());
    }
}

#[test]
fn a_long_discard_leaves_no_whole_block_out() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    node.bytes().fill(7);
    let (start, end) = (100, VOLUME_LEN - 100);
    volume.discard(start as u64, (end - start) as u64).unwrap();
    let mut expected = vec![7; VOLUME_LEN];
    expected[start.next_multiple_of(4096)..end / 4096 * 4096].fill(0);
    assert!(*node.bytes() == expected);
}

/// A node that answers nothing on the first connection of the volume, and everything on later ones.
fn silent_node() -> FakeNode {
    let silent = Script { silent_at: Some(0), ..Script::default() };
    FakeNode::start(&[Script::default(), silent, Script::default()])
}

#[test]
fn a_call_ends_when_its_time_is_over_and_the_next_call_works() {
    let node = silent_node();
    let volume = open(&node);
    let error = volume.with_timeout(Duration::from_millis(30)).read_at(&mut [0; 10], 0);
    assert!(matches!(error, Err(Error::ConnectionLost(Lost::TimedOut))), "{error:?}");
    volume.write_at(b"flash", 0).unwrap();

    let node = silent_node();
    let volume = open(&node);
    let error = volume.with_timeout(Duration::from_millis(30)).write_at(b"flash", 0);
    assert!(matches!(error, Err(Error::Unknown(Lost::TimedOut))), "{error:?}");
    volume.with_timeout(Duration::from_secs(30)).write_at(b"flash", 0).unwrap();
    assert!(node.bytes().starts_with(b"flash"));
}

#[test]
fn a_call_without_time_changes_nothing_and_keeps_the_connection() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    let before = node.connections();
    let error = volume.with_timeout(Duration::ZERO).write_at(b"flash", 0);
    assert!(matches!(error, Err(Error::ConnectionLost(Lost::TimedOut))), "{error:?}");
    volume.with_timeout(Duration::MAX).write_at(b"FLASH", 5).unwrap();
    assert!(node.bytes().starts_with(b"\0\0\0\0\0FLASH"));
    assert_eq!(node.connections(), before);
}

#[test]
fn a_call_does_not_wait_longer_for_a_node_that_is_gone() {
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), closing, Script::default()]);
    // Without the time-out of the call, it would not end before somebody ends the test.
    let hour = Duration::from_secs(3600);
    let options = Options::default().silence_max(hour).reconnect_max(hour);
    let client = Client::connect_with(&node.url, Credentials::NONE, options).unwrap();
    let volume = client.open(VOLUME).unwrap();
    node.set_down(true);
    let error = volume.with_timeout(Duration::from_millis(30)).read_at(&mut [0; 10], 0);
    assert!(matches!(error, Err(Error::ConnectionLost(Lost::TimedOut))), "{error:?}");
    // The node takes the connection, and says nothing.
    node.hold(true);
    let error = volume.with_timeout(Duration::from_millis(30)).read_at(&mut [0; 10], 0);
    assert!(matches!(error, Err(Error::ConnectionLost(Lost::TimedOut))), "{error:?}");
    node.set_down(false);
    node.hold(false);
    volume.read_at(&mut [0; 10], 0).unwrap();
}

/// The connections of a volume.
const CONNECTIONS_MAX: usize = 16;

#[test]
fn a_call_does_not_wait_longer_for_calls_of_other_threads() {
    let silent = Script { silent_at: Some(0), ..Script::default() };
    let node = FakeNode::start(&[Script::default(), silent]);
    let volume = open(&node).with_timeout(Duration::from_secs(60));
    let before = node.connections();
    let others: Vec<_> = std::iter::repeat_with(|| volume.clone())
        .take(CONNECTIONS_MAX)
        .map(|volume| std::thread::spawn(move || volume.flush()))
        .collect();
    while node.connections() < before + CONNECTIONS_MAX - 1 {
        std::thread::yield_now();
    }
    let error = volume.with_timeout(Duration::from_millis(30)).flush();
    assert!(matches!(error, Err(Error::ConnectionLost(Lost::TimedOut))), "{error:?}");
    // The threads end with the process.
    assert!(others.iter().all(|other| !other.is_finished()));
}

#[test]
fn a_cursor_reads_and_writes_like_a_file() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    let mut cursor = volume.cursor();
    cursor.seek(SeekFrom::Start(100)).unwrap();
    cursor.write_all(b"first line\nsecond line\n").unwrap();
    assert_eq!(cursor.stream_position().unwrap(), 123);
    cursor.flush().unwrap();
    assert_eq!(node.flushes(), 1);
    cursor.seek(SeekFrom::Current(-23)).unwrap();
    let mut lines = io::BufReader::new(cursor.clone()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first line");
    assert_eq!(lines.next().unwrap().unwrap(), "second line");

    let (mut five, mut six) = ([0; 5], [0; 6]);
    let mut places = [IoSliceMut::new(&mut five), IoSliceMut::new(&mut six)];
    assert_eq!(cursor.read_vectored(&mut places).unwrap(), 11);
    assert_eq!((&five, &six), (b"first", b" line\n"));
    let slices = [IoSlice::new(b"SECOND"), IoSlice::new(b" LINE")];
    assert_eq!(cursor.write_vectored(&slices).unwrap(), 11);
    assert_eq!(&node.bytes()[100..123], b"first line\nSECOND LINE\n");
}

#[test]
fn a_cursor_ends_where_the_volume_ends() {
    let node = FakeNode::start(&[Script::default()]);
    let volume = open(&node);
    let mut cursor = volume.cursor();
    assert_eq!(cursor.seek(SeekFrom::End(-4)).unwrap(), volume.len() - 4);
    assert_eq!(cursor.write(b"flash").unwrap(), 4);
    let full = cursor.write_all(b"h").unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    cursor.seek(SeekFrom::End(-4)).unwrap();
    let mut places = [0; 3];
    let mut more = [0; 3];
    let mut slices = [IoSliceMut::new(&mut places), IoSliceMut::new(&mut more)];
    assert_eq!(cursor.read_vectored(&mut slices).unwrap(), 3, "as much as one slice has");
    let mut rest = Vec::new();
    assert_eq!((cursor.read_to_end(&mut rest).unwrap(), &*rest), (1, &b"s"[..]));
    assert_eq!(cursor.seek(SeekFrom::Start(u64::MAX)).unwrap(), u64::MAX);
    assert_eq!(cursor.read(&mut [0; 4]).unwrap(), 0);
    let below = cursor.seek(SeekFrom::End(-(1 << 40))).unwrap_err();
    assert_eq!(below.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn an_error_of_a_file_has_the_error_of_the_volume_as_its_source() {
    let node = silent_node();
    let mut cursor = open(&node).with_timeout(Duration::from_millis(30)).cursor();
    let error = cursor.write(b"flash").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>()).unwrap();
    assert!(matches!(source, Error::Unknown(Lost::TimedOut)));
}
