//! Jobs: blocks must read as zeroes before hosts see them, and zeroing can take long. The space is
//! reserved and recorded first; once it is zeroed, a second change publishes it. Other changes
//! proceed meanwhile, and a job that a restart interrupts starts again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nearflash_api::{ApiError, JobInfo, JobState, OneVolume};
use nearflash_planner::Refusal;
use nearflash_space::{Name, Space, Volume, VolumeError};
use nearflash_units::ByteLen;

use super::Node;
use super::jobs::{Entry, Job};
use crate::error::NodeError;
use crate::exports::volume_info;
use crate::prepare::{keep_grants_on, zero};
use crate::runtime_face::Event;

/// The maximum number of jobs that run at a time.
const WORKERS: usize = 4;

/// The time for which the answer to a change waits for its job: a device that can zero blocks by
/// itself has finished by then.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// The longest wait for a job that a request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The time for which the end of the node waits for the device operations of a worker.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The threads that run jobs.
pub(crate) struct Workers {
    node: Arc<Node>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Resumes the jobs of an earlier run, and starts the threads.
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        node.resume_jobs();
        let mut it = Self { node, threads: Vec::new() };
        for number in 0..WORKERS {
            let node = Arc::clone(&it.node);
            let work = move || {
                while let Some(job) = node.jobs.next() {
                    node.run_job(&job);
                }
            };
            match Builder::new().name(format!("job-{number}")).spawn(work) {
                Ok(thread) => it.threads.push(thread),
                Err(error) => {
                    it.stop();
                    return Err(error);
                }
            }
        }
        Ok(it)
    }

    /// Stops the threads. Unfinished jobs remain recorded for the next run. Returns whether every
    /// device operation of the threads has ended.
    pub(crate) fn stop(self) -> bool {
        self.node.jobs.lock().is_ending = true;
        self.node.jobs.changed.notify_all();
        self.node.tracing.end();
        let deadline = Instant::now() + STOP_PATIENCE;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() > deadline {
                tracing::warn!("abandoned a job: a device does not answer");
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread that runs jobs has panicked");
            }
        }
        true
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
        let job = job.filter(|job| job.state != JobState::Done);
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
        if !self.jobs.has_room() {
            return Err(Refusal::TooManyJobs.into());
        }
        let mut fresh = self.copy();
        fresh.last_job += 1;
        let id = fresh.last_job;
        let volume = reserve(&mut fresh.space, id)?;
        self.record(&mut fresh)?;
        self.adopt(fresh);
        self.jobs.add(Job::of(&volume, id));
        Ok((id, volume.name))
    }

    fn resume_jobs(&self) {
        let jobs: Vec<Job> = {
            let space = &self.served().recorded.space;
            let job = |volume: &Volume| Some(Job::of(volume, volume.preparing?.job));
            space.volumes().filter_map(job).collect()
        };
        for job in jobs {
            tracing::info!(volume = job.volume.as_str(), "job {} starts again", job.id);
            self.jobs.add(job);
        }
    }

    fn run_job(&self, job: &Job) {
        let volume = {
            let space = &self.served().recorded.space;
            space.volumes().find(|it| it.preparing.is_some_and(|it| it.job == job.id)).cloned()
        };
        let Some(volume) = volume else {
            return self.jobs.end(job.id, JobState::Cancelled, None);
        };
        let mut goes_on = |len: ByteLen| {
            job.done.fetch_add(len.0, Ordering::Relaxed);
            !job.is_cancelled() && !self.jobs.is_ending()
        };
        let behind = volume.extents_behind(volume.len());
        match zero(&self.devices(), &behind, volume.provisioning, &mut goes_on) {
            Ok(true) => self.finish_job(job),
            Ok(false) if job.is_cancelled() => self.undo_job(job, None),
            // The node ends; the next run starts the job again.
            Ok(false) => {}
            Err(error) => self.undo_job(job, Some(error.into())),
        }
    }

    fn finish_job(&self, job: &Job) {
        let id = job.id;
        let finish = |space: &mut Space| {
            space.finish(id).cloned().ok_or(NodeError::from(Refusal::NoJob { id }))
        };
        match self.change_as(self.one_change(), finish) {
            Ok(volume) => {
                tracing::debug!(volume = volume.name, bytes = volume.bytes, "volume prepared");
                self.jobs.end(id, JobState::Done, None);
            }
            // The change is made. Older requests take long to end, but they cannot address the new
            // blocks.
            Err(NodeError::NotQuiesced) => self.jobs.end(id, JobState::Done, None),
            Err(error) => self.undo_job(job, Some(error)),
        }
    }

    /// Restores the volume to its earlier state, or removes it if it is new.
    fn undo_job(&self, job: &Job, error: Option<NodeError>) {
        let _one = self.one_change();
        let mut fresh = self.copy();
        if fresh.space.cancel(job.id).is_some() {
            keep_grants_on(&mut fresh);
            match self.record(&mut fresh) {
                Ok(()) => self.adopt(fresh),
                // The job is still recorded, and the next run starts it again.
                Err(error) => tracing::error!("job {} cannot be undone: {error}", job.id),
            }
        }
        if let Some(error) = &error {
            // It may have made its device suspect.
            self.asker.tell(Event::Suspect);
            tracing::error!(volume = job.volume.as_str(), "job {} failed: {error}", job.id);
        }
        let how = if error.is_some() { JobState::Failed } else { JobState::Cancelled };
        self.jobs.end(job.id, how, error.map(ApiError::from));
    }

    pub(super) fn job_list(&self) -> Vec<JobInfo> {
        self.jobs.lock().entries.iter().map(Entry::info).collect()
    }

    pub(super) fn job_show(&self, id: u64) -> Result<JobInfo, NodeError> {
        Ok(self.jobs.lock().info(id).ok_or(Refusal::NoJob { id })?)
    }

    /// Waits until the job has ended, for at most [`WAIT_MAX`].
    pub(super) fn job_wait(&self, id: u64, patience: Duration) -> Result<JobInfo, NodeError> {
        Ok(self.jobs.wait(id, patience.min(WAIT_MAX)).ok_or(Refusal::NoJob { id })?)
    }

    /// Cancels a job: at once if it has not begun, otherwise after the current step, for which this
    /// call waits briefly.
    pub(super) fn job_cancel(&self, id: u64) -> Result<JobInfo, NodeError> {
        self.check_cores()?;
        let waiting = {
            let mut state = self.jobs.lock();
            let entry = state.entry(id).ok_or(Refusal::NoJob { id })?;
            if entry.state.is_over() {
                return Err(Refusal::JobOver { id }.into());
            }
            entry.job.is_cancelled.store(true, Ordering::Relaxed);
            let is_waiting = entry.state == JobState::Waiting;
            if is_waiting {
                entry.state = JobState::Running;
            }
            is_waiting.then(|| Arc::clone(&entry.job))
        };
        if let Some(job) = waiting {
            self.undo_job(&job, None);
        }
        self.job_wait(id, ANSWER_PATIENCE)
    }
}
