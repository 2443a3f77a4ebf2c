//! Jobs: blocks must read as zeroes before hosts see them, and zeroing can take long.
//!
//! The space is reserved and recorded first, together with the number of its job; once it is
//! zeroed, a second change shows it. Other changes proceed meanwhile. A job that a restart
//! interrupts begins again: the records have it.
//!
//! A [`Jobs`] says which job runs, whether it goes on, and what follows when its zeroing ends. The
//! driver zeroes, records and publishes. `E` is the reason of a failure, as callers get it.

#[cfg(test)]
mod tests;

use nearflash_space::{Extent, Name, Provisioning, Space, Volume};
use nearflash_units::{ByteLen, UnixTime};

/// The maximum number of jobs that have not ended.
pub const JOBS_MAX: usize = 64;

/// The maximum number of ended jobs that are listed.
const ENDED_JOBS_MAX: usize = 64;

/// A job, and how far it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Job<E> {
    /// Its number, which is never reused.
    pub id: u64,
    /// The change that it completes.
    pub kind: JobKind,
    /// The name of its volume.
    pub volume: Name,
    /// The bytes to zero.
    pub total: ByteLen,
    /// The bytes that are zeroed.
    pub done: ByteLen,
    /// When it was recorded, or when it began again.
    pub began: UnixTime,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// Whether it waits, runs or has ended.
    pub state: JobState<E>,
    is_cancelled: bool,
}

/// The change that a job completes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JobKind {
    /// A new volume.
    Create,
    /// A volume that grows.
    Grow,
}

/// Whether a job waits, runs or has ended, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JobState<E> {
    /// It waits for others.
    Waiting,
    /// It is carried on, or undone.
    Running,
    /// Hosts see the blocks.
    Done,
    /// It was undone, for this reason.
    Failed(E),
    /// It was undone, because an operator cancelled it.
    Cancelled,
}

/// The blocks that a job zeroes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Zeroing {
    /// In the order of the volume.
    pub extents: Vec<Extent>,
    /// Whether their storage is kept or released.
    pub provisioning: Provisioning,
}

/// How the zeroing of a job ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Zeroed {
    /// Every block reads as zero, durably.
    All,
    /// It stopped, because [`Jobs::handle_progress`] said so.
    Stopped,
    /// A device failed.
    Failed,
}

/// The next step of the driver for a job that has been zeroed or stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Show the blocks to hosts.
    Show,
    /// Return the space.
    Undo,
    /// Nothing: the node ends, and the next run begins the job again.
    Leave,
}

/// Error: a job cannot be cancelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CancelError {
    /// There is no such job.
    Unknown,
    /// It has ended.
    Over,
}

/// The jobs that have not ended, and the last ones that have.
#[derive(Debug)]
pub struct Jobs<E> {
    /// In the order of their beginning.
    jobs: Vec<Job<E>>,
    is_ending: bool,
}

impl<E> Job<E> {
    /// The job that prepares a volume.
    fn of(volume: &Volume, id: u64, now: UnixTime) -> Self {
        let behind = volume.extents_behind(volume.len());
        Self {
            id,
            kind: if volume.is_empty() { JobKind::Create } else { JobKind::Grow },
            volume: volume.name.clone(),
            total: ByteLen(behind.iter().map(|extent| extent.len.0).sum()),
            done: ByteLen(0),
            began: now,
            ended: None,
            state: JobState::Waiting,
            is_cancelled: false,
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.state, JobState::Waiting)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, JobState::Done | JobState::Failed(_) | JobState::Cancelled)
    }
}

impl Zeroing {
    /// The blocks that the job of this number zeroes; `None` if no volume has it any more.
    pub fn of(space: &Space, id: u64) -> Option<Self> {
        let volume = space.volumes().find(|it| it.preparing.is_some_and(|it| it.job == id))?;
        let (extents, provisioning) = (volume.extents_behind(volume.len()), volume.provisioning);
        Some(Self { extents, provisioning })
    }
}

