//! The command as a user runs it: starts a node, sends calls to it, and stops it. A failure is one
//! line and an exit code.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use common::{Node, failed, nearflash, said, text, typed};

#[test]
fn the_service_manager_learns_that_the_node_is_ready_and_that_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    let data_dir = folder.path().join("state");
    let mut command = nearflash(&["serve", "--nvme-tcp", "127.0.0.1:0", "--device", "r=ram:64MiB"]);
    command.args(["--data-dir", text(&data_dir)]).env("NOTIFY_SOCKET", &path);
    let mut node = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let told = || {
        let mut bytes = [0; 64];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1");
    kill_process(Pid::from_child(&node), Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1");
    assert!(node.wait().unwrap().success());
}

#[test]
fn a_person_is_asked_before_data_is_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let arguments = ["--data-dir", data_dir, "--device", "r=ram:64MiB", "--volume", "data=8MiB@r"];
    let _node = Node::start(&arguments);
    let remove = ["volume", "remove", "data", "--data-dir", data_dir];
    let (shown, success) = typed("n", &remove);
    let question = "Remove volume 'data': 8MiB on device 'r', namespace 1 of \
                    nqn.2026-11.io.nearflash:data, and its data? [y/N]";
    assert!(shown.contains(question) && shown.contains("nothing was changed"), "{shown}");
    assert!(!success);
    let shrink = ["volume", "resize", "data", "4MiB", "--shrink", "--data-dir", data_dir];
    let (shown, success) = typed("", &shrink);
    assert!(shown.contains("The data past the new end is lost. [y/N]") && !success, "{shown}");
    assert!(said(&["volume", "list", "--data-dir", data_dir]).contains("8MiB"));
    assert!(typed("y", &shrink).1);
    assert!(said(&["volume", "list", "--data-dir", data_dir]).contains("4MiB"));
    let (shown, success) = typed("", &[&remove[..], &["--yes"]].concat());
    assert!(success && !shown.contains('?'), "{shown}");
}

#[test]
fn a_node_serves_answers_and_drains_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let node = Node::start(&[
        "--data-dir",
        data_dir,
        "--device",
        "r=ram:64MiB",
        "--volume",
        "data=8MiB@r",
    ]);
    assert_eq!((&node.ready["schema"], &node.ready["event"]), (&1.into(), &"ready".into()));
    assert_eq!(node.ready["pid"], node.child.id());
    assert_eq!(node.ready["volumes"][0]["nqn"], "nqn.2026-11.io.nearflash:data");
    let made = said(&["volume", "create", "logs=1MiB@r,block-size=512", "--data-dir", data_dir]);
    assert_eq!(
        made,
        "created volume 'logs': 1MiB on device 'r', namespace 1 of nqn.2026-11.io.nearflash:logs\n"
    );
    let resized = said(&["volume", "resize", "logs", "2MiB", "--data-dir", data_dir, "--json"]);
    let resized: Value = serde_json::from_str(&resized).unwrap();
    assert_eq!((&resized["schema"], &resized["volume"]["bytes"]), (&1.into(), &(2 << 20).into()));
    let list = said(&["volume", "list", "--data-dir", data_dir]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["VOLUME", "data", "logs"]);
    assert!(said(&["volume", "remove", "logs", "--data-dir", data_dir]).starts_with("removed"));
    let jobs = said(&["job", "list", "--data-dir", data_dir]);
    let kinds: Vec<Vec<&str>> =
        jobs.lines().map(|line| line.split_whitespace().skip(1).take(3).collect()).collect();
    assert_eq!(kinds[1..], [["volume-create", "logs", "done"], ["volume-resize", "logs", "done"]]);
    let (message, code) = failed(&["job", "wait", "7", "--data-dir", data_dir]);
    assert!(message.starts_with("nearflash: job 7 does not exist") && code == 1, "{message}");
    let status: Value =
        serde_json::from_str(&said(&["status", "--data-dir", data_dir, "--json"])).unwrap();
    assert_eq!(status["volumes"], node.ready["volumes"]);
    assert_eq!(status["devices"][0]["free_bytes"], 56 << 20);
    assert!(said(&["status", "--data-dir", data_dir]).contains("no hosts are connected"));
    node.signal(Signal::TERM);
    let ready = node.ready.clone();
    let (code, log) = node.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("drained"), "{log}");
    let address = ready["nvme_tcp"][0].as_str().unwrap();
    let greeting =
        format!("ready: NVMe/TCP on {address}; next: nearflash status --data-dir {data_dir}\n");
    assert_eq!(log.matches(&greeting).count(), 1, "{log}");
    let (message, code) = failed(&["status", "--data-dir", data_dir]);
    assert!(message.starts_with("nearflash: no node is running on data directory"), "{message}");
    assert_eq!(code, 1);
}

