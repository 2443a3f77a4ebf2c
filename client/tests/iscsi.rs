//! The initiator over real sockets, against a scripted target.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::cast_possible_truncation, reason = "small constants")]

use crate::fake_iscsi;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake_iscsi::{BLOCK_LEN, BLOCKS, FakeTarget, Says, Script};
use nearflash::iscsi::{
    Account, Buffer, ConnectionOptions, Credential, Digests, InitiatorError, Io, IoCompletion,
    LogicalUnit, LoginStatus, Options, Secret, Session, SubmitError, discover,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};

const TARGET: &str = "iqn.test:a";
fn room() -> ConnectionOptions {
    ConnectionOptions::for_ops(32, ByteLen(256 << 10))
}

fn options(target: &FakeTarget) -> Options {
    Options::new(target.address, TARGET).timeout(Nanos::from_secs(5))
}

fn open_with(options: &Options) -> (Session, LogicalUnit) {
    let mut session = Session::connect(options, room()).unwrap();
    let unit = session.logical_unit(0).unwrap();
    (session, unit)
}

fn open(target: &FakeTarget) -> (Session, LogicalUnit) {
    open_with(&options(target))
}

/// The error of a session that cannot connect.
fn refusal(options: &Options) -> InitiatorError {
    Session::connect(options, room()).map(|_| ()).unwrap_err()
}

/// Polls until `count` operations have completed.
fn wait_for(session: &mut Session, count: usize) -> Result<Vec<IoCompletion>, InitiatorError> {
    let mut done = Vec::new();
    while done.len() < count {
        if !session.poll(&mut done)? {
            Session::wait_any(std::slice::from_ref(session), Nanos::from_secs(5))?;
        }
    }
    Ok(done)
}

fn fill(target: &FakeTarget) {
    for (index, block) in target.shared.blocks.lock().unwrap().chunks_mut(BLOCK_LEN).enumerate() {
        block.fill(u8::try_from(index).unwrap());
    }
}

fn read(start: u64, count: u64, buffer: Buffer) -> Io {
    Io::Read { start: Lba(start), count: Blocks(count), buffer }
}

fn write(start: u64, count: u64, buffer: Buffer) -> Io {
    let (start, count) = (Lba(start), Blocks(count));
    Io::Write { start, count, buffer, force_unit_access: false }
}

/// Reads of several lengths, all in flight together, over all connections in turn.
fn read_much(session: &mut Session, unit: &LogicalUnit) {
    let extents: Vec<(u64, u64)> =
        (0..24).map(|n| (n * 5, [1, 2, 40, 64][n as usize % 4])).collect();
    let mut buffers = Vec::new();
    for (token, (start, count)) in (0..).zip(&extents) {
        let connection = buffers.len() % session.connections();
        let buffer = session.take_buffer(connection, ByteLen(count * 4096)).unwrap();
        session.bytes_mut(buffer).fill(0xA5);
        session.submit(token, unit, read(*start, *count, buffer)).unwrap();
        buffers.push(buffer);
    }
    let done = wait_for(session, extents.len()).unwrap();
    assert!(done.iter().all(|done| done.status.is_good()));
    for ((start, count), buffer) in extents.iter().zip(buffers) {
        for (index, block) in (*start..start + count).zip(session.bytes(buffer).chunks(4096)) {
            assert!(block.iter().all(|byte| u64::from(*byte) == index), "block {index}");
        }
        session.give_back(buffer);
    }
}

/// Writes one block and many blocks, and checks the result.
fn write_much(session: &mut Session, unit: &LogicalUnit, target: &FakeTarget) {
    for (token, (start, count)) in [(0, 1), (4, 64), (70, 2)].into_iter().enumerate() {
        let connection = token % session.connections();
        let buffer = session.take_buffer(connection, ByteLen(count * 4096)).unwrap();
        session.bytes_mut(buffer).fill(u8::try_from(token).unwrap() + 0x70);
        session.submit(7, unit, write(start, count, buffer)).unwrap();
        assert!(wait_for(session, 1).unwrap()[0].status.is_good());
        session.give_back(buffer);
    }
    session.submit(99, unit, Io::Flush).unwrap();
    let done = wait_for(session, 1).unwrap();
    assert!(done[0].token == 99 && done[0].status.is_good());
    let blocks = target.shared.blocks.lock().unwrap();
    for (byte, range) in [(0x70, 0..1), (0x71, 4..68), (0x72, 70..72)] {
        let bytes = &blocks[range.start * BLOCK_LEN..range.end * BLOCK_LEN];
        assert!(bytes.iter().all(|there| *there == byte), "{range:?}");
    }
}

