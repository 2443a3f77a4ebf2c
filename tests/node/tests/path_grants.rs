//! Grants on directories of files that a node owns, through commands, the client and a mount.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use nearflash::direct::{Credentials, Rights, Status};
use nearflash::{Client, Error, QueueOptions};
use nearflash_files_service::{
    AnyFiles, FileCalls as _, InodeNumber, Name, Path, RemoteFiles, Renaming, SealedFile, Taker,
    open,
};
use nearflash_node_tests::{
    Door, Key, MountBench, Node, Place, done, nearflash, refused_command as refused,
};
use nearflash_units::ByteOffset;
use rustix::io::Errno;
use serde_json::Value;

/// The flags of the option `--volume`, and of files of the node.
const VOLUME: [&str; 4] = ["--volume", "data=64MiB@flash", "--files", "data"];

/// A node that owns files: `/models/m`, `/models/old/o` and `/private/p`, with the path of each as its
/// bytes.
struct Bench<'a> {
    place: &'a Place,
    node: Node<'a>,
    admin: Key,
}

impl<'a> Bench<'a> {
    fn new(place: &'a Place) -> Self {
        let node = Self::started(place);
        let admin = Key::create(&node, "admin", &[]);
        admin.grant(&node, "data", &["--rights", "rw"]);
        let bench = Self { place, node, admin };
        done(&["files", "format", &bench.url(&bench.admin, "")]);
        for directory in ["models", "models/old", "private"] {
            done(&["files", "mkdir", &bench.url(&bench.admin, directory)]);
        }
        for file in ["models/m", "models/old/o", "private/p"] {
            bench.put(&bench.admin, file);
        }
        bench
    }

