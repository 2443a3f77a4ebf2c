//! Several connections to a shard: most are hostile, and one is a witness, which writes and reads
//! throughout and must not notice the others. They are hosts over NVMe/TCP, initiators over iSCSI
//! and clients over the direct protocol.

use std::sync::Arc;

use nearflash_device::DeviceResult;
use nearflash_direct::check as direct;
use nearflash_direct::serving::{Export, Exports};
use nearflash_engine::CoreId;
use nearflash_iscsi::check as iscsi;
use nearflash_iscsi::serving::{Exports as IscsiExports, PORTAL_GROUP};
use nearflash_mirror::DeviceKind;
use nearflash_nvme::serving::{
    Deallocation, HostAccess, Life, Limits, NamespaceConfig, Port, Target, TargetConfig,
};
use nearflash_nvme::tls::DoorTls;
use nearflash_nvme::{Command, ControllerId, NamespaceId, Nqn, QueueId, TransportAddress};
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::check::stream_of;
use nearflash_nvme_tcp::host::{
    CommandData, HostCompletion, HostConfig, HostSession, RequestingEnd,
};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_nvme_tcp::{Chunk, Receiving};
use nearflash_publish::{Devices, Served};
use nearflash_request::{BufferId, Support, VolumeId};
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_shard::{
    DirectConfig, Door, Event, IscsiConfig, Message, Shard, ShardConfig, SocketId,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};
use uuid::Uuid;

use crate::control::VOLUME_BLOCKS;
use crate::world::{Outside, SLOW_DEVICE};

/// The pool is small, so that connections compete for it.
const POOL_LEN: ByteLen = ByteLen(4 << 20);
const SOCKETS_MAX: usize = 12;
const INSTRUCTION_LEN: usize = 10;
/// The subsystem of the witness, whose NQN no hostile host learns: only the discovery log has it,
/// which no host reads here.
const WITNESS: &str = "nqn.2026-11.io.nearflash:witness-5f0c6e1b9d";
const HOSTILE: &str = "nqn.2026-11.io.nearflash:hostile";
const NSID: NamespaceId = NamespaceId(1);
const WITNESS_LEN: u32 = 8192;
/// A span longer than every time-out of a session or a shard.
const LONG: Nanos = Nanos::from_secs(120);

/// For any input of hosts, any timing of their reads and connections, and any results of a device:
/// the shard does not panic, the witness's reads return the data that it wrote, and all resources
/// are released.
pub fn check_shard(input: &[u8]) {
    let mut bench = Bench::new();
    bench.admit_witness();
    for instruction in input.chunks_exact(INSTRUCTION_LEN).take(256) {
        bench.follow(instruction);
        bench.turn();
    }
    bench.end();
}

/// The connection of a hostile host.
#[derive(Debug)]
struct Hostile {
    socket: SocketId,
    digests: Digests,
    door: Spoken,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Spoken {
    NvmeTcp,
    Direct,
    Iscsi,
}

impl Hostile {
    /// A stream of almost valid messages of its protocol.
    fn stream_of(&self, instructions: &[u8], commands: u32) -> Vec<u8> {
        let Digests { header, data } = self.digests;
        match self.door {
            Spoken::Direct => {
                direct::stream_of(u8::from(header) | u8::from(data) << 1, instructions)
            }
            Spoken::Iscsi => iscsi::stream_after(setup(self.digests), commands, instructions),
            // The stage of an I/O queue, whose stream fits the other stages, too.
            Spoken::NvmeTcp => {
                stream_of(4 | u8::from(header) << 3 | u8::from(data) << 4, instructions)
            }
        }
    }
}

/// A session with several connections and unsolicited data.
fn setup(digests: Digests) -> iscsi::Setup {
    let keys = "MaxConnections=4&InitialR2T=No&FirstBurstLength=4096&MaxBurstLength=8192&";
    iscsi::Setup { header_digest: digests.header, data_digest: digests.data, keys }
}

struct Bench {
    outside: Outside,
    shard: Shard,
    free_before: ByteLen,
    hostiles: Vec<Hostile>,
    /// The number of commands of the initiators' session.
    commands: u32,
    /// The newest controller of the hostile hosts.
    controller: Option<ControllerId>,
    witness: Option<Witness>,
}

impl Bench {
    fn new() -> Self {
        let devices = Devices {
            properties: Outside::properties().into(),
            health: Arc::new([Arc::default(), Arc::default()]),
            kinds: [DeviceKind::Local; 2].into(),
            peers: Vec::new(),
        };
        let start = Served {
            devices: Arc::new(devices),
            namespaces: namespaces().into(),
            direct: Arc::new(exports()),
            iscsi: Arc::new(units()),
            ..Served::default()
        };
        let mut outside = Outside::new(POOL_LEN, start);
        let config = ShardConfig {
            core: CoreId::FIRST,
            core_count: 1,
            device_depth: 4,
            served: outside.control.served(),
            session: SessionConfig { h2c_data_len_max: 8192, ..SessionConfig::default() },
            target: Some(target()),
            direct: DirectConfig::default(),
            iscsi: IscsiConfig { window: 8, ..IscsiConfig::default() },
            mirrors: Arc::default(),
            stall_timeout: Nanos::from_secs(30),
            gauges: Arc::default(),
        };
        let shard = Shard::new(config, &mut outside.pool);
        let free_before = outside.pool.free_len();
        let (hostiles, controller, witness) = (Vec::new(), None, None);
        Self { outside, shard, free_before, hostiles, commands: 0, controller, witness }
    }

