//! The catalog's record of the keys of a host. The names and meanings of these fields are permanent; a
//! field that a later version adds has a default.

use nearflash_nvme::auth::{HostKeys, Policy};
use serde::{Deserialize, Serialize};
use zeroize::ZeroizeOnDrop;

/// The keys of a host. Its `Debug` output hides them.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct HostRecord {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl std::fmt::Debug for HostRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostRecord").finish_non_exhaustive()
    }
}

impl HostRecord {
    pub(super) fn of(keys: &HostKeys) -> Self {
        Self {
            key: keys.host().to_text().as_str().to_owned(),
            controller_key: keys.controller().map(|key| key.to_text().as_str().to_owned()),
            hash: keys.policy.hash.map(|hash| hash.to_string()),
            group: keys.policy.group.map(|group| group.to_string()),
        }
    }

    /// The keys; `None` when a field holds a value that no version writes.
    pub(super) fn keys(&self) -> Option<HostKeys> {
        let controller = self.controller_key.as_deref().map(str::parse).transpose().ok()?;
        let policy = Policy {
            hash: self.hash.as_deref().map(str::parse).transpose().ok()?,
            group: self.group.as_deref().map(str::parse).transpose().ok()?,
        };
        HostKeys::new(self.key.parse().ok()?, controller, policy).ok()
    }
}
