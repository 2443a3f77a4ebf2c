//! Model devices: their contents, their wear as the status shows it, and their end.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash::Volume;
use nearflash_node_tests::{
    Door, Host, Initiator, Node, Place, Refusal, Stamp, Who, eventually, refused,
};
use nearflash_nvme::Status;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Times that a test does not notice.
const FAST: &str = "read=1us,program=1us,erase=1us";

/// The state of a device.
fn device(node: &Node<'_>, name: &str) -> Value {
    let status = node.command(&["status"]);
    let devices = status["devices"].as_array().unwrap();
    devices.iter().find(|device| device["name"] == name).unwrap().clone()
}

/// A generator of block numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn overwrites_of_a_model_of_flash_amplify_and_every_door_reads_the_last_one() {
    let place = Place::new();
    let flash = format!("f=flash:8MiB,block=64KiB,gc=greedy,{FAST}");
    let node = Node::with_direct(&place, &["--device", &flash, "--volume", "data=8MiB@f"]);
    let fresh = device(&node, "f");
    assert_eq!((&fresh["kind"], &fresh["flash"]["host_pages"]), (&"flash".into(), &0.into()));
    let mut host = Host::connect(&node, "data");
    let (mut numbers, mut last) = (Numbers(1), vec![0; 2048]);
    let mut sequence = 0;
    let amplification = loop {
        for _ in 0..2048 {
            sequence += 1;
            let lba = numbers.below(2048);
            assert_eq!(host.write_stamp(Stamp { lba, sequence }), Status::SUCCESS);
            last[usize::try_from(lba).unwrap()] = sequence;
        }
        let amplification = device(&node, "f")["flash"]["write_amplification"].as_f64().unwrap();
        if amplification > 1.5 {
            break amplification;
        }
    };
    let flash = device(&node, "f")["flash"].clone();
    let count = |field: &str| flash[field].as_u64().unwrap();
    assert_eq!((count("host_pages"), count("host_bytes")), (sequence, sequence * 4096));
    let programmed = count("host_pages") + count("moved_pages") + count("levelled_pages");
    assert_eq!(programmed * 100 / sequence, hundredths(amplification));
    let buckets = flash["erases"]["buckets"].as_array().unwrap();
    let blocks: u64 = buckets.iter().map(|bucket| bucket["blocks"].as_u64().unwrap()).sum();
    assert_eq!(blocks, 128 + 16, "12 % of 128 blocks, rounded up");
    assert!(flash["erases"]["min"].as_u64() > Some(0), "{flash}");
    let volume = Door::Tcp.anonymous(&node).unwrap().open("data").unwrap();
    for (lba, &sequence) in (0..).zip(&last) {
        let expected = (sequence > 0).then_some(Stamp { lba, sequence });
        assert_eq!(host.read_stamp(lba), expected);
        assert_eq!(Stamp::of(&read(&volume, lba * 4096, 4096)), expected);
    }
    drop((host, volume));
    node.terminate();
    let again = Node::with_direct(&place, &["--device", &flash_flag(), "--volume", "data=8MiB@f"]);
    assert_eq!(device(&again, "f")["flash"]["host_pages"], 0, "wear ends with the node");
    let volume = Door::Tcp.anonymous(&again).unwrap().open("data").unwrap();
    assert_eq!(read(&volume, 0, 8 * MIB), vec![0; 8 << 20], "and so do contents");
    drop(volume);
    again.terminate();
}

