//! Notices: the events that a shard reports to the node's operator and its control plane. They are
//! typed; the world decides on their wording.

use std::net::SocketAddr;

use nearflash_device::{DeviceId, DeviceResult};
use nearflash_direct::serving::FilesDemand;
use nearflash_engine::{CoreId, Opened, Owner, Traced};
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_iscsi::serving::SessionStatus;
use nearflash_mirror::{Copied, MirrorId, Side, Written};
use nearflash_nvme::auth::{Hash, Step};
use nearflash_nvme::serving::{DisconnectReason, HostStatus, Refusal};
use nearflash_nvme::tls::Suite;
use nearflash_nvme::{ControllerId, HostName, Nqn};
use nearflash_request::{Change, Identity, Nexus, Tag};
use nearflash_session::PlacesUsed;
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::claim::Claim;
use crate::door::Peer;
use crate::gauges::Protocol;
use crate::message::ClientPlace;
use crate::peers::LinkError;
use crate::places::PlaceKind;
use crate::session::PeerError;
use crate::tls::TlsFault;

/// An event that a shard reports, or its answer to a [`crate::Message`].
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Notice {
    /// The system refused a connection that a host wants. The listener tries again.
    AcceptFailed(String),
    /// A peer got no place, or another one had to give it up. Told at most once a minute for each kind.
    PlacesTaken { kind: PlaceKind, used: Box<PlacesUsed> },
    /// The peer violated the protocol, or was refused; only its connection is being closed.
    PeerError {
        peer: Peer,
        error: PeerError,
        /// The claims of a peer that was not let in; `None` for one that was.
        claim: Option<Box<Claim>>,
    },
    /// A peer has given its name, and has gone before it was let in or refused.
    Abandoned { peer: Peer, protocol: Protocol, claim: Box<Claim> },
    /// A peer neither took answers nor sent the data it owes; its connection is closed.
    Stalled(Peer),
    /// The core took no turn for this time: its machine or its process stood still, or one of its calls did.
    StoodStill(CoreId, Nanos),
    /// A connection to an address with TLS failed; it is closed.
    TlsFailed {
        peer: Peer,
        protocol: Protocol,
        /// The identity that the peer has sent, escaped; `None` if it has sent none.
        identity: Option<Box<str>>,
        /// The hash that the identity names; only those of NVMe hosts do.
        hash: Option<Hash>,
        fault: TlsFault,
    },
    /// A connection with TLS uses the PSK that a new one of the host has replaced.
    PreviousPsk { peer: Peer, host: Nqn },
    /// A host's Connect was refused.
    ConnectRefused { peer: Peer, refusal: Refusal, claim: Box<Claim> },
    /// A controller's host is connected.
    ControllerConnected {
        controller: ControllerId,
        peer: Peer,
        host: HostName,
        /// The cipher suite of its admin queue; `None` without TLS.
        suite: Option<Suite>,
    },
    /// A controller's admin connection is gone.
    ControllerGone {
        controller: ControllerId,
        /// The host's name; `None` when the controller is already gone.
        host: Option<HostName>,
    },
    /// A controller, or some of its queues, are being disconnected.
    Disconnecting {
        controller: ControllerId,
        /// The host's name; `None` when the controller is already gone.
        host: Option<HostName>,
        reason: DisconnectReason,
    },
    /// A direct client is connected.
    ClientConnected {
        peer: Peer,
        /// The key that it authenticated with; `None` for an anonymous client.
        key: Option<Box<str>>,
        /// Whether the connection uses TLS.
        is_secured: bool,
    },
    /// A direct client is disconnected, and all its requests have ended.
    ClientGone { peer: Peer, key: Option<Box<str>> },
    /// A direct client asked for a volume that it may not use. Only so often for one connection.
    VolumeRefused { peer: Peer, claim: Box<Claim> },
    /// A device failed an operation. The requester gets an error too.
    DeviceFailed {
        device: DeviceId,
        /// The offset of the failed operation on the device.
        offset: ByteOffset,
        /// The system's error number; 0 if the device was shorter than expected.
        errno: i32,
        /// The operation was a flush or a durable write: writes acknowledged before may be lost.
        loses: bool,
    },
    /// A device is at the end of its life, and has refused an operation. The requester gets an error
    /// too.
    DeviceWornOut(DeviceId),
    /// This core has a connection to another node.
    NodeReached(SocketAddr),
    /// This core cannot use another node, or a volume of it. Told once until the node is reached.
    NodeLost { address: SocketAddr, error: LinkError },
    /// A volume of another node has another size there.
    RemoteResized { device: DeviceId, bytes: u64 },
    /// A replica of a mirror has failed, and operations on the mirror wait for it. Told at once, and then
    /// at most once a second as long as it goes on.
    ReplicaFailed {
        mirror: MirrorId,
        result: DeviceResult,
        /// The replica.
        side: Side,
    },
    /// The device of this node could not read a range of a mirror. The bytes were read from the other
    /// replica and written back. Told at once, and then at most once a second for each mirror.
    ReadRepaired { mirror: MirrorId },
    /// The last replica in sync of a mirror has lost its power, and writes that this node had answered may be
    /// lost. Flushes and durable writes of the volume fail on this node until the device that is the mirror is
    /// cleared. Each core tells what it finds first.
    MirrorWritesLost { mirror: MirrorId },
    /// Answers [`crate::Message::TellWritten`].
    MirrorWritten {
        mirror: MirrorId,
        /// The session of the question.
        session: u32,
        written: Box<Written>,
    },
    /// Answers [`crate::Message::CopyMirror`]: the other replica has everything.
    MirrorCopied(Copied),
    /// Answers [`crate::Message::AwaitMirrors`].
    MirrorsDrained(CoreId, u64),
    /// An initiator is logged in.
    LoggedIn {
        peer: Peer,
        initiator: Box<str>,
        /// The target's name; `None` in a discovery session.
        target: Option<Box<str>>,
        account: Option<Box<str>>,
    },
    /// The login of an authenticated initiator was refused.
    LoginRefused { peer: Peer, status: LoginStatus, claim: Box<Claim> },
    /// An initiator's session and all its requests have ended.
    SessionOver { nexus: Nexus, identity: Identity },
    /// A session asks for a change of a volume. Answered by [`crate::Message::Changed`].
    Change { core: CoreId, owner: Owner, tag: Tag, change: Box<Change> },
    /// A host has sent a message of its authentication. Answered by [`crate::Message::Authenticated`].
    Authentication { core: CoreId, owner: Owner, peer: Peer, step: Box<Step> },
    /// A direct client has a message for the owner of the files of a volume. Answered by
    /// [`crate::Message::FilesAnswered`].
    Files { place: ClientPlace, demand: Box<FilesDemand> },
    /// The connection of a client that has sent such messages is gone.
    FilesGone(ClientPlace),
    /// Answers [`crate::Message::Serve`], and all earlier ones: the core serves by it.
    Shown(CoreId, u64),
    /// Answers [`crate::Message::Serve`], and no earlier one: no older request that it waits for is in flight.
    Quiesced(CoreId, u64),
    /// Answers [`crate::Message::Mirrors`]: the core has adopted them.
    MirrorsShown(CoreId, u64),
    /// This core's counters of a host on a volume. They precede the first answer that they count.
    Meter(CoreId, Opened),
    /// Answers [`crate::Message::ReportStatus`].
    Status(CoreId, u64, Box<ShardStatus>),
    /// Answers [`crate::Message::TellUsers`]: the clients that have the volume open, up to
    /// [`crate::USERS_MAX`].
    Users(CoreId, u64, Box<[ConnectedClient]>),
    /// All records of this core's trace with this number are complete, and it traces no more requests.
    TraceComplete(CoreId, u64),
    /// Answers [`crate::Message::EndTrace`].
    Traced(CoreId, u64, Box<Traced>),
    /// The shard was told to drain and has no connections or requests left.
    Drained(CoreId),
}

