use super::*;
use crate::top::series::Order;
use nearflash_api::{Activity, HostIo, Status, VolumeIo};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn status(verdict: &serde_json::Value) -> Status {
    serde_json::from_value(serde_json::json!({
        "version": "0.1.0", "node": "00000000-0000-0000-0000-000000000001", "pid": 7,
        "uptime_seconds": 90, "nvme_tcp": [], "devices": [], "volumes": [], "hosts": [],
        "cores": [{"core": 0, "connections": 2, "in_flight": 1, "reads": 0, "writes": 0,
            "read_bytes": 0, "written_bytes": 0, "errors": 0, "pool_free_bytes": 0}],
        "verdict": verdict,
    }))
    .unwrap()
}

fn io(reads: u64, p99_ns: u64) -> Io {
    let latency = Latency { p50_ns: p99_ns / 2, p99_ns, ..Latency::default() };
    Io { reads, read_bytes: reads * 4096, read_latency: Some(latency), ..Io::default() }
}

fn series(verdict: &serde_json::Value) -> Series {
    let interval = |number: u64| Interval {
        number,
        ended_at_ms: number * 1000,
        millis: 1000,
        io: io(1000 * number, 90_000),
    };
    let volume = |name: &str, io| VolumeIo { volume: name.to_owned(), io, hosts: vec![] };
    let mut series = Series::default();
    let activity = Activity {
        intervals: (1..=5).map(interval).collect(),
        volumes: vec![volume("busy", io(5000, 90_000)), volume("slow", io(10, 9_000_000))],
        hosts: vec![HostIo { host: None, several: false, io: io(5010, 90_000) }],
    };
    series.take(status(verdict), activity);
    series
}

fn drawn(series: &Series, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, series)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_healthy_node_is_shown_with_its_totals_charts_and_busiest_volumes() {
    let text = drawn(&series(&serde_json::json!({"level": "ok"})), 120, 36);
    for part in [
        "OK  node 00000000-0000-0000-0000-000000000001, version 0.1.0, serving for 1m 30s",
        "reads 5000/s 19.5MiB/s",
        "requests/s",
        "latency p99, µs",
        "core 0: 2 connections, 1 in flight",
        "q end   s order: requests   p pause",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let place = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    assert!(place("busy") < place("slow") && place("slow") < place("anonymous"));
}

#[test]
fn the_order_of_the_rows_changes() {
    let mut series = series(&serde_json::json!({"level": "ok"}));
    series.order = Order::Latency;
    let text = drawn(&series, 120, 36);
    assert!(text.find("slow") < text.find("busy"), "{text}");
    let orders = [Order::Bytes, Order::Latency, Order::Name, Order::Requests];
    let mut order = Order::Requests;
    for next in orders {
        order = order.next();
        assert_eq!(order, next);
    }
}

#[test]
fn a_problem_and_a_node_that_does_not_answer_are_in_the_heading() {
    let mut series = series(&serde_json::json!({"level": "problem", "reasons": ["core 3 hangs"]}));
    series.failure = Some("no node runs".to_owned());
    let text = drawn(&series, 100, 30);
    for part in ["PROBLEM", "core 3 hangs", "no node runs"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn every_size_of_terminal_can_be_drawn_on() {
    let series = series(&serde_json::json!({"level": "ok"}));
    for (width, height) in [(1, 1), (20, 5), (40, 24), (80, 24), (300, 100)] {
        drawn(&series, width, height);
    }
}

#[test]
fn a_narrow_terminal_shows_fewer_columns_and_each_of_them_whole() {
    let series = series(&serde_json::json!({"level": "ok"}));
    for (width, shown) in [(40, 2), (80, 6), (100, 8), (130, 11)] {
        let text = drawn(&series, width, 24);
        for part in ["VOLUME", "busy", "HOST", "anonymous", "READS/s", "5000"] {
            assert!(text.contains(part), "{width}: {part} is not in\n{text}");
        }
        assert_eq!(columns(width).count(), shown, "{width}");
        assert!(columns(width).all(|column| text.contains(column.title)), "{width}: {text}");
    }
}

#[test]
fn numbers_have_three_digits_and_a_unit() {
    let numbers = [0.0, 1.25, 999.0, 12_345.0, 12_345_678.0].map(number);
    assert_eq!(numbers, ["0", "1.2", "999", "12k", "12.3M"]);
}
