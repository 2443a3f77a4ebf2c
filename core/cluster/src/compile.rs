//! The volumes of the cluster as a node serves them: the rows of each, and where its parts lie.
//!
//! The node turns a part on a slice of its own into an extent of a local device, and any other into
//! one of a device that is reached through the slice's node. Mirrors of two replicas have a primary
//! face, for the other nodes' reads and writes, and a replica face, for the primary's copies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_device::MirrorKey;
use nearflash_records::record::{
    AddressTls, Door, JOBS_LEVEL, MirrorRecord, NodeRecord, VolumeRecord, VolumeState,
};
use nearflash_records::state::{ClusterState, Inconsistent, MirrorView, NewPlace};
use nearflash_records::users::questions;
use nearflash_records::{AccessRecords, Key};
use nearflash_space::{Name, Provisioning};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

/// All that a node has to know in order to serve the volumes of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tables {
    /// The volumes that are ready.
    pub volumes: Vec<VolumeLayout>,
    /// The mirrors of the volumes with two replicas, also of volumes that are not ready yet. A mirror
    /// that has lost one, and for which there is no room elsewhere, has one.
    pub mirrors: Vec<MirrorLayout>,
    /// The slices that have parts or replicas of them.
    pub slices: BTreeMap<Uuid, SlicePlace>,
    /// The parts that lie on slices of the node. Below feature level 2, other nodes zero those of rows that
    /// are new; a replica of two is a part until then.
    pub parts: Vec<Part>,
    /// The places on slices of the node that it has to zero.
    pub to_zero: Vec<ToZero>,
    /// The other nodes at which hosts find the volumes, too, in the order of their numbers.
    pub elsewhere: Vec<HostDoors>,
    /// The volumes that cannot be served, with the fault.
    pub left_out: BTreeMap<Uuid, (Name, Inconsistent)>,
    /// The volumes of which another node asks who uses them, with the number of the question.
    pub questions: BTreeMap<Uuid, u64>,
    /// The list of access that the nodes share; `None` if each has its own.
    pub access: Option<Arc<AccessRecords>>,
}

impl Tables {
    /// The tables, with those volumes and parts of the earlier ones that are left out because a record is damaged: their
    /// blocks stay where they are.
    #[must_use]
    pub fn with_left_out(mut self, before: Self) -> Self {
        let left_out: BTreeSet<Uuid> = self.left_out.keys().copied().collect();
        let kept: Vec<VolumeLayout> =
            before.volumes.into_iter().filter(|it| left_out.contains(&it.uuid)).collect();
        let mirrors: Vec<MirrorLayout> =
            before.mirrors.into_iter().filter(|it| left_out.contains(&it.key.volume)).collect();
        let places = kept.iter().flat_map(|it| it.rows.iter().flat_map(|row| &row.mirrors));
        let replicas = mirrors.iter().flat_map(|it| &it.replicas);
        let under = places.map(|it| it.slice).chain(replicas.map(|it| it.slice));
        let mut slices: BTreeMap<Uuid, SlicePlace> = BTreeMap::new();
        for slice in under {
            if let Some(place) = before.slices.get(&slice) {
                slices.insert(slice, place.clone());
            }
        }
        slices.append(&mut self.slices);
        self.slices = slices;
        self.volumes.extend(kept);
        self.mirrors.extend(mirrors);
        let parts =
            before.parts.into_iter().filter(|it| left_out.contains(&it.place.mirror.volume));
        self.parts.extend(parts);
        self
    }
}

/// A place on a slice of the node that it has to zero, because a job waits for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ToZero {
    /// The place.
    pub place: NewPlace,
    /// The length.
    pub len: ByteLen,
    /// Thin or thick, as its volume.
    pub provisioning: Provisioning,
    /// The job.
    pub job: u64,
}

/// A volume and its layout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeLayout {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// Its block size, in bytes.
    pub block_size: u32,
    /// Its length in blocks.
    pub blocks: u64,
    /// The length of a stripe's piece on one mirror.
    pub stripe_unit: ByteLen,
    /// The subsystem of its namespace.
    pub subsystem: Name,
    /// The namespace id.
    pub nsid: u32,
    /// Thin or thick.
    pub provisioning: Provisioning,
    /// The number of its layout.
    pub epoch: u64,
    /// The replicas of each mirror: 1 or 2.
    pub replicas: u8,
    /// Its rows, all of one width; together they may be longer than the volume.
    pub rows: Vec<RowLayout>,
}

/// A row: mirrors of one length.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RowLayout {
    /// The length of each mirror.
    pub len: ByteLen,
    /// The place of each mirror. Of two replicas it is that of the lowest ordinal, whichever is
    /// primary, so that it stays when the primary changes.
    pub mirrors: Vec<MirrorPlace>,
}

