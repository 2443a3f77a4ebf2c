//! Clusters of three machines on this one: each has a folder and an address of the loopback network
//! of its own. Every etcd that a test starts is killed at its end.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use nearflash_node_tests::{Machine, Node, eventually};

#[test]
#[ignore = "needs etcd: run by make test"]
fn three_machines_make_a_cluster_that_survives_one_failure_and_reports_two() {
    let (one, two, mut three) = (Machine::new(), Machine::new(), Machine::new());
    let made = one.init();
    assert_eq!(made["name"], "lab");
    assert_eq!(one.token().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(one.verdict(), "degraded");
    assert_eq!(two.join(&one, &[])["role"], "member");
    assert_eq!(one.verdict(), "degraded");
    assert_eq!(three.join(&one, &["--witness"])["role"], "witness");
    assert_eq!(three.join(&one, &["--witness"])["role"], "witness", "a repetition changes nothing");
    three.has_verdict("ok");
    one.has_verdict("ok");

    let four = Machine::new();
    let (message, code) =
        four.refusal(&["join", &format!("@{}", two.token().display()), "--witness"]);
    assert!(message.contains("a further witness would not help") && code == 1, "{message}");
    assert_eq!(four.join(&two, &[])["role"], "client");
    four.has_verdict("ok");

    three.kill();
    one.has_verdict("degraded");
    three.supervise();
    one.has_verdict("ok");
    let first = three.pid();
    three.kill();
    eventually("another etcd", || three.pid() != first);
    one.has_verdict("ok");
    three.supervise_no_more();
    one.has_verdict("ok");

    three.kill();
    two.kill();
    one.has_verdict("at-risk");
    one.kill();
    one.has_verdict("unavailable");
    four.has_verdict("unavailable");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_join_that_was_interrupted_is_repeated() {
    let (one, two) = (Machine::new(), Machine::new());
    one.init();
    two.join(&one, &[]);
    // As after a crash before the last step.
    let record = two.etcd("member.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(r#""is_ready": true"#, r#""is_ready": false"#)).unwrap();
    two.kill();
    assert_eq!(two.refusal(&["status"]).1, 1);
    assert!(two.refusal(&["init"]).0.contains("was not finished here"));
    two.join(&one, &[]);
    assert_eq!(one.verdict(), "degraded");
    // A machine that lost its record and its data does not become a second member.
    two.kill();
    fs::remove_dir_all(two.place.path("data")).unwrap();
    let token = format!("@{}", one.token().display());
    let (message, _) = two.refusal(&["join", &token, "--listen", &two.address]);
    let remedy = format!("restore the folder, or run 'nearflash cluster remove {}", two.address);
    assert!(message.contains(&remedy), "{message}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_witness_that_is_lost_is_removed_and_another_one_takes_its_place() {
    let (one, two, three, four) = (Machine::new(), Machine::new(), Machine::new(), Machine::new());
    one.init();
    two.join(&one, &[]);
    three.join(&one, &["--witness"]);
    assert_eq!(one.verdict(), "ok");
    let refusal = |address: &str| one.refusal(&["remove", address]).0;
    let answers = refusal(&three.address);
    assert!(answers.contains("answers: stop it first"), "{answers}");
    let unknown = refusal(&four.address);
    let addresses = format!("they have {}:2379", one.address);
    assert!(unknown.contains("no member") && unknown.contains(&addresses), "{unknown}");

    three.kill();
    eventually("the verdict", || one.verdict() == "degraded");
    let name = one.answer(&["remove", &three.address])["machine"].clone();
    assert!(name.as_str().unwrap().contains(&three.address), "{name}");
    let gone = refusal(&three.address);
    assert!(gone.contains("no member"), "{gone}");
    four.join(&one, &["--witness"]);
    eventually("three members", || one.verdict() == "ok");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_wrong_token_is_refused_by_name() {
    let (one, other, new) = (Machine::new(), Machine::new(), Machine::new());
    one.init();
    other.init();
    let token = |machine: &Machine| format!("@{}", machine.token().display());
    let join = |token: &str| new.refusal(&["join", token, "--listen", &new.address]);

    let (message, code) = join("token");
    assert!(message.contains("write @FILE") && code == 2, "{message}");
    let (message, code) = join(&format!("@{}", other.etcd("ca.pem").display()));
    assert!(message.contains("it is not a token") && code == 2, "{message}");
    let text = fs::read_to_string(one.token()).unwrap();
    fs::write(new.place.path("token"), &text[..text.len() - 40]).unwrap();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(message.contains("damaged or incomplete: copy it again") && code == 2, "{message}");

    let (message, code) = one.refusal(&["join", &token(&other)]);
    assert!(message.contains("already belongs to cluster 'lab'") && code == 1, "{message}");
    let (message, code) = one.refusal(&["init"]);
    assert!(message.contains("already belongs to cluster 'lab'") && code == 1, "{message}");

    // Another cluster runs at the address that the token names.
    one.kill();
    fs::remove_dir_all(one.place.path("data")).unwrap();
    eventually("the address", || one.run(&["init", "--listen", &one.address]).status.success());
    fs::write(new.place.path("token"), text).unwrap();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(
        message.contains("belongs to another cluster, or the token does") && code == 1,
        "{message}"
    );
    one.kill();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(message.contains("etcd does not answer") && code == 1, "{message}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn an_expired_token_is_refused_until_a_machine_of_the_cluster_renews_it() {
    let (one, two, three) = (Machine::new(), Machine::new(), Machine::new());
    let stranger = three.refusal(&["token"]);
    assert!(stranger.0.contains("belongs to no cluster") && stranger.1 == 1, "{stranger:?}");
    let made = one.init();
    let renewed = one.answer(&["token", "--valid", "7d"]);
    assert_eq!((&renewed["cluster"], &renewed["token"]), (&made["cluster"], &made["token"]));
    let [day, week] = [&made, &renewed].map(|it| it["expires_at"].as_u64().unwrap());
    assert!(week >= day + 6 * 86_400, "{day} {week}");
    two.join(&one, &[]);
    assert_eq!(one.refusal(&["token", "--valid", "0s"]).1, 2);

    let token = format!("@{}", two.token().display());
    let expiry = two.answer(&["token", "--valid", "1s"])["expires_at"].as_u64().unwrap();
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    eventually("the end of its lifetime", || now() >= expiry);
    let (message, code) = three.refusal(&["join", &token, "--listen", &three.address]);
    assert!(message.contains("the token of cluster 'lab' expired at 20") && code == 2, "{message}");
    assert!(message.contains("'nearflash cluster token'"), "{message}");
    assert!(three.pid().is_none());
    // A machine that has joined is not concerned.
    assert_eq!(two.join(&two, &[])["role"], "member");
    let node = Node::in_memory(&two.place);
    assert_eq!(two.verdict(), "degraded");
    node.terminate();

    two.answer(&["token"]);
    assert_eq!(three.join(&two, &["--witness"])["role"], "witness");
    three.has_verdict("ok");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_supervises_etcd_which_outlives_it_and_inherits_nothing() {
    let one = Machine::new();
    one.init();
    one.kill();
    let node = Node::in_memory(&one.place);
    eventually("etcd", || one.verdict() == "degraded");
    let pid = one.pid();
    let files = fs::read_dir(format!("/proc/{}/fd", pid.unwrap().as_raw_nonzero())).unwrap();
    let sockets = |files: fs::ReadDir| -> Vec<PathBuf> {
        let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
    };
    let of_node = sockets(fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap());
    let of_etcd = sockets(files);
    assert!(!of_node.is_empty() && of_etcd.iter().all(|it| !of_node.contains(it)));
    node.crash();
    assert_eq!((one.verdict().as_str(), one.pid()), ("degraded", pid));
    // As if the node had been killed before it could record the process.
    fs::remove_file(one.etcd("pid")).unwrap();
    let node = Node::in_memory(&one.place);
    eventually("the same etcd", || one.pid() == pid);
    one.kill();
    eventually("another etcd", || one.pid() != pid && one.verdict() == "degraded");
    node.terminate();
    assert_eq!(one.verdict(), "degraded");
}
