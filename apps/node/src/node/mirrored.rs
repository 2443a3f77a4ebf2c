//! Mirrors with replicas on two nodes: their devices, their faces for the other nodes, and their seats in
//! the table of the cores.

use std::collections::HashMap;
use std::sync::Arc;

use nearflash_cluster::compile::{MirrorLayout, ReplicaPlace};
use nearflash_cluster::{face_name, face_uuid};
use nearflash_device::{DeviceId, DeviceProperties, MirrorKey};
use nearflash_direct::Face;
use nearflash_media::Device;
use nearflash_mirror::membership::{MirrorConfig, Replica};
use nearflash_mirror::{DeviceKind, Local, MirrorId};
use nearflash_publish::{Faces, PeerAccess, PeerConfig, RemoteVolume, Seat, face_of};
use nearflash_space::{Extent, Home, Name, Provisioning, Space, Volume};
use nearflash_units::{BlockSize, ByteLen, index};
use uuid::Uuid;

use super::Node;
use super::shared::Shared;
use super::withdrawn::Withdrawn;
use crate::Ticket;
use crate::cluster::known;
use crate::prepare::Outfit;
use crate::remote::place_of;

/// The mirrors of this node.
#[derive(Debug, Default)]
pub(super) struct Mirrored {
    devices: HashMap<MirrorKey, Seated>,
    next: u32,
}

/// The devices of a mirror.
#[derive(Debug)]
struct Seated {
    id: MirrorId,
    mirror: DeviceId,
    /// The face of this node's replica.
    replica: Option<DeviceId>,
    /// The place of this node's replica.
    own: Option<Extent>,
    /// The replicas that it has.
    places: Vec<ReplicaPlace>,
    /// The faces of the replicas on other nodes.
    faces: Vec<(ReplicaPlace, Faces)>,
}

impl Mirrored {
    /// The place of this node's replica of the mirror that is, or whose face is, this device.
    pub(super) fn own_place(&self, device: DeviceId) -> Option<Extent> {
        let seated = self.devices.values();
        let mut seated = seated.filter(|it| it.mirror == device || it.replica == Some(device));
        seated.next().and_then(|seated| seated.own)
    }
}

impl Node {
    /// Adds the devices of new mirrors, and of mirrors whose replicas have changed, and gives the mirrors
    /// their seats.
    pub(super) fn add_mirrors(&self) {
        let one = self.one_change();
        let peers = self.served().recorded.peers.clone();
        let Some(peers) = peers else { return };
        let (seats, left) = {
            let (mut shared, mut outfit) = (self.shared(), self.outfit());
            let new = shared.new_mirrors();
            if new.is_empty() {
                return;
            }
            let left: Vec<_> = new.iter().filter_map(|layout| shared.left_place(layout)).collect();
            let mut space = self.copy().space;
            let mut makes = Makes { outfit: &mut outfit, space: &mut space, peers: &peers };
            let seats: Vec<_> = new
                .into_iter()
                .map(|layout| (layout.key, shared.seat(&layout, &mut makes)))
                .collect();
            self.serve_devices(&outfit);
            self.served().recorded.space = space;
            (seats, left)
        };
        drop(one);
        self.board.seat(seats);
        for (key, name, place) in left {
            // Requests on the mirror go on without the replica of this node, so its space is free when the device
            // has done what it was asked.
            let ticket = Ticket::waiting(1);
            let drained = ticket.clone();
            self.board.drain(&key, Box::new(move || drained.settle()));
            self.await_older(Withdrawn::replica(name, place, ticket));
        }
    }

    /// Takes the seats of mirrors that are gone.
    pub(super) fn remove_mirrors(&self) {
        let mut shared = self.shared();
        let kept: Vec<MirrorKey> = shared.tables.mirrors.iter().map(|it| it.key).collect();
        shared.mirrored.devices.retain(|key, _| kept.contains(key));
        drop(shared);
        self.board.unseat(|key| !kept.contains(key));
    }

    /// The mirrors that have a replica here, for the membership.
    pub(super) fn mirror_configs(&self) -> Vec<(MirrorConfig, ByteLen)> {
        let shared = self.shared();
        let seated = shared.tables.mirrors.iter();
        let seated = seated.filter(|it| shared.mirrored.devices.contains_key(&it.key));
        seated.filter_map(|layout| Some((shared.config(layout)?, layout.len))).collect()
    }
}

