//! The interface between the node's control side and the cores that serve: the configuration at the
//! start, the changes while the cores run, and their reports.
//!
//! The control side knows configuration, catalog and control socket; the cores know sessions and
//! requests. Neither depends on more of the other than this interface.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use nearflash_config::{Admits, HostAccess, Protocol};
use nearflash_device::DeviceId;
use nearflash_direct::Status;
use nearflash_direct::serving::FilesDemand;
use nearflash_engine::{CoreId, Owner, Traced};
use nearflash_media::Device;
use nearflash_mirror::{Copied, MirrorId, MirrorTable, Written};
use nearflash_nvme::auth::Step;
use nearflash_nvme::serving::Life;
use nearflash_nvme::tls::TlsHosts;
use nearflash_nvme::{HostName, Nqn};
use nearflash_publish::Served;
use nearflash_request::{Change, ChangeResult, Identity, Nexus, Raised, Tag, VolumeId};
use nearflash_session::DoorTls;
use nearflash_shard::{ClientPlace, Peer, PlaceKind, Reading};
use nearflash_units::{ByteLen, Nanos};
use uuid::Uuid;

use crate::{Ledger, Ticket};

/// The configuration that the cores start with.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// The processors to run on, one thread pinned to each; at least one.
    pub cores: Vec<usize>,
    /// Each core's buffer pool.
    pub pool_len: ByteLen,
    /// The longest time for which a core spins before it sleeps.
    pub spin_max: Nanos,
    /// The time that a connection may take to log in; `None` for each door's default.
    pub login_timeout: Option<Nanos>,
    /// The longest time for which a peer may accept no answers or send none of the data it owes.
    pub stall_timeout: Nanos,
    /// The devices; a `DeviceId` is an index into this list.
    pub devices: Vec<Arc<Device>>,
    /// The number by which other nodes learn that writes may be lost.
    pub boot: u64,
    /// The state that is served first.
    pub served: Served,
    /// The doors. The first door of NVMe/TCP is port 1 of the discovery log.
    pub doors: Vec<OpenDoor>,
    /// Whether the kernel handles the records of TLS, if it can.
    pub ktls: bool,
    /// The NVMe/TCP hosts that are admitted.
    pub hosts: HostAccess,
    /// The NVMe/TCP hosts that have PSKs.
    pub tls_hosts: TlsHosts,
    /// Takes the sessions' requests for changes of a volume's shared state; each is answered with
    /// [`Runtime::answer`].
    pub changes: Asker,
    /// Identifies the node to hosts, or the cluster if all of its nodes serve the same subsystems: as the
    /// serial number.
    pub node: Uuid,
    /// The node's number in its cluster; 0 without a cluster. Its ports are numbered by it.
    pub ordinal: u16,
    /// The numbers of its NVMe controllers.
    pub controller_ids: RangeInclusive<u16>,
    /// The node's history for the health log.
    pub life: Life,
    /// Takes the counters of the cores.
    pub ledger: Arc<Ledger>,
    /// Takes the news of the cores about mirrors.
    pub on_mirrors: OnMirrors,
    /// Takes the messages of clients for the owner of files.
    pub on_files: OnFiles,
    /// Takes the messages of hosts that authenticate.
    pub on_authentication: OnAuthentication,
}

/// A message of a host that authenticates, which [`Runtime::answer_authentication`] returns.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// The core of its connection.
    pub core: CoreId,
    /// The connection.
    pub owner: Owner,
    /// Its address.
    pub peer: Peer,
    /// The message, with the end that handles it.
    pub step: Box<Step>,
}

/// Takes messages of hosts that authenticate. It must return at once.
#[derive(Clone)]
pub struct OnAuthentication(Arc<dyn Fn(Authentication) + Send + Sync>);

impl OnAuthentication {
    /// Messages go to this function.
    pub fn new(take: impl Fn(Authentication) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, asked: Authentication) {
        (self.0)(asked);
    }
}

impl fmt::Debug for OnAuthentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAuthentication")
    }
}

