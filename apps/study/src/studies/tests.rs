//! Rules that every study follows.

use std::collections::{BTreeMap, HashSet};

use super::{Setting, Study, catalogue};
use crate::exhibit::{Cell, Exhibit, Mark, Origin, Scale};
use crate::finding::{Finding, Verdict};
use crate::plan::{Peer, Plan, Point, PointId, Subject};
use crate::result::{Comparable, Cpu, Latency, Measurement, Outcome, Results, Run};
use crate::simulation::{Model, Simulation};

/// Start, end and change of subject per point, in seconds.
const POINT_OVERHEAD_SECONDS: f64 = 0.3;
/// Two runs of 200 ms with a warm-up of 50 ms, in seconds.
const QUICK_SECONDS: f64 = 2.0 * 0.25;
/// Computing a model in a release build, in seconds.
const MODEL_SECONDS: f64 = 0.3;
/// Maximum duration of all studies with `--quick`, in seconds.
const QUICK_SECONDS_MAX: f64 = 300.0;

/// Maximum length of a cell of the findings.
const CELL_LEN_MAX: usize = 200;

fn setting(is_quick: bool) -> Setting {
    Setting {
        is_quick,
        core_count: 2,
        core_watts: 10.0,
        has_etcd: true,
        has_fuse: true,
        ..Setting::default()
    }
}

/// A setting with peers, targets and more cores.
fn rich_setting() -> Setting {
    Setting {
        targets: vec!["direct://[::1]:7400/data".parse().unwrap()],
        peers: vec![Peer::Fio, Peer::Tgt, Peer::Nbdkit],
        core_count: 8,
        ..setting(false)
    }
}

fn settings() -> [Setting; 3] {
    [setting(true), setting(false), rich_setting()]
}

