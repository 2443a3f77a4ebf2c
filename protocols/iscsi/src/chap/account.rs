//! CHAP accounts: the credentials of the initiator and, for mutual CHAP, of the target.

use super::Secret;

/// A name and the secret that proves it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Credential {
    /// CHAP_N.
    pub user: String,
    /// The secret of this user.
    pub secret: Secret,
}

/// Why an account is not valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AccountError {
    /// RFC 7143, 12.1.3: the same secret must not prove both ends.
    #[error("the secret of the mutual user is the same: give it another one")]
    SameSecret,
}

/// A CHAP account: the credential of the initiator and, for mutual CHAP, of the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Account {
    initiator: Credential,
    target: Option<Credential>,
    /// In lower case. None stands for every name.
    names: Box<[Box<str>]>,
}

impl Account {
    /// An account; with `target`, for mutual CHAP.
    ///
    /// # Errors
    /// When both secrets are the same.
    pub fn new(initiator: Credential, target: Option<Credential>) -> Result<Self, AccountError> {
        match &target {
            Some(target) if target.secret == initiator.secret => Err(AccountError::SameSecret),
            _ => Ok(Self { initiator, target, names: Box::default() }),
        }
    }

    /// Restricts the account to initiators with these names. An empty list permits every name.
    #[must_use]
    pub fn for_initiators(self, names: impl IntoIterator<Item = Box<str>>) -> Self {
        let names = names.into_iter().map(|name| name.to_lowercase().into());
        Self { names: names.collect(), ..self }
    }

    /// Whether an initiator with this name, in lower case, may log in with it.
    pub fn is_for(&self, initiator: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| **name == *initiator)
    }

    /// The initiator's credential.
    pub const fn initiator(&self) -> &Credential {
        &self.initiator
    }

    /// The target's credential, for mutual CHAP.
    pub const fn target(&self) -> Option<&Credential> {
        self.target.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_secret_does_not_prove_both_ends() {
        let credential = |user: &str, byte| Credential {
            user: user.to_owned(),
            secret: Secret::new(vec![byte; 16]).unwrap(),
        };
        let same = Account::new(credential("a", 1), Some(credential("b", 1)));
        assert_eq!(same, Err(AccountError::SameSecret));
        assert!(Account::new(credential("a", 1), Some(credential("b", 2))).is_ok());
    }
}
