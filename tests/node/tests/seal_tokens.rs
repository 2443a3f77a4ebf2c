//! Seals of operators: a URL gives a job a range of a volume, with and without credentials on the node.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::time::Instant;

use nearflash::direct::{Lost, Seal, SealToken, Status};
use nearflash::{Client, Credentials, Error, Volume};
use nearflash_node_tests::{Door, Key, Node, PATIENCE, Place, two_cores};

const MIB: u64 = 1 << 20;

/// A node with two volumes of 16 MiB.
fn started<'a>(place: &'a Place, device: &str) -> Node<'a> {
    let cores = two_cores();
    let mut flags = vec!["--device", device, "--volume", "data=16MiB@flash"];
    flags.extend(["--volume", "other=16MiB@flash"]);
    if let Some(cores) = &cores {
        flags.extend(["--cores", cores]);
    }
    Node::with_direct(place, &flags)
}

/// The number and the token of a new seal for `data`.
fn sealed(node: &Node<'_>, flags: &[&str]) -> (u64, String) {
    let made = node.command(&[&["grant", "seal", "data"], flags].concat());
    let url = made["url"].as_str().unwrap();
    let token = made["token"].as_str().unwrap().to_owned();
    assert_eq!(url, format!("{}/data?seal={token}", Door::Tcp.url(node)));
    (made["grant"]["number"].as_u64().unwrap(), token)
}

fn open(node: &Node<'_>, door: Door, token: &str) -> Result<Volume, Error> {
    let url = format!("{}/data?seal={token}", door.url(node));
    Client::connect(&url, Credentials::NONE)?.open_named()
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    match result.expect_err("it is refused") {
        Error::ConnectionLost(Lost::Peer(error)) | Error::Refused { source: error, .. } => {
            match error {
                nearflash::direct::PeerError::Goodbye(status) => status,
                error => panic!("another error: {error}"),
            }
        }
        error => error.status().unwrap_or_else(|| panic!("the node gives no status: {error}")),
    }
}

#[test]
fn a_url_gives_a_job_a_range_until_the_grant_is_revoked() {
    let place = Place::new();
    let node = started(&place, &place.flash("64MiB"));
    let mut first = None;
    for door in Door::ALL {
        let (number, token) = sealed(&node, &["--range", "1MiB..2MiB", "--rights", "rw"]);
        let job = open(&node, door, &token).unwrap();
        assert_eq!(job.info().len, MIB);
        job.write_at(b"sealed", 4093).unwrap();
        let mut found = [0; 6];
        job.read_at(&mut found, 4093).unwrap();
        assert_eq!(&found, b"sealed");
        assert_eq!(status(job.read_at(&mut found, MIB - 3)), Status::OUT_OF_RANGE);
        let url = format!("{}/data?seal={token}", door.url(&node));
        let client = Client::connect(&url, Credentials::NONE).unwrap();
        assert_eq!(status(client.open("other")), Status::NOT_GRANTED);
        if first.is_none() {
            // From now on, the node has a credential, and its holder sees what the job wrote.
            let owner = Key::create(&node, "app", &[]);
            owner.grant(&node, "data", &["--rights", "r"]);
            let whole = owner.connect(&node, door).unwrap().open("data").unwrap();
            whole.read_at(&mut found, MIB + 4093).unwrap();
            assert_eq!(&found, b"sealed");
            job.read_at(&mut found, 0).unwrap();
            first = Some(job.clone());
        }
        let listed = node.command(&["grant", "list"]);
        let listed = listed["grants"].as_array().unwrap();
        let grant = listed.iter().find(|grant| grant["number"] == number).unwrap();
        assert_eq!((&grant["seal"], &grant["rights"]), (&true.into(), &"rw".into()));
        node.command(&["grant", "revoke", &number.to_string()]);
        assert_eq!(status(job.read_at(&mut found, 0)), Status::NOT_GRANTED);
        assert_eq!(status(open(&node, door, &token)), Status::AUTHENTICATION_FAILED);
    }
    let listed = node.command(&["grant", "list"]);
    assert_eq!(listed["grants"].as_array().unwrap().len(), 1, "the credential's own");
    node.terminate();
}

#[test]
fn a_seal_for_reading_writes_nothing_and_one_that_was_changed_lets_nobody_in() {
    let place = Place::new();
    let node = started(&place, &place.flash("64MiB"));
    let (_, token) = sealed(&node, &["--range", "1MiB..2MiB", "--for", "30m"]);
    let job = open(&node, Door::Tcp, &token).unwrap();
    job.read_at(&mut [0; 512], 0).unwrap();
    assert_eq!(status(job.write_at(&[1; 512], 0)), Status::NOT_GRANTED);
    let token: SealToken = token.parse().unwrap();
    // A byte of the bearer's secret, and one of the runs.
    for at in [8, 8 + 32 + 64 + 2] {
        let mut text = token.to_string().into_bytes();
        text[2 * at] = if text[2 * at] == b'0' { b'1' } else { b'0' };
        let refused = status(open(&node, Door::Tcp, &String::from_utf8(text).unwrap()));
        let expected = if at == 8 { Status::AUTHENTICATION_FAILED } else { Status::NOT_GRANTED };
        assert_eq!(refused, expected);
    }
    // A client that is connected needs only the seal.
    let seal = Seal::decode(&token.seal().encode()).unwrap();
    let client = Door::Local.anonymous(&node).unwrap();
    client.open_sealed(&seal).unwrap().read_at(&mut [0; 512], 0).unwrap();
    node.terminate();
}

#[test]
fn an_operators_seal_is_good_after_the_node_starts_again() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let node = started(&place, &device);
    let (number, token) = sealed(&node, &["--range", "1MiB..2MiB", "--rights", "rw"]);
    open(&node, Door::Local, &token).unwrap().write_at(&[7; 512], 0).unwrap();
    node.terminate();
    let node = started(&place, &device);
    let job = open(&node, Door::Local, &token).unwrap();
    let mut found = [0; 512];
    job.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [7; 512]);
    node.command(&["grant", "revoke", &number.to_string()]);
    assert_eq!(status(job.read_at(&mut found, 0)), Status::NOT_GRANTED);
    node.command(&["volume", "remove", "other", "--yes"]);
    node.terminate();
}

#[test]
fn an_operators_seal_and_its_open_handles_end_with_its_time() {
    let place = Place::new();
    let node = started(&place, &place.flash("64MiB"));
    let (_, token) = sealed(&node, &["--for", "2s"]);
    // A slow machine may need longer than that to connect.
    let Ok(job) = open(&node, Door::Tcp, &token) else { return node.terminate() };
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        match job.read_at(&mut [0; 512], 0) {
            Ok(()) => assert!(Instant::now() < deadline, "it is good for 2 seconds"),
            Err(error) => break Err::<(), _>(error),
        }
    };
    assert_eq!(status(ended), Status::NOT_GRANTED);
    assert_eq!(status(open(&node, Door::Tcp, &token)), Status::AUTHENTICATION_FAILED);
    node.terminate();
}
