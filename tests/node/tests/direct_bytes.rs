//! Direct clients that send handmade bytes, which no regular client sends. In each case the node
//! reports the error and serves others as before.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_direct::wire::{
    AnswerHeader, CREDITS_MAX, Features, HelloRequest, LEN_MAX, NONCE_LEN, RequestHeader, VERSION,
};
use nearflash_direct::{Opcode, Status};
use nearflash_node_tests::{
    DirectWire, Door, Node, Place, assert_serves, assert_serves_direct, eventually, open_request,
    request,
};
use zerocopy::IntoBytes;

const VOLUME_LEN: u64 = 8 << 20;

fn in_memory(place: &Place) -> Node<'_> {
    Node::with_direct(place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"])
}

/// Checks that others are served as before, and that no resources of the client remain.
fn assert_undisturbed(node: Node<'_>) {
    assert_serves_direct(&node);
    assert_serves(&node);
    eventually("nothing stays of it", || {
        node.counted("clients") == 0 && node.counted("in_flight") == 0
    });
    node.terminate();
}

/// A client with the volume open, and a read request on it.
fn opened(node: &Node<'_>) -> (DirectWire, RequestHeader) {
    let mut wire = DirectWire::enter(node);
    let (handle, volume) = wire.open("data");
    assert_eq!(volume.bytes.get(), VOLUME_LEN);
    let read = request(Opcode::READ, 0, 0, 4096);
    (wire, RequestHeader { volume: handle.into(), epoch: volume.epoch, ..read })
}

/// The statuses of the answers, in order of arrival.
fn asked(node: &Node<'_>, requests: impl Fn(RequestHeader) -> Vec<RequestHeader>) -> Vec<Status> {
    let (mut wire, read) = opened(node);
    let ask = |request| wire.ask(request).0.status();
    requests(read).into_iter().map(ask).collect()
}

#[test]
fn a_request_that_cannot_be_is_refused_and_the_next_one_served() {
    let place = Place::new();
    let node = in_memory(&place);
    let statuses = asked(&node, |read| {
        let at = |offset: u64, len: u32| RequestHeader {
            offset: offset.into(),
            len: len.into(),
            ..read
        };
        let unknown = RequestHeader { opcode: 0x3E, ..at(0, 0) };
        vec![
            at(VOLUME_LEN - 1, 1),
            at(VOLUME_LEN - 1, 2),
            at(VOLUME_LEN, 1),
            at(u64::MAX, 1),
            at(u64::MAX - 4095, 4096),
            at(0, 0),
            at(0, LEN_MAX + 1),
            at(0, u32::MAX),
            unknown,
            RequestHeader { flags: 0xFE, ..read },
            RequestHeader { volume: (read.volume.get() + 1).into(), ..read },
            read,
        ]
    });
    let expected = [
        Status::OK,
        Status::OUT_OF_RANGE,
        Status::OUT_OF_RANGE,
        Status::OUT_OF_RANGE,
        Status::OUT_OF_RANGE,
        Status::INVALID_FIELD,
        Status::INVALID_FIELD,
        Status::INVALID_FIELD,
        Status::INVALID_OPCODE,
        Status::INVALID_FIELD,
        Status::NO_SUCH_VOLUME,
        Status::OK,
    ];
    assert_eq!(statuses, expected);
    assert_undisturbed(node);
}

