use std::sync::atomic::AtomicBool;

use nearflash_bench::floor::Headers;
use nearflash_bench::workload::Pattern;
use nearflash_units::{ByteLen, Nanos};

use super::*;
use crate::args::ReportArgs;
use crate::exhibit::Exhibit;
use crate::finding::{Case, Finding, Verdict};
use crate::plan::{Layout, Load, PointId};
use crate::result::Results;

/// Points that need no node: the wire, the null engine, and the user's targets.
struct Small;

fn load(pattern: Pattern) -> Load {
    Load {
        pattern,
        read_percent: 50,
        op_len: ByteLen(4096),
        depth: 2,
        clients: 3,
        layout: Layout::RangePerClient,
        rate_iops: None,
    }
}

impl Study for Small {
    fn name(&self) -> &'static str {
        "small"
    }

    fn question(&self) -> &'static str {
        "Is there anything?"
    }

    fn source(&self) -> &'static str {
        "nowhere"
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let null = Medium::Null { read_delay: Nanos(0), write_delay: Nanos(0) };
        let mut subjects = vec![("wire".to_owned(), Subject::Wire(Headers::DIRECT))];
        let targets = setting.targets.iter();
        subjects.extend(targets.map(|target| (target.to_string(), Subject::Url(target.clone()))));
        subjects.push(("null".to_owned(), Subject::Local(null)));
        let point = |(name, subject)| Point {
            id: PointId(format!("small/{name}")),
            subject,
            loads: vec![load(Pattern::RandRead)],
        };
        Plan { points: subjects.into_iter().map(point).collect(), unable: Vec::new() }
    }

    fn exhibits(&self, _: &Setting, _: &Results) -> Vec<Exhibit> {
        Vec::new()
    }
}

/// Writes to the user's targets.
struct Writing;

impl Study for Writing {
    fn name(&self) -> &'static str {
        "writing"
    }

    fn question(&self) -> &'static str {
        Small.question()
    }

    fn source(&self) -> &'static str {
        Small.source()
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let mut plan = Small.plan(setting);
        for point in &mut plan.points {
            point.loads = vec![load(Pattern::RandRw)];
        }
        plan
    }

    fn exhibits(&self, _: &Setting, _: &Results) -> Vec<Exhibit> {
        Vec::new()
    }
}

/// Reports the arguments that it was run with.
struct Asking;

impl Study for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn question(&self) -> &'static str {
        Small.question()
    }

    fn source(&self) -> &'static str {
        Small.source()
    }

    fn plan(&self, setting: &Setting) -> Plan {
        let mut plan = Small.plan(&Setting { targets: Vec::new(), ..setting.clone() });
        for point in &mut plan.points {
            point.id.0 = point.id.0.replace("small", "asking");
        }
        // A full run has more points; the report of an unfinished run must tell the two apart.
        if setting.is_quick {
            plan.points.truncate(1);
        }
        plan
    }

    fn exhibits(&self, setting: &Setting, _: &Results) -> Vec<Exhibit> {
        let Setting { peers, core_watts, costs, .. } = setting;
        let has_costs = if costs.is_some() { "own" } else { "the example's" };
        let said = format!("{peers:?}, {core_watts} W, {has_costs} prices.");
        let case = Case { name: "peers".into(), value: 1.0, holds: true };
        let finding = Finding {
            claim: "The peers are known",
            source: "nowhere".into(),
            paper: "at most 3".into(),
            here: "1 (peers)".into(),
            verdict: Verdict::Holds,
            is_doubtful: false,
            figure: "asking".into(),
            unit: "",
            limit: None,
            cases: vec![case],
        };
        let (findings, notes) = (vec![finding], vec![said]);
        vec![Exhibit { slug: "asking".into(), findings, notes, ..Exhibit::default() }]
    }
}

const ALL: [&dyn Study; 3] = [&Small, &Writing, &Asking];
/// Nothing listens on this port.
const DEAD: &str = "nvme-tcp://127.0.0.1:1/gone";

fn args(name: &str, out: &std::path::Path) -> RunArgs {
    RunArgs {
        names: vec![name.to_owned()],
        quick: true,
        out: Some(out.to_owned()),
        core_watts: CORE_WATTS,
        ..RunArgs::default()
    }
}

fn measure_now(args: &RunArgs) -> Result<Done, StudyError> {
    measure(args, &ALL, &AtomicBool::new(false))
}

fn again(dir: &std::path::Path) -> ReportArgs {
    ReportArgs { dir: dir.to_owned(), costs: None, core_watts: None, publish: None }
}

