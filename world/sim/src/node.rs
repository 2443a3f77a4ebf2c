//! The node: one or several cores, each a shard with its pool, taking turns one after another.
//!
//! A core behaves as the reactor does: it turns while there is work, goes on turning for a while
//! when there is none, then sleeps until something comes or the shard's deadline.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_direct::target as direct;
use nearflash_engine::{CoreId, DeviceProperties, EngineConfig, Pool};
use nearflash_iscsi::target as iscsi;
use nearflash_nvme::target::{
    Deallocation, HostAccess, Limits, NamespaceConfig, Port, Target, TargetConfig,
};
use nearflash_nvme::{NamespaceId, Nqn, TransportAddress};
use nearflash_nvme_tcp::target::SessionConfig;
use nearflash_request::{
    Addressees, Attention, BlockRange, Change, ChangeKind, ChangeResult, Raised, Report,
    ResetScope, VolumeId,
};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_shard::{DirectConfig, IscsiConfig, Message, Shard, ShardConfig};
use nearflash_space::{
    DeviceId, Epoch, Extent, GRANULE, Map, Piece, Reservations, Restriction, VolumeEntry,
    VolumeTable,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, MIB, Nanos};
use uuid::Uuid;

use crate::client::grants::Grants;
use crate::outside::{Happening, Outside};
use crate::world::SimWorld;

/// What a node is made with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// How many cores it has.
    pub cores: u16,
    /// Each core's pool.
    pub pool_len: ByteLen,
    /// Of its volumes.
    pub block_size: BlockSize,
    /// Its devices have a volatile write cache.
    pub volatile_cache: bool,
    /// The limits of sessions.
    pub session: SessionConfig,
    /// Direct clients need keys. Otherwise whoever comes may do everything.
    pub keys: bool,
    /// Requests that a direct client may have in flight.
    pub credits: u32,
    /// How long a host may neither take answers nor send the data it promised.
    pub stall_timeout: Nanos,
}

/// A volume of the simulated node.
#[derive(Clone, Debug)]
pub(crate) struct SimVolume {
    /// Its number.
    pub id: u32,
    /// The subsystem that exports it, if one does.
    pub subsystem: Option<Nqn>,
    /// As which namespace.
    pub namespace: NamespaceId,
    /// How many blocks it has now.
    pub blocks: Blocks,
    epoch: Epoch,
    extents: Vec<Extent>,
}

/// Devices of the node.
pub(crate) const DISKS: u32 = 2;
/// Their length.
pub(crate) const DISK_LEN: ByteLen = ByteLen(8 * MIB);

/// The volumes that hosts, initiators and direct clients all read and write.
pub(crate) const FIELD_IDS: [u32; 2] = [0, 1];
/// The volume that direct clients share. Others see it, too, fight over it, and leave its blocks
/// alone.
pub(crate) const SHARED_ID: u32 = 3;
/// The volume of which nobody checks anything.
pub(crate) const JUNK_ID: u32 = 2;

/// The name by which clients know a volume.
pub(crate) fn name_of(volume: u32) -> &'static str {
    match volume {
        SHARED_ID => "shared",
        JUNK_ID => "junk",
        0 => "first",
        1 => "second",
        _ => unreachable!("there are no other volumes"),
    }
}

/// The subsystem whose volumes are checked.
pub(crate) const CHECKED: &str = "nqn.2026-11.io.nearflash:data";
/// The same as an iSCSI target.
pub(crate) const TARGET: &str = "iqn.2026-11.io.nearflash:data";
/// The subsystem for hosts that send garbage.
pub(crate) const UNCHECKED: &str = "nqn.2026-11.io.nearflash:junk";

#[derive(Debug)]
struct Core {
    id: CoreId,
    shard: Shard,
    pool: Pool,
    awake: bool,
    worked_at: Nanos,
    /// The turn that it waits for.
    ticket: u64,
}

