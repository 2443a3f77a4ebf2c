//! All that a node records and serves: what a change is made on a copy of.

use nearflash_access::{Accounts, Grants};
use nearflash_space::Space;

/// All that the catalog keeps, but for the devices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Records {
    /// The catalog's when these were recorded.
    pub(crate) generation: u64,
    /// The number of the last job. None is used twice.
    pub(crate) last_job: u64,
    /// The volumes, and where they lie.
    pub(crate) space: Space,
    /// Who of the direct clients may do what.
    pub(crate) grants: Grants,
    /// What iSCSI initiators prove themselves with.
    pub(crate) accounts: Accounts,
}
