//! What a shard lets whoever runs the node know. Typed, so that the world decides how to say it.

use std::net::SocketAddr;

use nearflash_device::DeviceId;
use nearflash_engine::{CoreId, Counters, Owner};
use nearflash_iscsi::login::LoginStatus;
use nearflash_iscsi::serving::SessionStatus;
use nearflash_nvme::serving::{DisconnectReason, HostStatus};
use nearflash_nvme::{ControllerId, HostName, Status};
use nearflash_request::{Change, Identity, Nexus, Tag};
use nearflash_units::{ByteLen, ByteOffset};

use crate::door::Peer;
use crate::session::PeerError;

/// Something worth knowing.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The system refused a connection that a host wants. The listener tries again.
    AcceptFailed {
        /// The system's words.
        reason: String,
    },
    /// A new connection was refused because there are [`crate::CONNECTIONS_MAX`] already.
    TooManyConnections {
        /// Who was refused.
        peer: Peer,
    },
    /// The peer broke the protocol; its connection, and no other, is being closed.
    PeerError {
        /// Who.
        peer: Peer,
        /// How.
        error: PeerError,
    },
    /// A host neither took answers nor sent the data it promised; its connection is closed.
    Stalled {
        /// Who.
        peer: Peer,
    },
    /// A host's Connect was refused.
    ConnectRefused {
        /// Who.
        peer: Peer,
        /// The status it was given.
        status: Status,
    },
    /// A controller's host is connected.
    ControllerConnected {
        /// Which.
        controller: ControllerId,
        /// From where.
        peer: Peer,
        /// The host's name.
        host: HostName,
    },
    /// A controller's admin connection is gone.
    ControllerGone {
        /// Which.
        controller: ControllerId,
        /// The host's name; `None` when the controller is already gone.
        host: Option<HostName>,
    },
    /// A controller, or queues of it, are being ended.
    Disconnecting {
        /// Whose.
        controller: ControllerId,
        /// The host's name; `None` when the controller is already gone.
        host: Option<HostName>,
        /// Why.
        reason: DisconnectReason,
    },
    /// A direct client is in.
    ClientConnected {
        /// From where.
        peer: Peer,
        /// The key it came with; none of an anonymous one.
        key: Option<Box<str>>,
    },
    /// A direct client that was in is gone, and so is every request it had.
    ClientGone {
        /// From where it came.
        peer: Peer,
        /// The key it came with.
        key: Option<Box<str>>,
    },
    /// A device failed an operation. Whoever asked for it is told as well.
    DeviceFailed {
        /// Which.
        device: DeviceId,
        /// From where on it what failed is.
        offset: ByteOffset,
        /// The system's number for why; 0 when the device ended before it should have.
        errno: i32,
        /// It was a flush or a durable write: what was acknowledged before may be lost.
        loses: bool,
    },
    /// An initiator is logged in.
    LoggedIn {
        /// From where.
        peer: Peer,
        /// What it calls itself.
        initiator: Box<str>,
        /// To what; none when it only asks what there is.
        target: Option<Box<str>>,
        /// The CHAP user that it proved to be.
        account: Option<Box<str>>,
    },
    /// An initiator that had proved itself was not let in.
    LoginRefused {
        /// From where.
        peer: Peer,
        /// What it calls itself.
        initiator: Box<str>,
        /// What it was answered.
        status: LoginStatus,
    },
    /// An initiator's session is over, and every request of it.
    SessionOver {
        /// Who it was, as reservations know it.
        nexus: Nexus,
        /// The same in the protocol's names.
        identity: Identity,
    },
    /// A session asks for a change of what all sessions of a volume share. Answered by
    /// [`crate::Message::Changed`].
    Change {
        /// The session's core.
        core: CoreId,
        /// The session.
        owner: Owner,
        /// What it knows the change by.
        tag: Tag,
        /// What it asks for.
        change: Box<Change>,
    },
    /// Answers [`crate::Message::Raise`].
    Raised(CoreId, u64),
    /// Answers [`crate::Message::Volumes`], [`crate::Message::Direct`] and [`crate::Message::Iscsi`]:
    /// the core goes by them.
    Shown(CoreId, u64),
    /// Answers the same, and [`crate::Message::Quiesce`]: nothing is under way any more that the older
    /// state allowed, on the volumes that the change is about.
    Quiesced(CoreId, u64),
    /// Answers [`crate::Message::Exports`].
    NamespacesTaken(u64),
    /// Answers [`crate::Message::ReportStatus`].
    Status(CoreId, u64, Box<ShardStatus>),
    /// The shard was told to drain and has nothing left.
    Drained(CoreId),
}

/// How one core is.
#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    /// Connections of every kind.
    pub connections: usize,
    /// Requests in flight.
    pub requests_in_flight: usize,
    /// What was answered since the start.
    pub counters: Counters,
    /// Bytes received from hosts since the start, protocol included.
    pub received: ByteLen,
    /// Bytes sent to hosts since the start, protocol included.
    pub sent: ByteLen,
    /// The size of the buffer pool.
    pub pool_len: ByteLen,
    /// How much of it is not taken.
    pub pool_free: ByteLen,
    /// The connected hosts. Only from the first core.
    pub hosts: Vec<ConnectedHost>,
    /// How many direct clients are connected.
    pub client_count: usize,
    /// The first thousand of them.
    pub clients: Vec<ConnectedClient>,
    /// The sessions of initiators. Only from the first core.
    pub initiators: Vec<ConnectedInitiator>,
}

/// An initiator's session.
#[derive(Clone, Debug)]
pub struct ConnectedInitiator {
    /// Where its first connection came from.
    pub peer: SocketAddr,
    /// Who it is, and what it has.
    pub status: SessionStatus,
}

/// A host with a controller.
#[derive(Clone, Debug)]
pub struct ConnectedHost {
    /// Where its admin queue comes from.
    pub peer: SocketAddr,
    /// Who it is, and what it has.
    pub status: HostStatus,
}

/// A direct client.
#[derive(Clone, Debug)]
pub struct ConnectedClient {
    /// Where it comes from.
    pub peer: Peer,
    /// The key it came with; `None` for an anonymous one, and before the handshake is over.
    pub key: Option<Box<str>>,
    /// The handshake is over.
    pub is_ready: bool,
    /// It shares memory with the node.
    pub has_rings: bool,
    /// What it asked for and was not answered yet.
    pub requests_in_flight: usize,
}
