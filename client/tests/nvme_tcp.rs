//! The host over real sockets, against a scripted target.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, reason = "small constants")]

use crate::fake_target;

use fake_target::{BLOCK_LEN, BLOCKS, FakeTarget, Script};
use nearflash::nvme_tcp::{
    Controller, HostError, HostIdentity, Io, IoCompletion, Namespace, NamespaceId, Nqn, Options,
    QueueId, QueueOptions, QueuePair, Status, discover,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};
use uuid::Uuid;

fn options(target: &FakeTarget) -> Options {
    let host = HostIdentity::from_uuid(Uuid::from_u128(7));
    let timeout = Nanos::from_secs(5);
    Options::new(target.address, Nqn::new("nqn.test:x").unwrap(), host).timeout(timeout)
}

fn open(target: &FakeTarget) -> (Controller, Namespace, QueuePair) {
    let mut controller = Controller::connect(&options(target)).unwrap();
    let namespace = controller.namespace(NamespaceId(1)).unwrap();
    assert_eq!(controller.request_queue_pairs(2).unwrap(), 2);
    let queue_options = QueueOptions::for_ops(32, ByteLen(256 << 10));
    let pair = QueuePair::connect(&controller, QueueId(1), queue_options).unwrap();
    (controller, namespace, pair)
}

/// Polls until `count` commands have completed.
fn wait_for(pair: &mut QueuePair, count: usize) -> Result<Vec<IoCompletion>, HostError> {
    let mut done = Vec::new();
    while done.len() < count {
        if !pair.poll(&mut done)? {
            QueuePair::wait_any(std::slice::from_ref(pair), Nanos::from_secs(5))?;
        }
    }
    Ok(done)
}

fn fill(target: &FakeTarget) {
    for (index, block) in target.blocks.lock().unwrap().chunks_mut(BLOCK_LEN).enumerate() {
        block.fill(u8::try_from(index).unwrap());
    }
}

#[test]
fn connecting_tells_what_the_controller_can() {
    let target = FakeTarget::start(&[Script::default()]);
    let (mut controller, namespace, _) = open(&target);
    assert_eq!(controller.transfer_len_max(), ByteLen(1 << 20));
    assert_eq!(controller.depth_max(), 127);
    assert!(controller.has_volatile_cache());
    assert_eq!(controller.active_namespaces().unwrap(), [NamespaceId(1)]);
    assert_eq!(namespace.block_size, BlockSize::B4096);
    assert_eq!(namespace.len(), ByteLen::from_usize(BLOCKS * BLOCK_LEN));
    controller.tend().unwrap();
    controller.shut_down().unwrap();
}

#[test]
fn reads_land_in_their_buffers_however_they_are_cut_and_ordered() {
    let lens = [None, Some(4096), Some(40_000), Some(777)];
    for (data_len_max, swaps) in lens.iter().flat_map(|len| [(*len, false), (*len, true)]) {
        let target = FakeTarget::start(&[Script { data_len_max, swaps, ..Script::default() }]);
        fill(&target);
        let (_controller, namespace, mut pair) = open(&target);
        // Short and long reads, many in flight.
        let extents: Vec<(u64, u64)> =
            (0..24).map(|n| (n * 5, [1, 2, 40, 64][n as usize % 4])).collect();
        let mut buffers = Vec::new();
        for (token, (start, count)) in (0..).zip(&extents) {
            let len = ByteLen(count * 4096);
            let buffer = pair.take_buffer(len).unwrap();
            pair.bytes_mut(buffer).fill(0xA5);
            let io = Io::Read { start: Lba(*start), count: Blocks(*count), buffer };
            pair.submit(token, &namespace, io).unwrap();
            buffers.push(buffer);
        }
        let done = wait_for(&mut pair, extents.len()).unwrap();
        assert!(done.iter().all(|done| done.status.is_success()));
        for ((start, count), buffer) in extents.iter().zip(buffers) {
            for (index, block) in (*start..start + count).zip(pair.bytes(buffer).chunks(4096)) {
                assert!(block.iter().all(|byte| u64::from(*byte) == index), "block {index}");
            }
        }
    }
}

