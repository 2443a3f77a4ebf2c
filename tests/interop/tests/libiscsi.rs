//! libiscsi's conformance suite against a node: every kind of volume, every test.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nearflash_interop::{Finding, Node, Scratch, Verdict, is_self_check, run_conformance_suite};

/// The fewest tests that run to their end; fewer mean that the node lacks a command.
const PASSED_MIN: usize = 196;

/// The tests that no volume can run, by the beginning of their names. `docs/iscsi.md` gives the
/// reasons.
const SKIPPED: &[&str] = &[
    "NoMedia.",
    "PreventAllow.",
    "StartStopUnit.Simple",
    "ReadOnly.",
    "Sanitize.",
    "WriteAtomic16.",
    "CompareAndWrite.InvalidDataOutSize",
    "WriteSame10.Unmap",
    "WriteSame10.InvalidDataOutSize",
    "WriteSame16.InvalidDataOutSize",
    "WriteSame16.UnmapUnaligned",
];

/// The tests that are wrong for units with several logical blocks per physical block, as volumes
/// with blocks of 512 bytes report them. `docs/iscsi.md` gives the reasons.
const WRONG: &[&str] = &["GetLBAStatus.UnmapSingle"];

/// The length of the volumes.
const VOLUME_LEN: u64 = 1 << 30;

/// The document that lists the exceptions.
const DOCUMENT: &str = include_str!("../../../docs/iscsi.md");

/// Runs the suite on a volume of this kind, and checks the results.
fn conforms(name: &str, block_size: u32, is_thick: bool) {
    if is_self_check() {
        return;
    }
    let scratch = Scratch::of(name);
    let provisioning = if is_thick { "thick" } else { "thin" };
    let volume = format!("data=1GiB@flash,block-size={block_size},provisioning={provisioning}");
    let mut node = Node::with_volumes(&scratch, &[&volume]);
    let findings =
        run_conformance_suite(&node.iscsi_url("data"), &scratch.path("iscsi-test-cu.log"));
    node.terminate();
    let of = |verdict| findings.iter().filter(move |finding| finding.verdict == verdict);
    let (passed, skipped, failed) =
        (of(Verdict::Passed).count(), of(Verdict::Skipped).count(), of(Verdict::Failed).count());
    println!("{name}: {passed} passed, {skipped} skipped, {failed} failed");
    let unexpected: Vec<_> = of(Verdict::Skipped).filter(|finding| !may_skip(finding)).collect();
    let is_meant =
        |finding: &&Finding| block_size == 4096 || !WRONG.contains(&finding.name.as_str());
    let failures = of(Verdict::Failed).filter(is_meant);
    let wrong: Vec<_> = failures.chain(unexpected).map(ToString::to_string).collect();
    assert!(
        wrong.is_empty(),
        "{}:\n{}",
        scratch.path("iscsi-test-cu.log").display(),
        wrong.join("\n")
    );
    assert!(passed >= PASSED_MIN, "only {passed} tests ran to their end");
    if is_thick {
        let allocated = allocated_len(&scratch.path("device"));
        assert!(allocated >= VOLUME_LEN, "of a thick volume only {allocated} bytes are left");
    }
}

fn may_skip(finding: &Finding) -> bool {
    SKIPPED.iter().any(|start| finding.name.starts_with(start))
}

/// The space that a file takes in its file system.
fn allocated_len(path: &Path) -> u64 {
    fs::metadata(path).expect("the node's device is there").blocks() * 512
}

#[test]
#[ignore = "needs the Debian package libiscsi-bin: installed and run by make test"]
fn thin_volume_with_blocks_of_512_bytes_conforms() {
    conforms("libiscsi-thin-512", 512, false);
}

#[test]
#[ignore = "needs the Debian package libiscsi-bin: installed and run by make test"]
fn thin_volume_with_blocks_of_4096_bytes_conforms() {
    conforms("libiscsi-thin-4096", 4096, false);
}

#[test]
#[ignore = "needs the Debian package libiscsi-bin: installed and run by make test"]
fn thick_volume_with_blocks_of_512_bytes_conforms() {
    conforms("libiscsi-thick-512", 512, true);
}

#[test]
#[ignore = "needs the Debian package libiscsi-bin: installed and run by make test"]
fn thick_volume_with_blocks_of_4096_bytes_conforms() {
    conforms("libiscsi-thick-4096", 4096, true);
}

#[test]
fn document_names_every_test_that_is_skipped_or_wrong() {
    let named: BTreeSet<_> = DOCUMENT.split('`').collect();
    for start in SKIPPED.iter().chain(WRONG) {
        assert!(named.contains(start), "docs/iscsi.md does not name `{start}`");
    }
}
