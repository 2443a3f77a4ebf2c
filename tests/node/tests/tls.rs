//! NVMe/TCP over TLS: hosts with a PSK, and peers that must be refused.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use nearflash::nvme_tcp::{HostError, HostIdentity, Options};
use nearflash_node_tests::{
    Host, Node, Place, TlsIdentity, TlsProxy, eventually, psk, psk_file, subsystem, two_cores,
};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::Hash;
use nearflash_nvme::tls::{Derivation, Psk, Version};
use nearflash_tls::Failure;
use uuid::Uuid;

const HOST: &str = "nqn.2026-11.test:host";

/// The identity of the host for the volume `data`.
fn identity(psk: Psk) -> TlsIdentity {
    TlsIdentity {
        psk,
        derivation: Derivation::Standard,
        version: Version::One,
        host: Nqn::new(HOST).unwrap(),
        subsystem: subsystem("data"),
    }
}

/// A node with the volume `data`, at a door with these options.
fn node<'a>(place: &'a Place, door: &str, flags: &[&str]) -> Node<'a> {
    let door = format!("127.0.0.1:0,{door}");
    let usual = ["--nvme-tcp", &door, "--device", "r=ram:32MiB", "--volume", "data=16MiB@r"];
    Node::start_by(
        std::process::Command::new(nearflash_node_tests::nearflash()),
        place,
        &[&usual[..], flags].concat(),
    )
}

/// Adds the PSK of the host, with these options.
fn add(place: &Place, node: &Node<'_>, psk: &Psk, options: &[&str]) {
    let file = psk_file(place, "psk", psk);
    node.command(&[&["host", "add", HOST, "--psk-file", &file][..], options].concat());
}

/// Connects the host to an address.
fn connect(address: SocketAddr, name: &str, queues: u16) -> Result<Host, HostError> {
    let identity = HostIdentity { nqn: Nqn::new(name).unwrap(), id: Uuid::new_v4() };
    Host::with_options(Options::new(address, subsystem("data"), identity), queues)
}

#[test]
fn hosts_of_both_hashes_and_derivations_write_and_read_on_several_cores() {
    let place = Place::new();
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    let node = node(&place, "tls=required", &cores);
    let sha384 = Psk::new(Some(Hash::Sha384), &[2; 48]).unwrap();
    let as_it_is = Psk::new(None, &[3; 32]).unwrap();
    for (psk, derivation, version) in [
        (psk(1), Derivation::Standard, Version::One),
        (sha384, Derivation::Legacy, Version::One),
        (as_it_is, Derivation::Standard, Version::Zero),
    ] {
        add(&place, &node, &psk, &["--psk-derivation", derivation.name()]);
        let identity = TlsIdentity { derivation, version, ..identity(psk) };
        let proxy = TlsProxy::start(node.address(), identity);
        let mut host = connect(proxy.address(), HOST, 4).unwrap();
        host.write_and_read();
        node.command(&["host", "remove", HOST]);
    }
    for hash in ["sha256", "sha384"] {
        eventually("the log names the hash", || {
            let log = place.log();
            log.lines().any(|it| it.contains("connected with TLS") && it.contains(hash))
        });
    }
}

#[test]
fn a_connection_that_a_removed_psk_has_proved_ends_before_the_host_gets_another_psk() {
    let place = Place::new();
    let node = node(&place, "tls=required", &["--login-timeout", "5m"]);
    add(&place, &node, &psk(1), &[]);
    let (mut socket, _stream) = identity(psk(1)).connect(node.address()).unwrap();
    node.command(&["host", "remove", HOST]);
    add(&place, &node, &psk(2), &[]);
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let still_open = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
    let closed = socket.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    let is_open = closed.is_err_and(|kind| still_open.contains(&kind));
    assert!(!is_open, "the node has not closed the connection");
}

#[test]
fn a_host_without_tls_is_refused_where_it_must_use_it() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    assert!(connect(node.address(), HOST, 1).is_err());
    eventually("the log names the reason", || {
        place.log().contains("the peer does not use TLS, which this address requires")
    });
}

#[test]
fn both_kinds_of_hosts_connect_where_tls_is_allowed_and_a_host_that_must_use_it_only_with_it() {
    let place = Place::new();
    let node = node(&place, "tls=allowed", &[]);
    add(&place, &node, &psk(1), &[]);
    let proxy = TlsProxy::start(node.address(), identity(psk(1)));
    connect(proxy.address(), HOST, 2).unwrap().write_and_read();
    assert!(connect(node.address(), HOST, 1).is_err());
    connect(node.address(), "nqn.2026-11.test:other", 2).unwrap().write_and_read();
    node.command(&["host", "remove", HOST]);
    add(&place, &node, &psk(1), &["--tls", "allowed"]);
    assert!(connect(node.address(), HOST, 1).is_ok());
}

