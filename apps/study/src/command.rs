//! `nearflash study`: from the command line to the report.

mod again;
mod chapters;
mod done;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use comfy_table::{ContentArrangement, Table, presets};
use nearflash_bench::compare::find;
use nearflash_bench::placement::allowed_cores;
use nearflash_bench::subject::Target;

use crate::args::{RunArgs, StudyCommand};
use crate::asked::Asked;
use crate::compare;
use crate::energy::EnergyCounter;
use crate::error::StudyError;
use crate::local::Disk;
use crate::machine;
use crate::plan::{FileWay, Medium, Peer, Plan, Point, Subject};
use crate::program;
use crate::report::{self, About, Chapter, Document};
use crate::result::Outcome;
use crate::run::{self, Session, Stand, StandSpec};
use crate::store::{RunKey, Store};
use crate::studies::{CORE_WATTS, CostModel, Setting, Study, catalogue};
use crate::timing::Timing;

pub use done::Done;
pub use terminal::print;

use chapters::{chapters, peer_name, settings};
use terminal::{INTERRUPTED, trimmed};

/// Extra passes over points of which no run is comparable.
const EXTRA_PASSES_MAX: u32 = 3;
/// How long the machine is observed before the first measurement.
const LOOK_SPAN: Duration = Duration::from_millis(500);

