//! Devices that fail or fill up, and the durability of writes.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nearflash_node_tests::{
    Admin, Door, Host, Initiator, Node, Place, Stamp, Who, assert_serves, eventually,
};
use nearflash_nvme::{Command, NamespaceId, Status};
use nearflash_units::Lba;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::Resource;

const MIB: u64 = 1 << 20;

fn flash_node<'a>(place: &'a Place, flags: &[&str]) -> Node<'a> {
    let device = place.flash("64MiB");
    let flags = [&["--device", &device, "--volume", "data=8MiB@flash"], flags].concat();
    Node::start(place, &flags)
}

/// The offset of a volume's first block on the device, found by its contents.
fn place_of(stamp: Stamp, place: &Place) -> u64 {
    let bytes = std::fs::read(place.path("flash.img")).unwrap();
    let block = stamp.block(4096);
    let found = bytes.chunks(4096).position(|chunk| chunk == block);
    u64::try_from(found.expect("the block is on the device")).unwrap() * 4096
}

/// The file may not grow, because of its process's limit. This simulates a full file system or an
/// exhausted quota, and needs no privileges.
#[test]
fn a_full_device_answers_capacity_exceeded_and_serves_what_it_has() {
    let place = Place::new();
    let node = flash_node(&place, &["--volume", "other=8MiB@flash"]);
    let mut host = Host::connect(&node, "data");
    let mut other = Host::connect(&node, "other");
    let (first, second) = (Stamp { lba: 0, sequence: 1 }, Stamp { lba: 0, sequence: 2 });
    assert_eq!(host.write_stamp(first), Status::SUCCESS);
    assert_eq!(host.flush(), Status::SUCCESS);
    let start = place_of(first, &place);
    // Block 16 of volume `data` is the first without room.
    node.limit(Resource::Fsize, start + 16 * 4096);
    let block = Stamp { lba: 16, sequence: 1 }.block(4096);
    let full = Status::CAPACITY_EXCEEDED.dnr();
    assert_eq!(host.write(16, &block), full);
    assert_eq!(host.write_durably(16, &block), full);
    assert_eq!(host.write(15, &block.repeat(2)), full, "half of it would fit");
    assert_eq!(other.write(0, &block), full);
    assert_eq!(host.read(16, 1), (Status::SUCCESS, vec![0; 4096]));
    assert_eq!(host.write_stamp(second), Status::SUCCESS, "what fits is taken");
    assert_eq!(host.read_stamp(0), Some(second));
    assert_eq!(host.flush(), Status::SUCCESS);
    assert_serves(&node);
    let room = || node.command(&["status"])["devices"][0]["backing"]["state"].clone();
    eventually("the device is full", || room() == "full");
    let status = node.command(&["status"]);
    assert_eq!(status["verdict"]["level"], "problem", "{status}");
    assert!(metrics(&node).contains("nearflash_device_full{device=\"flash\"} 1"));
    assert!(place.log().contains("device 'flash' had no room for a write"), "{}", place.log());
    node.terminate();
}

fn metrics(node: &Node<'_>) -> String {
    node.command(&["metrics"])["text"].as_str().unwrap().to_owned()
}

/// The device is a sparse file, twice as long as its file system has room.
#[test]
fn a_device_that_its_file_system_has_no_room_for_is_overcommitted_before_writes_fail() {
    let place = Place::new();
    let system = rustix::fs::statvfs(place.path(".")).unwrap();
    let size = (system.f_bavail * system.f_frsize * 2) >> 20;
    let node = Node::start(&place, &["--device", &place.flash(&format!("{size}MiB"))]);
    let status = node.command(&["status"]);
    let device = &status["devices"][0];
    assert_eq!(device["backing"]["state"], "overcommitted", "{status}");
    assert!(
        device["backing"]["unallocated_bytes"].as_u64() > device["backing"]["free_bytes"].as_u64()
    );
    assert_eq!(status["verdict"]["level"], "warning", "{status}");
    assert!(metrics(&node).contains("nearflash_device_overcommitted{device=\"flash\"} 1"));
    assert!(place.log().contains("device 'flash' is overcommitted"), "{}", place.log());
    node.terminate();
}

