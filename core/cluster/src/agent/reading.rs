//! Reading the store, page by page, and watching it.

use std::collections::BTreeMap;

use nearflash_records::Seen;
use nearflash_records::key::{Key, prefix};
use nearflash_records::record::{HistoryRecord, Record as _};
use nearflash_records::store::RolledBack;
use nearflash_records::store::{Found, ModRevision, Operation, PAGE_KEYS_MAX};
use nearflash_units::Nanos;

use super::{Agent, CHECK_EVERY, HELD_MAX, Task};
use crate::continuity::{Content, Known, Onward};

/// The time until a store that has gone back is looked at again.
const GONE_BACK_AGAIN: Nanos = Nanos(2_000_000_000);

/// A range that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    keys_only: bool,
    /// From the endpoint's own data.
    is_local: bool,
    /// The revision of the first page, at which the others are read, too.
    revision: u64,
    found: Vec<Found>,
    /// The note of what was seen, as of the begin of the read, which need not show a later one.
    seen: Option<Seen>,
}

impl Agent {
    /// Reads everything anew. The watch ends here, so that the state never goes back to the
    /// revision of the read from a later one.
    pub(super) fn start_reading(&mut self, now: Nanos) {
        self.waiting.retain(|_, it| !matches!(it.task, Task::Read | Task::Check | Task::Watch));
        self.due.remove(&Task::Read);
        self.due.remove(&Task::Watch);
        self.end_watch();
        self.reads_begun += 1;
        self.read(now, false, false);
    }

    fn read(&mut self, now: Nanos, keys_only: bool, is_local: bool) {
        let seen = self.seen;
        self.reading = Some(Reading { keys_only, is_local, revision: 0, found: Vec::new(), seen });
        self.read_page(now);
    }

    /// Reads keys and revisions, except while everything is being read.
    pub(super) fn start_check(&mut self, now: Nanos) {
        if self.reading.is_none() {
            self.read(now, true, false);
        }
        self.due.insert(Task::Check, now.plus(CHECK_EVERY));
    }

    /// The watch has begun. What it reports counts when a read that begins now shows that the store goes on
    /// from what is known: the watch may be one of another store. The endpoint's own data show it, without
    /// waiting for an election.
    pub(super) fn confirm_watch(&mut self, now: Nanos) {
        self.waiting.retain(|_, it| it.task != Task::Check);
        self.read(now, true, true);
    }

    pub(super) fn end_watch(&mut self) {
        self.watch = None;
        self.held = None;
    }

    fn read_page(&mut self, now: Nanos) {
        let Some(reading) = &self.reading else { return };
        let Reading { keys_only, is_local, revision, found, .. } = reading;
        let prefix = prefix(self.config.cluster);
        // The first key after the last one.
        let from = found.last().map_or_else(|| prefix.clone(), |last| last.key.clone() + "\0");
        let (revision, keys_only, is_local) = (*revision, *keys_only, *is_local);
        let limit = PAGE_KEYS_MAX;
        let operation = Operation::Range { is_local, from, prefix, revision, keys_only, limit };
        self.request(now, if keys_only { Task::Check } else { Task::Read }, operation);
    }

    /// Takes a page, and asks for the next one.
    pub(super) fn take_page(&mut self, now: Nanos, revision: u64, page: Vec<Found>, more: bool) {
        let Some(reading) = &mut self.reading else { return };
        if reading.found.is_empty() {
            reading.revision = revision;
        }
        let goes_on = more && !page.is_empty();
        reading.found.extend(page);
        if goes_on {
            self.read_page(now);
            return;
        }
        let Some(reading) = self.reading.take() else { return };
        let content = self.content(&reading);
        match (reading.keys_only, self.held.is_some()) {
            (false, _) => self.take_all(now, &reading, &content),
            // The endpoint is behind.
            (true, true) if reading.is_local && content.revision < self.revision => {
                self.read(now, true, false);
            }
            (true, true) => self.take_confirmation(now, reading.seen, &content),
            (true, false) if self.state.agrees(&content.keys) => {
                self.complete = self.complete.max(content.revision);
            }
            (true, false) => self.start_reading(now),
        }
    }

    fn content(&self, reading: &Reading) -> Content {
        let cluster = self.config.cluster;
        let key = |found: &Found| Some((Key::parse(cluster, &found.key).ok()?, found.mod_revision));
        let history = Key::History.path(cluster);
        let history = reading.found.iter().find(|it| it.key == history);
        let history = history.and_then(|it| HistoryRecord::decode(it.value.as_ref()?).ok());
        Content {
            store: self.answered_by,
            revision: reading.revision,
            keys: reading.found.iter().filter_map(key).collect(),
            history,
        }
    }

