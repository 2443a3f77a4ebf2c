//! A protocol that was closed stays closed: the removal of the last key of a protocol, of the keys of a host or of the
//! last list lets nobody in, also after a restart. Only the start of the node opens it again.

use nearflash::Error;
use nearflash::direct::Status;
use nearflash::nvme_tcp::{Controller, HostIdentity, Options};
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_node_tests::{
    Door, Initiator, Key, Node, Place, Who, assert_serves_direct, assert_serves_iscsi, subsystem,
};
use nearflash_units::Nanos;
use uuid::Uuid;

/// A node with all protocols, whose catalog lasts.
fn start<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    let device = place.flash("16MiB");
    let iscsi = ["--iscsi", "127.0.0.1:0", "--device", &device];
    let volumes: &[&str] = match place.path("started").exists() {
        true => &[],
        false => &["--volume", "data=4MiB@flash", "--volume", "hidden=4MiB@flash"],
    };
    std::fs::write(place.path("started"), "").unwrap();
    Node::with_direct(place, &[&iscsi[..], volumes, flags].concat())
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    let error = result.expect_err("it is refused");
    error.status().unwrap_or_else(|| panic!("the node gives no status: {error}"))
}

#[test]
fn the_removal_of_the_last_credential_lets_nobody_in() {
    let place = Place::new();
    let node = start(&place, &[]);
    assert_serves_direct(&node);
    let _key = Key::create(&node, "app", &[]);
    node.command(&["credential", "remove", "app"]);
    let is_closed = |node: &Node<'_>| {
        for door in Door::ALL {
            assert_eq!(status(door.anonymous(node)), Status::AUTHENTICATION_FAILED);
        }
        assert_eq!(node.command(&["status"])["closed"][0], "direct");
    };
    is_closed(&node);
    node.terminate();
    let node = start(&place, &[]);
    is_closed(&node);
    node.terminate();
    let node = start(&place, &["--anonymous", "direct"]);
    assert_serves_direct(&node);
    node.terminate();
    let node = start(&place, &[]);
    is_closed(&node);
    node.terminate();
}

#[test]
fn the_removal_of_the_last_chap_user_lets_nobody_in() {
    let place = Place::new();
    let node = start(&place, &[]);
    assert_serves_iscsi(&node);
    node.command(&["chap", "add", "app"]);
    node.command(&["chap", "remove", "app"]);
    let refused = |node: &Node<'_>| Initiator::refused(node, "data", &Who::named("a"));
    assert_eq!(refused(&node), LoginStatus::AUTHENTICATION_FAILURE);
    node.terminate();
    let node = start(&place, &["--anonymous", "direct"]);
    assert_eq!(refused(&node), LoginStatus::AUTHENTICATION_FAILURE);
    node.terminate();
    let node = start(&place, &["--anonymous", "iscsi"]);
    assert_serves_iscsi(&node);
    node.terminate();
}

#[test]
fn a_host_that_had_keys_and_a_list_enters_without_them_only_when_it_is_forgotten() {
    let place = Place::new();
    let identity = HostIdentity::from_uuid(Uuid::from_u128(0x5EED));
    let nqn = identity.nqn.to_string();
    let connects = |node: &Node<'_>, volume: &str| {
        let options = Options::new(node.address(), subsystem(volume), identity.clone());
        Controller::connect(&options.timeout(Nanos::from_secs(60))).is_ok()
    };
    let named = ["--host", &nqn];
    let node = start(&place, &named);
    assert!(connects(&node, "hidden"));
    node.command(&["host", "add", &nqn, "--volume", "data:r"]);
    node.command(&["host", "remove", &nqn]);
    assert!(!connects(&node, "data") && !connects(&node, "hidden"));
    node.terminate();
    let node = start(&place, &named);
    assert!(!connects(&node, "data") && !connects(&node, "hidden"));
    assert_eq!(node.command(&["host", "list"])["removed"][0], nqn);
    node.command(&["host", "remove", &nqn, "--forget"]);
    assert!(!connects(&node, "hidden"), "the last list opens nothing either");
    node.terminate();
    let node = start(&place, &["--unlisted-hosts", "all"]);
    assert!(connects(&node, "data") && connects(&node, "hidden"));
    node.terminate();
}
