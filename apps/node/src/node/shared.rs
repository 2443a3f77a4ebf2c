//! The volumes of the cluster, as this node serves them. The tables of the cluster become devices and
//! volumes: a mirror on a slice of this node is an extent of that slice's device, and one on another
//! node is a device that the cores reach through that node.
//!
//! Invariant: when something new lies where something else lay before, no request on the earlier one
//! is under way any more (`withdrawn`). Everything else is served meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use nearflash_access::Secret as PeerSecret;
use nearflash_api::WithdrawalInfo;
use nearflash_cluster::compile::{MirrorPlace, Part, SlicePlace, Tables, VolumeLayout};
use nearflash_cluster::{part_name, part_uuid};
use nearflash_device::{DeviceId, DeviceProperties};
use nearflash_direct::{Digests, Face, Secret};
use nearflash_media::Device;
use nearflash_publish::{PEER_KEY, PeerAccess, PeerConfig, RemoteVolume};
use nearflash_records::AccessRecords;
use nearflash_request::VolumeId;
use nearflash_shard::VOLUMES_PER_PEER_MAX;
use nearflash_space::{Epoch, Extent, Home, Name, Reservations, Stripes, Volume};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, index};
use uuid::Uuid;

use super::Node;
use super::board::Board;
use super::mirrored::Mirrored;
use super::withdrawn::{Withdrawals, Withdrawn};
use super::{shared_list, zeroing};
use crate::Ticket;
use crate::remote::place_of;

/// Between nodes, a damaged byte would be stored as if it were right.
const DIGESTS: Digests = Digests { header: true, data: true };

/// This node's part in the cluster.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The last tables, with the volumes that were left out of them as they were before.
    pub(super) tables: Tables,
    /// The devices of this node's slices that the cluster's store knows.
    pub(super) slices: HashMap<Uuid, DeviceId>,
    /// The devices that are parts on other nodes, by the UUID of the part.
    remotes: HashMap<Uuid, DeviceId>,
    /// The connections to each node for each face of mirrors, by their place in the list of peers.
    links: HashMap<(Uuid, Option<Face>), Vec<usize>>,
    pub(super) mirrored: Mirrored,
    pub(super) withdrawals: Withdrawals,
    /// The list of access that this process has taken.
    pub(super) access_shown: Option<Arc<AccessRecords>>,
}

/// Whether the watcher of the cluster ends.
pub(crate) type IsOver = AtomicBool;

