//! The direct protocol over TLS: clients with a credential or a seal, and peers that must be refused.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::net::SocketAddr;
use std::process::Command;

use nearflash::direct::Status;
use nearflash::{Buffer, Client, Completion, Credentials, Error, QueueOptions, QueuePair};
use nearflash_node_tests::{
    Door, Key, Node, PATIENCE, Place, Recorder, TlsProxy, eventually, nearflash,
    shake_hands_as_client, two_cores,
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
    let refused = plain(node.direct_address(), &key).unwrap_err().to_string();
    assert!(refused.contains("if the address requires TLS, write direct+tls://"), "{refused}");
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

/// The URL of `data` over TLS at this address, with the secret in a file.
fn url(place: &Place, address: SocketAddr, key: &Key) -> String {
    let file = place.text(&format!("{}.secret", key.id()));
    std::fs::write(&file, key.secret()).unwrap();
    format!("direct+tls://{address}/data?key={}&secret-file={file}", key.id())
}

/// Runs `nearflash files`.
fn files(arguments: &[&str]) {
    let output = Command::new(nearflash()).arg("files").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[test]
fn files_and_volumes_over_tls_leave_no_plaintext_on_the_wire() {
    const MARK: &[u8] = b"the payload of the files has this mark";
    let place = Place::new();
    let node = node(&place, ",tls=required", &["--direct", "127.0.0.1:0"]);
    let key = key(&node, "app");
    let [secured, plain] = node.ready().direct[..] else { panic!("two addresses") };
    let (recorder, control) = (Recorder::start(secured), Recorder::start(plain));
    let (with_tls, without) = (url(&place, recorder.address(), &key), {
        let url = url(&place, control.address(), &key);
        url.replace("direct+tls", "direct")
    });
    let at = |url: &str, path: &str| url.replace("/data?", &format!("/data/{path}?"));
    let (source, copy) = (place.text("source"), place.text("copy"));
    let contents = MARK.repeat(40_000);
    std::fs::write(&source, &contents).unwrap();
    files(&["format", &with_tls]);
    files(&["put", &source, &at(&with_tls, "dir-name")]);
    files(&["get", &at(&with_tls, "dir-name"), &copy]);
    assert!(std::fs::read(&copy).unwrap() == contents);
    assert!(recorder.len() > 2 * contents.len(), "{} bytes", recorder.len());
    for plaintext in [MARK, b"dir-name", b"NFDIRECT"] {
        assert_eq!(recorder.count(plaintext), 0, "{}", plaintext.escape_ascii());
    }
    files(&["get", &at(&without, "dir-name"), &copy, "--replace"]);
    for plaintext in [MARK, b"NFDIRECT"] {
        assert!(control.count(plaintext) > 0, "the recorder sees {}", plaintext.escape_ascii());
    }
    node.terminate();
}

#[test]
fn a_wrong_secret_and_an_unknown_key_are_refused_alike_over_tls() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let key = key(&node, "app");
    let unknown = Key::create(&node, "gone", &[]);
    node.command(&["credential", "remove", "gone"]);
    let refused = |key: &Key| {
        let error = key.connect_with_tls(&node).unwrap_err();
        assert!(error.to_string().contains("credential create"), "{error}");
        error.status()
    };
    assert_eq!(refused(&key.forged()), Some(Status::AUTHENTICATION_FAILED));
    assert_eq!(refused(&unknown), Some(Status::AUTHENTICATION_FAILED));
    eventually("the log tells them apart", || {
        let log = place.log();
        let told = |name: &str, reason: &str| {
            log.lines().any(|line| line.contains(name) && line.contains(reason))
        };
        told("NFdirect1 app", "the client's secret is another one")
            && told("NFdirect1 gone", "there is no credential of this name")
    });
    key.connect_with_tls(&node).unwrap().open("data").unwrap();
    node.terminate();
}

#[test]
fn a_url_with_tls_needs_a_credential_and_an_address_with_tls() {
    let place = Place::new();
    let node = node(&place, "", &[]);
    let key = key(&node, "app");
    let url = format!("direct+tls://{}", node.direct_address());
    let refused = Client::connect(&url, Credentials::NONE).unwrap_err().to_string();
    assert!(refused.contains("append ?key=ID&secret-file=PATH"), "{refused}");
    let refused = key.connect_with_tls(&node).unwrap_err().to_string();
    assert!(refused.contains("write direct://"), "{refused}");
    node.terminate();
}

#[test]
fn a_credential_that_is_removed_or_has_expired_is_over_for_those_who_are_in_over_tls() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let key = key(&node, "app");
    let volume = key.connect_with_tls(&node).unwrap().open("data").unwrap();
    volume.write_at(&[1; 8], 0).unwrap();
    node.command(&["credential", "remove", "app"]);
    assert!(volume.read_at(&mut [0; 8], 0).is_err());
    let refused = key.connect_with_tls(&node).unwrap_err();
    assert_eq!(refused.status(), Some(Status::AUTHENTICATION_FAILED));
    let short = Key::create(&node, "short", &["--expires", "1s"]);
    eventually("the credential expires", || {
        let refused = short.connect_with_tls(&node).err().and_then(|it| it.status());
        refused == Some(Status::AUTHENTICATION_FAILED)
    });
    eventually("the log has the reason", || place.log().contains("its credential has expired"));
    node.terminate();
}

