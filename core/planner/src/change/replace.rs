//! Removing a node that does not run, and replacing its replicas: mirror by mirror, each in one
//! transaction.
//!
//! The planner writes the places of replicas and never the membership of a mirror, which only replicas in
//! sync change. Its transactions compare the membership, so that no replica in sync is removed. A new
//! replica has an ordinal that the mirror has never had. It is not in sync: it joins its primary as any
//! replica that returns, and everything is copied to it before it counts.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_device::MirrorKey;
use nearflash_records::key::Key;
use nearflash_records::record::{
    InSyncRecord, Placement, RemovedRecord, ReplicaRecord, RoomRecord, RoomState, Schema,
    VolumeRecord, VolumeState,
};
use nearflash_records::state::{ClusterState, Inconsistent, MirrorView};
use nearflash_records::store::Put;
use uuid::Uuid;

use super::place::Rooms;
use super::volume::{change_room, drop_last_row, forget_zeroed};
use super::{Draft, Step};
use crate::refusal::{Affected, Refusal};

/// The consequence of a node's removal for a mirror that has a replica on it.
enum Fate {
    /// The replica is replaced.
    Replaced,
    /// The replica counts still, next to another one.
    StillInSync,
    /// The replica is the only one that counts, or no other one may go on without it.
    Lost,
    /// The replica does not count, and the one that does is on this node, which is down.
    Older(Uuid),
}

/// See [`super::Change::RemoveNode`].
pub(super) fn remove_node(
    state: &ClusterState,
    node: Uuid,
    gives_up: bool,
) -> Result<Step, Refusal> {
    let Some(known) = state.nodes().get(&node) else {
        let is_removed = state.removed().contains_key(&node);
        return if is_removed { Ok(Step::Done) } else { Err(Refusal::NoNode(node)) };
    };
    if state.alive().contains_key(&node) {
        return Err(Refusal::NodeUp(known.name.clone()));
    }
    let (lost, kept) = examine(state, node, gives_up)?;
    let mut draft = Draft::new(state)?;
    draft.decided_on(Key::Node(node))?;
    // It must not start meanwhile.
    draft.decided_on(Key::Alive(node))?;
    if close_rooms(&mut draft, node)? {
        return draft.submit();
    }
    for (uuid, volume) in state.volumes().iter().filter(|(uuid, _)| !lost.contains(uuid)) {
        if drop_unfinished_row(&mut draft, (*uuid, volume), node)? {
            return draft.submit();
        }
        if volume.placement.node() == Some(node) {
            let placement = Placement::Spread;
            draft.put(Key::Volume(*uuid), &VolumeRecord { placement, ..volume.clone() })?;
            return draft.submit();
        }
    }
    if let Some(view) = kept.first() {
        let mut rooms = Rooms::running(state)?;
        replace(&mut draft, view, |slice| state.node_of(slice) == Some(node), &mut rooms)?;
        return draft.submit();
    }
    let slices: Vec<Uuid> = slices_of(state, node).collect();
    for slice in &slices {
        draft.delete(Key::Slice(*slice))?;
        draft.delete(Key::Room(*slice))?;
    }
    draft.delete(Key::NodeName(known.name.clone()))?;
    draft.delete(Key::Node(node))?;
    draft.txn.deletes.push(Key::Seen(node));
    // The ordinal stays taken: hosts may know controllers by it.
    let (name, machine) = (known.name.clone(), known.machine.clone());
    let removed = RemovedRecord { schema: Schema, name, machine, slices };
    draft.put(Key::Removed(node), &removed)?;
    draft.submit()
}

/// See [`super::Change::Repair`].
pub(super) fn repair(state: &ClusterState) -> Result<Step, Refusal> {
    let mut rooms = Rooms::running(state)?;
    let mut without_place = Affected::default();
    for (uuid, volume) in state.volumes() {
        if volume.state != VolumeState::Ready || volume.replicas < 2 {
            continue;
        }
        let rows = state.rows(*uuid, volume)?;
        for view in rows.iter().take(zeroed(volume)).flatten() {
            let [only] = view.replicas.replicas[..] else { continue };
            // The data of a node that was removed is lost.
            if state.node_of(&only.slice).is_none() {
                continue;
            }
            let mut draft = Draft::new(state)?;
            if replace(&mut draft, view, |_| false, &mut rooms)? {
                return draft.submit();
            }
            without_place.add(volume, view);
        }
    }
    match without_place.count {
        0 => Ok(Step::Done),
        _ => Err(Refusal::NoPlace(without_place)),
    }
}

