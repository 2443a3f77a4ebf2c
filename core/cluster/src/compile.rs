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
    /// The volumes that cannot be served, with the fault.
    pub left_out: Vec<(Name, Inconsistent)>,
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
        if volume.state != VolumeState::Ready {
            continue;
        }
        match layout(state, node, *uuid, volume) {
            Ok((layout, slices)) => {
                tables.volumes.push(layout);
                tables.slices.extend(slices);
            }
            Err(fault) => tables.left_out.push((volume.name.clone(), fault)),
        }
    }
    tables
}

type Slices = BTreeMap<Uuid, SlicePlace>;

fn layout(
    state: &ClusterState,
    node: Uuid,
    uuid: Uuid,
    volume: &VolumeRecord,
) -> Result<(VolumeLayout, Slices), Inconsistent> {
    let (mut rows, mut slices) = (Vec::new(), Slices::new());
    let mut held = 0;
    for row in state.rows(uuid, volume)? {
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
            held += len.0;
        }
        rows.push(RowLayout { len, mirrors });
    }
    if held < volume.len().0 {
        return Err(inconsistent(&Key::Volume(uuid), "is longer than its rows"));
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
