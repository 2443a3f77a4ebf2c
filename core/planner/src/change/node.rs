//! Creating the cluster, registering nodes and opening slices.

use crate::change::{Draft, NodeSpec, Refusal, SliceSpec, Step};
use nearflash_records::key::{Key, ORDINAL_MAX};
use nearflash_records::record::{
    ADDRESSES_MAX, ClusterRecord, NodeRecord, RoomRecord, RoomState, Schema, SliceRecord, TRACT_LEN,
};
use nearflash_records::state::ClusterState;
use nearflash_records::store::Txn;
use nearflash_units::ByteLen;

/// See [`super::Change::CreateCluster`].
pub(super) fn create_cluster(
    state: &ClusterState,
    record: &ClusterRecord,
) -> Result<Step, Refusal> {
    match state.cluster() {
        Some(found) if found == record => Ok(Step::Done),
        Some(found) => Err(Refusal::ClusterExists(found.uuid)),
        None => {
            let mut draft = Draft { state, txn: Txn::default() };
            draft.put(Key::Cluster, record)?;
            draft.submit()
        }
    }
}

/// See [`super::Change::RegisterNode`]. The record is written at each start, also if it is the same: what is newer than
/// it is of the process that runs ([`ClusterState::is_open`]).
pub(super) fn register(
    state: &ClusterState,
    spec: &NodeSpec,
    begun: bool,
) -> Result<Step, Refusal> {
    for (door, addresses) in &spec.addresses {
        if addresses.len() > ADDRESSES_MAX {
            return Err(Refusal::Addresses { door: *door, count: addresses.len() });
        }
    }
    let mut draft = Draft::new(state)?;
    draft.decided_on(Key::Removed(spec.uuid))?;
    if let Some(removed) = state.removed().get(&spec.uuid) {
        return Err(Refusal::NodeRemoved(removed.name.clone()));
    }
    let name = Key::NodeName(spec.name.clone());
    let known = state.nodes().get(&spec.uuid);
    let ordinal = match known {
        Some(known) if known.name != spec.name => {
            return Err(Refusal::NodeRenamed(known.name.clone()));
        }
        Some(known) => known.ordinal,
        None => {
            if draft.exists(name.clone())? {
                return Err(Refusal::NodeNameTaken(spec.name.clone()));
            }
            draft.own(name, spec.uuid)?;
            let is_free = |ordinal: &u16| state.revision(&Key::Ordinal(*ordinal)).0 == 0;
            let ordinal = (1..=ORDINAL_MAX).find(is_free).ok_or(Refusal::NodesFull)?;
            draft.own(Key::Ordinal(ordinal), spec.uuid)?;
            ordinal
        }
    };
    let record = NodeRecord {
        schema: Schema,
        name: spec.name.clone(),
        ordinal,
        addresses: spec.addresses.clone(),
        tls: spec.tls.clone(),
        version: spec.version.clone(),
        machine: spec.machine.clone(),
    };
    if known == Some(&record) && begun {
        return Ok(Step::Done);
    }
    draft.put(Key::Node(spec.uuid), &record)?;
    draft.submit()
}

/// See [`super::Change::OpenSlice`].
pub(super) fn open_slice(state: &ClusterState, spec: &SliceSpec) -> Result<Step, Refusal> {
    let mut draft = Draft::new(state)?;
    if !draft.exists(Key::Node(spec.node))? {
        return Err(Refusal::NoNode(spec.node));
    }
    let record = SliceRecord {
        schema: Schema,
        node: spec.node,
        name: spec.name.clone(),
        len: spec.len,
        incarnation: spec.incarnation,
    };
    let slice = spec.uuid;
    // The removal of the node was begun and not finished.
    let room = state.rooms().get(&slice);
    let left = room.filter(|room| room.state == RoomState::Gone).copied();
    match state.slices().get(&slice) {
        Some(known) if *known == record && left.is_none() => return Ok(Step::Done),
        Some(known) if known.node != spec.node => {
            return Err(Refusal::SliceElsewhere { slice, node: known.node });
        }
        Some(known) if known.incarnation > spec.incarnation => {
            let (recorded, found) = (known.incarnation, spec.incarnation);
            return Err(Refusal::SliceRolledBack { slice, recorded, found });
        }
        Some(known) if known.len > spec.len => {
            let (recorded, found) = (known.len, spec.len);
            return Err(Refusal::SliceShrunk { slice, recorded, found });
        }
        _ if record.data_len() < ByteLen(TRACT_LEN.0) => return Err(Refusal::SliceTooShort(slice)),
        _ => {}
    }
    if !draft.exists(Key::Room(slice))? {
        let room = RoomRecord { schema: Schema, state: RoomState::In, version: 0 };
        draft.put(Key::Room(slice), &room)?;
    }
    if let Some(room) = left {
        let version = room.version.saturating_add(1);
        draft.put(Key::Room(slice), &RoomRecord { state: RoomState::In, version, ..room })?;
    }
    draft.put(Key::Slice(slice), &record)?;
    draft.submit()
}
