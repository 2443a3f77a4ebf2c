//! `nearflash study`: from the command line to the report.

mod again;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use nearflash_bench::compare::find;
use nearflash_bench::placement::allowed_cores;

use crate::args::{RunArgs, StudyCommand};
use crate::compare;
use crate::energy::EnergyCounter;
use crate::error::StudyError;
use crate::local::Disk;
use crate::machine;
use crate::plan::{Medium, Peer, Plan, Point, Subject};
use crate::report::{self, About, Chapter, Document, Fact, Written};
use crate::result::{Outcome, Results};
use crate::run::{self, Ended, Session, Stand, StandSpec, Timing};
use crate::store::{RunKey, Store};
use crate::studies::{CORE_WATTS, CostModel, Setting, Study, catalogue};

/// The exit code of a run that was interrupted: what shells say of SIGINT.
const INTERRUPTED: u8 = 130;
/// More is in the report.
const SAID_PER_STUDY_MAX: usize = 3;
/// How often points that cannot stand beside others are measured again.
const EXTRA_PASSES_MAX: u32 = 3;
/// How long the machine is watched before anything is measured.
const LOOK_SPAN: Duration = Duration::from_millis(500);

/// Does what the command line says.
///
/// # Errors
/// When nothing could be measured, or results could not be kept: one line with its remedy.
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

/// The first signal ends the run after its point, the second at once. Without this a run is ended by
/// the signal, and what it has is kept all the same.
fn end_on_signals(interrupted: &Arc<AtomicBool>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_shutdown};
    for signal in [SIGINT, SIGTERM] {
        let _ = register_conditional_shutdown(signal, INTERRUPTED.into(), interrupted.clone());
        let _ = register(signal, interrupted.clone());
    }
}

/// Writes to stdout. A reader that has seen enough is no error.
fn print(text: &str) -> Result<(), StudyError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(StudyError::Io {
            action: "write to",
            path: "standard output".into(),
            source: error,
        }),
        _ => Ok(()),
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

fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// What came of a run.
pub struct Done {
    ended: Ended,
    /// A point of ours, or of the user's target, could not be measured. What a peer cannot do is told,
    /// and is nobody's failure.
    has_failed: bool,
    chapters: Vec<Line>,
    conclusions: Vec<String>,
    out_dir: PathBuf,
    written: Written,
}

/// One study in the summary.
struct Line {
    study: String,
    measured: usize,
    failed: usize,
    doubtful: usize,
    pending: usize,
    unable: usize,
}

/// Measures the studies that are named, and writes the report.
///
/// # Errors
/// When nothing could be measured, or results could not be kept.
pub fn measure(
    args: &RunArgs,
    all: &[&'static dyn Study],
    interrupted: &AtomicBool,
) -> Result<Done, StudyError> {
    let studies = chosen(&args.names, all)?;
    // An error in it is told before anything is measured.
    CostModel::load(args.costs.as_deref())?;
    let setting = setting(args);
    let timing = timing(args);
    let out_dir = args.out.clone().unwrap_or_else(|| default_out_dir(args.quick));
    let plans: Vec<Plan> = studies.iter().map(|study| study.plan(&setting)).collect();
    let points = distinct(&plans);
    check_targets(&points, args.destroy)?;
    let local = match &args.local {
        Some(path) => Some(Disk::given(path, args.quick, args.destroy)?),
        None => None,
    };
    let local_path = local.as_ref().map(|disk| disk.path().to_owned());
    let key = run_key(args, timing, local_path.clone());
    let mut store = Store::open(&out_dir, &key, args.fresh)?;
    let began_at = machine::now();
    let began = Instant::now();
    look_around();
    // A first look takes what it gets.
    let extra_passes_max = if args.quick { 0 } else { EXTRA_PASSES_MAX };
    let session = Session { points: points.clone(), timing, extra_passes_max, interrupted };
    let stand = || {
        let disk = match local {
            Some(disk) => disk,
            None => Disk::scratch(&out_dir, args.quick, scratch_count(&points))?,
        };
        Stand::new(StandSpec { timing, disk, media: media(&points) })
    };
    let ended = session.run(stand, &mut store)?;
    let disk_path = local_path.unwrap_or_else(|| out_dir.clone());
    // The run that this one goes on with.
    let earlier = report::read(&out_dir).ok().filter(|_| !store.is_new).map(|kept| kept.about);
    let about = About {
        started_at: earlier.as_ref().map_or(began_at, |earlier| earlier.started_at.clone()),
        seconds: earlier.map_or(0.0, |earlier| earlier.seconds) + began.elapsed().as_secs_f64(),
        ..about(args, timing, &setting, &disk_path)
    };
    let document = Document { about, chapters: chapters(all, &studies, &setting, &store.results) };
    let written = report::write(&document, &out_dir)?;
    let named: Vec<&Chapter> = document
        .chapters
        .iter()
        .filter(|chapter| studies.iter().any(|study| study.name() == chapter.study))
        .collect();
    let is_failed = |point: &&Point| {
        let is_peer = matches!(point.subject, Subject::Peer { .. });
        !is_peer && matches!(store.results.outcomes.get(&point.id), Some(Outcome::Failed(_)))
    };
    Ok(Done {
        ended,
        has_failed: points.iter().any(is_failed),
        chapters: named.iter().map(|chapter| line(chapter, &store.results)).collect(),
        conclusions: conclusions(&named),
        out_dir,
        written,
    })
}

/// What is known of a run without having been there.
fn about(args: &RunArgs, timing: Timing, setting: &Setting, disk_path: &Path) -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(args),
        is_quick: args.quick,
        machine: machine::machine(disk_path),
        versions: machine::versions(),
        settings: settings(timing, setting),
        ..About::default()
    }
}

