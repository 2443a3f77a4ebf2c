//! A node's control side, with cores that only record their messages: the errors of a start, the
//! state after a restart, and the calls of the control socket.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use common::Recorder;
use nearflash_api::client::{ControlError, ask, ask_if};
use nearflash_api::{
    Call, DeviceClear, ErrorCode, JobWait, OneVolume, Status, StatusShow, Subject, VolumeCreate,
    VolumeInfo, VolumeList, VolumeRemove, VolumeResize,
};
use nearflash_config::{Config, HostAccess, ServeArgs};
use nearflash_files::{Run, Superblock};
use nearflash_iscsi::serving::SessionStatus;
use nearflash_node::{Running, StartError, subsystem_nqn};
use nearflash_shard::{ConnectedClient, ConnectedHost, ConnectedInitiator, Peer};
use nearflash_units::{Blocks, ByteLen};

/// A node in its own directory.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn flash(&self, options: &str) -> String {
        format!("flash=file:{}/flash.img{options}", self.folder.path().display())
    }

    fn config(&self, devices: &[&str], volumes: &[&str]) -> Config {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Config::resolve(ServeArgs {
            devices: owned(devices),
            volumes: owned(volumes),
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            data_dir: Some(self.data_dir()),
            ..ServeArgs::default()
        })
        .unwrap()
    }

    fn start(
        &self,
        devices: &[&str],
        volumes: &[&str],
    ) -> Result<(Running, Arc<Recorder>), StartError> {
        Recorder::start(&self.config(devices, volumes))
    }

    fn refused(&self, devices: &[&str], volumes: &[&str]) -> String {
        let Err(error) = self.start(devices, volumes) else { panic!("it started") };
        let message = error.to_string();
        assert!(!message.contains('\n'), "one line: {message}");
        message.replace(&*self.folder.path().to_string_lossy(), "DIR")
    }
}

fn create(name: &str, bytes: u64, device: &str) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes,
        device: Some(device.to_owned()),
        ..VolumeCreate::default()
    }
}

fn resize(name: &str, bytes: u64, shrink: bool) -> VolumeResize {
    VolumeResize { name: name.to_owned(), bytes, shrink, force: false }
}

fn remove(name: &str, force: bool) -> VolumeRemove {
    VolumeRemove { name: name.to_owned(), force }
}

fn volume(answer: Result<OneVolume, ControlError>) -> VolumeInfo {
    answer.unwrap().volume
}

fn status(data_dir: &Path) -> Status {
    ask(data_dir, StatusShow {}).unwrap()
}

/// The message that a call is refused with.
fn refused<C: Call>(data_dir: &Path, call: C) -> String {
    ask(data_dir, call).unwrap_err().to_string()
}

const MIB: u64 = 1 << 20;

#[test]
fn volumes_keep_name_size_uuid_and_place_over_a_restart() {
    let bench = Bench::new();
    let (device, volumes) = (bench.flash(",size=64MiB"), ["data=8MiB@flash", "logs=1MiB@flash"]);
    let (running, cores) = bench.start(&[&device], &volumes).unwrap();
    let first = (running.ready().body.volumes, cores.last());
    running.stop().unwrap();
    assert!(*cores.drained.lock().unwrap());
    let (running, cores) = bench.start(&[&bench.flash("")], &["data=8MiB@flash"]).unwrap();
    let second = (running.ready().body.volumes, cores.last());
    assert_eq!(first.0, second.0);
    assert_eq!(first.1.namespaces, second.1.namespaces);
    assert_eq!(first.1.volumes, second.1.volumes);
    running.stop().unwrap();
}

#[test]
fn a_change_that_was_decided_on_an_older_state_is_refused() {
    let bench = Bench::new();
    let (running, _) = bench.start(&["r=ram:16MiB"], &[]).unwrap();
    let data_dir = bench.data_dir();
    let read = status(&data_dir).generation;
    let made = ask_if(&data_dir, create("a", MIB, "r"), read).unwrap();
    if let Some(job) = made.job {
        ask(&data_dir, JobWait { id: job.id, seconds: 30 }).unwrap();
    }
    assert!(status(&data_dir).generation > read);
    let refused = ask_if(&data_dir, create("b", MIB, "r"), read).unwrap_err();
    let ControlError::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code, ErrorCode::GenerationDiffers);
    let names: Vec<String> = status(&data_dir).volumes.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["a"]);
    ask_if(&data_dir, create("b", MIB, "r"), status(&data_dir).generation).unwrap();
    running.stop().unwrap();
}

