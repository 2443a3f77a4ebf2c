//! Starts the cores, sends messages to them, and stops them.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, mem, thread};

use nearflash_direct::Status;
use nearflash_engine::{CoreId, DEVICE_DEPTH};
use nearflash_media::{Device, Kind};
use nearflash_mirror::{MirrorId, MirrorTable, Written};
use nearflash_nvme::serving::Target;
use nearflash_nvme::tls::TlsHosts;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::Served;
use nearflash_reactor::{Courier, Epoch, Listener, Reactor, ReactorConfig, Sender, Tls};
use nearflash_request::{ChangeResult, Raised, VolumeId};
use nearflash_shard::{
    ClientPlace, Gauges, IscsiConfig, Message, Reading, Shard, ShardConfig, World,
};
use nearflash_units::Nanos;
use tracing::{error, warn};

use super::common::Common;
use super::doors::{listener, tls_of};
use super::notices::notice_sink;
use super::replies::{PATIENCE, Replies, Reply, STATUS_PATIENCE};
use super::{status, target, trace};
use crate::end_of_panic::EndOfPanic;
use crate::runtime_face::{
    AskedBy, Authentication, Connected, CoreTrace, CoresError, Runtime, RuntimeConfig,
    RuntimeStatus, Then, TraceSpec,
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
    courier: Arc<Courier<Sender<Message>>>,
    /// Delivers messages that wait.
    delivery: Mutex<Option<JoinHandle<()>>>,
    replies: Arc<Replies>,
    ledger: Arc<Ledger>,
    /// TLS, if a door has it.
    tls: Option<Arc<Tls>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A core that serves, with its mailbox, or the reason why it does not.
type CameUp = Result<(CoreId, Sender<Message>), CoresError>;

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

/// The threads of the cores, which all serve, and their mailboxes.
struct Begun {
    threads: Vec<JoinHandle<()>>,
    mailboxes: Vec<Sender<Message>>,
}

/// Starts a core on each processor, and returns when every core serves.
///
/// # Errors
/// When a core cannot start; the other cores are stopped.
pub fn start(config: RuntimeConfig) -> Result<Cores, CoresError> {
    let target = target::target(&config);
    let served = Arc::new(config.served);
    let courier = Arc::new(Courier::new(&config.cores, Arc::clone(&served), report_silence));
    let mut iscsi = IscsiConfig::default();
    let mut direct = target::direct_config(&config.devices, config.boot);
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
        tls: tls_of((&config.doors, config.ktls), config.tls_hosts, (&served, &direct))?,
        served,
        courier: Arc::clone(&courier),
        direct,
        iscsi,
        replies: Arc::default(),
        changes: config.changes,
        ledger: Arc::clone(&config.ledger),
        on_mirrors: config.on_mirrors,
        on_files: config.on_files,
        on_authentication: config.on_authentication,
    });
    let listeners = config.doors.into_iter().map(listener).collect();
    let Begun { threads, mailboxes } =
        begin_cores(&common, &config.cores, listeners, Some(target))?;
    let delivery = begin_delivery(&courier, mailboxes)?;
    let (processors, devices, ledger) = (config.cores, config.devices, config.ledger);
    Ok(Cores {
        tls: common.tls.clone(),
        epoch: common.epoch,
        gauges: Arc::clone(&common.gauges),
        courier,
        delivery: Mutex::new(Some(delivery)),
        processors,
        devices,
        replies: Arc::clone(&common.replies),
        ledger,
        threads: Mutex::new(threads),
    })
}

/// Starts a thread for each core, and returns when all cores serve. The first core has the listeners and the target.
fn begin_cores(
    common: &Arc<Common>,
    processors: &[usize],
    mut listeners: Vec<Listener>,
    mut target: Option<Target>,
) -> Result<Begun, CoresError> {
    let (up, came_up) = channel();
    let (mut peers, mut threads) = (Vec::new(), Vec::new());
    for (core, processor) in (0..).map(CoreId).zip(processors) {
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
        let common = Arc::clone(common);
        let builder = thread::Builder::new().name(format!("core-{}", core.0));
        let run = move || {
            let _guard = EndOfPanic;
            run_core(start, &common);
        };
        threads.push(builder.spawn(run).map_err(CoresError::new)?);
    }
    drop(up);
    Ok(Begun { threads, mailboxes: introduce(peers, &came_up)? })
}

/// Gives the courier the mailboxes of the cores, and starts the thread that delivers messages.
fn begin_delivery(
    courier: &Arc<Courier<Sender<Message>>>,
    mailboxes: Vec<Sender<Message>>,
) -> Result<JoinHandle<()>, CoresError> {
    courier.connect(mailboxes);
    let kept = Arc::clone(courier);
    let builder = thread::Builder::new().name("courier".to_owned());
    builder.spawn(move || kept.run()).map_err(CoresError::new)
}

fn report_silence(processor: usize) {
    error!("the core on processor {processor} takes no messages: a device may hang");
}

