//! The messages that cores and the control plane send to a core. All state that cores share travels
//! as such messages, over bounded queues.

use std::sync::Arc;

use nearflash_device::{DeviceProperties, Health};
use nearflash_direct::Status;
use nearflash_direct::serving;
use nearflash_direct::serving::ClientIdentity;
use nearflash_engine::{CoreId, FenceMessage, Owner, TraceOrder};
use nearflash_iscsi::serving as iscsi;
use nearflash_mirror::{DeviceKind, MirrorId, MirrorMessage, MirrorTable, Written};
use nearflash_nvme::auth::Step;
use nearflash_nvme::hosts::KeyedHosts;
use nearflash_nvme::serving::{NamespaceConfig, Port};
use nearflash_nvme::{ControllerId, NamespaceTable, QueueId};
use nearflash_request::{ChangeResult, HostRights, Raised, Tag, VolumeId};
use nearflash_space::VolumeTable;
use nearflash_units::Nanos;

use crate::connection::Connection;
use crate::peers::PeerConfig;
use crate::seals::RevokeOrder;

/// A direct client's connection and its core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientPlace {
    /// Its core.
    pub core: CoreId,
    /// The connection on that core.
    pub owner: Owner,
}

/// The devices of a node.
#[derive(Debug)]
pub struct Devices {
    /// Their properties, by number.
    pub properties: Arc<[DeviceProperties]>,
    /// Their health, by the same number.
    pub health: Arc<[Arc<Health>]>,
    /// Their kinds, by the same number. The local ones come first.
    pub kinds: Arc<[DeviceKind]>,
    /// Other nodes. Each remote device is a volume of one of them.
    pub peers: Vec<PeerConfig>,
}

/// The exports of a node to NVMe hosts.
#[derive(Clone, Debug, Default)]
pub struct HostExports {
    /// The namespaces.
    pub namespaces: Vec<NamespaceConfig>,
    /// The rights of hosts on them.
    pub rights: Arc<HostRights>,
    /// The ports of other nodes, at which the namespaces of the cluster are, too.
    pub elsewhere: Arc<[Port]>,
}