#[test]
fn the_ready_line_names_real_addresses_and_an_absolute_socket() {
    let bench = Bench::new();
    let (running, _) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    let ready = running.ready();
    assert_eq!(
        (ready.schema, &*ready.body.event, ready.body.pid),
        (1, "ready", std::process::id())
    );
    assert_ne!(ready.body.nvme_tcp[0].port(), 0);
    assert!(ready.body.control.is_absolute() && ready.body.control.exists());
    assert_eq!(ready.body.volumes[0].nqn, "nqn.2026-11.io.nearflash:data");
    assert_eq!((ready.body.volumes[0].nsid, ready.body.volumes[0].bytes), (1, 8 * MIB));
    running.stop().unwrap();
}

#[test]
fn a_volume_that_is_asked_for_otherwise_than_it_is_refuses_the_start() {
    let bench = Bench::new();
    let devices = ["r=ram:16MiB", "s=ram:16MiB"];
    bench.start(&devices, &["data=8MiB@r,block-size=4096"]).unwrap().0.stop().unwrap();
    bench.start(&devices, &["data=8MiB@r"]).unwrap().0.stop().unwrap();
    let refused = |volume| bench.refused(&devices, &[volume]);
    assert_eq!(
        refused("data=9MiB@r"),
        "volume 'data' is 8MiB, but --volume says 9MiB: correct --volume, or start without it and \
         use 'nearflash volume resize data 9MiB'"
    );
    assert_eq!(
        refused("data=8MiB@s"),
        "volume 'data' is on device 'r', but --volume says 's': correct --volume, or remove the \
         volume first"
    );
    assert_eq!(
        refused("data=8MiB@r,block-size=512"),
        "volume 'data' has blocks of 4096 bytes, but --volume says 512: correct --volume, or \
         remove the volume first"
    );
    assert_eq!(
        refused("data=8MiB@r,subsystem=all"),
        "volume 'data' is in subsystem 'data', but --volume says 'all': correct --volume, or \
         remove the volume first"
    );
}

#[test]
fn a_volume_that_has_grown_since_its_size_was_written_stays_as_it_is() {
    let bench = Bench::new();
    let (running, _) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    volume(ask(&bench.data_dir(), resize("data", 9 * MIB, false)));
    running.stop().unwrap();
    let (running, _) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    assert_eq!(running.ready().body.volumes[0].bytes, 9 * MIB);
    running.stop().unwrap();
}

#[test]
fn a_device_with_volumes_that_is_not_given_refuses_the_start() {
    let bench = Bench::new();
    bench.start(&[&bench.flash(",size=8MiB")], &["data=1MiB@flash"]).unwrap().0.stop().unwrap();
    let message = bench.refused(&["r=ram:16MiB"], &[]);
    assert!(message.starts_with("volume 'data' is on device 'flash' ("), "{message}");
    assert!(message.ends_with("), which is not configured: add it with --device"));
}

#[test]
fn a_device_file_shorter_than_the_catalog_says_refuses_the_start() {
    let bench = Bench::new();
    bench.start(&[&bench.flash(",size=8MiB")], &["data=1MiB@flash"]).unwrap().0.stop().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(bench.folder.path().join("flash.img"));
    file.unwrap().set_len(4 * MIB).unwrap();
    assert_eq!(
        bench.refused(&[&bench.flash("")], &[]),
        "device 'flash': DIR/flash.img is 4MiB long, shorter than the 8MiB in the catalog: restore \
         the missing part before starting"
    );
    std::fs::remove_file(bench.folder.path().join("flash.img")).unwrap();
    assert_eq!(
        bench.refused(&[&bench.flash(",size=8MiB")], &[]),
        "device 'flash': DIR/flash.img does not exist, but the catalog has volumes on it: restore \
         it, or correct the path"
    );
}