impl<E> Default for Jobs<E> {
    fn default() -> Self {
        Self { jobs: Vec::new(), is_ending: false }
    }
}

impl<E> Jobs<E> {
    /// Whether a further job can be recorded.
    pub fn has_room(&self) -> bool {
        self.jobs.iter().filter(|job| !job.is_over()).count() < JOBS_MAX
    }

    /// The job of this volume has been recorded.
    pub fn handle_recorded(&mut self, volume: &Volume, id: u64, now: UnixTime) {
        let over = self.jobs.iter().filter(|job| job.is_over()).count();
        if over >= ENDED_JOBS_MAX
            && let Some(oldest) = self.jobs.iter().position(Job::is_over)
        {
            self.jobs.remove(oldest);
        }
        self.jobs.push(Job::of(volume, id, now));
    }

    /// The node has started: the jobs of an earlier run begin again.
    pub fn handle_start(&mut self, space: &Space, now: UnixTime) {
        for volume in space.volumes() {
            if let Some(preparing) = volume.preparing {
                self.handle_recorded(volume, preparing.job, now);
            }
        }
    }

    /// Whether a job waits for a worker.
    pub fn has_work(&self) -> bool {
        !self.is_ending && self.jobs.iter().any(Job::is_waiting)
    }

    /// The next job to carry on.
    pub fn poll_work(&mut self) -> Option<u64> {
        let next = self.jobs.iter_mut().find(|job| job.is_waiting());
        let next = next.filter(|_| !self.is_ending)?;
        next.state = JobState::Running;
        Some(next.id)
    }

    /// A job has zeroed so many bytes more. Returns whether it goes on.
    pub fn handle_progress(&mut self, id: u64, len: ByteLen) -> bool {
        let is_ending = self.is_ending;
        self.get_mut(id).is_some_and(|job| {
            job.done.0 = job.done.0.saturating_add(len.0);
            !job.is_cancelled && !is_ending
        })
    }

    /// The zeroing of a job has ended.
    pub fn handle_zeroed(&self, id: u64, zeroed: Zeroed) -> Next {
        let is_cancelled = self.get(id).is_some_and(|job| job.is_cancelled);
        match zeroed {
            Zeroed::All => Next::Show,
            Zeroed::Stopped if !is_cancelled => Next::Leave,
            Zeroed::Stopped | Zeroed::Failed => Next::Undo,
        }
    }

    /// Hosts see the blocks of a job.
    pub fn handle_shown(&mut self, id: u64, now: UnixTime) {
        self.end(id, JobState::Done, now);
    }

    /// The space of a job has been returned, because of a failure or because it was cancelled.
    pub fn handle_undone(&mut self, id: u64, failure: Option<E>, now: UnixTime) {
        self.end(id, failure.map_or(JobState::Cancelled, JobState::Failed), now);
    }

    /// An operator cancels a job. One that runs stops after its present step. Returns whether the
    /// job has not begun: then the caller undoes it, and no worker gets it.
    ///
    /// # Errors
    /// When there is no such job, or it has ended.
    pub fn handle_cancel(&mut self, id: u64) -> Result<bool, CancelError> {
        let job = self.get_mut(id).ok_or(CancelError::Unknown)?;
        if job.is_over() {
            return Err(CancelError::Over);
        }
        job.is_cancelled = true;
        let is_waiting = job.is_waiting();
        if is_waiting {
            job.state = JobState::Running;
        }
        Ok(is_waiting)
    }

    /// The node ends: no job begins any more, and those that run stop.
    pub fn handle_stop(&mut self) {
        self.is_ending = true;
    }

    /// Whether the node ends.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// A job.
    pub fn get(&self, id: u64) -> Option<&Job<E>> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// Every job, in the order of their beginning.
    pub fn iter(&self) -> impl Iterator<Item = &Job<E>> {
        self.jobs.iter()
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Job<E>> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    fn end(&mut self, id: u64, state: JobState<E>, now: UnixTime) {
        if let Some(job) = self.get_mut(id) {
            (job.state, job.ended) = (state, Some(now));
        }
    }
}
