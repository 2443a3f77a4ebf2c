//! The content of a report: its chapters, and the settings of the run.

use crate::plan::Peer;
use crate::report::{Chapter, Fact};
use crate::result::Results;
use crate::studies::{Setting, Study};
use crate::timing::Timing;

/// A chapter for each named study, and for each study of which an earlier command measured points.
pub(super) fn chapters(
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

/// The settings of a run, one line each.
pub(super) fn settings(timing: Timing, setting: &Setting) -> Vec<Fact> {
    let peers: Vec<&str> = setting.peers.iter().map(peer_name).collect();
    let peers = if peers.is_empty() { "none".to_owned() } else { peers.join(", ") };
    vec![
        Fact::new("runs of each point", timing.repeats.to_string()),
        Fact::new("measured time of each run", format!("{} ms", timing.counted_ms)),
        Fact::new("warm-up of each run", format!("{} ms", timing.warm_up_ms)),
        Fact::new("cores", "the first for the node, the rest for the clients; all are pinned"),
        Fact::new("peers", peers),
    ]
}

pub(super) fn peer_name(peer: &Peer) -> &'static str {
    match peer {
        Peer::Fio => "fio",
        Peer::Tgt => "tgt",
        Peer::Nbdkit => "nbdkit",
    }
}
