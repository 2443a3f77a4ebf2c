//! The steps of jobs: creating, growing and removing volumes so that any node can carry it on.
//!
//! The first transaction makes the job, and names the process that carries it on. Each further step is one
//! transaction that compares the job's record, so a process that was replaced changes nothing any more. Nodes
//! zero the new places on their own slices, and [note](note_zeroed) that. The worker counts a row as zeroed when
//! all of its places are noted.

use std::collections::BTreeSet;

use nearflash_device::MirrorKey;
use nearflash_records::key::Key;
use nearflash_records::record::{JobKind, JobRecord, JobState, VolumeRecord, VolumeState};
use nearflash_records::state::{ClusterState, MirrorView, NewPlace};
use nearflash_records::store::Put;
use nearflash_units::index;

use super::job::{end, undone};
use super::moves::Moving;
use super::volume::{add_missing_row, drop_last_row, forget_zeroed, held, release};
use super::{Begin, Draft, Step};
use crate::refusal::Refusal;

/// The places that one transaction notes as zeroed: those of a row of 16 mirrors with two replicas each.
const NOTED_MAX: usize = 32;

/// See [`super::Change::CarryOn`].
pub(super) fn carry_on(state: &ClusterState, number: u64, by: Begin) -> Result<Step, Refusal> {
    let Some(job) = state.jobs().get(&number) else { return Ok(Step::Done) };
    if job.state.is_over() || job.worker != by.worker {
        return Ok(Step::Done);
    }
    if let Some(moves) = job.moves {
        return Moving { state, number, job, moves, now: by.now }.next();
    }
    let mut draft = Draft::new(state)?;
    draft.decided_on(Key::Job(number))?;
    draft.decided_on(Key::Volume(job.volume))?;
    let Some(volume) = state.volumes().get(&job.volume).filter(|it| it.job == Some(number)) else {
        // Somebody has removed the record by hand.
        end(&mut draft, number, job, JobState::Failed, by.now)?;
        return draft.submit();
    };
    let job = Carried { number, job, volume, now: by.now };
    match (job.job.kind, job.job.state) {
        (JobKind::RemoveVolume, _) => job.remove(draft),
        (JobKind::CreateVolume, JobState::Undoing) => job.remove(draft),
        (JobKind::GrowVolume, JobState::Undoing) => job.shorten(draft),
        (JobKind::CreateVolume | JobKind::GrowVolume, _) => job.lengthen(draft),
        (JobKind::MoveVolume | JobKind::DrainNode, _) => Ok(Step::Done),
    }
}

/// A job that its worker carries on, and its volume.
struct Carried<'a> {
    number: u64,
    job: &'a JobRecord,
    volume: &'a VolumeRecord,
    now: u64,
}

impl Carried<'_> {
    /// Adds a row, or counts a row as zeroed; after the last one, the volume gets its length.
    fn lengthen(&self, mut draft: Draft<'_>) -> Result<Step, Refusal> {
        let (uuid, mut volume) = (self.job.volume, self.volume.clone());
        let blocks = volume.planned.unwrap_or(volume.blocks);
        if add_missing_row(&mut draft, uuid, &mut volume, blocks)? {
            draft.put(Key::Volume(uuid), &volume)?;
            return draft.submit();
        }
        let rows = draft.state.rows(uuid, self.volume)?;
        if let Some(row) = rows.get(index(volume.zeroed_rows)) {
            if !places(row).all(|(key, ordinal)| draft.state.is_zeroed(key, ordinal)) {
                return Ok(Step::Done);
            }
            for view in row {
                draft.decided_on(Key::Replicas(view.key))?;
            }
            forget_zeroed(&mut draft, row)?;
            volume.zeroed_rows += 1;
        }
        if volume.zeroed_rows == volume.rows {
            let is_longer = u64::from(volume.state == VolumeState::Ready);
            volume.epoch = volume.epoch.saturating_add(is_longer);
            (volume.blocks, volume.state) = (blocks, VolumeState::Ready);
            (volume.planned, volume.job) = (None, None);
            end(&mut draft, self.number, self.job, JobState::Done, self.now)?;
        }
        draft.put(Key::Volume(uuid), &volume)?;
        draft.submit()
    }

    /// Drops the rows that the volume does not need for its present length.
    fn shorten(&self, mut draft: Draft<'_>) -> Result<Step, Refusal> {
        let (uuid, mut volume) = (self.job.volume, self.volume.clone());
        let rows = draft.state.rows(uuid, self.volume)?;
        match rows.split_last() {
            Some((last, others)) if held(others) >= volume.len() => {
                if forget_zeroed(&mut draft, last)? {
                    return draft.submit();
                }
                drop_last_row(&mut draft, &mut volume, last)?;
            }
            _ => {
                (volume.planned, volume.job) = (None, None);
                end(&mut draft, self.number, self.job, undone(self.job), self.now)?;
            }
        }
        draft.put(Key::Volume(uuid), &volume)?;
        draft.submit()
    }

    /// Releases what the volume has, and then the volume itself.
    fn remove(&self, mut draft: Draft<'_>) -> Result<Step, Refusal> {
        if release(&mut draft, self.job.volume, self.volume)? {
            let state = match self.job.kind {
                JobKind::RemoveVolume => JobState::Done,
                _ => undone(self.job),
            };
            end(&mut draft, self.number, self.job, state, self.now)?;
        }
        draft.submit()
    }
}

/// The places of a row.
fn places<'a>(row: &'a [MirrorView<'_>]) -> impl Iterator<Item = (MirrorKey, u32)> + 'a {
    row.iter().flat_map(|view| view.replicas.replicas.iter().map(|it| (view.key, it.ordinal)))
}

/// See [`super::Change::NoteZeroed`].
pub(super) fn note_zeroed(state: &ClusterState, zeroed: &[NewPlace]) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    let awaited: BTreeSet<NewPlace> = state.places_to_zero().collect();
    // A place with a damaged record waits for its repair, and holds up no other one.
    let is_sound = |place: &&NewPlace| {
        let NewPlace { mirror, slice, .. } = **place;
        let job = state.volumes().get(&mirror.volume).and_then(|it| it.job);
        let keys = [Key::Slice(slice), Key::Replicas(mirror), Key::Volume(mirror.volume)];
        keys.iter().chain(&job.map(Key::Job)).all(|key| state.check(key).is_ok())
    };
    let noted = zeroed.iter().filter(|place| awaited.contains(place)).filter(is_sound);
    for place in noted.take(NOTED_MAX) {
        let NewPlace { mirror, ordinal, slice, .. } = *place;
        draft.decided_on(Key::Slice(slice))?;
        draft.decided_on(Key::Replicas(mirror))?;
        // It changes with each row that counts as zeroed, so that no late copy brings the key back.
        draft.decided_on(Key::Volume(mirror.volume))?;
        let job = state.volumes().get(&mirror.volume).and_then(|it| it.job);
        draft.decided_on(Key::Job(job.unwrap_or_default()))?;
        let key = Key::Zeroed(mirror, ordinal);
        draft.decided_on(key.clone())?;
        draft.txn.puts.push(Put { key, value: Vec::new().into(), lease: None });
    }
    if draft.txn.puts.is_empty() { Ok(Step::Done) } else { draft.submit() }
}
