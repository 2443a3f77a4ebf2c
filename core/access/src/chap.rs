//! CHAP accounts, by which iSCSI initiators authenticate, and the rules for changing them.
//!
//! A caller changes a copy, records it durably, and only then publishes it to the cores, as with a
//! change of [`nearflash_space::Space`]. The caller also supplies the text of a new secret.
//!
//! Spec: RFC 7143, 12.1.3 (a secret for each direction, and not the same one).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::InitiatorName;

/// The largest number of accounts of a node.
pub const ACCOUNTS_MAX: usize = 1024;

/// The largest number of initiators of an account.
const ACCOUNT_INITIATORS_MAX: usize = 64;

/// Longest user name, in bytes: that of an iSCSI name, which many initiators use as user name.
pub const CHAP_USER_LEN_MAX: usize = 223;

/// The shortest secret: initiators refuse shorter ones, whose guesses can be tested offline.
pub const CHAP_SECRET_LEN_MIN: usize = 12;

/// Longest secret, in characters.
pub const CHAP_SECRET_LEN_MAX: usize = 64;

/// A CHAP user name of an initiator or of this node: 1 to 223 of `a-z A-Z 0-9 . _ - : @ +`, the
/// first a letter or a digit. It needs no quoting in a shell or a configuration file.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ChapUser(Box<str>);

/// Error: a text is not a CHAP user name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "'{0}' is not a valid name of a CHAP account: use 1 to {CHAP_USER_LEN_MAX} letters, digits, '.', '_', '-', \
     ':', '@' or '+', beginning with a letter or a digit"
)]
pub struct ParseChapUserError(Box<str>);

impl ChapUser {
    /// The user's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChapUser {
    type Err = ParseChapUserError;

    fn from_str(text: &str) -> Result<Self, ParseChapUserError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@+".contains(&byte);
        let first_allowed = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if first_allowed && text.len() <= CHAP_USER_LEN_MAX && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(ParseChapUserError(text.into()))
        }
    }
}

impl fmt::Display for ChapUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ChapUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A CHAP secret: 12 to 64 printable ASCII characters without spaces; not shown, and wiped.
#[derive(Clone, Eq, PartialEq)]
pub struct ChapSecret(Zeroizing<String>);

/// Error: a text is not a CHAP secret. It does not repeat the text, which may be a mistyped secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a CHAP secret has {CHAP_SECRET_LEN_MIN} to {CHAP_SECRET_LEN_MAX} printable characters and no \
     spaces: choose another one, or omit it to have one generated"
)]
pub struct ParseChapSecretError;

impl ChapSecret {
    /// The secret's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChapSecret {
    type Err = ParseChapSecretError;

    fn from_str(text: &str) -> Result<Self, ParseChapSecretError> {
        let fits = (CHAP_SECRET_LEN_MIN..=CHAP_SECRET_LEN_MAX).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(Zeroizing::new(text.to_owned())))
        } else {
            Err(ParseChapSecretError)
        }
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapSecret(…)")
    }
}

/// The node's own user name and secret, for initiators that authenticate the target too.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mutual {
    /// The node's user name (CHAP_N).
    pub user: ChapUser,
    /// The secret that the node proves to know.
    pub secret: ChapSecret,
}

/// An account that lets an initiator log in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChapAccount {
    /// The initiator's user name (CHAP_N).
    pub user: ChapUser,
    /// The secret that the initiator proves to know.
    pub secret: ChapSecret,
    /// The node's answer to an initiator that requests mutual authentication.
    pub mutual: Option<Mutual>,
    /// The names under which initiators may log in with it; every name if there is none.
    pub initiators: BTreeSet<InitiatorName>,
}

/// Error: an account cannot be added or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AccountError {
    /// An account with this user name exists.
    #[error("CHAP account '{0}' exists already: choose another name, or remove it first")]
    Exists(ChapUser),
    /// No account has this user name.
    #[error("no CHAP account '{0}': 'nearflash chap list' lists them")]
    NotFound(ChapUser),
    /// Both directions have the same secret (RFC 7143, 12.1.3).
    #[error("the two secrets are the same: each direction needs its own")]
    SameSecret,
    /// The account has too many names.
    #[error(
        "a CHAP account is for at most {ACCOUNT_INITIATORS_MAX} initiators: add another account for more"
    )]
    TooManyInitiators,
    /// The node already has [`ACCOUNTS_MAX`] accounts.
    #[error("the node has {ACCOUNTS_MAX} CHAP accounts, the maximum: remove one first")]
    TooMany,
}

/// Every CHAP account of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Accounts {
    accounts: BTreeMap<ChapUser, ChapAccount>,
    has_had_account: bool,
}

impl Accounts {
    /// Restores recorded accounts.
    pub fn restore(accounts: impl IntoIterator<Item = ChapAccount>) -> Self {
        let accounts = accounts.into_iter().map(|account| (account.user.clone(), account));
        Self { accounts: accounts.collect(), has_had_account: false }
    }

    /// The accounts of a node that has had one before, or none.
    #[must_use]
    pub fn with_had_account(self, has_had_account: bool) -> Self {
        Self { has_had_account, ..self }
    }

