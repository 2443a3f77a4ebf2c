//! The agent: follows the store, and carries out changes in it.
//!
//! Reads everything, then watches from the revision that it read. A watch is a hint: every minute
//! the keys and revisions are read again, and everything if they differ. A change is concluded, as
//! done or refused, only after a read that began after it was submitted, or as done when its own
//! transaction shows; its transactions are planned again when their compares are lost, and sent again,
//! unchanged, when they got no answer.
//!
//! A store that has gone back (`continuity`) is not believed: it was restored from a snapshot, and may lack
//! volumes that are in use. The known state stays, nothing is written, and changes are refused, until the store
//! has all that is known again. A watch could lead to another store than the read before it, so what it
//! reports counts only when a read that began after it has shown that the store goes on.
//!
//! The agent of a node keeps the key `seen/<node>`: it is written soon after each change that the node
//! learns, and the node keeps its revision durably, so that its next process knows a store that went back.
//!
//! Knows neither sockets nor clocks. Every request has a deadline; a request that passes it counts
//! as unanswered, and the next one goes to the next endpoint.

mod changes;
mod jobs;
mod reading;
mod seen;

use std::collections::{BTreeMap, VecDeque};

use nearflash_records::Seen;
use nearflash_records::key::Key;
use nearflash_records::record::{AliveRecord, Record, Schema, Worker};
use nearflash_records::state::{ClusterState, NewPlace};
use nearflash_records::store::RolledBack;
use nearflash_records::store::{
    Answer, Compare, Found, Operation, Put, RequestId, StoreEvent, StoreId, StoreRequest,
    StoreStatus, Txn,
};
use nearflash_units::Nanos;
use uuid::Uuid;

use crate::compile::{Tables, compile};
use crate::continuity::Known;
use changes::Running;
pub use changes::{ChangeId, Outcome};
use jobs::Jobs;
pub use jobs::WORKER_GONE;
use reading::Reading;

/// The time that the store has for an answer.
pub const ANSWER_TIMEOUT: Nanos = Nanos(2_000_000_000);

/// The time until something that failed is tried again.
const RETRY_AFTER: Nanos = Nanos(200_000_000);

/// The time between two comparisons of all keys with the store.
const CHECK_EVERY: Nanos = Nanos(60_000_000_000);

/// The time between two questions for the store's members.
const STATUS_EVERY: Nanos = Nanos(5_000_000_000);

/// The length in seconds of the lease of `alive`, and the time between two renewals.
const ALIVE_TTL: u32 = 5;
const ALIVE_EVERY: Nanos = Nanos(1_500_000_000);

/// The most revisions of a watch that wait until they count. After more, everything is read.
const HELD_MAX: usize = 10_000;

/// The maximum number of waiting changes.
pub const CHANGES_MAX: usize = 64;

/// The settings of an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentConfig {
    /// The cluster.
    pub cluster: Uuid,
    /// The node that it works for.
    pub node: Uuid,
    /// The random number of the process; `None` if it is not that of a node, and so is not noted
    /// as alive.
    pub run: Option<u64>,
    /// The number of endpoints, at least 1.
    pub endpoints: usize,
    /// The state of the store that an earlier process of the node has seen.
    pub seen: Option<Seen>,
}

/// A periodic task of the agent.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Task {
    /// Reads everything.
    Read,
    /// Compares keys and revisions with the store.
    Check,
    /// Watches from the revision that is known.
    Watch,
    /// Carries the change on.
    Step,
    /// Keeps `alive`.
    Alive,
    /// Notes what was seen.
    Seen,
    /// Asks for the store's members.
    Status,
    /// Looks what the jobs of the cluster need.
    Jobs,
}

/// A request without an answer yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    task: Task,
    endpoint: usize,
    deadline: Nanos,
}