    fn turn(&mut self) {
        self.shard.turn(&mut self.outside);
        if let Some(witness) = &mut self.witness {
            witness.queue.exchange(&mut self.outside);
            witness.act();
        }
    }

    fn follow(&mut self, instruction: &[u8]) {
        let [what, which, rest @ ..] = instruction else { return };
        let [a, b, ..] = rest else { return };
        match what % 16 {
            0 => self.open(Digests::NONE),
            1 => self.open_admin(*a, *b),
            2 => self.open_io(*a, *b),
            3..=7 => self.send_almost_sound(*which, rest),
            8 => self.send(*which, |_| rest.to_vec()),
            9 => (0..*a).for_each(|_| self.turn()),
            10 => {
                if let Some(socket) = self.socket(*which) {
                    let room = if *a < 64 { usize::MAX } else { usize::from(*b) << (a % 12) };
                    self.outside.socket(socket).room = room;
                }
            }
            11 => {
                if let Some(socket) = self.socket(*which) {
                    self.outside.socket(socket).is_lost = true;
                }
            }
            12 => self.wait(Nanos::from_millis(u64::from(*a) << (b % 10))),
            13 => self.end_operation(usize::from(*a), *b),
            14 if a & 3 == 2 => self.open_iscsi(*b),
            14 if a & 1 == 1 => self.open_direct(*b),
            14 => self.shard.prepare_to_sleep(&mut self.outside),
            _ => (0..*a).for_each(|_| self.end_operation(usize::from(*b), 0)),
        }
    }

    /// Waits in steps shorter than the stall timeout, so that the witness does not stall.
    fn wait(&mut self, span: Nanos) {
        let until = self.outside.now.plus(span);
        while self.outside.now < until {
            self.outside.now = self.outside.now.plus(Nanos::from_secs(10)).min(until);
            for _ in 0..8 {
                self.turn();
            }
        }
    }

    fn end_operation(&mut self, choice: usize, result: u8) {
        let results = [
            DeviceResult::NoSpace,
            DeviceResult::MediumError,
            DeviceResult::Gone,
            DeviceResult::Unsupported,
            DeviceResult::WornOut,
        ];
        let failed = results.get(usize::from(result).wrapping_sub(250));
        self.outside.end_operation(choice, failed.copied().unwrap_or(DeviceResult::Done));
    }

    fn socket(&self, which: u8) -> Option<SocketId> {
        let index = usize::from(which).checked_rem(self.hostiles.len())?;
        Some(self.hostiles[index].socket)
    }

    fn send(&mut self, which: u8, bytes: impl Fn(&Hostile) -> Vec<u8>) {
        let Some(index) = usize::from(which).checked_rem(self.hostiles.len()) else { return };
        let hostile = &self.hostiles[index];
        let socket = self.outside.socket(hostile.socket);
        if !socket.is_closed {
            socket.input.extend(bytes(hostile));
        }
    }