fn flash_flag() -> String {
    format!("f=flash:8MiB,block=64KiB,{FAST}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
fn hundredths(number: f64) -> u64 {
    (number * 100.0 + 1e-6) as u64
}

fn read(volume: &Volume, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0xA5; usize::try_from(len).unwrap()];
    volume.read_at(&mut bytes, offset).unwrap();
    bytes
}

#[test]
fn deallocated_pages_are_not_moved() {
    let place = Place::new();
    let node = Node::with_direct(&place, &["--device", &flash_flag(), "--volume", "data=8MiB@f"]);
    let volume = Door::Local.anonymous(&node).unwrap().open("data").unwrap();
    for round in 0..20 {
        volume.write_at(&vec![round; 8 << 20], 0).unwrap();
        volume.discard(0, 8 * MIB).unwrap();
    }
    let flash = device(&node, "f")["flash"].clone();
    assert_eq!((&flash["host_pages"], &flash["moved_pages"]), (&(20 * 2048).into(), &0.into()));
    assert_eq!(read(&volume, 0, 8 * MIB), vec![0; 8 << 20]);
    drop(volume);
    node.terminate();
}

#[test]
fn a_write_shorter_than_a_page_programs_the_page() {
    let place = Place::new();
    let volume = "data=8MiB@f,block-size=512";
    let node = Node::with_direct(&place, &["--device", &flash_flag(), "--volume", volume]);
    let volume = Door::Tcp.anonymous(&node).unwrap().open("data").unwrap();
    for block in 0..64 {
        volume.write_at(&[7; 512], block * 512).unwrap();
    }
    let flash = device(&node, "f")["flash"].clone();
    assert_eq!((&flash["host_bytes"], &flash["host_pages"]), (&(64 * 512).into(), &64.into()));
    assert_eq!(flash["write_amplification"], 8.0);
    drop(volume);
    node.terminate();
}

#[test]
fn a_worn_out_model_refuses_writes_by_every_door_and_still_reads() {
    let place = Place::new();
    let flash = format!("f=flash:8MiB,block=64KiB,endurance=3,spare=20%,{FAST}");
    let socket = place.text("direct.sock");
    let flags = ["--device", &flash, "--volume", "data=6MiB@f", "--direct-local", &socket];
    let node = Node::with_iscsi(&place, &flags);
    let mut host = Host::connect(&node, "data");
    let mut initiator = Initiator::login(&node, "data", &Who::named("a")).unwrap();
    let volume = Door::Local.anonymous(&node).unwrap().open("data").unwrap();
    let (mut numbers, mut last) = (Numbers(2), vec![0; 1536]);
    let mut sequence = 0;
    loop {
        sequence += 1;
        let lba = numbers.below(1536);
        let status = host.write_stamp(Stamp { lba, sequence });
        if status != Status::SUCCESS {
            assert_eq!(status, Status::WRITE_FAULT);
            break;
        }
        last[usize::try_from(lba).unwrap()] = sequence;
    }
    assert!(sequence > 2 * 1536, "{sequence}");
    let block = [5; 4096];
    assert_eq!(host.write_durably(7, &block), Status::WRITE_FAULT);
    let refused_by_scsi = initiator.write_refused(7, &block).unwrap();
    assert_eq!(refused_by_scsi, (0x3, 0x0C, 0x00), "medium error, write error");
    for error in [
        volume.write_at(&block, 0).unwrap_err(),
        volume.write_zeroes(0, 4096).unwrap_err(),
        volume.discard(0, 4096).unwrap_err(),
    ] {
        assert_eq!(error.status(), Some(nearflash::direct::Status::WRITE_FAULT), "{error}");
    }
    assert_eq!(host.flush(), Status::SUCCESS, "every answered write is there");
    for (lba, &sequence) in (0..).zip(&last) {
        let expected = (sequence > 0).then_some(Stamp { lba, sequence });
        assert_eq!(host.read_stamp(lba), expected);
    }
    let device = device(&node, "f");
    assert_eq!(device["flash"]["worn_out"], true);
    assert_eq!(device["flash"]["replacement_blocks"], 0);
    assert_eq!(device["suspect"], Value::Null, "it has lost nothing");
    let said = "device 'f' is worn out, and refuses writes";
    eventually("the log names the device", || place.log().contains(said));
    assert_eq!(place.log().matches(said).count(), 1);
    let Refusal { message, .. } =
        refused(&["volume", "create", "other=1MiB@f", "--data-dir", &place.data_dir()]);
    assert!(message.contains("it is worn out, and can only be read"), "{message}");
    drop((host, initiator, volume));
    node.terminate();
}

#[test]
fn phase_change_memory_shows_its_wear_and_ends_with_its_first_worn_line() {
    let place = Place::new();
    let device_flag = "p=pcm:1MiB,endurance=50";
    let flags = ["--device", device_flag, "--device", "l=pcm:1MiB,start-gap=1"];
    let volumes = ["--volume", "plain=1MiB@p", "--volume", "levelled=1MiB@l"];
    let node = Node::with_direct(&place, &[&flags[..], &volumes].concat());
    let client = Door::Tcp.anonymous(&node).unwrap();
    let plain = client.open("plain").unwrap();
    let levelled = client.open("levelled").unwrap();
    for write in 0..50 {
        plain.write_at(&[write; 4096], 8192).unwrap();
        levelled.write_at(&[write; 4096], 8192).unwrap();
    }
    let refused = plain.write_at(&[50; 4096], 0).unwrap_err();
    assert_eq!(refused.status(), Some(nearflash::direct::Status::WRITE_FAULT), "{refused}");
    levelled.write_at(&[50; 4096], 8192).unwrap();
    assert_eq!(read(&plain, 8192, 4096), vec![49; 4096]);
    assert_eq!(read(&levelled, 8192, 4096), vec![50; 4096]);
    let pcm = device(&node, "p")["pcm"].clone();
    assert_eq!((&pcm["worn_out"], &pcm["life_used"]), (&true.into(), &1.0.into()));
    assert_eq!((&pcm["host_lines"], &pcm["moved_lines"]), (&800.into(), &0.into()));
    assert_eq!((&pcm["mean_read_ns"], &pcm["mean_write_ns"]), (&768.into(), &2400.into()));
    let pcm = device(&node, "l")["pcm"].clone();
    assert_eq!((&pcm["worn_out"], &pcm["moved_lines"]), (&false.into(), &816.into()));
    drop((plain, levelled));
    node.terminate();
}

#[test]
fn a_model_without_contents_reads_as_zeroes_and_counts() {
    let place = Place::new();
    let devices =
        [format!("f=flash:8MiB,block=64KiB,data=none,{FAST}"), "p=pcm:1MiB,data=none".to_owned()];
    let flags = ["--device", &devices[0], "--device", &devices[1]];
    let volumes = ["--volume", "flash=8MiB@f", "--volume", "pcm=1MiB@p"];
    let node = Node::with_direct(&place, &[&flags[..], &volumes].concat());
    for name in ["flash", "pcm"] {
        let mut host = Host::connect(&node, name);
        assert_eq!(host.write(3, &[9; 4096]), Status::SUCCESS);
        assert_eq!(host.read(3, 1), (Status::SUCCESS, vec![0; 4096]));
        for door in Door::ALL {
            let volume = door.anonymous(&node).unwrap().open(name).unwrap();
            volume.write_at(&[9; 4096], 4096).unwrap();
            assert_eq!(read(&volume, 4096, 4096), vec![0; 4096]);
        }
    }
    assert_eq!(device(&node, "f")["flash"]["host_pages"], 3);
    assert_eq!(device(&node, "p")["pcm"]["host_lines"], 48);
    node.terminate();
}

/// A step on a volume of 2 MiB.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u8),
    Read(u64, usize),
    Zero(u64, u64),
    Discard(u64, u64),
}

