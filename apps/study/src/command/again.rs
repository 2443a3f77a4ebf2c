//! `nearflash study report`: a report anew, from what is kept of a run.

use nearflash_bench::placement::allowed_cores;

use super::{chapters, settings};
use crate::args::ReportArgs;
use crate::error::StudyError;
use crate::machine;
use crate::plan::{Peer, Subject};
use crate::report::{self, About, Document, Fact, Written};
use crate::result::{Outcome, Results};
use crate::store::{self, RunKey};
use crate::studies::{CostModel, Setting, Study};

/// Writes the report, and says how many points it is of.
///
/// # Errors
/// When nothing is kept there, or the report cannot be written.
pub(super) fn write(
    args: &ReportArgs,
    all: &[&'static dyn Study],
) -> Result<(Written, usize), StudyError> {
    CostModel::load(args.costs.as_deref())?;
    let (key, results) = store::read(&args.dir)?;
    let setting = setting(args, &key, &results, all);
    let about = match report::read(&args.dir) {
        Ok(kept) => kept.about,
        // The run has not come to its end yet: what its points say of it.
        Err(_) => About {
            version: key.version.clone(),
            is_quick: setting.is_quick,
            machine: vec![Fact::new("machine", key.machine.as_str())],
            settings: settings(key.timing, &setting),
            ..About::default()
        },
    };
    let document = Document { about, chapters: chapters(all, &[], &setting, &results) };
    Ok((report::write(&document, &args.dir)?, results.outcomes.len()))
}

/// What the run was asked for, as far as what it measured tells.
fn setting(
    args: &ReportArgs,
    key: &RunKey,
    results: &Results,
    all: &[&'static dyn Study],
) -> Setting {
    let runs = || {
        let measured = results.outcomes.values().filter_map(|outcome| match outcome {
            Outcome::Measured(measurement) => Some(&measurement.tenants),
            Outcome::Failed(_) => None,
        });
        measured.flatten().flatten()
    };
    let full = Setting {
        is_quick: false,
        targets: key.targets.iter().filter_map(|target| target.parse().ok()).collect(),
        local: key.local.clone(),
        peers: vec![Peer::Fio, Peer::Tgt, Peer::Nbdkit],
        core_count: machine::core_count(&key.machine).unwrap_or_else(|| allowed_cores().len()),
        has_energy_counter: runs().any(|run| run.joules.is_some()),
        cost_file: args.costs.clone(),
        core_watts: args.core_watts,
    };
    let points: Vec<_> = all.iter().flat_map(|study| study.plan(&full).points).collect();
    let is_there = |peer: &Peer| {
        let is_of =
            |subject: &Subject| matches!(subject, Subject::Peer { peer: it, .. } if it == peer);
        points.iter().any(|it| is_of(&it.subject) && results.outcomes.contains_key(&it.id))
    };
    let peers = full.peers.iter().copied().filter(is_there).collect();
    let quick = Setting { is_quick: true, ..full.clone() };
    let quick_points: Vec<_> =
        all.iter().flat_map(|study| study.plan(&quick).points).map(|point| point.id).collect();
    // A quick run measures some of the points of a full one, and no others.
    let is_quick = results.outcomes.keys().all(|id| quick_points.contains(id));
    Setting { is_quick, peers, ..full }
}