#[test]
fn connecting_tells_what_there_is() {
    let target = FakeTarget::start(&[Script::default()]);
    let (mut session, unit) = open(&target);
    assert_eq!((unit.lun, unit.block_size), (0, BlockSize::B4096));
    assert_eq!(unit.len(), ByteLen::from_usize(BLOCKS * BLOCK_LEN));
    assert_eq!(unit.transfer_len_max, ByteLen(1 << 20));
    assert_eq!(session.luns().unwrap(), [0, 3]);
    assert_eq!((session.connections(), session.window()), (1, 64));
    session.log_out().unwrap();
}

#[test]
fn reads_land_in_their_buffers_however_they_are_cut_and_ordered() {
    let lens = [None, Some(4096), Some(40_000), Some(776)];
    for (data_len_max, swaps) in lens.iter().flat_map(|len| [(*len, false), (*len, true)]) {
        let target = FakeTarget::start(&[Script { data_len_max, swaps, ..Script::default() }]);
        fill(&target);
        let (mut session, unit) = open(&target);
        read_much(&mut session, &unit);
    }
}

#[test]
fn writes_arrive_whole_whether_they_are_asked_for_or_not_and_a_flush_is_answered() {
    for asks in [false, true] {
        let target = FakeTarget::start(&[Script { asks, ..Script::default() }]);
        let (mut session, unit) = open(&target);
        write_much(&mut session, &unit, &target);
    }
}

#[test]
fn digests_guard_reads_and_writes_of_both_kinds() {
    for asks in [false, true] {
        let target = FakeTarget::start(&[Script { digests: true, asks, ..Script::default() }]);
        let digests = Digests { header: true, data: true };
        let (mut session, unit) = open_with(&options(&target).digests(digests));
        assert_eq!(session.digests(), digests);
        fill(&target);
        read_much(&mut session, &unit);
        write_much(&mut session, &unit, &target);
    }
}

#[test]
fn a_session_of_several_connections_uses_all_of_them() {
    let target = FakeTarget::start(&[Script::default()]);
    fill(&target);
    let (mut session, unit) = open_with(&options(&target).connections(4));
    assert_eq!(session.connections(), 4);
    read_much(&mut session, &unit);
    write_much(&mut session, &unit, &target);
    assert_eq!(target.shared.logins.load(Ordering::SeqCst), 4);
}

#[test]
fn what_the_window_keeps_back_is_sent_when_it_opens() {
    let target = FakeTarget::start(&[Script::default()]);
    let room = room().depth(200);
    let mut session = Session::connect(&options(&target), room).unwrap();
    let unit = session.logical_unit(0).unwrap();
    assert_eq!(session.window(), 64);
    for token in 0..200 {
        session.submit(token, &unit, Io::Flush).unwrap();
    }
    assert_eq!(session.submit(200, &unit, Io::Flush), Err(SubmitError::QueueFull));
    assert_eq!(session.in_flight().len(), 200);
    let done = wait_for(&mut session, 200).unwrap();
    let tokens: Vec<u64> = done.iter().map(|done| done.token).collect();
    assert_eq!(tokens, (0..200).collect::<Vec<_>>(), "nothing overtakes");
    session.submit(0, &unit, Io::Flush).unwrap();
    wait_for(&mut session, 1).unwrap();
}

#[test]
fn a_refused_operation_keeps_its_status_and_the_session_works_on() {
    let target = FakeTarget::start(&[Script::default()]);
    let (mut session, unit) = open(&target);
    let buffer = session.take_buffer(0, ByteLen(4096)).unwrap();
    session.submit(1, &unit, read(BLOCKS as u64, 1, buffer)).unwrap();
    let status = wait_for(&mut session, 1).unwrap()[0].status;
    assert_eq!(
        status.to_string(),
        "CHECK CONDITION: illegal request, logical block address out of range"
    );
    session.submit(2, &unit, read(0, 1, buffer)).unwrap();
    assert!(wait_for(&mut session, 1).unwrap()[0].status.is_good());
}

#[test]
fn what_the_target_has_no_room_for_is_sent_again_until_it_has() {
    for (asks, refusals) in [(false, 3), (true, 3)] {
        let target = FakeTarget::start(&[Script { asks, refusals, ..Script::default() }]);
        let (mut session, unit) = open(&target);
        write_much(&mut session, &unit, &target);
        assert_eq!(session.sent_again(), refusals as u64);
        assert_eq!(session.poll_timeout(), None, "nothing waits");
    }
    // More refusals than commands in flight: no command is left whose end could make room.
    let target = FakeTarget::start(&[Script { refusals: 30, ..Script::default() }]);
    fill(&target);
    let (mut session, unit) = open(&target);
    read_much(&mut session, &unit);
    assert_eq!(session.sent_again(), 30);
}

