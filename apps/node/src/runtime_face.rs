//! The face between the node's control side and the cores that serve: what the cores are started
//! with, what changes while they run, and what they report.
//!
//! The control side knows configuration, catalog and control socket; the cores know sessions and
//! requests. Each knows only this of the other.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use nearflash_access::{ChapAccount, Rights, Secret};
use nearflash_engine::{CoreId, Owner};
use nearflash_media::Device;
use nearflash_nvme::serving::Life;
use nearflash_nvme::{HostName, NamespaceId, Nqn};
use nearflash_request::{Change, ChangeResult, Identity, Modes, Nexus, Raised, Tag, VolumeId};
use nearflash_space::{Epoch, Name, VolumeTable};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Nanos};
use uuid::Uuid;

use crate::config::{Admits, Protocol};
use crate::{InitiatorName, Ticket};

/// What the cores are started with.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// The processors to run on, one thread pinned to each; at least one.
    pub cores: Vec<usize>,
    /// Each core's buffer pool.
    pub pool_len: ByteLen,
    /// How long a connection may take to log in, if not as long as each door's default.
    pub login_timeout: Option<Nanos>,
    /// The devices; a `DeviceId` is the place in this list.
    pub devices: Vec<Arc<Device>>,
    /// What is served first.
    pub published: Published,
    /// The doors. The first of NVMe/TCP has port 1 of the discovery log.
    pub doors: Vec<OpenDoor>,
    /// The NVMe/TCP hosts that are admitted.
    pub hosts: HostAccess,
    /// The iSCSI initiators that are admitted.
    pub initiators: InitiatorAccess,
    /// Where sessions' changes of what all sessions of a volume share go: each is answered with
    /// [`Runtime::answer`].
    pub changes: Asker,
    /// Identifies the node to hosts, as the serial number and in the discovery log.
    pub node: Uuid,
    /// How the node has lived, and where its cores count what they do with volumes.
    pub life: Life,
}

/// An open door.
#[derive(Debug)]
pub struct OpenDoor {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Bound, listening and non-blocking.
    pub socket: DoorSocket,
    /// Whom it admits.
    pub admits: Admits,
}

/// A door's socket.
#[derive(Debug)]
pub enum DoorSocket {
    /// For any machine.
    Tcp {
        /// The socket.
        listener: TcpListener,
        /// The address that discovery names: the bound one, or the one that `--advertise` gives. An
        /// unspecified IP (`0.0.0.0`) stands for the one that the peer connected to.
        advertise: SocketAddr,
    },
    /// For this machine. The file's owner is whom it admits.
    Local(UnixListener),
}

/// Which hosts are admitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAccess {
    /// Every one.
    Any,
    /// Those of these names.
    Only(Arc<[Nqn]>),
}

impl HostAccess {
    /// Whether a host of that name is let in.
    pub fn admits(&self, host: &Nqn) -> bool {
        match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.contains(host),
        }
    }
}

/// Which initiators are let in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InitiatorAccess {
    /// Every one.
    Any,
    /// Those of these names.
    Only(Arc<[InitiatorName]>),
}

/// What is served: replaced whole, never changed.
#[derive(Clone, Debug)]
pub struct Published {
    /// What each core needs of the volumes.
    pub volumes: Arc<VolumeTable>,
    /// What hosts see of them, ordered by subsystem and namespace.
    pub namespaces: Arc<[Namespace]>,
    /// What direct clients reach of them.
    pub direct: Arc<DirectAccess>,
    /// What iSCSI initiators reach of them, and what they prove themselves with.
    pub iscsi: Arc<IscsiAccess>,
}

/// What iSCSI initiators may do: replaced whole, never changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IscsiAccess {
    /// Every target, by name.
    pub targets: Vec<IscsiTarget>,
    /// Every CHAP user. As long as there is none, the anonymous doors ask for no proof.
    pub accounts: Vec<ChapAccount>,
}

/// A subsystem as initiators see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IscsiTarget {
    /// Its iSCSI name.
    pub name: String,
    /// What people call it.
    pub alias: Name,
    /// Its logical units, by number.
    pub units: Vec<IscsiUnit>,
}