/// Waits until all cores serve, and tells each the others' mailboxes.
fn introduce(
    peers: Vec<Channel<Vec<Sender<Message>>>>,
    came_up: &Receiver<CameUp>,
) -> Result<Vec<Sender<Message>>, CoresError> {
    let mut senders = Vec::new();
    for _ in &peers {
        // A core that closes the channel without a message has panicked, which ends the process.
        let came = came_up.recv().map_err(CoresError::new)?;
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
            let _ = up.send(Err(CoresError::new(error)));
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
    ShardConfig {
        core,
        core_count: common.core_count,
        device_depth: DEVICE_DEPTH,
        served: Arc::clone(&common.served),
        session: common.session,
        target,
        direct: common.direct.clone(),
        iscsi: common.iscsi.clone(),
        mirrors: Arc::default(),
        stall_timeout: common.stall_timeout,
        gauges: Arc::clone(&common.gauges[usize::from(core.0)]),
    }
}

fn pin(processor: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

impl Cores {
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
        let ask = |core: &usize| self.courier.offer(*core, question(number));
        let asked = cores.filter(ask).count();
        self.replies.wait(number, asked, STATUS_PATIENCE)
    }
}

impl Cores {
    /// The cores have ended, and nothing waits for them any more.
    fn end_courier(&self) {
        self.courier.end();
        let delivery = self.delivery.lock().unwrap_or_else(PoisonError::into_inner).take();
        if delivery.is_some_and(|thread| thread.join().is_err()) {
            error!("the thread that delivers messages has panicked");
        }
    }
}

impl Runtime for Cores {
    fn served(&self) -> Arc<Served> {
        self.courier.served()
    }

    fn serve(&self, served: Served, raised: Vec<Raised>, quiesce: Vec<VolumeId>) -> Ticket {
        // Before any core gets them: clients without rights must not come back.
        if let Some(tls) = &self.tls {
            tls.set_exports(Arc::clone(&served.direct));
        }
        let volumes = Arc::clone(&served.volumes);
        let ticket = self.courier.publish(served, raised, quiesce);
        self.ledger.keep(&volumes);
        ticket
    }

    fn set_tls_hosts(&self, hosts: TlsHosts) {
        if let Some(tls) = &self.tls {
            tls.set_hosts(hosts);
        }
    }

    fn answer_files(&self, place: ClientPlace, number: u32, answer: Result<Box<[u8]>, Status>) {
        let answer = Message::FilesAnswered(place.owner, (number, answer));
        self.courier.send(usize::from(place.core.0), answer);
    }

    fn answer_authentication(&self, asked: Authentication) {
        let Authentication { core, owner, step, .. } = asked;
        self.courier.send(usize::from(core.0), Message::Authenticated(owner, step));
    }

    fn publish_mirrors(&self, table: Arc<MirrorTable>, then: Then) {
        let number = self.replies.ask_then(self.courier.len(), then);
        self.courier.send_all(|| Message::Mirrors(number, Arc::clone(&table)));
    }

    fn drain_mirror(&self, mirror: MirrorId, then: Then) {
        let number = self.replies.ask_then(self.courier.len(), then);
        let mirrors: Arc<[MirrorId]> = Arc::new([mirror]);
        self.courier.send_all(|| Message::AwaitMirrors(number, Arc::clone(&mirrors)));
    }

    fn set_leases(&self, leases: &[(MirrorId, Nanos)]) {
        let until = leases.iter().map(|(mirror, until)| (*mirror, self.epoch.at(*until)));
        let leases: Arc<[(MirrorId, Nanos)]> = until.collect();
        // A core that has no room for them keeps its shorter ones.
        for core in 0..self.courier.len() {
            self.courier.offer(core, Message::Leases(Arc::clone(&leases)));
        }
    }

    fn end_hosts(&self) {
        self.courier.send_all(|| Message::EndHosts);
    }

    fn ask_written(&self, mirror: MirrorId, session: u32) {
        self.courier.send_all(|| Message::TellWritten(mirror, session));
    }

    fn copy_mirror(&self, mirror: MirrorId, session: u32, scope: Option<Arc<Written>>) {
        self.courier.send_all(|| Message::CopyMirror(mirror, session, scope.clone()));
    }

    fn core_count(&self) -> u16 {
        u16::try_from(self.courier.len()).unwrap_or(u16::MAX)
    }

    fn answer(&self, by: AskedBy, result: ChangeResult) {
        let AskedBy { core, owner, volume, tag } = by;
        let answer = Message::Changed(owner, (volume, tag), result);
        self.courier.send(usize::from(core.0), answer);
    }

    fn status(&self) -> RuntimeStatus {
        let replies = self.ask_status(0..self.courier.len());
        status::status(&self.processors, replies, &self.ledger)
    }

    fn connected(&self, volume: VolumeId) -> Option<Connected> {
        // Every core has clients, and the first one also the list of hosts and initiators.
        let users = self.ask_quickly(0..self.courier.len(), |it| Message::TellUsers(it, volume));
        let replies = self.ask_status(0..1);
        if users.len() < self.courier.len() || replies.is_empty() {
            return None;
        }
        let RuntimeStatus { hosts, initiators, .. } =
            status::status(&self.processors, replies, &self.ledger);
        let clients = status::clients(&self.processors, users);
        Some(Connected { hosts, initiators, clients })
    }

    fn silent(&self) -> Option<usize> {
        self.courier.silent()
    }

    fn readings(&self) -> Vec<(usize, Reading)> {
        let readings = self.gauges.iter().map(|gauges| gauges.read());
        self.processors.iter().copied().zip(readings).collect()
    }

    fn begin_trace(&self, spec: &TraceSpec) -> Ticket {
        trace::begin(&self.courier, &self.replies, spec)
    }

    fn end_trace(&self) -> Vec<CoreTrace> {
        trace::end(&self.courier, &self.replies, &self.processors)
    }

    fn drain_and_join(&self) -> bool {
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return true;
        }
        let deadline = Instant::now() + PATIENCE;
        self.courier.send_all(|| Message::Drain);
        let drained = self.replies.wait_drained(self.courier.len(), deadline);
        self.courier.send_all(|| Message::Stop);
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
        self.end_courier();
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