impl Node {
    /// A slice of this node may be used from now on: the cluster's store knows its incarnation.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn use_slice(self: &Arc<Self>, slice: Uuid) -> io::Result<()> {
        let devices = self.devices();
        let place = devices.iter().position(|device| device.uuid() == slice);
        let place = place.expect("the slices are among the devices since the start");
        let device = DeviceId(u32::try_from(place).expect("devices are few"));
        self.shared().slices.insert(slice, device);
        zeroing::start(self, device)?;
        self.show_cluster();
        Ok(())
    }

    /// The table of mirrors.
    pub(crate) fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Serves what these tables say from now on, except where requests on what was there before are under
    /// way: see [`Self::show_cluster`].
    pub(crate) fn follow_cluster(self: &Arc<Self>, mut tables: Tables) -> bool {
        self.answer_questions(std::mem::take(&mut tables.questions));
        {
            let mut shared = self.shared();
            let before = std::mem::take(&mut shared.tables);
            shared.tables = tables.with_left_out(before);
        }
        self.show_cluster()
    }

    /// Serves what the tables say, as far as the requests on what is gone allow it. Returns whether some of
    /// it has to wait for them: their end has it called again.
    pub(crate) fn show_cluster(&self) -> bool {
        let _one = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        shared_list::follow(self);
        self.add_remotes();
        self.add_mirrors();
        if let Some(follower) = self.cluster.get() {
            follower.set_mirrors(self.mirror_configs());
        }
        let (wanted, elsewhere) = {
            let shared = self.shared();
            (shared.volumes(), shared.tables.elsewhere.clone())
        };
        self.withdraw(&wanted);
        let served = self.shared_volumes();
        let (next, waits) = {
            let mut shared = self.shared();
            shared.withdrawals.forget_over();
            (shared.allowed(wanted, &served), !shared.withdrawals.is_empty())
        };
        if !self.serves(&next) || *self.served().recorded.elsewhere != elsewhere[..] {
            // Nothing is gone, so no older request matters.
            let _ = self.show_shared(next);
        }
        self.remove_mirrors();
        zeroing::begin(self);
        self.report_withdrawals();
        waits
    }

    fn report_withdrawals(&self) {
        for WithdrawalInfo { volumes, devices, seconds } in self.withdrawals() {
            let (volumes, devices) = (volumes.join(", "), devices.join(", "));
            tracing::warn!(
                volumes,
                devices,
                "requests on volumes that were removed or moved {seconds} s ago have not ended, and \
                 their space is not used before: a device does not answer"
            );
        }
    }

    /// Stops serving what is gone.
    fn withdraw(&self, wanted: &[Volume]) {
        let kept = self.kept(wanted);
        let is_kept: BTreeSet<Uuid> = kept.iter().map(|volume| volume.uuid).collect();
        let mut gone = self.shared_volumes();
        gone.retain(|volume| !is_kept.contains(&volume.uuid));
        if gone.is_empty() {
            return;
        }
        let places = {
            let shared = self.shared();
            gone.iter().flat_map(|volume| shared.places(volume)).collect()
        };
        let ticket = self.show_shared(kept);
        // The nodes of its replicas refuse requests on a mirror that is gone, and no membership drops them any
        // more. So its requests end only when the cores do not know it.
        self.remove_mirrors();
        self.await_older(Withdrawn::new(&gone, places, ticket));
    }

    /// Does not serve this space as anything else before the older requests have ended.
    pub(super) fn await_older(&self, withdrawn: Withdrawn) {
        let ticket = withdrawn.ticket().clone();
        self.shared().withdrawals.add(withdrawn);
        let follower = self.cluster.get().map(Arc::downgrade).unwrap_or_default();
        ticket.when_over(move || {
            // Nobody serves a cluster any more if it is gone.
            if let Some(follower) = follower.upgrade() {
                follower.look_again();
            }
        });
    }

    /// Whether these volumes and parts are served already.
    fn serves(&self, wanted: &[Volume]) -> bool {
        let served = self.shared_volumes();
        let served: HashMap<Uuid, Volume> =
            served.into_iter().map(|it| (it.uuid, Volume { id: VolumeId(0), ..it })).collect();
        served.len() == wanted.len()
            && wanted.iter().all(|volume| served.get(&volume.uuid) == Some(volume))
    }

    /// The volumes and parts that are served now and whose blocks stay where they are.
    fn kept(&self, wanted: &[Volume]) -> Vec<Volume> {
        let wanted: HashMap<Uuid, &Volume> = wanted.iter().map(|it| (it.uuid, it)).collect();
        let mut kept = self.shared_volumes();
        kept.retain(|volume| {
            wanted.get(&volume.uuid).is_some_and(|it| it.extents.starts_with(&volume.extents))
        });
        kept
    }

    fn shared_volumes(&self) -> Vec<Volume> {
        let served = self.served();
        let volumes = served.recorded.space.volumes();
        volumes.filter(|it| it.home.is_of_cluster()).cloned().collect()
    }

    /// Serves these volumes and parts of the cluster. The ticket is over when no request is under way
    /// any more on what was served before and is not now.
    fn show_shared(&self, volumes: Vec<Volume>) -> Ticket {
        let one = self.one_change();
        let mut fresh = self.copy();
        fresh.elsewhere = self.shared().tables.elsewhere.as_slice().into();
        for fault in fresh.space.set_shared(volumes) {
            tracing::error!("a volume of the cluster is not served here: {fault}");
        }
        let ticket = self.show(fresh);
        drop(one);
        ticket
    }

    /// Adds the devices that are parts on other nodes, and follows the addresses of the nodes.
    fn add_remotes(&self) {
        let one = self.one_change();
        let peers = self.served().recorded.peers.clone();
        let Some(PeerAccess { secret, .. }) = peers else { return };
        let (mut shared, mut outfit) = (self.shared(), self.outfit());
        let is_moved = shared.follow_addresses(&mut outfit.peers);
        let new = shared.new_remotes();
        if new.is_empty() && !is_moved {
            return;
        }
        let mut space = self.copy().space;
        for remote in new {
            let number = DeviceId(u32::try_from(outfit.all.len()).expect("devices are few"));
            outfit.all.push(Arc::new(remote.device()));
            space.add_device(place_of(&outfit.all));
            let health = Arc::clone(outfit.all[index(number.0)].health());
            let volume = RemoteVolume {
                device: number,
                name: part_name(remote.place.mirror, true).as_str().into(),
                uuid: *part_uuid(remote.place.mirror, true).as_bytes(),
                health,
                face: None,
            };
            shared.link(&mut outfit.peers, (&remote.node, None), &secret).volumes.push(volume);
            shared.remotes.insert(part_uuid(remote.place.mirror, true), number);
        }
        self.serve_devices(&outfit);
        self.served().recorded.space = space;
        drop(one);
    }
}

