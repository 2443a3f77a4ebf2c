//! CHAP accounts of iSCSI initiators.

use serde::{Deserialize, Serialize};

use crate::SecretText;

/// A CHAP account, without its secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ChapInfo {
    /// The user name that the initiator gives.
    pub user: String,
    /// The user name that the node gives in return. Absent when it does not prove itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_user: Option<String>,
}

/// How the node proves itself to the initiator.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChapMutual {
    /// The user name that the node gives.
    pub user: String,
    /// Its secret. When absent, the node draws one and answers with it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

/// Creates an account.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChapAdd {
    /// The user name that the initiator gives.
    pub user: String,
    /// Its secret. When absent, the node draws one and answers with it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// How the node proves itself in return; not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual: Option<ChapMutual>,
}

/// Lists all accounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChapList {}

/// Removes an account and ends its sessions.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChapRemove {
    /// Its user name.
    pub user: String,
}

/// An account after a change, or before its removal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OneAccount {
    /// The account.
    pub account: ChapInfo,
    /// The secret that the node drew for the initiator. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
    /// The secret that the node drew for itself. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_secret: Option<SecretText>,
}

/// All accounts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Accounts {
    /// In the order of their user names.
    pub accounts: Vec<ChapInfo>,
}