/// The status of one core.
#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    /// Connections of every kind.
    pub connections: usize,
    /// Requests in flight.
    pub requests_in_flight: usize,
    /// The free bytes of the buffer pool.
    pub pool_free: ByteLen,
    /// The mirrors that this core copies to a replica that returns, and how far each is.
    pub copies: Vec<(MirrorId, ByteLen)>,
    /// The connected hosts. Only from the first core.
    pub hosts: Vec<ConnectedHost>,
    /// The number of connected direct clients.
    pub client_count: usize,
    /// The first thousand of them.
    pub clients: Vec<ConnectedClient>,
    /// The sessions of initiators. Only from the first core.
    pub initiators: Vec<ConnectedInitiator>,
    /// The use of places.
    pub places: Vec<(PlaceKind, PlacesUsed)>,
}

/// An initiator's session.
#[derive(Clone, Debug)]
pub struct ConnectedInitiator {
    /// The address of its first connection.
    pub peer: SocketAddr,
    /// Its identity and its resources.
    pub status: SessionStatus,
}

/// A host with a controller.
#[derive(Clone, Debug)]
pub struct ConnectedHost {
    /// The address of its admin queue's connection.
    pub peer: SocketAddr,
    /// Its identity and its resources.
    pub status: HostStatus,
}

/// A direct client.
#[derive(Clone, Debug)]
pub struct ConnectedClient {
    /// Its address.
    pub peer: Peer,
    /// The key of its credential; `None` when anonymous, or before the handshake is over.
    pub key: Option<Box<str>>,
    /// The handshake is over.
    pub is_ready: bool,
    /// The requests that have not been answered yet.
    pub requests_in_flight: usize,
}
