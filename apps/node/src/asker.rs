//! The events for the thread that makes the changes which sessions request.

use std::sync::mpsc::{Receiver, Sender, channel};

use nearflash_device::DeviceId;
use nearflash_engine::{CoreId, Owner};
use nearflash_request::{Change, Identity, Nexus, Tag, VolumeId};

/// An event for the thread that makes changes.
#[derive(Debug)]
pub(crate) enum Event {
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

/// Sends events to the thread. Each core has at most [`nearflash_shard::CHANGES_PER_VOLUME_MAX`] unanswered
/// changes of a volume, which bounds the queue.
#[derive(Clone, Debug)]
pub(crate) struct Asker(Sender<Event>);

impl Asker {
    pub(crate) fn new() -> (Self, Receiver<Event>) {
        let (sender, receiver) = channel();
        (Self(sender), receiver)
    }

    /// Sends an event. It is dropped if the node has ended.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.0.send(event);
    }
}

/// The session that requested a change, and its tag for the change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct AskedBy {
    /// The session's core.
    pub(crate) core: CoreId,
    /// The session.
    pub(crate) owner: Owner,
    /// The volume of the change.
    pub(crate) volume: VolumeId,
    /// The change.
    pub(crate) tag: Tag,
}