#[test]
fn one_device_that_is_refused_leaves_the_others_untouched() {
    let bench = Bench::new();
    let path = bench.folder.path().join("flash.img");
    std::fs::write(&path, vec![0; 4 << 20]).unwrap();
    let other = bench.folder.path().join("other.img");
    std::fs::write(&other, vec![1; 4 << 20]).unwrap();
    let foreign = format!("other=file:{}", other.display());
    let message = bench.refused(&[&bench.flash(""), &foreign], &[]);
    assert!(message.contains("device 'other' holds data that is not nearflash's"), "{message}");
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_data_directory_in_use_refuses_the_start() {
    let bench = Bench::new();
    let (running, _) = bench.start(&["r=ram:16MiB"], &[]).unwrap();
    let message = bench.refused(&["r=ram:16MiB"], &[]);
    assert_eq!(
        message,
        format!(
            "data directory DIR/data is in use by another node (process {}): stop that node, or \
             choose another directory with --data-dir",
            std::process::id()
        )
    );
    running.stop().unwrap();
}

#[test]
fn a_port_in_use_refuses_the_start() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut config = bench.config(&["r=ram:16MiB"], &[]);
    config.doors[0].address = address;
    let Err(error) = Running::start(&config, |_| panic!("not started")) else { panic!("started") };
    assert_eq!(
        error.to_string(),
        format!(
            "--nvme-tcp {address}: Address already in use (os error 98): another program is \
             listening there: stop it, or choose another port (0 selects a free one)"
        )
    );
    assert_eq!(error.exit_code(), 1);
    assert!(!bench.data_dir().exists(), "nothing was touched");
}

#[test]
fn a_volume_is_made_listed_grown_and_removed_while_the_node_runs() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["r=ram:16MiB"], &[]).unwrap();
    let data_dir = bench.data_dir();
    let made = volume(ask(&data_dir, create("data", 4 * MIB, "r")));
    assert_eq!((made.bytes, made.block_size, &*made.device), (4 * MIB, 512, "r"));
    let shown = cores.last();
    assert_eq!(shown.namespaces[0].uuid, made.uuid);
    assert!(shown.volumes.get(shown.namespaces[0].volume).is_some());
    let grown = volume(ask(&data_dir, resize("data", 6 * MIB, false)));
    assert_eq!((grown.uuid, grown.bytes), (made.uuid, 6 * MIB));
    assert_eq!(cores.last().namespaces[0].blocks.0, 6 * 2048);
    let list = ask(&data_dir, VolumeList {}).unwrap();
    assert_eq!(list.volumes, std::slice::from_ref(&grown));
    let status = status(&data_dir);
    assert_eq!(status.volumes, std::slice::from_ref(&grown));
    assert_eq!(status.devices[0].free_bytes, 10 * MIB);
    assert_eq!(volume(ask(&data_dir, remove("data", false))), grown);
    assert!(cores.last().namespaces.is_empty());
    running.stop().unwrap();
}

#[test]
fn what_the_control_socket_refuses_changes_nothing() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    let before = cores.publications();
    let data_dir = bench.data_dir();
    assert_eq!(
        refused(&data_dir, create("big", 9 * MIB, "r")),
        "volume 'big': device 'r' is full: 9MiB requested, 8MiB free"
    );
    assert!(refused(&data_dir, create("data", MIB, "r")).contains("exists already"));
    assert!(refused(&data_dir, create("x y", MIB, "r")).contains("is not a valid name"));
    assert_eq!(
        refused(&data_dir, resize("data", MIB, false)),
        "volume 'data' has 8MiB, and shrinking it loses the data beyond 1MiB: add --shrink to \
         confirm"
    );
    assert!(refused(&data_dir, resize("none", MIB, false)).contains("no volume 'none'"));
    assert!(refused(&data_dir, remove("none", false)).contains("no volume 'none'"));
    assert_eq!(cores.publications(), before);
    assert_eq!(volume(ask(&bench.data_dir(), resize("data", MIB, true))).bytes, MIB);
    running.stop().unwrap();
}

fn host_of(volume: &str) -> ConnectedHost {
    let host = nearflash_nvme::HostName::Named("nqn.2014-08.org.example:h".parse().unwrap());
    common::connected(host, subsystem_nqn(&volume.parse().unwrap()))
}

#[test]
fn who_uses_a_volume_is_asked_when_it_is_to_be_removed() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r", "logs=1MiB@r"]).unwrap();
    // A status that took long reports the earlier host, not the one that came meanwhile.
    *cores.hosts_before.lock().unwrap() = Some(vec![host_of("logs")]);
    *cores.hosts.lock().unwrap() = vec![host_of("data")];
    let data_dir = bench.data_dir();
    let refused = ask(&data_dir, remove("data", false)).unwrap_err().to_string();
    assert!(refused.contains("in use by NVMe host"), "{refused}");
    volume(ask(&data_dir, remove("logs", false)));
    running.stop().unwrap();
}

