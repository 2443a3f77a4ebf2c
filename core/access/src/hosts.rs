//! The volumes that hosts use: for each host with a list, its right on each volume of the list. Hosts over
//! NVMe/TCP and iSCSI initiators are both hosts here.
//!
//! A caller changes a copy, records it durably, and only then publishes [`HostVolumes::rights`] to the cores,
//! as with a change of [`nearflash_space::Space`]. The rule itself is [`nearflash_request::HostRights`].
//!
//! Invariants: there are at most [`LISTED_HOSTS_MAX`] lists, and [`LISTED_VOLUMES_MAX`] volumes in all of them
//! together. A list names a volume by its UUID, so that a later volume of the same name is in no list.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nearflash_request::{HostRight, HostRights, UnlistedHosts, VolumeId};
use uuid::Uuid;

use crate::{InitiatorName, Rights};

/// The largest number of hosts with a list.
pub const LISTED_HOSTS_MAX: usize = 1024;

/// The largest number of volumes in all lists together.
pub const LISTED_VOLUMES_MAX: usize = 65_536;

/// The longest NQN, in bytes. NVMe Base 2.0, 4.5.
const NQN_LEN_MAX: usize = 223;

/// The name by which a node knows a host: an NQN, or an iSCSI name in lower case.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostName(Box<str>);

/// Error: a text is not the name of a host.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a valid host: write an NVMe host's NQN (nqn.…) or an iSCSI initiator's name (iqn.…, \
     eui.… or naa.…)"
)]
pub struct ParseHostNameError(Box<str>);

impl HostName {
    /// The name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the name of an NVMe host.
    pub fn is_nqn(&self) -> bool {
        self.0.starts_with("nqn.")
    }
}

impl FromStr for HostName {
    type Err = ParseHostNameError;

    fn from_str(text: &str) -> Result<Self, ParseHostNameError> {
        let refused = || ParseHostNameError(text.into());
        if !text.starts_with("nqn.") {
            let name: InitiatorName = text.parse().map_err(|_| refused())?;
            return Ok(Self(name.as_str().into()));
        }
        let is_barred = |c: char| c.is_control() || c.is_whitespace();
        match text.len() > NQN_LEN_MAX || text.chars().any(is_barred) {
            true => Err(refused()),
            false => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The volumes of one host, and its right on each.
pub type VolumeList = BTreeMap<Uuid, Rights>;

/// Error: a list cannot be changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HostVolumesError {
    /// There are [`LISTED_HOSTS_MAX`] lists.
    #[error("{LISTED_HOSTS_MAX} hosts have a list of volumes, the maximum: remove a host first")]
    TooManyHosts,
    /// The lists have [`LISTED_VOLUMES_MAX`] volumes.
    #[error(
        "the lists of hosts have {LISTED_VOLUMES_MAX} volumes together, the maximum: remove a host \
         first"
    )]
    TooManyVolumes,
}

/// The lists of all hosts that have one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostVolumes {
    lists: BTreeMap<HostName, VolumeList>,
    has_had_list: bool,
}

impl HostVolumes {
    /// Restores recorded lists.
    pub fn restore(lists: impl IntoIterator<Item = (HostName, VolumeList)>) -> Self {
        Self { lists: lists.into_iter().collect(), has_had_list: false }
    }

    /// The lists of a node that has had one before, or none.
    #[must_use]
    pub fn with_had_list(self, has_had_list: bool) -> Self {
        Self { has_had_list, ..self }
    }

    /// Whether there is a list, or has been one. From then on, the removal of the last one shows no volume to
    /// anybody.
    pub fn has_had_list(&self) -> bool {
        self.has_had_list
    }

    /// The volumes of the hosts without a list: those that the configuration says. By default, such hosts see
    /// every volume until the first host has a list, and none from then on.
    pub fn unlisted(&self, configured: Option<UnlistedHosts>) -> UnlistedHosts {
        let default = if self.has_had_list { UnlistedHosts::None } else { UnlistedHosts::All };
        configured.unwrap_or(default)
    }