/// News of the cores about a mirror.
#[derive(Clone, Debug)]
pub enum MirrorNews {
    /// A device has failed a part of an operation.
    Failed {
        /// The mirror.
        mirror: MirrorId,
        /// It is the device of this node's replica.
        is_local: bool,
    },
    /// A core has noted these parts of the mirror as written.
    Written {
        /// The mirror.
        mirror: MirrorId,
        /// The session of the copy that needs them.
        session: u32,
        /// The parts.
        written: Box<Written>,
    },
    /// The other replica has everything.
    Copied(Copied),
    /// Writes that this node has answered may be lost with the power of the last replica in sync.
    WritesLost {
        /// The mirror.
        mirror: MirrorId,
    },
}

/// Takes news about mirrors. It must return at once.
#[derive(Clone)]
pub struct OnMirrors(Arc<dyn Fn(MirrorNews) + Send + Sync>);

impl OnMirrors {
    /// News go to this function.
    pub fn new(take: impl Fn(MirrorNews) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, news: MirrorNews) {
        (self.0)(news);
    }
}

impl Default for OnMirrors {
    /// Nobody takes the news: the node has no mirrors.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for OnMirrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnMirrors")
    }
}

/// News of a client for the owner of the files of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FilesNews {
    /// A message, which [`Runtime::answer_files`] answers.
    Asked {
        /// The client's connection.
        place: ClientPlace,
        /// The message.
        demand: Box<FilesDemand>,
    },
    /// The connection has ended.
    Gone(ClientPlace),
}

/// Takes messages for the owner of files. It must return at once.
#[derive(Clone)]
pub struct OnFiles(Arc<dyn Fn(FilesNews) + Send + Sync>);

impl OnFiles {
    /// Messages go to this function.
    pub fn new(take: impl Fn(FilesNews) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, news: FilesNews) {
        (self.0)(news);
    }
}

impl Default for OnFiles {
    /// Nobody takes messages: the node owns no files, and its sessions refuse them.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for OnFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFiles")
    }
}

/// Called once, when every core has done something. It must return at once.
pub type Then = Box<dyn FnOnce() + Send>;

/// An open door.
#[derive(Debug)]
pub struct OpenDoor {
    /// The protocol.
    pub protocol: Protocol,
    /// Bound, listening and non-blocking.
    pub socket: DoorSocket,
    /// The peers that it admits.
    pub admits: Admits,
    /// Whether its connections use TLS, which iSCSI does not have.
    pub tls: DoorTls,
}

/// A door's socket.
#[derive(Debug)]
pub enum DoorSocket {
    /// Reachable over the network.
    Tcp {
        /// The socket.
        listener: TcpListener,
        /// The address that discovery reports: the bound one, or the one that `--advertise` gives.
        /// An unspecified IP (`0.0.0.0`) stands for the address that the peer connected to.
        advertise: SocketAddr,
    },
    /// A Unix socket on this machine. Only the owner of its file can connect.
    Local(UnixListener),
}

/// A request of the cores to the control side.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A session requests a change.
    Change {
        /// The session to answer.
        by: AskedBy,
        /// The requested change.
        change: Box<Change>,
    },
    /// A session and all of its requests have ended.
    SessionOver {
        /// The session.
        nexus: Nexus,
        /// Its identity in its protocol's terms.
        identity: Identity,
    },
}

/// An event for the thread that makes changes.
#[derive(Debug)]
pub(crate) enum Event {
    /// A core's request.
    Asked(Asked),
    /// The ticket of the change with this number is over.
    Over(u64),
    /// No older request writes to the freed space with this number any more.
    Freed(u64),
    /// A device is suspect.
    Suspect,
    /// The volume of another node that is this device has another size there.
    RemoteResized { device: DeviceId, bytes: u64 },
    /// The node is stopping.
    End,
}

/// Sends requests to the control side. Each core has at most
/// [`nearflash_shard::CHANGES_PER_VOLUME_MAX`] unanswered changes of a volume, which bounds the
/// queue.
#[derive(Clone, Debug)]
pub struct Asker(Sender<Event>);

