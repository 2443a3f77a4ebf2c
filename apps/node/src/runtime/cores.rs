//! Starts the cores, sends messages to them, and stops them.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, mem, thread};

use nearflash_device::{DeviceId, DeviceProperties};
use nearflash_direct::Status;
use nearflash_engine::{CoreId, DEVICE_DEPTH, EngineConfig};
use nearflash_media::{Device, Kind};
use nearflash_mirror::{DeviceKind, MirrorId, MirrorTable, Written};
use nearflash_nvme::hosts::HostTable;
use nearflash_nvme::serving::Target;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_reactor::{Epoch, Listener, Reactor, ReactorConfig, Sender, Tls};
use nearflash_request::{ChangeResult, Raised, VolumeId};
use nearflash_shard::{
    ClientPlace, Devices, DirectConfig, Gauges, HostExports, IscsiConfig, Message, PeerConfig,
    Reading, Shard, ShardConfig, World,
};
use nearflash_space::VolumeTable;
use nearflash_units::{ByteLen, Nanos, index};
use tracing::{error, warn};

use super::doors::{listener, tls_of};
use super::exports::{self, IscsiDoors};
use super::notices::notice_sink;
use super::post::Post;
use super::replies::{PATIENCE, Replies, Reply, STATUS_PATIENCE};
use super::trace;
use crate::end_of_panic::EndOfPanic;
use crate::runtime_face::{
    AskedBy, Asker, Authentication, Connected, CoreTrace, DirectAccess, IscsiAccess,
    OnAuthentication, OnFiles, OnMirrors, Published, Runtime, RuntimeConfig, RuntimeStatus,
    StartError, Then, TraceSpec,
};
use crate::{Ledger, Ticket};