/// The node.
#[derive(Debug)]
pub(crate) struct Node {
    config: NodeConfig,
    cores: Vec<Core>,
    volumes: Vec<SimVolume>,
    reservations: BTreeMap<u32, Reservations>,
    changes: u64,
    pub(crate) grants: Grants,
}

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("a name")
}

fn extent(device: u32, granule: u64) -> Extent {
    let start = ByteOffset(granule * GRANULE.0);
    Extent { device: DeviceId(device), start, len: GRANULE }
}

/// Three volumes, each of several extents on both devices, so that ranges around the seams have
/// two pieces.
fn volumes(block_size: BlockSize) -> Vec<SimVolume> {
    let granules = |count: u64| block_size.blocks_in(ByteLen(count * GRANULE.0));
    let volume = |id, subsystem: Option<&str>, namespace, blocks, extents| SimVolume {
        id,
        subsystem: subsystem.map(nqn),
        namespace: NamespaceId(namespace),
        blocks,
        epoch: Epoch(1),
        extents,
    };
    let a = vec![extent(0, 1), extent(1, 2), extent(0, 4)];
    let b = vec![extent(1, 1), extent(0, 2)];
    vec![
        volume(0, Some(CHECKED), 1, Blocks(granules(2).0 + 24), a),
        volume(1, Some(CHECKED), 2, granules(2), b),
        volume(2, Some(UNCHECKED), 1, granules(1), vec![extent(0, 5)]),
        volume(3, Some(CHECKED), 3, granules(2), vec![extent(1, 3), extent(0, 6)]),
    ]
}

impl SimVolume {
    fn map(&self, block_size: BlockSize) -> Map {
        Map::new(self.epoch, block_size, self.blocks, &self.extents).expect("extents suffice")
    }
}

impl Node {
    pub(crate) fn new(config: NodeConfig, grants: Grants, outside: &mut Outside) -> Self {
        let volumes = volumes(config.block_size);
        let reservations =
            volumes.iter().map(|volume| (volume.id, Reservations::default())).collect();
        let mut node =
            Self { config, cores: Vec::new(), volumes, reservations, changes: 0, grants };
        node.start(outside);
        node
    }

    /// The properties of each of its devices.
    pub(crate) fn device(config: &NodeConfig) -> DeviceProperties {
        DeviceProperties {
            len: DISK_LEN,
            block_size: config.block_size,
            volatile_cache: config.volatile_cache,
            reads_as_zeroes: false,
            deallocates: true,
        }
    }

    /// The node starts, or starts again after it lost its power.
    pub(crate) fn start(&mut self, outside: &mut Outside) {
        let count = self.config.cores;
        outside.starts += 1;
        outside.is_draining = false;
        outside.inboxes = (0..count).map(|_| VecDeque::new()).collect();
        self.cores = (0..count).map(|core| self.core(CoreId(core))).collect();
        outside.network.listen();
        for core in &mut self.cores {
            core.worked_at = outside.now;
            core.schedule(outside.now, outside);
        }
        self.export(outside);
    }

    fn core(&self, id: CoreId) -> Core {
        let mut pool = Pool::new(self.config.pool_len);
        let engine = EngineConfig {
            core: id,
            core_count: self.config.cores,
            devices: (0..DISKS).map(|_| Self::device(&self.config)).collect(),
            volumes: self.table(),
        };
        let target = (id == CoreId::FIRST).then(|| self.target());
        let (session, stall_timeout) = (self.config.session, self.config.stall_timeout);
        let direct = DirectConfig {
            session: direct::SessionConfig {
                credits: self.config.credits,
                handshake_timeout: self.config.session.handshake_timeout,
                ..DirectConfig::default().session
            },
            exports: self.direct_exports(),
        };
        let iscsi = IscsiConfig { exports: self.iscsi_exports(), ..IscsiConfig::default() };
        let config = ShardConfig { engine, session, target, direct, iscsi, stall_timeout };
        let shard = Shard::new(config, &mut pool);
        Core { id, shard, pool, awake: true, worked_at: Nanos(0), ticket: 0 }
    }