/// A mirror of two replicas.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MirrorLayout {
    /// The mirror.
    pub key: MirrorKey,
    /// The length of each replica.
    pub len: ByteLen,
    /// Whether the replicas have been zeroed.
    pub is_zeroed: bool,
    /// The block size of its volume, in bytes.
    pub block_size: u32,
    /// Thin or thick, as its volume.
    pub provisioning: Provisioning,
    /// The places of its replicas, in the order of their ordinals.
    pub replicas: Vec<ReplicaPlace>,
    /// The ordinal of the one that is to give its place in sync to the last one.
    pub leaving: Option<u32>,
    /// Its membership.
    pub record: MirrorRecord,
    /// The revision of the mirror's key at which the store had this record. A transaction that
    /// compares it does not take effect on any other record.
    pub revision: u64,
    /// The revision at which the store had these replicas. A transaction that compares it does not take
    /// effect on any others.
    pub places_revision: u64,
}

/// The place of a replica.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplicaPlace {
    /// Its number in the mirror.
    pub ordinal: u32,
    /// The slice.
    pub slice: Uuid,
    /// The offset on the slice's device.
    pub start: ByteOffset,
}

/// A part of a volume: the replica of a mirror on a slice of the node, for the other nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// The place.
    pub place: MirrorPlace,
    /// Its length.
    pub len: ByteLen,
    /// Whether it has been zeroed. One that has not has another name, so that a late zeroing cannot
    /// reach blocks in use.
    pub is_zeroed: bool,
    /// The block size of its volume, in bytes.
    pub block_size: u32,
    /// Thin or thick, as its volume.
    pub provisioning: Provisioning,
}

impl Part {
    /// The name under which the other nodes open it.
    pub fn name(&self) -> Name {
        part_name(self.place.mirror, self.is_zeroed)
    }

    /// Its identity.
    pub fn uuid(&self) -> Uuid {
        part_uuid(self.place.mirror, self.is_zeroed)
    }
}

/// The name of a mirror's part.
///
/// # Panics
/// Never: a UUID and a number are a name.
pub fn part_name(mirror: MirrorKey, is_zeroed: bool) -> Name {
    let suffix = if is_zeroed { "" } else { ".new" };
    let name = format!("{}.{}{suffix}", mirror.volume, mirror.number).parse();
    name.expect("a UUID and a number are short, and have only letters, digits, dots and hyphens")
}

/// The identity of a mirror's part: that of its volume, changed by the number. The numbers of mirrors
/// are far below 2^31.
pub fn part_uuid(mirror: MirrorKey, is_zeroed: bool) -> Uuid {
    let number = u128::from(mirror.number) + 1 + (u128::from(!is_zeroed) << 31);
    Uuid::from_u128(mirror.volume.as_u128() ^ number)
}

/// The name of a face of a mirror with two replicas: the primary's, for reads and writes from other
/// nodes, or a replica's, for the primary's copies.
///
/// # Panics
/// Never: a UUID and a number are a name.
pub fn face_name(mirror: MirrorKey, is_replica: bool) -> Name {
    let suffix = if is_replica { ".copy" } else { "" };
    let name = format!("{}.{}{suffix}", mirror.volume, mirror.number).parse();
    name.expect("a UUID and a number are short, and have only letters, digits, dots and hyphens")
}

/// The identity of a face. No part of the volume has it, since the numbers of parts are below 2^33.
pub fn face_uuid(mirror: MirrorKey, is_replica: bool) -> Uuid {
    let number = u128::from(mirror.number) + ((1 + u128::from(is_replica)) << 33);
    Uuid::from_u128(mirror.volume.as_u128() ^ number)
}

/// The place of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MirrorPlace {
    /// The mirror.
    pub mirror: MirrorKey,
    /// The slice.
    pub slice: Uuid,
    /// The offset on the slice's device.
    pub start: ByteOffset,
}

/// Where hosts reach another node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostDoors {
    /// The node's number in the cluster.
    pub ordinal: u16,
    /// Its addresses of NVMe/TCP, and whether their connections use TLS.
    pub nvme_tcp: Vec<(SocketAddr, Option<AddressTls>)>,
    /// Its addresses of iSCSI.
    pub iscsi: Vec<SocketAddr>,
}

/// The place of a slice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlicePlace {
    /// Its node.
    pub node: Uuid,
    /// The node's name.
    pub node_name: Name,
    /// Whether that is the node that the tables are for.
    pub is_local: bool,
    /// The addresses at which the node speaks the direct protocol.
    pub addresses: Vec<SocketAddr>,
}

