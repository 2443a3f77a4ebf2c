//! Every input in `fuzz/corpus` passes its check, without a fuzzer.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use nearflash_inputs::{TARGETS, Target};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Runs the target on all inputs of its directory, and names one that fails.
fn replay(target: &Target) {
    let mut inputs: Vec<PathBuf> = fs::read_dir(corpus().join(target.name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "fuzz/corpus/{} has no input", target.name);
    for path in inputs {
        let bytes = fs::read(&path).unwrap();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.check)(&bytes))) {
            eprintln!("the input: {}", path.canonicalize().unwrap().display());
            resume_unwind(panic);
        }
    }
}

/// One test for each target, so that they run in parallel and failures have names.
macro_rules! replayed {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                replay(TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap());
            }
        )*
    };
}

replayed! {
    cluster config control direct_client direct_pair direct_seal direct_segments direct_target files
    files_calls iscsi_initiator iscsi_login iscsi_pair iscsi_segments iscsi_target nvme_admin nvme_commands nvme_connect
    nvme_parsers nvme_tcp_host nvme_tcp_pair nvme_tcp_segments nvme_tcp_target on_disk
    scsi_commands shard texts
}

#[test]
fn every_target_is_replayed_and_described_and_every_folder_of_inputs_has_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let replayed: BTreeSet<String> = REPLAYED.iter().map(|&name| name.to_owned()).collect();
    let folders: BTreeSet<String> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(targets, replayed);
    assert_eq!(targets, folders);
    let readme = fs::read_to_string(corpus().join("../README.md")).unwrap();
    for name in targets {
        assert!(readme.contains(&format!("`{name}`")), "fuzz/README.md does not describe {name}");
    }
}
