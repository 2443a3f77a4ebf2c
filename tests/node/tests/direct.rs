//! Direct clients that have the wrong credentials, request access without a grant, lose their
//! grants during requests, or die; and a node that dies while they are connected. Over TCP and
//! shared memory.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearflash::direct::{Lost, Options, Status};
use nearflash::{Client, Completion, Credentials, Error, QueueOptions, QueuePair, Volume};
use nearflash_node_tests::{
    Door, Host, Key, Node, PATIENCE, Place, Stamp, assert_serves, assert_serves_direct, eventually,
    nearflash, refused,
};
use rustix::process::{Resource, Signal};

const MIB: u64 = 1 << 20;

/// A node with one volume, `data`, of 8 MiB in memory.
fn in_memory(place: &Place) -> Node<'_> {
    Node::with_direct(place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"])
}

/// The same volume in a file, so that requests take some time.
fn in_a_file<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    let device = place.flash("64MiB");
    let flags = [&["--device", &device, "--volume", "data=8MiB@flash"], flags].concat();
    Node::with_direct(place, &flags)
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    let error = result.expect_err("it is refused");
    error.status().unwrap_or_else(|| panic!("the node gives no status: {error}"))
}

fn refused_everywhere(volume: &Volume, offset: u64, len: usize) {
    let mut bytes = vec![0; len];
    assert_eq!(status(volume.read_at(&mut bytes, offset)), Status::NOT_GRANTED);
    assert_eq!(status(volume.write_at(&bytes, offset)), Status::NOT_GRANTED);
}

/// Polls until `count` operations have completed.
fn completed(pair: &mut QueuePair, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while completions.len() < count {
        pair.poll(&mut completions).expect("completions come before the end");
        assert!(Instant::now() < deadline, "operations never end");
    }
    completions
}

#[test]
fn a_volume_that_is_not_there_is_refused_by_name() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let client = door.anonymous(&node).unwrap();
        let refused = client.open("none").unwrap_err();
        assert_eq!(refused.status(), Some(Status::NO_SUCH_VOLUME));
        assert!(refused.to_string().contains("'none'"), "{refused}");
    }
    assert_serves_direct(&node);
    node.terminate();
}

#[test]
fn as_soon_as_there_is_a_credential_nobody_comes_in_without() {
    let place = Place::new();
    let flags = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--anonymous", "direct"];
    let node = Node::with_direct(&place, &flags);
    assert_serves_direct(&node);
    for door in Door::ALL {
        let volume = door.anonymous(&node).unwrap().open("data").unwrap();
        let key = Key::create(&node, "app", &[]);
        assert!(volume.read_at(&mut [0; 8], 0).is_err(), "who was in has lost all rights");
        assert_eq!(status(door.anonymous(&node)), Status::AUTHENTICATION_FAILED);
        let client = key.connect(&node, door).unwrap();
        assert_eq!(status(client.open("data")), Status::NOT_GRANTED, "nothing is granted yet");
        key.grant(&node, "data", &["--rights", "rw"]);
        client.open("data").unwrap().write_at(&[1; 8], 0).unwrap();
        node.command(&["credential", "remove", "app"]);
    }
    assert_serves_direct(&node);
    node.terminate();
}

/// A limit of the process stands for a file system without room for the catalog.
#[test]
fn a_change_that_cannot_be_recorded_is_refused_and_published_to_nobody() {
    let place = Place::new();
    let flags = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--anonymous", "direct"];
    let node = Node::with_direct(&place, &flags);
    let door = Door::ALL[0];
    let volume = door.anonymous(&node).unwrap().open("data").unwrap();
    node.limit(Resource::Fsize, 4096);
    let data_dir = place.data_dir();
    let refusal = refused(&["credential", "create", "app", "--data-dir", &data_dir]);
    assert!(refusal.message.contains("catalog"), "{refusal:?}");
    volume.read_at(&mut [0; 8], 0).unwrap();
    door.anonymous(&node).unwrap();
    assert_eq!(node.command(&["credential", "list"])["credentials"], serde_json::json!([]));
}