/// The tables of a node.
pub fn compile(state: &ClusterState, node: Uuid) -> Tables {
    let (elsewhere, questions) = (elsewhere(state, node), questions(state, node));
    let to_zero = places_to_zero(state, node).collect();
    let access = state.shares_access().then(|| Arc::clone(state.access()));
    let mut tables = Tables { elsewhere, questions, to_zero, access, ..Tables::default() };
    let has_jobs = state.cluster().is_some_and(|it| it.feature_level >= JOBS_LEVEL);
    for (uuid, volume) in state.volumes() {
        if volume.state == VolumeState::Removing {
            continue;
        }
        match layout(state, node, *uuid, volume) {
            Ok((layout, mirrors, slices)) => {
                tables.parts.extend(parts(&layout, volume, &slices));
                if !has_jobs {
                    tables.parts.extend(replicas_to_zero(&mirrors, &slices));
                }
                tables.mirrors.extend(mirrors);
                tables.slices.extend(slices);
                if volume.state == VolumeState::Ready {
                    tables.volumes.push(layout);
                }
            }
            Err(fault) => drop(tables.left_out.insert(*uuid, (volume.name.clone(), fault))),
        }
    }
    tables.parts.retain(|part| !has_jobs || part.is_zeroed);
    tables.volumes.iter_mut().for_each(VolumeLayout::keep_needed_rows);
    tables
}

fn places_to_zero(state: &ClusterState, node: Uuid) -> impl Iterator<Item = ToZero> {
    let own = state.places_to_zero().filter(move |it| state.node_of(&it.slice) == Some(node));
    own.filter_map(|place| {
        let volume = state.volumes().get(&place.mirror.volume)?;
        let (provisioning, job) = (volume.provisioning, volume.job?);
        Some(ToZero { place, len: state.len_of(place.mirror)?, provisioning, job })
    })
}

impl VolumeLayout {
    /// Keeps the rows that its length needs. Those that a job has added are not in use before the job has ended.
    fn keep_needed_rows(&mut self) {
        let len = self.blocks.saturating_mul(u64::from(self.block_size));
        let mut held: u64 = 0;
        self.rows.retain(|row| {
            let is_needed = held < len;
            held = held.saturating_add(row.mirrors.iter().map(|_| row.len.0).sum());
            is_needed
        });
    }
}

type Slices = BTreeMap<Uuid, SlicePlace>;

/// The parts of a volume with one replica on slices of the node.
fn parts(layout: &VolumeLayout, volume: &VolumeRecord, slices: &Slices) -> Vec<Part> {
    let is_local = |it: &&MirrorPlace| slices.get(&it.slice).is_some_and(|slice| slice.is_local);
    let rows = (0..).zip(layout.rows.iter().filter(|_| layout.replicas == 1));
    let part = |(row, RowLayout { len, mirrors }): (u32, &RowLayout)| {
        let (len, is_zeroed) = (*len, row < volume.zeroed_rows);
        let (block_size, provisioning) = (volume.block_size, volume.provisioning);
        let part =
            |place: &MirrorPlace| Part { place: *place, len, is_zeroed, block_size, provisioning };
        mirrors.iter().filter(is_local).map(part).collect::<Vec<_>>()
    };
    rows.flat_map(part).collect()
}

/// The replicas on slices of the node that have not been zeroed.
fn replicas_to_zero(mirrors: &[MirrorLayout], slices: &Slices) -> Vec<Part> {
    let part = |layout: &MirrorLayout| {
        let MirrorLayout { key, len, is_zeroed, block_size, provisioning, .. } = *layout;
        let local = layout.replicas.iter().filter(|it| slices[&it.slice].is_local);
        let part = |replica: &ReplicaPlace| {
            let place = MirrorPlace { mirror: key, slice: replica.slice, start: replica.start };
            Part { place, len, is_zeroed, block_size, provisioning }
        };
        local.map(part).collect::<Vec<_>>()
    };
    mirrors.iter().filter(|layout| !layout.is_zeroed).flat_map(part).collect()
}

