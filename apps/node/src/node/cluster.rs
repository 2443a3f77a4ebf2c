//! Volumes of the cluster, as the control socket changes them. A change goes through the cluster's
//! store; every node then serves what the store says.
//!
//! A new volume gets its rows, then the node that got the call zeroes each part through the node of its
//! slice, and then the volume can be used. A part that is not zeroed yet has another name than later, so
//! that a zeroing which takes long cannot reach blocks in use.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nearflash::direct::{Client, Credentials, Options, Url};
use nearflash_api::{MirrorInfo, OneVolume, ReplicaInfo, VolumeDetail, VolumeInfo, VolumeLayout};
use nearflash_cluster::part_name;
use nearflash_device::MirrorKey;
use nearflash_planner::{Change, Lost, Refusal, VolumeSpec, whole_blocks};
use nearflash_publish::{PEER_KEY, iscsi_names};
use nearflash_records::ClusterState;
use nearflash_records::record::{Door, NodeRecord, Placement, VolumeRecord, VolumeState};
use nearflash_records::state::MirrorView;
use nearflash_space::{Home, Name, VolumeError};
use nearflash_units::{Blocks, ByteLen, OneLine};
use uuid::Uuid;

use super::zeroing::{Zeroed, zero};
use super::{Node, condition};
use crate::cluster::Follower;
use crate::error::NodeError;
use crate::volume_info::volume_info;
use nearflash_config::ValueError;

/// The time for a change of the store.
pub(super) const CHANGE_MAX: Duration = Duration::from_secs(20);

/// The time within which a node must offer a new part, and this node must serve a new volume.
const OFFER_MAX: Duration = Duration::from_secs(20);

/// The pause between two looks at something that another thread does.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

impl Node {
    /// Gives the node its connection to the cluster's store, once.
    pub(crate) fn join(&self, follower: Arc<Follower>) {
        // A second one would be a bug of the caller, and changes nothing.
        let _ = self.cluster.set(follower);
    }

    pub(super) fn cluster(&self) -> Result<&Arc<Follower>, Refusal> {
        self.cluster.get().ok_or(Refusal::OutsideCluster)
    }

    /// The UUID of a volume of the cluster that this node serves or the store has.
    pub(super) fn cluster_volume(&self, name: &Name) -> Option<Uuid> {
        let found = self.served().recorded.space.volume(name).map(|it| (it.home, it.uuid));
        match found {
            Some((Home::Cluster, uuid)) => Some(uuid),
            Some(_) => None,
            None => Some(self.cluster.get()?.state().volume_named(name)?.0),
        }
    }

