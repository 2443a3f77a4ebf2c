//! A synthetic run with every kind of figure and every kind of failure.

use nearflash_study::exhibit::{
    Axis, Cell, Exhibit, Figure, Kind, Mark, Origin, Scale, Series, Table,
};
use nearflash_study::finding::{Case, Finding, Verdict};
use nearflash_study::plan::{PointId, Unable};
use nearflash_study::report::{About, Chapter, Document, Fact};
use nearflash_study::result::{Comparable, Cpu, Latency, Measurement, Outcome, PointEnd, Run};

/// A point with one run.
pub(crate) fn mark(x: f64, y: f64) -> Mark {
    Mark { x, y, spread: None, is_doubtful: false }
}

/// A point with several runs.
pub(crate) fn spread(x: f64, y: f64, part: f64) -> Mark {
    Mark { spread: Some([y * (1.0 - part), y * (1.0 + part)]), ..mark(x, y) }
}

/// An axis.
pub(crate) fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

fn names(names: &[&str]) -> Scale {
    Scale::Names(names.iter().map(|name| (*name).to_owned()).collect())
}

/// A series.
pub(crate) fn series(label: &str, origin: Origin, points: Vec<Mark>) -> Series {
    Series { label: label.to_owned(), origin, points }
}

/// Lines over two logarithmic axes, with published numbers and a limit.
pub(crate) fn bandwidth() -> Figure {
    let sizes = || (9..=18).map(|power| 2f64.powi(power));
    let curve = |rate: f64, latency: f64, part: f64| {
        sizes().map(|size| spread(size, size / (latency + size / rate), part)).collect::<Vec<_>>()
    };
    let mut direct = curve(2400.0, 7.0, 0.04);
    direct[6].is_doubtful = true;
    let published = |points: &[(f64, f64)]| {
        points.iter().map(|(x, y)| mark(x * 1024.0, *y)).collect::<Vec<_>>()
    };
    Figure {
        kind: Kind::Lines,
        x: axis("Request size", "B", Scale::Log2),
        y: axis("Throughput", "MB/s", Scale::Log10),
        shade: None,
        series: vec![
            series("iSCSI", Origin::Measured, curve(1500.0, 21.0, 0.12)),
            series("NVMe/TCP", Origin::Measured, curve(1900.0, 14.0, 0.08)),
            series("direct", Origin::Measured, direct),
            series("direct, shared memory", Origin::Measured, curve(5200.0, 1.9, 0.03)),
            series("wire alone", Origin::Limit, curve(2900.0, 5.5, 0.0)),
            series(
                "iSCSI, QuickSAN fig. 5",
                Origin::Published,
                published(&[(0.5, 2.9), (2.0, 10.0), (8.0, 40.0), (32.0, 130.0), (256.0, 310.0)]),
            ),
            series(
                "QuickSAN, figure 5",
                Origin::Published,
                published(&[
                    (0.5, 58.0),
                    (2.0, 190.0),
                    (8.0, 510.0),
                    (32.0, 900.0),
                    (256.0, 1100.0),
                ]),
            ),
        ],
    }
}

/// Lines with few points on a linear y axis.
pub(crate) fn tenants() -> Figure {
    let values = |values: &[f64]| {
        (1..).zip(values).map(|(x, y)| spread(f64::from(x), *y, 0.06)).collect::<Vec<_>>()
    };
    Figure {
        kind: Kind::Lines,
        x: axis("Clients", "", Scale::Log2),
        y: axis("Rate", "IOPS", Scale::Linear),
        shade: None,
        series: vec![
            series("local", Origin::Measured, values(&[91_000.0, 182_000.0, 260_000.0, 330_000.0])),
            series(
                "over NVMe/TCP",
                Origin::Measured,
                values(&[42_000.0, 80_000.0, 117_000.0, 150_000.0]),
            ),
        ],
    }
}

/// Grouped bars, with published ones next to them.
pub(crate) fn latency() -> Figure {
    let bars = |values: &[f64]| {
        (0..).zip(values).map(|(x, y)| spread(f64::from(x), *y, 0.05)).collect::<Vec<_>>()
    };
    let mut measured = bars(&[31.4, 19.8, 13.2, 3.1]);
    measured[1].is_doubtful = true;
    Figure {
        kind: Kind::Bars,
        x: axis("", "", names(&["iSCSI", "NVMe/TCP", "direct", "direct, shared memory"])),
        y: axis("Latency of a 4 KiB read", "µs", Scale::Linear),
        shade: None,
        series: vec![
            series("measured", Origin::Measured, measured),
            series("device + wire", Origin::Limit, bars(&[9.9, 9.9, 9.9, 1.2])),
            series("NVMe over fabrics, table 1", Origin::Published, bars(&[61.0, 27.5])),
        ],
    }
}