/// All rows of a volume, its mirrors if they have two replicas, and the slices under them.
fn layout(
    state: &ClusterState,
    node: Uuid,
    uuid: Uuid,
    volume: &VolumeRecord,
) -> Result<(VolumeLayout, Vec<MirrorLayout>, Slices), Inconsistent> {
    let (mut rows, mut layouts, mut slices) = (Vec::new(), Vec::new(), Slices::new());
    let mut held = 0;
    for (number, row) in (0..).zip(state.rows(uuid, volume)?) {
        let len = row[0].mirror.len;
        let is_zeroed = number < volume.zeroed_rows;
        let mut mirrors = Vec::new();
        for view in row {
            for slice in view.replicas.replicas.iter().map(|it| it.slice) {
                slices.insert(slice, slice_place(state, node, slice)?);
            }
            let place = match volume.replicas {
                1 => only_place(&view)?,
                2 => {
                    let layout = mirror_layout(&view, volume, is_zeroed, &slices)?;
                    let ReplicaPlace { slice, start, .. } = layout.replicas[0];
                    layouts.push(layout);
                    MirrorPlace { mirror: view.key, slice, start }
                }
                _ => return Err(Inconsistent::of(&Key::Volume(uuid), "has more than 2 replicas")),
            };
            mirrors.push(place);
            held += if is_zeroed { len.0 } else { 0 };
        }
        rows.push(RowLayout { len, mirrors });
    }
    if volume.state == VolumeState::Ready && held < volume.len().0 {
        return Err(Inconsistent::of(&Key::Volume(uuid), "is longer than its zeroed rows"));
    }
    let layout = VolumeLayout {
        uuid,
        name: volume.name.clone(),
        block_size: volume.block_size,
        blocks: volume.blocks,
        stripe_unit: volume.stripe_unit,
        subsystem: volume.subsystem.clone(),
        nsid: volume.nsid,
        provisioning: volume.provisioning,
        epoch: volume.epoch,
        replicas: volume.replicas,
        rows,
    };
    Ok((layout, layouts, slices))
}

/// The place of a mirror's only replica.
fn only_place(view: &MirrorView<'_>) -> Result<MirrorPlace, Inconsistent> {
    view.check_in_sync()?;
    let primary = view.replicas.replicas.iter().find(|it| it.ordinal == view.mirror.primary);
    let missing = || Inconsistent::of(&Key::Replicas(view.key), "lacks the primary replica");
    let replica = primary.ok_or_else(missing)?;
    Ok(MirrorPlace { mirror: view.key, slice: replica.slice, start: replica.start })
}

/// A mirror of two replicas, which are on slices of different nodes, of the one that is left, or of three while one
/// moves.
fn mirror_layout(
    view: &MirrorView<'_>,
    volume: &VolumeRecord,
    is_zeroed: bool,
    slices: &Slices,
) -> Result<MirrorLayout, Inconsistent> {
    let fault = |reason| Err(Inconsistent::of(&Key::Replicas(view.key), reason));
    let mut replicas: Vec<ReplicaPlace> = view
        .replicas
        .replicas
        .iter()
        .map(|it| ReplicaPlace { ordinal: it.ordinal, slice: it.slice, start: it.start })
        .collect();
    replicas.sort_unstable_by_key(|it| it.ordinal);
    let leaving = view.replicas.moving.map(|it| it.leaves);
    let most = if leaving.is_some() { 3 } else { 2 };
    if replicas.len() > most {
        return fault("has more replicas than its volume wants");
    }
    if replicas.windows(2).any(|pair| pair[0].ordinal == pair[1].ordinal) {
        return fault("has two replicas of one ordinal");
    }
    let nodes: BTreeSet<Uuid> = replicas.iter().map(|it| slices[&it.slice].node).collect();
    if nodes.len() < replicas.len() {
        return fault("has two replicas on one node");
    }
    view.check_in_sync()?;
    Ok(MirrorLayout {
        key: view.key,
        len: view.mirror.len,
        is_zeroed,
        block_size: volume.block_size,
        provisioning: volume.provisioning,
        replicas,
        leaving,
        record: view.mirror.clone(),
        revision: view.revision.0,
        places_revision: view.places_revision.0,
    })
}

/// The other nodes that hosts can use.
fn elsewhere(state: &ClusterState, node: Uuid) -> Vec<HostDoors> {
    let doors = |record: &NodeRecord| {
        let of = |door: Door| record.addresses.get(&door).cloned().unwrap_or_default();
        let secured = |address: SocketAddr| (address, record.tls.get(&address).copied());
        HostDoors {
            ordinal: record.ordinal,
            nvme_tcp: of(Door::NvmeTcp).into_iter().map(secured).collect(),
            iscsi: of(Door::Iscsi),
        }
    };
    let others = state.nodes().iter().filter(|(uuid, _)| **uuid != node);
    let mut others: Vec<HostDoors> = others.map(|(_, record)| doors(record)).collect();
    others.sort_unstable_by_key(|it| it.ordinal);
    others
}

fn slice_place(state: &ClusterState, node: Uuid, uuid: Uuid) -> Result<SlicePlace, Inconsistent> {
    let missing = |key: Key| {
        let damage = state.check(&key).err();
        damage.unwrap_or_else(|| Inconsistent::of(&key, "is missing"))
    };
    let slice = state.slices().get(&uuid).ok_or_else(|| missing(Key::Slice(uuid)))?;
    let owner = state.nodes().get(&slice.node).ok_or_else(|| missing(Key::Node(slice.node)))?;
    Ok(SlicePlace {
        node: slice.node,
        node_name: owner.name.clone(),
        is_local: slice.node == node,
        addresses: owner.addresses.get(&Door::Direct).cloned().unwrap_or_default(),
    })
}
