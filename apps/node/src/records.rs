//! The state that a node records and serves. A change is made on a copy of it.

use std::sync::Arc;

use nearflash_access::{Accounts, Grants, HostVolumes, Tokens};
use nearflash_cluster::compile::HostDoors;
use nearflash_nvme::hosts::HostTable;
use nearflash_request::UnlistedHosts;
use nearflash_space::Space;

use crate::runtime_face::{FilesAccess, PeerAccess};
use nearflash_config::Anonymous;

impl Records {
    /// Whether direct clients without a credential are kept out: there is one, or there has been one, and the
    /// configuration does not let them in.
    pub(crate) fn closes_direct(&self) -> bool {
        let has_one = self.grants.credentials().len() > 0;
        has_one || self.grants.has_had_credential() && !self.anonymous.direct
    }

    /// Whether initiators without an account are kept out, likewise.
    pub(crate) fn closes_iscsi(&self) -> bool {
        let has_one = self.accounts.iter().len() > 0;
        has_one || self.accounts.has_had_account() && !self.anonymous.iscsi
    }

    /// The volumes of hosts without a list.
    pub(crate) fn unlisted(&self) -> UnlistedHosts {
        self.host_volumes.unlisted(self.unlisted_hosts)
    }
}

/// The contents of the catalog, except the devices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Records {
    /// The catalog's generation of this state.
    pub(crate) generation: u64,
    /// The number of the last job. A number is never reused.
    pub(crate) last_job: u64,
    /// The volumes and their extents.
    pub(crate) space: Space,
    /// The access rights of direct clients.
    pub(crate) grants: Grants,
    /// Volumes of other nodes were absent at the start: grants on volumes that are not known here may
    /// be on them.
    pub(crate) keeps_all_grants: bool,
    /// The CHAP accounts of iSCSI initiators.
    pub(crate) accounts: Accounts,
    /// The tokens of the HTTP interface.
    pub(crate) tokens: Tokens,
    /// The NVMe hosts that have keys, with their keys.
    pub(crate) hosts: HostTable,
    /// The volumes of the hosts that have a list.
    pub(crate) host_volumes: HostVolumes,
    /// The volumes of the other hosts, if the configuration says it.
    pub(crate) unlisted_hosts: Option<UnlistedHosts>,
    /// Who enters without a key although others had one. The configuration has it, not the catalog.
    pub(crate) anonymous: Anonymous,
    /// The access of the cluster's nodes. The cluster's token has its secret, not the catalog.
    pub(crate) peers: Option<PeerAccess>,
    /// The other nodes of the cluster that hosts can use. The cluster's store has them, not the catalog.
    pub(crate) elsewhere: Arc<[HostDoors]>,
    /// The volumes whose files this node owns. The configuration has them, not the catalog.
    pub(crate) files: Option<FilesAccess>,
}
