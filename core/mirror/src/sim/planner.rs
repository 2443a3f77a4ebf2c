//! The planner: it replaces replicas that are out of sync by new ones on other nodes, or moves replicas.
//!
//! The nodes hear of the new places late, one after the other, as of a membership. A node whose replica was
//! removed may run on without knowing. It gets another replica of the same mirror only in a later process,
//! since a node that was removed from a cluster does not come back in the same one. The space of a new
//! replica holds whatever was there before.

use nearflash_units::index;

use super::history::Time;
use super::mirror_key;
use super::{BLOCKS, Event, MILLI, MIRRORS, NODES, REPLICA_NODES, Run};
use crate::membership::Known;

/// When the last replica gets a place.
const LAST_PLAN: Time = 9_000 * MILLI;

/// Bytes that no host has written.
const GARBAGE: u64 = 1 << 40;

/// The places of a mirror's replicas.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Places {
    pub(super) revision: i64,
    /// The ordinals and nodes of its replicas.
    pub(super) list: Vec<(u32, usize)>,
    /// The ordinal of the replica that is to give its place in sync to the third one.
    pub(super) leaving: Option<u32>,
    /// By ordinal: the node of each replica that it has ever had.
    pub(super) homes: Vec<usize>,
    /// By node: its process when the replica on it was removed last.
    left: [u64; NODES],
}

impl Places {
    pub(super) fn first(revision: i64) -> Self {
        let (list, homes) = (vec![(0, 0), (1, 1)], vec![0, 1]);
        Self { revision, list, leaving: None, homes, left: [0; NODES] }
    }

    pub(super) fn has(&self, node: usize) -> bool {
        self.list.iter().any(|(_, it)| *it == node)
    }

    /// The node of a replica that is in the list.
    pub(super) fn home(&self, ordinal: u32) -> Option<usize> {
        self.list.iter().find(|(it, _)| *it == ordinal).map(|(_, node)| *node)
    }
}

impl Run {
    pub(super) fn begin_plans(&mut self) {
        for node in 0..NODES {
            for block in 0..u64::from(MIRRORS) * BLOCKS {
                let is_free = node >= REPLICA_NODES;
                let cell = self.nodes[node].device.cell(block);
                if is_free {
                    (cell.log, cell.durable) = (vec![GARBAGE + block], 1);
                }
            }
        }
        for _ in 0..20 {
            let at = 200 * MILLI + self.random.below(LAST_PLAN - 200 * MILLI);
            self.later(at, Event::Plan);
        }
        self.later(LAST_PLAN, Event::Plan);
    }

    /// Removes a replica that is out of sync, adds one where one is missing, or both.
    pub(super) fn plan(&mut self) {
        if self.has_moves {
            return self.begin_move();
        }
        let is_last = self.now >= LAST_PLAN;
        for mirror in 0..MIRRORS {
            let place = index(mirror);
            let mut next = self.store.places[place].clone();
            let record = self.store.records[place].record.clone();
            let out = next.list.iter().copied().find(|(it, _)| record.element(*it).is_none());
            if let Some((ordinal, node)) = out.filter(|_| !is_last && self.random.below(3) == 0) {
                next.list.retain(|(it, _)| *it != ordinal);
                next.left[node] = self.nodes[node].life;
                self.count("replicas removed");
            }
            let adds = is_last || self.random.below(3) > 0;
            if next.list.len() < 2 && adds {
                self.add_place(&mut next, is_last);
            }
            if next != self.store.places[place] {
                self.commit_places(mirror, next);
            }
        }
        let lacks = self.store.places.iter().any(|places| places.list.len() < 2);
        if is_last && lacks {
            self.later(self.now + 500 * MILLI, Event::Plan);
        }
    }

    fn add_place(&mut self, next: &mut Places, is_last: bool) {
        let others = (0..NODES).filter(|node| !next.has(*node));
        let (may, must_restart): (Vec<usize>, Vec<usize>) =
            others.partition(|node| self.nodes[*node].life > next.left[*node]);
        if let Some(node) = may.get(self.draw(may.len().max(1))).copied() {
            let ordinal = u32::try_from(next.homes.len()).expect("they are few");
            next.homes.push(node);
            next.list.push((ordinal, node));
            self.count("replicas placed");
        } else if let Some(node) = must_restart.first().filter(|_| is_last).copied() {
            self.kill(node, false);
            self.later(self.now + 50 * MILLI, Event::Start(node));
        }
    }