/// A part on another node that is not a device yet.
struct NewRemote {
    name: Name,
    place: MirrorPlace,
    node: SlicePlace,
    len: ByteLen,
    block_size: BlockSize,
}

impl NewRemote {
    fn device(&self) -> Device {
        let properties = DeviceProperties {
            len: self.len,
            block_size: self.block_size,
            // The protocol does not say whether it has one.
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: true,
        };
        Device::remote(self.name.clone(), part_uuid(self.place.mirror, true), properties)
    }
}

impl Shared {
    /// Of these volumes, those whose space nothing else uses any more. One that may not change yet stays as
    /// it is served.
    fn allowed(&self, wanted: Vec<Volume>, served: &[Volume]) -> Vec<Volume> {
        if self.withdrawals.is_empty() {
            return wanted;
        }
        let allow = |volume: Volume| {
            if self.withdrawals.allow(&volume, &self.places(&volume)) {
                return Some(volume);
            }
            served.iter().find(|it| it.uuid == volume.uuid).cloned()
        };
        wanted.into_iter().filter_map(allow).collect()
    }

    /// The space under a volume: that of a mirror is the replica of this node.
    fn places(&self, volume: &Volume) -> Vec<Extent> {
        let own = |extent: &Extent| self.mirrored.own_place(extent.device);
        volume.extents.iter().map(|extent| own(extent).unwrap_or(*extent)).collect()
    }

    /// The volumes and the parts that this node can serve.
    fn volumes(&self) -> Vec<Volume> {
        let parts = self.tables.parts.iter().filter_map(|part| self.part(part));
        let volumes = self.tables.volumes.iter().filter_map(|it| self.volume(it));
        parts.chain(self.faces()).chain(volumes).collect()
    }

    /// A part on a slice of this node.
    fn part(&self, part: &Part) -> Option<Volume> {
        let device = *self.slices.get(&part.place.slice)?;
        let block_size = BlockSize::from_bytes(part.block_size)?;
        let name = part.name();
        Some(Volume {
            id: VolumeId(0),
            uuid: part.uuid(),
            subsystem: name.clone(),
            name,
            block_size,
            blocks: block_size.blocks_in(part.len),
            preparing: None,
            nsid: 1,
            epoch: Epoch(1),
            extents: vec![Extent { device, start: part.place.start, len: part.len }],
            provisioning: part.provisioning,
            reservations: Reservations::default(),
            home: Home::Part,
            stripes: Stripes::NONE,
        })
    }

