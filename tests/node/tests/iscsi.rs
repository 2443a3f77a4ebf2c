//! Initiators of a node: logins, one volume over all protocols, reservations that bind others and
//! survive a restart, and invalid bytes, which end only their own connection. RFC 7143; SPC-4,
//! 5.13.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::{Read, Write};
use std::net::TcpStream;

use nearflash_iscsi::PeerError;
use nearflash_iscsi::initiator::{CommandData, Event, Status, cdb};
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_node_tests::{
    Door, Host, Initiator, Node, PATIENCE, Place, Who, assert_serves, assert_serves_iscsi,
    eventually,
};

const DEVICE: [&str; 4] = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"];
const SECRET: &str = "sixteen-letters!";

/// Service actions and types of PERSISTENT RESERVE OUT.
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;

fn in_memory<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    Node::with_iscsi(place, &[&DEVICE[..], flags].concat())
}

fn login(node: &Node<'_>, name: &str) -> Initiator {
    Initiator::login(node, "data", &Who::named(name)).unwrap()
}

fn sessions(node: &Node<'_>) -> usize {
    node.command(&["status"])["initiators"].as_array().unwrap().len()
}

#[test]
fn one_volume_reads_the_same_through_all_three_doors() {
    let place = Place::new();
    let socket = place.text("direct.sock");
    let node = in_memory(&place, &["--direct", "127.0.0.1:0", "--direct-local", &socket]);
    let (mut host, mut initiator) = (Host::connect(&node, "data"), login(&node, "a"));
    let volumes = Door::ALL.map(|door| door.anonymous(&node).unwrap().open("data").unwrap());
    assert_eq!(initiator.write(1, &[1; 4096]), Status::GOOD);
    assert!(host.write(2, &[2; 4096]).is_success());
    volumes[0].write_at(&[3; 4096], 3 * 4096).unwrap();
    volumes[1].write_at(&[4; 4096], 4 * 4096).unwrap();
    for (lba, byte) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 0)] {
        assert_eq!(initiator.read(lba), [byte; 4096]);
        assert_eq!(host.read(lba, 1).1, [byte; 4096]);
        for volume in &volumes {
            let mut read = [0xA5; 4096];
            volume.read_at(&mut read, lba * 4096).unwrap();
            assert_eq!(read, [byte; 4096]);
        }
    }
    node.terminate();
}

#[test]
fn with_a_chap_user_only_who_knows_the_secret_logs_in() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    assert_serves_iscsi(&node);
    std::fs::write(place.path("secret"), format!("{SECRET}\n")).unwrap();
    let added = node.command(&["chap", "add", "app", "--secret-file", &place.text("secret")]);
    assert_eq!(added["account"]["user"], "app");
    assert!(added["secret"].is_null(), "who gave it knows it");
    let nobody = Who::named("a");
    let refused = |who: &Who| Initiator::refused(&node, "data", who);
    for who in [
        nobody.clone(),
        nobody.clone().with_account("app", "another secret!!"),
        nobody.clone().with_account("other", SECRET),
    ] {
        assert_eq!(refused(&who), LoginStatus::AUTHENTICATION_FAILURE, "{who:?}");
    }
    let known = nobody.with_account("app", SECRET);
    let mut initiator = Initiator::login(&node, "data", &known).unwrap();
    assert_eq!(initiator.write(0, &[1; 4096]), Status::GOOD);
    let status = node.command(&["status"]);
    assert_eq!(status["initiators"][0]["user"], "app");
    assert_eq!(status["initiators"][0]["initiator"], "iqn.2026-11.test:a");
    eventually("the log says who failed", || place.log().contains("authentication failure"));
    assert!(!place.log().contains(SECRET), "{}", place.log());
    // The user's sessions have ended when the command returns.
    node.command(&["chap", "remove", "app"]);
    assert_eq!(sessions(&node), 0);
    let lost = initiator.try_command(&cdb::test_unit_ready(), CommandData::None);
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(refused(&Who::named("a")), LoginStatus::AUTHENTICATION_FAILURE, "nobody enters now");
    node.terminate();
}

