//! The client crate's host over TLS, and `nearflash bench` with a PSK.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::Command;

use nearflash::nvme_tcp::{
    Derivation, HostError, HostIdentity, Io, Options, QueuePair, Tls, TlsError, Version, discover,
};
use nearflash_node_tests::{
    Host, Node, Place, eventually, nearflash, psk, psk_file, subsystem, two_cores,
};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::Hash;
use nearflash_nvme::tls::Psk;
use nearflash_units::{ByteLen, Lba, Nanos};
use serde_json::Value;
use uuid::Uuid;

const HOST: &str = "nqn.2026-11.test:host";

/// A node with the volume `data`, at a door with these options.
fn node<'a>(place: &'a Place, door: &str, flags: &[&str]) -> Node<'a> {
    let door = format!("127.0.0.1:0{door}");
    let usual = ["--nvme-tcp", &door, "--device", "r=ram:32MiB", "--volume", "data=16MiB@r"];
    Node::start_by(Command::new(nearflash()), place, &[&usual[..], flags].concat())
}

/// Adds the PSK of the host, with these options.
fn add(place: &Place, node: &Node<'_>, psk: &Psk, options: &[&str]) {
    let file = psk_file(place, "psk", psk);
    node.command(&[&["host", "add", HOST, "--psk-file", &file][..], options].concat());
}

fn options(node: &Node<'_>, tls: Option<Tls>) -> Options {
    let identity = HostIdentity { nqn: Nqn::new(HOST).unwrap(), id: Uuid::new_v4() };
    let timeout = Nanos::from_secs(30);
    Options::new(node.address(), subsystem("data"), identity).timeout(timeout).tls(tls)
}

/// Connects with TLS.
fn connect(node: &Node<'_>, tls: Tls, queues: u16) -> Result<Host, HostError> {
    Host::with_options(options(node, Some(tls)), queues)
}

#[test]
fn the_host_uses_tls_for_all_queues_with_each_kind_of_psk() {
    let place = Place::new();
    let cores = two_cores();
    let cores = cores.as_deref().map_or(vec![], |cores| vec!["--cores", cores]);
    let node = node(&place, ",tls=required", &cores);
    let sha384 = Psk::new(Some(Hash::Sha384), &[2; 48]).unwrap();
    let as_it_is = Psk::new(None, &[3; 32]).unwrap();
    for (psk, derivation, version) in [
        (psk(1), Derivation::Standard, Version::One),
        (sha384, Derivation::Legacy, Version::One),
        (as_it_is, Derivation::Standard, Version::Zero),
    ] {
        add(&place, &node, &psk, &["--psk-derivation", derivation.name()]);
        let tls = Tls::new(psk).derivation(derivation).version(version);
        connect(&node, tls, 4).unwrap().write_and_read();
        node.command(&["host", "remove", HOST]);
    }
}

#[test]
fn discovery_uses_the_same_psk() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let found = discover(&options(&node, Some(Tls::new(psk(1))))).unwrap();
    let data = subsystem("data").to_string();
    assert!(found.iter().any(|it| it.is_nvm && it.subsystem == data), "{found:?}");
}

#[test]
fn refusals_name_the_reason_and_the_remedy() {
    let place = Place::new();
    let secured = node(&place, ",tls=required", &[]);
    add(&place, &secured, &psk(1), &[]);
    let wrong_key = Tls::new(psk(2)).version(Version::Zero);
    let legacy = Tls::new(psk(1)).derivation(Derivation::Legacy);
    for tls in [wrong_key, Tls::new(psk(2)), legacy] {
        let error = connect(&secured, tls, 1).err().unwrap();
        let HostError::Tls { source: TlsError::Refused { .. }, .. } = &error else {
            panic!("{error}")
        };
        assert!(!error.is_transient(), "{error}");
        assert!(error.to_string().contains("nearflash host add NQN --psk-file FILE"), "{error}");
    }
    let error = Host::with_options(options(&secured, None), 1).err().unwrap();
    assert!(matches!(error, HostError::NotJoined { .. }), "{error}");
    assert!(error.to_string().contains("does it require TLS?"), "{error}");

    let place = Place::new();
    let plain = node(&place, "", &[]);
    let error = connect(&plain, Tls::new(psk(1)), 1).err().unwrap();
    assert!(matches!(error, HostError::Tls { source: TlsError::NoTls, .. }), "{error}");
    assert!(error.to_string().contains("serve this address with TLS"), "{error}");
}

#[test]
fn a_node_that_ends_breaks_the_connection_and_a_new_one_takes_the_host_again() {
    let place = Place::new();
    let first = node(&place, ",tls=required", &[]);
    add(&place, &first, &psk(1), &[]);
    let mut host = connect(&first, Tls::new(psk(1)), 1).unwrap();
    host.write_and_read();
    let count = host.namespace.block_size.blocks_in(ByteLen(128 << 10));
    let pair = &mut host.queues[0];
    for token in 0..16 {
        let buffer = pair.take_buffer(ByteLen(128 << 10)).unwrap();
        let io = Io::Write { start: Lba(0), count, buffer, force_unit_access: false };
        pair.submit(token, &host.namespace, io).unwrap();
    }
    pair.send().unwrap();
    first.crash();
    let (mut done, mut lost) = (Vec::new(), None);
    eventually("the connection is lost", || {
        lost = pair.poll(&mut done).err();
        lost.is_some()
    });
    assert!(matches!(lost, Some(HostError::Closed)), "{lost:?}");
    assert_eq!(done.len() + pair.in_flight().len(), 16);
    assert!(QueuePair::wait_any(std::slice::from_ref(pair), Nanos(1)).is_ok());

    let second = node(&place, ",tls=required", &[]);
    connect(&second, Tls::new(psk(1)), 1).unwrap().assert_works();
}

/// Runs `nearflash bench` against the volume, with these options of the URL.
fn bench(node: &Node<'_>, query: &str) -> Result<Value, String> {
    let url = format!("nvme-tcp://{}/data?{query}", node.address());
    let load = "--rw randrw --bs 16k --iodepth 16 --numjobs 2 --size 4MiB --offset-increment 4MiB \
                --verify crc32c --output-format json";
    let output = Command::new(nearflash())
        .args(["bench", &url])
        .args(load.split_whitespace())
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn the_bench_verifies_over_tls_and_reports_the_suite() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    add(&place, &node, &psk(1), &[]);
    let query = format!("host-nqn={HOST}&queues=2&psk-file={}", place.text("psk"));
    for query in [query.clone(), format!("{query}&digest=header,data")] {
        let report = bench(&node, &query).unwrap();
        assert_eq!(report["global options"]["tls"], "TLS_AES_128_GCM_SHA256");
        assert_eq!(report["jobs"][0]["error"], 0);
    }
    let wrong = psk_file(&place, "wrong", &psk(2));
    let message = bench(&node, &format!("host-nqn={HOST}&psk-file={wrong}")).unwrap_err();
    assert!(message.contains("refuses the handshake"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let missing = place.text("missing");
    let message = bench(&node, &format!("host-nqn={HOST}&psk-file={missing}")).unwrap_err();
    assert!(message.contains(&missing), "{message}");
}
