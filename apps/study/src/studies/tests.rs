//! Rules that every study follows.

use std::collections::{BTreeMap, HashSet};

use super::{Setting, Study, catalogue};
use crate::exhibit::{Exhibit, Mark, Origin, Scale};
use crate::plan::{Peer, Plan, PointId, Subject};
use crate::result::{Comparable, Cpu, Latency, Measurement, Outcome, Results, Run};

/// Start, end and change of subject per point, in seconds.
const POINT_OVERHEAD_SECONDS: f64 = 0.3;
/// Two runs of 200 ms with a warm-up of 50 ms, in seconds.
const QUICK_SECONDS: f64 = 2.0 * 0.25;
/// Maximum duration of all studies with `--quick`, in seconds.
const QUICK_SECONDS_MAX: f64 = 300.0;

/// Maximum length of a sentence.
const SENTENCE_LEN_MAX: usize = 320;

fn setting(is_quick: bool) -> Setting {
    Setting { is_quick, core_count: 2, core_watts: 10.0, ..Setting::default() }
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
            let outcome = Outcome::Measured(Measurement { tenants, command: None });
            (point.id.clone(), outcome)
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
    for sentence in exhibit.conclusions.iter().chain(&exhibit.notes) {
        assert!(sentence.ends_with('.') && !sentence.contains("NaN"), "{slug}: {sentence}");
        assert!(!sentence.contains("inf ") && !sentence.contains("  "), "{slug}: {sentence}");
    }
    assert!(exhibit.conclusions.len() <= 3, "{slug}: {:?}", exhibit.conclusions);
    for sentence in &exhibit.conclusions {
        assert!(sentence.chars().count() <= SENTENCE_LEN_MAX, "{slug}: {sentence}");
        let sure = sentence.replacen(" (doubtful)", "", 2);
        assert!(!sure.contains("doubtful"), "{slug}: {sentence}");
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
            let last = super::sweep::index_x(names.len());
            assert!(series.points.iter().all(|mark| mark.x < last), "{slug}: {}", series.label);
        }
    }
}

fn check_exhibits(setting: &Setting, results: &Results) -> Vec<String> {
    let mut slugs = HashSet::new();
    let mut conclusions = Vec::new();
    for study in catalogue() {
        let exhibits = study.exhibits(setting, results);
        assert!(!exhibits.is_empty(), "{} shows nothing", study.name());
        for exhibit in exhibits {
            check_shape(*study, &exhibit);
            assert!(slugs.insert(exhibit.slug.clone()), "{} stands twice", exhibit.slug);
            conclusions.extend(exhibit.conclusions);
        }
    }
    conclusions
}