    pub(super) fn create_in_cluster(&self, spec: VolumeSpec) -> Result<OneVolume, NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        if self.served().recorded.space.volume(&spec.name).is_some() {
            return Err(VolumeError::Exists(spec.name).into());
        }
        self.check_iscsi_name_in_cluster(&spec, &follower.state())?;
        let (uuid, name, blocks) = (spec.uuid, spec.name.clone(), spec.blocks);
        follower.change(Change::CreateVolume(spec), CHANGE_MAX)?;
        self.complete(uuid, &name, blocks)
    }

    /// Every node of the cluster serves its volumes, so the iSCSI address of any of them counts.
    fn check_iscsi_name_in_cluster(
        &self,
        spec: &VolumeSpec,
        state: &ClusterState,
    ) -> Result<(), Refusal> {
        let new = (&spec.name, &spec.subsystem);
        if iscsi_names::is_served_in(state) {
            iscsi_names::check_new(new, iscsi_names::subsystems_of_cluster(state))?;
        }
        let space = self.served().recorded.space.clone();
        self.check_iscsi_name(new, &space)
    }

    pub(super) fn grow_in_cluster(
        &self,
        volume: Uuid,
        name: &Name,
        len: ByteLen,
    ) -> Result<OneVolume, NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        let blocks = whole_blocks(name, len)?;
        let known = follower.state().volumes().get(&volume).map(VolumeRecord::len);
        let known = known.ok_or_else(|| VolumeError::NotFound(name.clone()))?;
        if len < known {
            return Err(Refusal::ClusterVolumeShrinks { name: name.clone(), from: known }.into());
        }
        follower.change(Change::GrowVolume { volume, blocks }, CHANGE_MAX)?;
        self.complete(volume, name, blocks)
    }

    pub(super) fn remove_from_cluster(
        &self,
        uuid: Uuid,
        name: &Name,
        force: bool,
    ) -> Result<VolumeInfo, NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        let served = self.served().recorded.space.volume(name).cloned();
        if let Some(volume) = &served {
            let lost = Lost::All(volume.len());
            self.usage(volume, force).check(name, lost, force)?;
        }
        let state = follower.state();
        let record = state.volumes().get(&uuid);
        let info = match (&served, record) {
            (Some(volume), _) => volume_info(volume, &self.served().recorded.space),
            (None, Some(record)) => unserved_info(uuid, record),
            (None, None) => return Err(VolumeError::NotFound(name.clone()).into()),
        };
        if !force && record.is_some_and(|it| it.state != VolumeState::Removing) {
            self.check_elsewhere(uuid, name, Lost::All(ByteLen(info.bytes)))?;
        }
        follower.change(Change::RemoveVolume { volume: uuid }, CHANGE_MAX)?;
        Ok(info)
    }

    /// Zeroes the rows that have not been zeroed, and makes the volume this long.
    fn complete(&self, uuid: Uuid, name: &Name, blocks: Blocks) -> Result<OneVolume, NodeError> {
        let follower = self.cluster()?;
        let state = follower.state();
        let gone = || NodeError::from(VolumeError::NotFound(name.clone()));
        let record = state.volumes().get(&uuid).ok_or_else(gone)?;
        self.zero_new_rows(&state, uuid, record)?;
        let rows = record.rows;
        follower.change(Change::ShowBlocks { volume: uuid, rows, blocks }, CHANGE_MAX)?;
        let until = Instant::now() + OFFER_MAX;
        while Instant::now() < until {
            {
                let space = &self.served().recorded.space;
                let volume = space.volume(name).filter(|it| it.uuid == uuid && it.blocks >= blocks);
                if let Some(volume) = volume {
                    let volume = volume_info(volume, space);
                    return Ok(OneVolume { volume, job: None, note: None });
                }
            }
            thread::sleep(PAUSE);
        }
        Err(NodeError::NotServedYet { name: name.clone() })
    }

    /// Zeroes every part of the volume that has not been zeroed, those of different nodes at the same
    /// time.
    fn zero_new_rows(
        &self,
        state: &ClusterState,
        uuid: Uuid,
        record: &VolumeRecord,
    ) -> Result<(), NodeError> {
        let rows = state.rows(uuid, record).map_err(crate::cluster::ChangeError::from)?;
        let new = rows.iter().skip(nearflash_units::index(record.zeroed_rows)).flatten();
        let new: Vec<(NodeRecord, MirrorKey, ByteLen)> = new
            .flat_map(|view| replicas(state, view).map(move |(_, _, node)| (node, view)))
            .filter_map(|(node, view)| Some((node?.clone(), view.key, view.mirror.len)))
            .collect();
        let zeroed = self.zeroing.begin(uuid);
        let zero = |(node, mirror, len): &(NodeRecord, MirrorKey, ByteLen)| {
            self.zero_part(node, (*mirror, *len), &zeroed).map_err(|reason| NodeError::ZeroPart {
                volume: record.name.clone(),
                node: node.name.clone(),
                reason: reason.into(),
            })
        };
        // A row has at most 16 mirrors, and rows are zeroed one after the other.
        let parts_of_row = record.width * u32::from(record.replicas);
        for row in new.chunks(nearflash_units::index(parts_of_row)) {
            thread::scope(|scope| {
                let zeroing: Vec<_> = row.iter().map(|part| scope.spawn(|| zero(part))).collect();
                let ended =
                    zeroing.into_iter().map(|it| it.join().expect("zeroing does not panic"));
                ended.collect::<Result<Vec<()>, _>>()
            })?;
        }
        Ok(())
    }

    /// Zeroes a part through its node.
    fn zero_part(
        &self,
        node: &NodeRecord,
        (mirror, len): (MirrorKey, ByteLen),
        zeroed: &Zeroed<'_>,
    ) -> Result<(), String> {
        let text = |error: nearflash::direct::Error| OneLine(error).to_string();
        let peers = self.served().recorded.peers.clone().ok_or("this node has no secret")?;
        let credentials = Credentials::new(PEER_KEY, &peers.secret.to_hex());
        let credentials = credentials.map_err(|error| error.to_string())?;
        let address = node.addresses.get(&Door::Direct).and_then(|it| it.first());
        let address = address.ok_or("it has no address for the direct protocol")?;
        let url: Url = format!("direct://{address}").parse().map_err(|error| format!("{error}"))?;
        let client = Client::connect_to(url, credentials, Options::default()).map_err(text)?;
        let name = part_name(mirror, false);
        let until = Instant::now() + OFFER_MAX;
        let part = loop {
            match client.open(name.as_str()) {
                Ok(part) => break part,
                // The node has not heard of the volume yet.
                Err(_) if Instant::now() < until => thread::sleep(PAUSE),
                Err(error) => return Err(text(error)),
            }
        };
        zero(&part, len, zeroed)
    }

    /// A volume and its layout.
    pub(super) fn show_volume(&self, name: &str) -> Result<VolumeDetail, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        let volume = {
            let space = &self.served().recorded.space;
            let volume = space.volume(&name).filter(|volume| volume.home.is_public());
            volume.map(|volume| (volume_info(volume, space), volume.home))
        };
        let not_found = || NodeError::from(VolumeError::NotFound(name.clone()));
        if let Some((volume, Home::Node | Home::OtherNode)) = volume {
            return Ok(VolumeDetail { volume, layout: None });
        }
        let state = self.cluster.get().ok_or_else(not_found)?.state();
        let (uuid, record) = state.volume_named(&name).ok_or_else(not_found)?;
        let info = volume.map_or_else(|| unserved_info(uuid, record), |(info, _)| info);
        let rows = state.rows(uuid, record).map_err(crate::cluster::ChangeError::from)?;
        let space = |rows: &[Vec<MirrorView<'_>>]| -> u64 {
            let lens = rows.iter().flatten().map(|view| view.mirror.len.0);
            lens.sum::<u64>() * u64::from(record.replicas)
        };
        let complete = nearflash_units::index(record.zeroed_rows).min(rows.len());
        let space_bytes = space(&rows);
        let zeroed_bytes = (space(&rows[..complete]) + self.zeroing.of(uuid)).min(space_bytes);
        let rows = (0..).zip(rows);
        let mirrors = rows.flat_map(|(row, views)| {
            views.into_iter().map(|view| mirror_info(&state, row, &view)).collect::<Vec<_>>()
        });
        let placement = match record.placement {
            Placement::Spread => "spread".to_owned(),
            Placement::Local(node) => format!("local:{}", node_name(&state, node)),
            Placement::Central(node) => format!("central:{}", node_name(&state, node)),
        };
        let layout = VolumeLayout {
            replicas: record.replicas,
            stripe_unit: record.stripe_unit.0,
            width: record.width,
            placement,
            space_bytes,
            zeroed_bytes,
            mirrors: mirrors.collect(),
        };
        Ok(VolumeDetail { volume: info, layout: Some(layout) })
    }
}

