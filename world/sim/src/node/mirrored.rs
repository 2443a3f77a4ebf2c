//! Mirrors: the blocks that the peers of a node share lie on this node, their primary, and on another one.
//!
//! Each extent of such a volume is a mirror. All nodes know all mirrors, and their memberships never
//! change. A node serves the volumes of the next one too (`far`); depending on the plan, it has the other
//! replicas of these volumes, or none of them.

use std::ops::Range;
use std::sync::Arc;

use nearflash_device::{DeviceId, DeviceProperties, Health, MirrorKey};
use nearflash_direct::serving::{Access, CredentialExport, Export, Exports};
use nearflash_direct::{Digests, Face, Secret};
use nearflash_mirror::{
    Core, DeviceKind, Local, MirrorEntry, MirrorId, MirrorTable, Remote, Role, Term,
};
use nearflash_publish::{PeerConfig, RemoteVolume};
use nearflash_request::VolumeId;
use nearflash_shard::Message;
use nearflash_space::{Epoch, Extent, GRANULE, Map, Sharing, VolumeEntry};
use nearflash_units::{BlockSize, ByteOffset, Nanos, index};
use uuid::Uuid;

use super::volumes::volumes;
use super::{DISKS, Node, NodeConfig, SimVolume, node_of};
use crate::machine::NodeId;
use crate::outside::Outside;

/// The granules of a node's devices on which the replicas of another node's volumes lie.
const COPIES: [(u32, u64); 5] = [(1, 4), (1, 5), (1, 6), (1, 7), (0, 3)];
/// The first term of all mirrors, and the first session of all replicas.
const TERM: Term = Term(7);
const SESSION: u32 = 3;
/// The key of the nodes.
const KEY: &str = "@cluster";
/// The numbers of the faces' volumes begin here.
const FACES: u32 = 1000;

/// Where a mirror is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimMirror {
    id: MirrorId,
    primary: NodeId,
    secondary: NodeId,
    /// The volume that it is part of, and which extent it is.
    volume: u32,
    extent: u64,
    at_primary: Extent,
    at_secondary: Extent,
}

/// The meaning of a device number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Slot {
    Disk,
    Mirror(MirrorId),
    Replica(MirrorId),
    /// The face of that mirror at another node.
    Face(MirrorId, Face),
}

/// The mirrors as one node sees them.
#[derive(Debug)]
pub(super) struct Mirrored {
    node: NodeId,
    block_size: BlockSize,
    volatile_cache: bool,
    term: Term,
    session: u32,
    mirrors: Vec<SimMirror>,
    slots: Vec<Slot>,
}

fn face_id(mirror: MirrorId, face: Face) -> u32 {
    FACES + 2 * mirror.0 + u32::from(face == Face::Primary)
}

fn face_name(mirror: MirrorId, face: Face) -> Box<str> {
    format!("{face:?}-{}", mirror.0).into()
}

fn face_uuid(mirror: MirrorId, face: Face) -> [u8; 16] {
    Uuid::from_u128(u128::from(face_id(mirror, face))).into_bytes()
}

fn secret() -> Secret {
    Secret::new([0xC1; 32])
}

fn bytes_of(Extent { device, start, len }: Extent) -> (usize, Range<u64>) {
    (index(device.0), start.0..start.0 + len.0)
}

/// The mirrors of a node's volumes, whose other replicas are on `secondary`.
fn mirrors_of(primary: NodeId, secondary: NodeId, block_size: BlockSize) -> Vec<SimMirror> {
    let own = volumes(primary, block_size);
    let fields = own.iter().filter(|volume| primary.field_ids().contains(&volume.id));
    let first = u32::try_from(primary.0 * COPIES.len()).expect("few mirrors");
    let mut copies = (first..).zip(COPIES);
    let mut mirrors = Vec::new();
    for volume in fields {
        for (at_primary, extent) in volume.extents.iter().copied().zip(0..) {
            let (id, (disk, granule)) = copies.next().expect("each extent has a copy");
            let start = ByteOffset(granule * GRANULE.0);
            let at_secondary = Extent { device: DeviceId(disk), start, len: GRANULE };
            let (id, volume) = (MirrorId(id), volume.id);
            mirrors.push(SimMirror {
                id,
                primary,
                secondary,
                volume,
                extent,
                at_primary,
                at_secondary,
            });
        }
    }
    mirrors
}

