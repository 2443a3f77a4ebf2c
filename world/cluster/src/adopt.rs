//! `nearflash cluster adopt-access`: the access of a node that has some of its own becomes a part of the list that
//! the nodes of its cluster share.

use std::path::Path;

use nearflash_planner::{AccessChange, Change, adopted};
use nearflash_records::{AccessRecords, Key, Put};
use serde::Serialize;
use uuid::Uuid;

use super::Say;
use super::error::ClusterError;
use super::remove::Way;

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Adopted {
    /// The records that the list gets, or has got.
    pub added: Vec<String>,
    /// The records that differ from those of the list. Nothing is added if there are any.
    pub contradictions: Vec<String>,
    /// Whether the list has been changed.
    pub is_done: bool,
}

/// Adds the records of a node that does not run to the list of its cluster, unless some contradict it. Returns
/// the cluster, too, for the node's catalog: its access is a copy of that list from then on.
///
/// # Errors
/// When the cluster has no list yet, or etcd does not answer. An interrupted command can be repeated.
pub fn adopt_access(
    data_dir: &Path,
    own: &AccessRecords,
    is_dry: bool,
    say: Say<'_>,
) -> Result<(Adopted, Uuid), ClusterError> {
    let way = Way::of(data_dir)?;
    let (state, cluster) = (way.state()?, way.cluster());
    if !state.shares_access() {
        return Err(ClusterError::NoList);
    }
    let is_copy = own.list.is_some_and(|it| it.cluster == cluster);
    let names = |keys: &mut dyn Iterator<Item = &Key>| keys.map(ToString::to_string).collect();
    let (puts, contradictions) = match adopted(state.access(), own) {
        _ if is_copy => (Vec::new(), Vec::new()),
        Ok(puts) => (puts, Vec::new()),
        Err(keys) => (Vec::new(), names(&mut keys.iter())),
    };
    let added = names(&mut puts.iter().map(|put: &Put| &put.key));
    let is_done = contradictions.is_empty() && !is_dry;
    if is_done && !puts.is_empty() {
        let on = state.access().version();
        let change = AccessChange { id: Uuid::new_v4(), on, puts, deletes: Vec::new() };
        way.carry_out(&Change::Access(change), say)?;
    }
    Ok((Adopted { added, contradictions, is_done }, cluster))
}
