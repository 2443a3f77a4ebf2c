//! The state that a node records and serves. A change is made on a copy of it.

use std::sync::Arc;

use nearflash_access::{Accounts, Grants, HostVolumes};
use nearflash_cluster::compile::HostDoors;
use nearflash_nvme::hosts::HostTable;
use nearflash_request::UnlistedHosts;
use nearflash_space::Space;

use crate::runtime_face::{FilesAccess, PeerAccess};
use crate::tokens::Tokens;

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
    /// The volumes of the other hosts. The configuration has them, not the catalog.
    pub(crate) unlisted_hosts: UnlistedHosts,
    /// The access of the cluster's nodes. The cluster's token has its secret, not the catalog.
    pub(crate) peers: Option<PeerAccess>,
    /// The other nodes of the cluster that hosts can use. The cluster's store has them, not the catalog.
    pub(crate) elsewhere: Arc<[HostDoors]>,
    /// The volumes whose files this node owns. The configuration has them, not the catalog.
    pub(crate) files: Option<FilesAccess>,
}