    fn started(place: &'a Place) -> Node<'a> {
        let device = place.flash("128MiB");
        Node::with_direct(place, &[&["--device", &device][..], &VOLUME].concat())
    }

    /// The URL of a path for this key.
    fn url(&self, key: &Key, path: &str) -> String {
        let secret = self.place.text(key.id());
        fs::write(&secret, key.secret()).unwrap();
        let node = Door::Tcp.url(&self.node);
        format!("{node}/data/{path}?key={}&secret-file={secret}", key.id())
    }

    fn put(&self, key: &Key, path: &str) {
        let local = self.place.text("local");
        fs::write(&local, path).unwrap();
        done(&["files", "put", &local, &self.url(key, path), "--replace"]);
    }

    fn get(&self, key: &Key, path: &str) -> Vec<u8> {
        let get = ["files", "get", &self.url(key, path), "-"];
        let output = Command::new(nearflash()).args(get).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// The output of a command that reads this path.
    fn shown(&self, key: &Key, command: &str, path: &str) -> Value {
        let shown = ["files", command, &self.url(key, path), "--json"];
        let output = Command::new(nearflash()).args(shown).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn client(&self, key: &Key) -> Client {
        key.connect(&self.node, Door::Tcp).unwrap()
    }

    fn files(&self, key: &Key) -> RemoteFiles {
        RemoteFiles::open(&self.client(key), "data").unwrap().unwrap()
    }
}

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    let error = result.expect_err("it is refused");
    error.status().unwrap_or_else(|| panic!("the node gives no status: {error}"))
}

#[test]
fn a_grant_on_a_directory_is_one_on_its_files_alone_and_outlives_the_node() {
    let place = Place::new();
    let bench = Bench::new(&place);
    let app = Key::create(&bench.node, "app", &[]);
    let number = app.grant(&bench.node, "data", &["--path", "/models//old/", "--rights", "r"]);
    app.grant(&bench.node, "data", &["--path", "/private/mine", "--rights", "rw"]);
    let listed = bench.node.command(&["grant", "list", "app"]);
    let listed = listed["grants"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["number"]), (2, &number.into()));
    assert_eq!((&listed[0]["path"], &listed[0]["rights"]), (&"/models/old".into(), &"r".into()));
    let Bench { node, admin, .. } = bench;
    node.terminate();
    let bench = Bench { place: &place, node: Bench::started(&place), admin };

    assert_eq!(bench.get(&app, "models/old/o"), b"models/old/o");
    let at = |path: &str| bench.url(&app, path);
    for (path, entries) in [("", &["/models", "/private"][..]), ("models/old", &["/models/old/o"])]
    {
        let listed = bench.shown(&app, "ls", path);
        let listed = listed["entries"].as_array().unwrap().iter().map(|entry| &entry["path"]);
        assert!(listed.eq(entries), "{path}");
    }
    assert_eq!(bench.shown(&app, "stat", "models/old/o")["bytes"], 12);
    for outside in ["models/m", "private/p", "none"] {
        for command in ["get", "stat", "ls"] {
            let more = if command == "get" { &["-"][..] } else { &[] };
            let named = format!("/{outside}: ");
            let reasons = [&named, "no grant covers", "--path"];
            refused(&[&["files", command, &at(outside)], more].concat(), 1, &reasons);
        }
    }
    refused(&["files", "ls", &at("models/old/none")], 1, &["no such file"]);
    refused(&["files", "mkdir", &at("models/old/new")], 1, &["no grant covers", "--rights rw"]);
    refused(&["files", "rm", &at("models/old/o")], 1, &["no grant covers"]);
    refused(&["files", "mkdir", &at("private/mine")], 1, &["no grant covers"]);
    refused(&["files", "format", &at("")], 1, &["--rights rw for the whole volume"]);
    refused(&["files", "check", &at("")], 1, &["does not grant"]);
    // A grant on a path holds for the directory that has it later.
    done(&["files", "mkdir", &bench.url(&bench.admin, "private/mine")]);
    bench.put(&app, "private/mine/a");
    done(&["files", "mv", &at("private/mine/a"), "/private/mine/b"]);
    refused(&["files", "mv", &at("private/mine/b"), "/private/b"], 1, &["no grant covers"]);
    refused(&["files", "mv", &at("models/old/o"), "/private/mine/o"], 1, &["no grant covers"]);
    assert_eq!(bench.get(&bench.admin, "private/mine/b"), b"private/mine/a");
    bench.node.terminate();
}

#[test]
fn a_client_with_a_grant_on_a_directory_reaches_no_block_and_no_other_inode() {
    let place = Place::new();
    let bench = Bench::new(&place);
    let app = Key::create(&bench.node, "app", &[]);
    app.grant(&bench.node, "data", &["--path", "/models", "--rights", "rw"]);
    let client = bench.client(&app);
    let volume = client.open("data").unwrap();
    assert!(!volume.info().is_readable && !volume.info().is_writable);
    assert_eq!(status(volume.read_at(&mut [0; 512], 0)), Status::NOT_GRANTED);
    assert_eq!(status(volume.write_at(&[0; 512], 0)), Status::NOT_GRANTED);
    assert_eq!(status(volume.flush()), Status::NOT_GRANTED);
    let mut pair = client.queue_pair("data", QueueOptions::default()).unwrap();
    assert_eq!(status(pair.seal_key()), Status::NOT_GRANTED);
    let files = bench.files(&app);
    let own = ["/models", "/models/m", "/models/old", "/models/old/o"];
    let own = own.map(|text| files.stat(&path(text)).unwrap().0);
    for number in (1..50).map(InodeNumber).filter(|number| !own.contains(number)) {
        let seen = files.inode(number).is_ok();
        assert_eq!(seen, number == InodeNumber::ROOT, "{number:?}");
        assert_eq!(files.attributes(number).unwrap_err().errno(), Errno::ACCESS);
        assert_eq!(
            files.read(number, &mut [0; 9], ByteOffset(0)).unwrap_err().errno(),
            Errno::ACCESS
        );
    }
    bench.node.terminate();
}

#[test]
fn the_node_carries_out_the_calls_of_everybody_if_it_owns_the_files() {
    let place = Place::new();
    let device = place.flash("128MiB");
    let flags = ["--device", &device, "--volume", "own=32MiB@flash"];
    let node = Node::with_direct(&place, &[&flags[..], &VOLUME].concat());
    let client = Client::connect(&Door::Tcp.url(&node), Credentials::NONE).unwrap();
    for volume in ["data", "own"] {
        done(&["files", "format", &format!("{}/{volume}", Door::Tcp.url(&node))]);
    }
    let opened = |volume, taker: Option<&Taker>| open(&client, volume, taker).unwrap();
    let taker = Taker::process(false);
    // A grant for all blocks makes no difference.
    assert!(client.open("data").unwrap().info().is_readable);
    assert!(matches!(opened("data", None), AnyFiles::Remote(_)));
    assert!(matches!(opened("data", Some(&taker)), AnyFiles::Remote(_)));
    assert!(matches!(opened("own", None), AnyFiles::Snapshot(_)));
    assert!(matches!(opened("own", Some(&taker)), AnyFiles::Owned(_)));
    node.terminate();
}

#[test]
fn a_grant_that_is_revoked_closes_what_was_open() {
    let place = Place::new();
    let bench = Bench::new(&place);
    let app = Key::create(&bench.node, "app", &[]);
    let first = app.grant(&bench.node, "data", &["--path", "/models", "--rights", "r"]);
    let second = app.grant(&bench.node, "data", &["--path", "/private", "--rights", "r"]);
    let files = bench.files(&app);
    let read = |at: &str| {
        let number = files.stat(&path(at)).map(|(number, _)| number);
        let kept = number.and_then(|number| files.retain(number).map(|()| number));
        kept.and_then(|number| files.read(number, &mut [0; 99], ByteOffset(0)))
    };
    assert_eq!(read("/models/m").unwrap(), 8);
    assert_eq!(read("/private/p").unwrap(), 9);
    let (open, _) = files.stat(&path("/models/m")).unwrap();
    bench.node.command(&["grant", "revoke", &first.to_string()]);
    let mut bytes = [0; 9];
    let again = |bytes: &mut [u8]| files.read(open, bytes, ByteOffset(0)).unwrap_err().errno();
    assert_eq!(again(&mut bytes), Errno::ACCESS, "the other grant is still there");
    bench.node.command(&["grant", "revoke", &second.to_string()]);
    assert_eq!(again(&mut bytes), Errno::ACCESS);
    assert_eq!(bytes, [0; 9]);
    bench.node.terminate();
}

#[test]
fn files_that_are_open_under_a_grant_on_a_directory_stay_open_when_the_node_starts_again() {
    let place = Place::new();
    let bench = Bench::new(&place);
    let app = Key::create(&bench.node, "app", &[]);
    app.grant(&bench.node, "data", &["--path", "/models", "--rights", "rw"]);
    let files = RemoteFiles::open(&app.connect(&bench.node, Door::Local).unwrap(), "data");
    let files = files.unwrap().unwrap();
    let (file, _) = files.stat(&path("/models/m")).unwrap();
    let (renamed, _) = files.stat(&path("/models/old/o")).unwrap();
    files.retain(file).unwrap();
    files.retain(renamed).unwrap();
    let place_of = |directory: &str| files.stat(&path(directory)).unwrap().0;
    let (old, new) = (place_of("/models/old"), place_of("/models"));
    files.rename((old, &name("o")), (new, &name("o")), Renaming::NoReplace).unwrap();
    let read = |number| {
        let mut bytes = [0; 99];
        files.read(number, &mut bytes, ByteOffset(0)).map(|len| bytes[..len].to_vec())
    };
    let Bench { node, admin, .. } = bench;
    node.terminate();
    let bench = Bench { place: &place, node: Bench::started(&place), admin };
    assert_eq!(read(file).unwrap(), b"models/m");
    assert_eq!(read(renamed).unwrap(), b"models/old/o");
    files.write(file, b"M", ByteOffset(0)).unwrap();
    assert_eq!(read(file).unwrap(), b"Models/m");
    // The names decide as before.
    let Bench { node, admin, .. } = bench;
    let admin_files = RemoteFiles::open(&admin.connect(&node, Door::Local).unwrap(), "data");
    let admin_files = admin_files.unwrap().unwrap();
    let place_of = |directory: &str| admin_files.stat(&path(directory)).unwrap().0;
    let (old, new) = (place_of("/models"), place_of("/private"));
    admin_files.rename((old, &name("m")), (new, &name("m")), Renaming::NoReplace).unwrap();
    node.terminate();
    let bench = Bench { place: &place, node: Bench::started(&place), admin };
    assert_eq!(read(file).unwrap_err().errno(), Errno::ACCESS);
    assert_eq!(read(renamed).unwrap(), b"models/old/o");
    bench.node.terminate();
}

#[test]
fn the_end_of_a_grant_for_the_volume_voids_the_seals_that_it_gave() {
    let place = Place::new();
    let bench = Bench::new(&place);
    let local = place.text("long");
    fs::write(&local, [7; 1 << 20]).unwrap();
    done(&["files", "put", &local, &bench.url(&bench.admin, "long")]);
    let app = Key::create(&bench.node, "app", &[]);
    let number = app.grant(&bench.node, "data", &["--rights", "r"]);
    let files = bench.files(&app);
    let (long, _) = files.stat(&path("/long")).unwrap();
    files.retain(long).unwrap();
    let read = || {
        let mut bytes = [0; 4096];
        files.read(long, &mut bytes, ByteOffset(8192)).map(|len| (len, bytes))
    };
    for _ in 0..4 {
        assert_eq!(read().unwrap(), (4096, [7; 4096]));
    }
    assert_eq!(files.seal(long, Rights::WRITE).unwrap_err().errno(), Errno::ACCESS);
    let SealedFile { seal, bearer, .. } = files.seal(long, Rights::READ).unwrap();
    let enter = || {
        let client =
            Client::connect(&Door::Tcp.url(&bench.node), Credentials::from(bearer.clone()))?;
        client.sealed_queue_pair(&seal, QueueOptions::default())
    };
    enter().unwrap();
    bench.node.command(&["grant", "revoke", &number.to_string()]);
    assert_eq!(read().unwrap_err().errno(), Errno::ACCESS);
    assert_eq!(status(enter()), Status::STALE_EPOCH);
    bench.node.terminate();
}

#[test]
fn a_grant_that_cannot_be_is_refused_on_one_line() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let flags = ["--device", &device, "--volume", "data=8MiB@flash"];
    let node = Node::with_direct(&place, &flags);
    Key::create(&node, "app", &[]);
    let data = place.data_dir();
    let refused = |path: &str, reasons: &[&str]| {
        let add = ["grant", "add", "app", "data", "--path", path, "--data-dir", &data];
        refused(&add, 1, reasons);
    };
    refused("/a", &["does not own the files", "--files data"]);
    refused("a", &["write /a"]);
    refused("/../a", &["'..'"]);
    node.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_with_a_grant_on_a_directory_shows_that_directory() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Tcp);
    let admin = bench.mount(&[]);
    fs::create_dir(bench.at("models")).unwrap();
    fs::create_dir(bench.at("private")).unwrap();
    fs::write(bench.at("private/p"), b"private").unwrap();
    std::os::unix::fs::symlink("../private/p", bench.at("models/link")).unwrap();
    admin.unmount();
    let app = Key::create(bench.node(), "app", &[]);
    app.grant(bench.node(), "data", &["--path", "/models", "--rights", "rw"]);
    let secret = place.text("secret");
    fs::write(&secret, app.secret()).unwrap();
    let url = format!("{}?key=app&secret-file={secret}", bench.url());
    done(&["mount", &url, bench.dir_text(), "--log", &place.text("mount.log")]);
    let names = |at: &str| {
        let entries = fs::read_dir(bench.at(at)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["models"]);
    let listed = Command::new("ls").args(["-la", bench.dir_text()]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stderr).unwrap(), "");
    fs::write(bench.at("models/new"), b"bytes").unwrap();
    fs::rename(bench.at("models/new"), bench.at("models/renamed")).unwrap();
    assert_eq!(fs::read(bench.at("models/renamed")).unwrap(), b"bytes");
    assert_eq!(names("models/../models"), ["link", "renamed"]);
    let held = File::open(bench.at("models/renamed")).unwrap();
    fs::remove_file(bench.at("models/renamed")).unwrap();
    held.read_exact_at(&mut [0; 5], 0).unwrap();
    for outside in ["private/p", "models/../private/p", "models/link"] {
        let error = fs::read(bench.at(outside)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{outside}");
    }
    for error in [
        fs::write(bench.at("new"), b"x").unwrap_err(),
        fs::rename(bench.at("models/link"), bench.at("link")).unwrap_err(),
        fs::hard_link(bench.at("models/link"), bench.at("link")).unwrap_err(),
        fs::rename(bench.at("models"), bench.at("other")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    drop(held);
    done(&["umount", bench.dir_text()]);
    bench.terminate();
}