#[test]
fn credentials_and_grants_are_made_listed_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let flags = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--data-dir", data_dir];
    let node = Node::start(&flags);
    let run = |arguments: &[&str]| said(&[arguments, &["--data-dir", data_dir]].concat());
    let made = run(&["credential", "create", "app"]);
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines[0], "created credential 'app', which does not expire");
    let secret = lines[1].strip_prefix("secret: ").unwrap();
    assert!(secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
    let file = folder.path().join("guest.secret");
    let with_file = ["credential", "create", "guest", "--expires", "30d", "--secret-file"];
    let made = run(&[&with_file[..], &[text(&file)]].concat());
    assert!(made.starts_with("created credential 'guest', until "), "{made}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!((written.len(), made.matches(written.trim()).count()), (65, 0));
    let add = ["grant", "add", "app", "data", "--range", "0..4MiB", "--rights", "rw"];
    let granted = run(&add);
    assert_eq!(granted, "added grant 1 of 'app': read and write 0..4MiB of volume 'data'\n");
    let granted = run(&["grant", "add", "guest", "data", "--json"]);
    let granted: Value = serde_json::from_str(&granted).unwrap();
    assert_eq!((&granted["schema"], &granted["grant"]["rights"]), (&1.into(), &"r".into()));
    assert_eq!(run(&["grant", "list", "app"]).lines().count(), 2);
    let removed = run(&["grant", "remove", "1"]);
    assert_eq!(removed, "removed grant 1 of 'app': read and write 0..4MiB of volume 'data'\n");
    let removed = run(&["credential", "remove", "guest"]);
    assert_eq!(removed, "removed credential 'guest' and its grant\n");
    let list: Value = serde_json::from_str(&run(&["credential", "list", "--json"])).unwrap();
    assert_eq!(list["credentials"][0]["id"], "app");
    assert!(run(&["grant", "list"]).starts_with("no grants"));
    let unused = folder.path().join("unused.secret");
    let again = ["credential", "create", "app", "--secret-file", text(&unused)];
    let (message, _) = failed(&[&again[..], &["--data-dir", data_dir]].concat());
    assert!(message.contains("credential 'app' exists already"), "{message}");
    assert!(!unused.exists(), "no file without a secret");
    node.signal(Signal::TERM);
    let (code, log) = node.end();
    assert!(code == Some(0) && !log.contains(secret), "{log}");
}

#[test]
fn a_node_that_was_killed_starts_again_with_its_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("state");
    let device = format!("flash=file:{}/flash.img", text(folder.path()));
    let sized = format!("{device},size=64MiB");
    let flags = ["--data-dir", text(&data_dir), "--volume", "data=8MiB@flash", "--device"];
    let node = Node::start(&[&flags[..], &[&sized]].concat());
    let volumes = node.ready["volumes"].clone();
    node.signal(Signal::KILL);
    assert_eq!(node.end().0, None);
    let node = Node::start(&[&flags[..], &[&device]].concat());
    assert_eq!(node.ready["volumes"], volumes);
    node.signal(Signal::INT);
    assert_eq!(node.end().0, Some(0));
}

