//! A controller: one host's association with a subsystem.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nearflash_request::Nexus;
use nearflash_units::Nanos;

use super::errors::ErrorLog;
use super::events::Events;
use super::state::{Changing, ControllerKind, Features, Notifications};
use crate::address::TransportAddress;
use crate::property::{Configuration, ControllerStatus};
use crate::{CommandId, ControllerId, HostName, NamespaceId, Nqn, QueueId};

/// How many connections there are of one queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct QueueState {
    /// One that serves.
    pub(super) open: bool,
    /// Those that were told to end and have not been reported closed.
    pub(super) closing: u32,
}

/// One host's association with a subsystem. NVMe Base 2.0, 3.1.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: ControllerId,
    pub(super) kind: ControllerKind,
    pub(super) subsystem: Nqn,
    pub(super) host: HostName,
    pub(super) host_id: [u8; 16],
    /// Who the host is to reservations.
    pub(super) nexus: Nexus,
    /// The address by which the host reached the node.
    pub(super) local: TransportAddress,
    pub(super) configuration: Configuration,
    pub(super) status: ControllerStatus,
    /// KATO, rounded up to the granularity; `None` when the timer is off.
    pub(super) keep_alive: Option<Nanos>,
    pub(super) heard_at: Nanos,
    pub(super) features: Features,
    pub(super) events: Events,
    /// Asynchronous Event Requests that wait, oldest first.
    pub(super) event_requests: VecDeque<CommandId>,
    /// Namespaces that changed since the host read the list.
    pub(super) changed_namespaces: BTreeSet<NamespaceId>,
    /// What the host is to be told of reservations.
    pub(super) notifications: Notifications,
    /// Commands that wait for the control side.
    pub(super) changing: Vec<Changing>,
    pub(super) errors: ErrorLog,
    /// I/O queues.
    pub(super) queues: BTreeMap<QueueId, QueueState>,
}

impl Controller {
    /// When it is given up unless the host is heard of.
    pub(super) fn expires_at(&self) -> Option<Nanos> {
        self.keep_alive.map(|span| self.heard_at.plus(span))
    }

    /// I/O queues that serve.
    pub(super) fn open_queues(&self) -> impl Iterator<Item = QueueId> {
        self.queues.iter().filter(|(_, state)| state.open).map(|(queue, _)| *queue)
    }

    /// Counts all serving I/O queues as closing, and names them.
    pub(super) fn close_queues(&mut self) -> Vec<QueueId> {
        let open: Vec<_> = self.open_queues().collect();
        for state in self.queues.values_mut().filter(|state| state.open) {
            *state = QueueState { open: false, closing: state.closing + 1 };
        }
        open
    }

    /// An I/O queue's connection has ended. One that was told to is counted first: which of two
    /// connections of the same queue ended shows once both have.
    pub(super) fn queue_closed(&mut self, queue: QueueId) {
        let Some(state) = self.queues.get_mut(&queue) else { return };
        match state.closing.checked_sub(1) {
            Some(closing) => state.closing = closing,
            None => state.open = false,
        }
        if *state == QueueState::default() {
            self.queues.remove(&queue);
        }
    }
}
