//! The jobs of this node: the threads that zero blocks, and the calls that begin, show and cancel
//! jobs. [`Jobs`] decides which job runs, whether it goes on, and what follows.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearflash_api::{ApiError, JobInfo, OneJob, OneVolume};
use nearflash_control::{CancelError, Job, JobKind, JobState, Jobs, Next, Zeroed, Zeroing};
use nearflash_planner::{AskedMove, Refusal};
use nearflash_space::{Name, Space, Volume, VolumeError};
use nearflash_units::ByteLen;

use super::Node;
use super::now;
use crate::asker::Event;
use crate::crew::Crew;
use crate::error::NodeError;
use crate::prepare::zero;
use crate::volume_info::volume_info;

/// The maximum number of jobs that run at a time.
const WORKERS: usize = 4;

/// The time for which the answer to a change waits for its job: a device that can zero blocks by
/// itself has finished by then.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// The longest wait for a job that a request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The time for which the end of the node waits for the device operations of a worker.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The jobs, and the signal of a change of one.
#[derive(Debug, Default)]
pub(super) struct JobDesk {
    jobs: Mutex<Jobs<ApiError>>,
    changed: Condvar,
}

impl JobDesk {
    fn lock(&self) -> MutexGuard<'_, Jobs<ApiError>> {
        // No code panics while the lock is held.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job to run. `None` when the node ends.
    fn next(&self) -> Option<u64> {
        let nothing = |jobs: &mut Jobs<ApiError>| !jobs.is_ending() && !jobs.has_work();
        let jobs = self.changed.wait_while(self.lock(), nothing);
        jobs.unwrap_or_else(PoisonError::into_inner).poll_work()
    }

    /// A job once it has ended, or after `patience`.
    fn wait(&self, id: u64, patience: Duration) -> Option<JobInfo> {
        let is_going_on = |jobs: &mut Jobs<ApiError>| {
            !jobs.is_ending() && jobs.get(id).is_some_and(|job| !job.is_over())
        };
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_going_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.get(id).map(job_info)
    }
}

/// The threads that run jobs.
pub(crate) struct Workers {
    node: Arc<Node>,
    crew: Crew,
}

impl Workers {
    /// Resumes the jobs of an earlier run, and starts the threads.
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        node.resume_jobs();
        let mut it = Self { node, crew: Crew::new() };
        for number in 0..WORKERS {
            let node = Arc::clone(&it.node);
            let work = move || {
                while let Some(id) = node.jobs.next() {
                    node.bell.ring();
                    node.run_job(id);
                }
            };
            it = it.with(format!("job-{number}"), work)?;
        }
        Ok(it)
    }

    fn with(mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        match self.crew.start(name, work) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.stop();
                Err(error)
            }
        }
    }

    /// Stops the threads. Unfinished jobs remain recorded for the next run. Returns whether every
    /// device operation of the threads has ended.
    pub(crate) fn stop(self) -> bool {
        self.node.jobs.lock().handle_stop();
        self.node.jobs.changed.notify_all();
        let zeroing = self.node.zeroing.end();
        self.node.tracing.end();
        let end = Instant::now() + STOP_PATIENCE;
        let are_idle = self.crew.join(STOP_PATIENCE)
            && zeroing.join(end.saturating_duration_since(Instant::now()));
        if !are_idle {
            tracing::warn!("abandoned a job: a device does not answer");
        }
        are_idle
    }
}

impl Node {
    /// Reserves the space of a volume, and starts the job that prepares it for hosts. Answers when
    /// the job has ended, or after [`ANSWER_PATIENCE`].
    pub(super) fn prepare_blocks(
        &self,
        reserve: impl FnOnce(&mut Space, u64) -> Result<Volume, NodeError>,
    ) -> Result<OneVolume, ApiError> {
        let (id, name) = self.reserve(reserve)?;
        let job = self.jobs.wait(id, ANSWER_PATIENCE);
        let job = job.filter(|job| job.state != nearflash_api::JobState::Done);
        if let Some(error) = job.as_ref().and_then(|job| job.error.clone()) {
            return Err(error);
        }
        let space = &self.served().recorded.space;
        let gone = || NodeError::from(VolumeError::NotFound(name.clone()));
        let volume = volume_info(space.volume(&name).ok_or_else(gone)?, space);
        Ok(OneVolume { volume, job, note: None })
    }