/// Where new devices go.
struct Makes<'a> {
    outfit: &'a mut Outfit,
    space: &'a mut Space,
    peers: &'a PeerAccess,
}

impl Makes<'_> {
    /// Adds a device that no driver serves.
    fn device(&mut self, name: Name, uuid: Uuid, properties: DeviceProperties) -> DeviceId {
        let number = DeviceId(u32::try_from(self.outfit.all.len()).expect("devices are few"));
        self.outfit.all.push(Arc::new(Device::remote(name, uuid, properties)));
        self.space.add_device(place_of(&self.outfit.all));
        number
    }
}

impl Shared {
    /// The mirrors that have no devices yet, or those of other replicas, and can have them.
    fn new_mirrors(&self) -> Vec<MirrorLayout> {
        let has_devices = |layout: &MirrorLayout| {
            let seated = self.mirrored.devices.get(&layout.key);
            seated.is_some_and(|seated| seated.places == layout.replicas)
        };
        let is_new = |layout: &&MirrorLayout| layout.is_zeroed && !has_devices(layout);
        let is_reached = |replica: &ReplicaPlace| match self.tables.slices.get(&replica.slice) {
            Some(slice) if slice.is_local => self.slices.contains_key(&replica.slice),
            Some(slice) => !slice.addresses.is_empty(),
            None => false,
        };
        let mirrors = self.tables.mirrors.iter().filter(is_new);
        mirrors.filter(|it| it.replicas.iter().all(is_reached)).cloned().collect()
    }

    /// The place that the replica of this node leaves by this layout.
    fn left_place(&self, layout: &MirrorLayout) -> Option<(MirrorKey, Name, Extent)> {
        let left = self.mirrored.devices.get(&layout.key)?.own?;
        let own = self.own(layout).map(|own| self.extent_of(own, layout.len));
        (own != Some(left)).then(|| (layout.key, self.mirror_name(layout.key), left))
    }

    /// A replica on a slice of this node, as an extent.
    fn extent_of(&self, own: &ReplicaPlace, len: ByteLen) -> Extent {
        Extent { device: self.slices[&own.slice], start: own.start, len }
    }

