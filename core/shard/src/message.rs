//! The messages that cores and the control plane send to a core. All state that cores share travels
//! as such messages, over bounded queues.

use std::sync::Arc;

use nearflash_direct::Status;
use nearflash_direct::serving::ClientIdentity;
use nearflash_engine::{CoreId, FenceMessage, Owner, TraceOrder};
use nearflash_iscsi::serving as iscsi;
use nearflash_mirror::{MirrorId, MirrorMessage, MirrorTable, Written};
use nearflash_nvme::auth::Step;
use nearflash_nvme::{ControllerId, NamespaceTable, QueueId};
use nearflash_publish::Publication;
use nearflash_request::{ChangeResult, Tag, VolumeId};
use nearflash_units::Nanos;

use crate::connection::Connection;
use crate::seals::RevokeOrder;

/// A direct client's connection and its core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientPlace {
    /// Its core.
    pub core: CoreId,
    /// The connection on that core.
    pub owner: Owner,
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
    /// From the control plane, to every core: the state to serve from now on. Answered by
    /// [`crate::Notice::Shown`] in the same turn, and by [`crate::Notice::Quiesced`] when no older request is
    /// left that it waits for (`serve.rs`). The first core gets it when every other core has shown it.
    Serve(Arc<Publication>),
    /// From the control plane, to every core: the mirrors. Answered by
    /// [`crate::Notice::MirrorsShown`].
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
