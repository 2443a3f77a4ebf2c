//! The node: one or several cores that take turns, and the state that the control side keeps and
//! distributes to them.

mod exports;
mod far;
mod mirrored;
mod turns;
mod volumes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_control::{Steps, Volumes};
use nearflash_device::{DeviceProperties, Health};
use nearflash_direct::serving as direct;
use nearflash_engine::{CoreId, Pool};
use nearflash_iscsi::serving as iscsi;
use nearflash_mirror::Core as Number;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::{Devices, Publisher, SILENT_AFTER, Served};
use nearflash_request::{
    Addressees, Attention, BlockRange, Change, Nexus, Raised, Report, VolumeId,
};
use nearflash_shard::{DirectConfig, IscsiConfig, Message, Shard, ShardConfig};
use nearflash_space::{Changed, Piece, Reservations, Restriction};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, Nanos};

pub(crate) use self::volumes::{
    DISKS, FAR_TARGET, SimVolume, TARGET, UNCHECKED, disk_number, name_of, node_of, subsystem_of,
};

use self::far::Far;
use self::mirrored::Mirrored;
use self::turns::Core;
use self::volumes::DISK_LEN;
use crate::client::grants::Grants;
use crate::failures::Part;
use crate::machine::NodeId;
use crate::outside::Outside;
use crate::sim::notices::Confirmed;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The number of cores.
    pub cores: u16,
    /// The length of each core's pool.
    pub pool_len: ByteLen,
    /// The block size of its volumes.
    pub block_size: BlockSize,
    /// Of its devices, if it is larger than that of its volumes.
    pub device_block_size: BlockSize,
    /// Its devices have a volatile write cache.
    pub volatile_cache: bool,
    /// The limits of sessions.
    pub session: SessionConfig,
    /// Direct clients need keys. Without keys, every client may do everything.
    pub keys: bool,
    /// Requests that a direct client may have in flight.
    pub credits: u32,
    /// Time-out for a host that neither takes answers nor sends promised data. An initiator that is
    /// silent for this long gets a NOP-In, and is given up after the same time again.
    pub stall_timeout: Nanos,
    /// Requests in flight per core and device.
    pub device_depth: u32,
    /// The volumes that a node's peers share lie on this node and on the one that is so many nodes away.
    pub mirrored: Option<usize>,
}

impl NodeConfig {
    /// The block size of its devices.
    pub(crate) fn device_block_size(&self) -> BlockSize {
        self.device_block_size.max(self.block_size)
    }
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    config: NodeConfig,
    cores: Vec<Core>,
    /// Health of its devices, shared by all cores.
    health: Arc<[Arc<Health>]>,
    volumes: Vec<SimVolume>,
    /// The volumes of another node that it serves too.
    far: Option<Far>,
    mirrored: Option<Mirrored>,
    reservations: BTreeMap<u32, Reservations>,
    changes: u64,
    /// The number of its start, in answers to direct clients; 0 where no node connects to it.
    boot: u64,
    /// How often its machine has started.
    starts: u64,
    pub(crate) grants: Grants,
    served: Arc<Served>,
    publisher: Publisher,
    pub(crate) confirmed: Confirmed,
}

impl Node {
    pub(crate) fn new(
        id: NodeId,
        config: NodeConfig,
        grants: Grants,
        outside: &mut Outside,
    ) -> Self {
        let volumes = volumes::volumes(id, config.block_size);
        let owner = grants.admits_nodes.then(|| id.next(outside.machines.len()));
        let far = owner.map(|owner| Far::new(owner, config.block_size));
        let nodes = outside.machines.len();
        let mirrored = config.mirrored.map(|away| Mirrored::new(id, (nodes, away), &config));
        let reservations =
            volumes.iter().map(|volume| (volume.id, Reservations::default())).collect();
        let mut node = Self {
            id,
            config,
            cores: Vec::new(),
            health: Arc::new([]),
            volumes,
            far,
            mirrored,
            reservations,
            changes: 0,
            boot: 0,
            starts: 0,
            grants,
            served: Arc::default(),
            publisher: Publisher::new(0, SILENT_AFTER),
            confirmed: Confirmed::default(),
        };
        node.start(outside);
        node
    }

