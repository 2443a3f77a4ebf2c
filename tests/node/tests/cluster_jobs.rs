//! Jobs of a cluster: another node carries them on, each node cancels them, and an older feature level has none.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::{Command, Output};

use nearflash_node_tests::{Door, Etcd, Machine, Node, eventually, nearflash, refused};
use serde_json::{Value, json};

fn cluster(count: usize) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..count).map(|_| Machine::new()).collect();
    machines[0].init();
    machines[1..].iter().for_each(|machine| drop(machine.join(&machines[0], &[])));
    machines
}

fn serve<'a>(machines: &'a [Machine], number: usize) -> Node<'a> {
    let slice = machines[number].place.text("slice.img");
    serve_with(machines, number, &["--slice", &format!("flash=file:{slice},size=512MiB")])
}

fn serve_with<'a>(machines: &'a [Machine], number: usize, storage: &[&str]) -> Node<'a> {
    let machine = &machines[number];
    let direct = format!("{}:4421", machine.address);
    let name = format!("n{number}");
    let flags = ["--direct", &direct, "--cluster", "--node", &name, "--host", "any"];
    Node::start(&machine.place, &[&flags[..], storage].concat())
}

fn create(node: &Node<'_>, size: &str) -> Value {
    let flags = ["--replicas", "1", "--width", "3", "--size", size, "--no-wait"];
    node.command(&[&["volume", "create", "data"], &flags[..]].concat())
}

fn job(node: &Node<'_>, id: u64) -> Value {
    node.command(&["job", "show", &id.to_string()])["job"].clone()
}

fn refusal(machine: &Machine, arguments: &[&str]) -> String {
    refused(&[arguments, &["--data-dir", &machine.place.data_dir()]].concat()).message
}

/// The number of volumes that a node serves.
fn volumes(node: &Node<'_>) -> usize {
    let listed = node.command(&["volume", "list"])["volumes"].clone();
    listed.as_array().unwrap().iter().filter(|volume| volume["state"].is_null()).count()
}