/// The connection to the store, as far as it is known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreHealth {
    /// Whether the store has been read completely at least once.
    pub is_read: bool,
    /// Since when no request has been answered; `None` if the last one was.
    pub silent_since: Option<Nanos>,
    /// The last failure of each endpoint that has failed since it last answered.
    pub failures: BTreeMap<usize, String>,
    /// The store's members.
    pub status: Option<StoreStatus>,
    /// Whether a change waits for the outcome of a transaction.
    pub is_outcome_unknown: bool,
    /// Another process that runs as this node.
    pub other_run: Option<u64>,
    /// The store shows an earlier state than before, or none: it was restored from a snapshot, or lost.
    /// The known state is kept.
    pub rolled_back: Option<RolledBack>,
    /// An operator has accepted a restored store since the node ran last.
    pub is_accepted: bool,
}

/// Follows the store and changes it.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    state: ClusterState,
    /// The revision up to which `state` shows the store; 0: nothing has been read.
    revision: u64,
    /// The revision of the last complete read, or of the last comparison of all keys that agreed.
    complete: u64,
    /// The store that has answered last.
    answered_by: Option<StoreId>,
    /// The store that was read.
    store: Option<StoreId>,
    /// The state that this process or an earlier one noted last as seen.
    seen: Option<Seen>,
    /// Whether this process notes what it sees.
    notes_seen: bool,
    /// Something has changed since then.
    is_unseen: bool,
    /// `seen` has changed since it was polled.
    is_seen_new: bool,
    requests: VecDeque<StoreRequest>,
    waiting: BTreeMap<RequestId, Waiting>,
    next_id: u64,
    endpoint: usize,
    due: BTreeMap<Task, Nanos>,
    reading: Option<Reading>,
    /// The number of the last complete read that was begun, and of the last that has ended.
    reads_begun: u64,
    reads_ended: u64,
    watch: Option<RequestId>,
    /// The reports of the watch, until a read that began after it has shown that the store goes on.
    held: Option<Vec<(u64, Vec<Found>)>>,
    /// The endpoint of the last watch. When a watch is cut, another one is asked.
    watched_at: usize,
    lease: Option<i64>,
    /// Whether `alive` has been written with this lease.
    is_noted: bool,
    /// The version of the list of access by which the node serves, and the one that `alive` has or gets.
    confirmed: Option<u64>,
    noting: Option<u64>,
    /// Whether `alive` was that of another run when it was last looked at.
    is_other: bool,
    changes: VecDeque<Running>,
    outcomes: VecDeque<(ChangeId, Outcome)>,
    published: Option<Tables>,
    is_changed: bool,
    failures: BTreeMap<usize, String>,
    silent_since: Option<Nanos>,
    status: Option<StoreStatus>,
    rolled_back: Option<RolledBack>,
    is_accepted: bool,
    /// Those of a process that is no node's carries no jobs on.
    jobs: Option<Jobs>,
}

impl Agent {
    /// An agent that has not asked anything yet.
    pub fn new(config: AgentConfig, now: Nanos) -> Self {
        let mut due = BTreeMap::from([(Task::Read, now), (Task::Status, now)]);
        due.insert(Task::Check, now.plus(CHECK_EVERY));
        if config.run.is_some() {
            due.insert(Task::Alive, now);
        }
        Self {
            config,
            state: ClusterState::new(config.cluster),
            revision: 0,
            complete: 0,
            answered_by: None,
            store: None,
            seen: config.seen,
            notes_seen: false,
            is_unseen: false,
            is_seen_new: false,
            requests: VecDeque::new(),
            waiting: BTreeMap::new(),
            next_id: 0,
            endpoint: 0,
            due,
            reading: None,
            reads_begun: 0,
            reads_ended: 0,
            watch: None,
            held: None,
            watched_at: 0,
            lease: None,
            is_noted: false,
            confirmed: None,
            noting: None,
            is_other: false,
            changes: VecDeque::new(),
            outcomes: VecDeque::new(),
            published: None,
            is_changed: false,
            failures: BTreeMap::new(),
            silent_since: Some(now),
            status: None,
            rolled_back: None,
            is_accepted: false,
            jobs: config.run.map(|run| Jobs::new(Worker { node: config.node, run })),
        }
    }

    /// The time in seconds since 1970, for the records of jobs.
    pub fn set_wall(&mut self, seconds: u64) {
        self.jobs.iter_mut().for_each(|jobs| jobs.set_wall(seconds));
    }