#[test]
fn what_is_written_wrong_is_said_in_one_line_with_exit_code_2() {
    let (message, code) = failed(&["serve", "--device", "r=ram:much"]);
    assert_eq!(
        message,
        "nearflash: --device: device 'r': 'much' is not a size: write a whole number and a unit, \
         for example 512, 64KiB or 8GiB"
    );
    assert_eq!(code, 2);
    for (arguments, expected) in [
        (
            &["data=1GiB"][..],
            "nearflash: 'data=1GiB' is not a valid volume: write NAME=SIZE@DEVICE",
        ),
        (&["data"], "nearflash: volume 'data' has no size: add --size SIZE"),
        (&["a=1GiB@r", "--size", "1GiB"], "nearflash: 'a=1GiB@r' has a size and a device already"),
        (
            &["a", "--size", "1GiB", "--device", "r", "--block-size", "1k"],
            "nearflash: '1k' is not a valid block size",
        ),
        (&["a", "--device", "r"], "nearflash: the following required arguments were not provided"),
    ] {
        let (message, code) = failed(&[&["volume", "create"], arguments].concat());
        assert!(message.starts_with(expected) && code == 2, "{message}");
    }
    for arguments in [
        &["bench", "floor://", "--rw", "randrw"][..],
        &["job", "wait", "third"],
        &["apply", "/does/not/exist"],
        &["volume"],
    ] {
        let output = nearflash(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let add = ["host", "add", "iqn.2026-11.test:app"];
    let (message, code) = failed(&add);
    let expected =
        "nearflash: initiator 'iqn.2026-11.test:app' has no keys here: add --volume VOLUME";
    assert!(message.starts_with(expected) && code == 2, "{message}");
}

#[test]
fn the_data_directory_comes_from_a_flag_at_either_place_or_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (here, elsewhere) = (folder.path().join("here"), folder.path().join("elsewhere"));
    let (here, elsewhere) = (text(&here), text(&elsewhere));
    let flags = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--data-dir", here];
    let _node = Node::start(&flags);
    let with = |variable: &str, arguments: &[&str]| {
        let output = nearflash(arguments).env("NEARFLASH_DATA_DIR", variable).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [
        &["--data-dir", here, "volume", "list"][..],
        &["volume", "--data-dir", here, "list"],
        &["volume", "list", "--data-dir", here],
        &["--data-dir", elsewhere, "volume", "list", "--data-dir", here],
    ] {
        assert!(said(arguments).contains("8MiB"));
        assert_eq!(with(elsewhere, arguments), (true, String::new()));
    }
    assert!(!with(here, &["cluster", "status"]).0, "it is no machine of a cluster");
    assert_eq!(with(here, &["status"]), (true, String::new()));
    let (message, code) = failed(&["--data-dir", here, "umount", here]);
    assert!(message.contains("--data-dir names the directory of a node") && code == 2, "{message}");
    let (success, message) = with(elsewhere, &["status"]);
    assert!(!success && message.contains(elsewhere), "{message}");
    assert!(message.contains("--data-dir or NEARFLASH_DATA_DIR"), "{message}");
    let file = folder.path().join("node.toml");
    std::fs::write(&file, format!("data-dir = '{elsewhere}'\ndevice = 'r=ram:64MiB'\n")).unwrap();
    let plan = ["apply", text(&file), "--dry-run"];
    assert!(!with("", &plan).0);
    assert_eq!(with(here, &plan), (true, String::new()));
}

#[test]
fn the_node_decides_where_a_volume_without_a_device_lies_and_refuses_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let create = ["volume", "create", "a", "--size", "1MiB", "--data-dir", data_dir];
    let node = Node::start(&["--data-dir", data_dir, "--device", "r=ram:64MiB"]);
    assert!(said(&create).contains("created volume 'a'"));
    assert!(said(&["volume", "list", "--data-dir", data_dir]).contains(" r "), "the only device");
    let refused = |arguments: &[&str]| failed(&[&create[..], arguments].concat());
    let (message, code) = refused(&["--device", "r", "--replicas", "2"]);
    assert!(message.contains("2 replicas do not lie on one device") && code == 1, "{message}");
    let (message, _) = refused(&["--device", "r", "--stripe", "64KiB"]);
    assert!(message.contains("only volumes of a cluster have a stripe unit"), "{message}");
    let (message, _) = refused(&["--replicas", "1"]);
    assert!(message.contains("this node serves no cluster"), "{message}");
    node.signal(Signal::TERM);
    assert_eq!(node.end().0, Some(0));
    let devices = ["--device", "r=ram:64MiB", "--device", "s=ram:64MiB"];
    let node = Node::start(&[&["--data-dir", data_dir], &devices[..]].concat());
    let (message, _) = refused(&[]);
    assert!(message.contains("no device is named, and the node has several"), "{message}");
    assert!(message.contains("choose one of: r, s"), "{message}");
    node.signal(Signal::TERM);
    assert_eq!(node.end().0, Some(0));
}

#[test]
fn the_verbs_of_all_nouns_have_the_same_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let node = Node::start(&["--data-dir", data_dir, "--device", "r=ram:64MiB"]);
    let run = |arguments: &[&str]| said(&[&["--data-dir", data_dir], arguments].concat());
    let made = run(&["volume", "create", "a", "--size", "1MiB", "--device", "r"]);
    let short = run(&["volume", "add", "b=1MiB@r"]);
    assert_eq!(made.replace('a', "b"), short.replace('a', "b"));
    run(&["credential", "add", "app"]);
    run(&["grant", "create", "app", "a"]);
    run(&["grant", "revoke", "1"]);
    run(&["grant", "add", "app", "a"]);
    run(&["grant", "rm", "2"]);
    run(&["chap", "create", "app"]);
    run(&["token", "add", "app", "--scope", "read", "--for", "1d"]);
    for noun in
        ["volume", "credential", "grant", "host", "chap", "token", "reservation", "device", "job"]
    {
        assert_eq!(run(&[noun, "ls"]), run(&[noun, "list"]));
    }
    for subject in [["volume", "a"], ["credential", "app"], ["chap", "app"], ["token", "app"]] {
        assert!(run(&[subject[0], "rm", subject[1]]).starts_with("removed "));
    }
    assert!(run(&["volume", "delete", "b"]).starts_with("removed "));
    node.signal(Signal::TERM);
    assert_eq!(node.end().0, Some(0));
}

