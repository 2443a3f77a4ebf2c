use super::{Verdict, compare};
use crate::plan::PointId;
use crate::report::{About, Fact, Kept};
use crate::result::{Comparable, Cpu, Latency, Measurement, Outcome, PointEnd, Run};

fn run(iops: f64, comparable: Comparable) -> Run {
    Run {
        ops: 1000,
        seconds: 1.0,
        warm_up_seconds: 0.3,
        iops,
        bytes_per_second: iops * 4096.0,
        latency: Latency { p50: 1e6 / iops, p99: 2e6 / iops, ..Latency::default() },
        cpu: Cpu::default(),
        joules: None,
        core_to_core: [90.0, 90.0],
        core_share: 1.0,
        comparable,
    }
}

fn point(id: &str, rates: &[f64]) -> PointEnd {
    let runs = rates.iter().map(|iops| run(*iops, Comparable::Sound)).collect();
    let outcome = Outcome::Measured(Measurement { tenants: vec![runs], command: None });
    PointEnd { id: PointId(id.to_owned()), outcome }
}

fn kept(points: Vec<PointEnd>) -> Kept {
    let machine = vec![Fact::new("Processor", "one")];
    let about = About { version: "0.1.0".to_owned(), machine, ..About::default() };
    Kept { about, studies: vec![("study".to_owned(), points)] }
}

fn names() -> [String; 2] {
    ["before".to_owned(), "after".to_owned()]
}

#[test]
fn a_difference_counts_when_spreads_lie_apart() {
    let before = kept(vec![
        point("study/up", &[100.0, 101.0, 102.0]),
        point("study/down", &[100.0, 101.0, 102.0]),
        point("study/noise", &[90.0, 100.0, 110.0, 120.0]),
    ]);
    let after = kept(vec![
        point("study/up", &[150.0, 151.0, 152.0]),
        point("study/down", &[50.0, 51.0, 52.0]),
        point("study/noise", &[95.0, 105.0, 115.0, 125.0]),
    ]);
    let comparison = compare(names(), &before, &after);
    let verdicts: Vec<Verdict> = comparison.pairs.iter().map(super::Pair::verdict).collect();
    assert_eq!(verdicts, [Verdict::More, Verdict::Less, Verdict::Same]);
    assert_eq!(comparison.remarks, Vec::<String>::new());
    let ratio = comparison.pairs.first().and_then(|pair| pair.iops.ratio).unwrap();
    assert!((ratio - 151.0 / 101.0).abs() < 1e-9);
}

#[test]
fn a_run_compared_with_itself_is_the_same_everywhere() {
    let run = kept(vec![point("study/a", &[100.0]), point("study/b", &[7.0, 8.0])]);
    let comparison = compare(names(), &run, &run);
    assert_eq!(comparison.count(Verdict::Same), 2);
    assert!(comparison.only_first.is_empty() && comparison.only_second.is_empty());
}

#[test]
fn points_of_one_alone_and_failed_ones_are_listed() {
    let failed =
        PointEnd { id: PointId("study/c".to_owned()), outcome: Outcome::Failed("gone".to_owned()) };
    let before = kept(vec![point("study/a", &[1.0]), point("study/c", &[1.0])]);
    let after = kept(vec![point("study/b", &[1.0]), failed]);
    let comparison = compare(names(), &before, &after);
    let ids = |points: &[PointId]| points.iter().map(|id| id.0.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&comparison.only_first), ["study/a", "study/c"]);
    assert_eq!(ids(&comparison.only_second), ["study/b"]);
    let text = super::text(&comparison);
    assert!(text.contains("No point was measured in both."), "{text}");
}

#[test]
fn a_doubtful_point_is_no_difference() {
    let before = kept(vec![point("study/a", &[100.0])]);
    let mut moved = point("study/a", &[10.0]);
    moved.outcome = Outcome::Measured(Measurement {
        tenants: vec![vec![run(10.0, Comparable::Moved)]],
        command: None,
    });
    let comparison = compare(names(), &before, &kept(vec![moved]));
    assert_eq!(comparison.count(Verdict::Doubtful), 1);
}

#[test]
fn another_machine_or_version_is_said() {
    let before = kept(vec![point("study/a", &[100.0, 100.0])]);
    let mut after = before.clone();
    after.about.version = "0.2.0".to_owned();
    after.about.is_quick = true;
    after.about.machine = vec![Fact::new("Processor", "two"), Fact::new("Memory", "8 GiB")];
    let comparison = compare(names(), &before, &after);
    let expected = [
        "nearflash: 0.1.0 against 0.2.0",
        "a full run against a quick one: short points vary more",
        "machine Processor: one against two",
        "machine Memory: nothing against 8 GiB",
    ];
    assert_eq!(comparison.remarks, expected);
    let page = super::page(&comparison);
    assert!(page.contains("machine Processor: one against two"));
}

#[test]
fn a_comparison_reads_well() {
    let before = kept(vec![point("study/iscsi/4KiB", &[31_000.0, 32_000.0, 33_000.0])]);
    let after = kept(vec![point("study/iscsi/4KiB", &[41_000.0, 42_000.0, 43_000.0])]);
    let text = super::text(&compare(names(), &before, &after));
    insta::assert_snapshot!(text.replace('\u{202f}', "_"));
}

#[test]
fn points_of_a_single_run_are_said_to_have_no_spread() {
    let run = kept(vec![point("study/a", &[100.0])]);
    let comparison = compare(names(), &run, &run);
    assert_eq!(comparison.remarks.len(), 1);
    assert!(super::text(&comparison).contains("a single run have no spread"));
}

#[test]
fn a_rate_of_nothing_has_no_ratio() {
    let comparison = compare(
        names(),
        &kept(vec![point("study/a", &[0.0])]),
        &kept(vec![point("study/a", &[5.0])]),
    );
    let pair = comparison.pairs.first().unwrap();
    assert_eq!(pair.iops.ratio, None);
    let value: serde_json::Value = serde_json::from_str(&comparison.json()).unwrap();
    assert_eq!(value["schema"], 1);
}