#[test]
fn an_account_lets_in_the_initiators_that_it_names_and_no_others() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    std::fs::write(place.path("secret"), SECRET).unwrap();
    let [a, b] = ["a", "b"].map(|name| Who::named(name).with_account("app", SECRET));
    let add =
        ["chap", "add", "app", "--initiator", &a.name, "--secret-file", &place.text("secret")];
    assert_eq!(node.command(&add)["account"]["initiators"][0], a.name);
    assert_eq!(Initiator::refused(&node, "data", &b), LoginStatus::AUTHORIZATION_FAILURE);
    let mut initiator = Initiator::login(&node, "data", &a).unwrap();
    // Who has the secret ends no session of another one by its name.
    let other = Who { isid: a.isid, ..b };
    assert_eq!(Initiator::refused(&node, "data", &other), LoginStatus::AUTHORIZATION_FAILURE);
    assert_eq!(initiator.write(0, &[1; 4096]), Status::GOOD);
    node.terminate();
}

/// SPC-4, 5.13: the loss of the nexus does not end the registration of an initiator, and neither does that of its
/// account or of its list.
#[test]
fn an_initiator_that_is_removed_keeps_its_reservation_until_the_operator_clears_it() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    std::fs::write(place.path("secret"), format!("{SECRET}\n")).unwrap();
    for user in ["a", "b"] {
        node.command(&["chap", "add", user, "--secret-file", &place.text("secret")]);
        node.command(&["host", "allow", &Who::named(user).name, "data"]);
    }
    let [a, b] = ["a", "b"].map(|user| Who::named(user).with_account(user, SECRET));
    let mut holder = Initiator::login(&node, "data", &a).unwrap();
    assert_eq!(holder.reserve_out(REGISTER, 0, (0, 0xA), false), Status::GOOD);
    assert_eq!(holder.reserve_out(RESERVE, WRITE_EXCLUSIVE, (0xA, 0), false), Status::GOOD);
    node.command(&["chap", "remove", "a"]);
    node.command(&["host", "remove", &a.name]);
    assert_eq!(Initiator::refused(&node, "data", &a), LoginStatus::AUTHENTICATION_FAILURE);
    let mut other = Initiator::login(&node, "data", &b).unwrap();
    assert_eq!(other.write(0, &[1; 4096]), Status::RESERVATION_CONFLICT);
    assert_eq!(other.keys(), [0xA]);
    node.command(&["reservation", "clear", "data"]);
    assert_eq!(other.write(0, &[1; 4096]), Status::GOOD);
    assert!(other.keys().is_empty());
}

#[test]
fn a_node_proves_in_return_who_it_is() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    std::fs::write(place.path("secret"), SECRET).unwrap();
    let file = place.text("secret");
    let flags = ["--secret-file", &file, "--mutual-user", "node"];
    let added = node.command(&[&["chap", "add", "app"][..], &flags].concat());
    let drawn = added["mutual_secret"].as_str().unwrap();
    let known = Who::named("a").with_account("app", SECRET);
    let right = known.clone().with_mutual("node", drawn);
    assert!(Initiator::login(&node, "data", &right).is_ok());
    let wrong = known.with_mutual("node", "what it never was");
    let refused = Initiator::login(&node, "data", &wrong).unwrap_err();
    assert_eq!(refused, PeerError::Impostor);
    node.terminate();
}

#[test]
fn only_named_initiators_log_in_and_only_to_what_is_there() {
    let place = Place::new();
    let node = in_memory(&place, &["--host", "iqn.2026-11.test:a"]);
    let refused = Initiator::refused(&node, "data", &Who::named("b"));
    assert_eq!(refused, LoginStatus::AUTHORIZATION_FAILURE);
    let refused = Initiator::refused(&node, "other", &Who::named("a"));
    assert_eq!(refused, LoginStatus::NOT_FOUND);
    assert_eq!(login(&node, "a").write(0, &[1; 4096]), Status::GOOD);
    assert_serves(&node);
    node.terminate();
}

