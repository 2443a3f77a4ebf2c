//! Data in use is not destroyed unasked: volumes with clients of the direct protocol, of NVMe and of
//! iSCSI; volumes that hold files; and what is not a file on this machine.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::{Command, Stdio};

use nearflash_node_tests::{Door, Host, Initiator, Node, Place, Who, nearflash};

/// The message of a command that fails with this exit code.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = Command::new(nearflash()).args(arguments).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(message.matches('\n').count(), 1, "one line: {message}");
    message
}

fn done(arguments: &[&str]) {
    let output = Command::new(nearflash()).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[test]
fn a_volume_is_removed_and_shrunk_only_by_force_while_anybody_uses_it() {
    let place = Place::new();
    let flags = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r", "--iscsi", "127.0.0.1:0"];
    let node = Node::with_direct(&place, &flags);
    let data_dir = place.data_dir();
    let check = |user: &str| {
        let remove = refused(&["volume", "remove", "data", "--data-dir", &data_dir], 1);
        assert!(remove.contains("'data' is in use by") && remove.contains(user), "{remove}");
        assert!(remove.contains("--force") && remove.contains("8MiB"), "{remove}");
        let shrink = ["volume", "resize", "data", "4MiB", "--shrink", "--data-dir", &data_dir];
        let shrink = refused(&shrink, 1);
        assert!(shrink.contains(user) && shrink.contains("past 4MiB"), "{shrink}");
    };
    for door in Door::ALL {
        let volume = door.anonymous(&node).unwrap().open("data").unwrap();
        check("direct client");
        volume.write_at(&[7; 512], 0).unwrap();
    }
    let mut host = Host::connect(&node, "data");
    host.assert_works();
    check("NVMe host");
    drop(host);
    let initiator = Initiator::login(&node, "data", &Who::named("a")).unwrap();
    check("iSCSI initiator iqn.2026-11.test:a");
    initiator.log_out();
    let volume = Door::Local.anonymous(&node).unwrap().open("data").unwrap();
    node.command(&["volume", "resize", "data", "4MiB", "--shrink", "--force"]);
    node.command(&["volume", "remove", "data", "--force"]);
    assert!(volume.read_at(&mut [0; 512], 0).is_err());
    node.terminate();
}

#[test]
fn files_are_not_destroyed_by_a_bench_a_shrink_or_a_seal() {
    let place = Place::new();
    let flags = ["--device", "r=ram:128MiB", "--volume", "f=32MiB@r", "--iscsi", "127.0.0.1:0"];
    let node = Node::with_direct(&place, &flags);
    let data_dir = place.data_dir();
    let url = format!("{}/f", Door::Tcp.url(&node));
    done(&["files", "format", &url]);
    let targets = [
        url.clone(),
        format!("nvme-tcp://{}/f", node.address()),
        format!("iscsi://{}/f", node.iscsi_address()),
    ];
    for target in &targets {
        let bench = ["bench", target, "--rw", "randwrite", "--size", "1MiB"];
        let message = refused(&bench, 1);
        assert!(message.contains("files of nearflash") && message.contains("--force"), "{message}");
        done(&["bench", target, "--rw", "randread", "--size", "1MiB"]);
    }
    let shrink = ["volume", "resize", "f", "16MiB", "--shrink", "--force", "--data-dir", &data_dir];
    let message = refused(&shrink, 1);
    assert!(message.contains("holds files") && message.contains("32MiB"), "{message}");
    let seal = node.command(&["grant", "seal", "f", "--for", "1h", "--rights", "rw"]);
    let sealed = seal["url"].as_str().unwrap();
    for arguments in [
        &["files", "ls", sealed][..],
        &["files", "format", "--force", sealed],
        &["files", "check", sealed],
    ] {
        let message = refused(arguments, 1);
        assert!(message.contains("a seal covers bytes, not files"), "{message}");
        assert!(!message.contains("--force"), "{message}");
    }
    done(&["files", "check", &url]);
    for target in &targets {
        done(&["bench", target, "--rw", "randwrite", "--size", "1MiB", "--force"]);
    }
    node.terminate();
}
