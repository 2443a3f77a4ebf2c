//! The configuration of the cores, and where their news go.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nearflash_config::HostAccess;
use nearflash_direct::serving::FilesDemand;
use nearflash_engine::{CoreId, Owner};
use nearflash_media::Device;
use nearflash_mirror::{Copied, MirrorId, Side, Written};
use nearflash_nvme::auth::Step;
use nearflash_nvme::serving::Life;
use nearflash_nvme::tls::TlsHosts;
use nearflash_publish::Served;
use nearflash_reactor::Ledger;
use nearflash_shard::{ClientPlace, Peer};
use nearflash_units::{ByteLen, Nanos};
use uuid::Uuid;

use crate::asker::Asker;
use crate::doors::OpenDoor;

/// The configuration that the cores start with.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// The processors to run on, one thread pinned to each; at least one.
    pub cores: Vec<usize>,
    /// Each core's buffer pool.
    pub(crate) pool_len: ByteLen,
    /// The longest time for which a core spins before it sleeps.
    pub(crate) spin_max: Nanos,
    /// The time that a connection may take to log in; `None` for each door's default.
    pub(crate) login_timeout: Option<Nanos>,
    /// The longest time for which a peer may accept no answers or send none of the data it owes.
    pub(crate) stall_timeout: Nanos,
    /// The time after which a core that takes no messages is silent.
    pub silent_after: Nanos,
    /// The devices; a `DeviceId` is an index into this list.
    pub devices: Vec<Arc<Device>>,
    /// The number by which other nodes learn that writes may be lost.
    pub(crate) boot: u64,
    /// The state that is served first.
    pub served: Served,
    /// The doors. The first door of NVMe/TCP is port 1 of the discovery log.
    pub(crate) doors: Vec<OpenDoor>,
    /// Whether the kernel handles the records of TLS, if it can.
    pub(crate) ktls: bool,
    /// The NVMe/TCP hosts that are admitted.
    pub hosts: HostAccess,
    /// The NVMe/TCP hosts that have PSKs.
    pub(crate) tls_hosts: TlsHosts,
    /// Identifies the node to hosts, or the cluster if all of its nodes serve the same subsystems: as the
    /// serial number.
    pub(crate) node: Uuid,
    /// The node's number in its cluster; 0 without a cluster. Its ports are numbered by it.
    pub(crate) ordinal: u16,
    /// The numbers of its NVMe controllers.
    pub(crate) controller_ids: RangeInclusive<u16>,
    /// The node's history for the health log.
    pub(crate) life: Life,
    /// Takes the counters of the cores.
    pub(crate) ledger: Arc<Ledger>,
    /// Takes their news.
    pub(crate) news: News,
}

/// Takes the news of the cores.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// Takes the sessions' requests for changes of a volume's shared state, and events for the thread that makes
    /// them.
    pub(crate) changes: Asker,
    /// Takes those about mirrors. Nobody does if the node has none.
    pub(crate) mirrors: OnMirrors,
    /// Takes the messages of clients for the owner of files. Nobody does if the node owns none, and its sessions
    /// refuse them.
    pub(crate) files: On<FilesNews>,
    /// Takes the messages of hosts that authenticate.
    pub(crate) authentication: On<Authentication>,
}

/// Takes something from the cores. It must return at once.
pub(crate) struct On<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> On<T> {
    /// It goes to this function.
    pub(crate) fn new(take: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, news: T) {
        (self.0)(news);
    }
}

/// Takes the news of the cores about mirrors.
pub(crate) type OnMirrors = On<MirrorNews>;

impl<T> Clone for On<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for On<T> {
    /// Nobody takes it.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl<T> fmt::Debug for On<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("On")
    }
}

/// A message of a host that authenticates. [`nearflash_shard::Message::Authenticated`] returns it.
#[derive(Clone, Debug)]
pub(crate) struct Authentication {
    /// The core of its connection.
    pub(crate) core: CoreId,
    /// The connection.
    pub(crate) owner: Owner,
    /// Its address.
    pub(crate) peer: Peer,
    /// The message, with the end that handles it.
    pub(crate) step: Box<Step>,
}

/// News of the cores about a mirror.
#[derive(Clone, Debug)]
pub(crate) enum MirrorNews {
    /// A device has failed a part of an operation.
    Failed {
        /// The mirror.
        mirror: MirrorId,
        /// The replica.
        side: Side,
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

/// News of a client for the owner of the files of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FilesNews {
    /// A message, which [`nearflash_shard::Message::FilesAnswered`] answers.
    Asked {
        /// The client's connection.
        place: ClientPlace,
        /// The message.
        demand: Box<FilesDemand>,
    },
    /// The connection has ended.
    Gone(ClientPlace),
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