#[test]
fn an_initiator_that_comes_back_takes_its_old_sessions_place() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let (mut old, mut other) = (login(&node, "a"), login(&node, "b"));
    assert_eq!(old.write(0, &[1; 4096]), Status::GOOD);
    let mut new = login(&node, "a");
    assert!(old.try_command(&cdb::test_unit_ready(), CommandData::None).is_err(), "it is over");
    assert_eq!(new.read(0), [1; 4096]);
    assert_eq!(other.read(0), [1; 4096]);
    assert_eq!(sessions(&node), 2);
    drop((new, other));
    eventually("the sessions are gone", || sessions(&node) == 0);
    node.terminate();
}

#[test]
fn a_reservation_taken_through_iscsi_binds_every_door() {
    let place = Place::new();
    let socket = place.text("direct.sock");
    let node = in_memory(&place, &["--direct-local", &socket]);
    let (mut a, mut b) = (login(&node, "a"), login(&node, "b"));
    let mut host = Host::connect(&node, "data");
    let volume = Door::Local.anonymous(&node).unwrap().open("data").unwrap();
    assert_eq!(a.reserve_out(REGISTER, 0, (0, 0xA), false), Status::GOOD);
    assert_eq!(a.reserve_out(RESERVE, WRITE_EXCLUSIVE, (0xA, 0), false), Status::GOOD);
    assert_eq!(a.write(0, &[1; 4096]), Status::GOOD);
    assert_eq!(b.write(0, &[2; 4096]), Status::RESERVATION_CONFLICT);
    let refused = host.write(0, &[2; 4096]).to_string();
    assert!(refused.contains("Reservation Conflict"), "{refused}");
    assert!(volume.write_at(&[2; 4096], 0).is_err());
    assert_eq!(b.read(0), [1; 4096], "reading is allowed");
    assert_eq!(host.read(0, 1).1, [1; 4096]);
    assert_eq!(b.keys(), [0xA]);
    let listed = node.command(&["reservation", "list"]);
    let listed = &listed["reservations"][0];
    assert_eq!(listed["kind"], "write-exclusive");
    assert_eq!(listed["registrants"][0]["key"], "0x000000000000000a");
    // Another initiator preempts the reservation: the first is notified.
    assert_eq!(b.reserve_out(REGISTER, 0, (0, 0xB), false), Status::GOOD);
    a.hear_all();
    let preempted = b.reserve_out(PREEMPT, EXCLUSIVE_ACCESS, (0xB, 0xA), false);
    assert_eq!(preempted, Status::GOOD);
    assert_eq!(a.attention(), Some((0x2A, 0x05)), "registrations preempted");
    assert_eq!(a.write(0, &[3; 4096]), Status::RESERVATION_CONFLICT);
    assert!(!host.read(0, 1).0.is_success(), "nobody else reads any more");
    // The operator clears the reservation.
    node.command(&["reservation", "clear", "data"]);
    assert_eq!(a.write(0, &[4; 4096]), Status::GOOD);
    assert!(host.write(0, &[5; 4096]).is_success());
    volume.write_at(&[6; 4096], 0).unwrap();
    node.terminate();
}

#[test]
fn a_reservation_that_persists_is_there_after_a_crash_and_another_is_not() {
    let place = Place::new();
    let flash = place.flash("16MiB");
    let volumes = ["--volume", "data=4MiB@flash", "--volume", "logs=4MiB@flash"];
    let flags = [&["--device", &flash][..], &volumes].concat();
    let node = Node::with_iscsi(&place, &flags);
    for (volume, persist) in [("data", true), ("logs", false)] {
        let mut a = Initiator::login(&node, volume, &Who::named("a")).unwrap();
        assert_eq!(a.reserve_out(REGISTER, 0, (0, 0xA), persist), Status::GOOD);
        assert_eq!(a.reserve_out(RESERVE, EXCLUSIVE_ACCESS, (0xA, 0), persist), Status::GOOD);
    }
    node.crash();
    let node = Node::with_iscsi(&place, &flags);
    let mut b = login(&node, "b");
    assert_eq!(b.write(0, &[2; 4096]), Status::RESERVATION_CONFLICT);
    let mut logs = Initiator::login(&node, "logs", &Who::named("b")).unwrap();
    assert_eq!(logs.write(0, &[2; 4096]), Status::GOOD);
    let mut a = login(&node, "a");
    assert_eq!(a.write(0, &[1; 4096]), Status::GOOD, "it is who it was");
    assert_eq!(a.reserve_out(CLEAR, 0, (0xA, 0), false), Status::GOOD);
    assert_eq!(b.write(0, &[2; 4096]), Status::GOOD);
    node.terminate();
}