#[test]
fn unknown_hosts_and_other_keys_are_refused_and_logged_with_identity_and_hash() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let unknown =
        TlsIdentity { host: Nqn::new("nqn.2026-11.test:unknown").unwrap(), ..identity(psk(1)) };
    let other_key = TlsIdentity { version: Version::Zero, ..identity(psk(2)) };
    let other_digest = identity(psk(2));
    let legacy = TlsIdentity { derivation: Derivation::Legacy, ..identity(psk(1)) };
    let other_hash = identity(Psk::new(Some(Hash::Sha384), &[1; 48]).unwrap());
    for (refused, reason) in [
        (unknown, "the host has no PSK"),
        (other_key, "the host's key is another one"),
        (other_digest, "the digest in the identity is not that of the host's PSK"),
        (legacy, "the digest in the identity is not that of the host's PSK"),
        (other_hash, "the PSK of the host is for sha256"),
    ] {
        let failure = refused.connect(node.address()).map(|_| ()).unwrap_err();
        assert!(matches!(failure, Failure::Protocol(_)), "an alert: {failure}");
        let identity = refused.identity();
        let (name, hash) = (identity.to_string(), identity.suite.hash().name());
        eventually("the log has the reason, the identity and the hash", || {
            let is_it =
                |line: &str| line.contains(&name) && line.contains(hash) && line.contains(reason);
            place.log().lines().any(is_it)
        });
    }
    let proxy = TlsProxy::start(node.address(), identity(psk(1)));
    assert!(connect(proxy.address(), HOST, 1).is_ok());
}

#[test]
fn a_connection_is_for_the_host_and_the_subsystem_of_its_identity() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let proxy = TlsProxy::start(node.address(), identity(psk(1)));
    assert!(connect(proxy.address(), "nqn.2026-11.test:other", 1).is_err());
    let for_discovery = TlsIdentity { subsystem: Nqn::discovery(), ..identity(psk(1)) };
    let proxy = TlsProxy::start(node.address(), for_discovery);
    assert!(connect(proxy.address(), HOST, 1).is_err());
}

#[test]
fn garbage_and_silence_end_only_their_own_connections() {
    let place = Place::new();
    let node = node(&place, "tls=allowed", &["--login-timeout", "1s"]);
    add(&place, &node, &psk(1), &[]);
    let proxy = TlsProxy::start(node.address(), identity(psk(1)));
    let mut host = connect(proxy.address(), HOST, 1).unwrap();
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 507]].concat();
    for bytes in
        [&b"\x16garbage garbage garbage"[..], &hello, b"\x17\x03\x03\x00\x10", b"\x16", b""]
    {
        let mut socket = TcpStream::connect(node.address()).unwrap();
        socket.write_all(bytes).unwrap();
        // An alert may come before the end.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    host.write_and_read();
}

/// Replaces the PSK of the host, with these options.
fn rotate(place: &Place, node: &Node<'_>, psk: &Psk, options: &[&str]) {
    let file = place.text("psk");
    std::fs::write(&file, psk.to_text().as_bytes()).unwrap();
    node.command(&[&["host", "rotate", HOST, "--psk-file", &file][..], options].concat());
}

#[test]
fn a_host_connects_with_either_psk_while_they_overlap_and_stays_connected_meanwhile() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let (old, new) = (identity(psk(1)), identity(psk(2)));
    let old_proxy = TlsProxy::start(node.address(), old.clone());
    let mut host = connect(old_proxy.address(), HOST, 1).unwrap();
    assert!(new.connect(node.address()).is_err());
    rotate(&place, &node, &psk(2), &["--overlap", "1h"]);
    let hosts = node.command(&["host", "list"]);
    assert!(hosts["hosts"][0]["previous_psk_until"].is_u64(), "{hosts}");
    assert!(new.connect(node.address()).is_ok());
    assert!(!place.log().contains("previous PSK"));
    assert!(old.connect(node.address()).is_ok());
    eventually("the log says that the old PSK is in use", || {
        place.log().lines().any(|it| it.contains("previous PSK") && it.contains(HOST))
    });
    // The same PSK again, without an overlap: the old one ends.
    rotate(&place, &node, &psk(2), &[]);
    assert!(old.connect(node.address()).is_err());
    assert!(new.connect(node.address()).is_ok());
    host.write_and_read();
}

#[test]
fn the_old_psk_is_refused_and_forgotten_when_the_overlap_has_ended() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    rotate(&place, &node, &psk(2), &["--overlap", "2s"]);
    eventually("the old PSK is forgotten", || {
        place.log().contains("a replaced key of a host has expired")
    });
    let hosts = node.command(&["host", "list"]);
    assert!(hosts["hosts"][0]["previous_psk_until"].is_null(), "{hosts}");
    assert!(identity(psk(1)).connect(node.address()).is_err());
    assert!(identity(psk(2)).connect(node.address()).is_ok());
}

#[test]
fn a_host_is_disconnected_when_its_psk_is_removed() {
    let place = Place::new();
    let node = node(&place, "tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let proxy = TlsProxy::start(node.address(), identity(psk(1)));
    let host = connect(proxy.address(), HOST, 1).unwrap();
    node.command(&["host", "remove", HOST]);
    let status = node.command(&["status"]);
    assert_eq!(status["hosts"].as_array().map(Vec::len), Some(0), "{status}");
    drop(host);
    assert!(identity(psk(1)).connect(node.address()).is_err());
}

/// OpenSSL costs a process 1.7 MB of resident memory.
#[test]
fn a_node_without_tls_does_not_load_openssl() {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", node.pid())).unwrap();
    assert!(maps.contains("libc.so") && !maps.contains("libssl") && !maps.contains("libcrypto"));
}