#[test]
fn many_jobs_of_one_thread_have_a_connection_each_at_every_door() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let socket = dir.path().join("direct.sock");
    let node = Node::start(&[
        "--iscsi",
        "127.0.0.1:0",
        "--direct",
        "127.0.0.1:0",
        "--direct-local",
        text(&socket),
        "--device",
        "r=ram:80MiB",
        "--volume",
        "data=72MiB@r",
        "--data-dir",
        text(&data),
    ]);
    let address = |door: &str| node.ready[door][0].as_str().unwrap().to_owned();
    // More than one NVMe controller has queues for.
    for target in [
        format!("nvme-tcp://{}/data", address("nvme_tcp")),
        format!("iscsi://{}/data", address("iscsi")),
        format!("direct://{}/data", address("direct")),
        format!("direct+local:{}/data", text(&socket)),
    ] {
        let words = "--rw randwrite --numjobs 72 --threads 1 --offset-increment 1MiB --size 64KiB \
                     --verify crc32c --output-format json --spin";
        let words = words.split_whitespace();
        for spin in ["never", "adaptive"] {
            let words = ["bench", &target].into_iter().chain(words.clone()).chain([spin]);
            let report: Value = serde_json::from_str(&said(&words.collect::<Vec<_>>())).unwrap();
            let written = &report["jobs"][0]["write"]["total_ios"];
            assert_eq!(written.as_u64(), Some(72 * 16), "{target} {spin}");
        }
    }
}

#[test]
fn a_port_or_a_data_directory_in_use_is_said_in_one_line_with_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let flags = ["serve", "--data-dir", data_dir, "--device", "r=ram:2MiB", "--nvme-tcp"];
    let (message, code) = failed(&[&flags[..], &[&address]].concat());
    assert!(message.contains("another program is listening there"), "{message}");
    assert_eq!(code, 1);
    let node = Node::start(&flags[1..5]);
    let (message, code) = failed(&[&flags[..], &["127.0.0.1:0"]].concat());
    let owner = format!("is in use by another node (process {})", node.child.id());
    assert!(message.contains(&owner), "{message}");
    assert_eq!(code, 1);
}

/// The superuser may read everything, so the program runs as another user then.
#[test]
fn a_data_directory_that_cannot_be_read_is_said_in_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    std::fs::create_dir(&data_dir).unwrap();
    let program = folder.path().join("nearflash");
    std::fs::copy(nearflash(&[]).get_program(), &program).unwrap();
    let mode = <std::fs::Permissions as PermissionsExt>::from_mode;
    std::fs::set_permissions(folder.path(), mode(0o755)).unwrap();
    std::fs::set_permissions(&data_dir, mode(0o000)).unwrap();
    let flags = ["--device", "r=ram:2MiB", "--nvme-tcp", "127.0.0.1:0", "--data-dir"];
    for (arguments, remedy) in [
        (&[&["serve"], &flags[..]].concat()[..], "run this as its owner"),
        (&["status", "--data-dir"], "repeat the command as one of them"),
        (&["events", "--changes", "--data-dir"], "run this as the user of the node"),
    ] {
        let mut command = Command::new(&program);
        command.args(arguments).arg(&data_dir).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), message.matches('\n').count()),
            (Some(1), 1),
            "{message}"
        );
        assert!(message.contains(text(&data_dir)) && message.contains(remedy), "{message}");
    }
    std::fs::set_permissions(&data_dir, mode(0o700)).unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let serve = [&["serve"], &flags[..], &[text(&file)]].concat();
    for arguments in [&serve[..], &["status", "--data-dir", text(&file)]] {
        let (message, code) = failed(arguments);
        assert!(message.contains("with --data-dir") && code == 1, "{message}");
    }
}

#[test]
fn help_version_and_completions_are_there() {
    assert!(said(&["--version"]).starts_with("nearflash "));
    for subcommand in [
        "serve",
        "apply",
        "config",
        "volume",
        "credential",
        "grant",
        "host",
        "chap",
        "reservation",
        "job",
        "status",
        "bench",
        "demo",
        "completions",
    ] {
        assert!(said(&[subcommand, "--help"]).contains("Examples:"));
    }
    let completions = said(&["completions", "bash"]);
    assert!(completions.contains("_nearflash()") && completions.contains("--secret-file"));
    assert!(completions.contains("--dry-run") && completions.contains("--prune"));
}

#[test]
fn a_secret_that_cannot_be_printed_is_said_to_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = text(folder.path());
    let _node = Node::start(&["--data-dir", data_dir, "--device", "r=ram:64MiB"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = nearflash(&["credential", "create", "app", "--data-dir", data_dir]);
    let done = command.stdout(full).output().unwrap();
    let message = String::from_utf8(done.stderr).unwrap();
    assert!(
        message.contains("the change is made, and a secret in its answer is lost"),
        "{message}"
    );
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&["credential", "list", "--data-dir", data_dir]).contains("app"));
}