    /// The node has zeroed a place of its tables' `to_zero`, durably.
    pub fn handle_zeroed(&mut self, now: Nanos, place: NewPlace) {
        self.jobs.iter_mut().for_each(|jobs| jobs.handle_zeroed(place));
        self.due.insert(Task::Jobs, now);
    }

    /// The node could not zero a place for this job.
    pub fn handle_zeroing_failed(&mut self, now: Nanos, job: u64, error: String) {
        self.jobs.iter_mut().for_each(|jobs| jobs.handle_failed(job, error.clone()));
        self.due.insert(Task::Jobs, now);
    }

    /// All cores of the node serve by this version of the list of access, the node has kept it, and older
    /// requests have ended.
    pub fn confirm_access(&mut self, now: Nanos, version: u64) {
        if self.confirmed < Some(version) {
            self.confirmed = Some(version);
            self.is_noted = false;
            if !self.waiting.values().any(|it| it.task == Task::Alive) {
                self.due.insert(Task::Alive, now);
            }
        }
    }

    /// Notes from now on what the node has seen of the store: it has taken its part in the cluster.
    pub fn note_seen(&mut self, now: Nanos) {
        self.notes_seen = true;
        self.due.insert(Task::Seen, now);
    }

    /// Further endpoints can be asked, too.
    pub fn set_endpoints(&mut self, endpoints: usize) {
        self.config.endpoints = endpoints;
    }

    /// Another endpoint has this place: what the earlier one has failed at does not matter any more.
    pub fn replace_endpoint(&mut self, place: usize) {
        self.failures.remove(&place);
    }

    /// Takes what the store reports.
    pub fn handle_event(&mut self, now: Nanos, event: StoreEvent) {
        match event {
            StoreEvent::Answered { id, store, answer } => {
                if let Some(waiting) = self.waiting.remove(&id) {
                    self.answered_by = store;
                    let answer = self.answer_of(now, store, answer);
                    self.handle_answer(now, waiting, answer);
                }
            }
            StoreEvent::Changed { id, revision, changes } => {
                if self.watch == Some(id) {
                    self.take_changes(now, revision, changes);
                }
            }
            StoreEvent::WatchEnded { id, is_compacted, .. } => {
                if self.watch == Some(id) {
                    self.end_watch();
                    self.waiting.remove(&id);
                    if !is_compacted && self.watched_at == self.endpoint {
                        self.endpoint = (self.endpoint + 1) % self.config.endpoints.max(1);
                    }
                    let task = if is_compacted { Task::Read } else { Task::Watch };
                    self.due.insert(task, now.plus(RETRY_AFTER));
                }
            }
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let late: Vec<RequestId> =
            self.waiting.iter().filter(|(_, it)| it.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            if let Some(waiting) = self.waiting.remove(&id) {
                let reason = "no answer for 2 s".to_owned();
                self.handle_answer(now, waiting, Answer::Unknown { reason });
            }
        }
        let due: Vec<Task> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(task, _)| *task).collect();
        for task in due {
            self.due.remove(&task);
            match task {
                Task::Read => self.start_reading(now),
                Task::Check => self.start_check(now),
                Task::Watch => self.start_watch(now),
                Task::Step => self.step(now),
                Task::Alive => self.keep_alive(now),
                Task::Seen => self.write_seen(now),
                Task::Status => drop(self.request(now, Task::Status, Operation::Status)),
                Task::Jobs => self.look_at_jobs(now),
            }
        }
    }

    /// The next request for the store.
    pub fn poll_request(&mut self) -> Option<StoreRequest> {
        self.requests.pop_front()
    }

