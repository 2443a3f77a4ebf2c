//! Moving replicas from a node to others, mirror by mirror.
//!
//! One transaction gives a mirror a third place, and says which replica is to leave. The memberships of the nodes copy
//! everything to the new one, and put it in the place of that one (`core/mirror/src/membership.rs`). A second
//! transaction removes the place of the replica that has left; it compares the membership, so that no replica in sync
//! is removed. Before that, the move can be undone: then the replica that is not in sync goes, whichever it is.

use std::collections::BTreeSet;

use nearflash_device::MirrorKey;
use nearflash_records::key::Key;
use nearflash_records::record::{
    JobKind, JobRecord, JobState, MOVES_LEVEL, MovesRecord, MovingRecord, RoomRecord, RoomState,
    Schema, VolumeRecord, VolumeState,
};
use nearflash_records::state::{ClusterState, MirrorView};
use nearflash_space::Name;
use uuid::Uuid;

use super::job::{end, insert, undone};
use super::place::Rooms;
use super::replace::{slices_of, take_place, zeroed};
use super::volume::change_room;
use super::{Begin, Change, Draft, Step};
use crate::refusal::{Affected, Refusal};

/// The replicas that leave a node, or come to it, at a time.
pub const MOVES_MAX: usize = 2;

/// The replicas of a mirror that can move.
const REPLICAS: u8 = 2;

/// A change of the places of replicas, as a caller asks for it.
#[derive(Clone, Copy, Debug)]
pub enum AskedMove<'a> {
    /// The replicas of a volume leave a node.
    Volume {
        /// The volume.
        name: &'a str,
        /// The node that they leave.
        from: &'a str,
        /// The node that gets them; `None` for any.
        to: Option<&'a str>,
    },
    /// All replicas leave a node, and no other ones are placed there.
    Drain(&'a str),
    /// Replicas are placed on a node again.
    Undrain(&'a str),
}

impl AskedMove<'_> {
    /// The change of the records.
    ///
    /// # Errors
    /// When there is no such volume or node.
    pub fn change(&self, state: &ClusterState, begin: Begin) -> Result<Change, Refusal> {
        let node =
            |name: &str| state.node_named(name).ok_or_else(|| Refusal::NoNodeNamed(name.into()));
        match *self {
            Self::Drain(name) => Ok(Change::DrainNode { node: node(name)?, begin }),
            Self::Undrain(name) => Ok(Change::UndrainNode { node: node(name)? }),
            Self::Volume { name, from, to } => {
                let moves = MovesRecord { from: node(from)?, to: to.map(node).transpose()? };
                let name_of_volume = name.parse::<Name>().ok();
                let found = name_of_volume.and_then(|name| Some(state.volume_named(&name)?.0));
                let volume = found.ok_or_else(|| Refusal::NoVolumeNamed(name.into()))?;
                Ok(Change::MoveVolume { volume, moves, begin })
            }
        }
    }
}

/// The newest job of such a change.
pub fn job_of_move(state: &ClusterState, change: &Change) -> Option<u64> {
    let (volume, moves) = match change {
        Change::MoveVolume { volume, moves, .. } => (*volume, *moves),
        Change::DrainNode { node, .. } => (Uuid::nil(), MovesRecord { from: *node, to: None }),
        _ => return None,
    };
    let is_such = |job: &JobRecord| job.volume == volume && job.moves == Some(moves);
    state.jobs().iter().rev().find(|(_, job)| is_such(job)).map(|(id, _)| *id)
}

/// See [`super::Change::MoveVolume`].
pub(super) fn move_volume(
    state: &ClusterState,
    uuid: Uuid,
    moves: MovesRecord,
    by: Begin,
) -> Result<Step, Refusal> {
    let known = state.volumes().get(&uuid).ok_or(Refusal::NoVolume(uuid))?;
    let (node, volume) = (name_of(state, moves.from)?, known.name.clone());
    match known.state {
        VolumeState::Making => return Err(Refusal::NotReady(volume)),
        VolumeState::Removing => return Err(Refusal::Removed(uuid)),
        VolumeState::Ready => {}
    }
    if let Some(to) = moves.to.map(|to| name_of(state, to)).transpose()?
        && to == node
    {
        return Err(Refusal::MoveToItself(to));
    }
    if is_under_way(state, uuid, moves) {
        return Ok(Step::Done);
    }
    check_replicas(state, &node, state.replicas_of_move(uuid, moves).map(|(key, _)| key))?;
    if state.replicas_of_move(uuid, moves).next().is_none() {
        return Err(Refusal::NoReplicaOn { volume, node });
    }
    let draft = Draft::of_level(state, MOVES_LEVEL)?;
    begin(draft, JobKind::MoveVolume, (uuid, volume), moves, by)
}