    /// The properties of each of its devices.
    pub(crate) fn device(config: &NodeConfig) -> DeviceProperties {
        DeviceProperties {
            len: DISK_LEN,
            block_size: config.device_block_size(),
            volatile_cache: config.volatile_cache,
            reads_as_zeroes: false,
            deallocates: true,
        }
    }

    /// The node starts, or starts again after it lost its power.
    pub(crate) fn start(&mut self, outside: &mut Outside) {
        let count = self.config.cores;
        let machine = outside.machine_mut(self.id);
        machine.starts += 1;
        let machine_starts = u64::from(machine.starts);
        machine.is_draining = false;
        machine.inboxes = (0..count).map(|_| VecDeque::new()).collect();
        machine.settled_at = vec![(Nanos(0), Nanos(0)); usize::from(count)];
        if let Some(mirrored) = &self.mirrored {
            machine.copies = mirrored.copies();
            machine.originals = mirrored.originals();
        }
        let devices = self.devices().len();
        self.health = (0..devices).map(|_| Arc::default()).collect();
        self.starts = machine_starts;
        self.boot = if self.far.is_some() { machine_starts } else { 0 };
        self.served = Arc::new(self.everything());
        self.publisher = Publisher::new(count, SILENT_AFTER);
        self.cores = (0..count).map(|core| self.core(CoreId(core))).collect();
        outside.network.listen(self.id);
        self.cores.iter_mut().for_each(|core| core.begin(outside));
        self.give_leases(outside);
    }

