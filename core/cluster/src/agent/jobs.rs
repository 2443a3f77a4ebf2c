//! The part of a process in the jobs of the cluster: it carries its own ones on, takes those over whose process is
//! gone, and notes the places that its node has zeroed.
//!
//! Two processes that believe to have one job harm nothing: each step compares the job's record.

use std::collections::{BTreeMap, BTreeSet};

use nearflash_planner::{Begin, Change, Refusal, Step};
use nearflash_records::record::{JobKind, JobRecord, JobState, Worker};
use nearflash_records::state::{ClusterState, NewPlace};
use nearflash_units::Nanos;
use uuid::Uuid;

use super::Outcome;

/// The time after which another node takes a job over, from the end of the key `alive`: its lease has had 5 s. A
/// process that starts again meanwhile keeps its jobs.
pub const WORKER_GONE: Nanos = Nanos(4_000_000_000);

/// The shortest and the longest time until a step that was refused is tried again.
const RETRY_FIRST: Nanos = Nanos(200_000_000);
const RETRY_MAX: Nanos = Nanos(30_000_000_000);

/// The jobs, as a process of a node sees them.
#[derive(Debug)]
pub(super) struct Jobs {
    own: Worker,
    /// Seconds since 1970.
    wall: u64,
    /// Zeroed by this process, and awaited by a job as far as is known.
    zeroed: BTreeSet<NewPlace>,
    /// Jobs of which a step has failed for good.
    failed: BTreeMap<u64, String>,
    /// The processes of unfinished jobs that do not run, and since when.
    gone: BTreeMap<Worker, Nanos>,
    /// When a refused change is tried again, and after how long.
    delayed: BTreeMap<Item, (Nanos, Nanos)>,
    /// The change under way.
    change: Option<Change>,
}

/// A kind of change, whose refusals hold up no other one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Item {
    /// A step of this job, or its takeover.
    Step(u64),
    /// The end of this job by a failure.
    Fail(u64),
    /// Notes of places.
    Note,
}

impl Jobs {
    pub(super) fn new(own: Worker) -> Self {
        Self {
            own,
            wall: 0,
            zeroed: BTreeSet::new(),
            failed: BTreeMap::new(),
            gone: BTreeMap::new(),
            delayed: BTreeMap::new(),
            change: None,
        }
    }

    pub(super) fn set_wall(&mut self, seconds: u64) {
        self.wall = seconds;
    }

    pub(super) fn handle_zeroed(&mut self, place: NewPlace) {
        self.zeroed.insert(place);
    }

    pub(super) fn handle_failed(&mut self, job: u64, error: String) {
        self.failed.insert(job, error);
    }

    /// The next change to submit; `None` while one is under way, or there is nothing to do.
    pub(super) fn next(&mut self, now: Nanos, state: &ClusterState) -> Option<Change> {
        if self.change.is_some() {
            return None;
        }
        self.forget(now, state);
        let failed = self.failed.iter().find(|(job, _)| !self.is_delayed(Item::Fail(**job), now));
        let failed = failed.map(|(job, error)| Change::FailJob { job: *job, error: error.clone() });
        let noted = self.note_zeroed(state).filter(|_| !self.is_delayed(Item::Note, now));
        let step = || self.unfinished(state).find_map(|(id, job)| self.step(now, state, (id, job)));
        let change = failed.or(noted).or_else(step)?;
        self.change = Some(change.clone());
        Some(change)
    }

    /// The next time at which [`Self::next`] may have something to do without a change of the state.
    pub(super) fn poll_timeout(&self, now: Nanos) -> Nanos {
        let taken = self.gone.values().map(|since| since.plus(WORKER_GONE));
        let delayed = self.delayed.values().map(|(at, _)| *at);
        taken.chain(delayed).filter(|at| *at > now).min().unwrap_or(Nanos::NEVER)
    }