    /// The replica of this node.
    fn own<'a>(&self, layout: &'a MirrorLayout) -> Option<&'a ReplicaPlace> {
        layout.replicas.iter().find(|replica| self.slices.contains_key(&replica.slice))
    }

    /// Makes the devices of a mirror. If the mirror has some already, the device that volumes lie on stays,
    /// and so do the faces of replicas that stay.
    fn seat(&mut self, layout: &MirrorLayout, makes: &mut Makes<'_>) -> Seat {
        let key = layout.key;
        let earlier = self.mirrored.devices.remove(&key);
        let next = MirrorId(self.mirrored.next);
        let id = earlier.as_ref().map_or(next, |earlier| earlier.id);
        self.mirrored.next += u32::from(id == next);
        let block_size = BlockSize::from_bytes(layout.block_size).unwrap_or(BlockSize::B4096);
        let own = self.own(layout).copied();
        let local = own.map(|own| {
            let device = self.slices[&own.slice];
            let volatile_cache = makes.outfit.all[index(device.0)].properties().volatile_cache;
            (own.ordinal, Local { device, start: own.start, volatile_cache })
        });
        let properties = DeviceProperties {
            len: layout.len,
            block_size,
            volatile_cache: true,
            reads_as_zeroes: false,
            deallocates: layout.provisioning == Provisioning::Thin,
        };
        let mirror = earlier.as_ref().map(|earlier| earlier.mirror).unwrap_or_else(|| {
            let device = makes.device(self.mirror_name(key), face_uuid(key, false), properties);
            makes.outfit.mirrors.push((device, DeviceKind::Mirror(id)));
            device
        });
        let known = earlier.as_ref().and_then(|earlier| earlier.replica);
        let replica = own.map(|_| {
            known.unwrap_or_else(|| {
                let device = makes.device(face_name(key, true), face_uuid(key, true), properties);
                makes.outfit.mirrors.push((device, DeviceKind::Replica(id)));
                device
            })
        });
        let known = earlier.map(|earlier| earlier.faces).unwrap_or_default();
        let others =
            layout.replicas.iter().filter(|it| Some(it.ordinal) != own.map(|it| it.ordinal));
        let faces = others.map(|other| {
            let known = known.iter().find(|(place, _)| place == other).map(|(_, faces)| *faces);
            let mut face = |face| self.face(key, other, face, properties, makes);
            let primary = known.map_or_else(|| face(Face::Primary), |faces| faces.primary);
            let known = known.and_then(|faces| faces.replica);
            let replica = own.map(|_| known.unwrap_or_else(|| face(Face::Replica)));
            (*other, Faces { ordinal: other.ordinal, primary, replica })
        });
        let faces: Vec<(ReplicaPlace, Faces)> = faces.collect();
        let of_others = faces.iter().map(|(_, faces)| *faces).collect();
        let places = layout.replicas.clone();
        let place = own.map(|own| self.extent_of(&own, layout.len));
        let seated = Seated { id, mirror, replica, own: place, places, faces };
        self.mirrored.devices.insert(key, seated);
        let (len, deallocates) = (layout.len, properties.deallocates);
        Seat { id, len, own: local, faces: of_others, deallocates }
    }

    /// The name of the device that is a mirror: that of its volume, and its number.
    fn mirror_name(&self, key: MirrorKey) -> Name {
        let volume = self.tables.volumes.iter().find(|it| it.uuid == key.volume);
        let named = volume.and_then(|it| format!("{}.{}", it.name, key.number).parse().ok());
        named.unwrap_or_else(|| face_name(key, false))
    }

    /// The device that is a face of a mirror on another node.
    fn face(
        &mut self,
        key: MirrorKey,
        replica: &ReplicaPlace,
        face: Face,
        properties: DeviceProperties,
        makes: &mut Makes<'_>,
    ) -> DeviceId {
        let node = self.tables.slices[&replica.slice].clone();
        let is_replica = face == Face::Replica;
        let (name, uuid) = (face_name(key, is_replica), face_uuid(key, is_replica));
        let of_node = Uuid::from_u128(uuid.as_u128() ^ node.node.as_u128());
        let device = makes.device(name.clone(), of_node, properties);
        let health = Arc::clone(makes.outfit.all[index(device.0)].health());
        let peers: &mut Vec<PeerConfig> = &mut makes.outfit.peers;
        self.link(peers, (&node, Some(face)), &makes.peers.secret).volumes.push(RemoteVolume {
            device,
            name: name.as_str().into(),
            uuid: *uuid.as_bytes(),
            health,
            face: Some(face),
        });
        device
    }

    /// The device that is a mirror.
    pub(super) fn mirror_device(&self, mirror: MirrorKey) -> Option<DeviceId> {
        self.mirrored.devices.get(&mirror).map(|seated| seated.mirror)
    }

    /// The faces of the mirrors that have a replica here, as volumes for the other nodes.
    pub(super) fn faces(&self) -> Vec<Volume> {
        let mirrors = self.tables.mirrors.iter();
        let faces = mirrors.filter_map(|layout| {
            let Seated { mirror, replica, .. } = self.mirrored.devices.get(&layout.key)?;
            let (primary, copy) = (Home::PrimaryFace, Home::ReplicaFace);
            Some([face_of(layout, *mirror, primary)?, face_of(layout, (*replica)?, copy)?])
        });
        faces.flatten().collect()
    }

    fn config(&self, layout: &MirrorLayout) -> Option<MirrorConfig> {
        self.own(layout)?;
        let replica = |place: &ReplicaPlace| {
            let node = self.tables.slices.get(&place.slice)?.node;
            let (slice, node) = (place.slice.into_bytes(), node.into_bytes());
            Some(Replica { ordinal: place.ordinal, slice, node })
        };
        let replicas = layout.replicas.iter().map(replica).collect::<Option<_>>()?;
        let places = i64::try_from(layout.places_revision).unwrap_or(i64::MAX);
        let (key, known) = (layout.key, known(layout));
        // The membership's driver has the slices.
        let leaving = layout.leaving;
        Some(MirrorConfig { key, replicas, leaving, places, known, note: None })
    }
}
