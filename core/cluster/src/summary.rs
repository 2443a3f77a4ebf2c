//! The nodes of a cluster for people: whether they run, their space, and their parts in the mirrors.

use std::collections::BTreeMap;

use nearflash_records::record::RoomState;
use nearflash_records::state::{ClusterState, Inconsistent};
use nearflash_space::Name;
use nearflash_units::ByteLen;
use uuid::Uuid;

/// The space of a slice, or of several.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SliceSpace {
    /// The space for volumes, used and free.
    pub data: ByteLen,
    /// The part of it that new volumes can use. A slice that leaves the cluster has none.
    pub free: ByteLen,
}

/// A node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeSummary {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// The name of its machine as a member of etcd; empty for a machine that is not a member.
    pub machine: String,
    /// The version of its program.
    pub version: String,
    /// Whether it counts as running.
    pub is_running: bool,
    /// The space of its slices.
    pub space: SliceSpace,
    /// The replicas on its slices.
    pub replicas: u64,
    /// The mirrors whose primary is one of them.
    pub primaries: u64,
}

impl SliceSpace {
    fn add(&mut self, other: Self) {
        self.data.0 += other.data.0;
        self.free.0 += other.free.0;
    }

    /// The space of all of these nodes.
    pub fn of_nodes(nodes: &[NodeSummary]) -> Self {
        let mut all = Self::default();
        nodes.iter().for_each(|node| all.add(node.space));
        all
    }
}

/// The space of each slice.
///
/// # Errors
/// When a record is damaged: then it is not known which space is taken.
pub fn slice_spaces(state: &ClusterState) -> Result<BTreeMap<Uuid, SliceSpace>, Inconsistent> {
    let mut used = BTreeMap::<Uuid, u64>::new();
    for view in state.mirrors()? {
        for replica in &view.replicas.replicas {
            *used.entry(replica.slice).or_default() += view.mirror.len.0;
        }
    }
    let space = |(uuid, slice): (&Uuid, &nearflash_records::record::SliceRecord)| {
        let data = slice.data_len();
        let is_in = state.rooms().get(uuid).is_some_and(|room| room.state == RoomState::In);
        let used = used.get(uuid).copied().unwrap_or_default();
        let free = if is_in { ByteLen(data.0.saturating_sub(used)) } else { ByteLen(0) };
        (*uuid, SliceSpace { data, free })
    };
    Ok(state.slices().iter().map(space).collect())
}

/// The nodes, in the order of their numbers.
///
/// # Errors
/// As for [`slice_spaces`].
pub fn summary(state: &ClusterState) -> Result<Vec<NodeSummary>, Inconsistent> {
    let spaces = slice_spaces(state)?;
    let mut nodes: BTreeMap<Uuid, NodeSummary> = BTreeMap::new();
    for (uuid, node) in state.nodes() {
        let summary = NodeSummary {
            uuid: *uuid,
            name: node.name.clone(),
            machine: node.machine.clone(),
            version: node.version.clone(),
            is_running: state.alive().contains_key(uuid),
            space: SliceSpace::default(),
            replicas: 0,
            primaries: 0,
        };
        nodes.insert(*uuid, summary);
    }
    let node_of = |slice: &Uuid| state.slices().get(slice).map(|it| it.node);
    for (slice, space) in &spaces {
        if let Some(node) = node_of(slice).and_then(|node| nodes.get_mut(&node)) {
            node.space.add(*space);
        }
    }
    for view in state.mirrors()? {
        for replica in &view.replicas.replicas {
            let Some(node) = node_of(&replica.slice).and_then(|node| nodes.get_mut(&node)) else {
                continue;
            };
            node.replicas += 1;
            node.primaries += u64::from(replica.ordinal == view.mirror.primary);
        }
    }
    let mut nodes: Vec<NodeSummary> = nodes.into_values().collect();
    nodes.sort_by_key(|node| state.nodes().get(&node.uuid).map(|it| it.ordinal));
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use nearflash_planner::model::{GIB, Model, cluster_of, volume};
    use nearflash_planner::{Change, VolumeSpec};

    use super::*;

    fn free(model: &Model) -> Vec<u64> {
        summary(&model.state()).unwrap().iter().map(|it| it.space.free.0 / GIB).collect()
    }

    #[test]
    fn the_space_and_the_replicas_of_each_node_are_counted() {
        let mut model = cluster_of(3, ByteLen(80 * GIB));
        let nodes = summary(&model.state()).unwrap();
        let names: Vec<&str> = nodes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        assert!(nodes.iter().all(|it| it.space.free == it.space.data && it.replicas == 0));
        let before: u64 = free(&model).iter().sum();
        let spec = VolumeSpec { replicas: 2, ..volume(1, ByteLen(6 * GIB)) };
        model.carry_out(&Change::CreateVolume(spec)).unwrap();
        let nodes = summary(&model.state()).unwrap();
        let counts: Vec<(u64, u64)> = nodes.iter().map(|it| (it.replicas, it.primaries)).collect();
        assert_eq!(counts.iter().map(|it| it.0).sum::<u64>(), 6, "three mirrors: {counts:?}");
        assert_eq!(counts.iter().map(|it| it.1).sum::<u64>(), 3, "{counts:?}");
        assert_eq!(before - free(&model).iter().sum::<u64>(), 12, "both replicas take space");
        let all = SliceSpace::of_nodes(&nodes);
        assert_eq!(all.data.0 - all.free.0, 12 * GIB);
    }
}