#[test]
fn a_volume_that_nobody_knows_the_users_of_is_removed_only_by_force() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    *cores.is_silent.lock().unwrap() = true;
    let before = cores.publications();
    let refused = ask(&bench.data_dir(), remove("data", false)).unwrap_err().to_string();
    assert!(refused.contains("does not answer") && refused.contains("--force"), "{refused}");
    assert_eq!(cores.publications(), before);
    volume(ask(&bench.data_dir(), remove("data", true)));
    running.stop().unwrap();
}

#[test]
fn a_volume_in_use_is_removed_and_cut_off_only_by_force_whatever_the_protocol() {
    let bench = Bench::new();
    let volumes = ["data=8MiB@r", "logs=1MiB@r"];
    let (running, cores) = bench.start(&["r=ram:16MiB"], &volumes).unwrap();
    let data_dir = bench.data_dir();
    let check = |user: &str| {
        let refused = ask(&data_dir, remove("data", false)).unwrap_err().to_string();
        let expected = format!(
            "volume 'data' is in use by {user}: disconnect these first, or add --force, which \
             destroys all of its 8MiB under them"
        );
        assert_eq!(refused, expected);
        let refused = ask(&data_dir, resize("data", 2 * MIB, true)).unwrap_err();
        assert_eq!(code(&refused), ErrorCode::VolumeInUse);
        assert!(refused.to_string().contains(user) && refused.to_string().contains("past 2MiB"));
    };
    cores.hosts.lock().unwrap().push(host_of("data"));
    check(&format!("NVMe host {}", host_of("data").status.host));
    cores.hosts.lock().unwrap().clear();
    let status = SessionStatus {
        tsih: 1,
        initiator: "iqn.2004-10.com.ubuntu:a".into(),
        alias: None,
        account: None,
        target: Some("iqn.2026-11.io.nearflash:data".into()),
        connections: vec![0],
        core: 0,
    };
    let peer = "127.0.0.1:50003".parse().unwrap();
    cores.initiators.lock().unwrap().push(ConnectedInitiator { peer, status });
    check("iSCSI initiator iqn.2004-10.com.ubuntu:a");
    volume(ask(&data_dir, remove("logs", false)));
    cores.initiators.lock().unwrap().clear();
    cores.clients.lock().unwrap().push(client(12, 1000, None));
    check("direct client process 12 of user 1000");
    let cut = VolumeResize { force: true, ..resize("data", 2 * MIB, true) };
    assert_eq!(volume(ask(&data_dir, cut)).bytes, 2 * MIB);
    volume(ask(&data_dir, remove("data", true)));
    running.stop().unwrap();
}

/// The owner of files is a client of its own node.
#[test]
fn the_nodes_own_owner_of_files_is_no_user_of_a_volume() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    cores.clients.lock().unwrap().push(client(1, 0, Some("~files")));
    volume(ask(&bench.data_dir(), remove("data", false)));
    running.stop().unwrap();
}

fn client(pid: u32, uid: u32, key: Option<&str>) -> ConnectedClient {
    let (peer, key) = (Peer::Process { pid, uid }, key.map(Into::into));
    ConnectedClient { peer, key, is_ready: true, requests_in_flight: 0 }
}

fn code(error: &ControlError) -> ErrorCode {
    let ControlError::Refused(error) = error else { panic!("{error}") };
    error.code
}