#[test]
fn writes_arrive_whole_and_a_flush_is_answered() {
    let target = FakeTarget::start(&[Script::default()]);
    let (_controller, namespace, mut pair) = open(&target);
    for token in 0..16 {
        let buffer = pair.take_buffer(ByteLen(8192)).unwrap();
        pair.bytes_mut(buffer).fill(u8::try_from(token).unwrap() + 1);
        let (start, count) = (Lba(token * 2), Blocks(2));
        let io = Io::Write { start, count, buffer, force_unit_access: token % 2 == 0 };
        pair.submit(token, &namespace, io).unwrap();
    }
    let mut tokens: Vec<u64> =
        wait_for(&mut pair, 16).unwrap().iter().map(|done| done.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..16).collect::<Vec<_>>());
    pair.submit(99, &namespace, Io::Flush).unwrap();
    assert!(wait_for(&mut pair, 1).unwrap()[0].status.is_success());
    let blocks = target.blocks.lock().unwrap();
    for (index, block) in blocks.chunks(BLOCK_LEN).take(32).enumerate() {
        assert!(block.iter().all(|byte| usize::from(*byte) == index / 2 + 1), "block {index}");
    }
}

#[test]
fn a_refused_command_keeps_its_status_and_the_queue_works_on() {
    let target = FakeTarget::start(&[Script::default()]);
    let (_controller, namespace, mut pair) = open(&target);
    let buffer = pair.take_buffer(ByteLen(4096)).unwrap();
    for (start, expected) in [(BLOCKS as u64, Status::LBA_OUT_OF_RANGE), (0, Status::SUCCESS)] {
        let io = Io::Read { start: Lba(start), count: Blocks(1), buffer };
        pair.submit(1, &namespace, io).unwrap();
        assert_eq!(wait_for(&mut pair, 1).unwrap()[0].status.code(), expected);
    }
}

#[test]
fn a_full_queue_refuses_and_takes_again_after_a_completion() {
    let target = FakeTarget::start(&[Script::default()]);
    let (_controller, namespace, mut pair) = open(&target);
    let mut taken = 0;
    while pair.submit(taken, &namespace, Io::Flush).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 32);
    wait_for(&mut pair, 32).unwrap();
    pair.submit(0, &namespace, Io::Flush).unwrap();
    wait_for(&mut pair, 1).unwrap();
}

#[test]
fn a_lost_connection_names_what_was_in_flight_and_can_be_made_again() {
    let closing = Script { closes_at: Some(2), ..Script::default() };
    let target = FakeTarget::start(&[Script::default(), closing, Script::default()]);
    let (controller, namespace, mut pair) = open(&target);
    for token in 10..14 {
        pair.submit(token, &namespace, Io::Flush).unwrap();
    }
    let mut done = Vec::new();
    let error = loop {
        match pair.poll(&mut done) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(error.is_transient(), "{error}");
    let mut lost = pair.reconnect(&controller).unwrap();
    lost.sort_unstable();
    let answered: Vec<u64> = done.iter().map(|done| done.token).collect();
    assert!(answered.len() <= 2, "{answered:?}");
    let expected: Vec<u64> = (10..14).filter(|token| !answered.contains(token)).collect();
    assert_eq!(lost, expected);
    pair.submit(20, &namespace, Io::Flush).unwrap();
    assert_eq!(wait_for(&mut pair, 1).unwrap()[0].token, 20);
}

#[test]
fn a_refused_host_is_told_the_remedy() {
    let connect_status = Some(Status::CONNECT_INVALID_HOST.dnr());
    let target = FakeTarget::start(&[Script { connect_status, ..Script::default() }]);
    let error = Controller::connect(&options(&target)).map(|_| ()).unwrap_err();
    assert!(matches!(error, HostError::Refused { .. }) && !error.is_transient());
    assert!(error.to_string().contains("admit this host's NQN"), "{error}");
}

#[test]
fn a_silent_target_is_given_up_on() {
    let target = FakeTarget::start(&[Script { is_silent: true, ..Script::default() }]);
    let options = options(&target).timeout(Nanos::from_millis(20));
    let error = Controller::connect(&options).map(|_| ()).unwrap_err();
    assert!(matches!(error, HostError::Silent { what: "Connect", .. }), "{error}");
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let target = FakeTarget::start(&[Script::default()]);
    let mut options = options(&target);
    options.address.set_port(1);
    let error = Controller::connect(&options).map(|_| ()).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let target = FakeTarget::start(&[Script::default()]);
    let mut controller = Controller::connect(&options(&target)).unwrap();
    let error = controller.namespace(NamespaceId(9)).unwrap_err();
    assert!(error.to_string().starts_with("namespace 9 does not exist"), "{error}");
}

#[test]
fn discovery_reads_the_whole_log() {
    let target = FakeTarget::start(&[Script::default()]);
    let found = discover(&options(&target)).unwrap();
    assert_eq!(found.len(), 20);
    assert_eq!(found[19].subsystem, "nqn.test:19");
    assert_eq!((found[0].address.as_str(), found[0].service.as_str()), ("192.0.2.7", "4420"));
    assert!(found[0].is_nvm);
}