/// A pseudo-random number that depends only on the point's name and the salt.
fn made_up(id: &PointId, salt: u64) -> f64 {
    let hash = id.0.bytes().fold(salt.wrapping_add(0xCBF2_9CE4), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    f64::from(u16::try_from(hash >> 48).unwrap()) + 1.0
}

fn made_up_run(id: &PointId, salt: u64, comparable: Comparable) -> Run {
    let micros = made_up(id, salt) / 100.0;
    Run {
        ops: 1000,
        seconds: 0.2,
        warm_up_seconds: 0.05,
        iops: 1e6 / micros,
        bytes_per_second: 4096e6 / micros,
        latency: Latency {
            mean: micros,
            p50: micros,
            p95: micros * 2.0,
            p99: micros * 3.0,
            p999: micros * 4.0,
            max: micros * 9.0,
        },
        cpu: Cpu {
            client_user: micros / 3.0,
            client_system: micros / 5.0,
            node_user: micros,
            node_system: micros / 7.0,
        },
        joules: None,
        core_to_core: [50.0, 51.0],
        core_share: 1.0,
        comparable,
    }
}

/// Numbers of a model that depend only on the point's name and the salt; `None` for other points.
fn made_up_simulation(point: &Point, salt: u64) -> Option<Simulation> {
    let Subject::Model(model) = &point.subject else { return None };
    let number = made_up(&point.id, salt);
    Some(match model {
        Model::Translation { .. } => Simulation::Translation {
            host_pages: 1_000,
            moved_pages: number.to_bits() % 9_000,
            erases: 100,
        },
        Model::Wear(_) => {
            Simulation::Wear { share_of_ideal: number / 65_536.0, places_by_wear: [1; 10] }
        }
    })
}

/// Results for the points whose index `keep` accepts, with numbers derived from `salt`.
fn results_of(plans: &[Plan], salt: u64, keep: impl Fn(usize) -> bool) -> Results {
    let points = plans.iter().flat_map(|plan| &plan.points).enumerate();
    let outcomes: BTreeMap<_, _> = points
        .filter(|(index, _)| keep(*index))
        .map(|(index, point)| {
            let comparable = if index % 5 == 0 { Comparable::Moved } else { Comparable::Sound };
            let runs = |tenant: usize| {
                let salt = salt + u64::try_from(tenant).unwrap();
                vec![made_up_run(&point.id, salt, comparable); 1 + index % 3]
            };
            let tenants = (0..point.loads.len()).map(runs).collect();
            let measured = || Outcome::Measured(Measurement { tenants, command: None });
            let simulated = made_up_simulation(point, salt).map(Outcome::Simulated);
            (point.id.clone(), simulated.unwrap_or_else(measured))
        })
        .collect();
    Results::new(outcomes)
}

/// Replaces every eleventh outcome by a failure.
fn fail_some(mut results: Results) -> Results {
    for outcome in results.outcomes.values_mut().skip(10).step_by(11) {
        *outcome = Outcome::Failed("the target went away".into());
    }
    results
}

fn plans(setting: &Setting) -> Vec<Plan> {
    catalogue().iter().map(|study| study.plan(setting)).collect()
}

/// Checks the invariants that readers and the plotter rely on.
fn check_shape(study: &dyn Study, exhibit: &Exhibit) {
    let slug = &exhibit.slug;
    assert!(slug.starts_with(study.name()), "{slug} of {}", study.name());
    assert!(!exhibit.title.is_empty() && !exhibit.source.is_empty(), "{slug}");
    for row in &exhibit.table.rows {
        assert_eq!(row.len(), exhibit.table.columns.len(), "{slug}: {row:?}");
    }
    for note in &exhibit.notes {
        assert!(note.ends_with('.') && !note.contains("NaN"), "{slug}: {note}");
        assert!(!note.contains("inf ") && !note.contains("  "), "{slug}: {note}");
    }
    let mut claims = HashSet::new();
    for finding in &exhibit.findings {
        check_finding(slug, finding);
        assert!(claims.insert(finding.claim), "{slug}: {} stands twice", finding.claim);
    }
    let Some(figure) = &exhibit.figure else { return };
    let mut labels = HashSet::new();
    for series in &figure.series {
        assert!(labels.insert(&series.label), "{slug}: {} stands twice", series.label);
        let xs = series.points.iter().map(|mark| mark.x);
        assert!(xs.clone().zip(xs.skip(1)).all(|(x, next)| x <= next), "{slug}: {}", series.label);
        let is_drawable = |mark: &Mark| mark.x.is_finite() && mark.y.is_finite();
        assert!(series.points.iter().all(is_drawable), "{slug}: {}", series.label);
        if let Scale::Names(names) = &figure.x.scale {
            let last = super::chart::index_x(names.len());
            assert!(series.points.iter().all(|mark| mark.x < last), "{slug}: {}", series.label);
        }
    }
}

/// Checks that the columns of a finding agree, and can be shown.
fn check_finding(slug: &str, finding: &Finding) {
    let Finding { claim, source, paper, here, verdict, cases, .. } = finding;
    assert_eq!(finding.figure, slug, "{claim}");
    assert!(
        !claim.ends_with('.') && !claim.contains("  ") && !source.is_empty(),
        "{slug}: {claim}"
    );
    for cell in [claim, source.as_str(), paper, here] {
        assert!(!cell.contains("NaN") && !cell.contains("inf "), "{slug}: {claim}: {cell}");
        assert!(cell.chars().count() <= CELL_LEN_MAX, "{slug}: {claim}: {cell}");
    }
    assert!(cases.iter().all(|case| case.value.is_finite() && !case.name.is_empty()), "{cases:?}");
    let held = cases.iter().filter(|case| case.holds).count();
    let agrees = match verdict {
        Verdict::Holds => held == cases.len() && held > 0,
        Verdict::HoldsPartly => held > 0 && held < cases.len(),
        Verdict::DoesNot => held == 0 && !cases.is_empty(),
        Verdict::Unknown { reason } => cases.is_empty() && !reason.is_empty(),
    };
    assert!(agrees && here.is_empty() == cases.is_empty(), "{slug}: {finding:?}");
}

fn check_exhibits(setting: &Setting, results: &Results) -> Vec<Finding> {
    let mut slugs = HashSet::new();
    let mut findings = Vec::new();
    for study in catalogue() {
        let exhibits = study.exhibits(setting, results);
        assert!(!exhibits.is_empty(), "{} shows nothing", study.name());
        for exhibit in exhibits {
            check_shape(*study, &exhibit);
            assert!(slugs.insert(exhibit.slug.clone()), "{} stands twice", exhibit.slug);
            findings.extend(exhibit.findings);
        }
    }
    findings
}

#[test]
fn every_point_has_a_name_of_its_own_that_begins_with_its_study() {
    for setting in settings() {
        let mut ids = HashSet::new();
        for (study, plan) in catalogue().iter().zip(plans(&setting)) {
            for point in plan.points {
                assert!(point.id.0.starts_with(&format!("{}/", study.name())), "{:?}", point.id);
                let is_model = matches!(point.subject, Subject::Model(_));
                assert_eq!(point.loads.is_empty(), is_model, "{:?} does nothing", point.id);
                assert!(ids.insert(point.id.clone()), "{:?} stands twice", point.id);
            }
        }
    }
}

#[test]
fn the_studies_are_those_that_are_promised() {
    let names: Vec<_> = catalogue().iter().map(|study| study.name()).collect();
    let promised = [
        "latency-sum",
        "iops-clients",
        "bandwidth-clients",
        "io-efficiency",
        "block-size",
        "jobs",
        "iodepth",
        "request-size-cpu",
        "quicksan-latency",
        "quicksan-bandwidth",
        "file-access",
        "tenants",
        "iscsi-tuning",
        "cost",
        "energy",
        "flash-lifetime",
        "wear-levelling",
    ];
    assert_eq!(names, promised);
    for study in catalogue() {
        assert!(study.question().ends_with('?') && !study.source().is_empty(), "{}", study.name());
    }
}

#[test]
fn a_quick_run_measures_no_point_that_a_full_run_does_not() {
    let full: HashSet<_> =
        plans(&setting(false)).into_iter().flat_map(|plan| plan.points).map(|it| it.id).collect();
    let quick: Vec<_> =
        plans(&setting(true)).into_iter().flat_map(|plan| plan.points).map(|it| it.id).collect();
    assert!(quick.len() < full.len());
    for id in quick {
        assert!(full.contains(&id), "{id:?} is of the quick run alone");
    }
}

#[test]
fn all_quick_studies_with_all_peers_end_within_five_minutes() {
    let quick = Setting { peers: rich_setting().peers, ..setting(true) };
    let points: Vec<Point> = plans(&quick).into_iter().flat_map(|plan| plan.points).collect();
    let seconds_of = |point: &Point| match point.subject {
        Subject::Model(_) => MODEL_SECONDS,
        _ => QUICK_SECONDS + POINT_OVERHEAD_SECONDS,
    };
    let seconds: f64 = points.iter().map(seconds_of).sum();
    assert!(seconds < QUICK_SECONDS_MAX, "{} points take {seconds} s", points.len());
}

#[test]
fn a_point_asks_for_no_more_memory_than_a_machine_has() {
    for setting in settings() {
        for point in plans(&setting).into_iter().flat_map(|plan| plan.points) {
            let in_flight: u64 = point
                .loads
                .iter()
                .map(|load| load.op_len.0 * u64::from(load.depth) * u64::from(load.clients))
                .sum();
            assert!(in_flight <= 256 << 20, "{:?}: {in_flight} bytes in flight", point.id);
        }
    }
}

#[test]
fn a_medium_alone_is_one_that_the_machine_has() {
    for plan in plans(&rich_setting()) {
        for point in plan.points {
            let is_there = match point.subject {
                Subject::Local(medium) => [super::ways::NULL, super::ways::FILE].contains(&medium),
                _ => true,
            };
            assert!(is_there, "{:?}", point.id);
        }
    }
}

#[test]
fn nothing_measured_says_so() {
    for setting in settings() {
        let findings = check_exhibits(&setting, &Results::default());
        // The cost model needs no measurement.
        let measured = findings.iter().filter(|finding| !finding.figure.starts_with("cost-"));
        for finding in measured {
            assert!(matches!(finding.verdict, Verdict::Unknown { .. }), "{finding:?}");
        }
    }
}

#[test]
fn everything_measured_is_shown() {
    for setting in settings() {
        let plans = plans(&setting);
        let findings = check_exhibits(&setting, &results_of(&plans, 1, |_| true));
        let known = |finding: &&Finding| !finding.cases.is_empty();
        assert!(findings.iter().filter(known).count() * 10 >= findings.len() * 9, "{findings:?}");
        // A fifth of the points is doubtful.
        assert!(findings.iter().any(|finding| finding.is_doubtful));
        let sound =
            findings.iter().any(|finding| !finding.is_doubtful && !finding.cases.is_empty());
        assert!(sound);
    }
}

#[test]
fn any_part_of_the_points_makes_exhibits() {
    for setting in settings() {
        let plans = plans(&setting);
        for part in 0..7 {
            check_exhibits(&setting, &results_of(&plans, 1, |index| index % 7 == part));
            let most = results_of(&plans, 1, |index| index % 7 != part);
            check_exhibits(&setting, &fail_some(most));
        }
    }
}

#[test]
fn other_numbers_make_other_findings() {
    let setting = setting(false);
    let plans = plans(&setting);
    for study in catalogue() {
        let said = |salt| {
            let exhibits = study.exhibits(&setting, &results_of(&plans, salt, |_| true));
            exhibits.into_iter().flat_map(|exhibit| exhibit.findings).collect::<Vec<_>>()
        };
        let (first, second) = (said(1), said(99));
        assert!(!first.is_empty(), "{} finds nothing", study.name());
        assert_ne!(first, second, "{}", study.name());
    }
}

/// Every operation takes 100 µs; through the node it takes `times` as long.
fn scaled(plans: &[Plan], times: f64) -> Results {
    let outcome = |point: &Point| {
        if let Some(simulation) = made_up_simulation(point, 1) {
            return (point.id.clone(), Outcome::Simulated(simulation));
        }
        let is_node = matches!(point.subject, Subject::Node { .. });
        let micros = if is_node { 100.0 * times } else { 100.0 };
        let mut run = made_up_run(&point.id, 1, Comparable::Sound);
        run.iops = 1e6 / micros;
        run.bytes_per_second = 4096.0 * run.iops;
        run.latency = Latency {
            mean: micros,
            p50: micros,
            p95: micros,
            p99: micros,
            p999: micros,
            max: micros,
        };
        run.cpu.client_user = micros;
        run.cpu.client_system = 0.0;
        let tenants = vec![vec![run]; point.loads.len()];
        (point.id.clone(), Outcome::Measured(Measurement { tenants, command: None }))
    };
    Results::new(plans.iter().flat_map(|plan| &plan.points).map(outcome).collect())
}

fn exhibit_of(slug: &str, setting: &Setting, results: &Results) -> Exhibit {
    let all = catalogue().iter().flat_map(|study| study.exhibits(setting, results));
    let mut exhibits = all.filter(|exhibit| exhibit.slug == slug);
    exhibits.next().unwrap_or_else(|| panic!("no {slug}"))
}

/// The finding of an exhibit whose claim begins so, when the node takes `times` as long as
/// everything else.
fn finding_of(slug: &str, claim: &str, times: f64) -> Finding {
    finding_without(slug, claim, times, |_| false)
}

/// The same, without the points that `is_missing` selects.
fn finding_without(
    slug: &str,
    claim: &str,
    times: f64,
    is_missing: impl Fn(&str) -> bool,
) -> Finding {
    let setting = setting(false);
    let mut outcomes = scaled(&plans(&setting), times).outcomes;
    outcomes.retain(|id, _| !is_missing(&id.0));
    let findings = exhibit_of(slug, &setting, &Results::new(outcomes)).findings;
    let mut found = findings.into_iter().filter(|finding| finding.claim.starts_with(claim));
    let finding = found.next().unwrap_or_else(|| panic!("{slug} has no claim '{claim}'"));
    assert!(found.next().is_none(), "{slug} has several claims '{claim}'");
    finding
}

const SLOWER: Verdict =
    Verdict::Unknown { reason: "medium and wire alone took longer than the whole" };

/// A claim of an exhibit, and what is found if the node takes as long as everything else, twice as
/// long, and half as long.
type Found = (&'static str, &'static str, [(&'static str, Verdict); 3]);

fn check_found(all: &[Found]) {
    for (slug, claim, found) in all {
        for (times, (here, verdict)) in [1.0, 2.0, 0.5].into_iter().zip(found) {
            let finding = finding_of(slug, claim, times);
            assert!(finding.here.ends_with(here), "{slug}, {times} times: {finding:?}");
            assert_eq!(finding.verdict, *verdict, "{slug}, {times} times: {finding:?}");
        }
    }
}

#[test]
fn findings_of_rates_show_what_is_higher_what_is_lower_and_what_is_the_same() {
    use Verdict::{DoesNot, Holds, HoldsPartly};
    check_found(&[
        (
            "iops-clients-file",
            "The network costs",
            [("0 % (all 4)", Holds), ("−50 % (all 4)", DoesNot), ("+100 % (all 4)", Holds)],
        ),
        (
            "block-size-fio-iops",
            "Reads of 4 KiB",
            [
                ("10 kIOPS (all 2)", DoesNot),
                ("5 kIOPS (all 2)", DoesNot),
                ("20 kIOPS (all 2)", DoesNot),
            ],
        ),
        (
            "block-size-fio-throughput",
            "With large blocks, the throughput",
            [("1 MiB: 0 % (all 2)", Holds), ("−50 % (all 2)", DoesNot), ("+100 % (all 2)", Holds)],
        ),
        (
            "tenants-nvme-tcp-file",
            "All tenants together",
            [
                ("0 % (1 tenant) to 3 times (3 tenants)", Holds),
                ("−50 % (1 tenant) to +50 % (3 tenants)", HoldsPartly),
                ("+100 % (1 tenant) to 6 times (3 tenants)", Holds),
            ],
        ),
    ]);
}

#[test]
fn findings_of_times_show_what_is_longer_what_is_shorter_and_what_is_the_same() {
    use Verdict::{DoesNot, Holds, HoldsPartly};
    // The sum of device and wire is 200 µs.
    check_found(&[
        (
            "latency-sum-file-read",
            "Remote latency exceeds",
            [("−50 % (all 12)", Holds), ("0 % (all 12)", Holds), ("−75 % (all 12)", Holds)],
        ),
        (
            "jobs-latency",
            "With many jobs",
            [
                ("16 jobs: 0 % (all 2)", Holds),
                ("+100 % (all 2)", DoesNot),
                ("−50 % (all 2)", Holds),
            ],
        ),
        (
            "iodepth-tail",
            "At small depths",
            [("0 % (all 2)", DoesNot), ("+100 % (all 2)", Holds), ("−50 % (all 2)", DoesNot)],
        ),
        (
            "iodepth-tail",
            "At large depths",
            [("0 % (all 2)", DoesNot), ("+100 % (all 2)", DoesNot), ("−50 % (all 2)", Holds)],
        ),
        (
            "request-size-cpu-total",
            "With small requests",
            [("4 KiB: 0 % (all 2)", Holds), ("+100 % (all 2)", DoesNot), ("−50 % (all 2)", Holds)],
        ),
        (
            "quicksan-latency-share-file-read",
            "Software and wire add",
            [("0 µs (all 4)", Holds), ("100 µs (all 4)", Holds), ("−50 µs (all 4)", Holds)],
        ),
        (
            "quicksan-latency-share-file-read",
            "Medium and wire explain",
            [
                ("0 % (direct, shared memory)", Holds),
                ("0 % (iSCSI) to 50 % (direct, shared memory)", HoldsPartly),
                ("", SLOWER),
            ],
        ),
    ]);
}

#[test]
fn claims_of_papers_hold_or_do_not_by_the_numbers() {
    let verdict = |slug, claim, times| {
        let Finding { verdict, cases, .. } = finding_of(slug, claim, times);
        (verdict, cases.len())
    };
    let lost = "The network costs";
    assert_eq!(finding_of("iops-clients-file", lost, 2.0).paper, "at least −32 %");
    assert_eq!(verdict("iops-clients-file", lost, 2.0), (Verdict::DoesNot, 4));
    assert_eq!(verdict("iops-clients-file", lost, 1.0), (Verdict::Holds, 4));
    let sum = "Remote latency exceeds";
    assert_eq!(finding_of("latency-sum-file-read", sum, 2.0).paper, "at most +8 %");
    assert_eq!(verdict("latency-sum-file-read", sum, 2.0), (Verdict::Holds, 12));
    assert_eq!(verdict("latency-sum-file-read", sum, 3.0), (Verdict::DoesNot, 12));
}

#[test]
fn what_a_peer_does_not_take_is_no_failed_point_and_is_said() {
    let setting = rich_setting();
    let all = plans(&setting);
    let is_tgt = |subject: &Subject| matches!(subject, Subject::Peer { peer: Peer::Tgt, .. });
    let points = || all.iter().flat_map(|plan| &plan.points).filter(|it| is_tgt(&it.subject));
    let longest = points().flat_map(|point| &point.loads).map(|load| load.op_len.0).max();
    assert_eq!(longest, Some(128 << 10));
    let unable = all.iter().flat_map(|plan| &plan.unable).find(|it| it.why.contains("tgt refuses"));
    assert!(unable.unwrap().what.contains("longer than 128 KiB"));
    let without = Setting { peers: vec![Peer::Nbdkit], ..setting };
    let refuses = |it: &crate::plan::Unable| it.why.contains("refuses longer");
    assert!(!plans(&without).iter().flat_map(|plan| &plan.unable).any(refuses));
}

/// A resumed run finds its measured points by name, so no name may change.
#[test]
fn names_of_points_are_for_ever() {
    let setting = Setting { peers: rich_setting().peers, ..setting(false) };
    let mut lines: Vec<String> = Vec::new();
    for point in plans(&setting).into_iter().flat_map(|plan| plan.points) {
        let parts: Vec<&str> = point.id.0.splitn(3, '/').collect();
        let [study, way, step] = parts[..] else { panic!("{:?}", point.id) };
        let head = format!("{study}/{way}:");
        match lines.last_mut() {
            Some(line) if line.starts_with(&head) => *line = format!("{line} {step}"),
            _ => lines.push(format!("{head} {step}")),
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn targets_with_other_options_are_other_points_and_those_without_are_called_as_ever() {
    let urls = [
        "nvme-tcp://a/data",
        "nvme-tcp://a/data?ns=2",
        "nvme-tcp://a/data?queues=4",
        "iscsi://a/data",
        "iscsi://a/data?sessions=2&digest=header,data",
        "direct://a/data",
        "direct://a/data?digest=data",
    ];
    let targets = urls.map(|url| url.parse().unwrap()).to_vec();
    let setting = Setting { targets, ..setting(false) };
    let plans = plans(&setting);
    let mut ids = HashSet::new();
    for point in plans.iter().flat_map(|plan| &plan.points) {
        assert!(ids.insert(point.id.0.as_str()), "{:?} stands twice", point.id);
    }
    let nqn = "nqn.2026-11.io.nearflash:data";
    for name in [
        format!("jobs/url=nvme-tcp://a:4420/{nqn}/jobs=1"),
        format!("jobs/url=nvme-tcp://a:4420/{nqn}?ns=2/jobs=1"),
        format!("jobs/url=nvme-tcp://a:4420/{nqn}?queues=4/jobs=1"),
        "jobs/url=iscsi://a:3260/iqn.2026-11.io.nearflash:data/0/jobs=1".to_owned(),
        "jobs/url=direct://a:4421/data/jobs=1".to_owned(),
        "jobs/url=direct://a:4421/data?digest=data/jobs=1".to_owned(),
    ] {
        assert!(ids.contains(name.as_str()), "{name}");
    }
    check_exhibits(&setting, &results_of(&plans, 1, |_| true));
}

#[test]
fn nothing_is_found_of_how_a_curve_grows_that_lacks_an_end() {
    let (slug, claim) = ("jobs-latency", "Mean latency grows with jobs");
    let found = finding_of(slug, claim, 1.0);
    assert_eq!((found.verdict, found.cases.len()), (Verdict::DoesNot, 3));
    let found = finding_without(slug, claim, 1.0, |id| id == "jobs/nvme-tcp-file/jobs=16");
    assert_eq!((found.verdict, found.cases.len()), (Verdict::DoesNot, 2));
    let is_missing = |id: &str| id == "jobs/nvme-tcp-file/jobs=2";
    let found = finding_without("jobs-bandwidth", "Nine tenths", 1.0, is_missing);
    assert_eq!((found.verdict, found.cases.len()), (Verdict::Holds, 2));
    let is_missing = |id: &str| id == "jobs/direct-file/jobs=16";
    let found = finding_without("jobs-cpu", "The target keeps", 1.0, is_missing);
    assert!(found.here.starts_with("16 jobs: ") && found.cases.len() == 1, "{found:?}");
}

#[test]
fn a_single_place_is_not_both_ends_of_an_axis() {
    let unknown = Verdict::Unknown { reason: "fewer than two positions of the axis were measured" };
    for (slug, ends, kept, place) in [
        ("iodepth-tail", ["At small depths", "At large depths"], "/depth=1", "1 in flight"),
        ("iodepth-latency", ["At small depths", "At large depths"], "/depth=1", "1 in flight"),
        ("jobs-tail", ["With few jobs", "With many jobs"], "/jobs=4", "4 jobs"),
    ] {
        let [small, large] =
            ends.map(|claim| finding_without(slug, claim, 2.0, |id| !id.ends_with(kept)));
        assert!(small.here.starts_with(place) && !small.cases.is_empty(), "{small:?}");
        assert_eq!((large.verdict, large.here.as_str()), (unknown, ""));
    }
}

#[test]
fn a_network_that_takes_nothing_is_no_overhead() {
    let rates = |times| {
        let setting = setting(false);
        let results = scaled(&plans(&setting), times);
        exhibit_of("cost-overhead", &setting, &results).table.rows[1][2..].to_vec()
    };
    let found = |times| {
        let Finding { here, verdict, .. } = finding_of("cost-overhead", "Remote access", times);
        (here, verdict)
    };
    assert_eq!(rates(0.5), [Cell::Number(10.0), Cell::Number(20.0)]);
    assert_eq!(found(0.5), ("0 % (NVMe/TCP)".to_owned(), Verdict::Holds));
    assert_eq!(rates(2.0), [Cell::Number(10.0), Cell::Number(5.0)]);
    assert_eq!(found(2.0), ("50 % (NVMe/TCP)".to_owned(), Verdict::DoesNot));
}

#[test]
fn what_is_more_than_twice_as_much_is_shown_in_times() {
    for (slug, claim, times, here) in [
        ("iops-clients-file", "The network", 0.2, "5 times (all 4)"),
        ("jobs-bandwidth", "With many jobs", 0.2, "5 times (all 2)"),
        ("tenants-nvme-tcp-file", "All tenants", 0.2, "5 times (1 tenant) to 15 times (3 tenants)"),
        ("iodepth-tail", "At small depths", 4.0, "4 times (all 2)"),
    ] {
        let finding = finding_of(slug, claim, times);
        assert!(finding.here.ends_with(here), "{slug}: {finding:?}");
    }
}

#[test]
fn energy_that_was_counted_does_not_stand_beside_energy_that_was_calculated() {
    let setting = setting(false);
    let origins = |is_counted: &dyn Fn(&str) -> bool| {
        let mut outcomes = scaled(&plans(&setting), 1.0).outcomes;
        for (id, outcome) in &mut outcomes {
            let Outcome::Measured(measurement) = outcome else { continue };
            for run in measurement.tenants.iter_mut().flatten().filter(|_| is_counted(&id.0)) {
                run.joules = Some(1.0);
            }
        }
        let exhibit = exhibit_of("energy-operation", &setting, &Results::new(outcomes));
        let figure = exhibit.figure.as_ref().unwrap();
        let origins: Vec<_> = figure.series.iter().map(|it| it.origin).collect();
        let is_noted = |words: &str| exhibit.notes.iter().any(|note| note.starts_with(words));
        (origins, is_noted("The machine's processors"), is_noted("This is a model"))
    };
    assert_eq!(origins(&|_| true), (vec![Origin::Measured; 4], true, false));
    assert_eq!(origins(&|_| false), (vec![Origin::Model; 4], false, true));
    assert_eq!(origins(&|id| id.contains("/iscsi-")), (vec![Origin::Model; 4], false, true));
}

#[test]
fn on_a_machine_of_several_cores_it_is_said_who_has_them() {
    let is_said = |core_count| {
        let setting = Setting { core_count, ..setting(false) };
        let is_noted = |(slug, words): (&str, &str)| {
            let notes = exhibit_of(slug, &setting, &Results::default()).notes;
            notes.iter().any(|note| note.contains(words))
        };
        [
            ("io-efficiency-cores", "clients have fewer"),
            ("iscsi-tuning-iops", "clients have fewer"),
            ("iops-clients-null", "one thread on one core"),
            ("quicksan-bandwidth-centralized-reads", "one thread on one core"),
        ]
        .map(is_noted)
    };
    assert_eq!((is_said(2), is_said(8)), ([false; 4], [true; 4]));
}

/// Results in which two streams and a cost-benefit collector lengthen life by this factor.
fn with_gain(plans: &[Plan], gain: u64) -> Results {
    let tenths = |point: &Point| if point.id.0.contains("/greedy-1/") { gain } else { 10 };
    let outcome = |point: &Point| match &point.subject {
        Subject::Model(Model::Translation { .. }) => {
            let (host_pages, erases) = (10, 2 * tenths(point));
            let moved_pages = 2 * tenths(point) - host_pages;
            let simulation = Simulation::Translation { host_pages, moved_pages, erases };
            Some((point.id.clone(), Outcome::Simulated(simulation)))
        }
        _ => None,
    };
    Results::new(plans.iter().flat_map(|plan| &plan.points).filter_map(outcome).collect())
}

#[test]
fn a_gain_in_life_is_held_against_the_range_of_the_paper() {
    use Verdict::{DoesNot, Holds};
    let setting = setting(false);
    let plans = plans(&setting);
    for (tenths, in_range, doubles, here) in [
        (15, DoesNot, DoesNot, "1.50 times"),
        (16, Holds, DoesNot, "1.60 times"),
        (22, Holds, Holds, "2.20 times"),
        (59, Holds, Holds, "5.90 times"),
        (60, DoesNot, Holds, "6 times"),
    ] {
        let results = with_gain(&plans, tenths);
        let findings = exhibit_of("flash-lifetime-gain", &setting, &results).findings;
        let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [in_range, doubles], "{findings:?}");
        assert!(findings[0].here.starts_with(here), "{findings:?}");
        let always = exhibit_of("flash-lifetime-writes", &setting, &results).findings;
        assert_eq!((always[0].verdict, always[0].cases.len()), (Holds, 4), "{always:?}");
    }
}
