//! QEMU's iSCSI client against a node: direct clients read the data that it writes, and vice versa.

use std::fs;
use std::process::Command;

use nearflash::{Client, Credentials, Volume};
use nearflash_interop::{Account, Node, Scratch, is_self_check};

const MIB: usize = 1 << 20;
const MIB_OFFSET: u64 = 1 << 20;

/// Runs a program of qemu-utils. Returns its output, as `Err` if it failed.
fn try_qemu(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program} does not start ({error}); 'make deps-test' installs it")
    });
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn qemu(program: &str, arguments: &[&str]) -> String {
    let result = try_qemu(program, arguments);
    result.unwrap_or_else(|said| panic!("{program} {arguments:?} failed: {said}"))
}

/// Runs commands of qemu-io one after the other on a volume, without QEMU's cache.
fn qemu_io(url: &str, commands: &[&str]) -> String {
    let mut arguments = vec!["--format=raw", "--cache=none"];
    arguments.extend(commands.iter().flat_map(|command| ["--cmd", command]));
    arguments.push(url);
    let said = qemu("qemu-io", &arguments);
    // The exit code is 0 even if a command fails.
    assert!(!said.contains("failed"), "qemu-io {commands:?}: {said}");
    said
}

fn open_directly(node: &Node, volume: &str) -> Volume {
    let client = Client::connect(&node.direct_url(), Credentials::NONE).expect("the door is open");
    client.open(volume).expect("the volume is there")
}

/// Bytes in which no two blocks are the same.
fn image(len: usize) -> Vec<u8> {
    let words = (0..len / 8).map(|word| word as u64);
    words.flat_map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect()
}

fn read_directly(volume: &Volume, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xA5; len];
    volume.read_at(&mut bytes, offset).expect("a read within the volume");
    bytes
}

#[test]
#[ignore = "needs the Debian package qemu-utils: installed and run by make test"]
fn image_that_qemu_copies_to_a_volume_reads_back_the_same_directly_and_through_qemu() {
    if is_self_check() {
        return;
    }
    let scratch = Scratch::of("qemu-img");
    let mut node =
        Node::with_volumes(&scratch, &["plain=64MiB@flash", "b4096=64MiB@flash,block-size=4096"]);
    let image = image(24 * MIB);
    let (source, copy) = (scratch.path("image"), scratch.path("copy"));
    let (source, copy) = (source.to_str().unwrap(), copy.to_str().unwrap());
    fs::write(source, &image).expect("a test's folder is writable");
    for volume in ["plain", "b4096"] {
        let url = node.iscsi_url(volume);
        let info = qemu("qemu-img", &["info", &url]);
        assert!(info.contains("64 MiB"), "qemu-img sees another size: {info}");
        qemu("qemu-img", &["convert", "-n", "-W", "-f", "raw", "-O", "raw", source, &url]);
        let direct = open_directly(&node, volume);
        assert!(read_directly(&direct, 0, image.len()) == image, "{volume}: other bytes, directly");
        qemu("qemu-img", &["convert", "-f", "raw", "-O", "raw", &url, copy]);
        let copied = fs::read(copy).expect("qemu-img has written it");
        assert!(copied[..image.len()] == image, "{volume}: other bytes, through QEMU");
    }
    node.terminate();
}

#[test]
#[ignore = "needs the Debian package qemu-utils: installed and run by make test"]
fn writes_zeroes_and_discards_of_qemu_and_of_direct_clients_are_seen_by_each_other() {
    if is_self_check() {
        return;
    }
    let scratch = Scratch::of("qemu-io");
    let mut node = Node::with_volumes(&scratch, &["data=64MiB@flash"]);
    let url = node.iscsi_url("data");
    let direct = open_directly(&node, "data");
    direct.write_at(&[0x5A; 3 * MIB], 0).expect("a write within the volume");
    qemu_io(&url, &["read 0 1M"]);
    qemu_io(
        &url,
        &[
            "read -P 0x5a 0 3M",
            "write -P 0xc3 512 1024",
            "write -f -P 0xc4 1M 64k",
            "write -z -u 2M 512k",
            "discard 2560k 512k",
            "flush",
        ],
    );
    assert_eq!(read_directly(&direct, 511, 1026), [&[0x5A][..], &[0xC3; 1024], &[0x5A]].concat());
    assert!(read_directly(&direct, MIB_OFFSET, 65_536).iter().all(|byte| *byte == 0xC4));
    assert!(read_directly(&direct, 2 * MIB_OFFSET, MIB).iter().all(|byte| *byte == 0));
    direct.write_at(&[0x77; 100], 2 * MIB_OFFSET + 100).expect("a write within the volume");
    qemu_io(&url, &["read -P 0x77 -s 100 -l 100 2M 512", "read -P 0 2097664 1k"]);
    node.terminate();
}

#[test]
#[ignore = "needs the Debian package qemu-utils: installed and run by make test"]
fn qemu_comes_in_with_the_secret_and_not_without() {
    if is_self_check() {
        return;
    }
    let scratch = Scratch::of("qemu-chap");
    let mut node = Node::with_volumes(&scratch, &["data=64MiB@flash"]);
    node.add_account(&Account { user: ("qemu", "secret-of-qemu-1"), node: None });
    let url = node.iscsi_url("data");
    let with = |login: &str| url.replace("iscsi://", &format!("iscsi://{login}@"));
    try_qemu("qemu-img", &["info", &url]).expect_err("QEMU came in without a secret");
    try_qemu("qemu-img", &["info", &with("qemu%secret-of-qemu-2")])
        .expect_err("QEMU came in with a wrong secret");
    qemu("qemu-img", &["info", &with("qemu%secret-of-qemu-1")]);
    node.remove_account("qemu");
    try_qemu("qemu-img", &["info", &url])
        .expect_err("the removal of the last account opens nothing");
    node.terminate();
}