#[test]
fn no_write_to_a_truncated_device_succeeds_and_no_gap_reads_as_zeroes() {
    let place = Place::new();
    let node = flash_node(&place, &[]);
    let mut host = Host::connect(&node, "data");
    let (first, later) = (Stamp { lba: 0, sequence: 1 }, Stamp { lba: 100, sequence: 1 });
    assert_eq!(host.write_stamp(first), Status::SUCCESS);
    assert_eq!(host.write_stamp(later), Status::SUCCESS);
    assert_eq!(host.flush(), Status::SUCCESS);
    let cut = place_of(first, &place) + 50 * 4096;
    let file = OpenOptions::new().write(true).open(place.path("flash.img")).unwrap();
    file.set_len(cut).unwrap();
    let fault = Status::WRITE_FAULT;
    // Linux would extend the file, and leave a gap.
    assert_eq!(host.write(2047, &[7; 4096]), fault);
    assert_eq!(host.write(1, &[7; 4096]), fault);
    assert_eq!(host.flush(), fault, "what was flushed is lost");
    assert_eq!(file.metadata().unwrap().len(), cut, "no write has extended the file");
    file.set_len(64 * MIB).unwrap();
    assert_eq!(host.read(100, 1).0, Status::UNRECOVERED_READ, "the gap");
    assert_eq!(host.read_stamp(0), Some(first), "the rest is served");
    let admin = Admin::join(&node, "data");
    let zeroes = Command::write_zeroes(NamespaceId(1), Lba(128), 63);
    assert_eq!(admin.io(1, 8).run(&zeroes).status(), fault);
    drop((host, admin));
    let status = node.command(&["status"]);
    assert_eq!(status["devices"][0]["truncated"], true, "{status}");
    assert_eq!(status["verdict"]["level"], "problem", "{status}");
    assert!(metrics(&node).contains("nearflash_device_truncated{device=\"flash\"} 1"));
    let recorded = "device 'flash' is truncated: its file ends before the device does";
    eventually("a log line", || place.log().contains(recorded));
    node.terminate();
    let node = flash_node(&place, &[]);
    let status = node.command(&["status"]);
    assert_eq!(status["devices"][0]["suspect"], true, "although the file is long again: {status}");
    node.terminate();
}

#[test]
fn a_read_that_the_device_cannot_do_is_an_unrecovered_read_error() {
    let place = Place::new();
    let node = flash_node(&place, &[]);
    let mut host = Host::connect(&node, "data");
    let (first, later) = (Stamp { lba: 0, sequence: 1 }, Stamp { lba: 100, sequence: 1 });
    assert_eq!(host.write_stamp(first), Status::SUCCESS);
    assert_eq!(host.write_stamp(later), Status::SUCCESS);
    assert_eq!(host.flush(), Status::SUCCESS);
    let cut = place_of(first, &place) + 50 * 4096;
    // Another process truncates the file.
    let file = OpenOptions::new().write(true).open(place.path("flash.img")).unwrap();
    file.set_len(cut).unwrap();
    assert_eq!(host.read(100, 1).0, Status::UNRECOVERED_READ);
    assert_eq!(host.read(49, 2).0, Status::UNRECOVERED_READ, "half of it is there");
    let said = "device 'flash' failed a request: it ends too early";
    eventually("the log names the device", || place.log().contains(said));
    assert_eq!(place.log().matches("failed a request").count(), 1, "not for each request");
    assert_eq!(host.read_stamp(0), Some(first), "the rest is served");
    assert_eq!(host.write(0, &[7; 4096]), Status::WRITE_FAULT, "and not written");
    drop(host);
    node.terminate();
    let device = format!("flash=file:{}", place.text("flash.img"));
    let refused = nearflash_node_tests::refused(&[
        "serve",
        "--nvme-tcp",
        "127.0.0.1:0",
        "--data-dir",
        &place.data_dir(),
        "--device",
        &device,
    ]);
    let message = place.anonymous(&refused.message);
    assert!(message.starts_with("device 'flash': DIR/flash.img is "), "{message}");
    assert!(
        message.ends_with(
            "shorter than the 64MiB in the catalog: restore the missing part before starting"
        ),
        "{message}"
    );
    assert_eq!(refused.code, 1);
}