/// Executes a subcommand.
///
/// # Errors
/// When nothing could be measured, or results could not be stored. The message is one line and
/// names a remedy.
pub fn run(command: &StudyCommand) -> Result<ExitCode, StudyError> {
    match command {
        StudyCommand::List => {
            print(&format!("{}\n", list(catalogue())))?;
            Ok(ExitCode::SUCCESS)
        }
        StudyCommand::Report(args) => {
            let (written, count) = again::write(args, catalogue())?;
            print(&format!("{count} points; report: {}\n", written.page.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        StudyCommand::Compare(args) => {
            let comparison = compare::directories(&args.first, &args.second)?;
            let text = match args.json {
                true => comparison.json(),
                false => compare::text(&comparison),
            };
            print(&text)?;
            if let Some(page) = &args.html {
                let write = |source| StudyError::Io { action: "write", path: page.clone(), source };
                std::fs::write(page, compare::page(&comparison)).map_err(write)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        StudyCommand::Run(args) => {
            let interrupted = Arc::new(AtomicBool::new(false));
            end_on_signals(&interrupted);
            let began = Instant::now();
            let done = measure(args, catalogue(), &interrupted)?;
            print(&format!("{}\n", done.to_text(began.elapsed())))?;
            Ok(done.exit_code())
        }
    }
}

/// The first signal ends the run after the current point, the second at once. If a handler cannot
/// be installed, the signal kills the process; the points stored so far are kept.
fn end_on_signals(interrupted: &Arc<AtomicBool>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_shutdown};
    for signal in [SIGINT, SIGTERM] {
        let _ = register_conditional_shutdown(signal, INTERRUPTED.into(), interrupted.clone());
        let _ = register(signal, interrupted.clone());
    }
}

fn list(studies: &[&dyn Study]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["STUDY", "QUESTION", "SOURCE"]);
    for study in studies {
        table.add_row([study.name(), study.question(), study.source()]);
    }
    trimmed(&table)
}

/// Measures the named studies and writes the report.
///
/// # Errors
/// When nothing could be measured, or results could not be stored.
pub fn measure(
    args: &RunArgs,
    all: &[&'static dyn Study],
    interrupted: &AtomicBool,
) -> Result<Done, StudyError> {
    let studies = chosen(&args.names, all)?;
    // Loaded first, so that an error in the file is reported before anything is measured.
    let costs = args.costs.as_deref().map(CostModel::load).transpose()?;
    let setting = setting(args, costs);
    let timing = timing(args);
    let out_dir = args.out.clone().unwrap_or_else(|| default_out_dir(args.quick));
    let plans: Vec<Plan> = studies.iter().map(|study| study.plan(&setting)).collect();
    let points = distinct(&plans);
    check_targets(&args.targets, &points, args.destroy)?;
    let local = match &args.local {
        Some(path) => Some(Disk::given(path, args.quick, args.destroy)?),
        None => None,
    };
    let local_path = local.as_ref().map(|disk| disk.path().to_owned());
    let node = program::node();
    let is_of_node = |subject: &Subject| {
        matches!(subject, Subject::Node { .. } | Subject::Space { .. } | Subject::File { .. })
    };
    if node.is_none() && points.iter().any(|it| is_of_node(&it.subject)) {
        return Err(StudyError::NoNode);
    }
    let build = program::build(node.as_deref())?;
    let key = run_key(args, timing, local_path.clone(), build);
    let mut store = Store::open(&out_dir, &key, args.fresh)?;
    // The description of the run that this command continues.
    let earlier = report::read(&out_dir).ok().filter(|_| !store.is_new).map(|kept| kept.about);
    let asked = asked(args, &setting, &out_dir, (store.is_new, earlier.as_ref()))?;
    let began = Instant::now();
    look_around();
    // A quick run does not repeat points that are not comparable.
    let extra_passes_max = if args.quick { 0 } else { EXTRA_PASSES_MAX };
    let session = Session { points: points.clone(), timing, extra_passes_max, interrupted };
    let stand = || {
        let disk = match local {
            Some(disk) => disk,
            None => Disk::scratch(&out_dir, args.quick, scratch_count(&points))?,
        };
        Stand::new(StandSpec { timing, disk, media: media(&points), node })
    };
    let ended = session.run(stand, &mut store)?;
    let seconds = earlier.map_or(0.0, |earlier| earlier.seconds) + began.elapsed().as_secs_f64();
    let disk_path = local_path.unwrap_or_else(|| out_dir.clone());
    let about = About { seconds, ..about(&asked, timing, &setting, &disk_path) };
    let document = Document { about, chapters: chapters(all, &studies, &setting, &store.results) };
    let written = report::write(&document, &out_dir)?;
    let is_named = |chapter: &&Chapter| studies.iter().any(|study| study.name() == chapter.study);
    let named: Vec<&Chapter> = document.chapters.iter().filter(is_named).collect();
    let is_failed = |point: &&Point| {
        let is_peer = matches!(point.subject, Subject::Peer { .. });
        !is_peer && matches!(store.results.outcomes.get(&point.id), Some(Outcome::Failed(_)))
    };
    let has_failed = points.iter().any(is_failed);
    Ok(Done::new(ended, has_failed, &named, &store.results, (out_dir, written)))
}

/// Stores this command's arguments next to the points, merged with those of the run that it
/// continues.
fn asked(
    args: &RunArgs,
    setting: &Setting,
    out_dir: &Path,
    (is_new, earlier): (bool, Option<&About>),
) -> Result<Asked, StudyError> {
    let now = Asked {
        began_at: machine::now(),
        command: command_line(args),
        is_quick: args.quick,
        peers: setting.peers.clone(),
        costs: setting.costs.clone(),
        core_watts: setting.core_watts,
    };
    // A run that was killed has written no report; its arguments are in `asked.json`.
    let killed = if is_new || earlier.is_some() { None } else { Asked::read(out_dir)? };
    let asked = match (earlier, killed) {
        (Some(about), _) => now.gone_on(&about.started_at, &about.command),
        (None, Some(killed)) => now.gone_on(&killed.began_at, &killed.command),
        (None, None) => now,
    };
    asked.write(out_dir)?;
    Ok(asked)
}

/// The description of a run, for its report.
fn about(asked: &Asked, timing: Timing, setting: &Setting, disk_path: &Path) -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: asked.began_at.clone(),
        command: asked.command.clone(),
        is_quick: asked.is_quick,
        machine: machine::machine(disk_path),
        versions: machine::versions(),
        settings: settings(timing, setting),
        ..About::default()
    }
}

/// The studies with these names, in the order of `all`.
fn chosen(
    names: &[String],
    all: &[&'static dyn Study],
) -> Result<Vec<&'static dyn Study>, StudyError> {
    for name in names {
        if name != "all" && !all.iter().any(|study| study.name() == name) {
            let known = all.iter().map(|study| study.name()).collect();
            return Err(StudyError::Unknown { name: name.clone(), known });
        }
    }
    let is_chosen = |study: &&&'static dyn Study| {
        names.iter().any(|name| name == "all" || name == study.name())
    };
    Ok(all.iter().filter(is_chosen).copied().collect())
}

fn timing(args: &RunArgs) -> Timing {
    let timing = if args.quick { Timing::QUICK } else { Timing::FULL };
    timing.with(args.repeats, args.runtime)
}

fn setting(args: &RunArgs, costs: Option<CostModel>) -> Setting {
    let installed = |peer: &Peer| {
        let programs: &[&str] = match peer {
            Peer::Fio => &["fio"],
            Peer::Tgt => &["tgtd"],
            // fio is nbdkit's client.
            Peer::Nbdkit => &["nbdkit", "fio"],
        };
        programs.iter().all(|program| find(program).is_some())
    };
    let peers = match args.peers.is_empty() {
        true => [Peer::Fio, Peer::Tgt, Peer::Nbdkit].into_iter().filter(installed).collect(),
        false => args.peers.clone(),
    };
    Setting {
        is_quick: args.quick,
        targets: args.targets.clone(),
        local: args.local.clone(),
        peers,
        core_count: allowed_cores().len(),
        has_energy_counter: EnergyCounter::open().is_some(),
        has_fuse: Path::new("/dev/fuse").exists(),
        has_etcd: find("etcd").is_some(),
        costs,
        core_watts: args.core_watts,
    }
}

fn run_key(args: &RunArgs, timing: Timing, local: Option<PathBuf>, build: String) -> RunKey {
    RunKey {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: Some(build),
        machine: machine::identity(),
        timing,
        local,
        targets: args.targets.iter().map(Target::url).collect(),
    }
}

/// The same folder all day, so that a repeated command resumes its run.
fn default_out_dir(is_quick: bool) -> PathBuf {
    let kind = if is_quick { "-quick" } else { "" };
    format!("nearflash-study-{}{kind}", machine::today()).into()
}

/// The points of all plans, without duplicates.
fn distinct(plans: &[Plan]) -> Vec<&Point> {
    let mut seen = std::collections::BTreeSet::new();
    plans.iter().flat_map(|plan| &plan.points).filter(|point| seen.insert(&point.id)).collect()
}

/// The media of all node subjects: the node has a volume on each.
fn media(points: &[&Point]) -> Vec<Medium> {
    let mut distinct = Vec::new();
    for point in points {
        let of_node = match &point.subject {
            Subject::Node { media, .. } => media.clone(),
            subject => subject.medium_of_files().into_iter().collect(),
        };
        for medium in of_node {
            if !distinct.contains(&medium) {
                distinct.push(medium);
            }
        }
    }
    distinct
}

/// The number of scratch files: those of the node, and those that are measured without one.
fn scratch_count(points: &[&Point]) -> u32 {
    let is_file = |medium: &&Medium| matches!(medium, Medium::File(_));
    let of_node = media(points).iter().filter(is_file).count();
    let mut own: Vec<Medium> = Vec::new();
    for point in points {
        if let Subject::Local(medium)
        | Subject::Peer { medium, .. }
        | Subject::File { way: FileWay::Kernel, medium } = &point.subject
            && !own.contains(medium)
        {
            own.push(*medium);
        }
    }
    let count = of_node + own.iter().filter(is_file).count();
    u32::try_from(count).expect("media are numbered by a byte")
}

/// Checks that every `--target` is remote and named once, and that `--destroy` is given if any is
/// written to.
fn check_targets(targets: &[Target], points: &[&Point], destroy: bool) -> Result<(), StudyError> {
    if let Some(target) = targets.iter().find(|target| !target.is_remote()) {
        return Err(StudyError::TargetNotServed { target: target.url() });
    }
    let urls: Vec<String> = targets.iter().map(Target::url).collect();
    if let Some(index) = (1..urls.len()).find(|&index| urls[..index].contains(&urls[index])) {
        return Err(StudyError::TargetTwice { target: urls[index].clone() });
    }
    let writes = |point: &&&Point| point.loads.iter().any(|load| load.pattern.writes());
    let written = points.iter().filter(writes).find_map(|point| match &point.subject {
        Subject::Url(target) => Some(target),
        _ => None,
    });
    match written {
        Some(target) if !destroy => Err(StudyError::TargetWritten { target: target.url() }),
        _ => Ok(()),
    }
}

/// Warns when other programs load the machine, since they would distort the figures.
fn look_around() {
    let others = run::others_share(LOOK_SPAN);
    if others > run::OTHERS_SHARE_MAX {
        eprintln!(
            "other programs use {:.0} % of a core. Points that they disturb are marked; a quiet \
             machine gives better figures",
            others * 100.0
        );
    }
}

fn command_line(args: &RunArgs) -> String {
    let mut words = vec!["nearflash study run".to_owned(), args.names.join(" ")];
    let mut flag = |name: &str, value: Option<String>| match value {
        Some(value) => words.push(format!("{name} {value}")),
        None => words.push(name.to_owned()),
    };
    if args.quick {
        flag("--quick", None);
    }
    if let Some(repeats) = args.repeats {
        flag("--repeats", Some(repeats.to_string()));
    }
    if let Some(runtime) = args.runtime {
        flag("--runtime", Some(format!("{}ms", runtime.0 / 1_000_000)));
    }
    for target in &args.targets {
        flag("--target", Some(quoted(&target.url())));
    }
    if let Some(local) = &args.local {
        flag("--local", Some(quoted(&local.display().to_string())));
    }
    if args.destroy {
        flag("--destroy", None);
    }
    for peer in &args.peers {
        flag("--peer", Some(peer_name(peer).to_owned()));
    }
    if let Some(costs) = &args.costs {
        flag("--costs", Some(quoted(&costs.display().to_string())));
    }
    if args.core_watts != CORE_WATTS {
        flag("--core-watts", Some(args.core_watts.to_string()));
    }
    words.join(" ")
}

/// Quotes a word for a shell. A target's options can contain `&`, which would end the command.
fn quoted(word: &str) -> String {
    // Only a NUL cannot be quoted, and no argument of a program has one.
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), |word| word.into_owned())
}

#[cfg(test)]
mod tests;