#[test]
fn a_file_system_is_cut_off_only_by_force_and_files_never() {
    let bench = Bench::new();
    let (running, _) =
        bench.start(&[&bench.flash(",size=64MiB")], &["a=8MiB@flash", "z=8MiB@flash"]).unwrap();
    let path = bench.folder.path().join("flash.img");
    let write = |bytes: &[u8], offset: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset).unwrap();
    };
    // The first volume begins behind the label.
    write(b"\x53\xef", MIB + 0x438);
    let data_dir = bench.data_dir();
    let refused = ask(&data_dir, resize("a", 2 * MIB, true)).unwrap_err();
    assert_eq!(code(&refused), ErrorCode::WouldDestroy);
    let message = refused.to_string();
    assert!(message.contains("an ext2, ext3 or ext4 file system"), "{message}");
    assert!(message.contains("--force") && message.contains("past 2MiB"), "{message}");
    assert_eq!(volume(ask(&data_dir, resize("z", 2 * MIB, true))).bytes, 2 * MIB);
    let len = ByteLen(6 * MIB);
    let start = Superblock::area(len).unwrap().start;
    let superblock = Superblock {
        generation: 2,
        volume: uuid::Uuid::from_u128(7),
        volume_len: len,
        compatible: 0,
        write_incompatible: 0,
        incompatible: 0,
        metadata_len: ByteLen(4096),
        metadata_runs: vec![Run { start, count: Blocks(16) }],
    };
    write(&superblock.encode(), MIB + superblock.offset().0);
    let force = |bytes| VolumeResize { force: true, ..resize("a", bytes, true) };
    let refused = ask(&data_dir, force(2 * MIB)).unwrap_err();
    assert_eq!(code(&refused), ErrorCode::WouldDestroy);
    assert!(refused.to_string().contains("6MiB"), "{refused}");
    assert_eq!(volume(ask(&data_dir, resize("a", 6 * MIB, true))).bytes, 6 * MIB);
    running.stop().unwrap();
}

#[test]
fn a_start_makes_no_empty_volume_in_place_of_a_removed_one() {
    let bench = Bench::new();
    let (devices, volumes) = ([&*bench.flash(",size=64MiB")], ["a=8MiB@flash", "b=8MiB@flash"]);
    let (running, _) = bench.start(&devices, &volumes).unwrap();
    let removed = ask(&bench.data_dir(), remove("b", false)).unwrap();
    assert!(removed.note.is_some_and(|note| note.contains("--volume b")));
    running.stop().unwrap();
    for _ in 0..2 {
        let refused = bench.refused(&devices, &volumes);
        assert!(refused.contains("volume 'b' was removed"), "{refused}");
    }
    let (running, _) = bench.start(&devices, &volumes[..1]).unwrap();
    // Somebody wants a new one.
    volume(ask(&bench.data_dir(), create("b", 8 * MIB, "flash")));
    running.stop().unwrap();
    let (running, _) = bench.start(&devices, &volumes).unwrap();
    assert_eq!(running.ready().body.volumes.len(), 2);
    running.stop().unwrap();
}

/// A read never returns another volume's data, even if that volume is removed.
#[test]
fn a_new_volume_shows_nothing_of_what_lay_there_before() {
    let bench = Bench::new();
    let (running, _) = bench.start(&[&bench.flash(",size=8MiB")], &["old=7MiB@flash"]).unwrap();
    let path = bench.folder.path().join("flash.img");
    let fill = || {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 7 << 20], MIB).unwrap();
    };
    fill();
    volume(ask(&bench.data_dir(), resize("old", 2 * MIB, true)));
    volume(ask(&bench.data_dir(), create("new", 2 * MIB, "flash")));
    let is_filled = |first: usize, last: usize, byte| {
        let bytes = std::fs::read(&path).unwrap();
        bytes[first << 20..last << 20].iter().all(|b| *b == byte)
    };
    assert!(is_filled(1, 3, 7), "the old volume keeps what is left of it");
    assert!(is_filled(3, 5, 0), "the new one is zero");
    fill();
    volume(ask(&bench.data_dir(), resize("new", 4 * MIB, false)));
    assert!(is_filled(1, 5, 7), "what was there stays");
    assert!(is_filled(5, 7, 0), "what came is zero");
    running.stop().unwrap();
}

/// It shows neither another volume's data nor its own from before it was shrunk.
#[test]
fn a_volume_that_grows_shows_nothing_of_what_it_held_before_it_shrank() {
    let bench = Bench::new();
    let (running, _) = bench.start(&[&bench.flash(",size=8MiB")], &["data=2MiB@flash"]).unwrap();
    let path = bench.folder.path().join("flash.img");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 2 << 20], MIB).unwrap();
    let end = MIB + MIB / 2 + 4096;
    volume(ask(&bench.data_dir(), resize("data", end, true)));
    volume(ask(&bench.data_dir(), resize("data", 2 * MIB, false)));
    let bytes = std::fs::read(&path).unwrap();
    let (kept, fresh) = bytes[1 << 20..3 << 20].split_at(usize::try_from(end).unwrap());
    assert!(kept.iter().all(|byte| *byte == 7), "what was there stays");
    assert!(fresh.iter().all(|byte| *byte == 0), "what is new is zero");
    running.stop().unwrap();
}

