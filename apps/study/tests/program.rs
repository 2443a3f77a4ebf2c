//! Studies as a user runs them: the program `nearflash-study`.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn study(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearflash-study"))
        .env("NEARFLASH_BIN", nearflash_node_tests::nearflash())
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_studies_are_listed_with_their_questions() {
    let dir = tempfile::tempdir().unwrap();
    let listed = study(dir.path(), &["list"]);
    assert!(listed.status.success());
    let listed = text(&listed.stdout);
    for name in ["latency-sum", "iops-clients", "quicksan-bandwidth", "cost", "energy"] {
        assert!(listed.lines().any(|line| line.trim_start().starts_with(name)), "{listed}");
    }
    assert!(listed.contains('?'), "{listed}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearflash-study"));
    command.arg("list").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Closes the reading end.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn a_wrong_command_line_is_refused_with_the_remedy_and_nothing_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let refused = study(dir.path(), &["run", "latency-sun", "--quick"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("'latency-sun'") && message.contains("'latency-sum'"), "{message}");
    for arguments in [&["run", "latency-sun"][..], &["run", "--quik"], &["rum"], &["compare", "a"]]
    {
        let refused = study(dir.path(), arguments);
        let message = text(&refused.stderr);
        assert_eq!(
            (refused.status.code(), message.matches('\n').count()),
            (Some(2), 1),
            "{message}"
        );
        assert!(message.starts_with("nearflash-study: "), "{message}");
    }
    let full = dir.path().join("full.img");
    std::fs::write(&full, vec![7; 1 << 20]).unwrap();
    std::fs::File::options().write(true).open(&full).unwrap().set_len(4 << 30).unwrap();
    let refused = study(dir.path(), &["run", "jobs", "--quick", "--local", "full.img"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--destroy"));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn without_a_node_nothing_is_begun_and_the_remedy_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // A copy, next to which there is no node.
    let alone = dir.path().join("nearflash-study");
    std::fs::copy(env!("CARGO_BIN_EXE_nearflash-study"), &alone).unwrap();
    let run = |node: Option<&str>| {
        let mut command = Command::new(&alone);
        command.args(["run", "jobs", "--quick", "--out", "out"]).current_dir(dir.path());
        command.env_remove("NEARFLASH_BIN").env("PATH", "/nowhere");
        command.envs(node.map(|node| ("NEARFLASH_BIN", node)));
        let refused = command.output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let message = text(&refused.stderr);
        assert!(message.lines().count() == 1 && message.contains("NEARFLASH_BIN"), "{message}");
        assert!(!dir.path().join("out").exists());
        message
    };
    assert!(run(None).contains("cannot find the program 'nearflash'"));
    assert!(run(Some("/nowhere/nearflash")).contains("cannot read /nowhere/nearflash"));
}

#[test]
fn help_version_and_completions_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = study(dir.path(), arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(said(&["--version"]).starts_with("nearflash-study "));
    let help = said(&["--help"]);
    assert!(help.contains("Usage: nearflash study ") && help.contains("Examples:"), "{help}");
    assert!(said(&["completions", "--help"]).contains("Examples:"));
    let completions = said(&["completions", "bash"]);
    for words in ["_nearflash__study()", "--core-watts", "all latency-sum iops-clients"] {
        assert!(completions.contains(words), "{words}");
    }
}

#[test]
fn results_of_another_version_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let head = r#"{"schema":1,"run":{"version":"0.0.1","machine":"m","timing":{"repeats":1,
        "warm_up_ms":1,"counted_ms":1},"local":null,"targets":[]}}"#;
    let head = format!("{}\n", head.replace('\n', ""));
    let points = dir.path().join("points.jsonl");
    std::fs::write(&points, &head).unwrap();
    let refused = study(dir.path(), &["run", "iodepth", "--quick", "--out", "."]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("nearflash 0.0.1") && message.contains("--fresh"), "{message}");
    assert_eq!(std::fs::read_to_string(&points).unwrap(), head);
}

#[test]
fn a_study_starts_a_node_measures_it_by_every_door_and_writes_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let ran = study(dir.path(), &["run", "quicksan-latency", "--quick", "--out", "out"]);
    let (said, log) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{said}{log}");
    assert!(said.contains("quicksan-latency") && said.contains("out/report.html"), "{said}");
    let out = dir.path().join("out");
    assert!(std::fs::metadata(out.join("report.html")).unwrap().len() > 1000);
    let results = std::fs::read_to_string(out.join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let points = results["chapters"][0]["points"].as_array().unwrap();
    for door in ["iscsi", "nvme-tcp", "direct"] {
        assert!(points.iter().any(|point| point["id"].as_str().unwrap().contains(door)), "{door}");
    }
    assert!(points.iter().all(|point| point["outcome"]["measured"].is_object()), "{said}{log}");
    assert!(!out.join("nearflash-study-scratch").exists(), "scratch files are gone");
}
