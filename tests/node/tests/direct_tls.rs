//! The direct protocol over TLS: clients with a credential or a seal, and peers that must be refused.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::net::SocketAddr;

use nearflash::direct::Status;
use nearflash::{Client, Credentials, Error};
use nearflash_node_tests::{
    Door, Key, Node, Place, TlsProxy, eventually, shake_hands_as_client, two_cores,
};

/// A node with the volume `data` of 16 MiB in a file, and a direct door with these options.
fn node<'a>(place: &'a Place, door: &str, flags: &[&str]) -> Node<'a> {
    let (door, device) = (format!("127.0.0.1:0{door}"), place.flash("64MiB"));
    let usual = ["--direct", &door, "--device", &device, "--volume", "data=16MiB@flash"];
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    Node::start(place, &[&usual[..], &cores, flags].concat())
}

/// A credential with a grant on all of `data`.
fn key(node: &Node<'_>, id: &'static str) -> Key {
    let key = Key::create(node, id, &[]);
    key.grant(node, "data", &["--rights", "rw"]);
    key
}

/// Connects a client without TLS.
fn plain(address: SocketAddr, key: &Key) -> Result<Client, Error> {
    let credentials = Credentials::new(key.id(), key.secret())?;
    Client::connect(&format!("direct://{address}/data"), credentials)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 4096 + at) % 251).unwrap()).collect()
}

/// Writes 8 MiB at an odd offset, and reads them.
fn write_and_read(client: &Client) {
    let volume = client.open_named().unwrap();
    let written = pattern(8 << 20);
    volume.write_at(&written, 12_345).unwrap();
    let mut read = vec![0; written.len()];
    volume.read_at(&mut read, 12_345).unwrap();
    assert!(read == written);
}

#[test]
fn a_client_behind_an_end_of_tls_is_served_and_named() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let key = key(&node, "app");
    let proxy = TlsProxy::for_clients(node.direct_address(), "app", key.secret_bytes());
    write_and_read(&plain(proxy.address(), &key).unwrap());
    eventually("the log names the client", || {
        let log = place.log();
        log.lines().any(|line| line.contains("client connected with TLS") && line.contains("app"))
    });
    node.terminate();
}

#[test]
fn a_client_without_tls_is_refused_where_it_must_use_it() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let key = key(&node, "app");
    assert!(plain(node.direct_address(), &key).is_err());
    assert!(Door::Tcp.anonymous(&node).is_err());
    eventually("the log names the reason", || {
        place.log().contains("the peer does not use TLS, which this address requires")
    });
    node.terminate();
}

#[test]
fn both_kinds_of_clients_are_served_where_tls_is_allowed() {
    let place = Place::new();
    let node = node(&place, ",tls=allowed", &[]);
    let key = key(&node, "app");
    let proxy = TlsProxy::for_clients(node.direct_address(), "app", key.secret_bytes());
    write_and_read(&plain(proxy.address(), &key).unwrap());
    write_and_read(&plain(node.direct_address(), &key).unwrap());
    node.terminate();
}

#[test]
fn a_client_that_proves_one_key_by_tls_and_names_another_in_hello_is_refused() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let (one, other) = (key(&node, "one"), key(&node, "other"));
    let proxy = TlsProxy::for_clients(node.direct_address(), "one", one.secret_bytes());
    let refused = plain(proxy.address(), &other).unwrap_err();
    assert_eq!(refused.status(), Some(Status::AUTHENTICATION_FAILED), "{refused}");
    let url = format!("direct://{}", proxy.address());
    assert!(Client::connect(&url, Credentials::NONE).is_err(), "and one that names none");
    let told = || place.log().matches("HELLO names another key than the one that TLS").count();
    eventually("the log names the reason", || told() == 2);
    write_and_read(&plain(proxy.address(), &one).unwrap());
    node.terminate();
}

#[test]
fn a_removed_credential_opens_no_connection_and_a_new_one_does_at_once() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let address = node.direct_address();
    assert!(shake_hands_as_client(address, "app", [7; 32]).is_err(), "there is no credential");
    eventually("the log names the remedy", || {
        place.log().contains("create one with 'nearflash credential create'")
    });
    let key = key(&node, "app");
    assert!(shake_hands_as_client(address, "app", key.secret_bytes()).is_ok());
    node.command(&["credential", "remove", "app"]);
    assert!(shake_hands_as_client(address, "app", key.secret_bytes()).is_err());
    let again = self::key(&node, "app");
    assert!(shake_hands_as_client(address, "app", key.secret_bytes()).is_err());
    assert!(shake_hands_as_client(address, "app", again.secret_bytes()).is_ok());
    node.terminate();
}