const VOLUME_LEN: u64 = 2 * MIB;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = (0..VOLUME_LEN - 70_000, 1_usize..70_000);
    let blocks = (0..VOLUME_LEN / 512 - 200, 1_u64..200);
    prop::collection::vec(
        prop_oneof![
            3 => (bytes.clone(), any::<u8>()).prop_map(|((at, len), fill)| Step::Write(at, len, fill)),
            2 => bytes.prop_map(|(at, len)| Step::Read(at, len)),
            1 => blocks.clone().prop_map(|(at, count)| Step::Zero(at * 512, count * 512)),
            1 => blocks.prop_map(|(at, count)| Step::Discard(at * 512, count * 512)),
        ],
        1..40,
    )
}

fn check(volume: &Volume, model: &mut [u8], steps: &[Step]) {
    let range = |at: u64, len: usize| {
        let start = usize::try_from(at).unwrap();
        start..start + len
    };
    let bytes = |len: u64| usize::try_from(len).unwrap();
    for step in steps {
        match *step {
            Step::Write(at, len, fill) => {
                volume.write_at(&vec![fill; len], at).unwrap();
                model[range(at, len)].fill(fill);
            }
            Step::Read(at, len) => {
                let mut found = vec![0xA5; len];
                volume.read_at(&mut found, at).unwrap();
                assert!(found == model[range(at, len)], "{step:?}");
            }
            Step::Zero(at, len) => {
                volume.write_zeroes(at, len).unwrap();
                model[range(at, bytes(len))].fill(0);
            }
            Step::Discard(at, len) => {
                volume.discard(at, len).unwrap();
                model[range(at, bytes(len))].fill(0);
            }
        }
    }
    let mut found = vec![0xA5; model.len()];
    volume.read_at(&mut found, 0).unwrap();
    assert!(found == model, "after {steps:?}");
}

