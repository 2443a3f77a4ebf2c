//! CHAP accounts of iSCSI initiators.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// A CHAP account, without its secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ChapInfo {
    /// The initiator's user name.
    pub user: String,
    /// The node's user name for mutual CHAP. Absent without mutual CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
    /// The iSCSI names of the initiators that may use it. Absent for every initiator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<String>,
}

/// The node's account for mutual CHAP.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapMutual {
    /// The node's user name.
    pub user: String,
    /// Its secret. By default the node generates one and returns it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

/// Creates an account.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapAdd {
    /// The initiator's user name.
    pub user: String,
    /// Its secret. By default the node generates one and returns it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The node's account for mutual CHAP. Without it, authentication is one-way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<ChapMutual>,
    /// The iSCSI names of the initiators that may use it. By default every initiator may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initiators: Vec<String>,
    /// Whether it replaces the account of the user. By default the node refuses a user with an account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Lists all accounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapList {}

/// Removes an account and ends its sessions.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapRemove {
    /// Its user name.
    pub user: String,
}

/// An account that was added or removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneAccount {
    /// The account.
    pub account: ChapInfo,
    /// The secret that the node generated for the initiator. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The secret that the node generated for itself. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_secret: Option<SecretText>,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// All accounts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Accounts {
    /// In the order of their user names.
    pub accounts: Vec<ChapInfo>,
}
