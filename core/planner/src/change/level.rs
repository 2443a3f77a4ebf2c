//! Raising the feature level of a cluster.

use nearflash_records::key::Key;
use nearflash_records::record::{ClusterRecord, FEATURE_LEVEL, level_of};
use nearflash_records::state::ClusterState;

use super::{Draft, Step};
use crate::refusal::Refusal;

/// See [`super::Change::RaiseLevel`]. A node that registers an older program at the same time refuses the cluster
/// as soon as it reads the level.
pub(super) fn raise(state: &ClusterState) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    let cluster = state.cluster().ok_or(Refusal::NoCluster(state.uuid()))?;
    if cluster.feature_level >= FEATURE_LEVEL {
        return Ok(Step::Done);
    }
    for node in state.nodes().values() {
        if level_of(&node.version) < FEATURE_LEVEL {
            let (node, version) = (node.name.clone(), node.version.as_str().into());
            return Err(Refusal::OldProgram { node, version });
        }
    }
    let record = ClusterRecord { feature_level: FEATURE_LEVEL, ..cluster.clone() };
    draft.put(Key::Cluster, &record)?;
    draft.submit()
}