fn failed(args: &RunArgs) -> String {
    let message = match measure_now(args) {
        Ok(_) => panic!("it was measured"),
        Err(error) => error.to_string(),
    };
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn a_study_that_is_not_there_is_answered_with_those_that_are() {
    let out = tempfile::tempdir().unwrap();
    let message = failed(&args("writin", out.path()));
    assert_eq!(message, "there is no study 'writin': use all, or some of small, writing, asking");
}

#[test]
fn a_target_that_is_gone_fails_its_point_and_the_rest_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let args = RunArgs { targets: vec![DEAD.parse().unwrap()], ..args("small", out.path()) };
    let done = measure_now(&args).unwrap();
    assert_eq!((done.ended.measured, done.ended.failed), (2, 1));
    assert!(done.has_failed && !done.ended.is_interrupted);
    let kept = report::read(out.path()).unwrap();
    let points = &kept.studies[0].1;
    let is_failed = |end: &crate::result::PointEnd| matches!(&end.outcome, Outcome::Failed(why) if !why.is_empty());
    let failed: Vec<_> = points.iter().filter(|end| is_failed(end)).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].id.0.contains("127.0.0.1:1"));
    // Measured points are kept; failed points are measured again.
    let again = measure_now(&args).unwrap();
    assert_eq!((again.ended.measured, again.ended.failed), (0, 1));
    assert!(again.has_failed);
}

