//! The nodes that a job waits for.

use std::collections::BTreeMap;

use nearflash_records::record::{JobKind, JobState};
use nearflash_records::state::ClusterState;
use nearflash_space::Name;
use uuid::Uuid;

use super::place::place_more;
use super::volume::missing;
use crate::refusal::{Away, Refusal};

/// Why a job waits for a node. Of several reasons, the last one is told.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Awaited {
    /// It zeroes its places.
    Zeroing,
    /// It runs without a slice that has such a place, or that has room for one.
    SliceClosed,
    /// It is down.
    Down,
}

/// The nodes that a job waits for: their places are not zeroed yet, or rows are missing that have a place there.
pub fn waits_for(state: &ClusterState, number: u64) -> BTreeMap<Name, Awaited> {
    let mut nodes = BTreeMap::new();
    let Some(job) = state.jobs().get(&number).filter(|job| job.state == JobState::Running) else {
        return nodes;
    };
    let mut add = |node: Name, awaited: Awaited| {
        let told = nodes.entry(node).or_insert(awaited);
        *told = awaited.max(*told);
    };
    for place in state.places_to_zero().filter(|it| it.mirror.volume == job.volume) {
        let node = state.node_of(&place.slice);
        let awaited = match node {
            _ if state.is_open(&place.slice) => Awaited::Zeroing,
            Some(node) if state.alive().contains_key(&node) => Awaited::SliceClosed,
            _ => Awaited::Down,
        };
        let name = node.and_then(|node| Some(state.nodes().get(&node)?.name.clone()));
        name.into_iter().for_each(|name| add(name, awaited));
    }
    let mirrors = job.moves.iter().flat_map(|moves| state.replicas_of_move(job.volume, *moves));
    let nodes_under =
        mirrors.flat_map(|(key, _)| state.slices_under(key)).filter_map(|it| state.node_of(&it));
    for node in nodes_under.filter(|node| !state.alive().contains_key(node)) {
        // A mirror moves when its other replica is in sync.
        state.nodes().get(&node).into_iter().for_each(|it| add(it.name.clone(), Awaited::Down));
    }
    if job.kind != JobKind::RemoveVolume {
        let Away { down, closed } = away(state, job.volume);
        closed.into_iter().for_each(|(node, _)| add(node, Awaited::SliceClosed));
        down.into_iter().for_each(|node| add(node, Awaited::Down));
    }
    nodes
}

/// The slices that the missing rows of a volume need, and that are not open.
fn away(state: &ClusterState, uuid: Uuid) -> Away {
    let Some(volume) = state.volumes().get(&uuid) else { return Away::default() };
    let blocks = volume.planned.unwrap_or(volume.blocks);
    match missing(state, (uuid, volume), blocks) {
        Ok(Some(missing)) => match place_more(state, volume, missing) {
            Err(Refusal::Away { away, .. }) => away,
            _ => Away::default(),
        },
        _ => Away::default(),
    }
}
