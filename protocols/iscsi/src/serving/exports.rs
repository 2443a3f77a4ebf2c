//! The iSCSI exports of a node: targets by name, their addresses, the initiators that may log in, and the
//! units that each of them sees.
//!
//! One immutable value for all sessions of the node, replaced as a whole. Compiled by the control
//! side. A session reads it in its login, for SendTargets, and when it is replaced; never per
//! command.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_request::HostRights;
use nearflash_scsi::LogicalUnits;

use crate::chap::Account;
use crate::login::Access;

/// The portal group of a node that shares no target with another one.
pub const PORTAL_GROUP: u16 = 1;

/// A portal of another node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemotePortal {
    /// Its address.
    pub address: SocketAddr,
    /// TargetPortalGroupTag: each node is one portal group, because no session has connections to two nodes.
    pub group: u16,
}

/// Targets and accounts of a node.
#[derive(Debug)]
pub struct Exports {
    /// The units of each target, by its name.
    targets: BTreeMap<Box<str>, Arc<LogicalUnits>>,
    portals: Box<[SocketAddr]>,
    portal_group: u16,
    elsewhere: Arc<[RemotePortal]>,
    accounts: Vec<Arc<Account>>,
    /// Initiators must authenticate, although there is no account.
    is_closed: bool,
    initiators: Option<BTreeSet<Box<str>>>,
    rights: Arc<HostRights>,
}

impl Exports {
    /// Exports the units of these targets, at these portals. iSCSI names do not depend on case.
    ///
    /// # Panics
    /// When two targets have the same name: an initiator would get the units of another one than it was
    /// told of.
    pub fn new(
        targets: impl IntoIterator<Item = (Box<str>, Arc<LogicalUnits>)>,
        portals: impl IntoIterator<Item = SocketAddr>,
    ) -> Self {
        let mut named = BTreeMap::new();
        for (name, units) in targets {
            let earlier = named.insert(name.to_lowercase().into(), units);
            assert!(earlier.is_none(), "target {name} has a name of its own");
        }
        Self {
            targets: named,
            portals: portals.into_iter().collect(),
            portal_group: PORTAL_GROUP,
            elsewhere: Arc::default(),
            accounts: Vec::new(),
            is_closed: false,
            initiators: None,
            rights: Arc::default(),
        }
    }

    /// Gives the node this portal group, and lists the portals of other nodes for targets with units that every
    /// node serves.
    #[must_use]
    pub fn with_nodes(mut self, portal_group: u16, elsewhere: Arc<[RemotePortal]>) -> Self {
        (self.portal_group, self.elsewhere) = (portal_group, elsewhere);
        self
    }

    /// The node's portal group.
    pub fn portal_group(&self) -> u16 {
        self.portal_group
    }

    /// Requires initiators to authenticate by one of these CHAP accounts, if there is any.
    #[must_use]
    pub fn with_accounts(mut self, accounts: impl IntoIterator<Item = Account>) -> Self {
        self.accounts = accounts.into_iter().map(Arc::new).collect();
        self
    }

    /// Requires initiators to authenticate even while there is no account: the last one was removed, and the
    /// operator has not said that every initiator may log in.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// Admits only initiators with these names.
    #[must_use]
    pub fn with_initiators(mut self, names: impl IntoIterator<Item = Box<str>>) -> Self {
        self.initiators = Some(names.into_iter().map(|name| name.to_lowercase().into()).collect());
        self
    }

    /// Shows each initiator only the units on which it has a right.
    #[must_use]
    pub fn with_rights(mut self, rights: Arc<HostRights>) -> Self {
        self.rights = rights;
        self
    }

    /// The rights of initiators.
    pub fn rights(&self) -> &HostRights {
        &self.rights
    }

    /// The units of a target that an initiator sees; `None` if there is no such target. Both names are in
    /// lower case.
    pub(super) fn units(&self, target: &str, initiator: &str) -> Option<Arc<LogicalUnits>> {
        let all = self.targets.get(target)?;
        if self.rights.is_unlimited(Some(initiator)) {
            return Some(Arc::clone(all));
        }
        Some(Arc::new(all.seen_with(|volume| self.rights.on(Some(initiator), volume))))
    }

    /// Whether an initiator sees a unit of a target, so that it may log in. A target without units is open to
    /// every initiator that has no list.
    pub(super) fn shows(&self, target: &str, initiator: &str) -> bool {
        let is_unlimited = self.rights.is_unlimited(Some(initiator));
        let mut units = self.targets.get(target).into_iter().flat_map(|units| units.iter());
        is_unlimited || units.any(|unit| self.rights.on(Some(initiator), unit.volume).is_some())
    }

    /// Whether initiators must authenticate by CHAP.
    pub fn wants_chap(&self) -> bool {
        self.is_closed || !self.accounts.is_empty()
    }

    /// Whether there is an account of that user.
    pub fn has_account(&self, user: &str) -> bool {
        self.account(user).is_some()
    }

    /// The account of that user.
    pub fn account(&self, user: &str) -> Option<&Arc<Account>> {
        self.accounts.iter().find(|account| account.initiator().user == user)
    }

    /// Whether a session of an initiator, whose name is in lower case, that logged in by this account, or
    /// without one, is still allowed.
    pub fn trusts(&self, account: Option<&str>, initiator: &str) -> bool {
        match account {
            None => !self.wants_chap(),
            Some(user) => self.account(user).is_some_and(|account| account.is_for(initiator)),
        }
    }

    /// Whether the initiator with this name, in lower case, is admitted.
    pub fn admits(&self, initiator: &str) -> bool {
        self.initiators.as_ref().is_none_or(|names| names.contains(initiator))
    }