/// The mirrors that are lost if the node is removed.
///
/// # Errors
/// When a record is damaged.
pub fn lost_by_removal(state: &ClusterState, node: Uuid) -> Result<Affected, Refusal> {
    let mut lost = Affected::default();
    each_replica_on(state, node, |volume, view, fate| {
        if matches!(fate, Fate::Lost) {
            lost.add(volume, view);
        }
    })?;
    Ok(lost)
}

/// The volumes of which data is lost, and the mirrors of the others whose replicas are replaced.
fn examine(
    state: &ClusterState,
    node: Uuid,
    gives_up: bool,
) -> Result<(BTreeSet<Uuid>, Vec<MirrorView<'_>>), Refusal> {
    let (mut in_sync, mut only) = (Affected::default(), Affected::default());
    let (mut lost, mut replaced) = (BTreeSet::new(), Vec::new());
    let mut older: BTreeMap<Uuid, Affected> = BTreeMap::new();
    each_replica_on(state, node, |volume, view, fate| match fate {
        Fate::StillInSync => in_sync.add(volume, view),
        Fate::Lost => {
            only.add(volume, view);
            lost.insert(view.key.volume);
        }
        Fate::Older(newest) => {
            older.entry(newest).or_default().add(volume, view);
            replaced.push(*view);
        }
        Fate::Replaced => replaced.push(*view),
    })?;
    let name = |uuid: &Uuid| {
        let found = state.nodes().get(uuid).map(|it| it.name.clone());
        found.ok_or(Refusal::NoNode(*uuid))
    };
    let name_of_node = name(&node)?;
    if in_sync.count > 0 {
        return Err(Refusal::StillInSync { node: name_of_node, mirrors: in_sync });
    }
    if only.count > 0 && !gives_up {
        return Err(Refusal::OnlyCopies { node: name_of_node, mirrors: only });
    }
    if let Some((newest, mirrors)) = older.into_iter().next().filter(|_| !gives_up) {
        let newest = name(&newest)?;
        return Err(Refusal::OlderCopies { node: name_of_node, newest, mirrors });
    }
    replaced.retain(|view| !lost.contains(&view.key.volume));
    Ok((lost, replaced))
}

/// Looks at each replica on the node that may hold data.
fn each_replica_on<'a>(
    state: &'a ClusterState,
    node: Uuid,
    mut look: impl FnMut(&VolumeRecord, &MirrorView<'a>, Fate),
) -> Result<(), Refusal> {
    let name = state.nodes().get(&node).map(|it| it.name.clone()).ok_or(Refusal::NoNode(node))?;
    for (uuid, volume) in state.volumes() {
        for (row, views) in state.rows(*uuid, volume)?.iter().enumerate() {
            for view in views {
                let Some(own) = replica_on(state, view, node) else { continue };
                match volume.state {
                    VolumeState::Ready if row < zeroed(volume) => {
                        look(volume, view, fate(state, view, own));
                    }
                    // The row was never used.
                    VolumeState::Ready => {}
                    VolumeState::Making | VolumeState::Removing => {
                        let volume = volume.name.clone();
                        return Err(Refusal::PartOfIncomplete { volume, node: name });
                    }
                }
            }
        }
    }
    Ok(())
}

fn replica_on(state: &ClusterState, view: &MirrorView<'_>, node: Uuid) -> Option<ReplicaRecord> {
    let mut replicas = view.replicas.replicas.iter();
    replicas.find(|it| state.node_of(&it.slice) == Some(node)).copied()
}

fn fate(state: &ClusterState, view: &MirrorView<'_>, own: ReplicaRecord) -> Fate {
    let slice_of = |element: &InSyncRecord| {
        let replica = view.replicas.replicas.iter().find(|it| it.ordinal == element.replica)?;
        state.slices().get(&replica.slice)
    };
    let is_own = |element: &&InSyncRecord| element.replica == own.ordinal;
    let is_counted = view.mirror.in_sync.iter().any(|it| is_own(&it));
    let others = view.mirror.in_sync.iter().filter(|it| !is_own(it));
    let others: Vec<_> = others.filter_map(|it| Some((it, slice_of(it)?))).collect();
    let runs = |node: Uuid| state.alive().contains_key(&node);
    if is_counted {
        // One that has restarted may hold less, and goes on only after it has heard the other one.
        let is_sound = others
            .iter()
            .any(|(element, slice)| runs(slice.node) && slice.incarnation == element.incarnation);
        return if is_sound { Fate::StillInSync } else { Fate::Lost };
    }
    match others.first() {
        Some(_) if others.iter().any(|(_, slice)| runs(slice.node)) => Fate::Replaced,
        Some((_, slice)) => Fate::Older(slice.node),
        None => Fate::Lost,
    }
}