/// Stacked shares.
pub(crate) fn processor() -> Figure {
    let row = |values: [f64; 5]| {
        (0..).zip(values).map(|(x, y)| mark(f64::from(x), y)).collect::<Vec<_>>()
    };
    Figure {
        kind: Kind::StackedBars,
        x: axis("Request size", "", names(&["4 KiB", "8 KiB", "16 KiB", "64 KiB", "128 KiB"])),
        y: axis("Processor time of an operation", "µs", Scale::Linear),
        shade: None,
        series: vec![
            series("client, user", Origin::Measured, row([1.1, 1.1, 1.2, 1.3, 1.4])),
            series("client, kernel", Origin::Measured, row([5.0, 5.6, 6.8, 14.0, 25.0])),
            series("node, user", Origin::Measured, row([0.9, 0.9, 1.0, 1.1, 1.2])),
            series("node, kernel", Origin::Measured, row([4.2, 4.4, 5.9, 12.0, 22.0])),
            series("all, of the paper", Origin::Published, row([18.0, 19.0, 25.0, 44.0, 70.0])),
        ],
    }
}

/// A heat map with values of both signs.
pub(crate) fn surface() -> Figure {
    let row = |demand: f64| {
        let saving = move |capacity: f64| {
            let together = demand.max(capacity);
            100.0 * (1.0 - (demand + capacity) * 0.62 / together)
        };
        (1..=10).map(|x| mark(f64::from(x), saving(f64::from(x)))).collect::<Vec<_>>()
    };
    Figure {
        kind: Kind::Heat,
        x: axis("Need of capacity, against a server's own", "", Scale::Linear),
        y: axis("Need of operations", "", Scale::Linear),
        shade: Some(axis("Saved", "%", Scale::Linear)),
        series: (1..=10)
            .map(|y| series(&format!("{y}×"), Origin::Model, row(f64::from(y))))
            .collect(),
    }
}

fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table { columns: columns.iter().map(|column| (*column).to_owned()).collect(), rows }
}

fn exhibit(slug: &str, title: &str, figure: Figure) -> Exhibit {
    let rows = figure
        .series
        .iter()
        .flat_map(|series| {
            series.points.iter().map(|mark| {
                vec![
                    Cell::Text(series.label.clone()),
                    Cell::Number(mark.x),
                    Cell::Number(mark.y),
                    mark.spread.map_or(Cell::Missing, |[low, _]| Cell::Number(low)),
                    mark.spread.map_or(Cell::Missing, |[_, high]| Cell::Number(high)),
                ]
            })
        })
        .collect();
    Exhibit {
        slug: slug.to_owned(),
        title: title.to_owned(),
        source: "QuickSAN, figure 5".to_owned(),
        figure: Some(figure),
        table: table(&["series", "x", "median", "a quarter below", "a quarter above"], rows),
        findings: vec![finding(slug, "Shared memory carries more than iSCSI", &[12.1, 0.9, 1.5])],
        notes: vec![
            "The paper's hardware had 1.1 GB/s network links; ours is the loopback of one machine."
                .to_owned(),
        ],
    }
}

/// A claim that is judged by these factors.
fn finding(figure: &str, claim: &'static str, factors: &[f64]) -> Finding {
    let case = |&value: &f64| Case { name: "4 KiB".to_owned(), value, holds: value > 1.0 };
    let cases: Vec<Case> = factors.iter().map(case).collect();
    let verdict = match cases.iter().filter(|case| case.holds).count() {
        _ if cases.is_empty() => Verdict::Unknown { reason: "not measured" },
        0 => Verdict::DoesNot,
        held if held == cases.len() => Verdict::Holds,
        _ => Verdict::HoldsPartly,
    };
    Finding {
        claim,
        source: "QuickSAN, figure 5".to_owned(),
        paper: "72.7 times (512 B)".to_owned(),
        here: factors.first().map_or_else(String::new, |factor| format!("{factor} times & more")),
        verdict,
        is_doubtful: factors.len() > 1,
        figure: figure.to_owned(),
        unit: "times",
        limit: Some(1.0),
        cases,
    }
}

/// A run of a point.
pub(crate) fn run(iops: f64, p50: f64, comparable: Comparable) -> Run {
    Run {
        ops: 10_000,
        seconds: 1.0,
        warm_up_seconds: 0.3,
        iops,
        bytes_per_second: iops * 4096.0,
        latency: Latency {
            mean: p50 + 1.0,
            p50,
            p95: p50 * 1.5,
            p99: p50 * 2.0,
            p999: p50 * 4.0,
            max: p50 * 30.0,
        },
        cpu: Cpu { client_user: 1.0, client_system: 4.0, node_user: 1.0, node_system: 3.5 },
        joules: None,
        core_to_core: [92.0, 94.0],
        core_share: 0.99,
        comparable,
    }
}