#[test]
fn a_unit_that_was_resized_is_told_and_what_it_was_asked_for_is_done() {
    let target = FakeTarget::start(&[Script { resized_at: Some(3), ..Script::default() }]);
    fill(&target);
    let (mut session, unit) = open(&target);
    read_much(&mut session, &unit);
    assert_eq!((session.poll_resized(), session.poll_resized()), (Some(0), None));
    assert_eq!(session.sent_again(), 1);
    assert_eq!(session.logical_unit(0).unwrap(), unit);
}

/// Polls until the session is lost.
fn loss(session: &mut Session, done: &mut Vec<IoCompletion>) -> InitiatorError {
    loop {
        match session.poll(done) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    }
}

#[test]
fn a_lost_connection_says_what_was_in_flight_and_the_session_can_be_made_again() {
    let closing = Script { closes_at: Some(2), ..Script::default() };
    let target = FakeTarget::start(&[closing, Script::default()]);
    let (mut session, unit) = open(&target);
    let buffers: Vec<Buffer> =
        (0..4).map(|_| session.take_buffer(0, ByteLen(4096)).unwrap()).collect();
    for (token, buffer) in (10..).zip(&buffers) {
        session.submit(token, &unit, read(0, 1, *buffer)).unwrap();
    }
    let mut done = Vec::new();
    let error = loss(&mut session, &mut done);
    let answered: Vec<u64> = done.iter().map(|done| done.token).collect();
    assert!(answered.len() <= 2, "{answered:?}");
    let expected: Vec<u64> = (10..14).filter(|token| !answered.contains(token)).collect();
    let message = error.to_string();
    assert!(
        message.contains(&format!("{} operations were in flight", expected.len())),
        "{message}"
    );
    assert!(error.is_transient(), "{message}");
    let mut lost = session.reconnect().unwrap();
    lost.sort_unstable();
    assert_eq!(lost, expected);
    let buffer = session.take_buffer(0, ByteLen(4096)).unwrap();
    session.submit(20, &unit, read(0, 1, buffer)).unwrap();
    assert_eq!(wait_for(&mut session, 1).unwrap()[0].token, 20);
}

#[test]
fn with_one_of_several_connections_all_is_lost() {
    let closing = Script { closes_at: Some(0), ..Script::default() };
    let target = FakeTarget::start(&[Script::default(), closing]);
    let (mut session, unit) = open_with(&options(&target).connections(2));
    let buffer = session.take_buffer(1, ByteLen(4096)).unwrap();
    session.submit(1, &unit, read(0, 1, buffer)).unwrap();
    let error = loss(&mut session, &mut Vec::new());
    assert!(matches!(error, InitiatorError::Lost { in_flight: 1, .. }), "{error}");
}

#[test]
fn a_hostile_target_is_told_apart_and_left() {
    let sayings =
        [Says::UnknownTask, Says::PastTheEnd, Says::UnknownOpcode, Says::Endless, Says::R2tOfRead];
    for says in sayings {
        let target = FakeTarget::start(&[Script { says: Some(says), ..Script::default() }]);
        let (mut session, unit) = open(&target);
        let buffer = session.take_buffer(0, ByteLen(4096)).unwrap();
        session.bytes_mut(buffer).fill(0xA5);
        session.submit(1, &unit, read(0, 1, buffer)).unwrap();
        let mut done = Vec::new();
        let error = loss(&mut session, &mut done);
        let InitiatorError::Lost { source, in_flight: 1 } = &error else {
            panic!("{says:?}: {error}")
        };
        assert!(matches!(**source, InitiatorError::Peer(_)), "{says:?}: {error}");
        assert!(done.is_empty(), "{says:?}: nothing is over");
        assert_eq!(session.submit(2, &unit, Io::Flush), Err(SubmitError::NotReady), "{says:?}");
    }
}

fn account(secret: &str) -> Option<Arc<Account>> {
    let secret = Secret::new(secret.as_bytes().to_vec()).unwrap();
    let credential = Credential { user: "alice".to_owned(), secret };
    Some(Arc::new(Account::new(credential, None).unwrap()))
}

#[test]
fn a_chap_account_lets_in_who_knows_its_secret() {
    let script = Script { account: Some(("alice", "a secret of alice")), ..Script::default() };
    let target = FakeTarget::start(&[script]);
    fill(&target);
    let right = options(&target).account(account("a secret of alice"));
    let (mut session, unit) = open_with(&right);
    read_much(&mut session, &unit);
    let wrong = refusal(&options(&target).account(account("no secret of hers")));
    let expected = "iqn.test:a refuses the login: authentication failure (0201h); check the user \
                    and the secret";
    assert_eq!(wrong.to_string(), expected);
    let none = refusal(&options(&target));
    assert!(
        none.to_string().ends_with("; add the user and the secret of a CHAP account"),
        "{none}"
    );
    assert!(!none.is_transient() && !wrong.is_transient());
}

