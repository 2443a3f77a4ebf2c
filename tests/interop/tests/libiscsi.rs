//! libiscsi's conformance suite against a node: every kind of volume, every test.

use std::collections::BTreeSet;

use nearflash_interop::{Finding, Node, Scratch, Verdict, is_self_check, run_conformance_suite};

/// Fewer tests that ran to their end, of a thin volume, mean that the node has forgotten a command.
const PASSED_MIN: usize = 187;

/// The same of a thick one.
const PASSED_MIN_WHEN_THICK: usize = 181;

/// The tests that no volume can run, by the beginning of their names. `docs/iscsi.md` says why.
const SKIPPED: &[&str] = &[
    "NoMedia.",
    "PreventAllow.",
    "StartStopUnit.Simple",
    "ReadOnly.",
    "Sanitize.",
    "WriteAtomic16.",
    "ExtendedCopy.",
    "ReceiveCopyResults.",
    "CompareAndWrite.InvalidDataOutSize",
    "WriteSame10.Unmap",
    "WriteSame10.InvalidDataOutSize",
    "WriteSame16.InvalidDataOutSize",
    "WriteSame16.UnmapUnaligned",
];

/// Those that a volume without thin provisioning cannot run, besides.
const SKIPPED_WHEN_THICK: &[&str] =
    &["GetLBAStatus.", "Inquiry.BlockLimits", "Unmap.", "WriteSame16.Unmap"];

/// Tests that ask for what a unit has said it does not do, with blocks of 4096 bytes.
const WRONG_WITH_LARGE_BLOCKS: &[&str] = &["ExtendedCopy.Simple", "GetLBAStatus.UnmapSingle"];

/// The document that lists the exceptions.
const DOCUMENT: &str = include_str!("../../../docs/iscsi.md");

/// Runs the suite on a volume of this kind, and judges.
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
    let is_wrong = |finding: &&Finding| {
        block_size == 4096 && WRONG_WITH_LARGE_BLOCKS.contains(&finding.name.as_str())
    };
    let findings: Vec<_> = findings.iter().filter(|finding| !is_wrong(finding)).collect();
    let of = |verdict| findings.iter().filter(move |finding| finding.verdict == verdict);
    let (passed, skipped, failed) =
        (of(Verdict::Passed).count(), of(Verdict::Skipped).count(), of(Verdict::Failed).count());
    println!("{name}: {passed} passed, {skipped} skipped, {failed} failed");
    let unexpected: Vec<_> =
        of(Verdict::Skipped).filter(|finding| !may_skip(finding, is_thick)).collect();
    let wrong: Vec<_> = of(Verdict::Failed).chain(unexpected).map(ToString::to_string).collect();
    assert!(
        wrong.is_empty(),
        "{}:\n{}",
        scratch.path("iscsi-test-cu.log").display(),
        wrong.join("\n")
    );
    let passed_min = if is_thick { PASSED_MIN_WHEN_THICK } else { PASSED_MIN };
    assert!(passed >= passed_min, "only {passed} tests ran to their end");
}

fn may_skip(finding: &Finding, is_thick: bool) -> bool {
    let thick: &[&str] = if is_thick { SKIPPED_WHEN_THICK } else { &[] };
    SKIPPED.iter().chain(thick).any(|start| finding.name.starts_with(start))
}

#[test]
fn thin_volume_with_blocks_of_512_bytes_conforms() {
    conforms("libiscsi-thin-512", 512, false);
}

#[test]
fn thin_volume_with_blocks_of_4096_bytes_conforms() {
    conforms("libiscsi-thin-4096", 4096, false);
}

#[test]
fn thick_volume_with_blocks_of_512_bytes_conforms() {
    conforms("libiscsi-thick-512", 512, true);
}

#[test]
fn thick_volume_with_blocks_of_4096_bytes_conforms() {
    conforms("libiscsi-thick-4096", 4096, true);
}

#[test]
fn document_names_every_test_that_is_skipped() {
    let named: BTreeSet<_> = DOCUMENT.split('`').collect();
    for start in SKIPPED.iter().chain(SKIPPED_WHEN_THICK).chain(WRONG_WITH_LARGE_BLOCKS) {
        assert!(named.contains(start), "docs/iscsi.md does not name `{start}`");
    }
}