/// A volume as initiators see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IscsiUnit {
    /// Its number, from 0.
    pub lun: u16,
    /// The volume behind it.
    pub volume: VolumeId,
    /// What people call it.
    pub name: Name,
    /// Its identity.
    pub uuid: Uuid,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// How many it has.
    pub blocks: Blocks,
    /// Completed writes may be lost with power until a flush.
    pub volatile_cache: bool,
    /// Deallocated blocks are released.
    pub deallocates: bool,
    /// It keeps all its storage, whatever is deallocated.
    pub is_thick: bool,
    /// What initiators have changed.
    pub modes: Modes,
    /// Which of its layouts this is.
    pub epoch: Epoch,
}

/// What the cores ask of the control side.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A session asks for a change.
    Change {
        /// Who is to be answered.
        by: AskedBy,
        /// What is to change.
        change: Box<Change>,
    },
    /// A session is over, and every request of it.
    SessionOver {
        /// Who it was.
        nexus: Nexus,
        /// The same in its protocol's names.
        identity: Identity,
    },
}

/// What happens to the thread that makes changes.
#[derive(Debug)]
pub(crate) enum Event {
    /// A core asks.
    Asked(Asked),
    /// The ticket of the change of that number is over.
    Over(u64),
    /// The space of that number is written by no older request any more.
    Freed(u64),
    /// A device is suspect.
    Suspect,
    /// The node ends.
    End,
}

/// Asks the control side. Each core has at most
/// [`nearflash_shard::CHANGES_PER_VOLUME_MAX`] changes of a volume unanswered, which bounds the queue.
#[derive(Clone, Debug)]
pub struct Asker(Sender<Event>);

impl Asker {
    pub(crate) fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Asks. Nobody hears it when the node has ended.
    pub fn ask(&self, asked: Asked) {
        self.tell(Event::Asked(asked));
    }

    pub(crate) fn tell(&self, event: Event) {
        let _ = self.0.send(event);
    }
}

/// Which session asked, and what it knows its change by.
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

/// Who of the direct clients may do what: replaced whole, never changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DirectAccess {
    /// Every volume, by name.
    pub volumes: Vec<DirectVolume>,
    /// Every credential, by key id. As long as there is none, the anonymous doors give all.
    pub credentials: Vec<DirectCredential>,
}

/// A volume as direct clients see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectVolume {
    /// What they open.
    pub name: Name,
    /// The volume behind it.
    pub volume: VolumeId,
    /// Its identity.
    pub uuid: Uuid,
    /// Its size.
    pub len: ByteLen,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// Which of its layouts this is.
    pub epoch: Epoch,
}

/// A credential, and what it gives now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectCredential {
    /// Its key id.
    pub id: Name,
    /// What the client proves that it knows.
    pub secret: Secret,
    /// Nobody is let in by it any more.
    pub is_expired: bool,
    /// What it gives; none that has expired.
    pub grants: Vec<DirectGrant>,
}

/// A range of a volume that may be read, and perhaps written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirectGrant {
    /// Of which volume.
    pub volume: VolumeId,
    /// Its first byte.
    pub start: ByteOffset,
    /// The first byte behind it.
    pub end: ByteOffset,
    /// What may be done.
    pub rights: Rights,
}

/// A volume as hosts see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Namespace {
    /// The subsystem it is in.
    pub subsystem: Nqn,
    /// Its number there.
    pub nsid: NamespaceId,
    /// Its identity.
    pub uuid: Uuid,
    /// The volume behind it.
    pub volume: VolumeId,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// How many it has.
    pub blocks: Blocks,
    /// What its device writes at once.
    pub device_block_size: BlockSize,
    /// Completed writes may be lost with power until a flush.
    pub volatile_cache: bool,
    /// Deallocated blocks are released.
    pub deallocates: bool,
}

/// The running cores.
///
/// Each call that shows the cores something returns as soon as every core goes by it: a device that
/// hangs does not hold it up. The ticket is over when the requests have ended that the older state had
/// allowed, on the volumes that the change is about.
pub trait Runtime: Send + Sync {
    /// Replaces what is served, and tells connected hosts what changed. Before the ticket is over,
    /// space that the new table no longer names must not be given to another volume.
    fn publish(&self, published: Published) -> Ticket;