#[test]
fn a_wrong_key_is_refused_and_a_right_one_is_let_in() {
    let place = Place::new();
    let node = in_memory(&place);
    let key = Key::create(&node, "app", &[]);
    key.grant(&node, "data", &[]);
    let unknown = Key::create(&node, "gone", &[]);
    node.command(&["credential", "remove", "gone"]);
    for door in Door::ALL {
        let forged = status(key.forged().connect(&node, door));
        let nobody = status(unknown.connect(&node, door));
        assert_eq!(forged, Status::AUTHENTICATION_FAILED);
        assert_eq!(nobody, forged, "whether there is such a key is not told");
        key.connect(&node, door).unwrap().open("data").unwrap().read_at(&mut [0; 8], 0).unwrap();
    }
    let told = || place.log().matches("did not prove").count();
    eventually("the log tells of all", || told() >= 4);
    node.terminate();
    assert_eq!(told(), 4, "{}", place.log());
}

#[test]
fn zeroes_replace_bytes_without_being_sent() {
    let place = Place::new();
    let node = in_a_file(&place, &[]);
    for door in Door::ALL {
        let client = door.anonymous(&node).unwrap();
        let volume = client.open("data").unwrap();
        let mut pair = client.queue_pair("data", QueueOptions::default()).unwrap();
        assert!(pair.can_zero());
        let mut expected = vec![7; 8 * 1024 * 1024];
        volume.write_at(&expected, 0).unwrap();
        volume.write_zeroes(5000, 3 * MIB).unwrap();
        expected[5000..][..3 * 1024 * 1024].fill(0);
        pair.post_write_zeroes(7 * MIB, MIB).unwrap();
        pair.submit().unwrap();
        assert!(completed(&mut pair, 1)[0].result.is_ok());
        expected[7 * 1024 * 1024..].fill(0);
        let mut found = vec![1; expected.len()];
        volume.read_at(&mut found, 0).unwrap();
        assert!(found == expected, "exactly the range is zeroes");
    }
    node.terminate();
}

#[test]
fn one_byte_beyond_a_grant_is_refused() {
    let place = Place::new();
    let node = in_memory(&place);
    let half = Key::create(&node, "half", &[]);
    half.grant(&node, "data", &["--range", "0..4MiB", "--rights", "rw"]);
    let reader = Key::create(&node, "reader", &[]);
    reader.grant(&node, "data", &["--range", "4MiB.."]);
    for door in Door::ALL {
        let volume = half.connect(&node, door).unwrap().open("data").unwrap();
        volume.write_at(&[1; 100], 4 * MIB - 100).unwrap();
        volume.write_at(&[2; 1], 4 * MIB - 1).unwrap();
        refused_everywhere(&volume, 4 * MIB - 99, 100);
        refused_everywhere(&volume, 4 * MIB, 1);
        refused_everywhere(&volume, 0, 4 * 1024 * 1024 + 1);
        assert_eq!(status(volume.discard(4 * MIB - 4096, 4097)), Status::NOT_GRANTED);
        assert_eq!(status(volume.write_zeroes(4 * MIB - 4096, 8192)), Status::NOT_GRANTED);
        assert_eq!(status(volume.fetch_add(4 * MIB, 1)), Status::NOT_GRANTED);
        let mut all = vec![0; 4 * 1024 * 1024];
        volume.read_at(&mut all, 0).unwrap();
        let other = reader.connect(&node, door).unwrap().open("data").unwrap();
        let mut last = [0xA5; 100];
        other.read_at(&mut last, 4 * MIB).unwrap();
        assert_eq!(last, [0; 100], "what was refused was not written");
        assert_eq!(status(other.write_at(&[3; 1], 8 * MIB - 1)), Status::NOT_GRANTED);
        assert_eq!(status(other.compare_and_swap(4 * MIB, 0, 1)), Status::NOT_GRANTED);
        assert_eq!(status(other.flush()), Status::NOT_GRANTED);
    }
    node.terminate();
}