    /// The change under way has ended.
    pub(super) fn handle_outcome(&mut self, now: Nanos, outcome: Outcome) {
        let Some(change) = self.change.take() else { return };
        let item = match &change {
            Change::CarryOn { job, .. } | Change::TakeJob { job, .. } => Item::Step(*job),
            Change::FailJob { job, .. } => Item::Fail(*job),
            _ => Item::Note,
        };
        match (outcome, change) {
            (Outcome::Refused(refusal), Change::CarryOn { job, .. }) if is_final(&refusal) => {
                self.failed.insert(job, refusal.to_string());
            }
            (Outcome::Refused(_), _) => {
                let (_, wait) = self.delayed.get(&item).copied().unwrap_or_default();
                let wait = Nanos((wait.0 * 2).clamp(RETRY_FIRST.0, RETRY_MAX.0));
                self.delayed.insert(item, (now.plus(wait), wait));
            }
            _ => drop(self.delayed.remove(&item)),
        }
    }

    fn is_delayed(&self, item: Item, now: Nanos) -> bool {
        self.delayed.get(&item).is_some_and(|(at, _)| *at > now)
    }

    /// Forgets what no job waits for any more, and looks which processes are gone.
    fn forget(&mut self, now: Nanos, state: &ClusterState) {
        if !self.zeroed.is_empty() {
            let awaited: BTreeSet<NewPlace> = state.places_to_zero().collect();
            self.zeroed.retain(|place| awaited.contains(place));
        }
        let goes_on = |job: &u64| state.jobs().get(job).is_some_and(|it| !it.state.is_over());
        let runs = |job: &u64| {
            state
                .jobs()
                .get(job)
                .is_some_and(|it| it.state == JobState::Running && it.kind != JobKind::RemoveVolume)
        };
        self.failed.retain(|job, _| runs(job));
        self.delayed.retain(|item, _| match item {
            Item::Step(job) | Item::Fail(job) => goes_on(job),
            Item::Note => true,
        });
        let gone: BTreeSet<Worker> = self
            .unfinished(state)
            .map(|(_, job)| job.worker)
            .filter(|worker| !state.alive().contains_key(&worker.node))
            .collect();
        self.gone.retain(|worker, _| gone.contains(worker));
        for worker in gone {
            self.gone.entry(worker).or_insert(now);
        }
    }

    fn note_zeroed(&self, state: &ClusterState) -> Option<Change> {
        let note = Change::NoteZeroed { places: self.zeroed.iter().copied().collect() };
        let waits = self.zeroed.is_empty() || matches!(note.plan(state, false), Ok(Step::Done));
        (!waits).then_some(note)
    }

    fn unfinished<'a>(
        &self,
        state: &'a ClusterState,
    ) -> impl Iterator<Item = (u64, &'a JobRecord)> + use<'a> {
        state.jobs().iter().filter(|(_, job)| !job.state.is_over()).map(|(id, job)| (*id, job))
    }

    /// The next change that this process makes for a job.
    fn step(
        &self,
        now: Nanos,
        state: &ClusterState,
        (id, job): (u64, &JobRecord),
    ) -> Option<Change> {
        if self.is_delayed(Item::Step(id), now) {
            return None;
        }
        if job.worker == self.own {
            let by = Begin { worker: self.own, now: self.wall };
            let carry_on = Change::CarryOn { job: id, by };
            let waits = matches!(carry_on.plan(state, false), Ok(Step::Done));
            return (!waits).then_some(carry_on);
        }
        // An earlier process of this node has ended, since this one runs.
        let is_earlier = job.worker.node == self.own.node;
        let is_gone =
            self.gone.get(&job.worker).is_some_and(|since| since.plus(WORKER_GONE) <= now);
        let takes = is_earlier || is_gone && self.is_first(state);
        takes.then_some(Change::TakeJob { job: id, from: job.worker, to: self.own })
    }

    /// Whether this node has the lowest number of those that run.
    fn is_first(&self, state: &ClusterState) -> bool {
        let number = |node: &Uuid| state.nodes().get(node).map(|record| (record.ordinal, *node));
        state.alive().keys().filter_map(number).min().is_some_and(|(_, node)| node == self.own.node)
    }
}

/// Whether the step cannot succeed later without somebody's doing. Such a job is undone.
fn is_final(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Full { .. }
            | Refusal::NoSlices
            | Refusal::NoPlaceToMove { .. }
            | Refusal::NoSliceOn(_)
            | Refusal::FewNodes { .. }
            | Refusal::NoNode(_)
            | Refusal::Mirrors
            | Refusal::Length(_)
    )
}
