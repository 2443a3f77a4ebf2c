//! Creating, growing and removing volumes, row by row: a row is one transaction.
//!
//! The first row is written together with the volume, so that the transaction changes rooms, which
//! are never deleted: a late copy of it cannot bring a removed volume back.

use nearflash_device::MirrorKey;
use nearflash_records::key::Key;
use nearflash_records::record::{
    InSyncRecord, MirrorRecord, ReplicaRecord, ReplicasRecord, RoomRecord, Schema, VolumeRecord,
    VolumeState, WIDTH_MAX, is_stripe_unit,
};
use nearflash_records::state::{ClusterState, MirrorView};
use nearflash_records::store::Put;
use nearflash_space::NAMESPACES_PER_SUBSYSTEM_MAX;
use nearflash_units::{Blocks, ByteLen};
use uuid::Uuid;

use super::place::{Rooms, Row};
use super::{Draft, Refusal, Step, VolumeSpec};

/// The ordinal of the first primary replica.
const FIRST: u32 = 0;

/// See [`super::Change::CreateVolume`].
pub(super) fn create(
    state: &ClusterState,
    spec: &VolumeSpec,
    begun: bool,
) -> Result<Step, Refusal> {
    if let Some(volume) = state.volumes().get(&spec.uuid) {
        return match volume.state {
            VolumeState::Ready => Ok(Step::Done),
            VolumeState::Making => extend(state, spec.uuid, volume, volume.blocks),
            VolumeState::Removing => Err(Refusal::Removed(spec.uuid)),
        };
    }
    if begun {
        return Err(Refusal::Vanished(spec.name.clone()));
    }
    let bytes = spec.blocks.0.checked_mul(u64::from(spec.block_size.bytes()));
    let len = bytes.filter(|bytes| *bytes != 0).map(ByteLen);
    let len = len.ok_or(Refusal::Length(spec.blocks.0))?;
    if !is_stripe_unit(spec.stripe_unit) {
        return Err(Refusal::StripeUnit(spec.stripe_unit));
    }
    let mut draft = Draft::new(state)?;
    let name = Key::VolumeName(spec.name.clone());
    if draft.exists(name.clone())? {
        return Err(Refusal::VolumeNameTaken(spec.name.clone()));
    }
    draft.own(name, spec.uuid)?;
    let nsid = nsid(state, spec)?;
    draft.own(Key::Nsid(spec.subsystem.clone(), nsid), spec.uuid)?;
    let mut rooms = Rooms::new(state, spec.placement, spec.replicas)?;
    let width = spec.width.unwrap_or_else(|| rooms.width(len));
    let slices = rooms.slices();
    if width == 0 || width > slices.min(WIDTH_MAX) {
        return Err(Refusal::Width { wanted: width, slices });
    }
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
    };
    // All rows are tried, so that a volume that does not fit is refused before anything is written.
    let rows = rooms.take_rows(width, len)?;
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
pub(super) fn grow(state: &ClusterState, uuid: Uuid, blocks: Blocks) -> Result<Step, Refusal> {
    let volume = state.volumes().get(&uuid).ok_or(Refusal::NoVolume(uuid))?;
    match volume.state {
        VolumeState::Ready if volume.blocks >= blocks.0 => Ok(Step::Done),
        VolumeState::Ready => extend(state, uuid, volume, blocks.0),
        VolumeState::Making => Err(Refusal::NotReady(volume.name.clone())),
        VolumeState::Removing => Err(Refusal::Removed(uuid)),
    }
}

/// See [`super::Change::ShowBlocks`].
pub(super) fn show(
    state: &ClusterState,
    uuid: Uuid,
    rows: u32,
    blocks: Blocks,
) -> Result<Step, Refusal> {
    let known = state.volumes().get(&uuid).ok_or(Refusal::NoVolume(uuid))?;
    let mut volume = known.clone();
    match volume.state {
        VolumeState::Removing => return Err(Refusal::Removed(uuid)),
        VolumeState::Ready if volume.blocks >= blocks.0 && volume.zeroed_rows >= rows => {
            return Ok(Step::Done);
        }
        VolumeState::Ready | VolumeState::Making => {}
    }
    let mut draft = Draft::new(state)?;
    volume.zeroed_rows = volume.zeroed_rows.max(rows);
    volume.blocks = volume.blocks.max(blocks.0);
    let all = state.rows(uuid, known)?;
    let zeroed = all.iter().take(nearflash_units::index(volume.zeroed_rows)).flatten();
    let held: u64 = zeroed.map(|it| it.mirror.len.0).sum();
    if volume.zeroed_rows > volume.rows || held < volume.len().0 {
        return Err(Refusal::NotReady(volume.name));
    }
    volume.epoch = volume.epoch.saturating_add(u64::from(volume.state == VolumeState::Ready));
    volume.state = VolumeState::Ready;
    draft.put(Key::Volume(uuid), &volume)?;
    draft.submit()
}

/// Adds a row if the rows do not hold `blocks`.
fn extend(
    state: &ClusterState,
    uuid: Uuid,
    known: &VolumeRecord,
    blocks: u64,
) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    let wanted = blocks.checked_mul(u64::from(known.block_size)).ok_or(Refusal::Length(blocks))?;
    let rows = state.rows(uuid, known)?;
    let held: u64 = rows.iter().flatten().map(|it| it.mirror.len.0).sum();
    if held >= wanted {
        return Ok(Step::Done);
    }
    let mut volume = known.clone();
    let mirrors = volume.rows.saturating_add(1).saturating_mul(volume.width);
    if nearflash_units::index(mirrors) > super::place::MIRRORS_MAX {
        return Err(Refusal::Mirrors);
    }
    let mut rooms = Rooms::new(state, volume.placement, volume.replicas)?;
    let added = rooms.take_rows(volume.width, ByteLen(wanted - held))?;
    add_row(&mut draft, uuid, &mut volume, &added[0])?;
    draft.put(Key::Volume(uuid), &volume)?;
    draft.submit()
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
            &ReplicasRecord { schema: Schema, replicas, next_ordinal: 0 },
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

/// Removes the records of a volume's last row.
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
pub(super) fn remove(state: &ClusterState, uuid: Uuid) -> Result<Step, Refusal> {
    let Some(known) = state.volumes().get(&uuid) else {
        return Ok(Step::Done);
    };
    let mut draft = Draft::new(state)?;
    let key = Key::Volume(uuid);
    let mut volume = known.clone();
    if known.state != VolumeState::Removing {
        volume.state = VolumeState::Removing;
    } else if super::users::forget(&mut draft, uuid)? {
        return draft.submit();
    } else if let Some(row) = state.rows(uuid, known)?.pop() {
        drop_last_row(&mut draft, &mut volume, &row)?;
    } else {
        draft.delete(Key::VolumeName(known.name.clone()))?;
        draft.delete(Key::Nsid(known.subsystem.clone(), known.nsid))?;
        draft.delete(key)?;
        return draft.submit();
    }
    draft.put(key, &volume)?;
    draft.submit()
}