#[test]
fn a_stale_epoch_is_refused_with_the_current_one_and_without_effect() {
    let place = Place::new();
    let node = in_memory(&place);
    let (mut wire, read) = opened(&node);
    let (answer, _) = wire.ask(read);
    assert_eq!(answer.status(), Status::OK);
    node.command(&["volume", "resize", "data", "9MiB"]);
    let (answer, payload) = wire.ask(read);
    assert_eq!((answer.status(), payload.len()), (Status::STALE_EPOCH, 0));
    let current = u32::try_from(answer.value.get()).unwrap();
    assert!(current > read.epoch.get());
    let write = RequestHeader { opcode: Opcode::WRITE.0, len: 512.into(), ..read };
    wire.send(write.as_bytes());
    wire.send(&[0xEE; 512]);
    assert_eq!(wire.answer().0.status(), Status::STALE_EPOCH);
    let (answer, payload) = wire.ask(RequestHeader { epoch: current.into(), ..read });
    assert_eq!((answer.status(), payload), (Status::OK, vec![0; 4096]));
    drop(wire);
    assert_undisturbed(node);
}

/// A protocol error is reported to the client and ends its connection.
#[test]
fn what_breaks_the_protocol_ends_that_connection_with_the_reason() {
    let place = Place::new();
    let node = in_memory(&place);
    // A connection that does not begin with a handshake is closed without an answer.
    let mut wire = DirectWire::dial(&node);
    wire.send(request(Opcode::READ, 0, 0, 4096).as_bytes());
    wire.assert_closed();
    let mut wire = DirectWire::dial(&node);
    wire.send_in_vain(b"GET / HTTP/1.1\r\nHost: node.example\r\n\r\n");
    wire.assert_closed();
    let mut wire = DirectWire::dial(&node);
    let hello = HelloRequest {
        magic: HelloRequest::MAGIC,
        version_min: (VERSION + 1).into(),
        version_max: u16::MAX.into(),
        features: Features::default(),
        nonce: [7; NONCE_LEN],
    };
    wire.send(request(Opcode::HELLO, 0, 0, 32).as_bytes());
    wire.send(hello.as_bytes());
    assert_eq!(wire.goodbye(), Status::VERSION);
    // After the handshake.
    let (mut wire, read) = opened(&node);
    wire.send(RequestHeader { tag: CREDITS_MAX.into(), ..read }.as_bytes());
    assert_eq!(wire.goodbye(), Status::CREDITS_EXCEEDED);
    let mut wire = DirectWire::enter(&node);
    wire.send(open_request(5_000).as_bytes());
    assert_ne!(wire.goodbye(), Status::OK);
    assert_undisturbed(node);
}

#[test]
fn two_requests_of_one_tag_in_flight_end_that_connection() {
    let place = Place::new();
    let device = "n=null:64MiB,read-delay=500ms";
    let node = Node::with_direct(&place, &["--device", device, "--volume", "data=8MiB@n"]);
    let (mut wire, read) = opened(&node);
    wire.send(&[read.as_bytes(), read.as_bytes()].concat());
    assert_eq!(wire.goodbye(), Status::DUPLICATE_TAG);
    assert!(Door::Tcp.anonymous(&node).is_ok());
    node.terminate();
}

#[test]
fn a_client_gone_in_the_middle_of_its_payload_has_written_nothing() {
    let place = Place::new();
    let node = in_memory(&place);
    let (mut wire, read) = opened(&node);
    let write = RequestHeader { opcode: Opcode::WRITE.0, len: (1 << 20).into(), ..read };
    wire.send(write.as_bytes());
    wire.send(&[0xEE; 600_000]);
    drop(wire);
    eventually("it is gone", || node.counted("clients") == 0);
    let (mut wire, read) = opened(&node);
    let (answer, payload): (AnswerHeader, _) =
        wire.ask(RequestHeader { len: (1 << 20).into(), ..read });
    assert_eq!(answer.status(), Status::OK);
    assert!(payload.iter().all(|byte| *byte == 0), "a part of it was written");
    drop(wire);
    assert_undisturbed(node);
}

#[test]
fn strangers_that_say_nothing_keep_nobody_out() {
    let place = Place::new();
    let node = in_memory(&place);
    let strangers: Vec<DirectWire> = (0..200).map(|_| DirectWire::dial(&node)).collect();
    assert_serves_direct(&node);
    drop(strangers);
    assert_undisturbed(node);
}