#[test]
fn every_point_has_a_name_of_its_own_that_begins_with_its_study() {
    for setting in settings() {
        let mut ids = HashSet::new();
        for (study, plan) in catalogue().iter().zip(plans(&setting)) {
            for point in plan.points {
                assert!(point.id.0.starts_with(&format!("{}/", study.name())), "{:?}", point.id);
                assert!(!point.loads.is_empty(), "{:?} does nothing", point.id);
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
        "tenants",
        "iscsi-tuning",
        "cost",
        "energy",
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
    let count: usize = plans(&quick).iter().map(|plan| plan.points.len()).sum();
    let seconds = super::sweep::index_x(count) * (QUICK_SECONDS + POINT_OVERHEAD_SECONDS);
    assert!(seconds < QUICK_SECONDS_MAX, "{count} points take {seconds} s");
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
        check_exhibits(&setting, &Results::default());
    }
}

#[test]
fn everything_measured_is_shown() {
    for setting in settings() {
        let plans = plans(&setting);
        check_exhibits(&setting, &results_of(&plans, 1, |_| true));
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
fn other_numbers_make_other_sentences() {
    let setting = setting(false);
    let plans = plans(&setting);
    for study in catalogue() {
        let said = |salt| {
            let exhibits = study.exhibits(&setting, &results_of(&plans, salt, |_| true));
            exhibits.into_iter().flat_map(|exhibit| exhibit.conclusions).collect::<Vec<_>>()
        };
        let (first, second) = (said(1), said(99));
        assert!(!first.is_empty(), "{} concludes nothing", study.name());
        assert_ne!(first, second, "{}", study.name());
    }
}

/// Every operation takes 100 µs; through the node it takes `times` as long.
fn scaled(plans: &[Plan], times: f64) -> Results {
    let outcome = |point: &crate::plan::Point| {
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

/// The conclusions of an exhibit when the node takes `times` as long as everything else.
fn said_of(slug: &str, times: f64) -> String {
    said_without(slug, times, |_| false)
}

/// The same, without the points that `is_missing` selects.
fn said_without(slug: &str, times: f64, is_missing: impl Fn(&str) -> bool) -> String {
    let setting = setting(false);
    let mut outcomes = scaled(&plans(&setting), times).outcomes;
    outcomes.retain(|id, _| !is_missing(&id.0));
    exhibit_of(slug, &setting, &Results::new(outcomes)).conclusions.join(" ")
}

#[test]
fn sentences_say_what_is_better_what_is_worse_and_what_is_the_same() {
    // Rates: equal, half and double. Then the sum of device and wire, which is 200 µs, and
    // latencies.
    for (slug, words) in [
        ("iops-clients-file", ["0 % (all alike)", "-50 % (all alike)", "+100 % (all alike)"]),
        ("latency-sum-file-read", ["by -50 % (all", "by 0 % (all alike)", "by -75 % (all"]),
        ("jobs-latency", ["by 0 % (all alike)", "by +100 % (all alike)", "by -50 % (all alike)"]),
        ("iodepth-tail", ["by 0 % (all alike)", "by +100 % (all alike)", "by -50 % (all alike)"]),
        ("request-size-cpu-total", ["by 0 % (all", "by +100 % (all", "by -50 % (all"]),
        ("block-size-fio-iops", ["0 % against", "-50 % against", "+100 % against"]),
        ("quicksan-latency-share-file-read", ["wire leave -", "leave 0 µs", "wire leave -"]),
        ("tenants-nvme-tcp-file", ["0 % against one", "-50 % against one", "+100 % against one"]),
    ] {
        for (times, words) in [1.0, 2.0, 0.5].into_iter().zip(words) {
            let said = said_of(slug, times);
            assert!(said.contains(words), "{slug}, {times} times: {said}");
        }
    }
}

#[test]
fn claims_of_papers_hold_or_do_not_by_the_numbers() {
    let said = said_of("iops-clients-file", 2.0);
    assert!(
        said.contains("at most, as in the paper") && said.contains("none of 4 doors"),
        "{said}"
    );
    assert!(said_of("iops-clients-file", 1.0).contains("holds for all 4 doors"));
    assert!(said_of("latency-sum-file-read", 2.0).contains("holds for all"));
    assert!(said_of("latency-sum-file-read", 3.0).contains("holds for none"));
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
fn nothing_is_said_of_how_a_curve_grows_that_lacks_an_end() {
    let claim = |is_missing: &dyn Fn(&str) -> bool| said_without("jobs-latency", 1.0, is_missing);
    assert!(claim(&|_| false).contains("grows with jobs holds for none of 3 curves"));
    let said = claim(&|id| id == "jobs/nvme-tcp-file/jobs=16");
    assert!(said.contains("grows with jobs holds for none of 2 curves"), "{said}");
    let said = said_without("jobs-bandwidth", 1.0, |id| id == "jobs/nvme-tcp-file/jobs=2");
    assert!(said.contains("enough, as in the paper, holds for all 2 curves"), "{said}");
    let said = said_without("jobs-cpu", 1.0, |id| id == "jobs/direct-file/jobs=16");
    assert!(said.contains("With 16 jobs the target keeps") && !said.contains("2 ways"), "{said}");
}

#[test]
fn of_a_single_place_it_is_not_said_what_lies_at_its_ends() {
    let said = said_without("iodepth-tail", 2.0, |id| !id.ends_with("/depth=1"));
    assert_eq!(said.matches("With 1 in flight").count(), 1, "{said}");
    assert!(!said.contains("small depths"), "{said}");
    let said = said_without("jobs-tail", 2.0, |id| !id.ends_with("/jobs=4"));
    assert_eq!(said.matches("With 4 jobs").count(), 1, "{said}");
}

#[test]
fn a_network_that_takes_nothing_is_no_overhead() {
    let said = said_of("cost-overhead", 0.5);
    assert!(
        said.contains("20.0 kIOPS, +100 % against the device alone (10.0 kIOPS): no over"),
        "{said}"
    );
    let said = said_of("cost-overhead", 2.0);
    assert!(
        said.contains("-50 % against the device alone (10.0 kIOPS): an overhead of 50 %"),
        "{said}"
    );
}

#[test]
fn what_is_more_than_twice_as_much_is_said_in_times() {
    for (slug, words) in [
        ("iops-clients-file", "5 times the device alone"),
        ("jobs-bandwidth", "by 5 times as much (all alike)"),
        ("tenants-nvme-tcp-file", "5 times one on the device alone"),
    ] {
        let said = said_of(slug, 0.2);
        assert!(said.contains(words), "{slug}: {said}");
    }
    let said = said_of("iodepth-tail", 4.0);
    assert!(said.contains("by 4 times as much (all alike)"), "{said}");
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
        let origins: Vec<_> = exhibit.figure.unwrap().series.iter().map(|it| it.origin).collect();
        (origins, exhibit.conclusions[0].split(' ').take(2).collect::<Vec<_>>().join(" "))
    };
    let all = |origin, said: &str| (vec![origin; 4], said.to_owned());
    assert_eq!(origins(&|_| true), all(Origin::Measured, "As counted"));
    assert_eq!(origins(&|_| false), all(Origin::Model, "By the"));
    assert_eq!(origins(&|id| id.contains("/iscsi-")), all(Origin::Model, "By the"));
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