    /// Replaces what each core needs of the volumes, and nothing that hosts see.
    fn publish_volumes(&self, volumes: Arc<VolumeTable>) -> Ticket;

    /// The ticket is over when every request on these volumes has ended that came before.
    fn quiesce(&self, volumes: &[VolumeId]) -> Ticket;

    /// Tells sessions what happened. Returns when every core has told its own.
    fn raise(&self, raised: Vec<Raised>);

    /// Answers a change that a session asked for.
    fn answer(&self, by: AskedBy, result: ChangeResult);

    /// Replaces what direct clients may do. What was revoked has no effect any more when the ticket is
    /// over.
    fn publish_direct(&self, direct: Arc<DirectAccess>) -> Ticket;

    /// Replaces what iSCSI initiators reach and prove themselves with. The ticket is over when the
    /// sessions that the new accounts do not admit have ended, and their requests.
    fn publish_iscsi(&self, iscsi: Arc<IscsiAccess>) -> Ticket;

    /// How things are now. A core that does not answer soon is named in its place.
    fn status(&self) -> RuntimeStatus;

    /// Who is connected, as whoever lets everyone in knows at this moment; none when it does not
    /// answer.
    fn connected(&self) -> Option<Connected>;

    /// Stops letting hosts in, finishes what is in flight, flushes, answers, and ends every core.
    /// Afterwards nothing happens any more; a second call does nothing. Whether all of that
    /// was done: a device that does not answer is not waited for without end.
    #[must_use]
    fn drain_and_join(&self) -> bool;
}

/// Why the cores could not be started.
#[derive(Debug)]
pub struct StartError(Box<dyn std::error::Error + Send + Sync>);

impl StartError {
    /// From the cause, whose text names the thing and the remedy in one line.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(cause))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// How the cores are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuntimeStatus {
    /// One entry for each core that answered.
    pub cores: Vec<CoreStatus>,
    /// The processors of those that did not.
    pub silent: Vec<usize>,
    /// One entry for each controller that a host has.
    pub hosts: Vec<ConnectedHost>,
    /// One entry for each direct client; where there are very many, for the first of them.
    pub clients: Vec<ConnectedClient>,
    /// One entry for each iSCSI session.
    pub initiators: Vec<ConnectedInitiator>,
}

/// Who is connected to something.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connected {
    /// One entry for each controller that a host has.
    pub hosts: Vec<ConnectedHost>,
    /// One entry for each iSCSI session.
    pub initiators: Vec<ConnectedInitiator>,
}

/// One core's counters since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CoreStatus {
    /// The processor.
    pub core: usize,
    /// TCP connections now.
    pub connections: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Reads answered.
    pub reads: u64,
    /// Writes answered.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// The pool's bytes not taken.
    pub pool_free_bytes: u64,
    /// Direct clients now.
    pub clients: u64,
}

/// One host's association with a subsystem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedHost {
    /// The host's name.
    pub host: HostName,
    /// What it is connected to.
    pub subsystem: Nqn,
    /// Where its admin queue comes from.
    pub address: SocketAddr,
    /// How many I/O queues it has.
    pub io_queues: u32,
}

/// One iSCSI session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedInitiator {
    /// What the initiator calls itself.
    pub initiator: String,
    /// What it is logged in to; none, when it only asks what there is.
    pub target: Option<String>,
    /// The CHAP user that it came in by.
    pub user: Option<String>,
    /// Where its first connection comes from.
    pub address: SocketAddr,
    /// How many it has.
    pub connections: u32,
    /// The processor that serves it.
    pub core: usize,
}

/// One direct client's connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectedClient {
    /// Its address, or its process on this machine.
    pub from: String,
    /// The credential that it came in by; none when it is anonymous.
    pub credential: Option<String>,
    /// It has been let in.
    pub is_in: bool,
    /// The processor that serves it.
    pub core: usize,
    /// What it asked for and was not answered yet.
    pub in_flight: u64,
}
