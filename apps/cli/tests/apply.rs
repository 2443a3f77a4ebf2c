//! `nearflash apply` and `nearflash config check`, as a user runs them, with a node.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use std::path::{Path, PathBuf};

use serde_json::Value;

use common::{AtTerminal, Node, failed, output, said, text, typed};

/// A folder with a node's state and configuration files.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the folder with this text, in which `FOLDER` is the folder.
    fn file(&self, name: &str, content: &str) -> String {
        let content = content.replace("FOLDER", text(self.folder.path()));
        std::fs::write(self.path(name), content).unwrap();
        text(&self.path(name)).to_owned()
    }

    fn start(&self, flags: &[&str]) -> Node {
        Node::start(&[flags, &["--data-dir", &self.data_dir()]].concat())
    }

    fn data_dir(&self) -> String {
        text(&self.path("state")).to_owned()
    }

    /// The output of a command of the node.
    fn run(&self, arguments: &[&str]) -> String {
        said(&[arguments, &["--data-dir", &self.data_dir()]].concat())
    }

    fn failed(&self, arguments: &[&str]) -> (String, i32) {
        failed(&[arguments, &["--data-dir", &self.data_dir()]].concat())
    }

    /// The standard output, the standard error and the exit code of a command.
    fn all(&self, arguments: &[&str]) -> (String, String, i32) {
        let output = output(&[arguments, &["--data-dir", &self.data_dir()]].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code().unwrap())
    }
}

const DEVICE: [&str; 2] = ["--device", "r=ram:64MiB"];

const WHOLE: &str = r#"
[[volume]]
name = "data"
size = "8MiB"
device = "r"

[[volume]]
name = "logs"
size = "4MiB"
device = "r"
block-size = 4096

[[host]]
nqn = "nqn.2026-11.x:app"
dhchap-key = "FOLDER/app.key"
hash = "sha256"

[[chap]]
user = "app"
secret-file = "FOLDER/chap.secret"

[[credential]]
id = "app"
secret-file = "FOLDER/app.secret"

[[grant]]
credential = "app"
volume = "data"
range = "0..1MiB"
rights = "rw"
"#;

