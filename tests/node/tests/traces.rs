//! Traces of a node that serves: the stages of requests of hosts, as JSON, for Chrome's viewer, and in the bench.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nearflash_node_tests::{Host, Node, Place, nearflash, refused};
use serde_json::Value;

const STAGES: [&str; 6] =
    ["decode_ns", "admission_ns", "submission_ns", "device_ns", "answer_ns", "sending_ns"];

fn node(place: &Place) -> Node<'_> {
    let device = place.flash("64MiB");
    let volumes = ["--volume", "data=8MiB@flash", "--volume", "other=8MiB@flash"];
    Node::with_direct(place, &[&["--device", &device, "--cores", "0"][..], &volumes].concat())
}

/// The result of `act`, while a host reads the volume.
fn under_load<T>(node: &Node<'_>, volume: &str, act: impl FnOnce() -> T) -> T {
    let mut host = Host::connect(node, volume);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(host.read(0, 8).0.is_success());
            }
        });
        let result = act();
        stop.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        result
    })
}

/// A trace of so many reads ends as soon as they have been answered.
const TEN: [&str; 7] = ["trace", "--seconds", "60", "--every", "2", "--records", "10"];

#[test]
fn a_trace_has_the_stages_of_a_hosts_reads_and_ends_when_it_has_its_records() {
    let place = Place::new();
    let node = node(&place);
    let trace = under_load(&node, "data", || node.command(&TEN));
    let requests = trace["requests"].as_array().unwrap();
    assert_eq!((requests.len(), &trace["is_full"]), (10, &Value::Bool(true)), "{trace}");
    for request in requests {
        assert_eq!(request["operation"], "read");
        assert_eq!(request["protocol"], "nvme-tcp");
        assert_eq!((&request["volume"], &request["core"]), (&"data".into(), &0.into()));
        assert!(request["host"].as_str().unwrap().starts_with("nqn."), "{request}");
        let stages = STAGES.map(|stage| request["stages"][stage].as_u64().unwrap());
        assert!(stages[3] > 0, "a device takes its time: {request}");
    }
    let received: Vec<u64> =
        requests.iter().map(|request| request["received_ns"].as_u64().unwrap()).collect();
    assert!(received.is_sorted());
}

#[test]
fn only_the_requests_to_the_volume_are_traced_and_the_file_is_a_trace_for_chrome() {
    let place = Place::new();
    let node = node(&place);
    let file = place.text("trace.json");
    let flags = ["--volume", "other", "--chrome", &file];
    let trace = under_load(&node, "data", || {
        under_load(&node, "other", || node.command(&[&TEN[..], &flags].concat()))
    });
    let volumes = trace["requests"].as_array().unwrap().iter().map(|it| &it["volume"]);
    assert!(volumes.clone().count() == 10 && volumes.clone().all(|volume| volume == "other"));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let reads = events.iter().filter(|event| event["ph"] == "X" && event["name"] == "read");
    assert_eq!(reads.count(), 10);
    let unknown = refused(&["trace", "--data-dir", &place.data_dir(), "--volume", "nothing"]);
    assert!(unknown.code == 1 && unknown.message.contains("'nothing'"), "{unknown:?}");
}

/// The report of a bench of a second, by this URL, with the node's data directory or another one.
fn breakdown(place: &Place, url: &str, data_dir: &str) -> Value {
    let report = place.text("report.json");
    let output = Command::new(nearflash())
        .args(["bench", url, "--rw", "randread", "--runtime", "1", "--breakdown"])
        .args(["--data-dir", data_dir, "--output-format", "json", "--output", &report])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    report["jobs"][0]["breakdown"].clone()
}

fn parts(breakdown: &Value) -> Vec<(&str, f64)> {
    let parts = breakdown["parts"].as_array().unwrap().iter();
    parts.map(|part| (part["name"].as_str().unwrap(), part["mean_ns"].as_f64().unwrap())).collect()
}

#[test]
fn the_parts_of_a_benchs_breakdown_add_up_and_the_nodes_are_known_on_its_machine_only() {
    let place = Place::new();
    let node = node(&place);
    let urls = [
        format!("nvme-tcp://{}/data", node.address()),
        format!("direct://{}/data", node.direct_address()),
        format!("direct+local:{}/data", node.direct_socket()),
    ];
    for url in &urls {
        let known = breakdown(&place, url, &place.data_dir());
        assert!(known["node_requests"].as_u64().unwrap() > 0, "{url}: {known}");
        let all = parts(&known);
        let sum: f64 = all.iter().map(|(_, nanos)| nanos).sum();
        assert!((sum - known["mean_ns"].as_f64().unwrap()).abs() < 1.0, "{url}: {known}");
        let device = all.iter().find(|(name, _)| *name == "node: device").unwrap();
        assert!(device.1 > 0.0, "{url}: {known}");
    }
    let unknown = breakdown(&place, &urls[0], &place.text("elsewhere"));
    assert!(unknown["node_unknown"].as_str().unwrap().contains("no node is running"));
    assert!(parts(&unknown).iter().any(|(name, _)| *name == "network, wake-ups and node"));
}