/// See [`super::Change::DrainNode`].
pub(super) fn drain(state: &ClusterState, node: Uuid, by: Begin) -> Result<Step, Refusal> {
    let (name, moves) = (name_of(state, node)?, MovesRecord { from: node, to: None });
    if is_under_way(state, Uuid::nil(), moves) {
        return Ok(Step::Done);
    }
    check_replicas(state, &name, state.replicas_of_move(Uuid::nil(), moves).map(|(key, _)| key))?;
    let mut draft = Draft::of_level(state, MOVES_LEVEL)?;
    set_rooms(&mut draft, node, RoomState::Draining)?;
    begin(draft, JobKind::DrainNode, (Uuid::nil(), name), moves, by)
}

/// See [`super::Change::UndrainNode`].
pub(super) fn undrain(state: &ClusterState, node: Uuid) -> Result<Step, Refusal> {
    let (name, moves) = (name_of(state, node)?, MovesRecord { from: node, to: None });
    let drains = |job: &JobRecord| !job.state.is_over() && job.moves == Some(moves);
    let mut jobs = state.jobs().iter().filter(|(_, job)| job.kind == JobKind::DrainNode);
    if let Some((id, _)) = jobs.find(|(_, job)| drains(job)) {
        return Err(Refusal::BeingDrained { node: name, id: *id });
    }
    let mut draft = Draft::new(state)?;
    draft.decided_on(Key::Node(node))?;
    set_rooms(&mut draft, node, RoomState::In)?;
    if draft.txn.puts.is_empty() { Ok(Step::Done) } else { draft.submit() }
}

fn name_of(state: &ClusterState, node: Uuid) -> Result<Name, Refusal> {
    let found = state.nodes().get(&node).map(|it| it.name.clone());
    found.ok_or(Refusal::NoNode(node))
}

/// Whether such a job goes on.
fn is_under_way(state: &ClusterState, volume: Uuid, moves: MovesRecord) -> bool {
    let is_such = |job: &JobRecord| job.volume == volume && job.moves == Some(moves);
    state.jobs().values().any(|job| job.state == JobState::Running && is_such(job))
}

/// Refuses mirrors that have one replica.
fn check_replicas(
    state: &ClusterState,
    node: &Name,
    mirrors: impl Iterator<Item = MirrorKey>,
) -> Result<(), Refusal> {
    let volumes = mirrors.filter_map(|key| state.volumes().get(&key.volume));
    let single = volumes.filter(|it| it.replicas < REPLICAS && it.state != VolumeState::Removing);
    let volumes: BTreeSet<Name> = single.map(|it| it.name.clone()).collect();
    let node = node.clone();
    if volumes.is_empty() { Ok(()) } else { Err(Refusal::OneReplica { node, volumes }) }
}

/// Makes the job, if the first replica that it moves has a place.
fn begin(
    mut draft: Draft<'_>,
    kind: JobKind,
    (volume, name): (Uuid, Name),
    moves: MovesRecord,
    by: Begin,
) -> Result<Step, Refusal> {
    let state = draft.state;
    draft.decided_on(Key::Node(moves.from))?;
    let len = state.replicas_of_move(volume, moves).map(|(_, len)| len.0).sum();
    let job = JobRecord {
        schema: Schema,
        kind,
        volume,
        name,
        moves: Some(moves),
        state: JobState::Running,
        worker: by.worker,
        total_bytes: len,
        began: by.now,
        ended: None,
        error: None,
    };
    let number = insert(&mut draft, &job)?;
    // One for which there is no room is refused before anything is written.
    Moving { state, number, job: &job, moves, now: by.now }.start_one(&mut Draft::new(state)?)?;
    draft.submit()
}

