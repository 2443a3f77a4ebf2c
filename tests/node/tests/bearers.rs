//! Clients that have a seal and a bearer, and no credential: they enter, and use the object. Over TCP and
//! shared memory.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::time::Duration;

use nearflash::direct::{Bearer, PeerError, Rights, Run, Seal, SealKey, SealTerms, Status};
use nearflash::{Client, Credentials, Error, QueueOptions, QueuePair};
use nearflash_node_tests::{Door, Key, Node, Place, two_cores};

const MIB: u64 = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);

fn in_memory(place: &Place) -> Node<'_> {
    let cores = two_cores();
    let mut flags = vec!["--device", "r=ram:64MiB", "--volume", "data=16MiB@r"];
    flags.extend(["--volume", "other=16MiB@r"]);
    if let Some(cores) = &cores {
        flags.extend(["--cores", cores]);
    }
    Node::with_direct(place, &flags)
}

/// The owner of objects in a volume.
struct Owner {
    pair: QueuePair,
    key: SealKey,
}

impl Owner {
    fn of(client: &Client, volume: &str) -> Self {
        let mut pair = client.queue_pair(volume, QueueOptions::default()).unwrap();
        let key = pair.seal_key().unwrap();
        Self { pair, key }
    }

    fn seal(&self, version: u32) -> Seal {
        let terms = SealTerms {
            object: 7,
            uuid: [5; 16],
            version,
            rights: Rights::READ_WRITE,
            good_until: self.key.good_for(Duration::from_secs(60)),
            runs: [Run { start: 4 * MIB, len: MIB }, Run { start: 0, len: 8192 }].into(),
        };
        self.key.mint(terms).unwrap()
    }
}

/// The credential of an owner, by door.
fn owner_key(node: &Node<'_>, door: Door) -> Key {
    let key = Key::create(node, if door == Door::Tcp { "owner-tcp" } else { "owner.local" }, &[]);
    key.grant(node, "data", &["--rights", "rw"]);
    key.grant(node, "other", &["--rights", "rw"]);
    key
}

fn enter(node: &Node<'_>, door: Door, bearer: &Bearer) -> Result<Client, Error> {
    // As handed over to another process.
    let bearer = Bearer::decode(&bearer.encode()).unwrap();
    Client::connect(&door.url(node), Credentials::from(bearer))
}

fn open(client: &Client, seal: &Seal) -> Result<QueuePair, Error> {
    client.sealed_queue_pair(seal, QueueOptions::default())
}

fn done(pair: &mut QueuePair) -> Result<Vec<u8>, Error> {
    let mut completions = Vec::new();
    while pair.in_flight() > 0 {
        pair.poll(&mut completions).unwrap();
    }
    let done = completions.pop().expect("something was posted");
    done.result.map(|_| done.buffer.map(|buffer| buffer.to_vec()).unwrap_or_default())
}

fn read(pair: &mut QueuePair, offset: u64) -> Result<Vec<u8>, Error> {
    let buffer = pair.buffer(512)?;
    pair.post_read_at(buffer, offset)?;
    done(pair)
}

fn write(pair: &mut QueuePair, offset: u64, fill: u8) -> Result<(), Error> {
    let mut buffer = pair.buffer(512)?;
    buffer.fill(fill);
    pair.post_write_at(buffer, offset)?;
    done(pair).map(drop)
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    let error = result.expect_err("it is refused");
    error.status().unwrap_or_else(|| panic!("the node gives no status: {error}"))
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> PeerError {
    match result.expect_err("it is refused") {
        Error::Refused { source, .. } => source,
        error => panic!("another error: {error}"),
    }
}

/// How the library sees a GOODBYE.
fn said(status: Status) -> PeerError {
    PeerError::Goodbye(status)
}

#[test]
fn a_client_with_a_seal_and_a_bearer_uses_the_object_without_a_credential() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let key = owner_key(&node, door);
        let mut owner = Owner::of(&key.connect(&node, door).unwrap(), "data");
        let client = enter(&node, door, &owner.key.bearer(HOUR)).unwrap();
        let mut pair = open(&client, &owner.seal(1)).unwrap();
        write(&mut pair, MIB - 256, 7).unwrap();
        assert_eq!(read(&mut pair, MIB - 256).unwrap(), [7; 512], "over the end of a run");
        assert_eq!(read(&mut owner.pair, 5 * MIB - 512).unwrap()[256..], [7; 256]);
        assert_eq!(read(&mut owner.pair, 0).unwrap()[..256], [7; 256]);
        pair.reconnect().unwrap();
        assert_eq!(read(&mut pair, MIB - 256).unwrap(), [7; 512], "over the next connection");
        // All else is refused.
        for volume in ["data", "other", "nothing"] {
            let opened = client.queue_pair(volume, QueueOptions::default());
            assert_eq!(status(opened), Status::NOT_GRANTED, "{volume}");
            assert_eq!(status(pair.open(volume)), Status::NOT_GRANTED, "{volume}");
        }
        assert_eq!(status(pair.seal_key()), Status::NOT_GRANTED);
        assert_eq!(status(pair.revoke(7, 2)), Status::NOT_GRANTED);
        assert_eq!(status(pair.revoke_keys(2)), Status::NOT_GRANTED);
        let other = Owner::of(&key.connect(&node, door).unwrap(), "other");
        assert_eq!(status(open(&client, &other.seal(1))), Status::NOT_GRANTED, "another volume");
        // Its seal is revoked as any other.
        owner.pair.revoke(7, 2).unwrap();
        assert_eq!(status(read(&mut pair, 0)), Status::STALE_EPOCH);
        open(&client, &owner.seal(2)).unwrap();
    }
    node.terminate();
}

