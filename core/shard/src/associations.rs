//! Which hosts still have requests of an ended controller under way.
//!
//! A host that lost its connection comes back and writes again what was not answered. A write of
//! its old connection that is still on its way to the device must not land after that. So the answer
//! to a Connect that asks for a new controller waits while a queue of an ended one of that host has
//! not fallen silent: for as long as a device operation takes. (It is not refused as busy: the Linux
//! host would fail a reset, and come back only after its reconnect delay.)

use std::collections::{HashMap, HashSet};

use nearflash_nvme::{ControllerId, Nqn, QueueId};

/// The I/O queues of the node and whose they are.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    queues: HashMap<(ControllerId, QueueId), Nqn>,
    /// Controllers that are no more, but have queues that are not yet silent.
    ended: HashSet<ControllerId>,
}

impl Associations {
    pub(crate) fn queue_connected(&mut self, controller: ControllerId, queue: QueueId, host: Nqn) {
        self.queues.insert((controller, queue), host);
    }

    /// No request of the queue is under way any more.
    pub(crate) fn queue_silent(&mut self, controller: ControllerId, queue: QueueId) {
        self.queues.remove(&(controller, queue));
        self.forget_if_silent(controller);
    }

    /// The controller is no more.
    pub(crate) fn controller_ended(&mut self, controller: ControllerId) {
        self.ended.insert(controller);
        self.forget_if_silent(controller);
    }

    /// Whether requests of an ended controller of this host may be under way.
    pub(crate) fn is_restless(&self, host: &Nqn) -> bool {
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

    #[test]
    fn a_host_waits_until_every_queue_of_its_ended_controller_is_silent() {
        let (us, them) = ("nqn.2026-11.test:us", "nqn.2026-11.test:them");
        let [us, them]: [Nqn; 2] = [us, them].map(|name| name.parse().unwrap());
        let (old, one, two) = (ControllerId(1), QueueId(1), QueueId(2));
        let mut associations = Associations::default();
        associations.queue_connected(old, one, us.clone());
        associations.queue_connected(old, two, us.clone());
        assert!(!associations.is_restless(&us), "a second path is no trouble");
        associations.controller_ended(old);
        associations.queue_silent(old, one);
        assert!(associations.is_restless(&us));
        assert!(!associations.is_restless(&them));
        associations.queue_silent(old, two);
        assert!(!associations.is_restless(&us));
    }
}
