//! Creating, growing and removing volumes, row by row: a row is one transaction. The [steps of a
//! job](super::steps) make those after the first.
//!
//! The first row is written together with the volume, so that the transaction changes rooms, which
//! are never deleted: a late copy of it cannot bring a removed volume back.

use nearflash_device::MirrorKey;
use nearflash_records::key::Key;
use nearflash_records::record::{
    InSyncRecord, JobKind, MirrorRecord, ReplicaRecord, ReplicasRecord, RoomRecord, Schema,
    VolumeRecord, VolumeState, is_stripe_unit,
};
use nearflash_records::state::{ClusterState, MirrorView};
use nearflash_records::store::Put;
use nearflash_space::NAMESPACES_PER_SUBSYSTEM_MAX;
use nearflash_units::{Blocks, ByteLen};
use uuid::Uuid;

use super::place::{Row, place_more, place_new};
use super::{Begin, Draft, Refusal, Step, VolumeSpec, job};

/// The ordinal of the first primary replica.
const FIRST: u32 = 0;

/// See [`super::Change::CreateVolume`].
pub(super) fn create(
    state: &ClusterState,
    spec: &VolumeSpec,
    begun: bool,
) -> Result<Step, Refusal> {
    match state.volumes().get(&spec.uuid).map(|volume| volume.state) {
        Some(VolumeState::Ready | VolumeState::Making) => return Ok(Step::Done),
        Some(VolumeState::Removing) => return Err(Refusal::Removed(spec.uuid)),
        None if begun => return Err(Refusal::Vanished(spec.name.clone())),
        None => {}
    }
    let bytes = spec.blocks.0.checked_mul(u64::from(spec.block_size.bytes()));
    let len = bytes.filter(|bytes| *bytes != 0).map(ByteLen);
    let len = len.ok_or(Refusal::Length(spec.blocks.0))?;
    if !is_stripe_unit(spec.stripe_unit) {
        return Err(Refusal::StripeUnit(spec.stripe_unit));
    }
    let mut draft = Draft::with_jobs(state)?;
    let name = Key::VolumeName(spec.name.clone());
    if draft.exists(name.clone())? {
        return Err(Refusal::VolumeNameTaken(spec.name.clone()));
    }
    draft.own(name, spec.uuid)?;
    let nsid = nsid(state, spec)?;
    draft.own(Key::Nsid(spec.subsystem.clone(), nsid), spec.uuid)?;
    // All rows are placed, so that a volume that does not fit is refused before anything is written.
    let (width, rows) = place_new(state, spec, len)?;
    let total = ByteLen(len.0.saturating_mul(u64::from(spec.replicas)));
    let (kind, of) = (JobKind::CreateVolume, (spec.uuid, &spec.name));
    let job = job::begin(&mut draft, kind, of, total, spec.begin)?;
    let mut volume = VolumeRecord {
        schema: Schema,
        name: spec.name.clone(),
        block_size: spec.block_size.bytes(),
        blocks: spec.blocks.0,
        stripe_unit: spec.stripe_unit,
        width,
        rows: 0,
        zeroed_rows: 0,
        replicas: spec.replicas,
        placement: spec.placement,
        subsystem: spec.subsystem.clone(),
        nsid,
        provisioning: spec.provisioning,
        epoch: 1,
        state: VolumeState::Making,
        planned: None,
        job: Some(job),
    };
    add_row(&mut draft, spec.uuid, &mut volume, &rows[0])?;
    draft.put(Key::Volume(spec.uuid), &volume)?;
    draft.submit()
}

/// The namespace id that was asked for, or the lowest free one.
fn nsid(state: &ClusterState, spec: &VolumeSpec) -> Result<u32, Refusal> {
    let is_free = |nsid: &u32| {
        *nsid <= NAMESPACES_PER_SUBSYSTEM_MAX
            && *nsid != 0
            && state.revision(&Key::Nsid(spec.subsystem.clone(), *nsid)).0 == 0
    };
    let found = match spec.nsid {
        Some(nsid) => Some(nsid).filter(is_free),
        None => (1..=NAMESPACES_PER_SUBSYSTEM_MAX).find(is_free),
    };
    let nsid = spec.nsid.unwrap_or(NAMESPACES_PER_SUBSYSTEM_MAX);
    found.ok_or_else(|| Refusal::NsidTaken { subsystem: spec.subsystem.clone(), nsid })
}

