//! The key `seen/<node>`: what the node has seen of the store, for its next process.
//!
//! Nobody else writes this key, and the node keeps its revision durably. So a store in which the key is
//! older has gone back, whatever the store's own revision is.

use nearflash_records::Seen;
use nearflash_records::key::Key;
use nearflash_records::record::{Record as _, Schema, SeenRecord};
use nearflash_records::store::{Compare, Operation, Put, Txn};
use nearflash_units::Nanos;

use super::{Agent, Task};

/// The time until a change of the store is noted as seen: the larger of these, the second for each node. Every
/// node notes each change, and hears of every note.
const SEEN_AFTER: Nanos = Nanos(1_000_000_000);
const SEEN_AFTER_PER_NODE: Nanos = Nanos(50_000_000);

impl Agent {
    /// Notes that this node has seen the store up to here, if something has changed since the last time.
    /// The key is this node's alone, so that a store in which it is older has gone back.
    pub(super) fn write_seen(&mut self, now: Nanos) {
        if !self.notes_seen || self.config.run.is_none() {
            return;
        }
        let (key, node) = (Key::Seen(self.config.node), Key::Node(self.config.node));
        let known = self.state.revision(&key);
        let is_shown = self.seen.is_none_or(|seen| seen.revision <= known.0);
        let is_registered = self.state.nodes().contains_key(&self.config.node);
        let is_followed = self.watch.is_some() && self.held.is_none();
        if !is_followed || !is_shown || !is_registered || self.rolled_back.is_some() {
            self.due.insert(Task::Seen, now.plus(self.seen_after()));
            return;
        }
        if !std::mem::take(&mut self.is_unseen) {
            return;
        }
        let compare = |key: Key| Compare { mod_revision: self.state.revision(&key), key };
        let compares = vec![compare(key.clone()), compare(node), compare(Key::History)];
        let record = SeenRecord { schema: Schema, revision: self.revision };
        let puts = vec![Put { key, value: record.encode().into(), lease: None }];
        let txn = Txn { compares, puts, deletes: Vec::new() };
        self.request(now, Task::Seen, Operation::Txn(txn));
    }

    /// The key is written.
    pub(super) fn noted(&mut self, now: Nanos, revision: u64) {
        let Some(store) = self.store else { return };
        self.seen = Some(Seen { store, revision, history: self.state.history().copied() });
        self.is_seen_new = true;
        if self.is_unseen {
            self.due.insert(Task::Seen, now.plus(self.seen_after()));
        }
    }

    /// Something has changed that the node must not forget.
    pub(super) fn is_to_be_seen(&mut self, now: Nanos) {
        self.is_unseen = true;
        let at = now.plus(self.seen_after());
        self.due.entry(Task::Seen).or_insert(at);
    }

    pub(super) fn seen_after(&self) -> Nanos {
        let nodes = u64::try_from(self.state.nodes().len()).unwrap_or(u64::MAX);
        SEEN_AFTER.max(Nanos(SEEN_AFTER_PER_NODE.0.saturating_mul(nodes)))
    }
}
