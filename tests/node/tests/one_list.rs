//! The nodes of a cluster share one list of access: hosts, lists of volumes, credentials, grants, accounts and tokens.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::path::Path;
use std::process::Output;

use nearflash_node_tests::{Door, Etcd, Key, Machine, Node, eventually, refused};
use rustix::process::Signal;
use serde_json::Value;

const HOST: &str = "nqn.2026-11.test:host";
const SECRET: &str = "not-for-etcd-0123";

fn cluster(count: usize) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..count).map(|_| Machine::new()).collect();
    machines[0].init();
    machines[1..].iter().for_each(|machine| drop(machine.join(&machines[0], &[])));
    machines
}

/// A node with a device of its own, so that it starts also while etcd is away.
fn flags(machine: &Machine, number: usize) -> Vec<String> {
    let slice = format!("flash=file:{},size=256MiB", machine.place.text("slice.img"));
    let own = format!("own=file:{},size=64MiB", machine.place.text("own.img"));
    let direct = format!("{}:4421", machine.address);
    let flags = ["--direct", &direct, "--device", &own, "--volume", "own=16MiB@own"];
    let cluster =
        ["--cluster", "--node", &format!("n{number}"), "--slice", &slice].map(str::to_owned);
    flags.into_iter().map(str::to_owned).chain(cluster).collect()
}

