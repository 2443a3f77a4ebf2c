//! The verdict on the mirrors of volumes with two replicas.
//!
//! A copy counts if its replica is in sync, in the present incarnation of its slice, and its node
//! runs. A mirror is served by its primary. A node counts as running for seconds after it has ended, so
//! one whose primary does not run has not been taken over, for whatever reason. A replica whose slice was opened
//! again serves nothing before it has heard the other one in sync.

use std::collections::BTreeSet;

use nearflash_records::record::VolumeState;
use nearflash_records::state::ClusterState;
use nearflash_space::Name;
use uuid::Uuid;

use super::{Level, NAMES_MAX, Part};
use crate::compile::{MirrorLayout, SlicePlace, Tables};

/// The mirrors that no node serves: the primary is on a node that is down, or waits for such a node.
pub(super) fn unserved(state: &ClusterState, tables: &Tables) -> Option<Part> {
    let is_used = |layout: &&MirrorLayout| {
        let volume = state.volumes().get(&layout.key.volume);
        layout.is_zeroed && volume.is_some_and(|it| it.state == VolumeState::Ready)
    };
    let is_unserved = |layout: &&MirrorLayout| {
        let is_away = |place: &SlicePlace| is_down(state, place);
        let is_primary_away = primary(tables, layout).is_some_and(is_away);
        let has_away = in_sync(tables, layout).any(|(_, place)| is_away(place));
        is_primary_away || has_away && copies(state, tables, layout) == 0
    };
    let unserved: Vec<&MirrorLayout> =
        tables.mirrors.iter().filter(is_used).filter(is_unserved).collect();
    let first = unserved.first()?.key.volume;
    let of_first = unserved.iter().filter(|it| it.key.volume == first);
    let numbers: Vec<String> = of_first.map(|it| it.key.number.to_string()).collect();
    let mirrors = if numbers.len() == 1 { "mirror" } else { "mirrors" };
    let more = if numbers.len() > NAMES_MAX { ", …" } else { "" };
    let named = numbers[..numbers.len().min(NAMES_MAX)].join(", ");
    let name = state.volumes().get(&first).map_or("", |it| it.name.as_str());
    let volumes: BTreeSet<Uuid> = unserved.iter().map(|it| it.key.volume).collect();
    let others = match volumes.len() - 1 {
        0 => String::new(),
        1 => " and parts of another volume".to_owned(),
        others => format!(" and parts of {others} other volumes"),
    };
    let nodes = unserved.iter().flat_map(|it| in_sync(tables, it));
    let (away, up): (Vec<_>, Vec<_>) =
        nodes.map(|(_, place)| place).partition(|place| is_down(state, place));
    let [nodes, up] = [away, up].map(|places| names(places.iter().map(|place| &place.node_name)));
    let are_on = match (nodes.len(), up.len()) {
        (1, 0) => format!("the newest copy is on {}, which is down", nodes[0]),
        (_, 0) => format!("the newest copies are on {}, which are down", nodes.join(", ")),
        (_, _) => format!(
            "nothing is served without {}, and {} has not taken over",
            nodes.join(", "),
            up.join(", ")
        ),
    };
    let reason = format!("{mirrors} {named}{more} of {name}{others} cannot be used: {are_on}");
    Some(Part::new(Level::Unavailable, reason, format!("start {}", nodes.join(", "))))
}

/// The place of the primary.
fn primary<'a>(tables: &'a Tables, layout: &MirrorLayout) -> Option<&'a SlicePlace> {
    let primary = layout.record.primary;
    let replica = layout.replicas.iter().find(|it| it.ordinal == primary)?;
    tables.slices.get(&replica.slice)
}

/// The number of copies of a mirror that count.
pub(super) fn copies(state: &ClusterState, tables: &Tables, layout: &MirrorLayout) -> usize {
    let copies = in_sync(tables, layout).filter(|((slice, incarnation), place)| {
        let present = state.slices().get(slice).map(|it| it.incarnation);
        present == Some(*incarnation) && !is_down(state, place)
    });
    copies.count()
}

/// The mirrors with less than two copies.
pub(super) fn lacking(state: &ClusterState, tables: &Tables) -> Option<Part> {
    let copies = |layout: &MirrorLayout| copies(state, tables, layout);
    let counted: Vec<(usize, &MirrorLayout)> =
        tables.mirrors.iter().map(|layout| (copies(layout), layout)).collect();
    let count = |wanted: usize| counted.iter().filter(|(copies, _)| *copies == wanted).count();
    let all = counted.len();
    let have = |few: usize| match (few, all) {
        (1, 1) => "the only mirror has".to_owned(),
        (1, _) => format!("1 of {all} mirrors has"),
        _ => format!("{few} of {all} mirrors have"),
    };
    let reason = match (count(1), count(0)) {
        (0, 0) => return None,
        (one, 0) => format!("{} one copy in sync", have(one)),
        (0, none) => format!("{} no copy in sync", have(none)),
        (one, none) => format!("{} one copy in sync; without a copy: {none}", have(one)),
    };
    let mut lacking = counted.iter().filter(|(copies, _)| *copies < 2);
    let places = lacking.clone().flat_map(|(_, layout)| &layout.replicas);
    let places = places.filter_map(|replica| tables.slices.get(&replica.slice));
    let away = names(places.filter(|place| is_down(state, place)).map(|place| &place.node_name));
    let has_place = |layout: &MirrorLayout| layout.replicas.len() > 1;
    let remedy = match (away.len(), count(0)) {
        (0, _) if !lacking.all(|(_, layout)| has_place(layout)) => {
            "start a further node with --slice if there is no room, and `nearflash cluster repair`"
                .to_owned()
        }
        // A node counts as running for seconds after it was killed, and nothing is copied then.
        (0, 0) => {
            "wait until the others are compared and copied; a node that has just ended is named \
                   within seconds"
                .to_owned()
        }
        (0, _) => "wait, the copies are compared since their nodes have restarted".to_owned(),
        _ => format!("start {}", away.join(", ")),
    };
    Some(Part::new(Level::Degraded, reason, remedy))
}

/// The replicas in sync: slice and incarnation, and the place of the slice.
fn in_sync<'a>(
    tables: &'a Tables,
    layout: &'a MirrorLayout,
) -> impl Iterator<Item = ((Uuid, u64), &'a SlicePlace)> {
    layout.record.in_sync.iter().filter_map(|element| {
        let replica = layout.replicas.iter().find(|it| it.ordinal == element.replica)?;
        let place = tables.slices.get(&replica.slice)?;
        Some(((replica.slice, element.incarnation), place))
    })
}

fn is_down(state: &ClusterState, place: &SlicePlace) -> bool {
    !state.alive().contains_key(&place.node)
}

/// The names, each once and in order.
fn names<'a>(names: impl Iterator<Item = &'a Name>) -> Vec<&'a str> {
    let names: BTreeSet<&Name> = names.collect();
    names.into_iter().map(Name::as_str).collect()
}
