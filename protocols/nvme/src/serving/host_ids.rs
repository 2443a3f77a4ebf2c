//! The host identifiers that hosts with keys have used.
//!
//! Reservations belong to a host identifier, which a host says of itself, and which others can read: a report of
//! reservations has it. NVMe Base 2.0, 8.19 trusts it. Here, the first host that proves its NQN and uses an
//! identifier has it alone, so that no other host acts as the holder of its reservations.
//!
//! This is in memory: it begins anew with each start of the node. A host without keys has nothing to prove, and
//! gets no identifier of its own.

use std::collections::BTreeMap;

use crate::hosts::KEYED_HOSTS_MAX;
use crate::{HostName, Nqn};

/// The most identifiers of a host. It is expected to have one. Further ones stay anybody's.
const HOST_IDS_MAX: usize = 8;

/// The identifier of a host that has none.
const NONE: [u8; 16] = [0; 16];

/// Which host has which identifier.
#[derive(Debug, Default)]
pub(super) struct HostIds(BTreeMap<[u8; 16], Nqn>);

impl HostIds {
    pub(super) fn is_of_another(&self, id: &[u8; 16], host: &HostName) -> bool {
        let is_host = |owner: &Nqn| matches!(host, HostName::Named(host) if host == owner);
        self.0.get(id).is_some_and(|owner| !is_host(owner))
    }

    /// A host that has proved its name uses this identifier. Returns `false` if another host has it.
    pub(super) fn take(&mut self, id: &[u8; 16], host: &HostName) -> bool {
        if self.is_of_another(id, host) {
            return false;
        }
        let HostName::Named(host) = host else { return true };
        let count = self.0.values().filter(|owner| *owner == host).count();
        if *id != NONE && count < HOST_IDS_MAX {
            self.0.insert(*id, host.clone());
        }
        assert!(self.0.len() <= HOST_IDS_MAX * KEYED_HOSTS_MAX, "only hosts with keys are here");
        true
    }

    /// Takes the identifiers away from hosts that have no keys any more.
    pub(super) fn keep_those_of(&mut self, is_keyed: impl Fn(&Nqn) -> bool) {
        self.0.retain(|_, owner| is_keyed(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> HostName {
        HostName::Named(Nqn::new(&format!("nqn.2026-11.test:{number}")).unwrap())
    }

    #[test]
    fn the_first_host_has_an_identifier_until_its_keys_are_gone() {
        let mut ids = HostIds::default();
        assert!(ids.take(&[7; 16], &host(1)) && ids.take(&[7; 16], &host(1)));
        assert!(!ids.take(&[7; 16], &host(2)));
        assert!(ids.is_of_another(&[7; 16], &host(2)));
        assert!(ids.is_of_another(&[7; 16], &HostName::Unnamed));
        assert!(!ids.is_of_another(&[8; 16], &host(2)));
        ids.keep_those_of(|_| true);
        assert!(!ids.take(&[7; 16], &host(2)));
        ids.keep_those_of(|owner| HostName::Named(owner.clone()) != host(1));
        assert!(ids.take(&[7; 16], &host(2)));
    }

    #[test]
    fn no_identifier_is_nobodys_and_those_of_a_host_are_bounded() {
        let mut ids = HostIds::default();
        assert!(ids.take(&NONE, &host(1)) && ids.take(&NONE, &host(2)));
        for number in 1..=9 {
            assert!(ids.take(&[number; 16], &host(1)));
        }
        let taken = (1..=9).filter(|number| ids.is_of_another(&[*number; 16], &host(2)));
        assert_eq!(taken.count(), HOST_IDS_MAX);
    }
}
