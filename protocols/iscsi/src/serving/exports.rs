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

use super::shared::PORTAL_GROUP;
use crate::chap::Account;
use crate::login::Access;

/// Targets and accounts of a node.
#[derive(Debug, Default)]
pub struct Exports {
    /// The units of each target, by its name.
    targets: BTreeMap<Box<str>, Arc<LogicalUnits>>,
    portals: Box<[SocketAddr]>,
    accounts: Vec<Arc<Account>>,
    initiators: Option<BTreeSet<Box<str>>>,
    rights: Arc<HostRights>,
}

impl Exports {
    /// Exports the units of these targets, at these portals. iSCSI names do not depend on case.
    pub fn new(
        targets: impl IntoIterator<Item = (Box<str>, Arc<LogicalUnits>)>,
        portals: impl IntoIterator<Item = SocketAddr>,
    ) -> Self {
        let lower = |(name, units): (Box<str>, _)| (name.to_lowercase().into(), units);
        Self {
            targets: targets.into_iter().map(lower).collect(),
            portals: portals.into_iter().collect(),
            accounts: Vec::new(),
            initiators: None,
            rights: Arc::default(),
        }
    }

    /// Requires initiators to authenticate by one of these CHAP accounts, if there is any.
    #[must_use]
    pub fn with_accounts(mut self, accounts: impl IntoIterator<Item = Account>) -> Self {
        self.accounts = accounts.into_iter().map(Arc::new).collect();
        self
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
    pub(super) fn rights(&self) -> &HostRights {
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
        !self.accounts.is_empty()
    }

    /// Whether there is an account of that user.
    pub fn has_account(&self, user: &str) -> bool {
        self.accounts.iter().any(|account| account.initiator().user == user)
    }

    /// Whether a session that logged in by this account, or without one, is still allowed.
    pub fn trusts(&self, account: Option<&str>) -> bool {
        account.map_or(!self.wants_chap(), |user| self.has_account(user))
    }

    /// Whether the initiator with this name, in lower case, is admitted.
    pub fn admits(&self, initiator: &str) -> bool {
        self.initiators.as_ref().is_none_or(|names| names.contains(initiator))
    }

    /// The initiators that may log in on a portal; `anonymous` is the portal's setting.
    pub(super) fn access(&self, anonymous: bool) -> Access {
        let is_open = anonymous && self.accounts.is_empty();
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

    /// The addresses of targets in the format of TargetAddress, for a connection accepted at
    /// `local`. A portal at the unspecified address is reported as the address that the initiator
    /// used.
    pub fn addresses(&self, local: SocketAddr) -> Vec<String> {
        let told = |portal: &SocketAddr| {
            let address = if portal.ip().is_unspecified() {
                SocketAddr::new(local.ip(), portal.port())
            } else {
                *portal
            };
            format!("{address},{PORTAL_GROUP}")
        };
        if self.portals.is_empty() {
            return vec![told(&local)];
        }
        let mut addresses: Vec<String> = self.portals.iter().map(told).collect();
        addresses.dedup();
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_of_every_address_is_told_as_the_one_in_use() {
        let local: SocketAddr = "192.0.2.7:3260".parse().unwrap();
        let portals = ["0.0.0.0:3260", "[2001:db8::1]:3261"].map(|text| text.parse().unwrap());
        let exports = Exports::new([], portals);
        assert_eq!(exports.addresses(local), ["192.0.2.7:3260,1", "[2001:db8::1]:3261,1"]);
        assert_eq!(Exports::default().addresses(local), ["192.0.2.7:3260,1"]);
    }

    #[test]
    fn names_are_the_same_in_capital_and_small_letters() {
        let exports = Exports::new([("iqn.2026-11.io.nearflash:A".into(), Arc::default())], [])
            .with_initiators(["IQN.2026-11.test:host".into()]);
        assert!(exports.target("iqn.2026-11.io.nearflash:a").is_some());
        assert!(exports.admits("iqn.2026-11.test:host"));
        assert!(!exports.admits("iqn.2026-11.test:other"));
    }
}
