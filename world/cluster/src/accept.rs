//! `nearflash cluster accept-restored`: the operator goes on with a store that was restored from an older
//! snapshot, and is told what is lost with that.
//!
//! A new `history` in the store is the acceptance. Nodes that have kept an earlier one take the store as it
//! is when they start; those that run keep what they know, and write nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use nearflash_cluster::continuity::check_start;
use nearflash_planner::{Refusal, accept_restored as acceptance};
use nearflash_records::ClusterState;
use nearflash_records::kept::{SeenRecord, SeenVolume, volumes};
use nearflash_records::record::{HistoryRecord, Schema};
use nearflash_units::ByteLen;
use serde::Serialize;
use uuid::Uuid;

use super::client::Store;
use super::clock::now;
use super::error::ClusterError;
use super::member::Folder;
use super::remove::answers;

/// The difference between a store and what this machine's node has seen of it.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// The proof that the store was restored from an older snapshot; absent if this machine has none.
    pub proof: Option<String>,
    /// Whether this machine's node has seen the store before.
    pub was_seen: bool,
    /// Volumes that the store lacks: their data is lost.
    pub lost: Vec<String>,
    /// Volumes that were removed since: their blocks may have been used otherwise.
    pub back: Vec<String>,
    /// Volumes that have another length again.
    pub resized: Vec<String>,
    /// Whether the store is accepted now.
    pub is_accepted: bool,
}

/// The node of a data directory, and what it has seen of its cluster's store.
pub type Kept = (Uuid, Option<SeenRecord>);

/// Compares the store with what this machine's node has seen of it, which `kept` reads. `accepts`: goes on with
/// the store as it is.
///
/// # Errors
/// When a node runs, or etcd does not answer.
pub fn accept_restored(
    data_dir: &Path,
    accepts: bool,
    kept: impl FnOnce(&Path) -> Result<Kept, Box<dyn Error + Send + Sync>>,
) -> Result<Restored, ClusterError> {
    let folder = Folder::of(data_dir);
    let member = folder.joined()?;
    let store = Store::of(&folder, &member)?;
    let (state, id, revision) = store.read(member.cluster)?;
    if state.cluster().is_none() {
        return Err(Refusal::NoCluster(member.cluster).into());
    }
    let (node, kept) = kept(data_dir).map_err(ClusterError::Kept)?;
    let seen = kept.as_ref().and_then(|it| it.seen(member.cluster));
    let before = kept.filter(|_| seen.is_some()).map(|it| it.volumes).unwrap_or_default();
    let proof = seen.and_then(|seen| check_start(seen, node, (id, revision), &state).err());
    let after: BTreeMap<Uuid, _> = volumes(&state).into_iter().map(|it| (it.uuid, it)).collect();
    let known: BTreeSet<Uuid> = before.iter().map(|it| it.uuid).collect();
    let lost = before.iter().filter(|it| !after.contains_key(&it.uuid));
    let back = after.values().filter(|it| seen.is_some() && !known.contains(&it.uuid));
    let resized = before.iter().filter_map(|it| {
        let found = after.get(&it.uuid).filter(|found| found.len != it.len)?;
        Some(format!("{} ({} instead of {})", it.name, ByteLen(found.len), ByteLen(it.len)))
    });
    let shown = |it: &SeenVolume| format!("{} ({})", it.name, ByteLen(it.len));
    let mut restored = Restored {
        proof: proof.map(|it| it.to_string()),
        was_seen: seen.is_some(),
        lost: lost.map(shown).collect(),
        back: back.map(shown).collect(),
        resized: resized.collect(),
        is_accepted: false,
    };
    for list in [&mut restored.lost, &mut restored.back, &mut restored.resized] {
        list.sort();
    }
    if accepts {
        accept(&store, &state)?;
        restored.is_accepted = true;
    }
    Ok(restored)
}

/// Lets another history of the store begin. No node runs.
fn accept(store: &Store, state: &ClusterState) -> Result<(), ClusterError> {
    for (node, record) in state.nodes() {
        if state.alive().contains_key(node) {
            return Err(Refusal::NodeUp(record.name.clone()).into());
        }
        if let Some(address) = answers(state, *node) {
            let node = record.name.as_str().into();
            return Err(ClusterError::NodeAnswers { node, address });
        }
    }
    let began = state.history().map_or(0, |it| it.began + 1).max(now().0);
    let history = HistoryRecord { schema: Schema, id: Uuid::new_v4(), began };
    for txn in acceptance(state, &history) {
        if !store.txn(state.uuid(), &txn)? {
            return Err(ClusterError::Contended);
        }
    }
    Ok(())
}