/// The file is in memory, and sealed against writing while the node has it open. This needs no
/// privileges, and every write of the node fails.
#[test]
fn a_write_that_the_device_cannot_do_is_a_write_fault_by_every_door() {
    let place = Place::new();
    let medium = memfd_create("flash", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&medium, 64 * MIB).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), medium.as_raw_fd());
    let (device, socket) = (format!("flash=file:{path}"), place.text("direct.sock"));
    let flags = ["--device", &device, "--volume", "data=8MiB@flash", "--direct-local", &socket];
    let node = Node::with_iscsi(&place, &flags);
    let mut host = Host::connect(&node, "data");
    let mut initiator = Initiator::login(&node, "data", &Who::named("a")).unwrap();
    let volume = Door::Local.anonymous(&node).unwrap().open("data").unwrap();
    let stamp = Stamp { lba: 7, sequence: 1 };
    assert_eq!(host.write_stamp(stamp), Status::SUCCESS);
    fcntl_add_seals(&medium, SealFlags::WRITE).unwrap();
    let block = [5; 4096];
    for lba in [0, 7] {
        // SCT 2h, SC 80h, and no Do Not Retry: another path to the medium may succeed.
        assert_eq!(host.write(lba, &block), Status::WRITE_FAULT);
        assert_eq!(host.write_durably(lba, &block), Status(0x280));
        let refused = initiator.write_refused(lba, &block).unwrap();
        assert_eq!(refused, (0x3, 0x0C, 0x00), "medium error, write error");
        let refused = volume.write_at(&block, lba * 4096).unwrap_err();
        assert_eq!(refused.status(), Some(nearflash::direct::Status::WRITE_FAULT), "{refused}");
    }
    let said = "device 'flash' failed a request: Operation not permitted";
    eventually("the log names the device", || place.log().contains(said));
    assert_eq!(host.read_stamp(7), Some(stamp), "what was there is");
    assert_eq!(initiator.read(7), stamp.block(4096));
    drop((host, initiator, volume));
    node.terminate();
}

#[test]
fn writes_with_fua_and_flushes_reach_the_device() {
    let place = Place::new();
    let node = flash_node(&place, &[]);
    let mut host = Host::connect(&node, "data");
    let first = Stamp { lba: 0, sequence: 1 };
    assert_eq!(host.write_durably(0, &first.block(4096)), Status::SUCCESS);
    let start = place_of(first, &place);
    let file = OpenOptions::new().read(true).open(place.path("flash.img")).unwrap();
    for sequence in 2..20 {
        let stamp = Stamp { lba: sequence, sequence };
        if sequence % 2 == 0 {
            assert_eq!(host.write_durably(stamp.lba, &stamp.block(4096)), Status::SUCCESS);
        } else {
            assert_eq!(host.write_stamp(stamp), Status::SUCCESS);
            assert_eq!(host.flush(), Status::SUCCESS);
        }
        let mut block = vec![0; 4096];
        file.read_exact_at(&mut block, start + stamp.lba * 4096).unwrap();
        assert_eq!(Stamp::of(&block), Some(stamp));
    }
    // A flush of all namespaces, which hosts send that do not know the individual ones.
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 8);
    assert_eq!(io.run(&Command::flush(NamespaceId(u32::MAX))).status(), Status::SUCCESS);
}

#[test]
fn deallocated_and_zeroed_blocks_read_as_zeroes_and_give_room_back() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let node = flash_node(&place, &[]);
    let mut host = Host::connect(&node, "data");
    for lba in 0..256 {
        assert_eq!(host.write_stamp(Stamp { lba, sequence: 1 }), Status::SUCCESS);
    }
    assert_eq!(host.flush(), Status::SUCCESS);
    let held = || std::fs::metadata(place.path("flash.img")).unwrap().blocks() * 512;
    let before = held();
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 8);
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&128u32.to_le_bytes());
    let deallocate = Command::deallocate(NamespaceId(1), 0).with_capsule_data(16);
    assert_eq!(io.run_with(&deallocate, &range), Status::SUCCESS);
    let zeroes = Command::write_zeroes(NamespaceId(1), Lba(128), 63);
    assert_eq!(io.run(&zeroes).status(), Status::SUCCESS);
    for lba in [0, 127, 128, 191] {
        assert_eq!(host.read(lba, 1), (Status::SUCCESS, vec![0; 4096]), "block {lba}");
    }
    assert_eq!(host.read_stamp(192), Some(Stamp { lba: 192, sequence: 1 }));
    assert!(held() + MIB / 4 <= before, "released blocks are released");
}