/// The number of jobs in this state that a node counts in its metrics.
fn counted(node: &Node<'_>, state: &str) -> Option<String> {
    let text = node.command(&["metrics"])["text"].as_str().unwrap().to_owned();
    let series = format!("nearflash_jobs{{state=\"{state}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned))
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_job_goes_on_at_another_node_when_its_own_is_killed_and_ends_when_every_place_is_zeroed() {
    let machines = cluster(3);
    let [first, second, third] = [0, 1, 2].map(|number| serve(&machines, number));
    eventually("three nodes", || machines[0].verdict() == "ok");
    // A third of the volume lies there, and cannot be zeroed.
    third.crash();
    let made = create(&first, "96MiB");
    let id = made["job"]["id"].as_u64().unwrap();
    assert_eq!((id % 2, &made["job"]["kind"]), (0, &"volume-create".into()), "{made}");
    let zeroed = |node: &Node<'_>| job(node, id)["done_bytes"].as_u64().unwrap();
    eventually("two thirds", || zeroed(&second) >= 64 << 20);
    assert_eq!((job(&second, id)["state"].as_str(), volumes(&second)), (Some("running"), 0));
    let listed = second.command(&["volume", "list"])["volumes"][0].clone();
    assert_eq!((&listed["state"], &listed["job"]), (&json!("making"), &json!(id)), "{listed}");
    let waits_for = json!([{ "node": "n2", "reason": "down" }]);
    eventually("the reason", || job(&second, id)["waits_for"] == waits_for);
    let counts = [&first, &second].map(|node| counted(node, "running").unwrap());
    assert_eq!(counts, ["1", "0"], "its worker counts it");
    // It is declared, and not there yet.
    let file = machines[1].place.text("volumes.toml");
    std::fs::write(&file, "[[volume]]\nname = 'data'\nsize = '96MiB'\n").unwrap();
    let flags = ["apply", &file, "--dry-run", "--json", "--data-dir"];
    let planned = Command::new(nearflash()).args(flags).arg(machines[1].place.data_dir()).output();
    let planned = planned.unwrap();
    assert_eq!(planned.status.code(), Some(3), "{}", text(&planned));
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!(
        (&plan["jobs"], &plan["steps"]),
        (&json!([{ "job": id, "volume": "data" }]), &json!([]))
    );
    first.crash();
    let third = serve(&machines, 2);
    for node in [&second, &third] {
        eventually("the end of the job", || job(node, id)["state"] == "done");
        eventually("the volume", || volumes(node) == 1);
        let volume = Door::Tcp.anonymous(node).unwrap().open("data").unwrap();
        let mut bytes = vec![0xA5; 1 << 20];
        volume.read_at(&mut bytes, 95 << 20).unwrap_or_else(|_| bytes.fill(0));
        assert!(bytes.iter().all(|byte| *byte == 0), "it is new");
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn each_node_cancels_a_job_and_nothing_of_it_is_left() {
    let machines = cluster(3);
    let [first, second, third] = [0, 1, 2].map(|number| serve(&machines, number));
    eventually("three nodes", || machines[0].verdict() == "ok");
    let free = |node: &Node<'_>| {
        let nodes = node.command(&["status"])["cluster"]["nodes"].clone();
        let nodes = nodes.as_array().unwrap().clone();
        nodes.iter().map(|it| it["free_bytes"].as_u64().unwrap()).sum::<u64>()
    };
    let before = free(&first);
    third.crash();
    let id = create(&first, "96MiB")["job"]["id"].as_u64().unwrap();
    let text = id.to_string();
    let refused =
        refusal(&machines[1], &["volume", "create", "data", "--replicas", "1", "--size", "32MiB"]);
    assert!(refused.contains("another volume is called 'data'"), "{refused}");
    assert_eq!(second.command(&["job", "cancel", &text])["job"]["waits_for"], Value::Null);
    for node in [&first, &second] {
        eventually("the end of the job", || job(node, id)["state"] == "cancelled");
        assert_eq!(volumes(node), 0);
        eventually("the space", || free(node) == before);
    }
    let refused = refusal(&machines[0], &["job", "cancel", "4"]);
    assert!(refused.contains("job 4 does not exist"), "{refused}");
    // A new volume that needs the node is refused, and another one lies elsewhere.
    let is_up = |node: &Node<'_>| {
        let nodes = node.command(&["status"])["cluster"]["nodes"].clone();
        nodes.as_array().unwrap().iter().all(|it| it["is_running"] == true)
    };
    let wide = ["volume", "create", "data", "--replicas", "1", "--width", "3", "--size", "96MiB"];
    let small = ["volume", "create", "small", "--replicas", "2", "--size", "32MiB"];
    eventually("the node counts as down", || !is_up(&first));
    let refused = refusal(&machines[0], &wide);
    assert!(refused.starts_with("node 'n2' is down: start what is missing"), "{refused}");
    let without_slice = serve_with(&machines, 2, &[]);
    eventually("the node counts as up", || is_up(&first));
    let refused = refusal(&machines[0], &wide);
    assert!(refused.starts_with("node 'n2' runs without its slice 'flash': start"), "{refused}");
    assert_eq!(first.command(&small)["job"], Value::Null);
    first.command(&["volume", "remove", "small", "--force", "--yes"]);
    without_slice.crash();
    // The name and the space can be used again, and the node that was away zeroes nothing for the first job.
    let third = serve(&machines, 2);
    let made = create(&third, "192MiB");
    assert_eq!(made["volume"]["bytes"], 192 << 20, "{made}");
    eventually("the volume", || volumes(&first) == 1);
    let grown = first.command(&["volume", "resize", "data", "384MiB"]);
    assert_eq!(grown["volume"]["bytes"], 384 << 20, "{grown}");
    second.command(&["volume", "remove", "data", "--force", "--yes"]);
    eventually("the space", || free(&third) == before);
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_cluster_of_the_earlier_level_makes_volumes_after_its_upgrade() {
    let machines = cluster(1);
    // As an earlier version has created it.
    let mut etcd = Etcd::of(&machines[0]);
    let found = etcd.list("/nearflash/");
    let (key, value) = found.iter().find(|(key, _)| key.ends_with("/cluster")).unwrap();
    let value =
        String::from_utf8_lossy(value).replace("\"feature_level\":4", "\"feature_level\":1");
    assert!(value.contains("\"feature_level\":1"), "{value}");
    etcd.put(key, value).unwrap();
    let node = serve(&machines, 0);
    let refused =
        refusal(&machines[0], &["volume", "create", "data", "--replicas", "1", "--size", "32MiB"]);
    assert!(refused.contains("'nearflash cluster upgrade'"), "{refused}");
    // A node of an earlier version keeps the level.
    let nodes = etcd.list("/nearflash/");
    let (key, record) = nodes
        .iter()
        .find(|(key, _)| key.contains("/node/") && !key.contains("/name/"))
        .unwrap()
        .clone();
    let earlier = String::from_utf8_lossy(&record).replace("+level.4", "");
    etcd.put(&key, earlier).unwrap();
    let refused = machines[0].run(&["upgrade"]);
    assert!(text(&refused).contains("node 'n0' runs nearflash"), "{}", text(&refused));
    etcd.put(&key, record).unwrap();
    // Its program is upgraded, and so it starts anew.
    node.crash();
    let node = serve(&machines, 0);
    for level in ["now", "the highest"] {
        let upgraded = machines[0].run(&["upgrade"]);
        assert!(
            upgraded.status.success() && text(&upgraded).contains(level),
            "{}",
            text(&upgraded)
        );
    }
    let made = node.command(&["volume", "create", "data", "--replicas", "1", "--size", "32MiB"]);
    assert_eq!(made["volume"]["bytes"], 32 << 20);
}
