//! The volumes that hosts use, as the control socket changes and lists them. A change is effective when it is
//! answered: the doors show each host its volumes, and no request is under way that the change forbids. Hosts
//! stay connected, and are told.

use std::collections::BTreeSet;

use nearflash_access::{HostName, VolumeList};
use nearflash_api::{HostAllow, HostDeny, HostVolume, VolumesOfHost};
use nearflash_nvme::Nqn;
use nearflash_request::UnlistedHosts;
use nearflash_space::{Name, Space, VolumeError};
use uuid::Uuid;

use super::Node;
use crate::error::NodeError;
use crate::records::Records;
use nearflash_config::ValueError;

impl Node {
    pub(super) fn host_allow(&self, call: &HostAllow) -> Result<VolumesOfHost, NodeError> {
        let host = parse_host(&call.host)?;
        let list = self.change_hosts(|fresh| {
            let given = given(&call.volumes, &fresh.space)?;
            let lists = &mut fresh.host_volumes;
            match call.only {
                true => lists.set(&host, given)?,
                false => lists.allow(&host, &given)?,
            }
            Ok(shown(&host, fresh))
        })?;
        tracing::debug!(host = host.as_str(), volumes = list.volumes.len(), "host has volumes");
        Ok(list)
    }

    pub(super) fn host_deny(&self, call: &HostDeny) -> Result<VolumesOfHost, NodeError> {
        let host = parse_host(&call.host)?;
        let list = self.change_hosts(|fresh| {
            let gone = call.volumes.iter().map(|name| uuid_of(name, &fresh.space));
            let gone: Vec<Uuid> = gone.collect::<Result<_, _>>()?;
            fresh.deny(&host, &gone)?;
            Ok(shown(&host, fresh))
        })?;
        tracing::debug!(host = host.as_str(), volumes = list.volumes.len(), "host lost volumes");
        Ok(list)
    }

    pub(super) fn host_unlist(&self, host: &str) -> Result<VolumesOfHost, NodeError> {
        let host = parse_host(host)?;
        let list = self.change_hosts(|fresh| {
            let list = fresh.host_volumes.unlist(&host).unwrap_or_default();
            Ok(volumes_of_host(&host, &list, &fresh.space))
        })?;
        tracing::debug!(host = host.as_str(), "host has no list of volumes any more");
        Ok(list)
    }

    /// From the first list on, hosts without a list see no volumes. Those that are connected would lose theirs under
    /// their file systems, so they need lists before.
    pub(super) fn check_first_list(&self, fresh: &Records) -> Result<(), NodeError> {
        let was = self.served().recorded.unlisted();
        if was == fresh.unlisted() || fresh.unlisted() == UnlistedHosts::All {
            return Ok(());
        }
        let status = self.runtime.status();
        let hosts = status.hosts.iter().filter(|it| !it.subsystem.is_discovery());
        let hosts = hosts.map(|it| it.host.to_string());
        let initiators = status.initiators.iter().filter(|it| it.target.is_some());
        let initiators = initiators.map(|it| it.initiator.clone());
        let has_list =
            |host: &str| host.parse().is_ok_and(|host| fresh.host_volumes.get(&host).is_some());
        let losers: BTreeSet<String> =
            hosts.chain(initiators).filter(|host| !has_list(host)).collect();
        match losers.is_empty() {
            true => Ok(()),
            false => Err(NodeError::FirstList { hosts: losers.into_iter().collect() }),
        }
    }
}

/// The volumes of hosts without a list, in a word.
pub(super) fn unlisted(records: &Records) -> String {
    match records.unlisted() {
        UnlistedHosts::All => "all".to_owned(),
        UnlistedHosts::None => "none".to_owned(),
    }
}

impl Records {
    /// Replaces the list of an NVMe host.
    pub(super) fn set_volumes(&mut self, host: &Nqn, list: &[HostVolume]) -> Result<(), NodeError> {
        let (host, list) = (parse_host(host.as_str())?, given(list, &self.space)?);
        Ok(self.host_volumes.set(&host, list)?)
    }

    /// Takes volumes from a host, or all if none is named. No list says "all but these", because it would not
    /// cover later volumes: a host that sees every volume needs a list first.
    fn deny(&mut self, host: &HostName, gone: &[Uuid]) -> Result<(), NodeError> {
        let mut list = match self.host_volumes.get(host) {
            _ if gone.is_empty() => VolumeList::new(),
            Some(list) => list.clone(),
            None if self.unlisted() == UnlistedHosts::None => VolumeList::new(),
            None => return Err(NodeError::NoList(host.clone())),
        };
        list.retain(|volume, _| !gone.contains(volume));
        Ok(self.host_volumes.set(host, list)?)
    }
}

fn parse_host(text: &str) -> Result<HostName, ValueError> {
    Ok(text.parse::<HostName>()?)
}

/// The volumes of a call, with the rights on them.
fn given(volumes: &[HostVolume], space: &Space) -> Result<VolumeList, NodeError> {
    let volume = |it: &HostVolume| {
        let rights = it.rights.parse().map_err(ValueError::from)?;
        Ok((uuid_of(&it.volume, space)?, rights))
    };
    volumes.iter().map(volume).collect()
}

fn uuid_of(name: &str, space: &Space) -> Result<Uuid, NodeError> {
    let name: Name = name.parse().map_err(ValueError::from)?;
    let volume = space.volume(&name).filter(|volume| volume.home.is_public());
    Ok(volume.ok_or(VolumeError::NotFound(name))?.uuid)
}

/// The list of a host after a change.
fn shown(host: &HostName, fresh: &Records) -> VolumesOfHost {
    let list = fresh.host_volumes.get(host).cloned().unwrap_or_default();
    volumes_of_host(host, &list, &fresh.space)
}

/// A list in the form of a document. A volume of the cluster that is not known here has no name yet.
pub(super) fn volumes_of_host(host: &HostName, list: &VolumeList, space: &Space) -> VolumesOfHost {
    let mut volumes: Vec<HostVolume> = Vec::new();
    for volume in space.volumes().filter(|volume| volume.home.is_public()) {
        if let Some(rights) = list.get(&volume.uuid) {
            let (volume, rights) = (volume.name.to_string(), rights.to_string());
            volumes.push(HostVolume { volume, rights });
        }
    }
    volumes.sort_by(|a, b| a.volume.cmp(&b.volume));
    VolumesOfHost { host: host.to_string(), volumes }
}