#[test]
fn what_expires_is_over_for_those_who_are_in_and_those_who_come() {
    let place = Place::new();
    let node = in_memory(&place);
    let app = Key::create(&node, "app", &[]);
    app.grant(&node, "data", &["--range", "0..4KiB"]);
    app.grant(&node, "data", &["--range", "4KiB..8KiB", "--expires", "2s"]);
    let guest = Key::create(&node, "guest", &["--expires", "2s"]);
    guest.grant(&node, "data", &[]);
    for door in Door::ALL {
        let volume = app.connect(&node, door).unwrap().open("data").unwrap();
        eventually("the grant expires", || volume.read_at(&mut [0; 8], 4096).is_err());
        assert_eq!(status(volume.read_at(&mut [0; 8], 4096)), Status::NOT_GRANTED);
        volume.read_at(&mut [0; 8], 0).unwrap();
        eventually("the credential expires", || guest.connect(&node, door).is_err());
        assert_eq!(status(guest.connect(&node, door)), Status::CREDENTIAL_EXPIRED);
    }
    let list = node.command(&["grant", "list", "app"]);
    assert_eq!(
        (&list["grants"][0]["expired"], &list["grants"][1]["expired"]),
        (&false.into(), &true.into())
    );
    node.terminate();
}

/// Writes blocks with increasing numbers until every write is refused; no write that it posts once
/// `is_revoked` is set may succeed.
fn write_until_refused(pair: &mut QueuePair, is_revoked: &AtomicBool, written: &AtomicU64) {
    const DEPTH: u64 = 32;
    let mut completions = Vec::new();
    let mut revoked_tokens = Vec::new();
    let (mut sequence, mut refused) = (0, 0);
    let deadline = Instant::now() + PATIENCE;
    while refused < DEPTH {
        assert!(Instant::now() < deadline, "writes are never refused");
        while u64::from(pair.in_flight()) < DEPTH {
            sequence += 1;
            let mut buffer = pair.buffer(4096).unwrap();
            let lba = sequence % 256;
            buffer.copy_from_slice(&Stamp { lba, sequence }.block(4096));
            // Read before the post, so that it holds for this write.
            let too_late = is_revoked.load(Ordering::SeqCst);
            let token = pair.post_write_at(buffer, lba * 4096).unwrap();
            if too_late {
                revoked_tokens.push(token);
            }
        }
        pair.poll(&mut completions).unwrap();
        for Completion { token, result, .. } in completions.drain(..) {
            match result {
                Ok(_) => {
                    assert!(!revoked_tokens.contains(&token), "written after it was revoked");
                    written.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::Status(Status::NOT_GRANTED)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_grant_that_is_revoked_under_full_load_is_without_effect_when_the_command_returns() {
    let place = Place::new();
    let node = in_a_file(&place, &[]);
    for door in Door::ALL {
        let key = Key::create(&node, "app", &[]);
        let grant = key.grant(&node, "data", &["--rights", "rw"]).to_string();
        let keep = key.grant(&node, "data", &["--range", "4MiB..", "--rights", "rw"]);
        let client = key.connect(&node, door).unwrap();
        let options = QueueOptions::default().depth(32);
        let mut pair = client.queue_pair("data", options).unwrap();
        let mut host = Host::connect(&node, "data");
        let (is_revoked, written) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_refused(&mut pair, &is_revoked, &written));
            eventually("writes go through", || written.load(Ordering::Relaxed) > 500);
            node.command(&["grant", "revoke", &grant]);
            // Nothing may change from now on, even by writes in flight.
            let (_, before) = host.read(0, 32);
            is_revoked.store(true, Ordering::SeqCst);
            let mut rest = Vec::new();
            for part in 1..8 {
                rest.push(host.read(part * 32, 32).1);
            }
            writer.join().unwrap();
            assert_eq!(host.read(0, 32).1, before, "{door:?}: written after it was revoked");
            for (part, seen) in (1..8).zip(rest) {
                assert_eq!(
                    host.read(part * 32, 32).1,
                    seen,
                    "{door:?}: written after it was revoked"
                );
            }
        });
        let volume = client.open("data").unwrap();
        volume.write_at(&[7; 10], 4 * MIB).unwrap();
        node.command(&["grant", "revoke", &keep.to_string()]);
        refused_everywhere(&volume, 4 * MIB, 10);
        node.command(&["credential", "remove", "app"]);
    }
    assert_serves(&node);
    node.terminate();
}

#[test]
fn a_removed_credential_or_volume_is_over_for_those_who_are_in() {
    let place = Place::new();
    let node = in_memory(&place);
    let app = Key::create(&node, "app", &[]);
    let other = Key::create(&node, "other", &[]);
    other.grant(&node, "data", &["--rights", "rw"]);
    for door in Door::ALL {
        app.grant(&node, "data", &["--rights", "rw"]);
        let made = node.command(&["volume", "create", "more=1MiB@r"]);
        other.grant(&node, "more", &[]);
        let client = other.connect(&node, door).unwrap();
        let (data, more) = (client.open("data").unwrap(), client.open("more").unwrap());
        data.write_at(&[1; 8], 0).unwrap();
        node.command(&["volume", "remove", "more", "--force"]);
        let again = node.command(&["volume", "create", "more=1MiB@r"]);
        assert_ne!(made["volume"]["uuid"], again["volume"]["uuid"]);
        assert!(more.read_at(&mut [0; 8], 0).is_err(), "{door:?}: another volume is not meant");
        assert!(client.open("more").is_err(), "{door:?}: a new volume of its name is not granted");
        data.read_at(&mut [0; 8], 0).unwrap();
        node.command(&["volume", "remove", "more"]);
    }
    let clients = Door::ALL.map(|door| app.connect(&node, door).unwrap());
    let volumes = clients.map(|client| client.open("data").unwrap());
    volumes.iter().for_each(|volume| volume.read_at(&mut [0; 8], 0).unwrap());
    node.command(&["credential", "remove", "app"]);
    for volume in volumes {
        assert!(volume.read_at(&mut [0; 8], 0).is_err());
        assert!(volume.write_at(&[0; 8], 0).is_err());
    }
    node.terminate();
}

#[test]
fn a_volume_that_grows_is_seen_by_those_who_have_it_open() {
    let place = Place::new();
    let node = in_memory(&place);
    for (door, size) in Door::ALL.into_iter().zip(["16MiB", "24MiB"]) {
        let volume = door.anonymous(&node).unwrap().open("data").unwrap();
        let end = volume.len();
        assert_eq!(status(volume.write_at(&[1; 2], end - 1)), Status::OUT_OF_RANGE);
        node.command(&["volume", "resize", "data", size]);
        // The client's epoch is stale now; it requests the new one by itself.
        volume.write_at(&[1; 2], end - 1).unwrap();
        assert_eq!(volume.len(), end + 8 * MIB);
    }
    assert_serves_direct(&node);
    node.terminate();
}

/// A node with a device so slow that every operation stays in flight.
fn slow(place: &Place) -> Node<'_> {
    let device = "n=null:64MiB,read-delay=1000s,write-delay=1000s";
    Node::with_direct(place, &["--device", device, "--volume", "data=8MiB@n"])
}

/// Reads and writes in flight on a slow device.
fn in_flight(client: &Client) -> QueuePair {
    let mut pair = client.queue_pair("data", QueueOptions::default()).unwrap();
    for lba in 0..8 {
        let buffer = pair.buffer(4096).unwrap();
        pair.post_read_at(buffer, lba * 4096).unwrap();
        let buffer = pair.buffer(4096).unwrap();
        pair.post_write_at(buffer, lba * 4096).unwrap();
    }
    pair.submit().unwrap();
    pair
}

fn assert_all_lost(pair: &mut QueuePair, is_meant: impl Fn(Lost) -> bool) {
    let (mut reads, mut writes) = (0, 0);
    for completion in completed(pair, 16) {
        match completion.result {
            Err(Error::ConnectionLost(lost)) if is_meant(lost) => reads += 1,
            Err(Error::Unknown(lost)) if is_meant(lost) => writes += 1,
            other => panic!("{other:?}"),
        }
        assert!(completion.buffer.is_some(), "the buffer comes back");
    }
    assert_eq!((reads, writes), (8, 8), "only of writes it is unknown what became of them");
    assert!(pair.is_lost());
}

#[test]
fn a_connection_with_the_same_identity_is_ready_when_the_requests_of_the_first_have_ended() {
    let place = Place::new();
    let device = "n=null:64MiB,write-delay=2s";
    let node = Node::with_direct(&place, &["--device", device, "--volume", "data=8MiB@n"]);
    for door in Door::ALL {
        let client = door.anonymous(&node).unwrap();
        let options = QueueOptions::default().identity(Some([7; 16]));
        let mut first = client.queue_pair("data", options).unwrap();
        let mut other = client.queue_pair("data", QueueOptions::default()).unwrap();
        for block in 0..8 {
            let buffer = first.buffer(4096).unwrap();
            first.post_write_at(buffer, block * 4096).unwrap();
        }
        first.submit().unwrap();
        eventually("the writes are in flight", || node.counted("in_flight") == 8);
        let mut second = client.queue_pair("data", options).unwrap();
        assert_eq!(node.counted("in_flight"), 0, "{door:?}: writes go on behind the claim");
        let done = completed(&mut first, 8);
        assert!(done.iter().all(|done| matches!(done.result, Err(Error::Unknown(_)))), "{done:?}");
        assert!(first.is_lost() && !second.is_lost());
        // The identity belongs to every later connection of the first queue pair, too.
        first.reconnect().unwrap();
        eventually("the second connection ends", || {
            // Only some of the polls of a pair with shared memory look at its socket.
            (0..1024).any(|_| second.poll(&mut Vec::new()).is_err() || second.is_lost())
        });
        other.post_flush().unwrap();
        assert!(completed(&mut other, 1)[0].result.is_ok(), "it has another identity");
    }
    node.terminate();
}

#[test]
fn a_node_killed_in_mid_read_ends_what_is_pending_with_an_error() {
    for door in Door::ALL {
        let place = Place::new();
        let node = slow(&place);
        let client = door.anonymous(&node).unwrap();
        let mut pair = in_flight(&client);
        eventually("all is in flight", || node.counted("in_flight") == 16);
        node.crash();
        assert_all_lost(&mut pair, |lost| lost != Lost::Silent { within: Duration::from_secs(10) });
    }
}

#[test]
fn a_node_that_falls_silent_is_given_up_within_the_stated_time() {
    let options = Options::default().silence_max(Duration::from_secs(1));
    for door in Door::ALL {
        let place = Place::new();
        let node = slow(&place);
        let client = Client::connect_with(&door.url(&node), Credentials::NONE, options).unwrap();
        let mut pair = in_flight(&client);
        eventually("all is in flight", || node.counted("in_flight") == 16);
        node.signal(Signal::STOP);
        assert_all_lost(&mut pair, |lost| lost == Lost::Silent { within: Duration::from_secs(1) });
        node.crash();
    }
}

#[test]
fn the_socket_of_a_killed_node_is_taken_over_and_that_of_a_living_one_is_not() {
    let place = Place::new();
    in_memory(&place).crash();
    assert!(place.path("direct.sock").exists(), "a killed node leaves it behind");
    let node = in_memory(&place);
    assert_serves_direct(&node);
    let other = Place::new();
    let refused = nearflash_node_tests::refused(&[
        "serve",
        "--device",
        "r=ram:2MiB",
        "--nvme-tcp",
        "127.0.0.1:0",
        "--data-dir",
        &other.data_dir(),
        "--direct-local",
        node.direct_socket(),
    ]);
    assert!(refused.message.contains("another program is listening there"), "{}", refused.message);
    assert_serves_direct(&node);
    node.terminate();
    assert!(!place.path("direct.sock").exists(), "a node that ends takes it along");
}

#[test]
fn a_client_killed_in_mid_write_disturbs_nobody() {
    let place = Place::new();
    let node = in_a_file(&place, &["--volume", "other=8MiB@flash"]);
    let pool_free = || node.command(&["status"])["cores"][0]["pool_free_bytes"].clone();
    let free_before = pool_free();
    let mut host = Host::connect(&node, "other");
    for door in Door::ALL {
        let other = door.anonymous(&node).unwrap().open("other").unwrap();
        let writes = node.counted("writes");
        let target = format!("{}/data", door.url(&node));
        let mut client = Command::new(nearflash())
            .args(["bench", &target, "--rw", "randwrite", "--bs", "64KiB", "--iodepth", "32"])
            .args(["--runtime", "60s"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it writes", || node.counted("writes") > writes + 100);
        client.kill().unwrap();
        client.wait().unwrap();
        other.write_at(&[9; 5000], 100).unwrap();
        host.assert_works();
        eventually("what it had in flight is over", || {
            node.counted("clients") == 1 && node.counted("in_flight") == 0
        });
    }
    eventually("their memory is free again", || pool_free() == free_before);
    assert_serves_direct(&node);
    assert_serves(&node);
    node.terminate();
}

#[test]
fn a_node_that_ends_answers_its_direct_clients_first() {
    let place = Place::new();
    let node = in_a_file(&place, &[]);
    let clients = Door::ALL.map(|door| door.anonymous(&node).unwrap());
    let mut pairs = clients.map(|c| c.queue_pair("data", QueueOptions::default()).unwrap());
    for (pair, lba) in pairs.iter_mut().zip(0..) {
        let mut buffer = pair.buffer(4096).unwrap();
        buffer.copy_from_slice(&Stamp { lba, sequence: 5 }.block(4096));
        pair.post_write_at(buffer, lba * 4096).unwrap();
        assert!(completed(pair, 1)[0].result.is_ok());
    }
    node.terminate();
    for pair in &mut pairs {
        let deadline = Instant::now() + PATIENCE;
        while pair.poll(&mut Vec::new()).is_ok() {
            assert!(Instant::now() < deadline, "the end is not noticed");
        }
    }
    let node = in_a_file(&place, &[]);
    let mut host = Host::connect(&node, "data");
    for lba in 0..2 {
        assert_eq!(host.read_stamp(lba), Some(Stamp { lba, sequence: 5 }));
    }
    node.terminate();
}

#[test]
fn a_status_names_direct_clients_and_what_they_came_in_by() {
    let place = Place::new();
    let node = in_memory(&place);
    let key = Key::create(&node, "app", &[]);
    key.grant(&node, "data", &[]);
    let volumes = Door::ALL.map(|door| key.connect(&node, door).unwrap().open("data").unwrap());
    let mut clients = Vec::new();
    eventually("both are listed, and no other", || {
        clients = node.command(&["status"])["clients"].as_array().unwrap().clone();
        clients.len() == 2
    });
    assert!(clients.iter().all(|client| client["credential"] == "app"));
    let from = |prefix| clients.iter().any(|c| c["from"].as_str().unwrap().starts_with(prefix));
    assert!(from("127.0.0.1:") && from(&format!("process {} of user", std::process::id())));
    drop(volumes);
    node.terminate();
}