#[test]
fn a_bearer_that_was_changed_lets_nobody_in() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let key = owner_key(&node, door);
        let owner = Owner::of(&key.connect(&node, door).unwrap(), "data");
        let bearer = owner.key.bearer(HOUR).encode();
        // A byte of the secret, and one of each part of the name. The node answers each after a second.
        let name = 32;
        let until = name + "~1.".len();
        for at in [31, name + 1, until, bearer.len() - 20, bearer.len() - 1] {
            let mut bytes = bearer.clone();
            // Digits stay digits, and what they say changes.
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let changed = Bearer::decode(&bytes).unwrap();
            let entered = enter(&node, door, &changed);
            assert_eq!(refusal(entered), said(Status::AUTHENTICATION_FAILED), "byte {at}");
        }
        let cut = Bearer::decode(&bearer[..bearer.len() - 1]).unwrap();
        assert_eq!(refusal(enter(&node, door, &cut)), said(Status::AUTHENTICATION_FAILED));
        enter(&node, door, &Bearer::decode(&bearer).unwrap()).unwrap();
    }
    node.terminate();
}

#[test]
fn a_bearer_ends_with_the_generation_of_the_key_or_the_minters_credential() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let key = owner_key(&node, door);
        let mut owner = Owner::of(&key.connect(&node, door).unwrap(), "data");
        let bearer = owner.key.bearer(HOUR);
        let client = enter(&node, door, &bearer).unwrap();
        let mut pair = open(&client, &owner.seal(1)).unwrap();
        owner.pair.revoke_keys(2).unwrap();
        assert_eq!(status(read(&mut pair, 0)), Status::STALE_EPOCH);
        let late = refusal(enter(&node, door, &bearer));
        assert_eq!(late, said(Status::CREDENTIAL_EXPIRED));
        owner.key = owner.pair.seal_key().unwrap();
        let client = enter(&node, door, &owner.key.bearer(HOUR)).unwrap();
        let mut pair = open(&client, &owner.seal(1)).unwrap();
        read(&mut pair, 0).unwrap();
        node.command(&["credential", "remove", key.id()]);
        assert_eq!(status(read(&mut pair, 0)), Status::NOT_GRANTED);
        let gone = refusal(enter(&node, door, &owner.key.bearer(HOUR)));
        assert_eq!(gone, said(Status::AUTHENTICATION_FAILED));
    }
    node.terminate();
}

#[test]
fn a_node_without_credentials_takes_a_bearer_as_well() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let owner = Owner::of(&door.anonymous(&node).unwrap(), "data");
        let bearer = owner.key.bearer(HOUR);
        let client = enter(&node, door, &bearer).unwrap();
        let mut pair = open(&client, &owner.seal(1)).unwrap();
        write(&mut pair, 0, 3).unwrap();
        let opened = client.queue_pair("data", QueueOptions::default());
        assert_eq!(status(opened), Status::NOT_GRANTED);
        if door == Door::Local {
            // With the first credential, anonymous clients are out, and so is what they gave away.
            let _key = Key::create(&node, "first", &[]);
            assert_eq!(status(read(&mut pair, 0)), Status::NOT_GRANTED);
            let late = refusal(enter(&node, door, &bearer));
            assert_eq!(late, said(Status::AUTHENTICATION_FAILED));
        }
    }
    node.terminate();
}
