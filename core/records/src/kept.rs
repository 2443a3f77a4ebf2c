//! The newest state of the cluster's store that a node has seen, which it keeps in its own catalog. So a store that
//! has gone back is known after a restart, too.
//!
//! The names and meanings of these fields are permanent; a field that a later version adds has a default.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::{HistoryRecord, VolumeRecord, VolumeState};
use crate::state::ClusterState;
use crate::store::StoreId;

/// The state of the store that a node has seen, which it keeps durably.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The store.
    pub store: StoreId,
    /// The revision at which the node wrote its key `seen` last.
    pub revision: u64,
    /// The history; `None` before a store has this record.
    pub history: Option<HistoryRecord>,
}

/// The newest state of the store that the node has seen, with the volumes of that time.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SeenRecord {
    /// The cluster.
    cluster: Uuid,
    /// etcd's cluster id.
    store: u64,
    /// The revision at which the node wrote its key last.
    revision: u64,
    /// The history; absent for a store without this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<HistoryRecord>,
    /// The volumes, for the operator who accepts an older state.
    pub volumes: Vec<SeenVolume>,
}

/// A volume of the cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SeenVolume {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

impl SeenRecord {
    /// The record of what was seen, with the volumes of this state.
    pub fn of(seen: Seen, state: &ClusterState) -> Self {
        Self {
            cluster: state.uuid(),
            store: seen.store.0,
            revision: seen.revision,
            history: seen.history,
            volumes: volumes(state),
        }
    }

    /// The state that was seen, if it is of this cluster.
    pub fn seen(&self, cluster: Uuid) -> Option<Seen> {
        let Self { store, revision, history, .. } = *self;
        let seen = Seen { store: StoreId(store), revision, history };
        Some(seen).filter(|_| self.cluster == cluster)
    }

    /// Whether this is to be kept instead of the other one, which was perhaps written earlier.
    pub fn replaces(&self, other: &Self) -> bool {
        let age = |it: &Self| (it.history.map(|it| it.began), it.revision);
        self.cluster != other.cluster || age(self) > age(other)
    }
}

/// The volumes that are not being removed.
pub fn volumes(state: &ClusterState) -> Vec<SeenVolume> {
    let volumes = state.volumes().iter().filter(|(_, it)| it.state != VolumeState::Removing);
    let volume = |(uuid, it): (&Uuid, &VolumeRecord)| SeenVolume {
        uuid: *uuid,
        name: it.name.to_string(),
        len: it.len().0,
    };
    volumes.map(volume).collect()
}