    fn commit_places(&mut self, mirror: u32, mut next: Places) {
        self.store.revision += 1;
        next.revision = self.store.revision;
        self.trace(|| format!("places of {mirror}: {next:?}"));
        self.store.places[index(mirror)] = next.clone();
        let known = self.store.records[index(mirror)].clone();
        for node in 0..NODES {
            let at = self.now + self.watch_delay();
            self.later(at, Event::Moved(node, mirror, next.clone(), known.clone()));
        }
    }

    /// A node hears of new places: its cores first.
    pub(super) fn moved(&mut self, node: usize, mirror: u32, places: Places, known: Known) {
        let it = &mut self.nodes[node];
        if !it.is_up || it.places.get(&mirror).is_none_or(|it| it.revision >= places.revision) {
            return;
        }
        it.places.insert(mirror, places.clone());
        let life = it.life;
        if let Some(view) = it.views.get(&mirror).copied() {
            self.show(node, 0, vec![(mirror_key(mirror), view)]);
        }
        // Longer than any message to a core takes.
        let at = self.now + 40 * MILLI;
        self.later(at, Event::Follow(node, life, mirror, (places, known)));
    }

    /// The membership of a node hears of new places.
    pub(super) fn follow(&mut self, node: usize, mirror: u32, heard: (Places, Known)) {
        let is_new = |(told, _): &(Places, Known)| told.revision < heard.0.revision;
        if !self.nodes[node].told.get(&mirror).is_some_and(is_new) {
            return;
        }
        let known = heard.1.clone();
        self.nodes[node].told.insert(mirror, heard);
        self.tell_membership(node);
        self.watched(node, mirror, known);
    }
}

/// Replicas that move to other nodes, in sync or not: the planner gives a mirror a third place, and says which of the
/// others is to leave. When the third replica has taken its place in sync, the place is removed. Before that, a move
/// may be cancelled.
impl Run {
    /// Begins to move a replica of a mirror that does not move yet.
    fn begin_move(&mut self) {
        let mirror = u32::try_from(self.random.below(MIRRORS.into())).expect("it is small");
        let mut next = self.store.places[index(mirror)].clone();
        if next.leaving.is_some() || self.now >= LAST_PLAN {
            return;
        }
        let chosen = self.draw(next.list.len());
        let (ordinal, _) = next.list[chosen];
        let restarts = self.random.below(3) == 0;
        self.add_place(&mut next, restarts);
        if next.list.len() > 2 {
            next.leaving = Some(ordinal);
            self.count("moves");
            self.commit_places(mirror, next);
            self.look_at_move_later(mirror);
        }
    }

    /// Whether a slice has the token of an addition that may be under way. If it was restored from an earlier copy
    /// and the addition took effect, a start would refuse it.
    pub(super) fn may_be_added(&self, node: usize) -> bool {
        let notes = &self.nodes[node].device.notes;
        let mut known = notes.iter().map(|(mirror, note)| {
            let token = self.store.records[index(*mirror)].record.token;
            note.tokens[0].is_some_and(|it| it != token)
        });
        self.has_moves && known.any(|is_ahead| is_ahead)
    }

    fn look_at_move_later(&mut self, mirror: u32) {
        let at = self.now + 20 * MILLI + self.random.below(400 * MILLI);
        self.later(at, Event::Move(mirror));
    }

    /// Ends a move when the replica has left, or cancels it before.
    pub(super) fn go_on_moving(&mut self, mirror: u32) {
        let places = self.store.places[index(mirror)].clone();
        let record = self.store.records[index(mirror)].record.clone();
        let Some(leaving) = places.leaving else { return };
        let is_in_sync = |ordinal: u32| record.element(ordinal).is_some();
        let new = places.list.last().expect("there are three").0;
        let (gone, name) = if !is_in_sync(leaving) && record.in_sync.len() == 2 {
            (leaving, "moves that ended")
        } else if !is_in_sync(new) && self.random.below(12) == 0 && !self.is_calm() {
            (new, "moves that were cancelled")
        } else {
            return self.look_at_move_later(mirror);
        };
        self.count(name);
        let mut next = Places { leaving: None, ..places };
        let (_, node) = *next.list.iter().find(|(it, _)| *it == gone).expect("it has a place");
        next.list.retain(|(it, _)| *it != gone);
        next.left[node] = self.nodes[node].life;
        self.commit_places(mirror, next);
    }
}