/// A volume that this node does not serve, because it is not complete, or because a node is unknown.
fn unserved_info(uuid: Uuid, record: &VolumeRecord) -> VolumeInfo {
    VolumeInfo {
        name: record.name.to_string(),
        nqn: nearflash_publish::subsystem_nqn(&record.subsystem).to_string(),
        nsid: record.nsid,
        uuid,
        bytes: record.len().0,
        block_size: record.block_size,
        device: String::new(),
        provisioning: record.provisioning.to_string(),
        job: None,
        files: None,
    }
}

fn mirror_info(state: &ClusterState, row: u32, view: &MirrorView<'_>) -> MirrorInfo {
    let replica = |(ordinal, slice, node): (u32, Uuid, Option<&NodeRecord>)| {
        let slice = state.slices().get(&slice);
        ReplicaInfo {
            node: node.map(|node| node.name.to_string()).unwrap_or_default(),
            slice: slice.map(|slice| slice.name.to_string()).unwrap_or_default(),
            start: view
                .replicas
                .replicas
                .iter()
                .find(|it| it.ordinal == ordinal)
                .map_or(0, |it| it.start.0),
            is_primary: view.mirror.primary == ordinal,
            is_in_sync: view.mirror.in_sync.iter().any(|it| it.replica == ordinal),
            is_up: slice.is_some_and(|slice| state.alive().contains_key(&slice.node)),
        }
    };
    MirrorInfo {
        number: view.key.number,
        row,
        bytes: view.mirror.len.0,
        term: view.mirror.term,
        replicas: replicas(state, view).map(replica).collect(),
    }
}

/// The replicas of a mirror: ordinal, slice, and the node of the slice.
fn replicas<'a>(
    state: &'a ClusterState,
    view: &'a MirrorView<'_>,
) -> impl Iterator<Item = (u32, Uuid, Option<&'a NodeRecord>)> {
    view.replicas.replicas.iter().map(|replica| {
        let slice = state.slices().get(&replica.slice);
        let node = slice.and_then(|slice| state.nodes().get(&slice.node));
        (replica.ordinal, replica.slice, node)
    })
}

fn node_name(state: &ClusterState, node: Uuid) -> String {
    state.nodes().get(&node).map_or_else(|| node.to_string(), |node| node.name.to_string())
}