    /// The initiators that may log in on a portal; `anonymous` is the portal's setting.
    pub(super) fn access(&self, anonymous: bool) -> Access {
        let is_open = anonymous && !self.wants_chap();
        Access { is_open, accounts: self.accounts.clone() }
    }

    /// The units of the target with this name, in lower case.
    pub fn target(&self, name: &str) -> Option<&Arc<LogicalUnits>> {
        self.targets.get(name)
    }

    /// The names of all targets.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(|name| &**name)
    }

    /// The addresses of a target in the format of TargetAddress, for a connection accepted at `local`. A portal at
    /// an unspecified address is reported as the address that the initiator used, if it accepts that kind of
    /// address, and one that is an IPv4 address mapped to IPv6 as the IPv4 address.
    pub fn addresses(&self, target: &str, local: SocketAddr) -> Vec<String> {
        let local_ip = local.ip().to_canonical();
        let here = |portal: &SocketAddr| {
            let ip = portal.ip();
            let reachable = ip.is_ipv6() || local_ip.is_ipv4();
            match ip.is_unspecified() {
                true => reachable.then_some(SocketAddr::new(local_ip, portal.port())),
                false => Some(SocketAddr::new(ip.to_canonical(), portal.port())),
            }
        };
        let mut portals: Vec<RemotePortal> = match self.portals.is_empty() {
            true => vec![SocketAddr::new(local_ip, local.port())],
            false => self.portals.iter().filter_map(here).collect(),
        }
        .into_iter()
        .map(|address| RemotePortal { address, group: self.portal_group })
        .collect();
        if self.targets.get(target).is_some_and(|units| units.is_on_every_node()) {
            portals.extend(self.elsewhere.iter());
        }
        let mut told: Vec<String> = Vec::new();
        for RemotePortal { address, group } in portals {
            let text = format!("{address},{group}");
            if !told.contains(&text) {
                told.push(text);
            }
        }
        told
    }
}

impl Default for Exports {
    /// No targets.
    fn default() -> Self {
        Self::new([], [])
    }
}

#[cfg(test)]
mod tests {
    use nearflash_scsi::LogicalUnit;

    use super::*;

    fn at(portals: &[&str], local: &str) -> Vec<String> {
        let portals = portals.iter().map(|text| text.parse().unwrap());
        Exports::new([], portals).addresses("iqn.a", local.parse().unwrap())
    }

    #[test]
    fn a_portal_of_every_address_is_told_as_the_one_in_use() {
        let portals = ["0.0.0.0:3260", "[2001:db8::1]:3261"];
        let expected = ["192.0.2.7:3260,1", "[2001:db8::1]:3261,1"];
        assert_eq!(at(&portals, "192.0.2.7:3260"), expected);
        assert_eq!(at(&[], "192.0.2.7:3260"), ["192.0.2.7:3260,1"]);
        assert_eq!(at(&["[::]:3260"], "[2001:db8::7]:3260"), ["[2001:db8::7]:3260,1"]);
        // A portal of all IPv4 addresses is not reached over IPv6.
        assert_eq!(at(&portals, "[2001:db8::7]:3261"), ["[2001:db8::1]:3261,1"]);
    }

    #[test]
    fn an_initiator_that_comes_over_ipv4_is_told_an_ipv4_address() {
        assert_eq!(at(&["[::]:3260"], "[::ffff:192.0.2.7]:3260"), ["192.0.2.7:3260,1"]);
        assert_eq!(at(&[], "[::ffff:192.0.2.7]:3260"), ["192.0.2.7:3260,1"]);
        let both = ["0.0.0.0:3260", "[::]:3260"];
        assert_eq!(at(&both, "192.0.2.7:3260"), ["192.0.2.7:3260,1"]);
    }

    #[test]
    fn targets_of_a_cluster_are_at_the_portals_of_every_node_each_in_a_group_of_its_own() {
        let unit = |on_every_node| LogicalUnit { on_every_node, ..crate::check::target::unit(0) };
        let units = |name, on_every_node| {
            (name, Arc::new(LogicalUnits::new("iqn.a", 2, [unit(on_every_node)])))
        };
        let targets = [units("iqn.own".into(), false), units("iqn.shared".into(), true)];
        let [here, there] = ["192.0.2.1:3260", "192.0.2.2:3260"].map(|it| it.parse().unwrap());
        let elsewhere = [RemotePortal { address: there, group: 3 }];
        let exports = Exports::new(targets, [here]).with_nodes(2, elsewhere.into());
        assert_eq!(exports.addresses("iqn.own", here), ["192.0.2.1:3260,2"]);
        let all = ["192.0.2.1:3260,2", "192.0.2.2:3260,3"];
        assert_eq!(exports.addresses("iqn.shared", here), all);
    }

    #[test]
    fn names_are_the_same_in_capital_and_small_letters() {
        let exports = Exports::new([("iqn.2026-11.io.nearflash:A".into(), Arc::default())], [])
            .with_initiators(["IQN.2026-11.test:host".into()]);
        assert!(exports.target("iqn.2026-11.io.nearflash:a").is_some());
        assert!(exports.admits("iqn.2026-11.test:host"));
        assert!(!exports.admits("iqn.2026-11.test:other"));
    }

    #[test]
    #[should_panic(expected = "a name of its own")]
    fn no_target_takes_the_name_of_another_one() {
        let names = ["iqn.2026-11.io.nearflash:a", "iqn.2026-11.io.nearflash:A"];
        Exports::new(names.map(|name| (name.into(), Arc::default())), []);
    }
}
