//! One way to create a volume: the command line, HTTP and a file, at nodes of a cluster that also have a device of their
//! own. None says how many replicas there are.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nearflash_node_tests::{Machine, Node, eventually, refused};
use serde_json::{Value, json};

/// The node of a machine, with a slice and a device, in memory.
fn serve<'a>(machine: &'a Machine, name: &str) -> Node<'a> {
    let direct = format!("{}:4421", machine.address);
    let slice = format!("slice=file:{},size=256MiB", machine.place.text("slice.img"));
    let flags = ["--cluster", "--node", name, "--host", "any", "--direct", &direct];
    let devices = ["--slice", &slice, "--device", "own=ram:64MiB"];
    Node::start(&machine.place, &[&flags[..], &devices].concat())
}

/// The status and the body of a new volume over HTTP.
fn post(node: &Node<'_>, body: &Value) -> (u16, Value) {
    let socket = node.ready().http_local.as_ref().expect("HTTP is on by default");
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = body.to_string();
    let len = body.len();
    let head = "POST /v1/volumes HTTP/1.1\r\nHost: node\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {len}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn layout(node: &Node<'_>, volume: &str) -> Value {
    node.command(&["volume", "show", volume])["layout"].clone()
}

/// The message of a command that fails.
fn refusal(machine: &Machine, arguments: &[&str]) -> String {
    refused(&[arguments, &["--data-dir", &machine.place.data_dir()]].concat()).message
}

fn apply(node: &Node<'_>, file: &str) -> Value {
    node.command(&["apply", file])
}

fn steps(plan: &Value) -> Vec<(&str, &str)> {
    let steps = plan["steps"].as_array().unwrap().iter();
    steps.map(|it| (it["action"].as_str().unwrap(), it["name"].as_str().unwrap())).collect()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_volume_of_a_cluster_is_created_in_one_way_by_every_interface_and_the_node_chooses_its_replicas()
 {
    let machines: Vec<Machine> = (0..2).map(|_| Machine::new()).collect();
    machines[0].init();
    machines[1].join(&machines[0], &[]);
    let first = serve(&machines[0], "n1");
    let create = ["volume", "create", "alone", "--size", "8MiB"];
    let made = first.command(&create);
    let note = made["note"].as_str().unwrap();
    assert!(note.starts_with("1 replica was chosen, because only one node has slices"), "{note}");
    assert_eq!(layout(&first, "alone")["replicas"], 1);
    let second = serve(&machines[1], "n2");
    let has_slice = |node: &Value| node["data_bytes"].as_u64() > Some(0);
    let nodes = || first.command(&["status"])["cluster"]["nodes"].as_array().unwrap().clone();
    eventually("both slices", || nodes().iter().filter(|node| has_slice(node)).count() == 2);

    // The command line.
    let made = first.command(&["volume", "create", "two", "--size", "8MiB", "--width", "1"]);
    assert_eq!(made["note"], "2 replicas were chosen, because several nodes have slices");
    assert_eq!(layout(&first, "two")["replicas"], 2);
    let own = first.command(&["volume", "create", "mine", "--size", "8MiB", "--device", "own"]);
    assert_eq!((&own["volume"]["device"], &own["note"]), (&json!("own"), &Value::Null));
    assert_eq!(layout(&first, "mine"), Value::Null);
    let both = ["volume", "create", "x", "--size", "8MiB", "--device", "own", "--replicas", "2"];
    let both = refusal(&machines[0], &both);
    assert!(both.contains("2 replicas do not lie on one device: for a volume of the"), "{both}");

    // HTTP.
    let wanted = json!({ "name": "web", "bytes": 8 << 20, "placement": "local:n2" });
    let (status, made) = post(&second, &wanted);
    assert_eq!(status, 201, "{made}");
    assert_eq!(layout(&second, "web")["replicas"], 2);
    assert_eq!(post(&second, &wanted).0, 200, "it is there already");
    let (status, small) = post(&second, &json!({ "name": "x", "bytes": 4096, "block_size": 512 }));
    assert_eq!((status, &small["error"]["code"]), (400, &json!("invalid-value")), "{small}");
    assert_eq!(small["error"]["subject"]["name"], "x");

    // A file, which is the same at every node.
    let file = machines[0].place.text("volumes.toml");
    let table = |rest: &str| format!("[[volume]]\nname = 'declared'\nsize = {rest}\n");
    std::fs::write(&file, table("'8MiB'\nreplicas = 2\nstripe-unit = '128KiB'")).unwrap();
    assert_eq!(steps(&apply(&first, &file)), [("create", "declared")]);
    for node in [&first, &second, &first] {
        assert!(steps(&apply(node, &file)).is_empty());
    }
    let found = layout(&second, "declared");
    assert_eq!((&found["replicas"], &found["stripe_unit"]), (&json!(2), &json!(131_072)));
    std::fs::write(&file, table("'16MiB'")).unwrap();
    assert_eq!(steps(&apply(&second, &file)), [("change", "declared")]);
    eventually("the other node knows it", || steps(&apply(&first, &file)).is_empty());
    // A volume of the cluster on one slice looks like one on a device of its node, and is not pruned.
    let prune = ["apply", &file, "--prune", "--destroy"];
    assert_eq!(steps(&first.command(&prune)), [("remove", "mine")]);
    assert!(layout(&first, "alone").is_object());
    std::fs::write(&file, table("'16MiB'\nreplicas = 1")).unwrap();
    let other = refusal(&machines[1], &["apply", &file]);
    assert!(other.contains("keeps its number of replicas, 2, and the file has 1"), "{other}");
    std::fs::write(&file, table("'16MiB'\ndevice = 'own'")).unwrap();
    let on_device = refusal(&machines[1], &["apply", &file]);
    assert!(on_device.contains("'declared' is a volume of the cluster"), "{on_device}");
    drop((first, second));
}
