//! Owners of a volume: the second one is refused, a take-over ends the writes of the former owner, and
//! an owner survives lost connections.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nearflash::direct::TakeError;
use nearflash::{Client, Credentials, Error, OwnerOptions, Ownership};
use nearflash_node_tests::{Door, Node, Place, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// The place of the owners' data.
const DATA: u64 = 65_536;

/// The variable that makes a test the process of an owner: the URL of the node.
const OWNER_OF: &str = "NEARFLASH_TEST_OWNER_OF";

fn in_memory(place: &Place) -> Node<'_> {
    Node::with_direct(place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"])
}

fn in_a_file(place: &Place) -> Node<'_> {
    let device = place.flash("64MiB");
    Node::with_direct(place, &["--device", &device, "--volume", "data=8MiB@flash"])
}

fn take(client: &Client, name: &str, take_over: bool) -> Result<Ownership, TakeError> {
    let options = OwnerOptions::new(name, "this test").take_over(take_over);
    Ownership::take(client, "data", &options)
}

/// The bytes of the owners' data.
fn data(client: &Client) -> [u8; 8] {
    let mut data = [0; 8];
    client.open("data").unwrap().read_at(&mut data, DATA).unwrap();
    data
}

#[test]
fn a_volume_with_a_living_owner_is_refused_by_the_owners_name() {
    let place = Place::new();
    let node = in_memory(&place);
    let client = Door::Tcp.anonymous(&node).unwrap();
    let owner = take(&client, "first", false).unwrap();
    let refused = take(&client, "second", false).unwrap_err();
    assert!(matches!(refused, TakeError::Held { .. }), "{refused}");
    let message = refused.to_string();
    assert!(message.starts_with("volume 'data' has an owner: first at this test, seen "));
    assert!(message.ends_with(" ago: stop it, or use --take-over"));
    owner.volume().write_at(b"by first", DATA).unwrap();
    assert!(owner.is_held());
    assert_eq!(data(&client), *b"by first");
    node.terminate();
}

#[test]
fn a_take_over_ends_every_write_of_the_former_owner_which_is_told_by_whom() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let client = door.anonymous(&node).unwrap();
        let first = take(&client, "first", true).unwrap();
        first.volume().write_at(b"by first", DATA).unwrap();
        let second = take(&client, "second", true).unwrap();
        assert_eq!(second.term(), first.term() + 1);
        second.volume().write_at(b"by other", DATA).unwrap();
        // One of them for each connection, at least.
        let errors: Vec<Error> =
            (0..8).map(|_| first.volume().write_at(b"by first", DATA).unwrap_err()).collect();
        let last = errors.last().unwrap();
        assert!(matches!(last, Error::Superseded { .. }), "{errors:?}");
        assert!(last.to_string().contains("another owner: second at this test"), "{last}");
        assert!(!first.is_held() && second.is_held());
        assert_eq!(data(&client), *b"by other");
        assert!(first.volume().read_at(&mut [0; 8], DATA).is_err(), "it reads nothing either");
        assert!(first.release().is_err(), "it has nothing to release");
        second.volume().write_at(b"to other", DATA).unwrap();
        assert_eq!(data(&client), *b"to other");
    }
    node.terminate();
}

#[test]
fn a_released_volume_is_taken_without_a_take_over() {
    let place = Place::new();
    let node = in_memory(&place);
    let client = Door::Local.anonymous(&node).unwrap();
    let first = take(&client, "first", false).unwrap();
    let term = first.term();
    first.release().unwrap();
    let second = take(&client, "second", false).unwrap();
    assert_eq!(second.term(), term + 1);
    drop(second);
    assert_eq!(take(&client, "third", false).unwrap().term(), term + 2);
    node.terminate();
}

#[test]
fn other_data_in_the_place_of_the_owner_block_is_kept() {
    let place = Place::new();
    let node = in_memory(&place);
    let client = Door::Tcp.anonymous(&node).unwrap();
    let volume = client.open("data").unwrap();
    volume.write_at(&[0x5A; 512], 0).unwrap();
    let refused = take(&client, "files", false).unwrap_err();
    assert!(matches!(refused, TakeError::Unreadable { .. }), "{refused}");
    let mut block = [0; 512];
    volume.read_at(&mut block, 0).unwrap();
    assert_eq!(block, [0x5A; 512]);
    let odd = OwnerOptions::new("files", "").offset(8);
    let refused = Ownership::take(&client, "data", &odd).unwrap_err();
    assert!(matches!(refused, TakeError::Offset { offset: 8 }), "{refused}");
    let elsewhere = OwnerOptions::new("files", "").offset(4096);
    Ownership::take(&client, "data", &elsewhere).unwrap();
    node.terminate();
}

#[test]
fn an_owner_goes_on_after_its_node_was_killed() {
    let place = Place::new();
    let node = in_a_file(&place);
    let client = Door::Local.anonymous(&node).unwrap();
    let owner = take(&client, "files", false).unwrap();
    node.crash();
    let node = in_a_file(&place);
    eventually("it writes again", || owner.volume().write_at(b"restored", DATA).is_ok());
    assert!(owner.is_held());
    let client = Door::Local.anonymous(&node).unwrap();
    assert_eq!(data(&client), *b"restored");
    drop(owner);
    node.terminate();
}

/// An owner in a process of its own: the test executable, which runs only
/// [`a_paused_owner_that_wakes_up_writes_nothing`] as its child.
struct OwnerProcess {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl OwnerProcess {
    fn start(url: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "ownership::a_paused_owner_that_wakes_up_writes_nothing",
                "--nocapture",
            ])
            .env(OWNER_OF, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, orders, lines }
    }

    /// The next line that begins with `owner: `, without this.
    fn says(&mut self) -> String {
        self.lines.find_map(|line| Some(line.unwrap().split_once("owner: ")?.1.to_owned())).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Makes it write. Returns the result.
    fn write(&mut self) -> String {
        writeln!(self.orders, "write").unwrap();
        self.says()
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's part: takes the volume, and writes once for each line of its input.
fn own(url: &str) {
    let client = Client::connect(url, Credentials::NONE).unwrap();
    let owner = take(&client, "child", false).unwrap();
    println!("owner: has the volume");
    for order in std::io::stdin().lines() {
        order.unwrap();
        match owner.volume().write_at(b"by child", DATA) {
            Ok(()) => println!("owner: wrote"),
            Err(error) => println!("owner: {error}"),
        }
    }
}

#[test]
fn a_paused_owner_that_wakes_up_writes_nothing() {
    if let Ok(url) = env::var(OWNER_OF) {
        return own(&url);
    }
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let client = door.anonymous(&node).unwrap();
        let mut child = OwnerProcess::start(&door.url(&node));
        assert_eq!(child.says(), "has the volume");
        assert_eq!(child.write(), "wrote");
        assert_eq!(data(&client), *b"by child");
        child.signal(Signal::STOP);
        let owner = take(&client, "parent", true).unwrap();
        owner.volume().write_at(b"by other", DATA).unwrap();
        child.signal(Signal::CONT);
        let mut results = Vec::new();
        eventually("it learns of the other owner", || {
            results.push(child.write());
            results.last().unwrap().contains("another owner: parent at this test")
        });
        assert!(results.iter().all(|result| result != "wrote"), "{results:?}");
        assert_eq!(data(&client), *b"by other");
        owner.release().unwrap();
    }
    node.terminate();
}
