//! A cluster whose etcd exists already: another cluster's, with TLS, or one that is started here without.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use nearflash_node_tests::{Door, Machine, Node, eventually};

const MIB: u64 = 1 << 20;

/// Machines whose etcds are the members of one etcd, which the cluster under test does not run.
fn members() -> Vec<Machine> {
    let machines: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
    machines[0].init();
    machines[1..].iter().for_each(|machine| drop(machine.join(&machines[0], &[])));
    machines
}

/// The URL of these members, with the certificates of the first.
fn url(members: &[Machine], more: &str) -> String {
    let addresses: Vec<&str> = members.iter().map(|it| it.address.as_str()).collect();
    let file = |name| members[0].etcd(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("machine.pem"), file("machine.key"));
    format!("etcd://{}?ca={ca}&cert={cert}&key={key}{more}", addresses.join(","))
}

fn init(machine: &Machine, url: &str) -> serde_json::Value {
    machine.answer(&["init", "--name", "lab", "--listen", &machine.address, "--etcd", url])
}

fn refused(machine: &Machine, url: &str) -> (String, i32) {
    machine.refusal(&["init", "--listen", &machine.address, "--etcd", url])
}

/// The node of a machine, with a slice in a file.
fn serve<'a>(machine: &'a Machine, name: &str) -> Node<'a> {
    let slice = format!("flash=file:{},size=256MiB", machine.place.text("slice.img"));
    let direct = format!("{}:4421", machine.address);
    let cluster = ["--cluster", "--node", name, "--slice", &slice];
    Node::start(&machine.place, &[&["--direct", &direct, "--host", "any"][..], &cluster].concat())
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_cluster_uses_an_etcd_that_exists_already_and_supervises_nothing() {
    let mut etcd = members();
    let (one, two) = (Machine::new(), Machine::new());
    // The third member is not named, and is found by what the others announce.
    let made = init(&one, &url(&etcd[..2], "&prefix=/storage"));
    assert_eq!(made["is_external"], true);
    let joined = two.join(&one, &[]);
    assert_eq!(
        (joined["role"].as_str(), joined["is_external"].as_bool()),
        (Some("client"), Some(true))
    );
    assert!(two.refusal(&["run"]).0.contains("etcd is external"));
    assert_eq!(one.verdict(), "ok");

    let nodes = [serve(&one, "n1"), serve(&two, "n2")];
    nodes[1].command(&["volume", "create", "data", "--size", "64MiB", "--replicas", "1"]);
    let first = |node: &Node<'_>| node.command(&["volume", "list"])["volumes"][0].clone();
    let is_served = |volume: serde_json::Value| volume.is_object() && volume["state"].is_null();
    eventually("the volume", || is_served(first(&nodes[0])));
    let volume = Door::Tcp.anonymous(&nodes[0]).unwrap().open("data").unwrap();
    volume.write_at(&[7; 65536], 0).unwrap();
    let status = String::from_utf8(one.run(&["status"]).stdout).unwrap();
    assert!(
        status.contains("whose etcd is external") && status.contains("external etcd: ok"),
        "{status}"
    );
    assert!(one.pid().is_none() && two.pid().is_none());
    assert_eq!(etcd[0].verdict(), "ok", "its own records are elsewhere");

    etcd[2].kill();
    one.has_verdict("degraded");
    etcd[1].kill();
    two.has_verdict("at-risk");
    eventually("the node's verdict", || {
        nodes[0].command(&["status"])["cluster"]["verdict"] == "at risk"
    });
    etcd[0].kill();
    one.has_verdict("unavailable");
    let mut found = [0; 65536];
    volume.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [7; 65536], "no request waits for etcd");
    etcd.iter_mut().for_each(Machine::supervise);
    one.has_verdict("ok");
    nodes[0].command(&["volume", "resize", "data", "128MiB"]);
    assert_eq!(first(&nodes[0])["bytes"], 128 * MIB);
}

/// An etcd without TLS.
struct Plain {
    child: Child,
    address: String,
}

impl Plain {
    fn start(machine: &Machine, folder: &str, port: u16, flags: &[&str]) -> Self {
        let (ip, peer_port) = (&machine.address, port + 1);
        let (client, peer) = (format!("http://{ip}:{port}"), format!("http://{ip}:{peer_port}"));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name=own", "--data-dir", &machine.place.text(folder)]).args(flags);
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--initial-cluster", &format!("own={peer}"), "--logger=zap"]);
        let child = etcd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let address = format!("{ip}:{port}");
        eventually("etcd", || TcpStream::connect(&address).is_ok());
        Self { child, address }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn an_etcd_that_does_not_fit_is_refused_by_name_and_the_command_can_be_repeated() {
    let (one, two, host) = (Machine::new(), Machine::new(), Machine::new());
    let (message, code) = refused(&one, &format!("etcd://{}:9", host.address));
    assert!(
        message.contains("does not answer") && message.contains(":9") && code == 1,
        "{message}"
    );

    let few = Plain::start(&host, "few", 2381, &[]);
    let (message, _) = refused(&one, &format!("etcd://{}", few.address));
    assert!(message.contains("start its members with --max-txn-ops=512"), "{message}");
    let plain = Plain::start(&host, "plain", 2383, &["--max-txn-ops=512"]);
    let plain_url = format!("etcd://{}", plain.address);
    init(&one, &plain_url);
    let (message, _) = refused(&two, &plain_url);
    assert!(message.contains("already holds cluster 'lab'"), "{message}");
    assert!(message.contains("prefix=/NAME"), "{message}");
    let (message, _) = refused(&one, &plain_url);
    assert!(message.contains("already belongs to cluster 'lab'"), "{message}");
    let token = format!("@{}", one.token().display());
    let (message, _) = two.refusal(&["join", &token, "--witness"]);
    assert!(message.contains("a witness has nothing to do"), "{message}");
    init(&two, &format!("{plain_url}?prefix=/other"));
    assert_eq!((one.verdict(), two.verdict()), ("degraded".to_owned(), "degraded".to_owned()));

    // With TLS, and wrong certificates.
    let (secure, new) = (Machine::new(), Machine::new());
    secure.init();
    let (message, _) = refused(&new, &format!("etcd://{}", secure.address));
    assert!(message.contains("ca=FILE makes the connections TLS"), "{message}");
    let file = |machine: &Machine, name| machine.etcd(name).display().to_string();
    let stranger = Machine::new();
    stranger.init();
    let wrong = format!("etcd://{}?ca={}", secure.address, file(&stranger, "ca.pem"));
    let (message, _) = refused(&new, &wrong);
    assert!(message.contains("compare its certificate with the file after ca="), "{message}");
    let (ca, cert, key) =
        (file(&secure, "ca.pem"), file(&stranger, "machine.pem"), file(&stranger, "machine.key"));
    let wrong = format!("etcd://{}?ca={ca}&cert={cert}&key={key}", secure.address);
    // The connection ends with an alert of TLS, or the alert comes too late to be read.
    let (message, _) = refused(&new, &wrong);
    assert!(message.contains("accepts") && message.contains("cert="), "{message}");
    let (message, code) = refused(&new, &format!("etcd://{}?ca={key}", secure.address));
    assert!(message.contains("it has no 'CERTIFICATE' in PEM") && code == 2, "{message}");
    // Its own cluster is there, so another one needs another place.
    let (message, _) = refused(&new, &url(std::slice::from_ref(&secure), ""));
    assert!(message.contains("already holds cluster 'lab'"), "{message}");
    init(&new, &url(std::slice::from_ref(&secure), "&prefix=/new"));
    assert_eq!(new.verdict(), "degraded");
}