    /// Every list, by the name of the host.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&HostName, &VolumeList)> {
        self.lists.iter()
    }

    /// The list of a host; `None` if it has none.
    pub fn get(&self, host: &HostName) -> Option<&VolumeList> {
        self.lists.get(host)
    }

    /// Adds volumes to the list of a host, or changes the rights on them. The host has a list from then on.
    ///
    /// # Errors
    /// If there are too many lists, or volumes in them. Nothing is changed then.
    pub fn allow(&mut self, host: &HostName, volumes: &VolumeList) -> Result<(), HostVolumesError> {
        let mut list = self.lists.get(host).cloned().unwrap_or_default();
        list.extend(volumes);
        self.set(host, list)
    }

    /// Replaces the list of a host.
    ///
    /// # Errors
    /// If there are too many lists, or volumes in them. Nothing is changed then.
    pub fn set(&mut self, host: &HostName, list: VolumeList) -> Result<(), HostVolumesError> {
        if !self.lists.contains_key(host) && self.lists.len() >= LISTED_HOSTS_MAX {
            return Err(HostVolumesError::TooManyHosts);
        }
        let others = self.lists.iter().filter(|(other, _)| *other != host);
        let count: usize = others.map(|(_, list)| list.len()).sum();
        if count + list.len() > LISTED_VOLUMES_MAX {
            return Err(HostVolumesError::TooManyVolumes);
        }
        self.has_had_list = true;
        self.lists.insert(host.clone(), list);
        Ok(())
    }

    /// Takes the list of a host away: the host is one of those without a list.
    pub fn unlist(&mut self, host: &HostName) -> Option<VolumeList> {
        self.lists.remove(host)
    }

    /// Takes volumes out of the lists that are not there any more. A list without volumes stays.
    pub fn keep_those_on(&mut self, is_there: impl Fn(Uuid) -> bool) {
        self.lists.values_mut().for_each(|list| list.retain(|volume, _| is_there(*volume)));
    }

    /// The rights for the doors, with the numbers of the volumes that are served. A volume that is not served
    /// is in no list of the doors.
    pub fn rights(
        &self,
        unlisted: UnlistedHosts,
        number: impl Fn(Uuid) -> Option<VolumeId>,
    ) -> HostRights {
        let right = |rights: &Rights| match rights {
            Rights::Read => HostRight::Read,
            Rights::ReadWrite => HostRight::ReadWrite,
        };
        let list = |(host, list): (&HostName, &VolumeList)| {
            let volumes = list.iter();
            let volumes =
                volumes.filter_map(|(uuid, rights)| Some((number(*uuid)?, right(rights))));
            (host.as_str().into(), volumes.collect())
        };
        HostRights::new(self.lists.iter().map(list), unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn host(number: usize) -> HostName {
        let text = match number % 2 {
            0 => format!("nqn.2026-11.test:{number}"),
            _ => format!("iqn.2026-11.test:{number}"),
        };
        text.parse().unwrap()
    }

    fn volume(number: u32) -> Uuid {
        Uuid::from_u128(u128::from(number) + 1)
    }

    #[test]
    fn a_host_is_named_by_an_nqn_or_an_iscsi_name_in_small_letters() {
        let name = |text: &str| text.parse::<HostName>().map(|name| name.to_string()).ok();
        assert_eq!(name("nqn.2026-11.Test:A").as_deref(), Some("nqn.2026-11.Test:A"));
        assert_eq!(name("IQN.2026-11.Test:A").as_deref(), Some("iqn.2026-11.test:a"));
        assert!(host(0).is_nqn() && !host(1).is_nqn());
        let long = format!("nqn.{}", "x".repeat(220));
        for text in ["", "any", "iqn.", "nqn.a b", "nqn.a\nb", &long] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn lists_and_their_volumes_are_bounded() {
        let one = VolumeList::from([(volume(0), Rights::Read)]);
        let lists = (0..LISTED_HOSTS_MAX).map(|number| (host(number), VolumeList::new()));
        let mut lists = HostVolumes::restore(lists);
        assert_eq!(lists.allow(&host(LISTED_HOSTS_MAX), &one), Err(HostVolumesError::TooManyHosts));
        assert_eq!(lists.allow(&host(0), &one), Ok(()));
        let many = u32::try_from(LISTED_VOLUMES_MAX).unwrap();
        let many: VolumeList = (0..many).map(|number| (volume(number), Rights::Read)).collect();
        let before = lists.clone();
        assert_eq!(lists.set(&host(1), many.clone()), Err(HostVolumesError::TooManyVolumes));
        assert_eq!(lists, before);
        assert_eq!(lists.set(&host(0), many), Ok(()));
    }

    #[test]
    fn hosts_without_a_list_see_volumes_until_the_first_list_and_not_after_the_last_one() {
        let unlisted = |lists: &HostVolumes| {
            use UnlistedHosts::{All, None};
            [Option::None, Some(All), Some(None)].map(|configured| lists.unlisted(configured))
        };
        let open = [UnlistedHosts::All, UnlistedHosts::All, UnlistedHosts::None];
        let closed = [UnlistedHosts::None, UnlistedHosts::All, UnlistedHosts::None];
        let mut lists = HostVolumes::default();
        assert_eq!(unlisted(&lists), open);
        lists.set(&host(0), VolumeList::new()).unwrap();
        assert_eq!(unlisted(&lists), closed);
        lists.unlist(&host(0));
        assert_eq!(unlisted(&lists), closed);
        assert_eq!(unlisted(&HostVolumes::restore([]).with_had_list(true)), closed);
    }

    /// A change of the lists.
    #[derive(Clone, Debug)]
    enum Step {
        Allow(usize, u32, Rights),
        Set(usize, Vec<(u32, Rights)>),
        Unlist(usize),
        /// The volume is removed, and takes its place in the lists along.
        Remove(u32),
    }

    fn rights() -> impl Strategy<Value = Rights> {
        prop_oneof![Just(Rights::Read), Just(Rights::ReadWrite)]
    }

    fn step() -> impl Strategy<Value = Step> {
        let (host, volume) = (0..4_usize, 0..4_u32);
        prop_oneof![
            (host.clone(), volume.clone(), rights()).prop_map(|(h, v, r)| Step::Allow(h, v, r)),
            (host.clone(), vec((volume.clone(), rights()), 0..4))
                .prop_map(|(h, list)| Step::Set(h, list)),
            host.prop_map(Step::Unlist),
            volume.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn a_host_has_the_rights_that_were_given_to_it_last_and_no_others(
            steps in vec(step(), 0..24),
            sees_none in any::<bool>(),
        ) {
            let unlisted = if sees_none { UnlistedHosts::None } else { UnlistedHosts::All };
            let mut lists = HostVolumes::default();
            // For each host and each volume, the right; for each host, whether it has a list.
            let mut model = [[None; 4]; 4];
            let mut listed = [false; 4];
            for step in steps {
                match step {
                    Step::Allow(h, v, right) => {
                        lists.allow(&host(h), &VolumeList::from([(volume(v), right)])).unwrap();
                        model[h][v as usize] = Some(right);
                        listed[h] = true;
                    }
                    Step::Set(h, list) => {
                        let given = list.iter().map(|(v, right)| (volume(*v), *right));
                        lists.set(&host(h), given.collect()).unwrap();
                        model[h] = [None; 4];
                        list.iter().for_each(|(v, right)| model[h][*v as usize] = Some(*right));
                        listed[h] = true;
                    }
                    Step::Unlist(h) => {
                        lists.unlist(&host(h));
                        (model[h], listed[h]) = ([None; 4], false);
                    }
                    Step::Remove(v) => {
                        lists.keep_those_on(|uuid| uuid != volume(v));
                        model.iter_mut().for_each(|of| of[v as usize] = None);
                    }
                }
            }
            // The last volume is not served, and has no number.
            let number = |uuid: Uuid| (0..3).find(|v| volume(*v) == uuid).map(VolumeId);
            let rights = lists.rights(unlisted, number);
            for (h, v) in (0..4).flat_map(|h| (0..3_u32).map(move |v| (h, v))) {
                let wanted = match (listed[h], sees_none) {
                    (true, _) => model[h][v as usize].map(|right| match right {
                        Rights::Read => HostRight::Read,
                        Rights::ReadWrite => HostRight::ReadWrite,
                    }),
                    (false, true) => None,
                    (false, false) => Some(HostRight::ReadWrite),
                };
                let name = host(h);
                prop_assert_eq!(rights.on(Some(name.as_str()), VolumeId(v)), wanted);
            }
            for (h, _) in listed.iter().enumerate().filter(|(_, is_listed)| **is_listed) {
                let name = host(h);
                prop_assert_eq!(rights.on(Some(name.as_str()), VolumeId(3)), None);
            }
        }
    }
}