impl Mirrored {
    pub(super) fn new(
        node: NodeId,
        (nodes, distance): (usize, usize),
        config: &NodeConfig,
    ) -> Self {
        let of = |primary: usize| {
            let secondary = NodeId((primary + distance) % nodes);
            mirrors_of(NodeId(primary), secondary, config.block_size)
        };
        let mirrors: Vec<SimMirror> = (0..nodes).flat_map(of).collect();
        let mut slots = vec![Slot::Disk; index(DISKS)];
        for mirror in &mirrors {
            let id = mirror.id;
            let other = if mirror.primary == node {
                Slot::Face(id, Face::Replica)
            } else {
                Slot::Face(id, Face::Primary)
            };
            let replica = (mirror.secondary == node).then_some(Slot::Replica(id));
            slots.extend([other, Slot::Mirror(id)].into_iter().chain(replica));
        }
        Self {
            node,
            block_size: config.block_size,
            volatile_cache: config.volatile_cache,
            term: TERM,
            session: SESSION,
            mirrors,
            slots,
        }
    }

    fn device(&self, slot: Slot) -> DeviceId {
        let place = self.slots.iter().position(|it| *it == slot).expect("the node has the device");
        DeviceId(u32::try_from(place).expect("few devices"))
    }

    /// The properties of the devices behind the node's own.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceProperties> {
        let device = DeviceProperties {
            len: GRANULE,
            block_size: self.block_size,
            volatile_cache: self.volatile_cache,
            reads_as_zeroes: false,
            deallocates: true,
        };
        self.slots[index(DISKS)..].iter().map(move |_| device)
    }

    pub(super) fn kinds(&self) -> Arc<[DeviceKind]> {
        let kind = |slot: &Slot| match *slot {
            Slot::Disk => DeviceKind::Local,
            Slot::Mirror(mirror) => DeviceKind::Mirror(mirror),
            Slot::Replica(mirror) => DeviceKind::Replica(mirror),
            Slot::Face(..) => DeviceKind::Remote,
        };
        self.slots.iter().map(kind).collect()
    }

    pub(super) fn table(&self, cores: u16) -> Arc<MirrorTable> {
        let with = |table: MirrorTable, mirror: &SimMirror| {
            table.with(mirror.id, Some(self.entry(mirror, cores)))
        };
        Arc::new(self.mirrors.iter().fold(MirrorTable::new(), with))
    }

    fn entry(&self, mirror: &SimMirror, cores: u16) -> MirrorEntry {
        let volatile_cache = self.volatile_cache;
        let local = |extent: Extent| {
            Some(Local { device: extent.device, start: extent.start, volatile_cache })
        };
        let role = match self.node {
            node if node == mirror.primary => Role::Primary,
            node if node == mirror.secondary => Role::Secondary,
            _ => Role::Elsewhere,
        };
        let is_primary = role == Role::Primary;
        MirrorEntry {
            key: MirrorKey { volume: Uuid::from_bytes([0; 16]), number: mirror.id.0 },
            term: self.term,
            len: GRANULE,
            role,
            owner: Core(u16::try_from(mirror.id.0).expect("few mirrors") % cores),
            local: match role {
                Role::Primary => local(mirror.at_primary),
                Role::Secondary => local(mirror.at_secondary),
                Role::Elsewhere | Role::Nobody => None,
            },
            remotes: [
                is_primary.then(|| Remote {
                    device: self.device(Slot::Face(mirror.id, Face::Replica)),
                    session: self.session,
                    has_all: true,
                    volatile_cache,
                }),
                None,
            ],
            primary: (!is_primary).then(|| self.device(Slot::Face(mirror.id, Face::Primary))),
            session: self.session,
            needs_lease: is_primary,
            stay: 0,
            kept_since: Term(0),
            zeroes: true,
            deallocates: true,
        }
    }

    /// The map of a volume, if it lies on mirrors.
    pub(super) fn map(&self, volume: &SimVolume) -> Option<Map> {
        let of_volume = self.mirrors.iter().filter(|mirror| mirror.volume == volume.id);
        let extents: Vec<Extent> = of_volume
            .map(|mirror| {
                let device = self.device(Slot::Mirror(mirror.id));
                Extent { device, start: ByteOffset(0), len: GRANULE }
            })
            .collect();
        let map = || Map::new(volume.epoch, self.block_size, volume.blocks, &extents);
        (!extents.is_empty()).then(|| map().expect("extents suffice"))
    }

    /// The faces of mirrors on this node.
    fn faces(&self) -> impl Iterator<Item = (&SimMirror, Face)> {
        self.mirrors.iter().filter_map(|mirror| {
            let is_primary = mirror.primary == self.node;
            let is_secondary = mirror.secondary == self.node;
            let face = if is_primary { Face::Primary } else { Face::Replica };
            (is_primary || is_secondary).then_some((mirror, face))
        })
    }

    /// The volumes that are faces, and for a primary face, the volume whose reservations apply.
    pub(super) fn face_volumes(&self) -> Vec<(VolumeId, VolumeEntry, Option<u32>)> {
        let face = |(mirror, face): (&SimMirror, Face)| {
            let device = self.device(match face {
                Face::Replica => Slot::Replica(mirror.id),
                Face::Primary => Slot::Mirror(mirror.id),
            });
            let extent = Extent { device, start: ByteOffset(0), len: GRANULE };
            let blocks = self.block_size.blocks_in(GRANULE);
            let map = Map::new(Epoch(1), self.block_size, blocks, &[extent]);
            let entry = VolumeEntry::from(map.expect("an extent suffices"));
            let entry = VolumeEntry { sharing: Sharing::Shared, ..entry };
            let rules = (face == Face::Primary).then_some(mirror.volume);
            (VolumeId(face_id(mirror.id, face)), entry, rules)
        };
        self.faces().map(face).collect()
    }

    /// The primary faces of a volume's mirrors.
    pub(super) fn primary_faces(&self, volume: VolumeId) -> impl Iterator<Item = VolumeId> {
        let of_volume = self.mirrors.iter().filter(move |mirror| mirror.volume == volume.0);
        let own = of_volume.filter(|mirror| mirror.primary == self.node);
        own.map(|mirror| VolumeId(face_id(mirror.id, Face::Primary)))
    }

    /// The exports of the faces, and the credential of the other nodes.
    pub(super) fn export(
        &self,
        volumes: Vec<(Box<str>, Export)>,
        keys: Vec<(Box<str>, CredentialExport)>,
        boot: u64,
    ) -> Exports {
        let export = |(mirror, face): (&SimMirror, Face)| {
            let export = Export {
                volume: VolumeId(face_id(mirror.id, face)),
                bytes: GRANULE.0,
                block_size: self.block_size,
                epoch: 1,
                uuid: face_uuid(mirror.id, face),
                is_remote: true,
                is_public: false,
                face: Some(face),
            };
            (face_name(mirror.id, face), export)
        };
        let full = |(mirror, face): (&SimMirror, Face)| {
            (VolumeId(face_id(mirror.id, face)), Arc::new(Access::full()))
        };
        let access = self.faces().map(full).collect();
        let credential = CredentialExport { secret: secret(), expired: false, access };
        Exports::new(volumes.into_iter().chain(self.faces().map(export)), keys)
            .with_peers(KEY, credential, boot)
    }

    /// Each core's connections to the other nodes: two to each, of which one is for replicas.
    pub(super) fn peers(&self, digests: Digests, health: &[Arc<Health>]) -> Vec<PeerConfig> {
        let mut peers: Vec<((NodeId, Face), PeerConfig)> = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            let Slot::Face(id, face) = *slot else { continue };
            let mirror = self.mirrors.iter().find(|mirror| mirror.id == id).expect("it is known");
            let of = match face {
                Face::Replica => mirror.secondary,
                Face::Primary => mirror.primary,
            };
            let volume = RemoteVolume {
                device: DeviceId(u32::try_from(place).expect("few devices")),
                name: face_name(id, face),
                uuid: face_uuid(id, face),
                health: Arc::clone(&health[place]),
                face: Some(face),
            };
            if let Some((_, peer)) = peers.iter_mut().find(|(known, _)| *known == (of, face)) {
                peer.volumes.push(volume);
                continue;
            }
            let (address, key) = (of.address(4421), Some((KEY.into(), secret())));
            let peer = PeerConfig { address, key, digests, volumes: vec![volume] };
            peers.push(((of, face), peer));
        }
        peers.into_iter().map(|(_, peer)| peer).collect()
    }

    /// The bytes of the node's devices that are replicas of another node's volumes.
    pub(super) fn copies(&self) -> Vec<(usize, Range<u64>)> {
        let here = self.mirrors.iter().filter(|mirror| mirror.secondary == self.node);
        here.map(|mirror| bytes_of(mirror.at_secondary)).collect()
    }

    /// The same of the node's own volumes.
    pub(super) fn originals(&self) -> Vec<(usize, Range<u64>)> {
        let here = self.mirrors.iter().filter(|mirror| mirror.primary == self.node);
        here.map(|mirror| bytes_of(mirror.at_primary)).collect()
    }

    /// The volume of another node and the offset in it of a place on a device, if its replica is there.
    pub(super) fn copy_at(&self, disk: usize, offset: ByteOffset) -> Option<(u32, ByteOffset)> {
        let here = self.mirrors.iter().filter(|mirror| mirror.secondary == self.node);
        here.filter(|mirror| index(mirror.at_secondary.device.0) == disk).find_map(|mirror| {
            let within = offset.0.checked_sub(mirror.at_secondary.start.0)?;
            let place = ByteOffset(mirror.extent * GRANULE.0 + within);
            (within < GRANULE.0).then_some((mirror.volume, place))
        })
    }

    /// The replicas of each mirror of this node: node, device and first byte.
    pub(super) fn replicas(&self) -> impl Iterator<Item = [(NodeId, usize, ByteOffset); 2]> {
        let own = self.mirrors.iter().filter(|mirror| mirror.primary == self.node);
        own.map(|mirror| {
            let place = |node, extent: Extent| (node, index(extent.device.0), extent.start);
            [place(mirror.primary, mirror.at_primary), place(mirror.secondary, mirror.at_secondary)]
        })
    }
}