/// Takes the node's slices out of placement. Returns whether there is something to write.
fn close_rooms(draft: &mut Draft<'_>, node: Uuid) -> Result<bool, Refusal> {
    let state = draft.state;
    let mut is_changed = false;
    for slice in slices_of(state, node) {
        let room = state.rooms().get(&slice).filter(|room| room.state != RoomState::Gone);
        if let Some(room) = room {
            let version = room.version.saturating_add(1);
            let closed = RoomRecord { state: RoomState::Gone, version, ..*room };
            draft.put(Key::Room(slice), &closed)?;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// Undoes the growth of a volume that was not finished, if it needs the node: row by row, the last one
/// first. Returns whether there is something to write.
fn drop_unfinished_row(
    draft: &mut Draft<'_>,
    (uuid, known): (Uuid, &VolumeRecord),
    node: Uuid,
) -> Result<bool, Refusal> {
    let state = draft.state;
    let rows = state.rows(uuid, known)?;
    let mut unfinished = rows.iter().skip(zeroed(known)).flatten();
    if !unfinished.any(|view| replica_on(state, view, node).is_some()) {
        return Ok(false);
    }
    let Some(last) = rows.last() else { return Ok(false) };
    draft.decided_on(Key::Volume(uuid))?;
    if !forget_zeroed(draft, last)? {
        let mut volume = known.clone();
        drop_last_row(draft, &mut volume, last)?;
        draft.put(Key::Volume(uuid), &volume)?;
    }
    Ok(true)
}

/// Notes that a mirror uses space on a slice.
pub(super) fn take_place(
    draft: &mut Draft<'_>,
    mirror: MirrorKey,
    slice: Uuid,
) -> Result<(), Refusal> {
    draft.decided_on(Key::Slice(slice))?;
    change_room(draft, slice)?;
    let key = Key::On(slice, mirror);
    draft.txn.puts.push(Put { key, value: Vec::new().into(), lease: None });
    Ok(())
}

/// Removes those replicas of a mirror that do not stay, and adds one on another node if there is room.
/// Returns whether it is added.
fn replace(
    draft: &mut Draft<'_>,
    view: &MirrorView<'_>,
    is_removed: impl Fn(&Uuid) -> bool,
    rooms: &mut Rooms,
) -> Result<bool, Refusal> {
    draft.decided_on(Key::Mirror(view.key))?;
    draft.decided_on(Key::Volume(view.key.volume))?;
    let (removed, stay): (Vec<&ReplicaRecord>, Vec<&ReplicaRecord>) =
        view.replicas.replicas.iter().partition(|it| is_removed(&it.slice));
    for replica in &removed {
        if view.mirror.in_sync.iter().any(|it| it.replica == replica.ordinal) {
            // Others have examined the one replica that a mirror has on a node.
            let reason = "has two replicas on one node";
            return Err(Inconsistent::of(&Key::Replicas(view.key), reason).into());
        }
        draft.txn.deletes.push(Key::On(replica.slice, view.key));
    }
    let node = stay.first().and_then(|it| draft.state.node_of(&it.slice));
    let place = node.filter(|_| stay.len() < 2);
    let place = place.and_then(|node| rooms.take_beyond(&[node], None, view.mirror.len));
    let record = view.replicas.replaced(|it| !is_removed(&it.slice), place);
    let added = record.replicas.last().filter(|_| record.replicas.len() > stay.len()).copied();
    if let Some(ReplicaRecord { slice, .. }) = added {
        take_place(draft, view.key, slice)?;
    }
    draft.put(Key::Replicas(view.key), &record)?;
    Ok(added.is_some())
}

pub(super) fn slices_of(state: &ClusterState, node: Uuid) -> impl Iterator<Item = Uuid> + '_ {
    state.slices().iter().filter(move |(_, it)| it.node == node).map(|(uuid, _)| *uuid)
}

/// The number of rows that are in use.
pub(super) fn zeroed(volume: &VolumeRecord) -> usize {
    nearflash_units::index(volume.zeroed_rows)
}

impl Affected {
    pub(super) fn add(&mut self, volume: &VolumeRecord, view: &MirrorView<'_>) {
        self.count += 1;
        self.len.0 += view.mirror.len.0;
        self.volumes.insert(volume.name.clone());
    }
}
