//! The modelled store: one map with revisions. Calls are late, and their answers are lost.

use std::collections::BTreeSet;

use nearflash_units::index;

use super::history::Time;
use super::planner::Places;
use super::{Event, MICRO, MILLI, NODES, Run};
use crate::membership::{Conflict, Element, Known, Proposal, Record, StoreAnswer, Token};
use crate::table::Term;

/// The time after which a caller gives a call up.
const TIMEOUT: Time = 2000 * MILLI;

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) records: Vec<Known>,
    /// By mirror: where its replicas are.
    pub(super) places: Vec<Places>,
    /// The mirrors whose volumes were removed.
    pub(super) removed: BTreeSet<u32>,
    /// By node: the incarnation of its slice.
    pub(super) slices: [u64; NODES],
    pub(super) revision: i64,
    /// So many of a thousand answers come from a store that was restored from an earlier snapshot.
    pub(super) older: u64,
    /// By node: it does not reach the store until then.
    pub(super) unreachable: [Time; 3],
    /// Grows when it is restored. Calls and watches of earlier times have ended.
    pub(super) epoch: u64,
    /// Its earlier states.
    history: Vec<Snapshot>,
    /// Its newest state, and what was changed since, while it has an older one.
    newest: Option<Snapshot>,
    /// It was restored from a snapshot.
    pub(super) is_older: bool,
}

/// A state of the store.
#[derive(Clone, Debug)]
struct Snapshot {
    records: Vec<Known>,
    slices: [u64; NODES],
    revision: i64,
}

/// A call under way.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) mirror: u32,
    pub(super) number: u64,
    /// A read has none.
    pub(super) proposal: Option<Proposal>,
    /// The incarnation of the slice of the process that calls.
    pub(super) incarnation: u64,
    /// That of the store.
    pub(super) epoch: u64,
}

impl Store {
    pub(super) fn add(&mut self, primary: u32) {
        self.revision += 1;
        let element = |replica| Element { replica, incarnation: 1 };
        let in_sync = vec![element(0), element(1)];
        let (term, kept_since, token) = (Term(1), Term(0), Token::FIRST);
        let record = Record { term, primary, in_sync, kept_since, token };
        self.records.push(Known { record, revision: self.revision });
        self.places.push(Places::first(self.revision));
    }

    /// Whether it does not have its newest state.
    pub(super) fn has_older_state(&self) -> bool {
        self.newest.is_some()
    }

    fn snapshot(&self) -> Snapshot {
        let Self { records, slices, revision, .. } = self;
        Snapshot { records: records.clone(), slices: *slices, revision: *revision }
    }

    fn restore(&mut self, snapshot: Snapshot) {
        let Snapshot { records, slices, revision } = snapshot;
        (self.records, self.slices, self.revision) = (records, slices, revision);
        self.epoch += 1;
    }
}

impl Run {
    pub(super) fn call(&mut self, call: Call) {
        let timeout = Event::StoreAnswer(call.clone(), StoreAnswer::Unknown);
        self.later(self.now + TIMEOUT, timeout);
        let delay = match self.random.below(100) {
            0..3 if !self.is_calm() => return self.count("store calls lost"),
            3..6 if !self.is_calm() => {
                self.tempt(call.node, false, 3, 2 * MILLI);
                self.random.below(4000 * MILLI)
            }
            _ => 200 * MICRO + self.random.below(3 * MILLI),
        };
        self.later(self.now + delay, Event::StoreCall(call));
    }

    pub(super) fn store_call(&mut self, call: Call) {
        let is_earlier = call.epoch != self.store.epoch;
        if self.now < self.store.unreachable[call.node] || is_earlier {
            return self.count("store calls lost");
        }
        if let Some(answer) = self.older_answer(&call) {
            self.count("answers of an older store");
            return self.later(self.now + MILLI, Event::StoreAnswer(call, answer));
        }
        let place = index(call.mirror);
        let is_alive = self.nodes[call.node].life == call.life && self.nodes[call.node].is_up;
        let is_removed = self.store.removed.contains(&call.mirror);
        let answer = match &call.proposal {
            // There is no record any more.
            _ if is_removed => StoreAnswer::Unknown,
            None => StoreAnswer::Read(self.store.records[place].clone()),
            Some(Proposal { revision, places, record }) => {
                let is_last = self.store.slices[call.node] == call.incarnation;
                let has_places = self.store.places[place].revision;
                let is_placed = places.is_none_or(|places| places == has_places);
                if self.store.records[place].revision == *revision && is_last && is_placed {
                    if !is_alive {
                        self.count("transactions of the dead");
                    }
                    StoreAnswer::Committed(self.commit(call.mirror, record.clone()))
                } else {
                    self.count("transactions refused");
                    StoreAnswer::Refused(Conflict {
                        known: self.store.records[place].clone(),
                        places: has_places,
                        is_fenced: self.store.slices[call.node] > call.incarnation,
                    })
                }
            }
        };
        if self.random.permille(30) && !self.is_calm() {
            return self.count("store answers lost");
        }
        let delay = 200 * MICRO + self.random.below(3 * MILLI);
        self.later(self.now + delay, Event::StoreAnswer(call, answer));
    }