    /// The devices that are suspect.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = usize> {
        let own = usize::try_from(DISKS).expect("few devices");
        (0..own).filter(|disk| self.health[*disk].is_suspect())
    }

    /// An operator clears a device.
    pub(crate) fn clear(&self, disk: usize) {
        assert!(self.health[disk].clear(), "device {disk} was suspect");
    }

    fn core(&self, id: CoreId) -> Core {
        let mut pool = Pool::new(self.config.pool_len);
        let target = (id == CoreId::FIRST).then(|| self.target());
        let (session, stall_timeout) = (self.config.session, self.config.stall_timeout);
        let direct = DirectConfig {
            session: direct::SessionConfig {
                credits: self.config.credits,
                unit: self.config.device_block_size(),
                handshake_timeout: self.config.session.handshake_timeout,
                boot: self.boot,
                ..DirectConfig::default().session
            },
            salt: u128::from(self.starts).to_le_bytes(),
        };
        let IscsiConfig { session: limits, .. } = IscsiConfig::default();
        let iscsi = IscsiConfig {
            session: iscsi::SessionConfig {
                ping_interval: stall_timeout,
                ping_timeout: stall_timeout,
                ..limits
            },
            ..IscsiConfig::default()
        };
        let config = ShardConfig {
            core: id,
            core_count: self.config.cores,
            device_depth: self.config.device_depth,
            served: Arc::clone(&self.served),
            session,
            target,
            direct,
            iscsi,
            mirrors: self.mirrors(),
            stall_timeout,
            gauges: Arc::default(),
        };
        let shard = Shard::new(config, &mut pool);
        Core::new((self.id, id), shard, pool)
    }

    /// Its volumes.
    pub(crate) fn volumes(&self) -> &[SimVolume] {
        &self.volumes
    }

    /// The number of blocks of a volume.
    pub(crate) fn blocks(&self, volume: u32) -> u64 {
        self.volumes.iter().find(|known| known.id == volume).map_or(0, |known| known.blocks.0)
    }

    /// Where a block lies, or would if its volume were longer.
    pub(crate) fn locate(&self, volume: u32, lba: Lba) -> Option<Piece> {
        let volume = self.volumes.iter().find(|known| known.id == volume)?;
        let map = volume.whole_map(self.config.block_size);
        map.locate(BlockRange { start: lba, count: Blocks(1) })?.next()
    }

    /// The volume and the offset in it of a place on a device.
    pub(crate) fn place_of(&self, disk: usize, offset: ByteOffset) -> Option<(u32, ByteOffset)> {
        let place = |volume: &SimVolume| Some((volume.id, volume.place_of(disk, offset)?));
        let copy = || self.mirrored.as_ref()?.copy_at(disk, offset);
        self.volumes.iter().find_map(place).or_else(copy)
    }

    /// The places of the bytes of all volumes on the devices.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.volumes.iter().flat_map(SimVolume::parts).collect()
    }

    /// The range of a volume on a device.
    pub(crate) fn bytes_of(&self, volume: u32, disk: usize) -> Option<(u64, u64)> {
        self.volumes.iter().find(|known| known.id == volume)?.bytes_on(disk)
    }

    /// Whether a place on a device belongs to a volume.
    pub(crate) fn is_of(&self, volume: u32, disk: usize, offset: ByteOffset) -> bool {
        self.place_of(disk, offset).is_some_and(|(of, _)| of == volume)
    }

    /// Changes the length of a volume, which sessions are told. Returns the number that cores confirm.
    pub(crate) fn resize(&mut self, volume: u32, blocks: Blocks, outside: &mut Outside) -> u64 {
        for known in self.volumes.iter_mut().filter(|known| known.id == volume) {
            known.blocks = blocks;
            known.epoch.0 += 1;
        }
        let served = Served {
            volumes: self.table(),
            namespaces: self.namespaces().into(),
            direct: self.direct_exports(),
            iscsi: self.iscsi_exports(),
            ..(*self.served).clone()
        };
        let (volume, to) = (Some(VolumeId(self.id.first_id())), Addressees::All);
        let raised = Raised { volume, to, attention: Attention::CapacityChanged };
        self.publish(served, (vec![raised], Vec::new()), outside)
    }

    /// Publishes a change that a session has asked for. Returns the number that cores confirm.
    pub(crate) fn publish_change(&mut self, steps: Steps, outside: &mut Outside) -> u64 {
        let Steps { restricts, raised, mut quiesce, .. } = steps;
        let primary = |volume| self.mirrored.iter().flat_map(move |it| it.primary_faces(volume));
        let faces: Vec<VolumeId> = quiesce.iter().flat_map(|volume| primary(*volume)).collect();
        quiesce.extend(faces);
        let mut served = (*self.served).clone();
        if restricts {
            served.volumes = self.table();
        }
        self.publish(served, (raised, quiesce), outside)
    }

    /// Everything that it serves.
    fn everything(&self) -> Served {
        let devices = Devices {
            properties: self.devices().into(),
            health: Arc::clone(&self.health),
            kinds: self.kinds(),
            peers: self.peers(),
        };
        Served {
            devices: Arc::new(devices),
            volumes: self.table(),
            namespaces: self.namespaces().into(),
            direct: self.direct_exports(),
            iscsi: self.iscsi_exports(),
            ..Served::default()
        }
    }

    fn publish(
        &mut self,
        served: Served,
        (raised, quiesce): (Vec<Raised>, Vec<VolumeId>),
        outside: &mut Outside,
    ) -> u64 {
        self.served = Arc::new(served);
        let number = self.publisher.publish(Arc::clone(&self.served), raised, quiesce);
        self.send_publications(outside);
        number
    }

    fn send_publications(&mut self, outside: &mut Outside) {
        for core in &self.cores {
            if let Some(publication) = self.publisher.poll(Number(core.id.0), outside.now) {
                outside.post(self.id, None, core.id, Message::Serve(publication));
            }
        }
    }

    /// A core serves by a publication.
    pub(crate) fn handle_shown(&mut self, core: CoreId, number: u64, outside: &mut Outside) {
        self.publisher.handle_shown(Number(core.0), number, outside.now);
        self.send_publications(outside);
    }

    /// The requests of a core have ended that are older than a publication.
    pub(crate) fn handle_quiesced(&mut self, core: CoreId, number: u64) {
        self.publisher.handle_quiesced(Number(core.0), number);
        while self.publisher.poll_over().is_some() {}
    }

    /// The reservations of a volume, as the node would report them.
    pub(crate) fn report(&self, volume: u32) -> Report {
        self.reservations[&volume].report()
    }

    /// The accesses to a volume that cores must refuse.
    fn restriction(&self, volume: u32) -> Option<Restriction> {
        self.reservations.get(&volume)?.restriction()
    }

    /// The power goes: unrecorded changes are gone. Returns the volumes concerned.
    pub(crate) fn forget_changes(&mut self) -> Vec<u32> {
        for reservations in self.reservations.values_mut() {
            let recorded = reservations.persistent().map(Reservations::restore);
            *reservations = recorded.transpose().expect("as it was recorded").unwrap_or_default();
        }
        self.reservations.keys().copied().collect()
    }

    /// Tells every core the grants of direct clients. Returns the number that cores confirm.
    pub(crate) fn export_direct(&mut self, outside: &mut Outside) -> u64 {
        let served = Served { direct: self.direct_exports(), ..(*self.served).clone() };
        self.publish(served, (Vec::new(), Vec::new()), outside)
    }

    /// Sends every core a message.
    pub(crate) fn tell_all(&self, outside: &mut Outside, message: impl Fn() -> Message) {
        for core in &self.cores {
            outside.post(self.id, None, core.id, message());
        }
    }

    /// A core takes a turn.
    pub(crate) fn turn(&mut self, core: CoreId, ticket: u64, outside: &mut Outside) {
        self.cores[usize::from(core.0)].turn_if_due(ticket, outside);
    }

    /// Cores with new events take a turn.
    pub(crate) fn wake(&mut self, outside: &mut Outside) {
        for id in std::mem::take(&mut outside.machine_mut(self.id).woken) {
            let core = &mut self.cores[usize::from(id.0)];
            if !core.is_awake() {
                core.begin(outside);
            }
        }
    }

    /// The pool of a core.
    pub(crate) fn pool(&mut self, core: CoreId) -> &mut Pool {
        &mut self.cores[usize::from(core.0)].pool
    }

    /// Free bytes of each core's pool.
    pub(crate) fn pools_free(&self) -> impl Iterator<Item = ByteLen> {
        self.cores.iter().map(|core| core.pool.free_len())
    }

    /// Whether every buffer is free again, except each engine's reserves.
    pub(crate) fn pools_are_whole(&self) -> bool {
        self.cores.iter().all(Core::pool_is_whole)
    }

    /// Whether every core serves by the publication with that number.
    pub(crate) fn has_shown(&self, number: u64) -> bool {
        self.publisher.is_shown(number)
    }

    /// Whether the requests older than the publication with that number have ended on every core.
    pub(crate) fn has_quiesced(&self, number: u64) -> bool {
        self.publisher.is_quiesced(number)
    }

    /// Whether every core has done what the message about mirrors with that number asks.
    pub(crate) fn has_followed(&self, number: u64) -> bool {
        self.confirmed.followed(number) == self.cores.len()
    }

    /// Whether every core has drained.
    pub(crate) fn has_drained(&self) -> bool {
        self.confirmed.drained().len() == self.cores.len()
    }
}

impl Volumes for Node {
    fn of_target(&self, volume: VolumeId) -> Vec<VolumeId> {
        let meant = self.volumes.iter().find(|it| it.id == volume.0);
        let same =
            self.volumes.iter().filter(|it| Some(&it.subsystem) == meant.map(|it| &it.subsystem));
        same.map(|it| VolumeId(it.id)).collect()
    }

    fn held_by(&self, nexus: Nexus) -> Vec<VolumeId> {
        let held = self.reservations.iter().filter(|(_, it)| it.legacy_holder() == Some(nexus));
        held.map(|(volume, _)| VolumeId(*volume)).collect()
    }

    fn reservations(&self, volume: VolumeId) -> Option<&Reservations> {
        self.reservations.get(&volume.0)
    }

    fn apply(&mut self, change: &Change) -> Changed {
        let reservations = self.reservations.get_mut(&change.volume.0);
        reservations.expect("a session knows volumes that there are").apply(change)
    }
}
