//! Files in a volume, through the command: they are copied in and out, renamed and removed, outlive
//! a restart of the node, and wrong inputs are refused on one line.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

use nearflash::direct::{OwnerOptions, Ownership};
use nearflash::{Client, Credentials};
use nearflash_files_service::{Disk as _, VolumeDisk};
use nearflash_node_tests::{Door, Node, Place, eventually, nearflash};
use nearflash_units::ByteOffset;
use serde_json::Value;

/// Bytes that differ at every offset, as far as that is possible.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 4096 + at) % 251).unwrap()).collect()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(nearflash());
    command.arg("files").args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

/// The document of a command that succeeds.
fn done(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    document
}

/// The message of a command that fails, and its exit code.
fn failed(arguments: &[&str]) -> (String, i32) {
    let output = run(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.matches('\n').count(), 1, "one line: {message}");
    assert!(output.stdout.is_empty());
    (message.trim_end().to_owned(), output.status.code().unwrap())
}

fn refused(arguments: &[&str], code: i32, reasons: &[&str]) {
    let (message, found) = failed(arguments);
    assert_eq!(found, code, "{message}");
    for reason in reasons {
        assert!(message.contains(reason), "{message} names {reason}");
    }
}

/// The names in a directory.
fn names(url: &str) -> Vec<String> {
    let listed = done(&["ls", url]);
    let entries = listed["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_are_copied_renamed_and_removed_and_outlive_the_node() {
    let place = Place::new();
    let device = place.flash("128MiB");
    let flags = ["--device", &device, "--volume", "data=64MiB@flash"];
    let node = Node::with_direct(&place, &flags);
    let url = format!("{}/data", Door::Tcp.url(&node));
    let at = |path: &str| format!("{url}/{path}");
    let (source, copy) = (place.text("source.bin"), place.text("copy.bin"));
    let contents = bytes(5 * 1024 * 1024 + 17);
    std::fs::write(&source, &contents).unwrap();

    let formatted = done(&["format", &url]);
    assert_eq!(formatted["volume"], "data");
    assert!(formatted["free_bytes"].as_u64().unwrap() > 50 << 20);
    done(&["mkdir", &at("models")]);
    let put = done(&["put", &source, &at("models/")]);
    assert_eq!(
        (&put["path"], &put["bytes"]),
        (&"/models/source.bin".into(), &contents.len().into())
    );
    assert_eq!(put["runs"].as_array().unwrap().len(), 1);
    done(&["get", &at("models/source.bin"), &copy]);
    assert_eq!(std::fs::read(&copy).unwrap(), contents);
    done(&["mv", &at("models/source.bin"), "/models/new name"]);
    assert_eq!(names(&at("models")), ["/models/new name"]);
    node.terminate();

    let node = Node::with_direct(&place, &flags);
    let url = format!("{}/data", Door::Local.url(&node));
    let at = |path: &str| format!("{url}/{path}");
    let output = run(&["get", &at("models/new%20name"), "-"]);
    assert!(output.stdout == contents, "through shared memory, to stdout");
    let stat = done(&["stat", &at("models/new%20name")]);
    assert_eq!((&stat["kind"], &stat["links"]), (&"file".into(), &1.into()));
    std::fs::write(&source, b"short").unwrap();
    done(&["put", &source, &at("models/new%20name"), "--replace"]);
    assert_eq!(run(&["get", &at("models/new%20name"), "-"]).stdout, b"short");
    let checked = done(&["check", &url]);
    assert_eq!((&checked["is_sound"], &checked["files"]), (&true.into(), &1.into()));
    assert_eq!(checked["free_bytes"], formatted["free_bytes"].as_u64().unwrap() - 4096);
    done(&["rm", &at("models/new%20name")]);
    done(&["rm", &at("models")]);
    assert_eq!(names(&url), [""; 0]);
    node.terminate();
}

#[test]
fn names_that_are_not_text_are_bytes_in_urls_and_never_reach_a_terminal() {
    for more in [&["--files", "data"][..], &[]] {
        let place = Place::new();
        let volume = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
        let node = Node::with_direct(&place, &[&volume[..], more].concat());
        let url = format!("{}/data", Door::Tcp.url(&node));
        let source = place.text("source");
        std::fs::write(&source, "contents").unwrap();
        done(&["format", &url]);
        done(&["mkdir", &format!("{url}/%FF%FE")]);
        done(&["put", &source, &format!("{url}/%FF%FE/%1B[31mred%0A%80")]);
        let listed = done(&["ls", &url]);
        assert_eq!(listed["entries"][0]["path"], Value::Null);
        assert_eq!(listed["entries"][0]["encoded_path"], "/%FF%FE");
        let listed = done(&["ls", &format!("{url}/%FF%FE")]);
        let path = listed["entries"][0]["encoded_path"].as_str().unwrap().to_owned();
        assert_eq!(path, "/%FF%FE/%1B%5B31mred%0A%80");
        let file = format!("{url}{path}");
        let shown = r"$'/\xFF\xFE/\x1B[31mred\n\x80'";
        for command in [&["stat", &file][..], &["ls", &format!("{url}/%FF%FE")]] {
            let output = run(command);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(shown) && !text.contains('\x1b'), "{text:?}");
        }
        let folder = place.text("folder");
        std::fs::create_dir(&folder).unwrap();
        done(&["get", &file, &folder]);
        let name = std::ffi::OsStr::from_bytes(b"\x1B[31mred\n\x80");
        assert_eq!(std::fs::read(place.path("folder").join(name)).unwrap(), b"contents");
        let output = run(&["get", &file, &folder, "--replace"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !text.contains('\x1b'), "{text:?}");
        refused(&["get", &file, &folder], 1, &["exists already"]);
        refused(&["stat", &format!("{url}/%1B%FF")], 1, &["\\u{1b}"]);
        let moved = done(&["mv", &file, &format!("{url}/%80")]);
        assert_eq!(
            (&moved["encoded_from"], &moved["encoded_path"]),
            (&path.into(), &"/%80".into())
        );
        done(&["rm", &format!("{url}/%80")]);
        done(&["rm", &format!("{url}/%FF%FE")]);
        node.terminate();
    }
}

#[test]
fn files_without_a_true_length_are_copied_to_their_end() {
    for more in [&["--files", "data"][..], &[]] {
        let place = Place::new();
        let volume = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
        let node = Node::with_direct(&place, &[&volume[..], more].concat());
        let url = format!("{}/data", Door::Tcp.url(&node));
        done(&["format", &url]);
        let sources =
            ["/proc/version", "/proc/filesystems", "/sys/kernel/mm/transparent_hugepage/enabled"];
        for source in sources.into_iter().filter(|source| std::path::Path::new(source).exists()) {
            let put = done(&["put", source, &format!("{url}/f"), "--replace"]);
            let contents = std::fs::read(source).unwrap();
            assert_eq!(put["bytes"], contents.len());
            assert!(run(&["get", &format!("{url}/f"), "-"]).stdout == contents);
        }
        node.terminate();
    }
}

#[test]
fn a_node_is_reached_at_a_socket_whose_path_is_longer_than_an_address() {
    let place = Place::new();
    let folder = place.path(&"x".repeat(120));
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("d.sock").to_str().unwrap().to_owned();
    let volume = ["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"];
    let node = Node::start(&place, &[&volume[..], &["--direct-local", &socket]].concat());
    let url = format!("direct+local:{socket}/data");
    done(&["format", &url]);
    done(&["mkdir", &format!("{url}/d")]);
    assert_eq!(names(&url), ["/d"]);
    node.terminate();
}

#[test]
fn a_pipe_is_a_source() {
    let place = Place::new();
    let node = Node::with_direct(&place, &["--device", "r=ram:64MiB", "--volume", "data=32MiB@r"]);
    let url = format!("{}/data", Door::Tcp.url(&node));
    done(&["format", &url]);
    let contents = bytes(3 * 1024 * 1024 + 5);
    let mut command = Command::new(nearflash());
    let target = format!("{url}/piped");
    command.args(["files", "put", "-", &target]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&contents).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(run(&["get", &target, "-"]).stdout == contents);
    node.terminate();
}

#[test]
fn wrong_inputs_are_refused_by_name() {
    let place = Place::new();
    let flags = ["--device", "r=ram:128MiB", "--volume", "data=32MiB@r", "--volume", "raw=16MiB@r"];
    let node = Node::with_direct(&place, &flags);
    let url = format!("{}/data", Door::Tcp.url(&node));
    let at = |path: &str| format!("{url}/{path}");
    let source = place.text("source.bin");
    std::fs::write(&source, bytes(1000)).unwrap();

    refused(&["ls", &url], 1, &["'data' is not formatted", "nearflash files format"]);
    refused(&["ls", &Door::Tcp.url(&node)], 1, &["append /VOLUME"]);
    refused(&["ls", &format!("{}/none/a", Door::Tcp.url(&node))], 1, &["'none'"]);
    let client = Client::connect(&Door::Tcp.url(&node), Credentials::NONE).unwrap();
    client.open("raw").unwrap().write_at(b"XFSB", 0).unwrap();
    let raw = format!("{}/raw", Door::Tcp.url(&node));
    refused(&["format", &raw], 1, &["'raw' holds an XFS file system", "--force"]);
    done(&["format", &raw, "--force"]);
    refused(&["format", &format!("{raw}/a")], 2, &["/a", "whole volume"]);

    done(&["format", &url]);
    refused(&["format", &url], 1, &["holds files of nearflash"]);
    refused(&["put", &source, &at(&"n".repeat(256))], 2, &["256 bytes", "255"]);
    refused(&["put", &source, &at(&"n/".repeat(2049)[..4097])], 2, &["4097 bytes", "4096"]);
    refused(&["put", &source, &at("../a")], 2, &["'..'"]);
    refused(&["put", "/no/such/file", &at("a")], 1, &["cannot read /no/such/file"]);
    refused(&["get", &at("none"), &place.text("x")], 1, &["/none: no such file or directory"]);
    done(&["put", &source, &at("a")]);
    refused(&["put", &source, &at("a")], 1, &["/a exists already", "--replace"]);
    refused(&["get", &at("a"), &source], 1, &["source.bin exists already", "--replace"]);
    refused(&["ls", &at("a/b")], 1, &["/a: not a directory"]);
    refused(&["mv", &at("a"), &format!("{raw}/a")], 2, &["within its volume"]);

    let big = std::fs::File::create(place.path("big.bin")).unwrap();
    big.set_len(40 << 20).unwrap();
    refused(&["put", &place.text("big.bin"), &at("big")], 1, &["no space", "40MiB"]);
    assert_eq!(names(&url), ["/a"]);
    assert_eq!(done(&["check", &url])["is_sound"], true);
    node.terminate();
}

#[test]
fn a_loss_is_counted_before_a_flush_succeeds_over_the_next_connection() {
    // A node with memory may lose writes when it ends, one with files alone does not.
    for (memory, losses) in [(vec!["--device", "memory=ram:16MiB"], 1), (vec![], 0)] {
        assert_losses_after_a_crash(&memory, losses);
    }
}

fn assert_losses_after_a_crash(more: &[&str], losses: u64) {
    let place = Place::new();
    let device = place.flash("64MiB");
    let flags = [&["--device", &device, "--volume", "data=32MiB@flash"], more].concat();
    let node = Node::with_direct(&place, &flags);
    let disk = VolumeDisk::new(Door::Local.anonymous(&node).unwrap().open("data").unwrap());
    disk.write_at(&[7; 4096], ByteOffset(0)).unwrap();
    disk.flush().unwrap();
    disk.write_at(&[8; 4096], ByteOffset(0)).unwrap();
    assert_eq!(disk.losses(), 0);
    node.crash();
    let node = Node::with_direct(&place, &flags);
    // The first flush may notice the lost connection; the next one has a new connection.
    disk.flush().unwrap_err();
    disk.read_at(&mut [0; 4096], ByteOffset(0)).unwrap();
    disk.flush().unwrap();
    assert_eq!(disk.losses(), losses, "the writes before it may be lost");
    disk.check_losses().unwrap();
    assert_eq!(disk.losses(), losses, "each loss is counted once");
    node.terminate();
}

#[test]
fn a_volume_that_another_process_changes_is_refused_until_it_is_taken_over() {
    let place = Place::new();
    let device = place.flash("128MiB");
    let node = Node::with_direct(&place, &["--device", &device, "--volume", "data=64MiB@flash"]);
    let url = format!("{}/data", Door::Tcp.url(&node));
    done(&["format", &url]);
    done(&["mkdir", &format!("{url}/first")]);

    let client = Door::Tcp.anonymous(&node).unwrap();
    let options = OwnerOptions::new("another program", "host7").offset(8192);
    let other = Ownership::take(&client, "data", &options).unwrap();
    let second = format!("{url}/second");
    refused(&["mkdir", &second], 1, &["another program at host7", "use --take-over"]);
    assert_eq!(names(&url), ["/first"], "reading needs no ownership");
    done(&["mkdir", &second, "--take-over"]);
    assert_eq!(names(&url), ["/first", "/second"]);
    other.volume().write_at(&[7; 4096], 1 << 20).unwrap_err();

    // Another format keeps the term: the former owner does not become the owner again.
    done(&["format", &url, "--force"]);
    other.volume().write_at(&[7; 4096], 1 << 20).unwrap_err();
    let third = Ownership::take(&client, "data", &options).unwrap();
    assert!(third.term() > other.term() + 1, "{} {}", third.term(), other.term());
}

#[test]
fn a_node_serves_its_other_volumes_while_the_metadata_of_one_is_damaged() {
    let place = Place::new();
    let device = place.flash("128MiB");
    let volumes =
        ["--device", &device, "--volume", "bad=32MiB@flash", "--volume", "good=32MiB@flash"];
    let node = Node::with_direct(&place, &volumes);
    let url = |node: &Node<'_>, name: &str| format!("{}/{name}", Door::Tcp.url(node));
    let source = place.text("source.bin");
    std::fs::write(&source, bytes(100_000)).unwrap();
    for name in ["bad", "good"] {
        done(&["format", &url(&node, name)]);
        done(&["put", &source, &format!("{}/kept", url(&node, name))]);
    }
    // The first blocks of the metadata, behind its header.
    let client = Client::connect(&Door::Tcp.url(&node), Credentials::NONE).unwrap();
    let disk = VolumeDisk::new(client.open("bad").unwrap());
    disk.write_at(&[0x5A; 256 << 10], ByteOffset((1 << 20) + 8192)).unwrap();
    let damage = ["metadata of volume 'bad' is damaged: ", "restore the volume from a backup"];
    for command in ["ls", "check"] {
        refused(&[command, &url(&node, "bad")], 1, &damage);
        done(&[command, &url(&node, "good")]);
    }
    drop((disk, client));
    node.terminate();

    // The node that owns the files of both goes on, too.
    let node =
        Node::with_direct(&place, &[&volumes[..], &["--files", "bad", "--files", "good"]].concat());
    let copy = place.text("copy.bin");
    refused(&["ls", &url(&node, "bad")], 1, &damage);
    refused(&["check", &url(&node, "bad")], 1, &damage);
    done(&["get", &format!("{}/kept", url(&node, "good")), &copy]);
    assert!(std::fs::read(&copy).unwrap() == bytes(100_000));
    done(&["check", &url(&node, "good")]);
    eventually("the log names the volume", || {
        place.log().contains("cannot serve files: metadata of volume 'bad' is damaged")
    });
    let verdict = &node.command(&["status"])["verdict"];
    assert_eq!(verdict["level"], "problem");
    let reason = verdict["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("files are not served: metadata of volume 'bad' is damaged"));
    node.terminate();
}
