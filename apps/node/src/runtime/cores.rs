//! Starts the cores, sends messages to them, and stops them.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{io, mem, thread};

use nearflash_engine::{CoreId, DEVICE_DEPTH};
use nearflash_media::{Device, Kind};
use nearflash_mirror::MirrorId;
use nearflash_nvme::serving::Target;
use nearflash_nvme::tls::TlsHosts;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::Served;
use nearflash_reactor::{
    Courier, Epoch, Listener, NoticeSink, PATIENCE, Reactor, ReactorConfig, Reply, STATUS_PATIENCE,
    Sender, Then,
};
use nearflash_request::{Raised, VolumeId};
use nearflash_shard::{IscsiConfig, Message, Reading, Shard, ShardConfig, World};
use nearflash_units::Nanos;
use tracing::{error, warn};

use super::common::{Common, Post};
use super::config::{CoresError, RuntimeConfig};
use super::doors::{listener, tls_of};
use super::notices::notice_sink;
use super::status::{CoresStatus, clients};
use super::target;
use super::trace::{self, CoreTrace, TraceSpec};
use crate::Ticket;
use crate::doors::OpenDoor;
use crate::end_of_panic::EndOfPanic;

/// The running cores.
pub struct Cores {
    common: Arc<Common>,
    /// Delivers messages that wait.
    delivery: Mutex<Option<JoinHandle<()>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The threads of the cores, which all serve, and their mailboxes.
pub struct Begun {
    /// The threads, which end after [`Message::Stop`].
    pub threads: Vec<JoinHandle<()>>,
    /// The mailboxes, in the order of the cores.
    pub mailboxes: Vec<Post>,
}

/// A core that serves, with its mailbox, or the reason why it does not.
type CameUp = Result<(CoreId, Sender<Message>), CoresError>;

/// The part of a start that is particular to one core.
struct Start {
    core: CoreId,
    processor: usize,
    listeners: Vec<Listener>,
    target: Option<Target>,
    notices: NoticeSink,
    /// Reports that the core is up, with its mailbox, or the error.
    up: Channel<CameUp>,
    /// Receives the mailboxes of all cores.
    peers: Receiver<Vec<Sender<Message>>>,
}

/// Starts a core on each processor, and returns when every core serves.
///
/// # Errors
/// When a core cannot start; the other cores are stopped.
pub fn start(config: RuntimeConfig) -> Result<Cores, CoresError> {
    let target = target::target(&config);
    Cores::start(config, |common, notices, doors| {
        let listeners = doors.into_iter().map(listener).collect();
        begin_cores(common, notices, listeners, Some(target))
    })
}

/// Starts cores that `begin` makes, from where each of them tells its notices. They do not listen.
///
/// # Errors
/// When the thread that delivers messages cannot start.
pub fn start_with(
    config: RuntimeConfig,
    begin: impl FnOnce(Vec<NoticeSink>) -> Begun,
) -> Result<Cores, CoresError> {
    Cores::start(config, |_, notices, _| Ok(begin(notices)))
}

/// The part that all cores share, and the doors.
fn common_of(config: RuntimeConfig) -> Result<(Common, Vec<OpenDoor>), CoresError> {
    let RuntimeConfig { cores: processors, devices, served, silent_after, doors, .. } = config;
    let served = Arc::new(served);
    let courier = Courier::new(&processors, Arc::clone(&served), silent_after, report_silence);
    let mut iscsi = IscsiConfig::default();
    let mut direct = target::direct_config(&devices, config.boot);
    let mut session = SessionConfig::default();
    if let Some(timeout) = config.login_timeout {
        iscsi.session.login_timeout = timeout;
        direct.session.handshake_timeout = timeout;
        session.handshake_timeout = timeout;
    }
    let common = Common {
        epoch: Epoch::now(),
        gauges: processors.iter().map(|_| Arc::default()).collect(),
        processors,
        pool_len: config.pool_len,
        spin_max: config.spin_max,
        stall_timeout: config.stall_timeout,
        session,
        devices,
        tls: tls_of((&doors, config.ktls), config.tls_hosts, (&served, &direct))?,
        served,
        courier: Arc::new(courier),
        direct,
        iscsi,
        replies: Arc::default(),
        ledger: config.ledger,
    };
    Ok((common, doors))
}

/// Starts a thread for each core, and returns when all cores serve. The first core has the listeners and the target.
fn begin_cores(
    common: &Arc<Common>,
    notices: Vec<NoticeSink>,
    mut listeners: Vec<Listener>,
    mut target: Option<Target>,
) -> Result<Begun, CoresError> {
    let (up, came_up) = channel();
    let (mut peers, mut threads) = (Vec::new(), Vec::new());
    for ((core, processor), notices) in (0..).map(CoreId).zip(&common.processors).zip(notices) {
        let (tell_peers, learn_peers) = channel();
        peers.push(tell_peers);
        let start = Start {
            core,
            processor: *processor,
            listeners: mem::take(&mut listeners),
            target: target.take(),
            notices,
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
    let mailboxes = introduce(peers, &came_up)?.into_iter();
    Ok(Begun { threads, mailboxes: mailboxes.map(|it| Box::new(it) as Post).collect() })
}

/// Gives the courier the mailboxes of the cores, and starts the thread that delivers messages.
fn begin_delivery(
    courier: &Arc<Courier<Post>>,
    mailboxes: Vec<Post>,
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
    let Start { core, processor, listeners, target, notices, up, peers } = start;
    if let Err(error) = pin(processor) {
        warn!("core {} is not pinned to processor {processor}: {error}", core.0);
    }
    let config = ReactorConfig {
        epoch: common.epoch,
        pool_len: common.pool_len,
        devices: common.devices.clone(),
        listeners,
        spin_max: common.spin_max,
        notices,
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
        core_count: u16::try_from(common.processors.len()).unwrap_or(u16::MAX),
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
    fn start(
        config: RuntimeConfig,
        begin: impl FnOnce(&Arc<Common>, Vec<NoticeSink>, Vec<OpenDoor>) -> Result<Begun, CoresError>,
    ) -> Result<Self, CoresError> {
        let news = config.news.clone();
        let (common, doors) = common_of(config)?;
        let common = Arc::new(common);
        let notices = common.processors.iter().map(|_| notice_sink(&common, &news)).collect();
        let Begun { threads, mailboxes } = begin(&common, notices, doors)?;
        let delivery = Mutex::new(Some(begin_delivery(&common.courier, mailboxes)?));
        Ok(Self { common, delivery, threads: Mutex::new(threads) })
    }

    /// The state that was published last.
    pub(crate) fn served(&self) -> Arc<Served> {
        self.common.courier.served()
    }

    /// Replaces the served state on every core, tells sessions these events, and waits for every earlier request on
    /// these volumes. Returns as soon as every core that is not silent has adopted the new state, so a device that
    /// hangs does not delay it. The ticket is over when the requests that the older state allowed have ended, on the
    /// volumes that the change concerns. Before that, space that the new volumes no longer map must not be given to
    /// another volume.
    pub(crate) fn serve(
        &self,
        served: Served,
        raised: Vec<Raised>,
        quiesce: Vec<VolumeId>,
    ) -> Ticket {
        // Before any core gets them: clients without rights must not come back.
        if let Some(tls) = &self.common.tls {
            tls.set_exports(Arc::clone(&served.direct));
        }
        let volumes = Arc::clone(&served.volumes);
        let ticket = self.common.courier.publish(served, raised, quiesce);
        self.common.ledger.keep(&volumes);
        ticket
    }

    /// Replaces the hosts that have PSKs, before any core gets a state in which others have keys: hosts without
    /// rights must not come back.
    pub(crate) fn set_tls_hosts(&self, hosts: TlsHosts) {
        if let Some(tls) = &self.common.tls {
            tls.set_hosts(hosts);
        }
    }

    /// Sends a message to a core.
    pub(crate) fn tell(&self, core: CoreId, message: Message) {
        self.common.courier.send(usize::from(core.0), message);
    }

    /// Sends a message to every core.
    pub(crate) fn tell_all(&self, message: impl Fn() -> Message) {
        self.common.courier.send_all(message);
    }

    /// Sends every core a message with a number. There is a call when every core has answered it. Returns at once.
    pub(crate) fn ask_all(&self, message: impl Fn(u64) -> Message, then: Then) {
        let number = self.common.replies.ask_then(self.common.courier.len(), then);
        self.tell_all(|| message(number));
    }

    /// Gives the cores the times until which reads of mirrors may be answered, since the machine's start.
    pub(crate) fn set_leases(&self, leases: &[(MirrorId, Nanos)]) {
        let epoch = self.common.epoch;
        let leases: Arc<[(MirrorId, Nanos)]> =
            leases.iter().map(|(mirror, until)| (*mirror, epoch.at(*until))).collect();
        // A core that has no room for them keeps its shorter ones.
        for core in 0..self.common.courier.len() {
            self.common.courier.offer(core, Message::Leases(Arc::clone(&leases)));
        }
    }

    /// The number of cores.
    pub(crate) fn core_count(&self) -> u16 {
        u16::try_from(self.common.courier.len()).unwrap_or(u16::MAX)
    }

    /// The current status. A core that does not answer in time is listed as silent.
    pub(crate) fn status(&self) -> CoresStatus {
        self.status_of(self.ask(0..self.common.courier.len(), Message::ReportStatus))
    }

    /// The same with the hosts and initiators that are connected at this moment, and the clients that have a volume
    /// open; `None` if a core does not answer.
    pub(crate) fn connected(&self, volume: VolumeId) -> Option<CoresStatus> {
        // Every core has clients, and the first one also the list of hosts and initiators.
        let cores = self.common.courier.len();
        let users = self.ask(0..cores, |number| Message::TellUsers(number, volume));
        let replies = self.ask(0..1, Message::ReportStatus);
        if users.len() < cores || replies.is_empty() {
            return None;
        }
        let clients = clients(&self.common.processors, users);
        Some(CoresStatus { clients, ..self.status_of(replies) })
    }

    fn status_of(&self, replies: Vec<(CoreId, Reply)>) -> CoresStatus {
        CoresStatus::of(&self.common.processors, replies, &self.common.ledger)
    }

    /// Sends a question to cores, and waits at most [`STATUS_PATIENCE`]. A core whose mailbox is full does
    /// not run, and is not asked.
    fn ask(&self, cores: Range<usize>, question: impl Fn(u64) -> Message) -> Vec<(CoreId, Reply)> {
        let Common { courier, replies, .. } = &*self.common;
        let number = replies.ask();
        let asked = cores.filter(|core| courier.offer(*core, question(number))).count();
        replies.wait(number, asked, STATUS_PATIENCE)
    }

    /// The processor of a core that has taken no messages for long: a change waits for it.
    pub(crate) fn silent(&self) -> Option<usize> {
        self.common.courier.silent()
    }

    /// The processor and the figures of each core, in the order of the cores. No core is asked.
    pub(crate) fn readings(&self) -> Vec<(usize, Reading)> {
        let readings = self.common.gauges.iter().map(|gauges| gauges.read());
        self.common.processors.iter().copied().zip(readings).collect()
    }

    /// Begins to trace requests on every core. An earlier trace is dropped. The ticket is over when every core has
    /// all the records that it may have.
    pub(crate) fn begin_trace(&self, spec: &TraceSpec) -> Ticket {
        trace::begin(&self.common.courier, &self.common.replies, spec)
    }

    /// Ends the trace. Returns the records of each core, in the order of the cores.
    pub(crate) fn end_trace(&self) -> Vec<CoreTrace> {
        let Common { courier, replies, processors, .. } = &*self.common;
        trace::end(courier, replies, processors)
    }

    /// Stops accepting hosts, finishes the requests in flight, flushes, answers, and ends every
    /// core. A second call does nothing. Returns whether everything was finished and flushed: the
    /// wait for a device that does not answer is bounded.
    #[must_use]
    pub(crate) fn drain_and_join(&self) -> bool {
        let threads = mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return true;
        }
        let deadline = Instant::now() + PATIENCE;
        self.tell_all(|| Message::Drain);
        let drained = self.common.replies.wait_drained(self.common.courier.len(), deadline);
        self.tell_all(|| Message::Stop);
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
        self.common.replies.end();
        self.end_courier();
        // Every device is flushed, even if another one fails.
        self.common.devices.iter().filter(|device| !flush(device)).count() == 0
    }

    /// The cores have ended, and nothing waits for them any more.
    fn end_courier(&self) {
        self.common.courier.end();
        let delivery = self.delivery.lock().unwrap_or_else(PoisonError::into_inner).take();
        if delivery.is_some_and(|thread| thread.join().is_err()) {
            error!("the thread that delivers messages has panicked");
        }
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