#[test]
fn a_seal_opens_over_tls_on_a_node_without_credentials_until_it_is_revoked() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let made = node.command(&["grant", "seal", "data", "--range", "1MiB..2MiB", "--rights", "rw"]);
    let url = made["url"].as_str().unwrap();
    assert!(url.starts_with("direct+tls://"), "the address requires TLS");
    let open = || Client::connect(url, Credentials::NONE)?.open_named();
    let object = open().unwrap();
    object.write_at(b"sealed", 4093).unwrap();
    let mut found = [0; 6];
    object.read_at(&mut found, 4093).unwrap();
    assert_eq!(&found, b"sealed");
    let number = made["grant"]["number"].as_u64().unwrap().to_string();
    node.command(&["grant", "revoke", &number]);
    assert!(object.read_at(&mut found, 0).is_err());
    assert!(open().is_err());
    node.terminate();
}

#[test]
fn a_client_connects_again_over_tls_after_the_node_was_killed() {
    let place = Place::new();
    let first = node(&place, ",tls=required", &[]);
    let key = key(&first, "app");
    let address = first.direct_address();
    let volume = key.connect_with_tls(&first).unwrap().open("data").unwrap();
    volume.write_durable_at(&[7; 4096], 8192).unwrap();
    first.crash();
    let (door, device) = (format!("{address},tls=required"), place.flash("64MiB"));
    let second = Node::start(&place, &["--direct", &door, "--device", &device]);
    let mut found = [0; 4096];
    volume.read_at(&mut found, 8192).unwrap();
    assert_eq!(found, [7; 4096]);
    second.terminate();
}

#[test]
fn many_operations_in_flight_over_tls_end_with_their_own_bytes() {
    const COUNT: u64 = 64;
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let client = key(&node, "app").connect_with_tls(&node).unwrap();
    let mut pair = client.queue_pair("data", QueueOptions::default().depth(64)).unwrap();
    // Lengths of parts of records, and of many.
    let len = |number: u64| usize::try_from(number * number * 47 % 200_000 + 1).unwrap();
    let mut done = Vec::new();
    for number in 0..COUNT {
        let mut buffer = pair.buffer(len(number)).unwrap();
        buffer.fill(u8::try_from(number).unwrap());
        pair.post_write_at(buffer, number * 200_000).unwrap();
    }
    finish(&mut pair, &mut done);
    for number in 0..COUNT {
        let buffer = pair.buffer(len(number)).unwrap();
        pair.post_read_at(buffer, number * 200_000).unwrap();
    }
    for read in finish(&mut pair, &mut done) {
        let buffer = read.buffer.unwrap();
        let first = buffer[0];
        assert_eq!(buffer.len(), len(first.into()));
        assert!(buffer.iter().all(|byte| *byte == first));
    }
    node.terminate();
}

/// Polls, and sleeps in between, until nothing is in flight.
fn finish(pair: &mut QueuePair, done: &mut Vec<Completion>) -> Vec<Completion> {
    while pair.in_flight() > 0 {
        // Few at a time, so that input is held over polls.
        pair.poll_up_to(done, 2).unwrap();
        if pair.in_flight() > 0 {
            pair.wait(PATIENCE).unwrap();
        }
    }
    assert!(done.iter().all(|done| done.result.is_ok()));
    std::mem::take(done)
}

#[test]
fn tasks_share_an_asynchronous_volume_over_tls() {
    let place = Place::new();
    let node = node(&place, ",tls=required", &[]);
    let client = key(&node, "app").connect_with_tls(&node).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let volume = client.open_async("data", QueueOptions::default()).await.unwrap();
        let tasks = (0_u8..16).map(|number| {
            let volume = volume.clone();
            tokio::spawn(async move {
                let at = u64::from(number) << 19;
                let mut buffer = Buffer::new(300_000);
                for round in 0..8 {
                    buffer.fill(number ^ round);
                    buffer = volume.write_at(buffer, at).await.unwrap();
                    buffer.fill(0xFF);
                    buffer = volume.read_at(buffer, at).await.unwrap();
                    assert!(buffer.iter().all(|byte| *byte == number ^ round));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    node.terminate();
}