    /// The node's tables, if they have changed.
    pub fn poll_publish(&mut self) -> Option<Tables> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let tables = compile(&self.state, self.config.node);
        if self.published.as_ref() == Some(&tables) {
            return None;
        }
        self.published = Some(tables.clone());
        Some(tables)
    }

    /// The newest state of the store that the node has seen, if it has changed. The caller keeps it durably.
    pub fn poll_seen(&mut self) -> Option<Seen> {
        self.seen.filter(|_| std::mem::take(&mut self.is_seen_new))
    }

    /// The store that is believed.
    pub fn store(&self) -> Option<StoreId> {
        self.store.filter(|_| self.rolled_back.is_none())
    }

    /// The time at which [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Nanos {
        let deadlines = self.waiting.values().map(|it| it.deadline);
        self.due.values().copied().chain(deadlines).min().unwrap_or(Nanos::NEVER)
    }

    /// The known content of the store.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The connection to the store.
    pub fn health(&self) -> StoreHealth {
        StoreHealth {
            is_read: self.revision != 0,
            silent_since: self.silent_since,
            failures: self.failures.clone(),
            status: self.status.clone(),
            is_outcome_unknown: self.changes.front().is_some_and(|it| it.is_unknown),
            other_run: self.other_run(),
            rolled_back: self.rolled_back.clone(),
            is_accepted: self.is_accepted,
        }
    }

    fn other_run(&self) -> Option<u64> {
        let alive = self.state.alive().get(&self.config.node)?;
        Some(alive.run).filter(|run| self.config.run.is_some_and(|ours| ours != *run))
    }

    fn request(&mut self, now: Nanos, task: Task, operation: Operation) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let (endpoint, deadline) = (self.endpoint, now.plus(ANSWER_TIMEOUT));
        self.requests.push_back(StoreRequest { id, endpoint, deadline, operation });
        self.waiting.insert(id, Waiting { task, endpoint, deadline });
        id
    }

    fn handle_answer(&mut self, now: Nanos, waiting: Waiting, answer: Answer) {
        if let Answer::Unknown { reason } = answer {
            self.endpoint_failed(now, waiting, reason);
            return;
        }
        self.silent_since = None;
        self.failures.remove(&waiting.endpoint);
        match (waiting.task, answer) {
            (Task::Read | Task::Check, Answer::Range { revision, found, more }) => {
                self.take_page(now, revision, found, more);
            }
            (Task::Read | Task::Check, _) => {
                self.reading = None;
                self.due.insert(Task::Read, now.plus(RETRY_AFTER));
            }
            (Task::Step, Answer::Txn { succeeded, revision }) => {
                self.take_outcome(now, succeeded, revision);
            }
            (Task::Alive, Answer::Lease { lease }) => {
                (self.lease, self.is_noted) = (Some(lease), false);
                self.due.insert(Task::Alive, now);
            }
            (Task::Alive, Answer::Txn { succeeded: true, .. }) => {
                self.is_noted = self.noting == self.confirmed;
                let next = if self.is_noted { now.plus(ALIVE_EVERY) } else { now };
                self.due.insert(Task::Alive, next);
            }
            (Task::Alive, Answer::KeptAlive { exists: true }) => {
                // Meanwhile, the key of an earlier run may have ended.
                let waits = self.is_noted || self.other_run().is_some();
                let next = if waits { now.plus(ALIVE_EVERY) } else { now };
                self.due.insert(Task::Alive, next);
            }
            (Task::Alive, _) => {
                self.lease = None;
                self.due.insert(Task::Alive, now.plus(RETRY_AFTER));
            }
            (Task::Status, Answer::Status(status)) => {
                self.status = Some(status);
                self.due.insert(Task::Status, now.plus(STATUS_EVERY));
            }
            (Task::Watch, Answer::Watching) => self.confirm_watch(now),
            (Task::Seen, Answer::Txn { succeeded: true, revision }) => self.noted(now, revision),
            (Task::Seen, _) => {
                // Another record of this node, or another history: what is known is out of date.
                self.is_unseen = true;
                self.due.insert(Task::Seen, now.plus(self.seen_after()));
                self.start_reading(now);
            }
            // An answer to something else is no answer.
            (task, _) => drop(self.due.insert(task, now.plus(RETRY_AFTER))),
        }
    }

    fn endpoint_failed(&mut self, now: Nanos, waiting: Waiting, reason: String) {
        self.failures.insert(waiting.endpoint, reason);
        if self.failures.len() >= self.config.endpoints {
            self.silent_since.get_or_insert(now);
        }
        if waiting.endpoint == self.endpoint {
            self.endpoint = (self.endpoint + 1) % self.config.endpoints.max(1);
        }
        match waiting.task {
            Task::Read | Task::Check => self.reading = None,
            Task::Watch => self.end_watch(),
            Task::Seen => self.is_unseen = true,
            Task::Step => self.changes.front_mut().into_iter().for_each(|it| it.is_unknown = true),
            Task::Status => self.status = None,
            Task::Alive => self.lease = None,
            Task::Jobs => {}
        }
        self.due.insert(waiting.task, now.plus(RETRY_AFTER));
    }

    /// Creates or renews the lease of `alive`, once the node is registered. A node that was killed
    /// and started again has the lease ready when that of the earlier run ends, so that nobody sees
    /// it as down for longer than one transaction takes.
    fn keep_alive(&mut self, now: Nanos) {
        if self.rolled_back.is_some() {
            self.due.insert(Task::Alive, now.plus(ALIVE_EVERY));
            return;
        }
        if !self.state.nodes().contains_key(&self.config.node) {
            self.due.insert(Task::Alive, now.plus(RETRY_AFTER));
            return;
        }
        match self.lease {
            None => self.request(now, Task::Alive, Operation::LeaseGrant { ttl: ALIVE_TTL }),
            Some(lease) if self.is_noted || self.other_run().is_some() => {
                self.request(now, Task::Alive, Operation::LeaseKeepAlive { lease })
            }
            Some(lease) => self.note_alive(now, lease),
        };
    }

    fn note_alive(&mut self, now: Nanos, lease: i64) -> RequestId {
        let key = Key::Alive(self.config.node);
        let (run, access) = (self.config.run.unwrap_or_default(), self.confirmed);
        let record = AliveRecord { schema: Schema, run, access };
        self.noting = access;
        let mod_revision = self.state.revision(&key);
        let compares = vec![Compare { key: key.clone(), mod_revision }];
        let puts = vec![Put { key, value: record.encode().into(), lease: Some(lease) }];
        self.request(now, Task::Alive, Operation::Txn(Txn { compares, puts, deletes: Vec::new() }))
    }

    /// Submits what the jobs of the cluster need next.
    fn look_at_jobs(&mut self, now: Nanos) {
        let Some(jobs) = self.jobs.as_mut().filter(|_| self.reads_ended > 0) else { return };
        if let Some(change) = jobs.next(now, &self.state) {
            self.add(now, None, change);
        } else {
            self.due.insert(Task::Jobs, jobs.poll_timeout(now));
        }
    }

    /// The known state, for a comparison with what is read.
    fn known(&self) -> Known<'_> {
        Known {
            state: &self.state,
            revision: self.revision,
            complete: self.complete,
            seen: self.seen,
            node: self.config.node,
        }
    }

    /// An answer of another store than the one that was read does not count.
    fn answer_of(&mut self, now: Nanos, store: Option<StoreId>, answer: Answer) -> Answer {
        match (self.store, store) {
            (Some(known), Some(found)) if known != found => {
                let rolled_back = RolledBack::Store { known, found };
                let reason = format!("another etcd answers: {rolled_back}");
                self.has_gone_back(now, rolled_back);
                Answer::Unknown { reason }
            }
            _ => answer,
        }
    }

    /// A change that waits for a newer state goes on.
    fn state_changed(&mut self, now: Nanos) {
        self.is_changed = true;
        self.due.insert(Task::Jobs, now);
        let (was_other, is_other) = (self.is_other, self.other_run().is_some());
        self.is_other = is_other;
        self.is_noted &= !is_other;
        let is_asked = self.waiting.values().any(|it| matches!(it.task, Task::Alive));
        if was_other && !is_other && !is_asked {
            self.due.insert(Task::Alive, now);
        }
        if self.changes.front().is_some_and(|it| it.is_ready(&self.state, self.reads_ended)) {
            self.due.insert(Task::Step, now);
        }
    }
}

#[cfg(test)]
mod tests;