/// Opens the slices of a node for placement, or closes them.
fn set_rooms(draft: &mut Draft<'_>, node: Uuid, wanted: RoomState) -> Result<(), Refusal> {
    for slice in slices_of(draft.state, node) {
        let room = draft.state.rooms().get(&slice);
        let is_other = |room: &&RoomRecord| room.state != wanted && room.state != RoomState::Gone;
        if let Some(room) = room.filter(is_other) {
            let version = room.version.saturating_add(1);
            draft.put(Key::Room(slice), &RoomRecord { state: wanted, version, ..*room })?;
        }
    }
    Ok(())
}

/// A job that moves replicas.
pub(super) struct Moving<'a> {
    pub(super) state: &'a ClusterState,
    pub(super) number: u64,
    pub(super) job: &'a JobRecord,
    pub(super) moves: MovesRecord,
    /// In seconds since 1970.
    pub(super) now: u64,
}

impl<'a> Moving<'a> {
    /// The next transaction: it ends a move, begins one, or ends the job.
    pub(super) fn next(&self) -> Result<Step, Refusal> {
        let mut draft = Draft::new(self.state)?;
        draft.decided_on(Key::Job(self.number))?;
        let views = self.views()?;
        let own = || views.iter().filter(|(_, view)| self.is_own(view));
        let is_undone = self.job.state == JobState::Undoing;
        for (_, view) in own() {
            if let Some(gone) = that_goes(view, is_undone) {
                remove_place(&mut draft, view, gone)?;
                return draft.submit();
            }
        }
        if !is_undone && self.start_one(&mut draft)? {
            return draft.submit();
        }
        let are_left = self.state.replicas_of_move(self.job.volume, self.moves).next().is_some();
        if own().next().is_some() || are_left && !is_undone {
            return Ok(Step::Done);
        }
        if is_undone && self.job.kind == JobKind::DrainNode {
            set_rooms(&mut draft, self.moves.from, RoomState::In)?;
        }
        let state = if is_undone { undone(self.job) } else { JobState::Done };
        end(&mut draft, self.number, self.job, state, self.now)?;
        draft.submit()
    }

    /// The mirrors in use with two replicas, or three, of the volumes that the job concerns.
    fn views(&self) -> Result<Vec<(&'a VolumeRecord, MirrorView<'a>)>, Refusal> {
        let is_meant = |uuid: &Uuid| self.job.volume.is_nil() || self.job.volume == *uuid;
        let mut views = Vec::new();
        for (uuid, volume) in self.state.volumes().iter().filter(|(uuid, _)| is_meant(uuid)) {
            if volume.state != VolumeState::Ready || volume.replicas < REPLICAS {
                continue;
            }
            let rows = self.state.rows(*uuid, volume)?;
            let used = rows.into_iter().take(zeroed(volume)).flatten();
            views.extend(used.map(|view| (volume, view)));
        }
        Ok(views)
    }

    fn is_own(&self, view: &MirrorView<'_>) -> bool {
        view.replicas.moving.is_some_and(|it| it.job == self.number)
    }

    /// The ordinal of the replica on the node that is left.
    fn leaver(&self, view: &MirrorView<'_>) -> Option<u32> {
        let mut replicas = view.replicas.replicas.iter();
        let leaver = replicas.find(|it| self.state.node_of(&it.slice) == Some(self.moves.from));
        leaver.map(|it| it.ordinal)
    }