/// A DH-HMAC-CHAP key that `nearflash host add` has generated, in a file.
fn write_key(bench: &Bench) {
    let made = bench.run(&["host", "add", "nqn.2026-11.x:other", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    bench.file("app.key", made["key"].as_str().unwrap());
    bench.file("chap.secret", "geheimgeheim\n");
}

#[test]
fn a_node_becomes_as_the_file_declares_and_then_there_is_nothing_to_change() {
    let bench = Bench::new();
    let _node = bench.start(&DEVICE);
    write_key(&bench);
    let file = bench.file("node.toml", WHOLE);
    let (plan, _, code) = bench.all(&["apply", &file, "--dry-run"]);
    let expected = [
        "+ volume 'data': 8MiB on device 'r'",
        "+ volume 'logs': 4MiB on device 'r', blocks of 4096",
        "+ host 'nqn.2026-11.x:app': a key, hash sha256, group any",
        "+ chap 'app': one-way",
    ];
    assert_eq!(plan.lines().take(4).collect::<Vec<_>>(), expected);
    assert!(plan.ends_with("6 to create, 0 to change, 0 to remove\n"), "{plan}");
    assert_eq!(code, 3, "a dry run with differences");
    assert!(bench.run(&["volume", "list"]).starts_with("no volumes"), "a dry run changes nothing");
    assert!(!bench.path("app.secret").exists());
    let made = bench.run(&["apply", &file]);
    assert!(made.ends_with("made 6 of 6 changes\n"), "{made}");
    let list = bench.run(&["volume", "list"]);
    assert!(list.contains("data") && list.contains("4096"), "{list}");
    assert!(bench.run(&["host", "list"]).contains("nqn.2026-11.x:app"));
    assert!(bench.run(&["grant", "list"]).contains("0..1MiB"));
    assert_eq!(std::fs::read_to_string(bench.path("app.secret")).unwrap().len(), 65);
    assert_eq!(bench.run(&["apply", &file]), "nothing to change\n");
    assert_eq!(bench.run(&["apply", &file, "--dry-run"]), "nothing to change\n");
    // The host that the file does not have stays, until it is pruned.
    assert!(bench.run(&["host", "list"]).contains("nqn.2026-11.x:other"));
    let pruned = bench.run(&["apply", &file, "--prune"]);
    let warning = "warning: a host whose keys are removed does not enter without keys any more";
    assert_eq!(pruned, format!("- host 'nqn.2026-11.x:other'\n{warning}\nmade 1 of 1 changes\n"));
}

#[test]
fn a_volume_grows_and_the_keys_of_a_host_change_in_place() {
    let bench = Bench::new();
    let _node = bench.start(&DEVICE);
    write_key(&bench);
    let file = bench.file("node.toml", WHOLE);
    bench.run(&["apply", &file]);
    let changed = WHOLE.replace("8MiB", "16MiB").replace("sha256", "sha384");
    let changed = changed.replace(
        "chap.secret\"",
        "chap.secret\"\nmutual-user = \"node\"\nmutual-secret-file = \"FOLDER/mutual.secret\"",
    );
    bench.file("mutual.secret", "anderergeheim\n");
    let file = bench.file("node.toml", &changed);
    let made = bench.run(&["apply", &file]);
    assert_eq!(
        made,
        "~ volume 'data': grows from 8MiB to 16MiB\n\
         ~ host 'nqn.2026-11.x:app': a key, hash sha384, group any\n\
         ~ chap 'app': mutual user 'node'\n\
         made 3 of 3 changes\n"
    );
    assert!(bench.run(&["host", "list"]).contains("sha384"));
    assert_eq!(bench.run(&["apply", &file]), "nothing to change\n");
}

#[test]
fn data_is_destroyed_only_with_permission_and_after_a_question_that_names_the_volumes() {
    let bench = Bench::new();
    let _node =
        bench.start(&[&DEVICE[..], &["--volume", "old=8MiB@r", "--volume", "big=8MiB@r"]].concat());
    let file = bench.file("node.toml", "volume = 'big=4MiB@r'\n");
    for dry in [&["apply", &file, "--prune"][..], &["apply", &file, "--prune", "--dry-run"]] {
        let (plan, message, code) = bench.all(dry);
        assert!(
            plan.starts_with("- volume 'old': 8MiB on device 'r': its data is lost\n"),
            "{plan}"
        );
        assert_eq!(
            (message.as_str(), code),
            (
                "nearflash: this would destroy data of volume 'old' (8MiB), volume 'big' (8MiB past \
                 4MiB): add --destroy to permit it; nothing was changed\n",
                1
            )
        );
    }
    let data_dir = bench.data_dir();
    let destroy = ["apply", &file, "--prune", "--destroy", "--data-dir", &data_dir];
    let (shown, success) = typed("n", &destroy);
    let question = "Destroy data of volume 'old' (8MiB), volume 'big' (8MiB past 4MiB)? [y/N]";
    assert!(shown.contains(question) && shown.contains("nothing was changed"), "{shown}");
    assert!(!success && bench.run(&["volume", "list"]).contains("old"));
    let (shown, success) = typed("", &[&destroy[..], &["--yes"]].concat());
    assert!(success && !shown.contains('?'), "{shown}");
    let list = bench.run(&["volume", "list"]);
    assert!(!list.contains("old") && list.contains("4MiB"), "{list}");
    assert_eq!(bench.run(&["apply", &file, "--prune"]), "nothing to change\n");
}

#[test]
fn an_apply_that_another_one_has_overtaken_changes_nothing_and_says_so() {
    let bench = Bench::new();
    let _node = bench.start(&[&DEVICE[..], &["--volume", "old=8MiB@r"]].concat());
    let slow = bench.file("slow.toml", "volume = 'a=1MiB@r'\n");
    let quick = bench.file("quick.toml", "volume = ['a=2MiB@r', 'old=8MiB@r']\n");
    let data_dir = bench.data_dir();
    let mut first =
        AtTerminal::start(&["apply", &slow, "--prune", "--destroy", "--data-dir", &data_dir]);
    let question = first.question();
    assert!(question.contains("Destroy data of volume 'old'"), "{question}");
    bench.run(&["apply", &quick]);
    first.answer("y");
    let (shown, success) = first.end();
    let message = "the state of the node has changed since it was read, by another 'nearflash apply' \
                   or another change; 0 of 2 changes are made: run the command again";
    assert!(!success && shown.contains(message), "{shown}");
    assert!(bench.run(&["volume", "list"]).contains("old"), "nothing is removed");
}

#[test]
fn a_change_that_does_not_concern_the_plan_does_not_disturb_it() {
    let bench = Bench::new();
    let _node = bench.start(&[&DEVICE[..], &["--volume", "old=8MiB@r"]].concat());
    let file = bench.file("node.toml", "volume = 'a=1MiB@r'\n");
    let data_dir = bench.data_dir();
    let mut first =
        AtTerminal::start(&["apply", &file, "--prune", "--destroy", "--data-dir", &data_dir]);
    first.question();
    // A token is no resource of a file.
    bench.run(&["token", "create", "t", "--scope", "read"]);
    first.answer("y");
    assert!(first.end().1);
    let list = bench.run(&["volume", "list"]);
    assert!(list.contains("a ") && !list.contains("old"), "{list}");
}

#[test]
fn the_first_failure_stops_and_says_what_is_made_and_what_is_not() {
    let bench = Bench::new();
    let _node = bench.start(&DEVICE);
    let file = bench.file("node.toml", "volume = ['a=1MiB@r', 'b=1TiB@r', 'c=1MiB@r']\n");
    let (shown, message, code) = bench.all(&["apply", &file]);
    assert!(message.starts_with("nearflash: cannot create volume 'b': "), "{message}");
    assert!(message.contains("1 of 3 changes are made: remove the cause"), "{message}");
    assert_eq!(code, 1);
    let end: Vec<&str> = shown.lines().skip(3).collect();
    assert_eq!(
        end,
        [
            "made 1 of 3 changes",
            "made: + volume 'a': 1MiB on device 'r'",
            "not made: + volume 'b': 1TiB on device 'r'",
            "not made: + volume 'c': 1MiB on device 'r'",
        ]
    );
    // A missing secret is found before the first change.
    let missing = "volume = 'd=1MiB@r'\n[[chap]]\nuser = 'u'\nsecret-file = 'FOLDER/none'\n";
    let (message, _) = bench.failed(&["apply", &bench.file("node.toml", missing)]);
    assert!(message.contains("none: No such file"), "{message}");
    assert!(!bench.run(&["volume", "list"]).contains("d "));
}

#[test]
fn differences_that_need_a_restart_are_shown_and_are_no_failure() {
    let bench = Bench::new();
    let file =
        "device = ['flash=file:FOLDER/flash.img,size=64MiB', 'r=ram:64MiB']\nvolume = 'a=1MiB@r'\n";
    let config = bench.file("node.toml", file);
    let _node = bench.start(&["--config", &config]);
    assert_eq!(bench.run(&["apply", &config]), "nothing to change\n");
    let more =
        format!("{}nvme-tcp = '127.0.0.2:4420'\n", file.replace("r=ram:64MiB", "r=ram:32MiB"));
    let config = bench.file("node.toml", &more);
    let shown = bench.run(&["apply", &config]);
    assert_eq!(
        shown,
        "! device 'r' is ram of 64MiB, and the file has ram of 32MiB: needs a restart of the node\n\
         ! nvme-tcp address 127.0.0.2:4420 is not one of the node's: needs a restart of the node\n\
         nothing to change without a restart\n"
    );
    let (_, _, code) = bench.all(&["apply", &config, "--dry-run"]);
    assert_eq!(code, 3);
}

#[test]
fn programs_get_the_plan_and_what_is_made_as_a_document() {
    let bench = Bench::new();
    let _node = bench.start(&DEVICE);
    let file = bench.file("node.toml", "volume = ['a=1MiB@r', 'b=1TiB@r']\n");
    let (shown, _, _) = bench.all(&["apply", &file, "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["schema"], 1);
    let step = &shown["steps"][0];
    assert_eq!((&step["action"], &step["kind"]), (&"create".into(), &"volume".into()));
    assert_eq!((&step["name"], &step["made"]), (&"a".into(), &true.into()));
    assert_eq!(shown["steps"][1]["made"], false);
}

#[test]
fn a_check_reports_all_errors_and_lists_what_a_right_file_declares() {
    let bench = Bench::new();
    let wrong = bench.file("wrong.toml", "volume = 'a=1MB@r'\npol = 1\nlog = 2\n");
    let check = output(&["config", "check", &wrong]);
    let message = String::from_utf8(check.stderr).unwrap();
    let messages: Vec<String> = message.lines().map(|line| line.replace(&wrong, "FILE")).collect();
    assert_eq!(
        messages,
        [
            "nearflash: FILE, line 2: unknown key 'pol': the nearest key is 'pool'",
            "nearflash: FILE, line 3: log: expected a string"
        ]
    );
    assert_eq!((check.status.code(), check.stdout.len()), (Some(2), 0));
    let check = output(&["config", "check", &wrong, "--json"]);
    let document: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&document["schema"], &document["errors"][1]["line"]), (&1.into(), &3.into()));
    assert_eq!(check.status.code(), Some(2));
    let right = bench.file("right.toml", WHOLE);
    let listed = said(&["config", "check", &right]);
    let kinds: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(kinds, ["KIND", "volume", "volume", "host", "chap", "credential", "grant"]);
    let document: Value =
        serde_json::from_str(&said(&["config", "check", &right, "--json"])).unwrap();
    assert_eq!(document["resources"][1]["name"], "logs");
    assert!(document["is_valid"].as_bool().unwrap());
    // The node refuses the same file with the first error, and apply with all errors; each exit code is that of
    // invalid input.
    let serve = output(&["serve", "--config", &wrong]);
    assert_eq!(serve.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&serve.stderr).contains("line 2: unknown key 'pol'"));
    let apply = output(&["apply", &wrong]);
    assert_eq!((apply.status.code(), apply.stderr.len()), (Some(2), message.len()));
    assert!(!Path::new(&bench.data_dir()).exists());
}
