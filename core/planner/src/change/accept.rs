//! Going on with a store that was restored from an older snapshot.

use nearflash_records::key::Key;
use nearflash_records::record::{HistoryRecord, Record as _};
use nearflash_records::state::ClusterState;
use nearflash_records::store::{Compare, Put, TXN_OPERATIONS_MAX, Txn};

/// The transactions that let another history of the store begin, in their order. They have no effect if a node runs.
///
/// The notes of zeroed places go first: since the snapshot, a place may have been used and freed again, and what was
/// written there must not show in a new volume.
pub fn accept_restored(state: &ClusterState, history: &HistoryRecord) -> Vec<Txn> {
    let alive = state.nodes().keys().map(|node| Key::Alive(*node));
    let compare = |key: Key| Compare { mod_revision: state.revision(&key), key };
    let compares: Vec<Compare> =
        [Key::Cluster, Key::History].into_iter().chain(alive).map(compare).collect();
    let notes: Vec<Key> =
        state.zeroed().map(|(mirror, place)| Key::Zeroed(mirror, place)).collect();
    let forget = |notes: &[Key]| {
        let (compares, deletes) = (compares.clone(), notes.to_vec());
        Txn { compares, puts: Vec::new(), deletes }
    };
    let mut txns: Vec<Txn> = notes.chunks(TXN_OPERATIONS_MAX).map(forget).collect();
    let puts = vec![Put { key: Key::History, value: history.encode().into(), lease: None }];
    txns.push(Txn { compares, puts, deletes: Vec::new() });
    txns
}