#[test]
fn a_refused_login_names_the_remedy() {
    let cases = [
        (LoginStatus::NOT_FOUND, "does this target exist, and may the initiator use it?", false),
        (LoginStatus::AUTHORIZATION_FAILURE, "admit the initiator iqn.test:me there", false),
        (LoginStatus::TOO_MANY_CONNECTIONS, "request fewer connections", false),
        (LoginStatus::OUT_OF_RESOURCES, "no room for another session", true),
        (LoginStatus::SERVICE_UNAVAILABLE, "(0301h)", true),
    ];
    for (status, remedy, is_transient) in cases {
        let login_status = Some((status.class(), status.detail()));
        let target = FakeTarget::start(&[Script { login_status, ..Script::default() }]);
        let initiator = "iqn.test:me".to_owned();
        let error = refusal(&options(&target).initiator(initiator));
        let message = error.to_string();
        assert!(message.starts_with("iqn.test:a refuses the login: "), "{message}");
        assert!(message.contains(remedy), "{message}");
        assert_eq!(error.is_transient(), is_transient, "{message}");
    }
}

#[test]
fn digests_that_are_not_granted_are_said() {
    let target = FakeTarget::start(&[Script::default()]);
    let digests = Digests { header: true, data: false };
    let error = refusal(&options(&target).digests(digests));
    assert!(matches!(error, InitiatorError::NoDigests { .. }), "{error}");
}

#[test]
fn a_silent_target_is_given_up_on() {
    let target = FakeTarget::start(&[Script { is_silent: true, ..Script::default() }]);
    let error = refusal(&options(&target).timeout(Nanos::from_millis(20)));
    assert!(matches!(error, InitiatorError::Silent { what: "the login", .. }), "{error}");
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let target = FakeTarget::start(&[Script::default()]);
    let mut options = options(&target);
    options.address.set_port(1);
    let error = refusal(&options);
    assert!(error.is_transient() && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_unit_that_is_not_there_is_named_with_those_that_are() {
    let target = FakeTarget::start(&[Script::default()]);
    let (mut session, _) = open(&target);
    let error = session.logical_unit(9).unwrap_err();
    assert_eq!(error.to_string(), "LUN 9 does not exist: there are 0, 3");
}

#[test]
fn a_unit_attention_is_heard_before_a_question_is_answered() {
    let target = FakeTarget::start(&[Script { attentions: 3, ..Script::default() }]);
    let (_, unit) = open(&target);
    assert_eq!(unit.block_size, BlockSize::B4096);
}

#[test]
fn a_question_that_is_lost_with_its_session_is_none_of_the_operations_that_are() {
    let closing = Script { closes_at_question: Some(4), ..Script::default() };
    let target = FakeTarget::start(&[closing, Script::default()]);
    let (mut session, unit) = open(&target);
    let buffer = session.take_buffer(0, ByteLen(4096)).unwrap();
    session.submit(7, &unit, read(0, 1, buffer)).unwrap();
    assert!(wait_for(&mut session, 1).unwrap()[0].status.is_good());
    session.logical_unit(0).unwrap_err();
    assert!(session.in_flight().is_empty());
    assert!(session.reconnect().unwrap().is_empty());
}

#[test]
fn discovery_tells_all_targets_and_where_they_are() {
    let target = FakeTarget::start(&[Script::default()]);
    let found = discover(&options(&target)).unwrap();
    let names: Vec<&str> = found.iter().map(|target| &*target.name).collect();
    assert_eq!(names, ["iqn.test:a", "iqn.test:b"]);
    let here = format!("{},1", target.address);
    assert_eq!(found[0].addresses, [here, "[2001:db8::7]:3260,2".to_owned()]);
}

#[test]
fn a_target_that_does_not_prove_itself_is_not_believed() {
    let script = Script { account: Some(("alice", "a secret of alice")), ..Script::default() };
    let target = FakeTarget::start(&[script]);
    let credential = |user: &str, secret: &str| Credential {
        user: user.to_owned(),
        secret: Secret::new(secret.as_bytes().to_vec()).unwrap(),
    };
    // The fake target answers no challenge.
    let mutual = Account::new(
        credential("alice", "a secret of alice"),
        Some(credential("target", "the target's secret")),
    );
    let error = refusal(&options(&target).account(Some(Arc::new(mutual.unwrap()))));
    let names_the_account =
        matches!(&error, InitiatorError::Impostor { user, .. } if user == "target");
    assert!(names_the_account, "{error}");
    assert!(!error.is_transient());
}