    /// Gives the next mirror a further place, if one may begin to move. Returns whether it does.
    pub(super) fn start_one(&self, draft: &mut Draft<'_>) -> Result<bool, Refusal> {
        let moving = self.moving()?;
        let load = |node: Uuid| moving.iter().flatten().filter(|it| **it == node).count();
        let views = self.views()?;
        let mut waiting = views.iter().filter_map(|(volume, view)| {
            let leaver = self.leaver(view).filter(|_| view.replicas.moving.is_none())?;
            may_begin(view, leaver).then_some((*volume, view, leaver))
        });
        if load(self.moves.from) >= MOVES_MAX {
            return Ok(false);
        }
        let mut rooms = Rooms::running(self.state)?;
        let mut without_place = Affected::default();
        let is_busy = |node: &&Uuid| load(**node) >= MOVES_MAX;
        let busy: Vec<Uuid> = self.state.nodes().keys().filter(is_busy).copied().collect();
        let begun = waiting.find_map(|(volume, view, leaver)| {
            let taken: Vec<Uuid> = nodes_of(self.state, view).collect();
            let beyond = [&taken[..], &busy].concat();
            let place = rooms.take_beyond(&beyond, self.moves.to, view.mirror.len);
            if place.is_none() {
                without_place.add(volume, view);
            }
            Some((view, leaver, place?))
        });
        let Some((view, leaver, place)) = begun else {
            // A node that is down may have room.
            let waits = self.state.nodes().keys().any(|node| self.may_come(*node));
            if without_place.count > 0 && moving.is_empty() && !waits {
                let node = name_of(self.state, self.moves.from)?;
                return Err(Refusal::NoPlaceToMove { node, mirrors: without_place });
            }
            return Ok(false);
        };
        draft.decided_on(Key::Mirror(view.key))?;
        draft.decided_on(Key::Volume(view.key.volume))?;
        take_place(draft, view.key, place.0)?;
        let mut record = view.replicas.replaced(|_| true, Some(place));
        // A mirror that has one place gets its second one first.
        let moving = MovingRecord { job: self.number, leaves: leaver };
        record.moving = Some(moving).filter(|_| record.replicas.len() > 2);
        draft.put(Key::Replicas(view.key), &record)?;
        Ok(true)
    }

    /// Whether a node could get replicas, and is down.
    fn may_come(&self, node: Uuid) -> bool {
        let is_meant = self.moves.to.is_none_or(|to| to == node) && node != self.moves.from;
        is_meant && !self.state.alive().contains_key(&node)
    }

    /// The nodes that replicas are leaving, and those to which they move, of each move under way.
    fn moving(&self) -> Result<Vec<[Uuid; 2]>, Refusal> {
        let views = self.state.mirrors()?;
        let ends = views.iter().filter_map(|view| {
            let leaves = view.replicas.moving?.leaves;
            let from = view.replicas.replicas.iter().find(|it| it.ordinal == leaves)?;
            let to = view.replicas.replicas.last()?;
            let [from, to] = [from, to].map(|it| self.state.node_of(&it.slice));
            Some([from?, to?])
        });
        Ok(ends.collect())
    }
}

fn nodes_of(state: &ClusterState, view: &MirrorView<'_>) -> impl Iterator<Item = Uuid> {
    view.replicas.replicas.iter().filter_map(|it| state.node_of(&it.slice))
}

fn is_in_sync(view: &MirrorView<'_>, ordinal: u32) -> bool {
    view.mirror.in_sync.iter().any(|it| it.replica == ordinal)
}

/// Whether the mirror has what it needs: two replicas in sync, or one that is not the one that leaves. A mirror that
/// has lost its second place gets one.
fn may_begin(view: &MirrorView<'_>, leaver: u32) -> bool {
    let is_only = view.replicas.replicas.len() < usize::from(REPLICAS);
    is_only || view.mirror.in_sync.len() > 1 || !is_in_sync(view, leaver)
}

/// The replica whose place can be removed: of three, the one that is not in sync if the others are. A move that is
/// undone removes a new one that is not in sync at any time.
fn that_goes(view: &MirrorView<'_>, is_undone: bool) -> Option<u32> {
    let moving = view.replicas.moving?;
    let new = view.replicas.replicas.last()?.ordinal;
    if is_undone && !is_in_sync(view, new) {
        return Some(new);
    }
    let mut out = view.replicas.replicas.iter().filter(|it| !is_in_sync(view, it.ordinal));
    let gone = out.next().filter(|_| view.mirror.in_sync.len() > 1)?.ordinal;
    (is_undone || gone == moving.leaves).then_some(gone)
}

/// Removes the place of a replica that is not in sync.
fn remove_place(draft: &mut Draft<'_>, view: &MirrorView<'_>, ordinal: u32) -> Result<(), Refusal> {
    draft.decided_on(Key::Mirror(view.key))?;
    draft.decided_on(Key::Volume(view.key.volume))?;
    for replica in view.replicas.replicas.iter().filter(|it| it.ordinal == ordinal) {
        draft.txn.deletes.push(Key::On(replica.slice, view.key));
        change_room(draft, replica.slice)?;
    }
    draft.put(Key::Replicas(view.key), &view.replicas.replaced(|it| it.ordinal != ordinal, None))
}
