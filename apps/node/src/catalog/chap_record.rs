//! The catalog's record of a CHAP account. The names and meanings of these fields are permanent; a
//! field that a later version adds has a default.

use nearflash_access::{ChapAccount, ChapUser, Mutual};
use serde::{Deserialize, Serialize};
use zeroize::ZeroizeOnDrop;

/// An account. Its `Debug` output hides the secrets.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize, ZeroizeOnDrop)]
#[serde(deny_unknown_fields)]
pub(super) struct ChapRecord {
    secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutual_user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mutual_secret: Option<String>,
    /// The names of the initiators that may use it; absent for every name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    initiators: Vec<String>,
}

impl std::fmt::Debug for ChapRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChapRecord").field("mutual_user", &self.mutual_user).finish_non_exhaustive()
    }
}

impl ChapRecord {
    pub(super) fn of(account: &ChapAccount) -> Self {
        let mutual = account.mutual.as_ref();
        Self {
            secret: account.secret.as_str().to_owned(),
            mutual_user: mutual.map(|mutual| mutual.user.to_string()),
            mutual_secret: mutual.map(|mutual| mutual.secret.as_str().to_owned()),
            initiators: account.initiators.iter().map(ToString::to_string).collect(),
        }
    }

    /// The account; `None` when a field holds a value that no version writes.
    pub(super) fn account(&self, user: &ChapUser) -> Option<ChapAccount> {
        let mutual = match (&self.mutual_user, &self.mutual_secret) {
            (None, None) => None,
            (Some(user), Some(secret)) => {
                Some(Mutual { user: user.parse().ok()?, secret: secret.parse().ok()? })
            }
            _ => return None,
        };
        let initiators =
            self.initiators.iter().map(|name| name.parse().ok()).collect::<Option<_>>()?;
        Some(ChapAccount {
            user: user.clone(),
            secret: self.secret.parse().ok()?,
            mutual,
            initiators,
        })
    }
}
