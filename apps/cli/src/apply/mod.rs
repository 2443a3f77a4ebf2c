//! `nearflash apply`: makes a running node match a file.
//!
//! The state is read, compared ([`plan`]), shown, and changed step by step ([`mod@make`]). The command can be
//! repeated: after a failure, it goes on from the state that it finds.

mod make;
mod plan;
mod state;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nearflash_config::{Config, GrantSpec};

use crate::args::NodeArgs;
use crate::confirm::confirm;
use crate::control::data_dir;
use crate::failure::{Failure, report};
use crate::output::{print, show};
use make::{End, await_job, check_files, make};
use plan::{Permission, Plan, Step};
use state::{Declared, Running};
use text::PlanDocument;

pub(crate) use plan::{NO_ACCOUNT, NO_CREDENTIAL, NoKeyLeft};
pub(crate) use text::{chap as chap_detail, host as host_detail, volume as volume_detail};

/// The exit code of a dry run that finds differences. 1 is a failure, and 2 a wrong command line or file.
const DIFFERENCES: u8 = 3;

/// The arguments of `nearflash apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// The file, as for 'nearflash serve --config'
    file: PathBuf,
    /// Show the differences, and change nothing. The exit code is 3 if there are differences
    #[arg(long)]
    dry_run: bool,
    /// Also remove the volumes on devices of the node, NVMe hosts with keys or a list, CHAP accounts, credentials and
    /// grants that the file does not have
    #[arg(long)]
    prune: bool,
    /// Permit changes that destroy data: removed and shrunk volumes
    #[arg(long)]
    destroy: bool,
    /// With --destroy, also remove and shrink volumes that hosts, initiators or clients use, and shrink those that
    /// hold a file system
    #[arg(long, requires = "destroy")]
    force: bool,
    /// Do not ask on a terminal before data is destroyed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// The reason why a plan is not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyFailure {
    /// The plan would destroy data, and --destroy is missing.
    #[error(
        "this would destroy data of {volumes}: add --destroy to permit it; nothing was changed"
    )]
    Destroys { volumes: String },
    /// A step has failed.
    #[error(
        "cannot {step}: {source}; {made} of {steps} changes are made: remove the cause, and run the \
         command again"
    )]
    Stopped { step: String, made: usize, steps: usize, source: Box<Failure> },
    /// Another command has changed the state.
    #[error(
        "the state of the node has changed since it was read, by another 'nearflash apply' or \
         another change; {made} of {steps} changes are made: run the command again"
    )]
    Overtaken { made: usize, steps: usize },
}

/// Makes the node as the file declares, or shows the differences.
pub(crate) fn run_apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let config = match Config::read(&args.file) {
        Ok(config) => config,
        Err(errors) => return Ok(report(&errors, 2)),
    };
    let data_dir = match &args.node.data_dir {
        // The file's, or the default.
        None if !config.data_dir.as_os_str().is_empty() => config.data_dir.clone(),
        _ => data_dir(&args.node)?,
    };
    let declared = Declared::of(config);
    let may = Permission { prune: args.prune, destroy: args.destroy, force: args.force };
    let running = Running::read(&data_dir, &declared.volumes)?;
    let plan = Plan::of(&declared, &running, may);
    if !plan.conflicts.is_empty() {
        return Ok(report(&plan.conflicts, 1));
    }
    if !plan.withheld.is_empty() || args.dry_run {
        return show_plan(args, &plan);
    }
    check_files(&plan.steps)?;
    if !args.node.json {
        print(&text::plan(&plan))?;
    }
    let destroyed = volumes(&plan.steps);
    confirm(args.yes || destroyed.is_empty(), || Ok(format!("Destroy data of {destroyed}?")))?;
    plan.jobs.iter().try_for_each(|(_, job)| await_job(&data_dir, *job))?;
    apply(args, &data_dir, (&declared, may), (running.generation, &plan))
}

/// Shows a plan that is not made.
fn show_plan(args: &ApplyArgs, plan: &Plan) -> Result<ExitCode, Failure> {
    let text = |_: &PlanDocument<'_>| match plan.is_empty() {
        true => "nothing to change\n".to_owned(),
        false => format!("{}{}\n", text::plan(plan), text::summary(plan)),
    };
    print(&show(&PlanDocument::of(plan, 0), args.node.json, text))?;
    if !plan.withheld.is_empty() {
        return Err(ApplyFailure::Destroys { volumes: volumes(&plan.withheld) }.into());
    }
    Ok(ExitCode::from(if plan.is_empty() { 0 } else { DIFFERENCES }))
}

/// Makes a plan that was shown.
fn apply(
    args: &ApplyArgs,
    data_dir: &Path,
    wanted: (&Declared, Permission),
    (generation, plan): (u64, &Plan),
) -> Result<ExitCode, Failure> {
    let steps = plan.steps.len();
    let (made, end) = make(data_dir, wanted, (generation, &plan.steps));
    let text = |_: &PlanDocument<'_>| outcome(plan, made);
    print(&show(&PlanDocument::of(plan, made), args.node.json, text))?;
    match end {
        End::Made => Ok(ExitCode::SUCCESS),
        End::Overtaken => Err(ApplyFailure::Overtaken { made, steps }.into()),
        End::Failed(source) => {
            let step = text::phrase(&plan.steps[made]);
            Err(ApplyFailure::Stopped { step, made, steps, source: source.into() }.into())
        }
    }
}

/// The result for people: the steps that are made and those that are not, if there are both.
fn outcome(plan: &Plan, made: usize) -> String {
    if plan.is_empty() {
        return "nothing to change\n".to_owned();
    }
    if plan.steps.is_empty() && plan.restarts.is_empty() {
        return "the jobs have ended, and nothing else is to change\n".to_owned();
    }
    if plan.steps.is_empty() {
        return "nothing to change without a restart\n".to_owned();
    }
    let mut text = format!("made {made} of {} changes\n", plan.steps.len());
    if made < plan.steps.len() {
        for (place, step) in plan.steps.iter().enumerate() {
            let state = if place < made { "made" } else { "not made" };
            text += &format!("{state}: {}\n", text::line(step));
        }
    }
    text
}

/// A grant of a file in words.
pub(crate) fn grant_detail(spec: &GrantSpec) -> String {
    text::grant(&plan::terms(spec))
}

/// The volumes whose data steps destroy.
fn volumes(steps: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::VolumeRemove(volume) => Some(format!("volume '{}' ({})", volume.name, volume.len)),
        Step::VolumeShrink { volume, to } => {
            Some(format!("volume '{}' ({} past {to})", volume.name, volume.len))
        }
        _ => None,
    };
    steps.iter().filter_map(name).collect::<Vec<String>>().join(", ")
}