#[test]
fn a_session_hears_first_of_the_nodes_start_or_of_the_end_of_the_one_before() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut a = login(&node, "a");
    let asked = a.try_command(&cdb::inquiry(None, 36), CommandData::SmallIncoming(36));
    assert!(asked.unwrap().is_good(), "INQUIRY passes it by");
    let told = [a.attention(), a.attention()];
    assert_eq!(told, [Some((0x29, 0x00)), None], "power on or reset");
    let mut again = login(&node, "a");
    let told = [again.attention(), again.attention()];
    assert_eq!(told, [Some((0x29, 0x07)), None], "I_T nexus loss");
    again.log_out();
    assert_eq!(login(&node, "a").attention(), Some((0x29, 0x07)));
    assert_eq!(login(&node, "b").attention(), Some((0x29, 0x00)));
    node.terminate();
}

#[test]
fn requests_of_odd_lengths_are_served_and_those_beyond_the_maximum_transfer_length_are_refused() {
    let place = Place::new();
    let volume = "data=64MiB@r,block-size=512";
    let node = Node::with_iscsi(&place, &["--device", "r=ram:96MiB", "--volume", volume]);
    let mut initiator = login(&node, "iqn.2026-11.test:long");
    // The last one is the length in VPD page B0h, which Linux keeps to.
    for blocks in [1_u32, 2047, 2049, 16_384] {
        let bytes: Vec<u8> =
            (0..blocks * 512).map(|at| u8::try_from(at / 512 % 251).unwrap()).collect();
        let written = CommandData::SmallOutgoing(bytes.clone());
        assert!(initiator.command(&cdb::write(0, 3, blocks), &written).is_good(), "{blocks}");
        let asked = CommandData::SmallIncoming(blocks * 512);
        let read = initiator.command(&cdb::read(3, blocks), &asked);
        assert!(read.is_good() && read.data == bytes, "{blocks}");
    }
    for blocks in [16_385, 65_537] {
        let asked = CommandData::SmallIncoming(blocks * 512);
        let sense = initiator.command(&cdb::read(3, blocks), &asked).sense.unwrap();
        assert_eq!((sense.key, sense.asc, sense.ascq), (5, 0x24, 0), "invalid field in CDB");
    }
}

#[test]
fn an_initiator_hears_of_a_resize() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut a = login(&node, "a");
    a.hear_all();
    assert_eq!(a.attention(), None);
    node.command(&["volume", "resize", "data", "12MiB"]);
    assert_eq!(a.attention(), Some((0x2A, 0x09)), "capacity data has changed");
    assert_eq!(a.write(3000, &[1; 4096]), Status::GOOD, "in what was not there before");
    node.terminate();
}

#[test]
fn sessions_of_a_volume_that_is_removed_are_asked_to_log_out_and_never_reach_another() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let (mut obeys, mut stays) = (login(&node, "a"), login(&node, "b"));
    node.command(&["volume", "remove", "data", "--force"]);
    node.command(&["volume", "create", "data=8MiB@r"]);
    for initiator in [&mut obeys, &mut stays] {
        assert_eq!(initiator.event(), Event::LogoutRequested { seconds: 10 });
        assert_eq!(initiator.write(0, &[1; 4096]), Status::CHECK_CONDITION, "there is no unit");
    }
    obeys.log_out();
    eventually("who did not log out is dropped", || sessions(&node) == 0);
    assert!(stays.try_command(&cdb::test_unit_ready(), CommandData::None).is_err());
    assert_eq!(login(&node, "b").read(0), [0; 4096], "nothing was written to the new one");
    node.terminate();
}