    fn target(&self) -> Target {
        let limits = Limits {
            in_capsule_len_max: self.config.session.in_capsule_len_max,
            ..Limits::default()
        };
        let listen = std::net::SocketAddr::from(([192, 0, 2, 1], 4420));
        Target::new(TargetConfig {
            serial_seed: 1,
            model: "simulated".to_owned(),
            firmware: "1".to_owned(),
            hosts: HostAccess::Any,
            ports: vec![Port {
                id: 1,
                listen: TransportAddress::tcp(listen),
                advertise: Vec::new(),
            }],
            limits,
        })
    }

    fn table(&self) -> Arc<VolumeTable> {
        let block_size = self.config.block_size;
        let entry = |volume: &SimVolume| {
            let restriction = self.restriction(volume.id).map(Arc::new);
            let map = VolumeEntry::from(volume.map(block_size));
            (VolumeId(volume.id), VolumeEntry { restriction, ..map })
        };
        Arc::new(VolumeTable::new(self.volumes.iter().map(entry)))
    }

    fn namespaces(&self) -> Vec<NamespaceConfig> {
        let config = |volume: &SimVolume| {
            Some(NamespaceConfig {
                subsystem: volume.subsystem.clone()?,
                namespace: volume.namespace,
                volume: VolumeId(volume.id),
                uuid: Uuid::from_u128(u128::from(volume.id) + 1),
                block_size: self.config.block_size,
                blocks: volume.blocks,
                volatile_cache: self.config.volatile_cache,
                deallocation: Deallocation::Unspecified,
                write_protected: false,
            })
        };
        self.volumes.iter().filter_map(config).collect()
    }

    /// Its volumes.
    pub(crate) fn volumes(&self) -> &[SimVolume] {
        &self.volumes
    }

    /// Where a block lies.
    pub(crate) fn locate(&self, volume: u32, lba: Lba) -> Option<Piece> {
        let volume = self.volumes.iter().find(|known| known.id == volume)?;
        let map = volume.map(self.config.block_size);
        map.locate(BlockRange { start: lba, count: Blocks(1) })?.next()
    }

    /// Whether a place on a device is a volume's.
    pub(crate) fn is_of(&self, volume: u32, disk: usize, offset: ByteOffset) -> bool {
        let is_in = |extent: &Extent| {
            let end = extent.start.0 + extent.len.0;
            usize::try_from(extent.device.0) == Ok(disk)
                && (extent.start.0..end).contains(&offset.0)
        };
        let known = self.volumes.iter().find(|known| known.id == volume);
        known.is_some_and(|known| known.extents.iter().any(is_in))
    }

    /// Gives a volume another length; first every core has to know. Returns the number with which
    /// cores confirm.
    pub(crate) fn resize(&mut self, volume: u32, blocks: Blocks, outside: &mut Outside) -> u64 {
        self.changes += 1;
        for known in self.volumes.iter_mut().filter(|known| known.id == volume) {
            known.blocks = blocks;
            known.epoch.0 += 1;
        }
        self.publish(outside)
    }

    /// Gives every core the volumes as they are. Returns the number with which cores confirm.
    pub(crate) fn tell_volumes(&mut self, outside: &mut Outside) -> u64 {
        self.changes += 1;
        self.publish(outside)
    }

    fn publish(&self, outside: &mut Outside) -> u64 {
        let (number, table) = (self.changes, self.table());
        self.tell_all(outside, || Message::Volumes(number, Arc::clone(&table)));
        number
    }

