//! The records of jobs: they begin, change hands, are cancelled, and end.

use nearflash_records::key::{Key, Numbered};
use nearflash_records::record::{
    JOB_ERROR_LEN_MAX, JobKind, JobRecord, JobState, LastRecord, Schema, VolumeRecord, VolumeState,
    Worker,
};
use nearflash_records::state::ClusterState;
use nearflash_space::Name;
use nearflash_units::ByteLen;
use uuid::Uuid;

use super::{Begin, Draft, Step};
use crate::refusal::Refusal;

/// The maximum number of unfinished jobs of a cluster.
pub const CLUSTER_JOBS_MAX: usize = 64;

/// The number of ended jobs that a cluster keeps.
pub const ENDED_CLUSTER_JOBS_MAX: usize = 64;

/// The ended jobs that the transaction of a new one deletes. Many jobs may have ended since the last one was made.
const FORGOTTEN_MAX: usize = 4;

/// Makes a job of that volume, and returns its number. Jobs of a cluster have even numbers, those of a node odd
/// ones.
pub(super) fn begin(
    draft: &mut Draft<'_>,
    kind: JobKind,
    (volume, name): (Uuid, &Name),
    total: ByteLen,
    by: Begin,
) -> Result<u64, Refusal> {
    let record = JobRecord {
        schema: Schema,
        kind,
        volume,
        name: name.clone(),
        moves: None,
        state: JobState::Running,
        worker: by.worker,
        total_bytes: total.0,
        began: by.now,
        ended: None,
        error: None,
    };
    insert(draft, &record)
}

/// Adds the record of a job, and returns its number.
pub(super) fn insert(draft: &mut Draft<'_>, record: &JobRecord) -> Result<u64, Refusal> {
    let kind = record.kind;
    let jobs = draft.state.jobs();
    let unfinished = jobs.values().filter(|job| !job.state.is_over()).count();
    // There are no more removals than volumes, and each gives space back.
    if unfinished >= CLUSTER_JOBS_MAX && kind != JobKind::RemoveVolume {
        return Err(Refusal::TooManyJobs);
    }
    let number = (draft.state.last_job() + 2) & !1;
    draft.put(Key::Last(Numbered::Job), &LastRecord { schema: Schema, number })?;
    draft.put(Key::Job(number), record)?;
    let over = || jobs.iter().filter(|(_, job)| job.state.is_over());
    let kept = ENDED_CLUSTER_JOBS_MAX - 1;
    for (oldest, _) in over().take(over().count().saturating_sub(kept).min(FORGOTTEN_MAX)) {
        draft.delete(Key::Job(*oldest))?;
    }
    Ok(number)
}

/// Ends the job of a volume that is removed instead.
pub(super) fn give_up(draft: &mut Draft<'_>, number: u64, now: u64) -> Result<(), Refusal> {
    match draft.state.jobs().get(&number) {
        Some(job) if !job.state.is_over() => end(draft, number, job, JobState::Cancelled, now),
        _ => Ok(()),
    }
}

pub(super) fn end(
    draft: &mut Draft<'_>,
    number: u64,
    job: &JobRecord,
    state: JobState,
    now: u64,
) -> Result<(), Refusal> {
    let ended = Some(now.max(job.began));
    draft.put(Key::Job(number), &JobRecord { state, ended, ..job.clone() })
}

/// The state of a job that has been undone.
pub(super) fn undone(job: &JobRecord) -> JobState {
    if job.error.is_some() { JobState::Failed } else { JobState::Cancelled }
}

/// See [`super::Change::TakeJob`].
pub(super) fn take(
    state: &ClusterState,
    number: u64,
    (from, to): (Worker, Worker),
) -> Result<Step, Refusal> {
    match state.jobs().get(&number) {
        Some(job) if !job.state.is_over() && job.worker == from => {
            let mut draft = Draft::new(state)?;
            draft.put(Key::Job(number), &JobRecord { worker: to, ..job.clone() })?;
            draft.submit()
        }
        _ => Ok(Step::Done),
    }
}

/// See [`super::Change::CancelJob`].
pub(super) fn cancel(state: &ClusterState, id: u64) -> Result<Step, Refusal> {
    let job = state.jobs().get(&id).ok_or(Refusal::NoJob { id })?;
    match job.state {
        JobState::Undoing | JobState::Cancelled | JobState::Failed => Ok(Step::Done),
        JobState::Done => Err(Refusal::JobOver { id }),
        JobState::Running if job.kind == JobKind::RemoveVolume => {
            Err(Refusal::RemovalGoesOn { id, name: job.name.clone() })
        }
        JobState::Running => undo(state, id, job, None),
    }
}

/// See [`super::Change::FailJob`].
pub(super) fn fail(state: &ClusterState, number: u64, error: &str) -> Result<Step, Refusal> {
    match state.jobs().get(&number) {
        Some(job) if job.state == JobState::Running && job.kind != JobKind::RemoveVolume => {
            let fits = |len: &usize| error.is_char_boundary(*len);
            let len = (0..=error.len().min(JOB_ERROR_LEN_MAX)).rev().find(fits).unwrap_or(0);
            undo(state, number, job, Some(error[..len].to_owned()))
        }
        _ => Ok(Step::Done),
    }
}

fn undo(
    state: &ClusterState,
    number: u64,
    job: &JobRecord,
    error: Option<String>,
) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    let record = JobRecord { state: JobState::Undoing, error, ..job.clone() };
    draft.put(Key::Job(number), &record)?;
    let volume = state.volumes().get(&job.volume).filter(|_| job.kind == JobKind::CreateVolume);
    if let Some(volume) = volume {
        let state = VolumeState::Removing;
        draft.put(Key::Volume(job.volume), &VolumeRecord { state, ..volume.clone() })?;
    }
    draft.submit()
}