/// See [`super::Change::GrowVolume`].
pub(super) fn grow(
    state: &ClusterState,
    uuid: Uuid,
    blocks: Blocks,
    by: Begin,
) -> Result<Step, Refusal> {
    let known = state.volumes().get(&uuid).ok_or(Refusal::NoVolume(uuid))?;
    match (known.state, known.job) {
        (VolumeState::Making, _) => return Err(Refusal::NotReady(known.name.clone())),
        (VolumeState::Removing, _) => return Err(Refusal::Removed(uuid)),
        (VolumeState::Ready, Some(_)) if known.planned == Some(blocks.0) => return Ok(Step::Done),
        (VolumeState::Ready, Some(id)) => {
            return Err(Refusal::JobUnderWay { name: known.name.clone(), id });
        }
        (VolumeState::Ready, None) if known.blocks >= blocks.0 => return Ok(Step::Done),
        (VolumeState::Ready, None) => {}
    }
    let mut draft = Draft::with_jobs(state)?;
    let mut volume = known.clone();
    let added = blocks.0.saturating_sub(known.blocks).checked_mul(u64::from(known.block_size));
    let added = added.ok_or(Refusal::Length(blocks.0))?;
    let total = ByteLen(added.saturating_mul(u64::from(known.replicas)));
    let job = job::begin(&mut draft, JobKind::GrowVolume, (uuid, &known.name), total, by)?;
    (volume.planned, volume.job) = (Some(blocks.0), Some(job));
    // Written with the job, so that a length for which there is no room is refused before anything is written.
    add_missing_row(&mut draft, uuid, &mut volume, blocks.0)?;
    draft.put(Key::Volume(uuid), &volume)?;
    draft.submit()
}

/// Adds a row if the rows do not hold `blocks`. Returns whether they did not.
pub(super) fn add_missing_row(
    draft: &mut Draft<'_>,
    uuid: Uuid,
    volume: &mut VolumeRecord,
    blocks: u64,
) -> Result<bool, Refusal> {
    let state = draft.state;
    let Some(missing) = missing(state, (uuid, volume), blocks)? else { return Ok(false) };
    let mirrors = volume.rows.saturating_add(1).saturating_mul(volume.width);
    if nearflash_units::index(mirrors) > super::place::MIRRORS_MAX {
        return Err(Refusal::Mirrors);
    }
    let added = place_more(state, volume, missing)?;
    add_row(draft, uuid, volume, &added[0])?;
    Ok(true)
}

/// The bytes for which the volume has no rows; `None` if there are none.
pub(super) fn missing(
    state: &ClusterState,
    (uuid, volume): (Uuid, &VolumeRecord),
    blocks: u64,
) -> Result<Option<ByteLen>, Refusal> {
    let wanted = blocks.checked_mul(u64::from(volume.block_size)).ok_or(Refusal::Length(blocks))?;
    let ByteLen(held) = held(&state.rows(uuid, volume)?);
    Ok(wanted.checked_sub(held).filter(|missing| *missing > 0).map(ByteLen))
}