#[test]
fn every_run_of_a_point_says_what_it_did_and_where() {
    let out = tempfile::tempdir().unwrap();
    measure_now(&args("small", out.path())).unwrap();
    let kept = report::read(out.path()).unwrap();
    for end in &kept.studies[0].1 {
        let Outcome::Measured(measurement) = &end.outcome else { panic!("{end:?}") };
        assert!(measurement.command.as_ref().unwrap().starts_with("nearflash bench "));
        let runs = &measurement.tenants[0];
        assert_eq!(runs.len(), usize::try_from(Timing::QUICK.repeats).unwrap());
        for run in runs {
            assert!(run.ops > 0 && run.iops > 0.0 && run.seconds > 0.0, "{run:?}");
            assert!(run.latency.p50 <= run.latency.p999, "{run:?}");
            assert!(run.latency.p999 <= run.latency.max * 1.001, "{run:?}");
        }
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_goes_on_later() {
    let out = tempfile::tempdir().unwrap();
    let args = args("small", out.path());
    let done = measure(&args, &ALL, &AtomicBool::new(true)).unwrap();
    assert!(done.ended.is_interrupted);
    assert_eq!(done.ended.measured, 0);
    assert!(done.to_text(Duration::ZERO).contains("--out"));
    let done = measure_now(&args).unwrap();
    assert_eq!((done.ended.measured, done.ended.is_interrupted), (2, false));
    let nothing_left = measure_now(&args).unwrap();
    assert_eq!(nothing_left.ended.measured, 0);
    let fresh = measure_now(&RunArgs { fresh: true, ..args }).unwrap();
    assert_eq!(fresh.ended.measured, 2);
}

#[test]
fn results_of_another_measure_are_refused() {
    let out = tempfile::tempdir().unwrap();
    measure_now(&args("small", out.path())).unwrap();
    let other = RunArgs { quick: false, ..args("small", out.path()) };
    assert!(failed(&other).contains("--fresh"));
}

#[test]
fn how_often_and_how_long_is_the_users_to_say() {
    let out = tempfile::tempdir().unwrap();
    let args = RunArgs {
        repeats: Some(3),
        runtime: Some(Nanos::from_millis(20)),
        ..args("small", out.path())
    };
    assert_eq!(timing(&args), Timing { repeats: 3, warm_up_ms: 50, counted_ms: 20 });
    measure_now(&args).unwrap();
    let page = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(page.contains("--repeats 3 --runtime 20ms"), "{page}");
    let longer = RunArgs { quick: false, runtime: Some(Nanos::from_secs(5)), ..args };
    assert_eq!(timing(&longer), Timing { repeats: 3, warm_up_ms: 1500, counted_ms: 5000 });
}

#[test]
fn a_target_is_written_to_only_when_told_so() {
    let out = tempfile::tempdir().unwrap();
    let targets = vec![DEAD.parse().unwrap()];
    let message = failed(&RunArgs { targets: targets.clone(), ..args("writing", out.path()) });
    assert!(message.contains("127.0.0.1:1") && message.contains("--destroy"), "{message}");
    assert!(!out.path().join("points.jsonl").exists(), "nothing was begun");
    assert!(measure_now(&RunArgs { targets, ..args("small", out.path()) }).is_ok());
}

#[test]
fn a_disk_that_holds_something_is_refused_before_anything_is_begun() {
    let out = tempfile::tempdir().unwrap();
    let disk = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(disk.path(), vec![1; 1 << 20]).unwrap();
    disk.as_file().set_len(4 << 30).unwrap();
    let local = Some(disk.path().to_owned());
    let message = failed(&RunArgs { local, ..args("small", out.path()) });
    assert!(message.contains("--destroy"), "{message}");
    assert!(!out.path().join("points.jsonl").exists());
}

#[test]
fn prices_that_mean_nothing_are_refused_before_anything_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let costs = dir.path().join("cost.toml");
    std::fs::write(&costs, "[server]\ncapacity = 5\n").unwrap();
    let args = RunArgs { costs: Some(costs), ..args("small", &out) };
    let message = failed(&args);
    assert!(message.starts_with("--costs: ") && message.contains("line 2"), "{message}");
    assert!(!out.exists());
}

#[test]
fn a_report_is_written_anew_from_what_was_measured_and_nothing_is_measured() {
    let out = tempfile::tempdir().unwrap();
    let report_args = || again(out.path());
    let message = match again::write(&report_args(), &ALL) {
        Ok(_) => panic!("there is nothing"),
        Err(error) => error.to_string(),
    };
    assert!(message.contains("holds no results"), "{message}");
    let args = RunArgs { targets: vec![DEAD.parse().unwrap()], ..args("small", out.path()) };
    measure_now(&args).unwrap();
    let path = |name: &str| out.path().join(name);
    let before = ["results.json", "report.html", "report.md"].map(|name| {
        let text = std::fs::read_to_string(path(name)).unwrap();
        std::fs::remove_file(path(name)).unwrap();
        text
    });
    let points = std::fs::read(path("points.jsonl")).unwrap();
    // Without results.json, which a run in progress has not written yet.
    let (_, count) = again::write(&report_args(), &ALL).unwrap();
    assert_eq!(count, 3);
    assert!(!report::read(out.path()).unwrap().studies.is_empty());
    // With results.json, the report is unchanged.
    std::fs::write(path("results.json"), &before[0]).unwrap();
    again::write(&report_args(), &ALL).unwrap();
    for (name, before) in ["report.html", "report.md"].into_iter().zip(&before[1..]) {
        assert!(std::fs::read_to_string(path(name)).unwrap() == *before, "{name} is another");
    }
    assert_eq!(std::fs::read(path("points.jsonl")).unwrap(), points);
}

#[test]
fn a_run_that_goes_on_began_when_it_began() {
    let out = tempfile::tempdir().unwrap();
    measure_now(&args("small", out.path())).unwrap();
    let mut kept = std::fs::read_to_string(out.path().join("results.json")).unwrap();
    let began = report::read(out.path()).unwrap().about.started_at;
    kept = kept.replace(&began, "2001-02-03 04:05 UTC");
    std::fs::write(out.path().join("results.json"), kept).unwrap();
    let began = |args: &RunArgs| {
        measure_now(args).unwrap();
        report::read(out.path()).unwrap().about.started_at
    };
    assert_eq!(began(&args("small", out.path())), "2001-02-03 04:05 UTC");
    let fresh = RunArgs { fresh: true, ..args("small", out.path()) };
    assert_ne!(began(&fresh), "2001-02-03 04:05 UTC");
}

#[test]
fn a_report_anew_is_of_what_the_run_was_given_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let costs = dir.path().join("cost.toml");
    std::fs::write(&costs, include_str!("../../../../packaging/cost.toml")).unwrap();
    let args = RunArgs {
        quick: false,
        repeats: Some(1),
        runtime: Some(Nanos::from_millis(10)),
        costs: Some(costs.clone()),
        core_watts: 7.5,
        peers: vec![crate::plan::Peer::Tgt],
        ..args("asking", &out)
    };
    measure_now(&args).unwrap();
    // The state after an interruption behind the first point.
    let points = std::fs::read_to_string(out.join("points.jsonl")).unwrap();
    let two: Vec<&str> = points.split_inclusive('\n').take(2).collect();
    std::fs::write(out.join("points.jsonl"), two.concat()).unwrap();
    std::fs::remove_file(out.join("results.json")).unwrap();
    std::fs::remove_file(&costs).unwrap();
    let said = |args: &ReportArgs| {
        super::again::write(args, &ALL).unwrap();
        std::fs::remove_file(out.join("results.json")).unwrap();
        std::fs::read_to_string(out.join("report.md")).unwrap()
    };
    let text = said(&again(&out));
    assert!(text.contains(r"\[Tgt\], 7.5 W, own prices."), "{text}");
    assert!(text.contains("--repeats 1") && text.contains(", begun 20"), "{text}");
    assert!(!text.contains("This is an overview"), "{text}");
    let text = said(&ReportArgs { core_watts: Some(9.0), ..again(&out) });
    assert!(text.contains(r"\[Tgt\], 9 W, own prices."), "{text}");
    // The state of older versions, which stored no arguments.
    std::fs::remove_file(out.join("asked.json")).unwrap();
    let text = said(&again(&out));
    assert!(text.contains(r"\[\], 10 W, the example's prices."), "{text}");
    assert!(text.contains("nearflash 0.") && !text.contains("begun"), "{text}");
}