/// One for each study that is named, and for those that an earlier command has measured.
fn chapters(
    all: &[&'static dyn Study],
    named: &[&'static dyn Study],
    setting: &Setting,
    results: &Results,
) -> Vec<Chapter> {
    let chapter = |study: &&'static dyn Study| {
        let plan = study.plan(setting);
        let has_some = plan.points.iter().any(|point| results.outcomes.contains_key(&point.id));
        let is_named = named.iter().any(|named| named.name() == study.name());
        (is_named || has_some).then(|| Chapter::new(*study, setting, plan, results))
    };
    all.iter().filter_map(chapter).collect()
}

/// The studies of these names, in the order in which they run.
fn chosen(
    names: &[String],
    all: &[&'static dyn Study],
) -> Result<Vec<&'static dyn Study>, StudyError> {
    for name in names {
        if name != "all" && !all.iter().any(|study| study.name() == name) {
            let mut known: Vec<&'static str> = all.iter().map(|study| study.name()).collect();
            known.sort_by_key(|known| distance(name, known));
            return Err(StudyError::Unknown { name: name.clone(), known });
        }
    }
    let is_chosen = |study: &&&'static dyn Study| {
        names.iter().any(|name| name == "all" || name == study.name())
    };
    Ok(all.iter().filter(is_chosen).copied().collect())
}

/// How many letters have to be changed to make one word of another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..row.len() {
            let changed = diagonal + usize::from(to[column - 1] != letter);
            diagonal = row[column];
            row[column] = changed.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[to.len()]
}

fn timing(args: &RunArgs) -> Timing {
    let timing = if args.quick { Timing::QUICK } else { Timing::FULL };
    timing.with(args.repeats, args.runtime)
}

fn setting(args: &RunArgs) -> Setting {
    let installed = |peer: &Peer| {
        let program = match peer {
            Peer::Fio => "fio",
            Peer::Tgt => "tgtd",
            Peer::Nbdkit => "nbdkit",
        };
        find(program).is_some()
    };
    let peers = match args.peers.is_empty() {
        true => [Peer::Fio, Peer::Tgt, Peer::Nbdkit].into_iter().filter(installed).collect(),
        false => args.peers.iter().map(|peer| Peer::from(*peer)).collect(),
    };
    Setting {
        is_quick: args.quick,
        targets: args.targets.clone(),
        local: args.local.clone(),
        peers,
        core_count: allowed_cores().len(),
        has_energy_counter: EnergyCounter::open().is_some(),
        cost_file: args.costs.clone(),
        core_watts: args.core_watts,
    }
}

fn run_key(args: &RunArgs, timing: Timing, local: Option<PathBuf>) -> RunKey {
    RunKey {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine::identity(),
        timing,
        local,
        targets: args.targets.iter().map(ToString::to_string).collect(),
    }
}

/// The same for a day, so that the same command goes on.
fn default_out_dir(is_quick: bool) -> PathBuf {
    let kind = if is_quick { "-quick" } else { "" };
    format!("nearflash-study-{}{kind}", machine::today()).into()
}

/// Every point of all plans, once.
fn distinct(plans: &[Plan]) -> Vec<&Point> {
    let mut seen = std::collections::BTreeSet::new();
    plans.iter().flat_map(|plan| &plan.points).filter(|point| seen.insert(&point.id)).collect()
}

/// What a node has to serve.
fn media(points: &[&Point]) -> Vec<Medium> {
    let mut media = Vec::new();
    for point in points {
        if let Subject::Node { media: of_point, .. } = &point.subject {
            media.extend(
                of_point.iter().filter(|medium| !media.contains(*medium)).collect::<Vec<_>>(),
            );
        }
    }
    let mut distinct: Vec<Medium> = Vec::new();
    for medium in media {
        if !distinct.contains(&medium) {
            distinct.push(medium);
        }
    }
    distinct
}