/// The running cores.
pub struct Cores {
    /// The origin of the cores' time.
    epoch: Epoch,
    /// The figures of each core.
    gauges: Arc<[Arc<Gauges>]>,
    /// The processor of each core.
    processors: Vec<usize>,
    devices: Vec<Arc<Device>>,
    post: Post<Sender<Message>>,
    replies: Arc<Replies>,
    ledger: Arc<Ledger>,
    /// The way of initiators.
    iscsi_doors: IscsiDoors,
    /// TLS, if a door has it.
    tls: Option<Arc<Tls>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The part of a start that all cores share.
pub(super) struct Common {
    epoch: Epoch,
    gauges: Arc<[Arc<Gauges>]>,
    core_count: u16,
    pool_len: ByteLen,
    spin_max: Nanos,
    stall_timeout: Nanos,
    session: SessionConfig,
    pub(super) devices: Vec<Arc<Device>>,
    peers: Vec<PeerConfig>,
    volumes: Arc<VolumeTable>,
    direct: DirectConfig,
    iscsi: IscsiConfig,
    pub(super) replies: Arc<Replies>,
    pub(super) changes: Asker,
    pub(super) ledger: Arc<Ledger>,
    pub(super) on_mirrors: OnMirrors,
    pub(super) on_files: OnFiles,
    pub(super) on_authentication: OnAuthentication,
    /// TLS, if a door has it.
    tls: Option<Arc<Tls>>,
}

/// A core that serves, with its mailbox, or the reason why it does not.
type CameUp = Result<(CoreId, Sender<Message>), StartError>;

/// The part of a start that is particular to one core.
struct Start {
    core: CoreId,
    processor: usize,
    listeners: Vec<Listener>,
    target: Option<Target>,
    /// Reports that the core is up, with its mailbox, or the error.
    up: Channel<CameUp>,
    /// Receives the mailboxes of all cores.
    peers: Receiver<Vec<Sender<Message>>>,
}

/// Starts a core on each processor, and returns when every core serves.
///
/// # Errors
/// When a core cannot start; the other cores are stopped.
pub fn start(config: RuntimeConfig) -> Result<Cores, StartError> {
    let mut target = Some(exports::target(&config));
    let iscsi_doors = IscsiDoors::new(&config);
    let mut iscsi = exports::iscsi_config(&config.published.iscsi, &iscsi_doors);
    let mut direct = exports::direct_config(&config.published.direct, &config.devices, config.boot);
    let mut session = SessionConfig::default();
    if let Some(timeout) = config.login_timeout {
        iscsi.session.login_timeout = timeout;
        direct.session.handshake_timeout = timeout;
        session.handshake_timeout = timeout;
    }
    let common = Arc::new(Common {
        epoch: Epoch::now(),
        gauges: config.cores.iter().map(|_| Arc::default()).collect(),
        core_count: u16::try_from(config.cores.len()).unwrap_or(u16::MAX),
        pool_len: config.pool_len,
        spin_max: config.spin_max,
        stall_timeout: config.stall_timeout,
        session,
        devices: config.devices.clone(),
        peers: config.peers,
        volumes: Arc::clone(&config.published.volumes),
        tls: tls_of((&config.doors, config.ktls), &config.keyed_hosts, &direct)?,
        direct,
        iscsi,
        replies: Arc::default(),
        changes: config.changes,
        ledger: Arc::clone(&config.ledger),
        on_mirrors: config.on_mirrors,
        on_files: config.on_files,
        on_authentication: config.on_authentication,
    });
    let mut listeners: Vec<Listener> = config.doors.into_iter().map(listener).collect();
    let (up, came_up) = channel();
    let (mut peers, mut threads) = (Vec::new(), Vec::new());
    for (core, processor) in (0..).map(CoreId).zip(&config.cores) {
        let (tell_peers, learn_peers) = channel();
        peers.push(tell_peers);
        let start = Start {
            core,
            processor: *processor,
            listeners: mem::take(&mut listeners),
            target: target.take(),
            up: up.clone(),
            peers: learn_peers,
        };
        let common = Arc::clone(&common);
        let builder = thread::Builder::new().name(format!("core-{}", core.0));
        let run = move || {
            let _guard = EndOfPanic;
            run_core(start, &common);
        };
        threads.push(builder.spawn(run).map_err(StartError::new)?);
    }
    drop(up);
    let senders = introduce(peers, &came_up)?;
    let (processors, devices, ledger) = (config.cores, config.devices, config.ledger);
    Ok(Cores {
        tls: common.tls.clone(),
        epoch: common.epoch,
        gauges: Arc::clone(&common.gauges),
        post: Post::new(senders, &processors, PATIENCE),
        processors,
        devices,
        replies: Arc::clone(&common.replies),
        ledger,
        iscsi_doors,
        threads: Mutex::new(threads),
    })
}

/// Waits until all cores serve, and tells each the others' mailboxes.
fn introduce(
    peers: Vec<Channel<Vec<Sender<Message>>>>,
    came_up: &Receiver<CameUp>,
) -> Result<Vec<Sender<Message>>, StartError> {
    let mut senders = Vec::new();
    for _ in &peers {
        // A core that closes the channel without a message has panicked, which ends the process.
        let came = came_up.recv().map_err(StartError::new)?;
        senders.push(came?);
    }
    senders.sort_by_key(|(core, _)| *core);
    let senders: Vec<Sender<Message>> = senders.into_iter().map(|(_, sender)| sender).collect();
    for tell in peers {
        // A core that has ended has reported its error above.
        let _ = tell.send(senders.clone());
    }
    Ok(senders)
}

/// A listening socket and its protocol.
/// The body of one core's thread.
fn run_core(start: Start, common: &Common) {
    let Start { core, processor, listeners, target, up, peers } = start;
    if let Err(error) = pin(processor) {
        warn!("core {} is not pinned to processor {processor}: {error}", core.0);
    }
    let config = ReactorConfig {
        epoch: common.epoch,
        pool_len: common.pool_len,
        devices: common.devices.clone(),
        listeners,
        spin_max: common.spin_max,
        notices: notice_sink(common),
        tls: common.tls.clone(),
    };
    let mut reactor = match Reactor::new(config) {
        Ok(reactor) => reactor,
        Err(error) => {
            // The thread that starts the cores waits for the first message of each.
            let _ = up.send(Err(StartError::new(error)));
            return;
        }
    };
    if up.send(Ok((core, reactor.sender()))).is_err() {
        return;
    }
    drop(up);
    // The channel is closed if another core could not start.
    let Ok(senders) = peers.recv() else { return };
    reactor.connect(senders);
    let mut shard = Shard::new(shard_config(core, target, common), reactor.pool());
    reactor.run(&mut shard);
}

fn shard_config(core: CoreId, target: Option<Target>, common: &Common) -> ShardConfig {
    let devices: Arc<[DeviceProperties]> = common.devices.iter().map(|d| d.properties()).collect();
    ShardConfig {
        engine: EngineConfig {
            core,
            core_count: common.core_count,
            devices,
            health: common.devices.iter().map(|device| Arc::clone(device.health())).collect(),
            volumes: Arc::clone(&common.volumes),
            device_depth: DEVICE_DEPTH,
        },
        session: common.session,
        target,
        direct: common.direct.clone(),
        iscsi: common.iscsi.clone(),
        peers: common.peers.clone(),
        kinds: kinds(common.devices.len(), &common.peers, &[]),
        mirrors: Arc::default(),
        stall_timeout: common.stall_timeout,
        gauges: Arc::clone(&common.gauges[usize::from(core.0)]),
    }
}

/// The kinds of the node's devices: local, unless they are volumes of other nodes, or of mirrors.
fn kinds(
    devices: usize,
    peers: &[PeerConfig],
    mirrors: &[(DeviceId, DeviceKind)],
) -> Arc<[DeviceKind]> {
    let mut kinds = vec![DeviceKind::Local; devices];
    for (device, kind) in mirrors {
        kinds[index(device.0)] = *kind;
    }
    for volume in peers.iter().flat_map(|peer| &peer.volumes) {
        kinds[index(volume.device.0)] = DeviceKind::Remote;
    }
    kinds.into()
}

fn pin(processor: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

impl Cores {
    /// Sends a question to every core and waits for all answers.
    fn ask_all(&self, question: impl Fn(u64) -> Message) -> Vec<(CoreId, Reply)> {
        let number = self.replies.ask();
        self.post.send_all(|| question(number));
        self.replies.wait(number, self.post.len(), PATIENCE)
    }

    /// Asks cores for their status.
    fn ask_status(&self, cores: Range<usize>) -> Vec<(CoreId, Reply)> {
        self.ask_quickly(cores, Message::ReportStatus)
    }

    /// Sends a question to cores, and waits at most [`STATUS_PATIENCE`]. A core whose mailbox is full does
    /// not run, and is not asked.
    fn ask_quickly(
        &self,
        cores: Range<usize>,
        question: impl Fn(u64) -> Message,
    ) -> Vec<(CoreId, Reply)> {
        let number = self.replies.ask();
        let ask = |core: &usize| self.post.offer(*core, question(number)).is_ok();
        let asked = cores.filter(ask).count();
        self.replies.wait(number, asked, STATUS_PATIENCE)
    }

    /// Sends new state to every core, and returns when every core has adopted it.
    fn show_all(&self, shown: impl Fn(u64) -> Message) -> Ticket {
        let number = self.replies.ask();
        let ticket = self.replies.ticket(number, self.post.len());
        self.post.send_all(|| shown(number));
        self.replies.wait(number, self.post.len(), PATIENCE);
        ticket
    }
}

impl Runtime for Cores {
    fn publish(&self, published: Published) -> Ticket {
        // Every core has the volumes before any host learns of them.
        let volumes = self.publish_volumes(Arc::clone(&published.volumes));
        let direct = self.publish_direct(Arc::clone(&published.direct));
        let iscsi = self.publish_iscsi(Arc::clone(&published.iscsi));
        let number = self.replies.ask();
        let exports = HostExports {
            namespaces: exports::namespaces(&published),
            rights: Arc::clone(&published.hosts),
            elsewhere: exports::elsewhere(&published.elsewhere),
        };
        self.post.send(0, Message::Exports(number, exports));
        self.replies.wait(number, 1, PATIENCE);
        Ticket::all([volumes, direct, iscsi])
    }

    fn answer_files(&self, place: ClientPlace, number: u32, answer: Result<Box<[u8]>, Status>) {
        let answer = Message::FilesAnswered(place.owner, (number, answer));
        self.post.send(usize::from(place.core.0), answer);
    }

    fn answer_authentication(&self, asked: Authentication) {
        let Authentication { core, owner, step, .. } = asked;
        self.post.send(usize::from(core.0), Message::Authenticated(owner, step));
    }

    fn publish_keyed_hosts(&self, hosts: &HostTable) {
        // Before the controllers of hosts without keys end: they must not come back with an old one.
        if let Some(tls) = &self.tls {
            tls.set_hosts(hosts.tls());
        }
        let hosts = Arc::new(hosts.keyed());
        // The first core has the controllers.
        let number = self.replies.ask();
        self.post.send(0, Message::KeyedHosts(number, hosts));
        self.replies.wait(number, 1, PATIENCE);
    }

    fn publish_devices(
        &self,
        devices: &[Arc<Device>],
        peers: &[PeerConfig],
        mirrors: &[(DeviceId, DeviceKind)],
    ) {
        let devices = Arc::new(Devices {
            properties: devices.iter().map(|device| device.properties()).collect(),
            health: devices.iter().map(|device| Arc::clone(device.health())).collect(),
            kinds: kinds(devices.len(), peers, mirrors),
            peers: peers.to_vec(),
        });
        // The table of volumes does not mention them yet, so no request needs to end.
        let number = self.replies.ask();
        self.post.send_all(|| Message::Devices(number, Arc::clone(&devices)));
        self.replies.wait(number, self.post.len(), PATIENCE);
    }

    fn publish_mirrors(&self, table: Arc<MirrorTable>, then: Then) {
        let number = self.replies.ask_then(self.post.len(), then);
        self.post.send_all(|| Message::Mirrors(number, Arc::clone(&table)));
    }

    fn drain_mirror(&self, mirror: MirrorId, then: Then) {
        let number = self.replies.ask_then(self.post.len(), then);
        let mirrors: Arc<[MirrorId]> = Arc::new([mirror]);
        self.post.send_all(|| Message::AwaitMirrors(number, Arc::clone(&mirrors)));
    }

    fn set_leases(&self, leases: &[(MirrorId, Nanos)]) {
        let until = leases.iter().map(|(mirror, until)| (*mirror, self.epoch.at(*until)));
        let leases: Arc<[(MirrorId, Nanos)]> = until.collect();
        self.post.send_all(|| Message::Leases(Arc::clone(&leases)));
    }

    fn end_hosts(&self) {
        self.post.send_all(|| Message::EndHosts);
    }

    fn ask_written(&self, mirror: MirrorId, session: u32) {
        self.post.send_all(|| Message::TellWritten(mirror, session));
    }

    fn copy_mirror(&self, mirror: MirrorId, session: u32, scope: Option<Arc<Written>>) {
        self.post.send_all(|| Message::CopyMirror(mirror, session, scope.clone()));
    }

    fn core_count(&self) -> u16 {
        u16::try_from(self.post.len()).unwrap_or(u16::MAX)
    }

    fn publish_direct(&self, direct: Arc<DirectAccess>) -> Ticket {
        let exports = Arc::new(exports::direct(&direct));
        // Before the connections of removed credentials end: their clients must not come back.
        if let Some(tls) = &self.tls {
            tls.set_exports(Arc::clone(&exports));
        }
        self.show_all(|number| Message::Direct(number, Arc::clone(&exports)))
    }

    fn publish_volumes(&self, volumes: Arc<VolumeTable>) -> Ticket {
        let ticket = self.show_all(|number| Message::Volumes(number, Arc::clone(&volumes)));
        self.ledger.keep(&volumes);
        ticket
    }

    fn quiesce(&self, volumes: &[VolumeId]) -> Ticket {
        let volumes: Arc<[VolumeId]> = volumes.into();
        let number = self.replies.ask();
        let ticket = self.replies.ticket(number, self.post.len());
        self.post.send_all(|| Message::Quiesce(number, Arc::clone(&volumes)));
        self.replies.forget(number);
        ticket
    }

    fn raise(&self, raised: Vec<Raised>) {
        let raised: Arc<[Raised]> = raised.into();
        self.ask_all(|number| Message::Raise(number, Arc::clone(&raised)));
    }

    fn answer(&self, by: AskedBy, result: ChangeResult) {
        let AskedBy { core, owner, volume, tag } = by;
        let answer = Message::Changed(owner, (volume, tag), result);
        self.post.send(usize::from(core.0), answer);
    }

    fn publish_iscsi(&self, iscsi: Arc<IscsiAccess>) -> Ticket {
        let exports = Arc::new(exports::iscsi(&iscsi, &self.iscsi_doors));
        self.show_all(|number| Message::Iscsi(number, Arc::clone(&exports)))
    }

    fn status(&self) -> RuntimeStatus {
        let replies = self.ask_status(0..self.post.len());
        exports::status(&self.processors, replies, &self.ledger)
    }

    fn connected(&self, volume: VolumeId) -> Option<Connected> {
        // Every core has clients, and the first one also the list of hosts and initiators.
        let users = self.ask_quickly(0..self.post.len(), |it| Message::TellUsers(it, volume));
        let replies = self.ask_status(0..1);
        if users.len() < self.post.len() || replies.is_empty() {
            return None;
        }
        let RuntimeStatus { hosts, initiators, .. } =
            exports::status(&self.processors, replies, &self.ledger);
        let clients = exports::clients(&self.processors, users);
        Some(Connected { hosts, initiators, clients })
    }

    fn silent(&self) -> Option<usize> {
        self.post.silent()
    }

    fn readings(&self) -> Vec<(usize, Reading)> {
        let readings = self.gauges.iter().map(|gauges| gauges.read());
        self.processors.iter().copied().zip(readings).collect()
    }

    fn begin_trace(&self, spec: &TraceSpec) -> Ticket {
        trace::begin(&self.post, &self.replies, spec)
    }

    fn end_trace(&self) -> Vec<CoreTrace> {
        trace::end(&self.post, &self.replies, &self.processors)
    }

    fn drain_and_join(&self) -> bool {
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return true;
        }
        let deadline = Instant::now() + PATIENCE;
        self.post.send_all_before(deadline, || Message::Drain);
        let drained = self.replies.wait_drained(self.post.len(), deadline);
        self.post.send_all_before(deadline, || Message::Stop);
        if !drained {
            error!("gave up waiting for requests in flight: a device or a host does not answer");
            return false;
        }
        for thread in threads {
            if thread.join().is_err() {
                error!("a core has panicked");
            }
        }
        // The end of a session may have requested a change, which would wait for the cores.
        self.replies.end();
        // Every device is flushed, even if another one fails.
        self.devices.iter().filter(|device| !flush(device)).count() == 0
    }
}

/// Flushes a device at the end, for writes that no host has flushed.
fn flush(device: &Device) -> bool {
    if let Kind::Uring(file) = device.kind()
        && let Err(error) = rustix::fs::fdatasync(file.fd())
    {
        device.health().note_failure();
        error!("cannot flush device {}: {error}", device.name());
        return false;
    }
    true
}
