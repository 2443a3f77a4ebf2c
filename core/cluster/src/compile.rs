//! The volumes of the cluster as a node serves them: the rows of each, and where its parts lie.
//!
//! The node turns a part on a slice of its own into an extent of a local device, and any other into
//! one of a device that is reached through the slice's node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nearflash_space::{Name, Provisioning};
use nearflash_units::{ByteLen, ByteOffset};
use uuid::Uuid;

use crate::record::{Door, VolumeRecord, VolumeState};
use crate::state::{ClusterState, Inconsistent, inconsistent};
use crate::{Key, MirrorKey};

/// All that a node has to know in order to serve the volumes of the cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tables {
    /// The volumes that are ready.
    pub volumes: Vec<VolumeLayout>,
    /// The slices that have parts of them.
    pub slices: BTreeMap<Uuid, SlicePlace>,
    /// The parts that lie on slices of the node, also of volumes that are not ready yet.
    pub parts: Vec<Part>,
    /// The volumes that cannot be served, with the fault.
    pub left_out: BTreeMap<Uuid, (Name, Inconsistent)>,
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
    /// Its rows, all of one width; together they may be longer than the volume.
    pub rows: Vec<RowLayout>,
}

/// A row: mirrors of one length.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RowLayout {
    /// The length of each mirror.
    pub len: ByteLen,
    /// The place of each mirror's primary replica.
    pub mirrors: Vec<MirrorPlace>,
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
    let mut tables = Tables::default();
    for (uuid, volume) in state.volumes() {
        if volume.state == VolumeState::Removing {
            continue;
        }
        match layout(state, node, *uuid, volume) {
            Ok((layout, slices)) => {
                tables.parts.extend(parts(&layout, volume, &slices));
                tables.slices.extend(slices);
                if volume.state == VolumeState::Ready {
                    tables.volumes.push(layout);
                }
            }
            Err(fault) => drop(tables.left_out.insert(*uuid, (volume.name.clone(), fault))),
        }
    }
    for volume in &mut tables.volumes {
        let zeroed = state.volumes().get(&volume.uuid).map_or(0, |it| it.zeroed_rows);
        volume.rows.truncate(nearflash_units::index(zeroed));
    }
    tables
}

type Slices = BTreeMap<Uuid, SlicePlace>;

/// The parts on slices of the node.
fn parts(layout: &VolumeLayout, volume: &VolumeRecord, slices: &Slices) -> Vec<Part> {
    let is_local = |it: &&MirrorPlace| slices.get(&it.slice).is_some_and(|slice| slice.is_local);
    let rows = (0..).zip(&layout.rows);
    let part = |(row, RowLayout { len, mirrors }): (u32, &RowLayout)| {
        let (len, is_zeroed) = (*len, row < volume.zeroed_rows);
        let (block_size, provisioning) = (volume.block_size, volume.provisioning);
        let part =
            |place: &MirrorPlace| Part { place: *place, len, is_zeroed, block_size, provisioning };
        mirrors.iter().filter(is_local).map(part).collect::<Vec<_>>()
    };
    rows.flat_map(part).collect()
}

/// All rows of a volume, and the slices under them.
fn layout(
    state: &ClusterState,
    node: Uuid,
    uuid: Uuid,
    volume: &VolumeRecord,
) -> Result<(VolumeLayout, Slices), Inconsistent> {
    let (mut rows, mut slices) = (Vec::new(), Slices::new());
    let mut held = 0;
    for (number, row) in (0..).zip(state.rows(uuid, volume)?) {
        let len = row[0].mirror.len;
        let mut mirrors = Vec::new();
        for view in row {
            let primary =
                view.replicas.replicas.iter().find(|it| it.ordinal == view.mirror.primary);
            let missing = || inconsistent(&Key::Replicas(view.key), "lacks the primary replica");
            let replica = primary.ok_or_else(missing)?;
            slices.insert(replica.slice, slice_place(state, node, replica.slice)?);
            let (slice, start) = (replica.slice, replica.start);
            mirrors.push(MirrorPlace { mirror: view.key, slice, start });
            held += if number < volume.zeroed_rows { len.0 } else { 0 };
        }
        rows.push(RowLayout { len, mirrors });
    }
    if volume.state == VolumeState::Ready && held < volume.len().0 {
        return Err(inconsistent(&Key::Volume(uuid), "is longer than its zeroed rows"));
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
        rows,
    };
    Ok((layout, slices))
}

fn slice_place(state: &ClusterState, node: Uuid, uuid: Uuid) -> Result<SlicePlace, Inconsistent> {
    let missing = |key: Key| {
        let damage = state.check(&key).err();
        damage.unwrap_or_else(|| inconsistent(&key, "is missing"))
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