/// Whatever is written, zeroed, discarded and read, a model device is an array of bytes, by either
/// transport.
#[test]
fn model_devices_equal_an_array() {
    let place = Place::new();
    let flash = format!("f=flash:2MiB,block=64KiB,spare=30%,{FAST}");
    let flags = ["--device", &flash, "--device", "p=pcm:2MiB,start-gap=3,randomise"];
    let volumes = ["--volume", "f=2MiB@f,block-size=512", "--volume", "p=2MiB@p,block-size=512"];
    let node = Node::with_direct(&place, &[&flags[..], &volumes].concat());
    for name in ["f", "p"] {
        let volumes = Door::ALL.map(|door| door.anonymous(&node).unwrap().open(name).unwrap());
        let model = std::cell::RefCell::new(vec![0; usize::try_from(VOLUME_LEN).unwrap()]);
        let mut runner =
            TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
        runner
            .run(&(steps(), any::<bool>()), |(steps, is_local)| {
                check(&volumes[usize::from(is_local)], &mut model.borrow_mut(), &steps);
                Ok(())
            })
            .unwrap();
    }
    assert!(device(&node, "f")["flash"]["erases"]["max"].as_u64() > Some(0));
    assert!(device(&node, "p")["pcm"]["moved_lines"].as_u64() > Some(1000));
    node.terminate();
}

#[test]
fn an_invalid_model_is_refused_with_the_remedy() {
    let place = Place::new();
    for (device, code, said) in [
        ("f=flash:1GiB,spare=0%", 2, "device 'f': spare=0% is outside 1% to 400%: use spare=12%"),
        (
            "f=flash:1GiB,read=60",
            2,
            "device 'f': 'read=60' is not valid: write a time with its unit",
        ),
        ("p=pcm:1GiB,spare=1%", 2, "device 'p': 'spare=1%' is not a valid option: use start-gap,"),
        ("f=flash:8TiB", 1, "the machine has"),
        ("f=flash:8TiB", 1, "make it smaller, or add data=none"),
    ] {
        let data_dir = place.data_dir();
        let refused = refused(&[
            "serve",
            "--nvme-tcp",
            "127.0.0.1:0",
            "--data-dir",
            &data_dir,
            "--device",
            device,
        ]);
        assert!(refused.message.contains(said), "{}", refused.message);
        assert_eq!(
            (refused.code, refused.message.lines().count()),
            (code, 1),
            "{}",
            refused.message
        );
    }
}