    fn reserve(
        &self,
        reserve: impl FnOnce(&mut Space, u64) -> Result<Volume, NodeError>,
    ) -> Result<(u64, Name), NodeError> {
        let _one = self.one_change_of_a_caller()?;
        if !self.jobs.lock().has_room() {
            return Err(Refusal::TooManyJobs.into());
        }
        let mut fresh = self.copy();
        // Jobs of a cluster have even numbers.
        let in_cluster = u64::from(self.cluster.get().is_some());
        fresh.last_job = (fresh.last_job + 1) | in_cluster;
        let id = fresh.last_job;
        let volume = reserve(&mut fresh.space, id)?;
        self.record(&mut fresh)?;
        self.adopt(fresh);
        self.change_jobs(|jobs| jobs.handle_recorded(&volume, id, now()));
        Ok((id, volume.name))
    }

    fn resume_jobs(&self) {
        let space = self.served().recorded.space.clone();
        self.change_jobs(|jobs| {
            jobs.handle_start(&space, now());
            for job in jobs.iter() {
                tracing::info!(volume = job.volume.as_str(), "job {} starts again", job.id);
            }
        });
    }

    /// Changes the state of jobs, and tells the threads that wait and the HTTP interface.
    fn change_jobs(&self, change: impl FnOnce(&mut Jobs<ApiError>)) {
        change(&mut self.jobs.lock());
        self.jobs.changed.notify_all();
        self.bell.ring();
    }

    fn run_job(&self, id: u64) {
        let zeroing = Zeroing::of(&self.served().recorded.space, id);
        let Some(Zeroing { extents, provisioning }) = zeroing else {
            return self.change_jobs(|jobs| jobs.handle_undone(id, None, now()));
        };
        let mut goes_on = |len: ByteLen| self.jobs.lock().handle_progress(id, len);
        let zeroed = zero(&self.devices(), &extents, provisioning, &mut goes_on);
        let (zeroed, failure) = match zeroed {
            Ok(true) => (Zeroed::All, None),
            Ok(false) => (Zeroed::Stopped, None),
            Err(error) => (Zeroed::Failed, Some(error.into())),
        };
        let next = self.jobs.lock().handle_zeroed(id, zeroed);
        match next {
            Next::Show => self.finish_job(id),
            Next::Undo => self.undo_job(id, failure),
            Next::Leave => {}
        }
    }

    fn finish_job(&self, id: u64) {
        let finish = |space: &mut Space| {
            space.finish(id).cloned().ok_or_else(|| Refusal::NoJob { id }.into())
        };
        match self.change_as(self.one_change(), finish) {
            Ok(volume) => {
                tracing::debug!(volume = volume.name, bytes = volume.bytes, "volume prepared");
            }
            // The change is made. Older requests take long to end, but they cannot address the new
            // blocks.
            Err(NodeError::NotQuiesced) => {}
            Err(error) => return self.undo_job(id, Some(error)),
        }
        self.change_jobs(|jobs| jobs.handle_shown(id, now()));
    }

    /// Restores the volume to its earlier state, or removes it if it is new.
    fn undo_job(&self, id: u64, failure: Option<NodeError>) {
        let _one = self.one_change();
        let mut fresh = self.copy();
        if fresh.space.cancel(id).is_some() {
            fresh.forget_rights_on_gone_volumes();
            match self.record(&mut fresh) {
                Ok(()) => self.adopt(fresh),
                // The job is still recorded, and the next run starts it again.
                Err(error) => tracing::error!("job {id} cannot be undone: {error}"),
            }
        }
        if let Some(error) = &failure {
            // It may have made its device suspect.
            self.asker.tell(Event::Suspect);
            let volume = self.jobs.lock().get(id).map(|job| job.volume.to_string());
            tracing::error!(volume, "job {id} failed: {error}");
        }
        let failure = failure.map(ApiError::from);
        self.change_jobs(|jobs| jobs.handle_undone(id, failure, now()));
    }

