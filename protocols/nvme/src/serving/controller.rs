//! A controller: one host's association with a subsystem.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nearflash_request::Nexus;
use nearflash_session::Origin;
use nearflash_units::Nanos;

use super::errors::ErrorLog;
use super::events::Events;
use super::state::{Changing, ControllerKind, Features, Notifications};
use super::subsystem::View;
use crate::address::TransportAddress;
use crate::property::{Configuration, ControllerStatus};
use crate::{CommandId, ControllerId, HostName, NamespaceId, Nqn, QueueId};

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct QueueState {
    pub(super) open: bool,
    /// The number of connections that were told to end and are not yet reported closed.
    pub(super) closing: u32,
}

/// One host's association with a subsystem. NVMe Base 2.0, 3.1.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: ControllerId,
    pub(super) kind: ControllerKind,
    pub(super) subsystem: Nqn,
    pub(super) host: HostName,
    /// The namespaces that the host sees; none on a discovery controller.
    pub(super) view: Arc<View>,
    pub(super) host_id: [u8; 16],
    /// The host's identity for reservations.
    pub(super) nexus: Nexus,
    /// The node's address to which the host connected.
    pub(super) local: TransportAddress,
    /// The address from which it came.
    pub(super) origin: Origin,
    /// Its queues authenticate.
    pub(super) authenticates: bool,
    /// Its host has proved its name by TLS. Every queue must be a connection with TLS.
    pub(super) secured: bool,
    /// No admin command has come yet. A host that authenticates computes meanwhile, and sends no Keep Alive;
    /// its connection has a deadline of its own.
    pub(super) awaits_authentication: bool,
    pub(super) configuration: Configuration,
    pub(super) status: ControllerStatus,
    /// KATO, rounded up to the granularity; `None` if the timer is off.
    pub(super) keep_alive: Option<Nanos>,
    pub(super) heard_at: Nanos,
    pub(super) features: Features,
    pub(super) events: Events,
    /// Outstanding Asynchronous Event Requests, oldest first.
    pub(super) event_requests: VecDeque<CommandId>,
    /// The namespaces that changed since the host last read the list.
    pub(super) changed_namespaces: BTreeSet<NamespaceId>,
    /// Reservation notifications for the host.
    pub(super) notifications: Notifications,
    /// Commands that wait for the control side.
    pub(super) changing: Vec<Changing>,
    pub(super) errors: ErrorLog,
    pub(super) queues: BTreeMap<QueueId, QueueState>,
}

impl Controller {
    /// Whether its host still has to prove its name.
    pub(super) fn is_unproved(&self) -> bool {
        self.authenticates && self.awaits_authentication
    }

    /// Whether its host enters without a proof of its name.
    pub(super) fn is_open(&self) -> bool {
        !self.authenticates && !self.secured
    }

    /// When the keep-alive timer expires.
    pub(super) fn expires_at(&self) -> Option<Nanos> {
        let span = self.keep_alive.filter(|_| !self.awaits_authentication);
        span.map(|span| self.heard_at.plus(span))
    }

    pub(super) fn open_queues(&self) -> impl Iterator<Item = QueueId> {
        self.queues.iter().filter(|(_, state)| state.open).map(|(queue, _)| *queue)
    }

    /// Marks all open I/O queues as closing, and returns them.
    pub(super) fn close_queues(&mut self) -> Vec<QueueId> {
        let open: Vec<_> = self.open_queues().collect();
        for state in self.queues.values_mut().filter(|state| state.open) {
            *state = QueueState { open: false, closing: state.closing + 1 };
        }
        open
    }

    /// The connection of an I/O queue ended. A closing connection is counted first: with two
    /// connections of one queue, the order does not matter once both have ended.
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