/// A measured point with one load, run by run.
pub(crate) fn measured(id: &str, runs: Vec<Run>) -> PointEnd {
    measured_loads(id, vec![runs])
}

/// A measured point with several loads.
pub(crate) fn measured_loads(id: &str, tenants: Vec<Vec<Run>>) -> PointEnd {
    let command = Some("nearflash bench --rw randread --bs 4k tcp://127.0.0.1:4420".to_owned());
    let outcome = Outcome::Measured(Measurement { tenants, command });
    PointEnd { id: PointId(id.to_owned()), outcome }
}

/// A point that failed.
pub(crate) fn failed(id: &str, why: &str) -> PointEnd {
    PointEnd { id: PointId(id.to_owned()), outcome: Outcome::Failed(why.to_owned()) }
}

fn about() -> About {
    About {
        version: "0.1.0".to_owned(),
        started_at: "2026-03-01 14:05 UTC".to_owned(),
        seconds: 1834.0,
        command: "nearflash study run all --out results".to_owned(),
        is_quick: true,
        machine: vec![
            Fact::new("Processor", "Example 9000, 2 cores, 2.9 GHz"),
            Fact::new("Memory", "8 GiB"),
            Fact::new("Kernel", "Linux 6.1.0 <x86_64> & friends"),
        ],
        versions: vec![Fact::new("nearflash", "0.1.0"), Fact::new("fio", "3.33")],
        settings: vec![Fact::new("Repeats", "2"), Fact::new("Counted", "0.1 s after 0.05 s")],
    }
}

fn broken_chapter() -> Chapter {
    Chapter {
        study: "iscsi-tuning".to_owned(),
        question: "What do connections, digests and offloads change?".to_owned(),
        source: "Disaggregation, section 4".to_owned(),
        exhibits: vec![Exhibit {
            slug: "iscsi-tuning-digests".to_owned(),
            title: "A title with <script>alert('x')</script> & \"quotes\"".to_owned(),
            findings: vec![
                finding("iscsi-tuning-digests", "Nothing <b>bold</b> was found", &[]),
                finding("iscsi-tuning-digests", "Digests | cost *nothing*", &[2.0]),
            ],
            table: table(
                &["digest", "IOPS"],
                vec![
                    vec![Cell::Text("header, \"data\"".to_owned()), Cell::Number(f64::NAN)],
                    vec![Cell::Text("none".to_owned()), Cell::Missing],
                ],
            ),
            ..Exhibit::default()
        }],
        unable: vec![Unable {
            what: "segmentation offload".to_owned(),
            why: "the loopback interface has none".to_owned(),
            needs: "--target with a volume on another machine".to_owned(),
        }],
        points: vec![failed("iscsi-tuning/digest/both", "the target closed the connection")],
        pending: vec![PointId("iscsi-tuning/connections/4".to_owned())],
        home: None,
    }
}

/// The whole run.
pub(crate) fn document() -> Document {
    let sound = |iops, p50| run(iops, p50, Comparable::Sound);
    let chapter = |study: &str, question: &str, exhibits| Chapter {
        study: study.to_owned(),
        question: question.to_owned(),
        source: "QuickSAN, tables 1 and 2, figure 5".to_owned(),
        exhibits,
        points: vec![
            measured(
                &format!("{study}/iscsi/read/4KiB"),
                vec![sound(31e3, 31.0), sound(32e3, 30.0)],
            ),
            measured(
                &format!("{study}/direct/read/4KiB"),
                vec![run(70e3, 13.0, Comparable::Moved), run(65e3, 14.0, Comparable::Disturbed)],
            ),
        ],
        ..Chapter::default()
    };
    Document {
        about: about(),
        chapters: vec![
            chapter(
                "quicksan-bandwidth",
                "How much does each protocol carry, by request size?",
                vec![exhibit("quicksan-bandwidth-read", "Throughput of random reads", bandwidth())],
            ),
            chapter(
                "tenants",
                "What do tenants of one device cost each other?",
                vec![exhibit("tenants-rate", "Rate by clients", tenants())],
            ),
            chapter(
                "latency-sum",
                "Is remote latency the sum of device and wire?",
                vec![exhibit("latency-sum-read", "Latency beside its floor", latency())],
            ),
            chapter(
                "request-size-cpu",
                "Where does the processor's time go?",
                vec![exhibit("request-size-cpu", "Processor time by part", processor())],
            ),
            chapter(
                "cost",
                "Where does disaggregation pay?",
                vec![exhibit("cost-surface", "Saving against a server's own flash", surface())],
            ),
            broken_chapter(),
        ],
    }
}