    /// A volume, if all of its mirrors have devices.
    fn volume(&self, layout: &VolumeLayout) -> Option<Volume> {
        let block_size = BlockSize::from_bytes(layout.block_size)?;
        let rows = layout.rows.iter();
        let places = rows.flat_map(|row| row.mirrors.iter().map(|place| (place, row.len)));
        let extent = |(place, len)| match layout.replicas {
            1 => self.extent(place, len),
            _ => {
                let device = self.mirror_device(place.mirror)?;
                Some(Extent { device, start: ByteOffset(0), len })
            }
        };
        let extents = places.map(extent).collect::<Option<_>>()?;
        let width = layout.rows.first().map_or(1, |row| row.mirrors.len());
        Some(Volume {
            id: VolumeId(0),
            uuid: layout.uuid,
            name: layout.name.clone(),
            block_size,
            blocks: Blocks(layout.blocks),
            preparing: None,
            subsystem: layout.subsystem.clone(),
            nsid: layout.nsid,
            epoch: Epoch(layout.epoch),
            extents,
            provisioning: layout.provisioning,
            reservations: Reservations::default(),
            home: Home::Cluster,
            stripes: Stripes {
                width: u32::try_from(width).unwrap_or(u32::MAX),
                unit: layout.stripe_unit,
                device_block_size: block_size,
            },
        })
    }

    fn extent(&self, place: &MirrorPlace, len: ByteLen) -> Option<Extent> {
        if let Some(device) = self.slices.get(&place.slice) {
            return Some(Extent { device: *device, start: place.start, len });
        }
        let device = *self.remotes.get(&part_uuid(place.mirror, true))?;
        Some(Extent { device, start: ByteOffset(0), len })
    }

    /// The parts on other nodes that are no devices yet.
    fn new_remotes(&self) -> Vec<NewRemote> {
        let mut new = Vec::new();
        for volume in self.tables.volumes.iter().filter(|volume| volume.replicas == 1) {
            let Some(block_size) = BlockSize::from_bytes(volume.block_size) else { continue };
            let rows = volume.rows.iter();
            for (place, len) in rows.flat_map(|it| it.mirrors.iter().map(|place| (place, it.len))) {
                let Some(node) = self.tables.slices.get(&place.slice) else { continue };
                let is_known = self.remotes.contains_key(&part_uuid(place.mirror, true));
                if node.is_local || is_known || node.addresses.is_empty() {
                    continue;
                }
                let name = device_name(&node.node_name, &volume.name, place.mirror.number);
                let (place, node) = (*place, node.clone());
                new.push(NewRemote { name, place, node, len, block_size });
            }
        }
        new
    }

    /// Takes the addresses that the nodes have now. Returns whether one has moved.
    fn follow_addresses(&self, peers: &mut [PeerConfig]) -> bool {
        let mut is_moved = false;
        for slice in self.tables.slices.values() {
            let Some(address) = slice.addresses.first() else { continue };
            let faces = [None, Some(Face::Primary), Some(Face::Replica)];
            let links = faces.iter().filter_map(|face| self.links.get(&(slice.node, *face)));
            for link in links.flatten() {
                is_moved |= std::mem::replace(&mut peers[*link].address, *address) != *address;
            }
        }
        is_moved
    }

    /// The connection to a node that takes a further part, or a further face of that kind.
    pub(super) fn link<'a>(
        &mut self,
        peers: &'a mut Vec<PeerConfig>,
        (node, face): (&SlicePlace, Option<Face>),
        secret: &PeerSecret,
    ) -> &'a mut PeerConfig {
        let links = self.links.entry((node.node, face)).or_default();
        let last = links.last().copied();
        let has_room = last.filter(|last| peers[*last].volumes.len() < VOLUMES_PER_PEER_MAX);
        let place = has_room.unwrap_or_else(|| {
            let key = Some((PEER_KEY.into(), Secret::new(*secret.bytes())));
            let address = node.addresses[0];
            peers.push(PeerConfig { address, key, digests: DIGESTS, volumes: Vec::new() });
            links.push(peers.len() - 1);
            peers.len() - 1
        });
        &mut peers[place]
    }
}

/// The name of the device that is a part on another node.
fn device_name(node: &Name, volume: &Name, number: u32) -> Name {
    let name = format!("{node}.{volume}.{number}");
    let short: String = name.chars().take(nearflash_space::NAME_LEN_MAX).collect();
    short.parse().expect("a name and what a name may have are a name")
}
