//! The metrics of a node, by its control socket.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::common;

use std::collections::BTreeSet;

use common::Recorder;
use nearflash_api::MetricsShow;
use nearflash_api::client::ask;
use nearflash_config::{Config, ServeArgs};

/// The metrics of a node with these devices and a volume on the last one.
fn text_of(folder: &tempfile::TempDir, devices: &[&str]) -> String {
    let data_dir = folder.path().join("data");
    let args = ServeArgs {
        devices: devices.iter().map(|device| (*device).to_owned()).collect(),
        volumes: vec!["data=4MiB@".to_owned() + devices.last().unwrap().split('=').next().unwrap()],
        nvme_tcp: vec!["127.0.0.1:0".to_owned()],
        data_dir: Some(data_dir.clone()),
        ..ServeArgs::default()
    };
    let (running, _cores) = Recorder::start(&Config::resolve(args).unwrap()).unwrap();
    let text = ask(&data_dir, MetricsShow {}).unwrap().text;
    running.stop().unwrap();
    text
}

fn has_line(text: &str, line: &str) {
    assert!(text.lines().any(|it| it == line), "no '{line}' in\n{text}");
}

/// The names of the samples that families of this text can have.
fn names(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = types.flat_map(|(name, kind)| {
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[""],
        };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    names.collect()
}

/// The names of metrics in a text.
fn mentioned(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("nearflash_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_alerts_and_the_dashboard_exists_and_every_family_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let names = names(&text_of(&folder, &["r=ram:16MiB"]));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    for path in ["packaging/monitoring/alerts.yaml", "packaging/monitoring/dashboard.json"] {
        let mentioned: Vec<String> = mentioned(&read(path)).into_iter().collect();
        let unknown: Vec<_> = mentioned.iter().filter(|name| !names.contains(*name)).collect();
        assert!(mentioned.len() > 10 && unknown.is_empty(), "{path}: {unknown:?}");
    }
    let dashboard = read("packaging/monitoring/dashboard.json");
    let shown = mentioned(&dashboard);
    let alerting = mentioned(&read("packaging/monitoring/alerts.yaml"));
    let unseen: Vec<_> = alerting.difference(&shown).collect();
    assert!(unseen.is_empty(), "an alert has no panel: {unseen:?}");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "the numbers of panels differ");
    let operations = mentioned(&read("docs/metrics.md"));
    let is_documented = |name: &&String| {
        let family = ["_bucket", "_count", "_sum"].iter().find_map(|it| name.strip_suffix(it));
        operations.contains(*name) || family.is_some_and(|family| operations.contains(family))
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_documented(name)).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
}

#[test]
fn a_node_shows_its_build_devices_volumes_and_jobs_without_a_core() {
    let folder = tempfile::tempdir().unwrap();
    let text = text_of(&folder, &["slow=null:1GiB", "worn=flash:64MiB"]);
    has_line(&text, "nearflash_device_size_bytes{device=\"slow\",kind=\"null\"} 1073741824");
    has_line(&text, "nearflash_device_suspect{device=\"worn\"} 0");
    has_line(&text, "nearflash_device_worn_out{device=\"worn\"} 0");
    has_line(&text, "nearflash_volume_size_bytes{volume=\"data\"} 4194304");
    has_line(&text, "nearflash_jobs{state=\"failed\"} 0");
    has_line(&text, "nearflash_silent_cores 0");
    assert!(text.contains("nearflash_build_info{version=\""), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}