/// A message to a core.
#[derive(Debug)]
pub enum Message {
    /// From the first core: this connection lives on your core.
    Adopt(Box<Connection>),
    /// About a fence.
    Fence(FenceMessage),
    /// From the first core: the controller, or one of its queues, has ended.
    Disconnect(ControllerId, Option<QueueId>),
    /// From the first core: the new namespaces of the controller's queues.
    Namespaces(ControllerId, Arc<NamespaceTable>),
    /// To the first core: a queue's connection is gone, and all its requests have ended.
    QueueClosed(ControllerId, QueueId),
    /// From the control plane, to every core: the devices, which are those before and further ones that
    /// are not local. Answered by [`crate::Notice::Shown`].
    Devices(u64, Arc<Devices>),
    /// From the control plane, to every core: the mirrors. Answered by [`crate::Notice::Shown`].
    Mirrors(u64, Arc<MirrorTable>),
    /// From the control plane, to every core: wait until everything that this core has accepted for the
    /// replicas of these mirrors is on its device. Answered by [`crate::Notice::MirrorsDrained`].
    AwaitMirrors(u64, Arc<[MirrorId]>),
    /// From the control plane, to every core: the machine's clock stood still, so that the input of hosts is older
    /// than this core can tell. Their connections end before anything more is received.
    EndHosts,
    /// From the control plane, to every core: until when reads of mirrors may be answered.
    Leases(Arc<[(MirrorId, Nanos)]>),
    /// From the control plane, to every core: tell which parts of the mirror this core has written, for the copy
    /// of this session. Answered by [`crate::Notice::MirrorWritten`].
    TellWritten(MirrorId, u32),
    /// From the control plane, to every core: copy what differs to the replica that has this session, in these
    /// parts of the mirror or everywhere. Answered by the core that owns the mirror, by
    /// [`crate::Notice::MirrorCopied`].
    CopyMirror(MirrorId, u32, Option<Arc<Written>>),
    /// From another core, about the locks of a mirror.
    Mirror(MirrorMessage),
    /// From the control plane, to every core: the new volumes. Answered by [`crate::Notice::Shown`]
    /// at once, and by [`crate::Notice::Quiesced`] when no request is left that began with an older
    /// entry of its volume.
    Volumes(u64, Arc<VolumeTable>),
    /// From the control plane, to the first core, once every core has the volumes: the new exports to
    /// NVMe hosts. Answered by [`crate::Notice::NamespacesTaken`] with the same number.
    Exports(u64, HostExports),
    /// From the control plane, to every core, once every core has the volumes: the new exports to
    /// direct clients. Answered by [`crate::Notice::Shown`] at once, and by
    /// [`crate::Notice::Quiesced`] when no request is left that began on a volume whose access
    /// rights have changed.
    Direct(u64, Arc<serving::Exports>),
    /// To the first core: a direct client's connection claims an identity. Answered by
    /// [`Self::Claimed`] when no request of earlier connections is in flight.
    Claim(Box<ClientIdentity>, ClientPlace),
    /// From the first core: the claim of this connection of yours is answered.
    Claimed(Owner),
    /// From the first core: end this connection of a direct client; another one claims its identity.
    EndClient(Owner),
    /// To the first core: a connection that claimed an identity is gone, and all its requests have
    /// ended.
    ClientGone(Box<ClientIdentity>, ClientPlace),
    /// To every core: these seals are void. Answered by [`Self::Revoked`] when nothing that they allowed
    /// is under way on the core.
    Revoke(Box<RevokeOrder>),
    /// To the core that asked for the revocation of this number: it is done on another one.
    Revoked(u64),
    /// From the first core: end this connection of an initiator.
    EndConnection(iscsi::ConnectionPlace),
    /// To the first core: a connection of an initiator's session is gone, and all its requests have
    /// ended.
    InitiatorGone {
        /// The session.
        tsih: u16,
        /// The connection in it.
        cid: u16,
    },
    /// From the control plane, to every core, once every core has the volumes: the new exports to
    /// initiators. Answered by [`crate::Notice::Shown`] at once, and by
    /// [`crate::Notice::Quiesced`]: by the first core when the sessions have ended that the new
    /// accounts do not admit.
    Iscsi(u64, Arc<iscsi::Exports>),
    /// From the control plane, to every core: wait for earlier requests on these volumes. Answered
    /// by [`crate::Notice::Quiesced`] when they have ended.
    Quiesce(u64, Arc<[VolumeId]>),
    /// From the control plane, to every core: tell sessions. Answer: [`crate::Notice::Raised`].
    Raise(u64, Arc<[Raised]>),
    /// From the control plane, to the first core: the hosts that have keys. Answered by
    /// [`crate::Notice::Shown`].
    KeyedHosts(u64, Arc<KeyedHosts>),
    /// From the control plane: the step of an authentication that a session of this core handed out.
    Authenticated(Owner, Box<Step>),
    /// From the control plane: the result of a change that a session of this core asked for.
    Changed(Owner, (VolumeId, Tag), ChangeResult),
    /// From the control plane: the answer of the owner of files to the message of this number, or the reason
    /// why it does not answer.
    FilesAnswered(Owner, (u32, Result<Box<[u8]>, Status>)),
    /// From the control plane, to every core: report the status, by [`crate::Notice::Status`].
    ReportStatus(u64),
    /// From the control plane, to every core: report the direct clients that have a volume open, by
    /// [`crate::Notice::Users`].
    TellUsers(u64, VolumeId),
    /// From the control plane, to every core: trace requests, and drop the records of an earlier trace.
    Trace(Box<TraceOrder>),
    /// From the control plane, to every core: trace no more requests, and return the records of those so far, by
    /// [`crate::Notice::Traced`].
    EndTrace(u64),
    /// From the control plane, to every core: accept nothing new, answer the requests in flight,
    /// then send [`crate::Notice::Drained`]. The core keeps running, since other cores may need it
    /// to finish theirs.
    Drain,
    /// From the control plane, to every core: stop.
    Stop,
}