    /// The answer of a store that was restored from a snapshot of an earlier time. Nothing that it does stays.
    fn older_answer(&mut self, call: &Call) -> Option<StoreAnswer> {
        let states = self.store.history.len();
        if self.store.older == 0 || states == 0 || self.is_calm() {
            return None;
        }
        if !self.random.permille(self.store.older) {
            return None;
        }
        let chosen = self.draw(states);
        let Snapshot { records, slices, .. } = &self.store.history[chosen];
        let known = records[index(call.mirror)].clone();
        let places = self.store.places[index(call.mirror)].revision;
        let is_fenced = slices[call.node] > call.incarnation;
        Some(match call.proposal {
            None => StoreAnswer::Read(known),
            Some(_) => StoreAnswer::Refused(Conflict { known, places, is_fenced }),
        })
    }

    fn commit(&mut self, mirror: u32, record: Record) -> i64 {
        let before = self.store.records[index(mirror)].record.clone();
        if record.term.0 != before.term.0 + 1 || record.element(record.primary).is_none() {
            self.wrong(format!("{record:?} follows {before:?}"));
        }
        let places = self.store.places[index(mirror)].clone();
        let has_place =
            |it: &Element| places.list.iter().any(|(ordinal, _)| *ordinal == it.replica);
        if !record.in_sync.iter().all(has_place) {
            return self
                .wrong_commit(format!("{record:?} names a replica without a place: {places:?}"));
        }
        let home = |ordinal: u32| places.homes[index(ordinal)];
        let is_new = |element: &&Element| before.element(element.replica).is_none();
        for element in record.in_sync.iter().filter(is_new) {
            self.count("replicas added");
            self.check_equal(mirror, home(element.replica), home(record.primary));
            self.tempt(home(record.primary), false, 6, 10 * MILLI);
        }
        if record.primary != before.primary {
            self.tempt(home(record.primary), true, 12, 12 * MILLI);
        }
        let is_exchange = record.in_sync.len() == 2 && before.in_sync.len() == 2;
        self.count(match (record.primary == before.primary, record.in_sync.len()) {
            (true, 2) if is_exchange => "exchanges",
            (false, _) => "takeovers",
            (true, 1) if before.in_sync.len() > 1 => "replicas dropped",
            (true, 1) => "recoveries",
            _ => "joins",
        });
        let earlier = self.store.snapshot();
        self.store.history.push(earlier);
        if record.in_sync.len() == 1 && self.store_restores > 0 && self.random.below(6) == 0 {
            let at = self.now + self.random.below(12 * MILLI);
            self.later(at, Event::StoreBack);
        }
        self.store.revision += 1;
        let known = Known { record, revision: self.store.revision };
        self.store.records[index(mirror)] = known.clone();
        if let Some(newest) = &mut self.store.newest {
            newest.records[index(mirror)] = known.clone();
        }
        self.excuse();
        for node in 0..self.nodes.len() {
            let delay = self.watch_delay();
            let epoch = self.store.epoch;
            self.later(self.now + delay, Event::Watch(node, epoch, mirror, known.clone()));
        }
        known.revision
    }

    /// The time until a node hears of a change.
    pub(super) fn watch_delay(&mut self) -> Time {
        match self.random.below(20) {
            0 => 5000 * MILLI,
            1 => self.random.below(2000 * MILLI),
            _ => self.random.below(5 * MILLI),
        }
    }

    /// All nodes end. Then the store is restored from a snapshot, and they start again.
    pub(super) fn restore_store(&mut self) {
        if self.store_restores == 0 || self.is_calm() || self.store.newest.is_some() {
            return;
        }
        let states = self.store.history.len().min(8);
        let back = if self.random.below(2) == 0 { 1 } else { 1 + self.draw(states.max(1)) };
        let place = self.store.history.len().checked_sub(back);
        let Some(older) = place.map(|place| self.store.history[place].clone()) else { return };
        self.store_restores -= 1;
        (0..NODES).for_each(|node| self.kill(node, false));
        if self.deceives(&older) {
            return self.start_all();
        }
        self.count("stores restored");
        self.trace(|| format!("the store goes back to {older:?}"));
        self.store.newest = Some(self.store.snapshot());
        self.store.is_older = true;
        self.store.restore(older);
        self.start_all();
        self.later(self.now + 1_500 * MILLI, Event::StoreForward);
    }

    /// Whether no slice contradicts a record in which one replica is alone in sync, although it has been
    /// dropped since: another one was added, and the slice could not note that before its process died.
    fn deceives(&self, older: &Snapshot) -> bool {
        let mirrors = older.records.iter().zip(&self.store.records);
        (0..).zip(mirrors).any(|(mirror, (older, newest))| {
            let [alone] = older.record.in_sync[..] else { return false };
            let note = self.nodes[index(alone.replica)].device.notes.get(&mirror);
            let is_contradicted = note.is_some_and(|note| note.term > older.record.term);
            !is_contradicted && newest.record.element(alone.replica).is_none()
        })
    }

    /// The newest state is put back: of each mirror, that which the nodes went by last.
    pub(super) fn forward_store(&mut self) {
        let Some(mut newest) = self.store.newest.take() else { return };
        newest.revision = newest.revision.max(self.store.revision);
        (0..NODES).for_each(|node| self.kill(node, false));
        self.store.restore(newest);
        self.start_all();
    }

    fn start_all(&mut self) {
        for node in 0..NODES {
            let at = self.now + 20 * MILLI + self.random.below(600 * MILLI);
            self.later(at, Event::Start(node));
        }
    }

    fn wrong_commit(&mut self, problem: String) -> i64 {
        self.wrong(problem);
        self.store.revision
    }
}
