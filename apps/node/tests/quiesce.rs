//! The effect of a device that does not answer: it delays changes of its own volumes, and nothing
//! else. The cores of these tests adopt every change at once, and the test decides when older
//! requests have ended.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use common::Recorder;
use nearflash_api::client::{ControlError, ask};
use nearflash_api::{Call, CredentialCreate, StatusShow, VolumeCreate, VolumeRemove, VolumeResize};
use nearflash_config::{Config, ServeArgs};
use nearflash_engine::{CoreId, Owner};
use nearflash_node::Running;
use nearflash_publish::SILENT_AFTER;
use nearflash_request::{Change, ChangeKind, Identity, Nexus, ResetScope, Tag, VolumeId};
use nearflash_shard::Notice;
use nearflash_units::Nanos;

/// A running node with the volumes `a` (0) and `b` (1), which fill their device.
struct Bench {
    folder: tempfile::TempDir,
    running: Running,
    cores: Arc<Recorder>,
    waits: Receiver<()>,
    answers: Receiver<Tag>,
    /// That of the core.
    processor: usize,
}

impl Bench {
    fn new() -> Self {
        Self::with(SILENT_AFTER)
    }

    /// With a core that is silent after this time.
    fn with(silent_after: Nanos) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::resolve(ServeArgs {
            devices: vec![format!("flash=file:{}/flash.img,size=6MiB", folder.path().display())],
            volumes: vec!["a=2MiB@flash".to_owned(), "b=2MiB@flash".to_owned()],
            nvme_tcp: vec!["127.0.0.1:0".to_owned()],
            data_dir: Some(folder.path().join("data")),
            ..ServeArgs::default()
        });
        let ((waits, waiting), (answers, answered)) = (channel(), channel());
        let config = config.unwrap();
        let processor = config.cores[0];
        let (running, cores) = Recorder::start_with(&config, silent_after).unwrap();
        *cores.waits.lock().unwrap() = Some(waits);
        *cores.answers.lock().unwrap() = Some(answers);
        Self { folder, running, cores, waits: waiting, answers: answered, processor }
    }

    fn reset(&self, volume: u32, tag: u32) {
        let volume = VolumeId(volume);
        let identity = Identity::Nvme { host_id: [1; 16], controller: Identity::NO_CONTROLLER };
        let kind = ChangeKind::Reset(ResetScope::LogicalUnit);
        let change = Box::new(Change { volume, nexus: Nexus(1), identity, kind });
        let (core, owner, tag) = (CoreId(0), Owner(1), Tag(tag));
        self.cores.tell(Notice::Change { core, owner, tag, change });
    }

    fn ask<C: Call>(&self, call: C) -> Result<C::Answer, ControlError> {
        ask(&self.folder.path().join("data"), call)
    }

    fn ask_meanwhile<C: Call + Send + 'static>(&self, call: C) -> JoinHandle<bool> {
        let data_dir = self.folder.path().join("data");
        std::thread::spawn(move || ask(&data_dir, call).is_ok())
    }

    fn stop(self) {
        self.running.stop().unwrap();
    }
}

fn create(name: &str, bytes: u64) -> VolumeCreate {
    VolumeCreate {
        name: name.to_owned(),
        bytes,
        device: Some("flash".to_owned()),
        ..VolumeCreate::default()
    }
}

fn resize(name: &str, bytes: u64) -> VolumeResize {
    VolumeResize { name: name.to_owned(), bytes, shrink: true, force: false }
}

