//! The list of jobs: those that have not ended, and the last that have.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearflash_access::UnixTime;
use nearflash_api::{ApiError, JobInfo, JobState};
use nearflash_space::{Name, Volume};
use nearflash_units::ByteLen;

use super::bell::Bell;
use super::clock::now;

/// The maximum number of jobs that have not ended.
pub(super) const JOBS_MAX: usize = 64;

/// The most ended jobs that are listed.
const ENDED_JOBS_MAX: usize = 64;

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) kind: &'static str,
    pub(super) volume: Name,
    pub(super) total: ByteLen,
    pub(super) started: UnixTime,
    pub(super) done: AtomicU64,
    pub(super) is_cancelled: AtomicBool,
}

impl Job {
    /// The job that prepares a volume.
    pub(super) fn of(volume: &Volume, id: u64) -> Self {
        let behind = volume.extents_behind(volume.len());
        Self {
            id,
            kind: if volume.is_empty() { "volume-create" } else { "volume-resize" },
            volume: volume.name.clone(),
            total: ByteLen(behind.iter().map(|extent| extent.len.0).sum()),
            started: now(),
            done: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// The jobs that have not ended, and the last that have.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    /// Rings with `changed`.
    pub(super) bell: Arc<Bell>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// By number.
    pub(super) entries: Vec<Entry>,
    pub(super) is_ending: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) job: Arc<Job>,
    pub(super) state: JobState,
    pub(super) ended: Option<UnixTime>,
    pub(super) error: Option<ApiError>,
}

impl Entry {
    pub(super) fn info(&self) -> JobInfo {
        let job = &self.job;
        JobInfo {
            id: job.id,
            kind: job.kind.to_owned(),
            volume: job.volume.to_string(),
            state: self.state,
            done_bytes: job.done.load(Ordering::Relaxed),
            total_bytes: job.total.0,
            started_at: job.started.0,
            ended_at: self.ended.map(|at| at.0),
            error: self.error.clone(),
        }
    }
}

impl State {
    pub(super) fn entry(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.job.id == id)
    }

    pub(super) fn info(&self, id: u64) -> Option<JobInfo> {
        self.entries.iter().find(|entry| entry.job.id == id).map(Entry::info)
    }
}

impl Jobs {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_room(&self) -> bool {
        let state = self.lock();
        state.entries.iter().filter(|entry| !entry.state.is_over()).count() < JOBS_MAX
    }

    pub(super) fn add(&self, job: Job) {
        let mut state = self.lock();
        let over = state.entries.iter().filter(|entry| entry.state.is_over()).count();
        if over >= ENDED_JOBS_MAX
            && let Some(oldest) = state.entries.iter().position(|entry| entry.state.is_over())
        {
            state.entries.remove(oldest);
        }
        let (job, state_of_it) = (Arc::new(job), JobState::Waiting);
        state.entries.push(Entry { job, state: state_of_it, ended: None, error: None });
        drop(state);
        self.tell();
    }

    /// Waits for the next job to run. `None` when the node ends.
    pub(super) fn next(&self) -> Option<Arc<Job>> {
        let nothing = |state: &mut State| {
            !state.is_ending && !state.entries.iter().any(|it| it.state == JobState::Waiting)
        };
        let state = self.changed.wait_while(self.lock(), nothing);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_ending {
            return None;
        }
        let entry = state.entries.iter_mut().find(|it| it.state == JobState::Waiting)?;
        entry.state = JobState::Running;
        let job = Arc::clone(&entry.job);
        drop(state);
        self.bell.ring();
        Some(job)
    }

    /// Records the end of a job.
    pub(super) fn end(&self, id: u64, how: JobState, error: Option<ApiError>) {
        if let Some(entry) = self.lock().entry(id) {
            entry.state = how;
            entry.ended = Some(now());
            entry.error = error;
        }
        self.tell();
    }

    /// Tells the threads that wait, and the HTTP interface, of a change.
    fn tell(&self) {
        self.changed.notify_all();
        self.bell.ring();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.lock().is_ending
    }

    /// The state of a job once it has ended, or after `patience`.
    pub(super) fn wait(&self, id: u64, patience: Duration) -> Option<JobInfo> {
        let is_going_on = |state: &mut State| {
            !state.is_ending && state.info(id).is_some_and(|info| !info.state.is_over())
        };
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_going_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.info(id)
    }
}