impl Node {
    /// The mirrors, as this node sees them.
    pub(super) fn mirrors(&self) -> Arc<MirrorTable> {
        self.mirrored.as_ref().map_or_else(Arc::default, |it| it.table(self.config.cores))
    }

    /// Gives every core leases that are never over.
    pub(super) fn give_leases(&self, outside: &mut Outside) {
        let Some(mirrored) = &self.mirrored else { return };
        let lease = |mirror: &SimMirror| (mirror.id, Nanos(u64::MAX));
        let leases: Arc<[_]> = mirrored.mirrors.iter().map(lease).collect();
        self.tell_all(outside, || Message::Leases(Arc::clone(&leases)));
    }

    /// All mirrors get another term, and all replicas another session. Returns the number that cores
    /// confirm.
    pub(crate) fn change_terms(&mut self, outside: &mut Outside) -> u64 {
        if let Some(mirrored) = &mut self.mirrored {
            mirrored.term.0 += 1;
            mirrored.session += 1;
        }
        self.changes += 1;
        let (number, table) = (self.changes, self.mirrors());
        self.tell_all(outside, || Message::Mirrors(number, Arc::clone(&table)));
        number
    }

    /// Asks whether all that was accepted for replicas is on its device. Returns the number that cores
    /// confirm.
    pub(crate) fn await_mirrors(&mut self, outside: &mut Outside) -> u64 {
        self.changes += 1;
        let mirrors = self.mirrored.iter().flat_map(|mirrored| &mirrored.mirrors);
        let (number, all) = (self.changes, mirrors.map(|it| it.id).collect::<Arc<[_]>>());
        self.tell_all(outside, || Message::AwaitMirrors(number, Arc::clone(&all)));
        number
    }

    /// The replicas of each mirror of this node: node, device and first byte.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = [(NodeId, usize, ByteOffset); 2]> {
        self.mirrored.iter().flat_map(Mirrored::replicas)
    }

    /// The place of the other replica of a place on a device of this node.
    pub(crate) fn copy_of(
        &self,
        disk: usize,
        offset: ByteOffset,
    ) -> Option<(NodeId, usize, ByteOffset)> {
        self.replicas().find_map(|[own, (node, other, start)]| {
            let (_, on, first) = own;
            let within = offset.0.checked_sub(first.0).filter(|within| *within < GRANULE.0)?;
            (on == disk).then_some((node, other, ByteOffset(start.0 + within)))
        })
    }

    /// Whether the volume lies on mirrors.
    pub(super) fn is_mirrored(&self, volume: u32) -> bool {
        self.mirrored.is_some() && node_of(volume).field_ids().contains(&volume)
    }
}
