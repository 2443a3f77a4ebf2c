//! The rule for the volumes that hosts use. The doors of NVMe/TCP and iSCSI both ask it, so that a host
//! sees the same volumes through any protocol. Direct clients have grants instead.
//!
//! An immutable value that the control side compiles and replaces as a whole. A host is known by the name
//! that it sends: its NQN, or its iSCSI name in lower case. These never coincide. This module does not know
//! whether a host has proved its name.

use std::collections::{BTreeMap, BTreeSet};

use crate::VolumeId;

/// The operations that a host may do on a volume.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum HostRight {
    /// It reads; the volume is write protected for it.
    Read,
    /// It reads and writes.
    ReadWrite,
}

/// The volumes of the hosts that have no list.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum UnlistedHosts {
    /// They read and write every volume.
    #[default]
    All,
    /// They see no volume.
    None,
}

/// The volumes in the list of one host.
pub type HostList = BTreeMap<VolumeId, HostRight>;

/// The lists of all hosts that have one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostRights {
    lists: BTreeMap<Box<str>, HostList>,
    unlisted: UnlistedHosts,
}

impl HostRights {
    /// The rights by these lists. iSCSI names are in lower case.
    pub fn new(
        lists: impl IntoIterator<Item = (Box<str>, HostList)>,
        unlisted: UnlistedHosts,
    ) -> Self {
        Self { lists: lists.into_iter().collect(), unlisted }
    }

    /// The rule: a host with a list has the rights of the list, and no others. `None` as the name is a host
    /// without a name, which is in no list. `None` as the answer says that there is no such volume for the
    /// host.
    pub fn on(&self, host: Option<&str>, volume: VolumeId) -> Option<HostRight> {
        match (host.and_then(|name| self.lists.get(name)), self.unlisted) {
            (Some(list), _) => list.get(&volume).copied(),
            (None, UnlistedHosts::All) => Some(HostRight::ReadWrite),
            (None, UnlistedHosts::None) => None,
        }
    }

    /// Whether the host reads and writes every volume, so that nothing needs to be left out for it.
    pub fn is_unlimited(&self, host: Option<&str>) -> bool {
        let has_list = host.is_some_and(|name| self.lists.contains_key(name));
        !has_list && self.unlisted == UnlistedHosts::All
    }

    /// Those of these volumes on which a host has a lesser right than before.
    pub fn reduced_since(
        &self,
        before: &Self,
        volumes: impl IntoIterator<Item = VolumeId>,
    ) -> Vec<VolumeId> {
        let listed = before.lists.keys().chain(self.lists.keys());
        // `None` stands for the hosts that have no list at both times.
        let hosts: BTreeSet<Option<&str>> =
            listed.map(|name| Some(&**name)).chain([None]).collect();
        let is_less =
            |host: &Option<&str>, volume| self.on(*host, volume) < before.on(*host, volume);
        let is_reduced = |volume: &VolumeId| hosts.iter().any(|host| is_less(host, *volume));
        volumes.into_iter().filter(is_reduced).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUMES: [VolumeId; 3] = [VolumeId(0), VolumeId(1), VolumeId(2)];

    fn rights(unlisted: UnlistedHosts) -> HostRights {
        let list =
            HostList::from([(VOLUMES[0], HostRight::ReadWrite), (VOLUMES[1], HostRight::Read)]);
        HostRights::new([("a".into(), list), ("none".into(), HostList::new())], unlisted)
    }

    #[test]
    fn a_host_with_a_list_has_its_rights_alone_whatever_the_others_have() {
        for unlisted in [UnlistedHosts::All, UnlistedHosts::None] {
            let rights = rights(unlisted);
            let of = |host| VOLUMES.map(|volume| rights.on(Some(host), volume));
            assert_eq!(of("a"), [Some(HostRight::ReadWrite), Some(HostRight::Read), None]);
            assert_eq!(of("none"), [None; 3]);
            assert!(!rights.is_unlimited(Some("a")) && !rights.is_unlimited(Some("none")));
        }
    }

    #[test]
    fn volumes_are_reduced_on_which_any_host_loses_a_right() {
        let list = |rights: &[(u32, HostRight)]| {
            let list = rights.iter().map(|(volume, right)| (VolumeId(*volume), *right)).collect();
            HostRights::new([("a".into(), list)], UnlistedHosts::All)
        };
        let (read, write) = (HostRight::Read, HostRight::ReadWrite);
        let open = HostRights::default();
        for (before, after, reduced) in [
            (&open, &open, &[][..]),
            (&open, &list(&[(0, write), (1, read)]), &[1, 2]),
            (&list(&[(0, write), (1, read)]), &open, &[]),
            (&list(&[(0, write), (1, read)]), &list(&[(0, read), (1, write)]), &[0]),
            (&list(&[(0, read)]), &list(&[]), &[0]),
        ] {
            let found = after.reduced_since(before, VOLUMES);
            assert_eq!(found, reduced.iter().map(|id| VolumeId(*id)).collect::<Vec<_>>());
        }
        let closed = HostRights::new([], UnlistedHosts::None);
        assert_eq!(closed.reduced_since(&open, VOLUMES), VOLUMES);
    }

    #[test]
    fn hosts_without_a_list_see_all_volumes_or_none() {
        for (unlisted, right) in
            [(UnlistedHosts::All, Some(HostRight::ReadWrite)), (UnlistedHosts::None, None)]
        {
            let rights = rights(unlisted);
            for host in [Some("b"), Some("A"), Some(""), None] {
                assert_eq!(VOLUMES.map(|volume| rights.on(host, volume)), [right; 3]);
                assert_eq!(rights.is_unlimited(host), right.is_some());
            }
        }
    }
}
