//! The hosts whose ended controllers still have requests under way.
//!
//! A host that lost its connection comes back and repeats the writes that were not answered. A
//! write of its old connection that is still on its way to the device must not land after the
//! repeated one. So the response to a Connect for a new controller waits while a queue of an ended
//! controller of that host has requests in flight: for as long as a device operation takes. (It is
//! not refused as busy: the Linux host would fail a reset, and come back only after its reconnect
//! delay.)

use std::collections::{HashMap, HashSet};

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{ControllerId, HostName, QueueId};

/// The identity of a host: its name, or, if it has none, its identifier.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Host(HostName, [u8; 16]);

impl Host {
    /// The host of a Connect; `None` if its name is invalid.
    pub(crate) fn of(data: &ConnectData) -> Option<Self> {
        Some(Self::new(data.host.host().ok()?, data.host_id))
    }

    fn new(name: HostName, id: [u8; 16]) -> Self {
        let id = if name == HostName::Unnamed { id } else { [0; 16] };
        Self(name, id)
    }
}

/// The I/O queues of the node and their hosts.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    queues: HashMap<(ControllerId, QueueId), Host>,
    /// Ended controllers with queues that still have requests in flight.
    ended: HashSet<ControllerId>,
}

impl Associations {
    pub(crate) fn queue_connected(&mut self, controller: ControllerId, queue: QueueId, host: Host) {
        self.queues.insert((controller, queue), host);
    }

    /// Records that no request of the queue is in flight any more.
    pub(crate) fn queue_silent(&mut self, controller: ControllerId, queue: QueueId) {
        self.queues.remove(&(controller, queue));
        self.forget_if_silent(controller);
    }

    pub(crate) fn controller_ended(&mut self, controller: ControllerId) {
        self.ended.insert(controller);
        self.forget_if_silent(controller);
    }

    /// Whether requests of an ended controller of this host may be under way.
    pub(crate) fn is_draining(&self, host: &Host) -> bool {
        !self.ended.is_empty()
            && self
                .queues
                .iter()
                .any(|((controller, _), of)| of == host && self.ended.contains(controller))
    }

    fn forget_if_silent(&mut self, controller: ControllerId) {
        if !self.queues.keys().any(|(of, _)| *of == controller) {
            self.ended.remove(&controller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, id: u8) -> Host {
        Host::new(HostName::Named(name.parse().unwrap()), [id; 16])
    }

    fn unnamed(id: u8) -> Host {
        Host::new(HostName::Unnamed, [id; 16])
    }

    fn waits_for_itself_alone(us: &Host, them: &Host) {
        let (old, one, two) = (ControllerId(1), QueueId(1), QueueId(2));
        let mut associations = Associations::default();
        associations.queue_connected(old, one, us.clone());
        associations.queue_connected(old, two, us.clone());
        assert!(!associations.is_draining(us), "a second path is no trouble");
        associations.controller_ended(old);
        associations.queue_silent(old, one);
        assert!(associations.is_draining(us));
        assert!(!associations.is_draining(them));
        associations.queue_silent(old, two);
        assert!(!associations.is_draining(us));
    }

    #[test]
    fn a_host_waits_until_every_queue_of_its_ended_controller_is_silent() {
        let us = named("nqn.2026-11.test:us", 1);
        waits_for_itself_alone(&us, &named("nqn.2026-11.test:them", 1));
        assert_eq!(us, named("nqn.2026-11.test:us", 2), "an identifier does not make it another");
    }

    #[test]
    fn hosts_without_names_are_told_apart_by_their_identifiers() {
        waits_for_itself_alone(&unnamed(1), &unnamed(2));
        waits_for_itself_alone(&unnamed(0), &unnamed(2));
    }
}