#[test]
fn what_is_done_by_the_control_socket_is_there_after_a_restart() {
    let bench = Bench::new();
    let device = bench.flash(",size=16MiB");
    let (running, _) = bench.start(&[&device], &["gone=1MiB@flash"]).unwrap();
    let made = volume(ask(&bench.data_dir(), create("made", 2 * MIB, "flash")));
    volume(ask(&bench.data_dir(), remove("gone", false)));
    running.stop().unwrap();
    let (running, _) = bench.start(&[&device], &[]).unwrap();
    assert_eq!(running.ready().body.volumes, [made]);
    running.stop().unwrap();
}

#[test]
fn cores_that_do_not_start_refuse_the_start_and_leave_nothing_locked() {
    let bench = Bench::new();
    let config = bench.config(&["r=ram:16MiB"], &[]);
    let Err(error) = Running::start(&config, |runtime| {
        assert_eq!(runtime.hosts, HostAccess::Any);
        Err(nearflash_node::CoresError::new(std::io::Error::other("no ring: allow io_uring")))
    }) else {
        panic!("started")
    };
    assert_eq!(error.to_string(), "no ring: allow io_uring");
    bench.start(&["r=ram:16MiB"], &[]).unwrap().0.stop().unwrap();
}

#[test]
fn a_refusal_has_a_code_and_names_its_subject() {
    let bench = Bench::new();
    let (running, _) = bench.start(&["r=ram:16MiB"], &["data=8MiB@r"]).unwrap();
    let coded = |call: VolumeResize| match ask(&bench.data_dir(), call).unwrap_err() {
        ControlError::Refused(error) => (error.code, error.subject),
        other => panic!("a refusal, not {other}"),
    };
    let volume = |name| Some(Subject::new("volume", name));
    let asked = [
        (resize("none", MIB, false), ErrorCode::VolumeNotFound, volume("none")),
        (resize("data", MIB, false), ErrorCode::WouldShrink, volume("data")),
        (resize("data", 99 * MIB, false), ErrorCode::NoSpace, volume("data")),
        (resize("data", MIB + 1, true), ErrorCode::InvalidValue, volume("data")),
        (resize("a b", MIB, false), ErrorCode::InvalidValue, None),
    ];
    for (call, code, subject) in asked {
        assert_eq!(coded(call), (code, subject));
    }
    running.stop().unwrap();
}

#[test]
fn a_device_stays_suspect_over_restarts_until_it_is_cleared() {
    let bench = Bench::new();
    let flash = bench.flash(",size=64MiB");
    let is_suspect = || status(&bench.data_dir()).devices[0].suspect;
    let (running, cores) = bench.start(&[&flash], &["data=2MiB@flash"]).unwrap();
    cores.devices.lock().unwrap()[0].health().note_failure();
    running.stop().unwrap();
    drop(cores);
    let (running, cores) = bench.start(&[&flash], &[]).unwrap();
    assert!(is_suspect());
    let refused = ask(&bench.data_dir(), DeviceClear { name: "other".to_owned() });
    assert!(refused.is_err() && is_suspect());
    let clear = DeviceClear { name: "flash".to_owned() };
    assert!(!ask(&bench.data_dir(), clear).unwrap().device.suspect);
    running.stop().unwrap();
    drop(cores);
    let (running, _cores) = bench.start(&[&flash], &[]).unwrap();
    assert!(!is_suspect());
    running.stop().unwrap();
}

#[test]
fn a_suspect_device_is_shown_until_it_is_cleared_and_only_a_known_one_can_be() {
    let bench = Bench::new();
    let (running, cores) = bench.start(&["flash=ram:64MiB"], &[]).unwrap();
    let is_suspect = || status(&bench.data_dir()).devices[0].suspect;
    assert!(!is_suspect());
    cores.devices.lock().unwrap()[0].health().note_failure();
    assert!(is_suspect());
    let clear = |name: &str| ask(&bench.data_dir(), DeviceClear { name: name.to_owned() });
    let Err(ControlError::Refused(error)) = clear("other") else { panic!("not a device") };
    assert_eq!(error.code, ErrorCode::DeviceNotFound);
    assert!(is_suspect());
    assert!(!clear("flash").unwrap().device.suspect);
    assert!(!is_suspect());
    running.stop().unwrap();
}