fn remove(name: &str) -> VolumeRemove {
    VolumeRemove { name: name.to_owned(), force: true }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_change_of_one_volume_does_not_wait_for_requests_of_another() {
    let bench = Bench::new();
    bench.cores.hang(0);
    bench.reset(0, 10);
    bench.waits.recv().unwrap();
    bench.reset(1, 20);
    assert_eq!(bench.answers.recv().unwrap(), Tag(20));
    bench.ask(resize("b", MIB)).unwrap();
    bench.ask(CredentialCreate { id: "app".to_owned(), expires_at: None }).unwrap();
    assert!(bench.answers.try_recv().is_err());
    bench.cores.recover();
    assert_eq!(bench.answers.recv().unwrap(), Tag(10));
    bench.stop();
}

#[test]
fn changes_of_one_volume_are_answered_in_the_order_of_asking() {
    let bench = Bench::new();
    bench.cores.hang(0);
    for tag in 1..4 {
        bench.reset(0, tag);
    }
    bench.waits.recv().unwrap();
    bench.reset(1, 9);
    assert_eq!(bench.answers.recv().unwrap(), Tag(9));
    bench.cores.recover();
    for tag in 1..4 {
        assert_eq!(bench.answers.recv().unwrap(), Tag(tag));
    }
    bench.stop();
}

#[test]
fn an_answer_waits_for_older_requests() {
    let bench = Bench::new();
    bench.cores.hang(0);
    let removed = bench.ask_meanwhile(remove("a"));
    bench.waits.recv().unwrap();
    for _ in 0..20 {
        bench.ask(StatusShow {}).unwrap();
        assert!(!removed.is_finished());
    }
    bench.cores.recover();
    assert!(removed.join().unwrap());
    bench.stop();
}

#[test]
fn space_that_older_requests_may_write_is_given_to_nobody() {
    let bench = Bench::new();
    bench.cores.hang(0);
    let removed = bench.ask_meanwhile(remove("a"));
    bench.waits.recv().unwrap();
    // One granule holds the label, and one is free.
    let full = bench.ask(create("c", 2 * MIB)).unwrap_err().to_string();
    assert!(full.contains("device 'flash' is full"), "{full}");
    bench.cores.recover();
    assert!(removed.join().unwrap());
    bench.ask(create("c", 2 * MIB)).unwrap();
    bench.stop();
}

#[test]
fn a_volume_that_became_shorter_does_not_grow_before_older_requests_have_ended() {
    let bench = Bench::new();
    bench.cores.hang(0);
    let shrunk = bench.ask_meanwhile(resize("a", 2 * MIB - 4096));
    bench.waits.recv().unwrap();
    let refused = bench.ask(resize("a", 2 * MIB)).unwrap_err().to_string();
    assert!(refused.starts_with("volume 'a': requests that began before"), "{refused}");
    bench.cores.recover();
    assert!(shrunk.join().unwrap());
    bench.ask(resize("a", 2 * MIB)).unwrap();
    bench.stop();
}

fn credential(id: &str) -> CredentialCreate {
    CredentialCreate { id: id.to_owned(), expires_at: None }
}

#[test]
fn a_core_that_takes_no_messages_blocks_the_change_that_waits_for_it_and_no_other_call() {
    let bench = Bench::with(Nanos::from_millis(100));
    let (open, gate) = channel();
    *bench.cores.gate.lock().unwrap() = Some(gate);
    let blocked = bench.ask_meanwhile(credential("first"));
    bench.waits.recv().unwrap();
    // More calls than the control socket has connections, one after the other.
    let behind = bench.ask_meanwhile(credential("second"));
    assert!(!behind.join().unwrap());
    for _ in 0..20 {
        let refused = bench.ask(resize("b", MIB)).unwrap_err().to_string();
        let processor = bench.processor;
        let named = format!("the core on processor {processor} does not answer");
        assert!(refused.contains(&named), "{refused}");
        assert!(!refused.contains('\n'), "{refused}");
        bench.ask(StatusShow {}).unwrap();
        assert!(!blocked.is_finished());
    }
    open.send(()).unwrap();
    assert!(blocked.join().unwrap());
    // Nothing of what was refused has happened.
    bench.ask(credential("second")).unwrap();
    bench.ask(resize("b", MIB)).unwrap();
    bench.stop();
}

#[test]
fn a_node_whose_volume_hangs_ends() {
    let bench = Bench::new();
    bench.cores.hang(0);
    bench.reset(0, 1);
    bench.waits.recv().unwrap();
    bench.stop();
}