    fn send_almost_sound(&mut self, which: u8, recipe: &[u8]) {
        let commands = self.commands;
        self.send(which, |hostile| hostile.stream_of(recipe, commands));
        let index = usize::from(which).checked_rem(self.hostiles.len());
        if index.is_some_and(|index| self.hostiles[index].door == Spoken::Iscsi) {
            let more = u32::try_from(iscsi::commands_in(recipe)).expect("a short recipe");
            self.commands = self.commands.wrapping_add(more);
        }
    }

    fn has_room(&self) -> bool {
        self.outside.sockets.len() < SOCKETS_MAX
    }

    /// Opens a connection that has sent nothing.
    fn open(&mut self, digests: Digests) {
        if self.has_room() {
            let socket = self.outside.open(Door::NvmeTcp { anonymous: true });
            self.hostiles.push(Hostile { socket, digests, door: Spoken::NvmeTcp });
        }
    }

    /// Opens an initiator's connection, in most cases logged in: to a new session, or as a further
    /// connection of the existing one.
    fn open_iscsi(&mut self, choice: u8) {
        if !self.has_room() {
            return;
        }
        let socket = self.outside.open(Door::Iscsi { anonymous: true });
        let digests = Digests { header: choice & 1 != 0, data: choice & 2 != 0 };
        let tsih = u16::from(choice >> 2 & 7);
        if choice < 240 {
            let login = iscsi::login_of(setup(digests), tsih, u16::from(choice >> 5));
            self.outside.socket(socket).input.extend(login);
            self.commands = if tsih == 0 { 0 } else { self.commands };
        }
        self.hostiles.push(Hostile { socket, digests, door: Spoken::Iscsi });
    }

    /// Opens a direct client's connection, in most cases authenticated and with its volume open.
    fn open_direct(&mut self, choice: u8) {
        if !self.has_room() {
            return;
        }
        let socket = self.outside.open(Door::Direct { anonymous: true, local: false });
        let digests = Digests { header: choice & 1 != 0, data: choice & 2 != 0 };
        if choice < 240 {
            self.outside.socket(socket).input.extend(direct::greeting_of(choice & 3));
        }
        self.hostiles.push(Hostile { socket, digests, door: Spoken::Direct });
    }

    fn open_admin(&mut self, choice: u8, keep_alive: u8) {
        let mut config = config(HOSTILE, choice);
        config.keep_alive_ms = u32::from(keep_alive) * 100;
        let Some(mut queue) = self.connect(config) else { return };
        self.controller = queue.host.controller();
        self.enable(&mut queue);
        self.turn_hostile(&queue);
    }

    fn open_io(&mut self, choice: u8, number: u8) {
        let Some(controller) = self.controller else { return };
        let queue = QueueId(1 + u16::from(number % 4));
        let config = HostConfig { controller, queue, ..config(HOSTILE, choice) };
        if let Some(queue) = self.connect(config) {
            self.turn_hostile(&queue);
        }
    }

    /// Lets the fuzzer control this host from now on.
    fn turn_hostile(&mut self, queue: &Queue) {
        let socket = self.outside.socket(queue.socket);
        socket.keeps_output = false;
        socket.output = Vec::new();
        let (socket, digests) = (queue.socket, queue.host.digests());
        self.hostiles.push(Hostile { socket, digests, door: Spoken::NvmeTcp });
    }

    /// Connects a queue according to the specification; `None` when it is refused.
    fn connect(&mut self, config: HostConfig) -> Option<Queue> {
        if !self.has_room() {
            return None;
        }
        let socket = self.outside.open(Door::NvmeTcp { anonymous: true });
        self.outside.socket(socket).keeps_output = true;
        let mut queue = Queue { socket, host: HostSession::new(config), memory: Vec::new() };
        for _ in 0..64 {
            queue.exchange(&mut self.outside);
            if queue.host.is_ready() {
                return Some(queue);
            }
            self.turn();
        }
        self.outside.socket(socket).is_lost = true;
        None
    }

    /// Enables the controller.
    fn enable(&mut self, queue: &mut Queue) {
        // CC.EN, with the entry sizes of the command set: NVMe Base 2.0, 3.1.3.5.
        let command = Command::property_set(0x14, 1 | 6 << 16 | 4 << 20);
        let _ = queue.host.submit(&command, CommandData::None, &[]);
        for _ in 0..16 {
            queue.exchange(&mut self.outside);
            self.turn();
        }
    }