fn serve(machines: &[Machine], number: usize) -> Node<'_> {
    let flags = flags(&machines[number], number);
    Node::start(&machines[number].place, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn named(answer: &Value) -> Vec<&str> {
    let unconfirmed = answer["unconfirmed"].as_array();
    unconfirmed.into_iter().flatten().map(|it| it.as_str().unwrap()).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn three() -> (Vec<Machine>, &'static str) {
    (cluster(3), "three nodes")
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_right_holds_on_each_node_and_ends_on_each_node_when_the_answer_is_there() {
    let (machines, three) = three();
    let [first, second, third] = [0, 1, 2].map(|number| serve(&machines, number));
    eventually(three, || machines[0].verdict() == "ok");
    first.command(&["volume", "create", "data", "--replicas", "2", "--size", "32MiB"]);
    let nodes = [&first, &second, &third];
    eventually("the volume", || {
        nodes.iter().all(|node| node.command(&["volume", "list"]).to_string().contains("\"data\""))
    });
    let app = Key::create(&first, "app", &[]);
    for node in nodes {
        assert!(Door::Tcp.anonymous(node).is_err(), "the first credential closes each node");
        assert!(app.connect(node, Door::Tcp).unwrap().open("data").is_err(), "it has no grant yet");
    }
    for (at, other) in [(&first, &second), (&second, &third), (&third, &first)] {
        let grant = app.grant(at, "data", &[]);
        let volumes = nodes.map(|node| {
            let volume = app.connect(node, Door::Tcp).unwrap().open("data").unwrap();
            volume.read_at(&mut [0; 4096], 0).unwrap();
            volume
        });
        let removed = other.command(&["grant", "remove", &grant.to_string()]);
        assert!(named(&removed).is_empty(), "{removed}");
        for (volume, node) in volumes.iter().zip(nodes) {
            assert!(volume.read_at(&mut [0; 4096], 0).is_err(), "an open volume");
            assert!(app.connect(node, Door::Tcp).unwrap().open("data").is_err(), "a new one");
        }
    }
    // Two nodes at a time change other things.
    std::thread::scope(|scope| {
        for (node, tag) in nodes.into_iter().zip(["a", "b", "c"]) {
            scope.spawn(move || {
                for number in 0..8 {
                    node.command(&[
                        "token",
                        "create",
                        &format!("{tag}{number}"),
                        "--scope",
                        "read",
                    ]);
                }
            });
        }
    });
    for node in nodes {
        let tokens = node.command(&["token", "list"])["tokens"].as_array().unwrap().len();
        assert_eq!(tokens, 24, "no change is lost");
    }
    // With the volume go the rights on it.
    app.grant(&second, "data", &[]);
    first.command(&["host", "allow", HOST, "data"]);
    third.command(&["volume", "remove", "data", "--force", "--yes"]);
    for node in nodes {
        eventually("no grant", || {
            node.command(&["grant", "list"])["grants"].as_array().unwrap().is_empty()
        });
        let lists = node.command(&["host", "list"])["lists"].clone();
        assert_eq!(lists[0]["host"], HOST, "{lists}");
        assert!(lists[0]["volumes"].as_array().is_none_or(Vec::is_empty), "{lists}");
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn an_answer_names_the_nodes_that_may_serve_by_earlier_rights() {
    let (machines, three) = three();
    let [first, second, third] = [0, 1, 2].map(|number| serve(&machines, number));
    eventually(three, || machines[0].verdict() == "ok");
    let made = first.command(&["token", "create", "early", "--scope", "read"]);
    assert!(named(&made).is_empty(), "{made}");
    second.freeze();
    third.crash();
    let made = first.command(&["token", "create", "late", "--scope", "read"]);
    assert_eq!(named(&made), ["n1", "n2"], "{made}");
    second.signal(Signal::CONT);
    let has_it =
        |node: &Node<'_>| node.command(&["token", "list"]).to_string().contains("\"late\"");
    eventually("the node that goes on", || has_it(&second));
    let third = serve(&machines, 2);
    eventually("the node that starts", || has_it(&third));
    eventually("all nodes again", || machines[0].verdict() == "ok");
    third.command(&["token", "remove", "late"]);
    assert!(!has_it(&first) && !has_it(&second));
    // The key of the process that was killed ends with its lease.
    let mut tokens = 0..;
    eventually("no node is named", || {
        let name = format!("t{}", tokens.next().unwrap());
        named(&third.command(&["token", "create", &name, "--scope", "read"])).is_empty()
    });
}

/// The files of a folder that have these bytes.
fn files_with(folder: &Path, secret: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, secret));
        } else if std::fs::read(&path).unwrap().windows(secret.len()).any(|it| it == secret) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn etcd_and_its_files_show_no_secret_and_a_node_without_etcd_serves_by_the_last_list() {
    let machines = cluster(1);
    let node = serve(&machines, 0);
    let secret_file = machines[0].place.path("secret");
    std::fs::write(&secret_file, SECRET).unwrap();
    let secret_file = secret_file.display().to_string();
    node.command(&["chap", "add", "user", "--secret-file", &secret_file]);
    let added = node.command(&["host", "add", HOST]);
    let key = added["key"].as_str().unwrap();
    let app = Key::create(&node, "app", &[]);
    app.grant(&node, "own", &[]);
    let seal = node.command(&["grant", "seal", "own", "--for", "1h", "--at", "192.0.2.1:4421"]);
    assert!(seal["url"].as_str().is_some(), "{seal}");
    let mut etcd = Etcd::of(&machines[0]);
    let found = etcd.list("/nearflash/");
    let sealed =
        found.iter().filter(|(_, value)| String::from_utf8_lossy(value).contains("\"sealed\""));
    assert_eq!(sealed.count(), 5, "an account, a host, a credential, a grant, a seal");
    for secret in [SECRET, key, app.secret()] {
        let has_it =
            |(_, value): &&(String, Vec<u8>)| String::from_utf8_lossy(value).contains(secret);
        assert_eq!(found.iter().find(has_it), None);
        assert_eq!(files_with(&machines[0].etcd("."), secret.as_bytes()), Vec::<String>::new());
        assert_eq!(
            files_with(&machines[0].etcd("."), b"\"sealed\"").len().min(1),
            1,
            "its own proof"
        );
    }
    let was = node.command(&["host", "list"]);
    node.terminate();
    machines[0].kill();
    let node = serve(&machines, 0);
    assert_eq!(node.command(&["host", "list"]), was);
    let mut bytes = [1; 4096];
    app.connect(&node, Door::Tcp).unwrap().open("own").unwrap().read_at(&mut bytes, 0).unwrap();
    assert!(Door::Tcp.anonymous(&node).is_err());
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_that_starts_while_a_record_is_damaged_has_its_own_copy() {
    let machines = cluster(1);
    let node = serve(&machines, 0);
    node.command(&["host", "add", HOST]);
    let was = node.command(&["host", "list"]);
    let mut etcd = Etcd::of(&machines[0]);
    let found = etcd.list("/nearflash/");
    let (key, value) = found.iter().find(|(key, _)| key.contains("/host/")).unwrap();
    etcd.put(key, "{").unwrap();
    node.terminate();
    let node = serve(&machines, 0);
    assert_eq!(node.command(&["host", "list"]), was);
    let status = text(&machines[0].run(&["status"]));
    assert!(status.contains("'host/"), "{status}");
    // Other changes are made meanwhile, and the record can be restored.
    let mut tokens = 0..;
    eventually("no node is named", || {
        let name = format!("t{}", tokens.next().unwrap());
        named(&node.command(&["token", "create", &name, "--scope", "read"])).is_empty()
    });
    etcd.put(key, value.clone()).unwrap();
    node.command(&["host", "remove", HOST, "--forget"]);
    assert!(etcd.list("/nearflash/").iter().all(|(key, _)| !key.contains("/host/")));
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_with_access_of_its_own_adds_it_to_the_list_before_it_starts() {
    let machines = cluster(2);
    let alone = |number: usize| {
        let own = format!("own=file:{},size=64MiB", machines[number].place.text("own.img"));
        let flags = ["--direct", "127.0.0.1:0", "--device", &own, "--volume", "own=16MiB@own"];
        Node::start(&machines[number].place, &flags)
    };
    let first = alone(0);
    first.command(&["token", "create", "same", "--scope", "read"]);
    let app = Key::create(&first, "app", &[]);
    app.grant(&first, "own", &[]);
    first.terminate();
    let second = alone(1);
    Key::create(&second, "app", &[]);
    let other = Key::create(&second, "other", &[]);
    other.grant(&second, "own", &[]);
    second.terminate();
    let start = |number: usize| {
        let flags = flags(&machines[number], number);
        let mut command = machines[number].program();
        let data_dir = machines[number].place.data_dir();
        command.arg("serve").args(["--data-dir", &data_dir]).args(flags).output().unwrap()
    };
    let refused_start = text(&start(0));
    assert!(
        refused_start.contains("'nearflash cluster adopt-access --dry-run'"),
        "{refused_start}"
    );
    let dry = machines[0].answer(&["adopt-access", "--dry-run"]);
    assert_eq!(
        (dry["added"].as_array().unwrap().len(), &dry["is_done"]),
        (5, &false.into()),
        "{dry}"
    );
    assert!(text(&start(0)).contains("adopt-access"), "nothing was done");
    let done = machines[0].answer(&["adopt-access"]);
    assert_eq!(
        (done["added"].as_array().unwrap().len(), &done["is_done"]),
        (5, &true.into()),
        "{done}"
    );
    let node = serve(&machines, 0);
    app.connect(&node, Door::Tcp).unwrap().open("own").unwrap();
    // The second one has another credential of the same name.
    let contradicts = machines[1].run(&["adopt-access"]);
    assert!(!contradicts.status.success());
    assert!(text(&contradicts).contains("credential/app differs"), "{}", text(&contradicts));
    node.command(&["credential", "remove", "app"]);
    machines[1].answer(&["adopt-access"]);
    let second = serve(&machines, 1);
    for node in [&node, &second] {
        eventually("one list", || {
            node.command(&["credential", "list"])["credentials"].as_array().unwrap().len() == 2
        });
    }
    other.connect(&second, Door::Tcp).unwrap().open("own").unwrap();
    let grants = node.command(&["grant", "list"])["grants"].clone();
    assert_eq!(grants.as_array().unwrap().len(), 1, "{grants}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn at_an_upgrade_each_node_adds_its_own_records_to_the_list() {
    let machines = cluster(2);
    let mut etcd = Etcd::of(&machines[0]);
    let found = etcd.list("/nearflash/");
    let (key, value) = found.iter().find(|(key, _)| key.ends_with("/cluster")).unwrap();
    let value =
        String::from_utf8_lossy(value).replace("\"feature_level\":4", "\"feature_level\":2");
    etcd.put(key, value).unwrap();
    let [first, second] = [0, 1].map(|number| serve(&machines, number));
    let app = Key::create(&first, "app", &[]);
    app.grant(&first, "own", &[]);
    let other = Key::create(&second, "other", &[]);
    other.grant(&second, "own", &[]);
    second.command(&["host", "allow", HOST, "own"]);
    assert!(etcd.list("/nearflash/").iter().all(|(key, _)| !key.contains("/credential/")));
    let upgraded = machines[0].run(&["upgrade"]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
    for node in [&first, &second] {
        eventually("one list", || {
            let credentials = node.command(&["credential", "list"])["credentials"].clone();
            let grants = node.command(&["grant", "list"])["grants"].clone();
            let lists = node.command(&["host", "list"])["lists"].clone();
            let count = |of: Value| of.as_array().map_or(0, Vec::len);
            (count(credentials), count(grants), count(lists)) == (2, 2, 1)
        });
    }
    for (credential, node) in [(&app, &first), (&other, &second)] {
        credential.connect(node, Door::Tcp).unwrap().open("own").unwrap();
    }
    let data_dir = machines[0].place.data_dir();
    let again = refused(&["credential", "create", "other", "--data-dir", &data_dir]).message;
    assert!(again.contains("other"), "{again}");
}