#[test]
fn a_run_has_all_of_its_command_lines_in_its_report_and_began_with_the_first() {
    let out = tempfile::tempdir().unwrap();
    measure_now(&args("small", out.path())).unwrap();
    // The state after a kill: no report.
    std::fs::remove_file(out.path().join("results.json")).unwrap();
    let asked = std::fs::read_to_string(out.path().join("asked.json")).unwrap();
    let began = asked.split('"').skip_while(|word| *word != "began_at").nth(2).unwrap();
    let asked = asked.replace(began, "2001-02-03 04:05 UTC");
    std::fs::write(out.path().join("asked.json"), asked).unwrap();
    measure_now(&args("asking", out.path())).unwrap();
    measure_now(&args("small", out.path())).unwrap();
    let about = report::read(out.path()).unwrap().about;
    let lines: Vec<&str> = about.command.lines().collect();
    let line = |name: &str| format!("nearflash study run {name} --quick");
    assert_eq!(lines, [line("small"), line("asking")]);
    assert_eq!(about.started_at, "2001-02-03 04:05 UTC");
}

#[test]
fn a_report_is_published_anywhere_but_among_results() {
    let dir = tempfile::tempdir().unwrap();
    let [out, copy] = ["out", "copy"].map(|name| dir.path().join(name));
    measure_now(&args("small", &out)).unwrap();
    let publish = |to: &std::path::Path| {
        super::again::write(&ReportArgs { publish: Some(to.to_owned()), ..again(&out) }, &ALL)
    };
    let (written, count) = publish(&copy).unwrap();
    assert_eq!((written.page, count), (copy.join("report.html"), 2));
    assert!(!copy.join("results.json").exists() && !copy.join("points.jsonl").exists());
    publish(&copy).unwrap();
    let before = std::fs::read(out.join("report.html")).unwrap();
    let message = publish(&out).unwrap_err().to_string();
    assert!(message.contains("holds results of a run: name another folder"), "{message}");
    assert_eq!(std::fs::read(out.join("report.html")).unwrap(), before);
}

#[test]
fn a_target_that_nobody_serves_or_that_stands_twice_is_refused_before_anything_is_begun() {
    let out = tempfile::tempdir().unwrap();
    for target in ["floor://", "null:1GiB", "file:/tmp/disk.img"] {
        let targets = vec![target.parse().unwrap()];
        let message = failed(&RunArgs { targets, ..args("small", out.path()) });
        assert!(message.starts_with(&format!("--target {target}: ")), "{message}");
        assert!(message.contains("--local"), "{message}");
    }
    let twice = [DEAD, "nvme-tcp://127.0.0.1:1/gone?queues=1"];
    let targets = twice.map(|target| target.parse().unwrap()).to_vec();
    let message = failed(&RunArgs { targets, ..args("small", out.path()) });
    assert!(message.contains("127.0.0.1:1") && message.contains("twice"), "{message}");
    assert!(!out.path().join("points.jsonl").exists());
}

#[test]
fn a_command_line_is_one_that_a_shell_takes() {
    let target = "nvme-tcp://a/data?ns=2&queues=4".parse().unwrap();
    let args = RunArgs {
        targets: vec![target],
        local: Some("/tmp/it's mine".into()),
        ..args("all", std::path::Path::new("out"))
    };
    let line = command_line(&args);
    assert_eq!(
        line,
        "nearflash study run all --quick --target \
         'nvme-tcp://a:4420/nqn.2026-11.io.nearflash:data?ns=2&queues=4' --local \"/tmp/it's mine\""
    );
    let said =
        std::process::Command::new("sh").arg("-c").arg(format!("printf '%s|' {line}")).output();
    let words = ["nearflash", "study", "run", "all", "--quick", "--target", &args.targets[0].url()];
    let words = format!("{}|--local|/tmp/it's mine|", words.join("|"));
    assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), words);
}

#[test]
fn the_end_of_a_run_shows_the_findings_of_the_report() {
    let out = tempfile::tempdir().unwrap();
    let text = measure_now(&args("asking", out.path())).unwrap().to_text(Duration::ZERO);
    let line = text.lines().find(|line| line.contains("The peers are known")).unwrap();
    for cell in ["asking", "at most 3", "1 (peers)", "holds"] {
        assert!(line.contains(cell), "{text}");
    }
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(report.contains("The peers are known (nowhere) | at most 3 | 1 (peers) | holds |"));
    let none = measure_now(&args("small", tempfile::tempdir().unwrap().path())).unwrap();
    assert!(!none.to_text(Duration::ZERO).contains("VERDICT"));
}