    fn admit_witness(&mut self) {
        let mut admin = self.connect(config(WITNESS, 0)).expect("the witness is let in");
        let controller = admin.host.controller().expect("its Connect succeeded");
        self.enable(&mut admin);
        let config = HostConfig { controller, queue: QueueId(1), ..config(WITNESS, 1) };
        let queue = self.connect(config).expect("the witness's queue is let in");
        self.witness = Some(Witness::new(admin, queue));
    }

    fn end(mut self) {
        // The hostile connections stay open, silent and perhaps unread: time-outs must end them.
        self.turn_until("the witness is served", |bench| {
            bench.witness.as_ref().is_none_or(|witness| witness.rounds >= 2)
        });
        let sockets = self.outside.sockets.iter_mut();
        sockets.for_each(|socket| socket.is_lost = true);
        self.witness = None;
        self.turn_until("all connections are gone", |bench| {
            bench.outside.sockets.iter().all(|socket| socket.is_closed)
                && bench.outside.queued.is_empty()
        });
        self.outside.events.push(Event::Message(Message::ReportStatus(1)));
        self.turn();
        let status = self.outside.status.expect("the status was asked for");
        assert_eq!((status.connections, status.requests_in_flight), (0, 0));
        assert_eq!(status.hosts.len(), 0, "no controller outlives its connection");
        assert_eq!(self.outside.pool.free_len(), self.free_before, "every buffer is given back");
    }

    fn turn_until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let until = self.outside.now.plus(LONG);
        while !is_done(self) {
            assert!(self.outside.now < until, "in two minutes {what}");
            while !self.outside.queued.is_empty() {
                self.end_operation(0, 0);
            }
            self.wait(Nanos::from_millis(500));
        }
    }
}

/// The exports for direct clients: the hostile hosts' volume.
fn exports() -> Exports {
    let export = Export {
        volume: VolumeId(SLOW_DEVICE),
        bytes: VOLUME_BLOCKS << BlockSize::B512.shift(),
        block_size: BlockSize::B512,
        // The epoch in the fuzzer's messages.
        epoch: direct::EPOCH,
        uuid: [0; 16],
        is_remote: false,
        is_public: true,
        face: None,
    };
    Exports::new([(direct::NAME.into(), export)], [])
}

/// The exports for initiators: the same volume.
fn units() -> IscsiExports {
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId(SLOW_DEVICE),
        uuid: [0; 16],
        name: "hostile".to_owned(),
        block_size: BlockSize::B512,
        blocks: Blocks(VOLUME_BLOCKS),
        volatile_cache: true,
        provisioning: nearflash_scsi::Provisioning::Thin,
        support: Support::ALL,
        on_every_node: false,
        write_protected: false,
        software_write_protected: false,
        descriptor_sense: false,
        epoch: 1,
    };
    let units = Arc::new(LogicalUnits::new(iscsi::TARGET, PORTAL_GROUP, [unit]));
    let portal = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 3260));
    IscsiExports::new([(iscsi::TARGET.into(), units)], [portal])
}

/// A host's end of a queue, and its buffer.
struct Queue {
    socket: SocketId,
    host: HostSession,
    memory: Vec<u8>,
}

impl Queue {
    /// Sends all queued output, and takes all input.
    fn exchange(&mut self, outside: &mut Outside) {
        let socket = outside.socket(self.socket);
        while let Some(part) = self.host.wants_payload() {
            self.host.provide_payload(&self.memory[part.offset..][..part.len]);
        }
        for chunk in self.host.output() {
            match chunk {
                Chunk::Bytes(bytes) => socket.input.extend(bytes),
                Chunk::Buffer { offset, len, .. } => {
                    socket.input.extend(&self.memory[offset..][..len]);
                }
                Chunk::Zeroes(len) => socket.input.extend(std::iter::repeat_n(0, len)),
            }
        }
        self.host.advance_output(self.host.output_len());
        let output = std::mem::take(&mut socket.output);
        let mut bytes = &output[..];
        while !bytes.is_empty() {
            let taken = match self.host.receiving() {
                Receiving::Paused => return,
                Receiving::Bytes => {
                    self.host.handle_input(bytes).expect("the target keeps to the protocol")
                }
                Receiving::Payload { offset, len, .. } => {
                    let part = &bytes[..len.min(bytes.len())];
                    self.memory[offset..offset + part.len()].copy_from_slice(part);
                    self.host.handle_payload(part);
                    part.len()
                }
            };
            bytes = &bytes[taken..];
        }
    }
}