#[test]
fn units_of_a_target_that_come_and_go_are_told_to_its_sessions() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut a = login(&node, "a");
    a.hear_all();
    node.command(&["volume", "create", "logs=4MiB@r,subsystem=data"]);
    assert_eq!(a.attention(), Some((0x3F, 0x0E)), "reported LUNs data has changed");
    node.command(&["volume", "remove", "logs", "--force"]);
    assert_eq!(a.attention(), Some((0x3F, 0x0E)));
    assert_eq!(a.write(0, &[1; 4096]), Status::GOOD);
    node.terminate();
}

#[test]
fn the_first_chap_user_ends_sessions_that_came_in_without_one() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut a = login(&node, "a");
    assert_eq!(a.write(0, &[1; 4096]), Status::GOOD);
    std::fs::write(place.path("secret"), SECRET).unwrap();
    node.command(&["chap", "add", "app", "--secret-file", &place.text("secret")]);
    assert_eq!(sessions(&node), 0, "they are over when the command returns");
    assert!(a.try_command(&cdb::test_unit_ready(), CommandData::None).is_err());
    // A second account does not end the sessions of the first.
    let known = Who::named("a").with_account("app", SECRET);
    let mut a = Initiator::login(&node, "data", &known).unwrap();
    node.command(&["chap", "add", "other"]);
    assert_eq!(a.write(0, &[2; 4096]), Status::GOOD);
    node.terminate();
}

#[test]
fn bytes_that_no_initiator_sends_end_their_own_connection_alone() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut bystander = login(&node, "bystander");
    let login_header = |change: &dyn Fn(&mut [u8; 48])| {
        let mut header = [0; 48];
        (header[0], header[1]) = (0x43, 0x87);
        change(&mut header);
        header.to_vec()
    };
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: flash\r\n\r\nand some more that fills a header".to_vec(),
        vec![0xFF; 4096],
        // A command before any login; a login with more data than allowed; one with an invalid key.
        login_header(&|header| header[0] = 0x01),
        login_header(&|header| header[5..8].copy_from_slice(&[0xFF; 3])),
        login_header(&|header| header[4] = 0xFF),
        login_header(&|_| ()),
    ] {
        let mut stranger = TcpStream::connect(node.iscsi_address()).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        // At most a login response, and then the end, in order or by a reset.
        let _ = stranger.read_to_end(&mut answer);
        assert!(answer.len() <= 256, "{answer:?}");
    }
    assert_eq!(bystander.write(0, &[1; 4096]), Status::GOOD);
    assert_serves_iscsi(&node);
    assert_serves(&node);
    eventually("the log says so", || place.log().contains("reason=\"invalid\""));
    node.terminate();
}

#[test]
fn a_node_that_ends_says_so_and_leaves_no_command_half_done() {
    let place = Place::new();
    let node = in_memory(&place, &[]);
    let mut a = login(&node, "a");
    assert_eq!(a.write(0, &[1; 4096]), Status::GOOD);
    node.terminate();
    assert!(a.try_command(&cdb::test_unit_ready(), CommandData::None).is_err());
}

/// The end of the session requests a change, when there may be no core left to make it.
#[test]
fn a_node_ends_although_an_initiator_holds_a_unit_as_long_as_it_is_there() {
    const RESERVE_6: u8 = 0x16;
    for _ in 0..4 {
        let place = Place::new();
        let node = in_memory(&place, &[]);
        let mut holders = [login(&node, "a"), login(&node, "b")];
        holders.iter_mut().for_each(Initiator::hear_all);
        let mut reserve = [0; 16];
        reserve[0] = RESERVE_6;
        assert!(holders[0].command(&reserve, &CommandData::None).is_good());
        assert_eq!(holders[1].write(0, &[1; 4096]), Status::RESERVATION_CONFLICT);
        node.terminate();
    }
}