/// The bytes that rows hold.
pub(super) fn held(rows: &[Vec<MirrorView<'_>>]) -> ByteLen {
    ByteLen(rows.iter().flatten().map(|it| it.mirror.len.0).sum())
}

/// Adds the records of a row's mirrors. Their replicas begin in sync, in the recorded incarnations
/// of their slices.
fn add_row(
    draft: &mut Draft<'_>,
    uuid: Uuid,
    volume: &mut VolumeRecord,
    row: &Row,
) -> Result<(), Refusal> {
    for (number, places) in (volume.rows * volume.width..).zip(&row.places) {
        let key = MirrorKey { volume: uuid, number };
        let (mut in_sync, mut replicas) = (Vec::new(), Vec::new());
        for (ordinal, (slice, start)) in (FIRST..).zip(places) {
            draft.decided_on(Key::Slice(*slice))?;
            let incarnation = draft.state.slices().get(slice).map_or(0, |it| it.incarnation);
            in_sync.push(InSyncRecord { replica: ordinal, incarnation });
            replicas.push(ReplicaRecord { ordinal, slice: *slice, start: *start });
            draft.txn.puts.push(Put {
                key: Key::On(*slice, key),
                value: Vec::new().into(),
                lease: None,
            });
            change_room(draft, *slice)?;
        }
        let mirror = MirrorRecord {
            schema: Schema,
            len: row.len,
            term: 1,
            primary: FIRST,
            in_sync,
            kept_since: 0,
            token: 0,
        };
        draft.put(Key::Mirror(key), &mirror)?;
        draft.put(
            Key::Replicas(key),
            &ReplicasRecord { schema: Schema, replicas, next_ordinal: 0, moving: None },
        )?;
    }
    volume.rows += 1;
    Ok(())
}

/// Raises the version of a slice's room: two allocations decided on the same room exclude each
/// other.
pub(super) fn change_room(draft: &mut Draft<'_>, slice: Uuid) -> Result<(), Refusal> {
    let key = Key::Room(slice);
    let known = draft.state.rooms().get(&slice);
    match known {
        Some(room) if !draft.txn.puts.iter().any(|put| put.key == key) => {
            let version = room.version.saturating_add(1);
            draft.put(key, &RoomRecord { version, ..*room })
        }
        _ => Ok(()),
    }
}

/// Deletes the notes that places of a row are zeroed. Returns whether there were any. The transaction has no effect
/// if another place is noted meanwhile: a note that stays behind would count for the next use of the place.
pub(super) fn forget_zeroed(
    draft: &mut Draft<'_>,
    row: &[MirrorView<'_>],
) -> Result<bool, Refusal> {
    let mut were_any = false;
    for view in row {
        for replica in &view.replicas.replicas {
            let key = Key::Zeroed(view.key, replica.ordinal);
            if draft.state.is_zeroed(view.key, replica.ordinal) {
                draft.delete(key)?;
                were_any = true;
            } else {
                draft.decided_on(key)?;
            }
        }
    }
    Ok(were_any)
}

/// Removes the records of a volume's last row, whose places are not noted as zeroed.
pub(super) fn drop_last_row(
    draft: &mut Draft<'_>,
    volume: &mut VolumeRecord,
    row: &[MirrorView<'_>],
) -> Result<(), Refusal> {
    for view in row {
        draft.delete(Key::Mirror(view.key))?;
        draft.delete(Key::Replicas(view.key))?;
        for replica in &view.replicas.replicas {
            draft.txn.deletes.push(Key::On(replica.slice, view.key));
            change_room(draft, replica.slice)?;
        }
    }
    volume.rows -= 1;
    volume.zeroed_rows = volume.zeroed_rows.min(volume.rows);
    Ok(())
}

/// See [`super::Change::RemoveVolume`].
pub(super) fn remove(state: &ClusterState, uuid: Uuid, by: Begin) -> Result<Step, Refusal> {
    let Some(known) = state.volumes().get(&uuid) else {
        return Ok(Step::Done);
    };
    let mut draft = Draft::new(state)?;
    let is_removing = known.state == VolumeState::Removing;
    if is_removing && known.job.is_some() {
        return Ok(Step::Done);
    }
    if draft.has_jobs() {
        if let Some(earlier) = known.job {
            job::give_up(&mut draft, earlier, by.now)?;
        }
        let (kind, of) = (JobKind::RemoveVolume, (uuid, &known.name));
        let job = Some(job::begin(&mut draft, kind, of, ByteLen(0), by)?);
        let (state, planned) = (VolumeState::Removing, None);
        draft.put(Key::Volume(uuid), &VolumeRecord { state, planned, job, ..known.clone() })?;
    } else if is_removing {
        release(&mut draft, uuid, known)?;
    } else {
        let state = VolumeState::Removing;
        draft.put(Key::Volume(uuid), &VolumeRecord { state, ..known.clone() })?;
    }
    draft.submit()
}

/// Releases some of what a volume has: the answers who uses it, then row by row, the last one first, and then the
/// volume itself. Returns whether the volume is gone then.
pub(super) fn release(
    draft: &mut Draft<'_>,
    uuid: Uuid,
    known: &VolumeRecord,
) -> Result<bool, Refusal> {
    let key = Key::Volume(uuid);
    if super::users::forget(draft, uuid)? || super::access::forget_rights(draft, uuid)? {
        return Ok(false);
    }
    let Some(row) = draft.state.rows(uuid, known)?.pop() else {
        // Nobody has got a right on the volume meanwhile.
        draft.decided_on(Key::Access)?;
        draft.delete(Key::VolumeName(known.name.clone()))?;
        draft.delete(Key::Nsid(known.subsystem.clone(), known.nsid))?;
        draft.delete(key)?;
        return Ok(true);
    };
    if !forget_zeroed(draft, &row)? {
        let mut volume = known.clone();
        drop_last_row(draft, &mut volume, &row)?;
        draft.put(key, &volume)?;
    }
    Ok(false)
}