    /// Makes a change that a session asks for, as the control side does: decided at once, and recorded
    /// if it is to last.
    pub(crate) fn apply(&mut self, change: &Change) -> (ChangeResult, Vec<Raised>) {
        let of_target = |volume: &SimVolume| {
            volume.subsystem.as_ref().is_some_and(|name| name.as_str() == CHECKED)
        };
        let volumes = match change.kind {
            ChangeKind::Reset(ResetScope::Target | ResetScope::TargetAndSessions) => {
                let volumes = self.volumes.iter().filter(|volume| of_target(volume));
                volumes.map(|volume| VolumeId(volume.id)).collect()
            }
            _ => vec![change.volume],
        };
        let (mut result, mut all_raised) = (ChangeResult::Done, Vec::new());
        for volume in volumes {
            let reservations = self.reservations.get_mut(&volume.0);
            let reservations = reservations.expect("a session knows volumes that there are");
            let (ends, raised) = reservations.apply(&Change { volume, ..change.clone() });
            result = ends;
            all_raised.extend(raised);
        }
        (result, all_raised)
    }

    /// What it would report of a volume's reservations.
    pub(crate) fn report(&self, volume: u32) -> Report {
        self.reservations[&volume].report()
    }

    /// What cores have to refuse of a volume.
    fn restriction(&self, volume: u32) -> Option<Restriction> {
        self.reservations.get(&volume)?.restriction()
    }

    /// Sessions are told what others changed.
    pub(crate) fn raise(&mut self, raised: &Arc<[Raised]>, outside: &mut Outside) {
        self.changes += 1;
        let number = self.changes;
        self.tell_all(outside, || Message::Raise(number, Arc::clone(raised)));
    }

    /// Initiators are told that the first volume has another size.
    pub(crate) fn tell_of_capacity(&mut self, outside: &mut Outside) {
        let (volume, to) = (Some(VolumeId(0)), Addressees::All);
        let raised = Raised { volume, to, attention: Attention::CapacityChanged };
        self.raise(&[raised].into(), outside);
    }

    /// The power goes: what was not recorded is gone. Which volumes that may concern.
    pub(crate) fn forget_changes(&mut self) -> Vec<u32> {
        for reservations in self.reservations.values_mut() {
            let recorded = reservations.persistent().map(Reservations::restore);
            *reservations = recorded.transpose().expect("as it was recorded").unwrap_or_default();
        }
        self.reservations.keys().copied().collect()
    }

    /// What direct clients may reach.
    fn direct_exports(&self) -> Arc<direct::Exports> {
        let block_size = self.config.block_size;
        let export = |volume: &SimVolume| {
            let grown = u32::try_from(volume.epoch.0).expect("few changes");
            let export = direct::Export {
                volume: VolumeId(volume.id),
                bytes: block_size.len(volume.blocks).expect("a small volume").0,
                block_size,
                epoch: if volume.id == SHARED_ID { self.grants.epoch } else { grown },
                uuid: Uuid::from_u128(u128::from(volume.id) + 1).into_bytes(),
            };
            (name_of(volume.id).into(), export)
        };
        let volumes = self.volumes.iter().map(export);
        let keys = if self.config.keys { self.grants.credentials() } else { Vec::new() };
        Arc::new(direct::Exports::new(volumes, keys))
    }

    /// What initiators may reach: the volumes that are checked.
    fn iscsi_exports(&self) -> Arc<iscsi::Exports> {
        let checked = |volume: &&SimVolume| {
            volume.subsystem.as_ref().is_some_and(|name| name.as_str() == CHECKED)
        };
        let unit = |volume: &SimVolume| {
            let modes = self.reservations[&volume.id].modes();
            LogicalUnit {
                lun: u16::try_from(volume.namespace.0 - 1).expect("few namespaces"),
                volume: VolumeId(volume.id),
                uuid: Uuid::from_u128(u128::from(volume.id) + 1).into_bytes(),
                name: format!("volume-{}", volume.id),
                block_size: self.config.block_size,
                blocks: volume.blocks,
                volatile_cache: self.config.volatile_cache,
                provisioning: nearflash_scsi::Provisioning::Thin,
                write_protected: false,
                software_write_protected: modes.write_protected,
                descriptor_sense: modes.descriptor_sense,
                epoch: volume.epoch.0,
            }
        };
        let units = self.volumes.iter().filter(checked).map(unit);
        let units = Arc::new(LogicalUnits::new(TARGET, iscsi::PORTAL_GROUP, units));
        let target = iscsi::TargetExport { alias: None, units };
        let portal = ([192, 0, 2, 1], 3260).into();
        Arc::new(iscsi::Exports::new([(TARGET.into(), target)], [portal]))
    }

