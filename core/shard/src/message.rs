//! What cores, and the control plane, say to a core. Everything that is shared travels as one of
//! these over a bounded queue.

use std::sync::Arc;

use nearflash_direct::serving;
use nearflash_direct::serving::Lineage;
use nearflash_engine::{CoreId, FenceMessage, Owner};
use nearflash_iscsi::serving as iscsi;
use nearflash_nvme::serving::NamespaceConfig;
use nearflash_nvme::{ControllerId, NamespaceTable, QueueId};
use nearflash_request::{ChangeResult, Raised, Tag, VolumeId};
use nearflash_space::VolumeTable;

use crate::connection::Connection;

/// A direct client's connection, and where it lives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientPlace {
    /// Its core.
    pub core: CoreId,
    /// Which there.
    pub owner: Owner,
}

/// Something said to a core.
#[derive(Debug)]
pub enum Message {
    /// From the first core: this connection lives on your core.
    Adopt(Box<Connection>),
    /// About a fence.
    Fence(FenceMessage),
    /// From the first core: the controller, or one queue of it, is no more.
    Disconnect(ControllerId, Option<QueueId>),
    /// From the first core: what the controller's queues may reach from now on.
    Namespaces(ControllerId, Arc<NamespaceTable>),
    /// To the first core: a queue's connection is gone, and so is every request it had.
    QueueClosed(ControllerId, QueueId),
    /// From the control plane, to every core: the volumes from now on. Answered by
    /// [`crate::Notice::Shown`] at once, and by [`crate::Notice::Quiesced`] when no request is left that
    /// began by another entry of its volume.
    Volumes(u64, Arc<VolumeTable>),
    /// From the control plane, to the first core, once every core has the volumes: what hosts see
    /// from now on. Answered by [`crate::Notice::NamespacesTaken`] with the same number.
    Exports(u64, Vec<NamespaceConfig>),
    /// From the control plane, to every core, once every core has the volumes: what direct clients
    /// may reach from now on. Answered by [`crate::Notice::Shown`] at once, and by
    /// [`crate::Notice::Quiesced`] when no request is left that began on a volume whose rights are others
    /// now.
    Direct(u64, Arc<serving::Exports>),
    /// To the first core: a direct client's connection claims a lineage. Answered by
    /// [`Self::Claimed`] when nothing of earlier ones is under way.
    Claim(Box<Lineage>, ClientPlace),
    /// From the first core: the claim of this connection of yours is answered.
    Claimed(Owner),
    /// From the first core: this connection of a direct client is to end, another one claims its
    /// lineage.
    EndClient(Owner),
    /// To the first core: a connection that claimed a lineage is gone, and so is every request it
    /// had.
    ClientGone(Box<Lineage>, ClientPlace),
    /// From the first core: this connection of an initiator is to end.
    EndConnection(iscsi::ConnectionPlace),
    /// To the first core: a connection of an initiator's session is gone, and so is every request it
    /// had.
    InitiatorGone {
        /// The session.
        tsih: u16,
        /// The connection in it.
        cid: u16,
    },
    /// From the control plane, to every core, once every core has the volumes: what initiators may
    /// reach from now on. Answered by [`crate::Notice::Shown`] at once, and by
    /// [`crate::Notice::Quiesced`]: by the first core when the sessions have ended that the new accounts
    /// do not admit.
    Iscsi(u64, Arc<iscsi::Exports>),
    /// From the control plane, to every core: requests on these volumes that came before are to end.
    /// Answered by [`crate::Notice::Quiesced`] when they have.
    Quiesce(u64, Arc<[VolumeId]>),
    /// From the control plane, to every core: sessions are to be told. Answered by
    /// [`crate::Notice::Raised`] with the same number.
    Raise(u64, Arc<[Raised]>),
    /// From the control plane: a change of that volume that a session of this core asked for has ended
    /// so.
    Changed(Owner, (VolumeId, Tag), ChangeResult),
    /// From the control plane, to every core: say how you are, by [`crate::Notice::Status`].
    ReportStatus(u64),
    /// From the control plane, to every core: take nothing new and answer what you have; then say
    /// [`crate::Notice::Drained`], and stay, since others may need this core for their rest.
    Drain,
    /// From the control plane, to every core: stop.
    Stop,
}