    pub(super) fn job_list(&self) -> Vec<JobInfo> {
        let own: Vec<JobInfo> = self.jobs.lock().iter().map(job_info).collect();
        let mut all: Vec<JobInfo> = own.into_iter().chain(self.cluster_jobs(false)).collect();
        all.sort_by_key(|job| job.started_at);
        all
    }

    /// The jobs of this node, and those of the cluster that it carries on.
    pub(super) fn carried_jobs(&self) -> Vec<JobInfo> {
        let own: Vec<JobInfo> = self.jobs.lock().iter().map(job_info).collect();
        own.into_iter().chain(self.cluster_jobs(true)).collect()
    }

    pub(super) fn job_show(&self, id: u64) -> Result<JobInfo, NodeError> {
        let own = self.jobs.lock().get(id).map(job_info);
        own.or_else(|| self.cluster_job(id)).ok_or_else(|| Refusal::NoJob { id }.into())
    }

    /// Waits until the job has ended, for at most [`WAIT_MAX`].
    pub(super) fn job_wait(&self, id: u64, patience: Duration) -> Result<JobInfo, NodeError> {
        let patience = patience.min(WAIT_MAX);
        let own = self.jobs.wait(id, patience);
        let found = own.or_else(|| self.await_cluster_job(id, patience));
        found.ok_or_else(|| Refusal::NoJob { id }.into())
    }

    /// The job that moves replicas.
    pub(super) fn job_of_move(&self, asked: AskedMove<'_>) -> Result<OneJob, ApiError> {
        let id = self.change_places(asked)?;
        Ok(OneJob { job: self.job_wait(id, ANSWER_PATIENCE)? })
    }

    /// Cancels a job: at once if it has not begun, otherwise after the current step, for which this
    /// call waits briefly.
    pub(super) fn job_cancel(&self, id: u64) -> Result<JobInfo, NodeError> {
        if self.jobs.lock().get(id).is_none() && self.cluster_job(id).is_some() {
            self.cancel_cluster_job(id)?;
            return self.job_wait(id, ANSWER_PATIENCE);
        }
        self.check_cores()?;
        let cancelled = self.jobs.lock().handle_cancel(id);
        match cancelled {
            Ok(true) => self.undo_job(id, None),
            Ok(false) => {}
            Err(CancelError::Unknown) => return Err(Refusal::NoJob { id }.into()),
            Err(CancelError::Over) => return Err(Refusal::JobOver { id }.into()),
        }
        self.job_wait(id, ANSWER_PATIENCE)
    }
}

fn job_info(job: &Job<ApiError>) -> JobInfo {
    let (state, error) = match &job.state {
        JobState::Waiting => (nearflash_api::JobState::Waiting, None),
        JobState::Running => (nearflash_api::JobState::Running, None),
        JobState::Done => (nearflash_api::JobState::Done, None),
        JobState::Failed(error) => (nearflash_api::JobState::Failed, Some(error.clone())),
        JobState::Cancelled => (nearflash_api::JobState::Cancelled, None),
    };
    let kind = match job.kind {
        JobKind::Create => "volume-create",
        JobKind::Grow => "volume-resize",
    };
    JobInfo {
        id: job.id,
        kind: kind.to_owned(),
        volume: job.volume.to_string(),
        state,
        waits_for: Vec::new(),
        done_bytes: job.done.0,
        total_bytes: job.total.0,
        started_at: job.began.0,
        ended_at: job.ended.map(|at| at.0),
        error,
    }
}