    /// Tells every core what direct clients may reach. Returns the number with which cores confirm.
    pub(crate) fn export_direct(&mut self, outside: &mut Outside) -> u64 {
        self.changes += 1;
        let (number, exports) = (self.changes, self.direct_exports());
        self.tell_all(outside, || Message::Direct(number, Arc::clone(&exports)));
        number
    }

    /// Tells the first core what hosts see.
    pub(crate) fn export(&self, outside: &mut Outside) {
        let message = Message::Exports(self.changes, self.namespaces());
        outside.post(None, CoreId::FIRST, message);
        let (number, exports) = (self.changes, self.iscsi_exports());
        self.tell_all(outside, || Message::Iscsi(number, Arc::clone(&exports)));
    }

    /// Sends every core a message.
    pub(crate) fn tell_all(&self, outside: &mut Outside, message: impl Fn() -> Message) {
        for core in &self.cores {
            outside.post(None, core.id, message());
        }
    }

    /// A core takes its turn.
    pub(crate) fn turn(&mut self, core: CoreId, ticket: u64, outside: &mut Outside) {
        let core = &mut self.cores[usize::from(core.0)];
        if core.ticket == ticket {
            core.turn(outside);
        }
    }

    /// Cores that have something new look at it.
    pub(crate) fn wake(&mut self, outside: &mut Outside) {
        for id in std::mem::take(&mut outside.woken) {
            let core = &mut self.cores[usize::from(id.0)];
            if !core.awake {
                core.awake = true;
                core.worked_at = outside.now;
                core.schedule(outside.now, outside);
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

    /// Whether every buffer is back, but for each engine's reserve.
    pub(crate) fn pools_are_whole(&self) -> bool {
        let whole = |core: &Core| {
            core.pool.free_len().0 + Pool::LEN_MAX.0 == core.pool.len().0
                && core.pool.foreign_count() == 0
        };
        self.cores.iter().all(whole)
    }

    /// How many cores it has.
    pub(crate) fn core_count(&self) -> usize {
        self.cores.len()
    }
}

impl Core {
    fn schedule(&mut self, at: Nanos, outside: &mut Outside) {
        self.ticket += 1;
        let faults = outside.cores;
        let mut at = at.plus(outside.dice.span(faults.turn));
        if outside.dice.permille(faults.pause_permille) {
            at = at.plus(Nanos(outside.dice.between(0, faults.pause.0)));
        }
        outside.agenda.push(at, Happening::Turn(self.id, self.ticket));
    }

    fn turn(&mut self, outside: &mut Outside) {
        self.awake = true;
        let (core, now, spin) = (self.id, outside.now, outside.cores.spin);
        outside.turns += 1;
        let mut world = SimWorld { core, now, pool: &mut self.pool, outside };
        let moved = self.shard.turn(&mut world);
        if moved > 0 {
            self.worked_at = now;
            let (core, moved) = (u64::from(core.0), ByteLen::from_usize(moved).0);
            outside.note("turn", &[core, moved, self.pool.free_len().0]);
        } else if now.since(self.worked_at) >= spin {
            self.shard.prepare_to_sleep(&mut world);
            let has_work = outside.rings.has_work(core);
            if outside.inboxes[usize::from(core.0)].is_empty() && !has_work {
                return self.sleep(outside);
            }
        }
        self.schedule(now, outside);
    }

    fn sleep(&mut self, outside: &mut Outside) {
        self.awake = false;
        self.ticket += 1;
        if let Some(at) = self.shard.poll_timeout() {
            let at = at.max(outside.now.plus(Nanos::from_micros(1)));
            outside.agenda.push(at, Happening::Turn(self.id, self.ticket));
        }
    }
}
