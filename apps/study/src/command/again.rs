//! `nearflash study report`: rewrites a report from the stored points.

use std::path::Path;

use nearflash_bench::placement::allowed_cores;

use super::chapters::{chapters, settings};
use crate::args::ReportArgs;
use crate::asked::Asked;
use crate::error::StudyError;
use crate::machine;
use crate::plan::{Peer, Plan, PointId, Subject};
use crate::report::{self, About, Document, Fact, Written};
use crate::result::{Outcome, Results};
use crate::store::{self, RunKey};
use crate::studies::{CORE_WATTS, CostModel, Setting, Study};

/// Writes the report; returns its files and the number of points.
///
/// # Errors
/// When the folder holds no results, or the report cannot be written.
pub(super) fn write(
    args: &ReportArgs,
    all: &[&'static dyn Study],
) -> Result<(Written, usize), StudyError> {
    let costs = args.costs.as_deref().map(CostModel::load).transpose()?;
    let (key, results) = store::read(&args.dir)?;
    let asked = Asked::read(&args.dir)?;
    let about = report::read(&args.dir).ok().map(|kept| kept.about);
    let is_quick = asked.as_ref().map(|asked| asked.is_quick);
    let is_quick = is_quick.or(about.as_ref().map(|about| about.is_quick));
    let guessed = guessed(&key, &results, all, is_quick);
    let setting = asked_for(guessed, asked.as_ref());
    let setting = Setting {
        costs: costs.or(setting.costs),
        core_watts: args.core_watts.unwrap_or(setting.core_watts),
        ..setting
    };
    let about = about.unwrap_or_else(|| unfinished(&key, &setting, asked));
    let document = Document { about, chapters: chapters(all, &[], &setting, &results) };
    let written = match &args.publish {
        Some(out_dir) => publish(&document, out_dir)?,
        None => report::write(&document, &args.dir)?,
    };
    Ok((written, results.outcomes.len()))
}

/// Writes a copy for publication. Refuses a folder that holds the results of a run.
fn publish(document: &Document, out_dir: &Path) -> Result<Written, StudyError> {
    if report::is_run(out_dir) {
        return Err(StudyError::PublishedOverRun { path: out_dir.to_owned() });
    }
    Ok(report::publish(document, out_dir)?)
}

/// The description of a run that has no `results.json` yet.
fn unfinished(key: &RunKey, setting: &Setting, asked: Option<Asked>) -> About {
    let about = About {
        version: key.version.clone(),
        is_quick: setting.is_quick,
        machine: vec![Fact::new("machine", key.machine.as_str())],
        settings: settings(key.timing, setting),
        ..About::default()
    };
    match asked {
        Some(Asked { began_at: started_at, command, .. }) => About { started_at, command, ..about },
        None => about,
    }
}

/// Replaces guesses by the stored arguments, where there are any. Peers that earlier commands of
/// the run measured are kept.
fn asked_for(guessed: Setting, asked: Option<&Asked>) -> Setting {
    let Some(asked) = asked else { return guessed };
    let is_wanted = |peer: &Peer| asked.peers.contains(peer) || guessed.peers.contains(peer);
    Setting {
        peers: PEERS.into_iter().filter(is_wanted).collect(),
        costs: asked.costs.clone(),
        core_watts: asked.core_watts,
        ..guessed
    }
}

const PEERS: [Peer; 3] = [Peer::Fio, Peer::Tgt, Peer::Nbdkit];

/// Infers the arguments of a run from its key and its points.
fn guessed(
    key: &RunKey,
    results: &Results,
    all: &[&'static dyn Study],
    is_quick: Option<bool>,
) -> Setting {
    let runs = || {
        let measured = results.outcomes.values().filter_map(|outcome| match outcome {
            Outcome::Measured(measurement) => Some(&measurement.tenants),
            Outcome::Simulated(_) | Outcome::Failed(_) => None,
        });
        measured.flatten().flatten()
    };
    let full = Setting {
        is_quick: false,
        targets: key.targets.iter().filter_map(|target| target.parse().ok()).collect(),
        local: key.local.clone(),
        peers: PEERS.to_vec(),
        core_count: machine::core_count(&key.machine).unwrap_or_else(|| allowed_cores().len()),
        has_energy_counter: runs().any(|run| run.joules.is_some()),
        has_fuse: true,
        has_etcd: true,
        costs: None,
        core_watts: CORE_WATTS,
    };
    let plans: Vec<Plan> = all.iter().map(|study| study.plan(&full)).collect();
    let is_there = |peer: &Peer| {
        let is_of =
            |subject: &Subject| matches!(subject, Subject::Peer { peer: it, .. } if it == peer);
        let mut points = plans.iter().flat_map(|plan| &plan.points);
        points.any(|it| is_of(&it.subject) && results.outcomes.contains_key(&it.id))
    };
    let peers = full.peers.iter().copied().filter(is_there).collect();
    // A quick run measures a subset of the points of a full one.
    let is_quick = is_quick.unwrap_or_else(|| {
        let quick = Setting { is_quick: true, ..full.clone() };
        let plans: Vec<Plan> = all.iter().map(|study| study.plan(&quick)).collect();
        let is_of_quick =
            |id: &PointId| plans.iter().flat_map(|plan| &plan.points).any(|point| point.id == *id);
        results.outcomes.keys().all(is_of_quick)
    });
    let has = |is_so: fn(&Subject) -> bool| {
        let mut points = plans.iter().flat_map(|plan| &plan.points);
        points.any(|it| is_so(&it.subject) && results.outcomes.contains_key(&it.id))
    };
    let has_etcd = has(|subject| matches!(subject, Subject::Space { .. }));
    let has_fuse = has(|subject| subject.medium_of_files().is_some());
    Setting { is_quick, peers, has_etcd, has_fuse, ..full }
}