impl Asker {
    pub(crate) fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Sends a request. It is dropped if the node has ended.
    pub fn ask(&self, asked: Asked) {
        self.tell(Event::Asked(asked));
    }

    pub(crate) fn tell(&self, event: Event) {
        let _ = self.0.send(event);
    }
}

/// The session that requested a change, and its tag for the change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AskedBy {
    /// The session's core.
    pub core: CoreId,
    /// The session.
    pub owner: Owner,
    /// The volume of the change.
    pub volume: VolumeId,
    /// The change.
    pub tag: Tag,
}

/// The running cores.
///
/// [`Runtime::serve`] returns as soon as every core that is not silent has adopted the new state, so a
/// device that hangs does not delay it. The ticket is over when the requests that the older state
/// allowed have ended, on the volumes that the change concerns.
pub trait Runtime: Send + Sync {
    /// The state that was published last.
    fn served(&self) -> Arc<Served>;

    /// Replaces the served state on every core, tells sessions these events, and waits for every earlier request on
    /// these volumes. Before the ticket is over, space that the new volumes no longer map must not be given to
    /// another volume.
    fn serve(&self, served: Served, raised: Vec<Raised>, quiesce: Vec<VolumeId>) -> Ticket;

    /// Replaces the hosts that have PSKs, before any core gets a state in which others have keys: hosts without
    /// rights must not come back.
    fn set_tls_hosts(&self, hosts: TlsHosts);

    /// Answers the message of this number of a client's connection, or says why there is no answer.
    fn answer_files(&self, place: ClientPlace, number: u32, answer: Result<Box<[u8]>, Status>);

    /// Returns a message of a host that authenticates, once it is handled.
    fn answer_authentication(&self, asked: Authentication);

    /// Replaces the table of mirrors. Returns at once.
    fn publish_mirrors(&self, table: Arc<MirrorTable>, then: Then);

    /// Waits until nothing that a core has accepted or started on the mirror is under way at a device of
    /// this node. Returns at once.
    fn drain_mirror(&self, mirror: MirrorId, then: Then);

    /// Gives the cores the times until which reads of mirrors may be answered, since the machine's start.
    fn set_leases(&self, leases: &[(MirrorId, Nanos)]);

    /// Ends the connections of hosts, clients and other nodes, except those of primaries for replicas here.
    fn end_hosts(&self);

    /// Asks every core which parts of a mirror it has written: [`MirrorNews::Written`]. Returns at once.
    fn ask_written(&self, mirror: MirrorId, session: u32);

    /// Copies what differs to the replica with this session, in these parts of the mirror or everywhere.
    fn copy_mirror(&self, mirror: MirrorId, session: u32, scope: Option<Arc<Written>>);

    /// The number of cores.
    fn core_count(&self) -> u16;

    /// Answers a change that a session requested.
    fn answer(&self, by: AskedBy, result: ChangeResult);

    /// The current status. A core that does not answer in time is listed as silent.
    fn status(&self) -> RuntimeStatus;

    /// The hosts and initiators that are connected at this moment, and the clients that have a volume open;
    /// `None` if a core does not answer.
    fn connected(&self, volume: VolumeId) -> Option<Connected>;

    /// The processor of a core that has taken no messages for long: a change waits for it.
    fn silent(&self) -> Option<usize>;

    /// The processor and the figures of each core, in the order of the cores. No core is asked.
    fn readings(&self) -> Vec<(usize, Reading)>;

    /// Begins to trace requests on every core. An earlier trace is dropped. The ticket is over when every core has
    /// all the records that it may have.
    fn begin_trace(&self, spec: &TraceSpec) -> Ticket;

    /// Ends the trace. Returns the records of each core, in the order of the cores.
    fn end_trace(&self) -> Vec<CoreTrace>;

    /// Stops accepting hosts, finishes the requests in flight, flushes, answers, and ends every
    /// core. A second call does nothing. Returns whether everything was finished and flushed: the
    /// wait for a device that does not answer is bounded.
    #[must_use]
    fn drain_and_join(&self) -> bool;
}

