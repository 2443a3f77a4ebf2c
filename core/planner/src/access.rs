//! The rules of rights: what a change of credentials, accounts, keys and lists takes along.
//!
//! A caller passes copies of the records. A rule changes them, or refuses; after a refusal, the caller drops them.

use std::collections::BTreeSet;

use nearflash_access::{
    Accounts, ChapAccount, Covered, Grant, GrantError, GrantRequest, Grants, HostName, HostVolumes,
    Rights, VolumeList,
};
use nearflash_nvme::Nqn;
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_request::UnlistedHosts;
use nearflash_space::{Name, Space, Volume, VolumeError};
use nearflash_units::UnixTime;
use uuid::Uuid;

use crate::refusal::Refusal;

/// A volume that a caller names, and the right on it.
pub type Listed = (Name, Rights);

/// Looks up the volume of this name that callers can have rights on.
///
/// # Errors
/// The node has no such volume.
pub fn volume_named<'a>(space: &'a Space, name: &Name) -> Result<&'a Volume, Refusal> {
    let found = space.volume(name).filter(|volume| volume.home.is_public());
    Ok(found.ok_or_else(|| VolumeError::NotFound(name.clone()))?)
}

/// Adds a grant on the volume of this name. `owns_files`: the node serves the files of that volume.
///
/// # Errors
/// When there is no such volume, or one of the conditions of [`GrantError`] holds.
pub fn add_grant(
    grants: &mut Grants,
    space: &Space,
    (volume, owns_files): (&Name, bool),
    asked: GrantRequest,
    now: UnixTime,
) -> Result<Grant, Refusal> {
    if matches!(asked.covers, Covered::Files(_)) && !owns_files {
        return Err(GrantError::NoFiles(volume.clone()).into());
    }
    let volume = volume_named(space, volume)?;
    Ok(grants.add(asked, volume, now)?.clone())
}

/// Adds an account, in place of an earlier one of the same user if the caller wants that.
///
/// # Errors
/// When the user has one, or a condition of [`nearflash_access::AccountError`] holds.
pub fn add_account(
    accounts: &mut Accounts,
    account: ChapAccount,
    replace: bool,
) -> Result<(), Refusal> {
    if replace && accounts.iter().any(|old| old.user == account.user) {
        accounts.remove(&account.user)?;
    }
    Ok(accounts.add(account)?)
}

/// The keys and the lists of hosts, and the volumes that the lists name.
#[derive(Debug)]
pub struct Hosts<'a> {
    /// The hosts with keys.
    pub keys: &'a mut HostTable,
    /// The hosts with a list of volumes.
    pub lists: &'a mut HostVolumes,
    /// The volumes.
    pub space: &'a Space,
    /// The configuration of the hosts without a list.
    pub unlisted: Option<UnlistedHosts>,
}

impl Hosts<'_> {
    /// Gives a host keys, and a list if the caller names volumes.
    ///
    /// # Errors
    /// When it has keys and the caller does not replace them, there is no such volume, or there are too many.
    pub fn add(
        &mut self,
        host: &Nqn,
        secrets: HostSecrets,
        replace: bool,
        list: Option<(&HostName, &[Listed])>,
    ) -> Result<(), Refusal> {
        if replace {
            self.keys.forget(host);
        }
        self.keys.add(host, secrets)?;
        match list {
            Some((name, volumes)) => self.allow(name, volumes, true),
            None => Ok(()),
        }
    }

    /// Removes a host with its list, and returns its keys. One that has had keys does not enter without keys
    /// from then on, unless it is forgotten.
    ///
    /// # Errors
    /// When it has neither keys nor a list.
    pub fn remove(
        &mut self,
        name: &HostName,
        forget: bool,
    ) -> Result<Option<HostSecrets>, Refusal> {
        let list = self.lists.unlist(name);
        let (keys, was_removed) = match Nqn::new(name.as_str()) {
            Ok(host) if forget => self.keys.forget(&host),
            Ok(host) if self.keys.get(&host).is_some() => (Some(self.keys.remove(&host)?), false),
            _ => (None, false),
        };
        match (&list, &keys, was_removed) {
            (None, None, false) => Err(Refusal::NoHost(name.clone())),
            _ => Ok(keys),
        }
    }

    /// Adds volumes to the list of a host, or makes them its only ones.
    ///
    /// # Errors
    /// When there is no such volume, or there are too many.
    pub fn allow(
        &mut self,
        host: &HostName,
        volumes: &[Listed],
        only: bool,
    ) -> Result<(), Refusal> {
        let uuid = |(name, rights): &Listed| Ok((volume_named(self.space, name)?.uuid, *rights));
        let given: VolumeList = volumes.iter().map(uuid).collect::<Result<_, Refusal>>()?;
        match only {
            true => self.lists.set(host, given)?,
            false => self.lists.allow(host, &given)?,
        }
        Ok(())
    }

    /// Takes volumes from a host, or all if none is named. No list says "all but these", because it would not
    /// cover later volumes: a host that sees every volume needs a list first.
    ///
    /// # Errors
    /// When there is no such volume, or no list from which it can be taken.
    pub fn deny(&mut self, host: &HostName, volumes: &[Name]) -> Result<(), Refusal> {
        let uuid = |name| Ok(volume_named(self.space, name)?.uuid);
        let gone: Vec<Uuid> = volumes.iter().map(uuid).collect::<Result<_, Refusal>>()?;
        let mut list = match self.lists.get(host) {
            _ if gone.is_empty() => VolumeList::new(),
            Some(list) => list.clone(),
            None if self.lists.unlisted(self.unlisted) == UnlistedHosts::None => VolumeList::new(),
            None => return Err(Refusal::NoList(host.clone())),
        };
        list.retain(|volume, _| !gone.contains(volume));
        Ok(self.lists.set(host, list)?)
    }
}

/// From the first list on, hosts without a list see no volumes. Those that are connected would lose theirs under
/// their file systems, so they need lists before. `was` and
/// `unlisted` say which volumes hosts without a list see before the change and after it.
///
/// # Errors
/// When a connected host would lose its volumes.
pub fn check_first_list(
    (was, unlisted): (UnlistedHosts, UnlistedHosts),
    lists: &HostVolumes,
    connected: impl Iterator<Item = String>,
) -> Result<(), Refusal> {
    if was == unlisted || unlisted == UnlistedHosts::All {
        return Ok(());
    }
    let has_list = |host: &str| host.parse().is_ok_and(|host| lists.get(&host).is_some());
    let losers: BTreeSet<String> = connected.filter(|host| !has_list(host)).collect();
    match losers.is_empty() {
        true => Ok(()),
        false => Err(Refusal::FirstList { hosts: losers.into_iter().collect() }),
    }
}

#[cfg(test)]
mod tests;