/// How many scratch files there will be: those of a node, and those that are measured without one.
fn scratch_count(points: &[&Point]) -> u32 {
    let is_file = |medium: &&Medium| matches!(medium, Medium::File(_));
    let of_node = media(points).iter().filter(is_file).count();
    let mut own: Vec<Medium> = Vec::new();
    for point in points {
        if let Subject::Local(medium) | Subject::Peer { medium, .. } = &point.subject
            && !own.contains(medium)
        {
            own.push(*medium);
        }
    }
    let count = of_node + own.iter().filter(is_file).count();
    u32::try_from(count).expect("media are numbered by a byte")
}

/// A volume of the user's is written to only when they said that it may be.
fn check_targets(points: &[&Point], destroy: bool) -> Result<(), StudyError> {
    let writes = |point: &&&Point| point.loads.iter().any(|load| load.pattern.writes());
    let written = points.iter().filter(writes).find_map(|point| match &point.subject {
        Subject::Url(target) => Some(target),
        _ => None,
    });
    match written {
        Some(target) if !destroy => Err(StudyError::TargetWritten { target: target.to_string() }),
        _ => Ok(()),
    }
}

/// Says when others work on this machine: figures would be theirs, too.
fn look_around() {
    let others = run::others_share(LOOK_SPAN);
    if others > run::OTHERS_SHARE_MAX {
        eprintln!(
            "other programs use {:.0} % of a core: points that they disturb are marked, and figures \
             are better on a quiet machine",
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
        flag("--target", Some(target.to_string()));
    }
    if let Some(local) = &args.local {
        flag("--local", Some(local.display().to_string()));
    }
    if args.destroy {
        flag("--destroy", None);
    }
    for peer in &args.peers {
        flag("--peer", Some(peer_name(&Peer::from(*peer)).to_owned()));
    }
    if let Some(costs) = &args.costs {
        flag("--costs", Some(costs.display().to_string()));
    }
    if args.core_watts != CORE_WATTS {
        flag("--core-watts", Some(args.core_watts.to_string()));
    }
    words.join(" ")
}

fn settings(timing: Timing, setting: &Setting) -> Vec<Fact> {
    let peers: Vec<&str> = setting.peers.iter().map(peer_name).collect();
    let peers = if peers.is_empty() { "none".to_owned() } else { peers.join(", ") };
    vec![
        Fact::new("runs of each point", timing.repeats.to_string()),
        Fact::new("counted of each run", format!("{} ms", timing.counted_ms)),
        Fact::new("warm-up before it", format!("{} ms", timing.warm_up_ms)),
        Fact::new("cores", "the node's come first, the asking side has the rest; all pinned"),
        Fact::new("peers", peers),
    ]
}

fn peer_name(peer: &Peer) -> &'static str {
    match peer {
        Peer::Fio => "fio",
        Peer::Tgt => "tgt",
        Peer::Nbdkit => "nbdkit",
    }
}

fn line(chapter: &Chapter, results: &Results) -> Line {
    let failed = chapter.failed().count();
    let doubtful = chapter.points.iter().filter(|end| results.is_doubtful(&end.id)).count();
    Line {
        study: chapter.study.clone(),
        measured: chapter.points.len() - failed,
        failed,
        doubtful,
        pending: chapter.pending.len(),
        unable: chapter.unable.len(),
    }
}

/// What each of a chapter's first exhibits says first.
fn conclusions(chapters: &[&Chapter]) -> Vec<String> {
    let of = |chapter: &&Chapter| {
        let said = chapter.exhibits.iter().filter_map(|exhibit| exhibit.conclusions.first());
        said.take(SAID_PER_STUDY_MAX)
            .map(|said| format!("{}: {said}", chapter.study))
            .collect::<Vec<_>>()
    };
    chapters.iter().flat_map(of).collect()
}

impl Done {
    /// 0 when all was measured, 1 when points failed, 130 when it was interrupted.
    fn exit_code(&self) -> ExitCode {
        match (self.ended.is_interrupted, self.has_failed) {
            (true, _) => INTERRUPTED.into(),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        }
    }

    fn to_text(&self, took: Duration) -> String {
        let mut text = format!("{}\n\n", self.table());
        for conclusion in &self.conclusions {
            text.push_str(conclusion);
            text.push('\n');
        }
        if !self.conclusions.is_empty() {
            text.push('\n');
        }
        if self.ended.is_interrupted {
            text.push_str(&format!(
                "interrupted: the same command with --out {} goes on\n",
                self.out_dir.display()
            ));
        }
        text.push_str(&format!(
            "{} points measured in {} s; report: {}",
            self.ended.measured,
            took.as_secs(),
            self.written.page.display()
        ));
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["STUDY", "MEASURED", "FAILED", "DOUBTFUL", "LEFT", "UNABLE"]);
        for line in &self.chapters {
            let Line { measured, failed, doubtful, pending, unable, .. } = line;
            let counts = [measured, failed, doubtful, pending, unable];
            let counts = counts.iter().map(|count| count.to_string());
            table.add_row(std::iter::once(line.study.clone()).chain(counts));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        trimmed(&table)
    }
}

#[cfg(test)]
mod tests;