    /// Everything was read.
    fn take_all(&mut self, now: Nanos, reading: &Reading, content: &Content) {
        match (Known { seen: reading.seen, ..self.known() }).check(content) {
            Err(rolled_back) => return self.has_gone_back(now, rolled_back),
            Ok(Onward::Accepted) => (self.seen, self.is_accepted) = (None, true),
            Ok(Onward::Whole) => {}
        }
        self.rolled_back = None;
        let has_changed = !self.state.agrees(&content.keys);
        self.store = content.store;
        self.state.replace(&reading.found);
        (self.revision, self.complete) = (content.revision, content.revision);
        self.reads_ended = self.reads_begun;
        self.start_watch(now);
        if has_changed {
            self.is_to_be_seen(now);
        }
        self.state_changed(now);
    }

    /// The store goes on, or not, from what was known when the watch began.
    fn take_confirmation(&mut self, now: Nanos, seen: Option<Seen>, content: &Content) {
        if let Err(rolled_back) = (Known { seen, ..self.known() }).check(content) {
            self.has_gone_back(now, rolled_back);
            return;
        }
        let held = self.held.take().unwrap_or_default();
        for (revision, changes) in held {
            // An earlier one may have ended the watch.
            if self.watch.is_some() {
                self.take_changes(now, revision, changes);
            }
        }
    }

    /// Takes the changes of a revision that the watch reports.
    pub(super) fn take_changes(&mut self, now: Nanos, revision: u64, changes: Vec<Found>) {
        if let Some(held) = &mut self.held {
            held.push((revision, changes));
            if held.len() > HELD_MAX {
                self.start_reading(now);
            }
            return;
        }
        if revision <= self.revision {
            return;
        }
        if !self.shows_deletions(&changes) {
            // An event was lost, or a record: a complete read tells.
            self.start_reading(now);
            return;
        }
        let is_seen_later = |it: &Found| {
            let key = Key::parse(self.config.cluster, &it.key);
            key.is_ok_and(|key| !matches!(key, Key::Alive(_) | Key::Seen(_) | Key::Users(..)))
        };
        let is_to_be_seen = changes.iter().any(is_seen_later);
        changes.iter().for_each(|it| self.state.apply(it));
        self.revision = revision;
        if is_to_be_seen {
            self.is_to_be_seen(now);
        }
        self.state_changed(now);
    }

    /// Whether the deletions among these changes were announced, or are shown by the other ones.
    fn shows_deletions(&self, changes: &[Found]) -> bool {
        let parse = |found: &Found| Key::parse(self.config.cluster, &found.key).ok();
        let changed: BTreeMap<Key, ModRevision> = changes
            .iter()
            .filter_map(|it| {
                let revision = it.value.as_ref().map_or(ModRevision(0), |_| it.mod_revision);
                Some((parse(it)?, revision))
            })
            .collect();
        let at = |key: &Key| changed.get(key).copied().unwrap_or_else(|| self.state.revision(key));
        let known = self.known();
        let mut deleted = changed.iter().filter(|(_, revision)| revision.0 == 0);
        deleted.all(|(key, _)| self.state.revision(key).0 == 0 || known.shows_deletion(key, &at))
    }

    /// The store is not believed until it has all that is known again.
    pub(super) fn has_gone_back(&mut self, now: Nanos, rolled_back: RolledBack) {
        self.rolled_back = Some(rolled_back);
        self.waiting.retain(|_, it| !matches!(it.task, Task::Read | Task::Check | Task::Watch));
        self.reading = None;
        self.end_watch();
        self.due.remove(&Task::Watch);
        self.due.insert(Task::Read, now.plus(GONE_BACK_AGAIN));
        self.due.insert(Task::Step, now);
        // Another endpoint may be one of the right store.
        self.endpoint = (self.endpoint + 1) % self.config.endpoints.max(1);
    }

    /// Watches everything after the revision that is known.
    pub(super) fn start_watch(&mut self, now: Nanos) {
        let prefix = prefix(self.config.cluster);
        let operation = Operation::Watch { prefix, from_revision: self.revision + 1 };
        self.watched_at = self.endpoint;
        self.watch = Some(self.request(now, Task::Watch, operation));
        self.held = Some(Vec::new());
    }
}