    /// Whether there is an account, or has been one. From then on, the removal of the last one lets nobody in.
    pub fn has_had_account(&self) -> bool {
        self.has_had_account
    }

    /// Every account, by user.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ChapAccount> {
        self.accounts.values()
    }

    /// Adds an account.
    ///
    /// # Errors
    /// When the name exists, both secrets are equal, or there are [`ACCOUNTS_MAX`] accounts.
    pub fn add(&mut self, account: ChapAccount) -> Result<(), AccountError> {
        let user = account.user.clone();
        if self.accounts.contains_key(&user) {
            return Err(AccountError::Exists(user));
        }
        if account.mutual.as_ref().is_some_and(|mutual| mutual.secret == account.secret) {
            return Err(AccountError::SameSecret);
        }
        if account.initiators.len() > ACCOUNT_INITIATORS_MAX {
            return Err(AccountError::TooManyInitiators);
        }
        if self.accounts.len() >= ACCOUNTS_MAX {
            return Err(AccountError::TooMany);
        }
        self.has_had_account = true;
        self.accounts.insert(user, account);
        Ok(())
    }

    /// Removes an account. Without any account, initiators log in where they need none only if there has never
    /// been one.
    ///
    /// # Errors
    /// When no account has this user name.
    pub fn remove(&mut self, user: &ChapUser) -> Result<ChapAccount, AccountError> {
        self.accounts.remove(user).ok_or_else(|| AccountError::NotFound(user.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(user: &str, secret: &str) -> ChapAccount {
        let (user, secret) = (user.parse().unwrap(), secret.parse().unwrap());
        ChapAccount { user, secret, mutual: None, initiators: BTreeSet::new() }
    }

    #[test]
    fn users_are_names_or_initiator_names() {
        for text in ["app", "iqn.2004-10.com.ubuntu:01:9d2e", "me@host", &"x".repeat(223)] {
            assert_eq!(text.parse::<ChapUser>().unwrap().as_str(), text);
        }
        for text in ["", "-a", "a b", "a,b", "a=b", "a\0", "grün", &"x".repeat(224)] {
            let refused = text.parse::<ChapUser>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("'{text}'")), "{refused}");
        }
    }

    #[test]
    fn secrets_have_12_to_64_characters_and_are_never_shown() {
        let shortest = "x".repeat(12);
        for text in [shortest.as_str(), &"y".repeat(64), "!\"#$%&'()*+,"] {
            assert_eq!(text.parse::<ChapSecret>().unwrap().as_str(), text);
        }
        for text in ["", &"x".repeat(11), &"x".repeat(65), "with a space in", "grün-grün-grün"] {
            let refused = text.parse::<ChapSecret>().unwrap_err().to_string();
            assert!(text.is_empty() || !refused.contains(text), "{refused}");
        }
        let account = account("app", "geheimgeheim");
        assert!(!format!("{account:?}").contains("geheim"));
    }

    #[test]
    fn a_user_is_there_once_until_removed() {
        let mut accounts = Accounts::default();
        accounts.add(account("app", "geheimgeheim")).unwrap();
        let user: ChapUser = "app".parse().unwrap();
        let twice = accounts.add(account("app", "anderesanderes")).unwrap_err();
        assert_eq!(twice, AccountError::Exists(user.clone()));
        assert_eq!(accounts.iter().next().unwrap().secret.as_str(), "geheimgeheim");
        accounts.remove(&user).unwrap();
        assert!(accounts.accounts.is_empty() && accounts.has_had_account());
        assert_eq!(accounts.remove(&user), Err(AccountError::NotFound(user)));
    }

    #[test]
    fn one_secret_for_both_directions_is_refused() {
        let mut both = account("app", "geheimgeheim");
        let (user, secret) = ("node".parse().unwrap(), both.secret.clone());
        both.mutual = Some(Mutual { user, secret });
        assert_eq!(Accounts::default().add(both.clone()), Err(AccountError::SameSecret));
        both.mutual.as_mut().unwrap().secret = "anderesanderes".parse().unwrap();
        assert_eq!(Accounts::default().add(both), Ok(()));
    }

    #[test]
    fn accounts_are_bounded() {
        let numbered = (0..ACCOUNTS_MAX).map(|n| account(&format!("user-{n}"), "geheimgeheim"));
        let mut accounts = Accounts::restore(numbered);
        let refused = accounts.add(account("more", "geheimgeheim")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the node has 1024 CHAP accounts, the maximum: remove one first"
        );
        let name = |n: usize| format!("iqn.2026-11.test:{n}").parse().unwrap();
        let with = |count| ChapAccount {
            initiators: (0..count).map(name).collect(),
            ..account("app", "geheimgeheim")
        };
        let mut accounts = Accounts::default();
        let refused = accounts.add(with(ACCOUNT_INITIATORS_MAX + 1));
        assert_eq!(refused, Err(AccountError::TooManyInitiators));
        assert!(!accounts.has_had_account(), "it has not been added");
        assert_eq!(accounts.add(with(ACCOUNT_INITIATORS_MAX)), Ok(()));
    }
}