/// The error of a core that could not be started.
#[derive(Debug)]
pub struct CoresError(Box<dyn std::error::Error + Send + Sync>);

impl CoresError {
    /// An error with this cause, whose text names the thing and the remedy in one line.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CoresError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The requests to trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceSpec {
    /// One in so many.
    pub every: u32,
    /// Only those to this volume.
    pub volume: Option<VolumeId>,
    /// The maximum number on each core.
    pub records_max: usize,
}

/// The traced requests of a core.
#[derive(Clone, Debug)]
pub struct CoreTrace {
    /// The processor.
    pub processor: usize,
    /// `None` if the core did not answer in time.
    pub traced: Option<Traced>,
}

/// The status of the cores.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuntimeStatus {
    /// One entry for each core that answered.
    pub cores: Vec<CoreStatus>,
    /// The processors of the cores that did not answer.
    pub silent: Vec<usize>,
    /// One entry for each controller.
    pub hosts: Vec<ConnectedHost>,
    /// One entry for each direct client, up to a limit.
    pub clients: Vec<ConnectedClient>,
    /// One entry for each iSCSI session.
    pub initiators: Vec<ConnectedInitiator>,
    /// The mirrors that are being copied, and how far each is.
    pub copies: Vec<(MirrorId, ByteLen)>,
    /// The use of each kind of places of hosts and clients.
    pub places: Vec<PlaceUse>,
}

/// The use of the places of one kind, over all cores.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlaceUse {
    /// The kind.
    pub kind: PlaceKind,
    /// The taken ones.
    pub used: u64,
    /// All of them.
    pub places: u64,
    /// Who has the most.
    pub holder: Option<String>,
    /// How many those are.
    pub held: u64,
}

/// The connected hosts and initiators, and the clients of a volume.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connected {
    /// One entry for each controller.
    pub hosts: Vec<ConnectedHost>,
    /// One entry for each iSCSI session.
    pub initiators: Vec<ConnectedInitiator>,
    /// One entry for each direct client that has the volume open, up to a limit on each core.
    pub clients: Vec<ConnectedClient>,
}

/// One core's counters since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CoreStatus {
    /// The processor.
    pub core: usize,
    /// The current number of TCP connections.
    pub connections: u64,
    /// The current number of requests in flight.
    pub in_flight: u64,
    /// The number of reads that succeeded.
    pub reads: u64,
    /// The number of writes that succeeded.
    pub writes: u64,
    /// The number of bytes read.
    pub read_bytes: u64,
    /// The number of bytes written.
    pub written_bytes: u64,
    /// The number of requests answered with an error.
    pub errors: u64,
    /// The free bytes of the buffer pool.
    pub pool_free_bytes: u64,
    /// The current number of direct clients.
    pub clients: u64,
}

/// The association of a host with a subsystem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedHost {
    /// The host's name.
    pub host: HostName,
    /// The subsystem's NQN.
    pub subsystem: Nqn,
    /// The source address of its admin queue.
    pub address: SocketAddr,
    /// The number of its I/O queues.
    pub io_queues: u32,
}

/// One iSCSI session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedInitiator {
    /// The initiator's name.
    pub initiator: String,
    /// The name of its target; `None` in a discovery session.
    pub target: Option<String>,
    /// The CHAP account that it authenticated as.
    pub user: Option<String>,
    /// The source address of its first connection.
    pub address: SocketAddr,
    /// The number of its connections.
    pub connections: u32,
    /// The processor that serves it.
    pub core: usize,
}

/// One direct client's connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedClient {
    /// Its address, or its process on this machine.
    pub from: String,
    /// The credential that it authenticated with; `None` for an anonymous client.
    pub credential: Option<String>,
    /// Whether its handshake is complete.
    pub is_in: bool,
    /// The processor that serves it.
    pub core: usize,
    /// The number of its unanswered requests.
    pub in_flight: u64,
}
