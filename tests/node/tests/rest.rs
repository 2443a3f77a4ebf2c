//! HTTP (REST) of a real node: over the Unix socket, and over TLS with tokens.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nearflash_node_tests::{Node, Place, eventually, refused};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;

const RAM: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"];

/// A response: its status, its head and its body.
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or("-").to_owned())
    }

    fn header(&self, name: &str) -> &str {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = headers.filter(|(it, _)| it.eq_ignore_ascii_case(name));
        found.next().unwrap_or_else(|| panic!("no {name} in {}", self.head)).1
    }
}

fn exchange(mut stream: impl Read + Write, request: [&str; 4]) -> Response {
    let [method, path, headers, body] = request;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // A node that refuses a request may close before it has read all of it.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

fn locally(node: &Node<'_>, method: &str, path: &str, body: &str) -> Response {
    with_headers(node, [method, path, "", body])
}

fn with_headers(node: &Node<'_>, request: [&str; 4]) -> Response {
    let socket = node.ready().http_local.as_ref().expect("HTTP is on by default");
    exchange(UnixStream::connect(socket).unwrap(), request)
}

#[test]
fn a_volume_is_created_grown_and_removed_over_the_unix_socket() {
    let place = Place::new();
    let node = Node::start(&place, &RAM);
    let socket = node.ready().http_local.clone().unwrap();
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let wanted = r#"{"name":"web","bytes":4194304,"device":"r","block_size":4096}"#;
    let made = locally(&node, "POST", "/v1/volumes", wanted);
    assert_eq!((made.status, made.header("location")), (201, "/v1/volumes/web"), "{}", made.body);
    assert_eq!(locally(&node, "POST", "/v1/volumes", wanted).status, 200, "it is there already");
    let listed = node.command(&["volume", "list"]);
    let listed = listed["volumes"].as_array().unwrap();
    assert!(listed.iter().any(|volume| volume["name"] == "web"), "{listed:?}");
    let grown = locally(&node, "PATCH", "/v1/volumes/web", r#"{"bytes":8388608}"#);
    assert_eq!((grown.status, &grown.json()["volume"]["bytes"]), (200, &8_388_608.into()));
    let smaller = locally(&node, "PATCH", "/v1/volumes/web", r#"{"bytes":4096}"#);
    assert_eq!(smaller.code(), (409, "would-shrink".to_owned()));
    let much = r#"{"name":"much","bytes":1099511627776,"device":"r"}"#;
    let full = locally(&node, "POST", "/v1/volumes", much);
    assert_eq!(full.code(), (507, "no-space".to_owned()));
    assert_eq!(locally(&node, "DELETE", "/v1/volumes/web", "").status, 200);
    let gone = locally(&node, "GET", "/v1/volumes/web", "");
    assert_eq!(gone.code(), (404, "volume-not-found".to_owned()));
    let long = "x".repeat(70_000);
    assert_eq!(locally(&node, "POST", "/v1/volumes", &long).status, 413);
    node.terminate();
    assert!(!socket.exists());
    assert!(place.log().contains("call=\"volume-create\" subject=\"web\" result=\"ok\""));
}

#[test]
fn every_query_is_answered_by_a_document() {
    let place = Place::new();
    let node = Node::start(&place, &RAM);
    for (path, field) in [
        ("/v1/status", "uptime_seconds"),
        ("/v1/volumes", "volumes"),
        ("/v1/volumes/data", "volume"),
        ("/v1/devices", "devices"),
        ("/v1/jobs", "jobs"),
        ("/v1/reservations", "reservations"),
        ("/v1/reservations/data", "reservations"),
        ("/v1/credentials", "credentials"),
        ("/v1/grants", "grants"),
        ("/v1/chap-accounts", "accounts"),
        ("/v1/tokens", "tokens"),
        ("/openapi.json", "paths"),
    ] {
        let answer = locally(&node, "GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.json().get(field).is_some(), "{path}: {}", answer.body);
    }
}

#[test]
fn rights_are_given_once_and_taken() {
    let place = Place::new();
    let node = Node::start(&place, &RAM);
    let made = locally(&node, "POST", "/v1/credentials", r#"{"id":"app"}"#);
    assert_eq!((made.status, made.header("location")), (201, "/v1/credentials/app"));
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    let again = locally(&node, "POST", "/v1/credentials", r#"{"id":"app"}"#);
    assert_eq!(again.code(), (409, "credential-exists".to_owned()));
    let grant = r#"{"credential":"app","volume":"data","rights":"r"}"#;
    let first = locally(&node, "POST", "/v1/grants", grant);
    let second = locally(&node, "POST", "/v1/grants", grant);
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.header("location"), "/v1/grants/1");
    assert_eq!(first.json(), second.json(), "a repeated request gives no second grant");
    assert_eq!(locally(&node, "DELETE", "/v1/grants/1", "").status, 200);
    assert_eq!(locally(&node, "DELETE", "/v1/credentials/app", "").status, 200);
    assert!(!place.log().contains(&secret));
}

#[test]
fn a_change_that_was_decided_on_an_older_state_has_no_effect() {
    let place = Place::new();
    let node = Node::start(&place, &RAM);
    let seen = locally(&node, "GET", "/v1/volumes/data", "");
    let tag = format!("If-Match: {}\r\n", seen.header("etag"));
    node.command(&["volume", "create", "other=4MiB@r"]);
    let resize = r#"{"bytes":16777216}"#;
    let refused = with_headers(&node, ["PATCH", "/v1/volumes/data", &tag, resize]);
    assert_eq!(refused.code(), (412, "generation-differs".to_owned()));
    let seen = locally(&node, "GET", "/v1/volumes/data", "");
    assert_eq!(seen.json()["volume"]["bytes"], 8 << 20);
    let tag = format!("If-Match: {}\r\n", seen.header("etag"));
    assert_eq!(with_headers(&node, ["PATCH", "/v1/volumes/data", &tag, resize]).status, 200);
}

#[test]
fn the_network_needs_tls_and_a_token_until_the_token_is_removed() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(place.path("http.crt"), made.cert.pem()).unwrap();
    std::fs::write(place.path("http.key"), made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (place.text("http.crt"), place.text("http.key"));
    let door = ["--http", "127.0.0.1:0", "--http-cert", &cert, "--http-key", &key];
    let node = Node::start(&place, &[&RAM[..], &door].concat());
    let address = node.ready().http.unwrap();
    let config = trusting(&made.cert.pem());
    let send = |secret: &str, method: &str, path: &str, body: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let stream = rustls::StreamOwned::new(session, TcpStream::connect(address).unwrap());
        let header = format!("Authorization: Bearer {secret}\r\n");
        exchange(stream, [method, path, &header, body])
    };
    let create = |name: &str, scope: &str| {
        let made = node.command(&["token", "create", name, "--scope", scope, "--for", "1h"]);
        made["secret"].as_str().unwrap().to_owned()
    };
    let (viewer, deploy) = (create("viewer", "read"), create("deploy", "operate"));
    assert_eq!(send("nft_wrong", "GET", "/v1/volumes", "").code().0, 401);
    assert_eq!(send(&viewer, "GET", "/v1/volumes", "").status, 200);
    let wanted = r#"{"name":"web","bytes":4194304,"device":"r"}"#;
    let refused = send(&viewer, "POST", "/v1/volumes", wanted);
    assert_eq!(refused.code(), (403, "scope-missing".to_owned()));
    assert_eq!(send(&deploy, "POST", "/v1/volumes", wanted).status, 201);
    assert_eq!(send(&deploy, "DELETE", "/v1/volumes/web", "").status, 403);
    node.command(&["token", "remove", "viewer"]);
    assert_eq!(send(&viewer, "GET", "/v1/volumes", "").status, 401);
    // Without TLS there is no answer that a program could take for one.
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    node.terminate();
    let log = place.log();
    assert!(log.contains("who=\"token deploy\" call=\"volume-create\" subject=\"web\""), "{log}");
    assert!(
        log.contains("who=\"token viewer\" user=\"\" what=\"volume-create web\" reason=\"scope\"")
    );
    assert!(log.contains("what=\"/v1/volumes\" reason=\"not-proved\""), "{log}");
    assert!(!log.contains(&viewer) && !log.contains(&deploy), "{log}");
    // A token outlives a restart, and its hash alone is recorded.
    let node = Node::start(&place, &[&RAM[..], &door].concat());
    let tokens = node.command(&["token", "list"])["tokens"].clone();
    assert_eq!((tokens[0]["name"].as_str(), tokens.as_array().unwrap().len()), (Some("deploy"), 1));
    let catalog = std::fs::read(place.path("data/catalog.redb")).unwrap();
    let secret = deploy.as_bytes();
    assert!(!catalog.windows(secret.len()).any(|window| window == secret));
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let place = Place::new();
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(place.path("http.key"), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(place.path("http.crt"), made.cert.pem()).unwrap();
        trusting(&made.cert.pem())
    };
    let old = renew();
    let (cert, key) = (place.text("http.crt"), place.text("http.key"));
    let door = ["--http", "127.0.0.1:0", "--http-cert", &cert, "--http-key", &key];
    let node = Node::start(&place, &[&RAM[..], &door].concat());
    let address = node.ready().http.unwrap();
    let connects = |config: &Arc<rustls::ClientConfig>| {
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = rustls::ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        session.complete_io(&mut socket).is_ok()
    };
    assert!(connects(&old));
    std::fs::write(place.path("http.key"), "not a key").unwrap();
    eventually("the log has the reason", || {
        assert!(connects(&old), "the old pair stays");
        place.log().contains("the certificate stays as it was: --http-key")
    });
    let new = renew();
    eventually("the new certificate is used", || connects(&new));
    assert!(!connects(&old));
    assert_eq!(place.log().matches("the certificate stays as it was: --http-key").count(), 1);
}

fn trusting(cert: &str) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

#[test]
fn events_tell_of_changes_that_others_make() {
    let place = Place::new();
    let node = Node::start(&place, &RAM);
    let mut stream = UnixStream::connect(node.ready().http_local.as_ref().unwrap()).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut seen = String::new();
    let mut until = |is_there: &dyn Fn(&str) -> bool| {
        while !is_there(&seen) {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).unwrap();
            assert_ne!(count, 0, "the stream ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    };
    until(&|seen| seen.contains("event: state\n"));
    node.command(&["volume", "create", "web=4MiB@r"]);
    until(&|seen| seen.matches("event: state\n").count() > 1);
    until(&|seen| seen.contains("\"volume\":\"web\",\"state\":\"done\""));
}

#[test]
fn http_can_be_switched_off_and_the_network_has_tls_only() {
    let place = Place::new();
    let node = Node::start(&place, &[&RAM[..], &["--http", "none"]].concat());
    assert_eq!(node.ready().http_local, None);
    assert!(!place.path("data/http.sock").exists());
    node.terminate();
    let data_dir = place.data_dir();
    let start = |flags: &[&str]| {
        let all =
            [&["serve", "--data-dir", &data_dir, "--nvme-tcp", "127.0.0.1:0"], &RAM[..], flags];
        let refusal = refused(&all.concat());
        (refusal.code, place.anonymous(&refusal.message))
    };
    let message = "--http 127.0.0.1:0: HTTP on the network needs TLS, also on a loopback address: add \
                   --http-cert FILE and --http-key FILE";
    assert_eq!(start(&["--http", "127.0.0.1:0"]), (2, message.to_owned()));
    let message =
        "--http: 'here' is not a valid address: write IP:PORT, for example 127.0.0.1:4423, or none";
    assert_eq!(start(&["--http", "here"]), (2, message.to_owned()));
    std::fs::write(place.path("empty"), "").unwrap();
    let empty = place.text("empty");
    let door = ["--http", "127.0.0.1:0", "--http-cert", &empty, "--http-key", &empty];
    let (code, message) = start(&door);
    assert_eq!(code, 2);
    assert!(message.starts_with("--http-cert DIR/empty: "), "{message}");
}
