//! The state that a node records and serves. A change is made on a copy of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_access::{
    Accounts, Anonymous, Grants, HostVolumes, InitiatorName, Secret, Tokens, UnixTime,
};
use nearflash_cluster::compile::HostDoors;
use nearflash_nvme::hosts::HostTable;
use nearflash_records::AccessRecord;
use nearflash_request::{HostRights, UnlistedHosts, VolumeId};
use nearflash_space::{Name, Space, Volume};
use uuid::Uuid;

use crate::iscsi_names::TargetNames;

/// The contents of the catalog, except the devices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Records {
    /// The catalog's generation of this state.
    pub generation: u64,
    /// The number of the last job. A number is never reused.
    pub last_job: u64,
    /// The volumes and their extents.
    pub space: Space,
    /// The access rights of direct clients.
    pub grants: Grants,
    /// Volumes of other nodes were absent at the start: grants on volumes that are not known here may
    /// be on them.
    pub keeps_all_grants: bool,
    /// The CHAP accounts of iSCSI initiators.
    pub accounts: Accounts,
    /// The tokens of the HTTP interface.
    pub tokens: Tokens,
    /// The NVMe hosts that have keys, with their keys.
    pub hosts: HostTable,
    /// The volumes of the hosts that have a list.
    pub host_volumes: HostVolumes,
    /// The list of access of a cluster that these rights are a copy of; `None` if they are this node's own.
    pub list: Option<AccessRecord>,
    /// The volumes of the other hosts, if the configuration says it.
    pub unlisted_hosts: Option<UnlistedHosts>,
    /// Who enters without a key although others had one. The configuration has it, not the catalog.
    pub anonymous: Anonymous,
    /// The way of initiators to the node. The configuration has it, not the catalog.
    pub portals: Arc<Portals>,
    /// The access of the cluster's nodes. The cluster's token has its secret, not the catalog.
    pub peers: Option<PeerAccess>,
    /// The other nodes of the cluster that hosts can use. The cluster's store has them, not the catalog.
    pub elsewhere: Arc<[HostDoors]>,
    /// The volumes whose files this node owns. The configuration has them, not the catalog.
    pub files: Option<FilesAccess>,
}

/// The way of initiators to the node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Portals {
    /// The addresses that discovery reports.
    pub addresses: Vec<SocketAddr>,
    /// The node's number in its cluster; 0 without a cluster.
    pub ordinal: u16,
    /// The initiators that are admitted; `None` if all are.
    pub initiators: Option<Vec<InitiatorName>>,
}

/// The access of the owner of files, which is a part of the node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilesAccess {
    /// The secret that it proves to know, another one for each start of the node.
    pub secret: Secret,
    /// The volumes.
    pub volumes: Vec<Name>,
}

/// The access of the other nodes of the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerAccess {
    /// The secret that they prove to know.
    pub secret: Secret,
    /// Another number when writes to the parts that no flush followed may have been lost.
    pub boot: u64,
}

impl Records {
    /// Whether direct clients without a credential are kept out: there is one, or there has been one, and the
    /// configuration does not let them in.
    pub fn closes_direct(&self) -> bool {
        let has_one = self.grants.credentials().len() > 0;
        has_one || self.grants.has_had_credential() && !self.anonymous.direct
    }

    /// Whether initiators without an account are kept out, likewise.
    pub fn closes_iscsi(&self) -> bool {
        let has_one = self.accounts.iter().len() > 0;
        has_one || self.accounts.has_had_account() && !self.anonymous.iscsi
    }

    /// The volumes of hosts without a list.
    pub fn unlisted(&self) -> UnlistedHosts {
        self.host_volumes.unlisted(self.unlisted_hosts)
    }

    /// Deletes grants on volumes that no longer exist, and takes these out of the lists of hosts, so that a later
    /// volume of the same name has none. Those of a cluster's list may be of volumes that other nodes have.
    pub fn forget_rights_on_gone_volumes(&mut self) {
        let Self { space, grants, host_volumes, keeps_all_grants, list, .. } = self;
        if *keeps_all_grants || list.is_some() {
            return;
        }
        let is_there = |uuid| space.volumes().any(|volume| volume.uuid == uuid);
        grants.keep_those_on(is_there);
        host_volumes.keep_those_on(is_there);
    }

    /// Takes the rights on a volume that is gone.
    pub fn forget_rights_on(&mut self, volume: Uuid) {
        self.grants.keep_those_on(|it| it != volume);
        self.host_volumes.keep_those_on(|it| it != volume);
    }

    /// Whether there are credentials, grants, accounts, keys, lists or tokens.
    pub fn has_access(&self) -> bool {
        let Self { grants, accounts, tokens, hosts, host_volumes, .. } = self;
        grants.credentials().len() + grants.grants().count() > 0
            || accounts.iter().count() + tokens.iter().count() > 0
            || hosts.iter().count() + hosts.removed().count() + host_volumes.iter().count() > 0
    }

    /// The rights of hosts and initiators.
    pub fn host_rights(&self) -> HostRights {
        let numbers: HashMap<Uuid, VolumeId> =
            self.space.served().map(|volume| (volume.uuid, volume.id)).collect();
        self.host_volumes.rights(self.unlisted(), |uuid| numbers.get(&uuid).copied())
    }

    /// The volumes that hosts and initiators see. The files of the others are this node's, and nobody else
    /// writes their blocks.
    pub fn for_hosts(&self) -> impl Iterator<Item = &Volume> {
        let is_files = |volume: &Volume| {
            self.files.as_ref().is_some_and(|files| files.volumes.contains(&volume.name))
        };
        self.space.served().filter(move |it| it.home.is_public() && !is_files(it))
    }

    /// The iSCSI names of the subsystems that initiators see.
    pub fn target_names(&self) -> TargetNames {
        TargetNames::of(self.for_hosts())
    }

    /// Whether the access of direct clients differs between these times: something has expired since the
    /// earlier one, or, where the clock was set back, is valid again.
    pub fn expire_between(&self, one: UnixTime, other: UnixTime) -> bool {
        let (earlier, later) = (one.min(other), one.max(other));
        self.grants.next_expiry(earlier).is_some_and(|at| at <= later)
    }
}
