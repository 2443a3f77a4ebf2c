//! Reading the store, page by page, and watching it.

use nearflash_units::Nanos;

use super::{Agent, CHECK_EVERY, Task};
use crate::key::{Key, prefix};
use crate::store::{Found, Operation, PAGE_KEYS_MAX};

/// The time until a store that has gone back is looked at again.
const GONE_BACK_AGAIN: Nanos = Nanos(2_000_000_000);

/// A range that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    keys_only: bool,
    /// The revision of the first page, at which the others are read, too.
    revision: u64,
    found: Vec<Found>,
}

impl Agent {
    /// Reads everything anew. The watch ends here, so that the state never goes back to the
    /// revision of the read from a later one.
    pub(super) fn start_reading(&mut self, now: Nanos) {
        self.waiting.retain(|_, it| !matches!(it.task, Task::Read | Task::Check | Task::Watch));
        self.due.remove(&Task::Read);
        self.due.remove(&Task::Watch);
        self.watch = None;
        self.reads_begun += 1;
        self.reading = Some(Reading { keys_only: false, revision: 0, found: Vec::new() });
        self.read_page(now);
    }

    /// Reads keys and revisions, except while everything is being read.
    pub(super) fn start_check(&mut self, now: Nanos) {
        if self.reading.is_none() {
            self.reading = Some(Reading { keys_only: true, revision: 0, found: Vec::new() });
            self.read_page(now);
        }
        self.due.insert(Task::Check, now.plus(CHECK_EVERY));
    }

    fn read_page(&mut self, now: Nanos) {
        let Some(Reading { keys_only, revision, found }) = &self.reading else { return };
        let prefix = prefix(self.config.cluster);
        // The first key after the last one.
        let from = found.last().map_or_else(|| prefix.clone(), |last| last.key.clone() + "\0");
        let (revision, keys_only) = (*revision, *keys_only);
        let operation =
            Operation::Range { from, prefix, revision, keys_only, limit: PAGE_KEYS_MAX };
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
        if !reading.keys_only {
            self.is_rolled_back = self.goes_back(&reading);
            if self.is_rolled_back {
                self.due.insert(Task::Read, now.plus(GONE_BACK_AGAIN));
                self.due.insert(Task::Step, now);
                return;
            }
            self.state.replace(&reading.found);
            self.revision = reading.revision;
            self.reads_ended = self.reads_begun;
            self.start_watch(now);
            self.state_changed(now);
        } else if !self.state.agrees(&reading.found) {
            self.start_reading(now);
        }
    }

    /// Whether the store has lost what it has shown before.
    fn goes_back(&self, reading: &Reading) -> bool {
        let cluster = Key::Cluster.path(self.config.cluster);
        let has_cluster = reading.found.iter().any(|it| it.key == cluster);
        reading.revision < self.revision || (self.state.cluster().is_some() && !has_cluster)
    }

    /// Watches everything after the revision that is known.
    pub(super) fn start_watch(&mut self, now: Nanos) {
        let prefix = prefix(self.config.cluster);
        let operation = Operation::Watch { prefix, from_revision: self.revision + 1 };
        self.watched_at = self.endpoint;
        self.watch = Some(self.request(now, Task::Watch, operation));
    }
}