/// A host that repeatedly writes and reads back.
struct Witness {
    /// The connection whose end would end the controller.
    _admin: Queue,
    queue: Queue,
    rounds: u32,
    is_reading: bool,
}

impl Witness {
    fn new(admin: Queue, mut queue: Queue) -> Self {
        queue.memory = vec![0; usize::try_from(WITNESS_LEN).expect("small")];
        let mut witness = Self { _admin: admin, queue, rounds: 0, is_reading: false };
        witness.write();
        witness
    }

    fn lba(&self) -> Lba {
        Lba(u64::from(self.rounds) * 16 % VOLUME_BLOCKS)
    }

    fn pattern(&self) -> u8 {
        let [low, ..] = self.rounds.to_le_bytes();
        low | 1
    }

    fn write(&mut self) {
        let pattern = self.pattern();
        self.queue.memory.fill(pattern);
        let command = Command::write(NSID, self.lba(), 15, WITNESS_LEN);
        let data = CommandData::Outgoing { buffer: BufferId(0), len: WITNESS_LEN };
        let taken = self.queue.host.submit(&command, data, &self.queue.memory);
        taken.expect("nobody ends the witness's queue");
    }

    fn read(&mut self) {
        self.queue.memory.fill(0);
        let command = Command::read(NSID, self.lba(), 15, WITNESS_LEN);
        let data = CommandData::Incoming { buffer: BufferId(0), len: WITNESS_LEN };
        let taken = self.queue.host.submit(&command, data, &[]);
        taken.expect("nobody ends the witness's queue");
    }

    fn act(&mut self) {
        let Some(HostCompletion { entry, .. }) = self.queue.host.poll_completion() else { return };
        assert!(entry.status().is_success(), "the witness is answered {}", entry.status());
        if self.is_reading {
            let written = vec![self.pattern(); self.queue.memory.len()];
            assert!(self.queue.memory == written, "a read returns what was written");
            self.rounds += 1;
            self.write();
        } else {
            self.read();
        }
        self.is_reading = !self.is_reading;
    }
}

/// A host's configuration; `choice` selects the digests, the queue's length, and whether writes use
/// in-capsule data.
fn config(subsystem: &str, choice: u8) -> HostConfig {
    HostConfig {
        digests: Digests { header: choice & 1 != 0, data: choice & 2 != 0 },
        alignment: DataAlignment(if choice & 4 != 0 { 31 } else { 0 }),
        queue: QueueId(0),
        sq_entries: if choice & 8 != 0 { 128 } else { 32 },
        flow_control: choice & 16 != 0,
        in_capsule_len_max: if choice & 32 != 0 { 4096 } else { 0 },
        controller: ControllerId::DYNAMIC,
        keep_alive_ms: 0,
        host_id: Uuid::from_u128(1),
        host: name("nqn.2026-11.io.nearflash:host"),
        subsystem: name(subsystem),
    }
}

fn target() -> Target {
    let listen = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 4420));
    Target::new(TargetConfig {
        controller_ids: nearflash_nvme::serving::ALL_CONTROLLER_IDS,
        serial_seed: 1,
        model: "nearflash".to_owned(),
        firmware: "1".to_owned(),
        hosts: HostAccess::Any,
        ports: vec![Port {
            id: 1,
            listen: TransportAddress::tcp(listen),
            advertise: Vec::new(),
            tls: DoorTls::Off,
        }],
        limits: Limits::default(),
        life: Life::default(),
    })
}

fn namespaces() -> [NamespaceConfig; 2] {
    let namespace = |subsystem, volume: u32| NamespaceConfig {
        subsystem: name(subsystem),
        namespace: NSID,
        volume: VolumeId(volume),
        uuid: Uuid::from_u128(u128::from(volume) + 1),
        block_size: BlockSize::B512,
        blocks: Blocks(VOLUME_BLOCKS),
        device_block_size: BlockSize::B512,
        volatile_cache: true,
        deallocation: Deallocation::Unspecified,
        on_every_node: false,
        support: Support::ALL,
        write_protected: false,
    };
    [namespace(HOSTILE, SLOW_DEVICE), namespace(WITNESS, 1)]
}

fn name(text: &str) -> Nqn {
    Nqn::new(text).expect("a name is given")
}
