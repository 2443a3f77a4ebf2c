//! CHAP accounts with secrets in files.

use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearflash_iscsi::chap::{Account, AccountError, Credential, Secret, SecretLenError};

/// The maximum number of bytes that are read from a secret's file, which holds the secret and a
/// line end.
const FILE_LEN_MAX: u64 = 4096;

/// The error of an account.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum AccountFileError {
    /// The file of the secret cannot be read.
    #[error("cannot read the secret of '{user}' from {path}: {source}")]
    File { user: String, path: PathBuf, source: Arc<io::Error> },
    /// The file's contents are not a secret.
    #[error("{path} does not hold a valid secret for '{user}': {source}")]
    Secret { user: String, path: PathBuf, source: SecretLenError },
    /// Both ends have the same secret.
    #[error(
        "{path} holds the same secret as that of '{user}': a target authenticates itself with a \
         different one"
    )]
    Same { path: PathBuf, user: String, source: AccountError },
}

/// The account of `user`, with the secret in the first line of a file, as `nearflash chap add`
/// prints it.
///
/// # Errors
/// When the file cannot be read or does not hold a secret.
pub fn account_from_file(user: &str, path: &Path) -> Result<Account, AccountFileError> {
    let own = credential(user, path)?;
    Ok(Account::new(own, None).expect("an account that is not mutual has one secret"))
}

/// An account with mutual CHAP: the target authenticates itself as `target`, with the secret of the
/// other file. The login fails if the target does not.
///
/// # Errors
/// When a file cannot be read or does not hold a secret, or both hold the same secret.
pub fn mutual_account_from_files(
    (user, path): (&str, &Path),
    (target, target_path): (&str, &Path),
) -> Result<Account, AccountFileError> {
    let (own, others) = (credential(user, path)?, credential(target, target_path)?);
    Account::new(own, Some(others)).map_err(|source| AccountFileError::Same {
        path: target_path.to_owned(),
        user: user.to_owned(),
        source,
    })
}

fn credential(user: &str, path: &Path) -> Result<Credential, AccountFileError> {
    let file = |source| AccountFileError::File {
        user: user.to_owned(),
        path: path.to_owned(),
        source: Arc::new(source),
    };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path).map_err(file)?;
    opened.take(FILE_LEN_MAX).read_to_end(&mut bytes).map_err(file)?;
    let line_end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    bytes.truncate(line_end.unwrap_or(bytes.len()));
    let secret = Secret::new(bytes).map_err(|source| AccountFileError::Secret {
        user: user.to_owned(),
        path: path.to_owned(),
        source,
    })?;
    Ok(Credential { user: user.to_owned(), secret })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str, name: &str) -> Result<Account, AccountFileError> {
        let path = std::env::temp_dir().join(format!("nearflash-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let account = account_from_file("u", &path);
        std::fs::remove_file(&path).unwrap();
        account
    }

    #[test]
    fn the_secret_is_the_first_line() {
        for content in ["sixteen letters!", "sixteen letters!\n", "sixteen letters!\r\nmore\n"] {
            let account = read(content, "chap-first-line").unwrap();
            assert_eq!(account.initiator().user, "u");
            assert_eq!(account.initiator().secret.bytes(), b"sixteen letters!");
        }
    }

    #[test]
    fn a_mutual_account_has_two_secrets() {
        let folder = std::env::temp_dir();
        let [own, others] = ["own", "others"].map(|name| {
            let path = folder.join(format!("nearflash-chap-{name}-{}", std::process::id()));
            std::fs::write(&path, format!("sixteen letters {name}\n")).unwrap();
            path
        });
        let account = mutual_account_from_files(("u", &own), ("node", &others)).unwrap();
        assert_eq!(account.target().unwrap().user, "node");
        assert_ne!(account.target().unwrap().secret, account.initiator().secret);
        let same = mutual_account_from_files(("u", &own), ("node", &own)).unwrap_err().to_string();
        assert!(
            same.contains("the same secret as that of 'u': a target authenticates itself with"),
            "{same}"
        );
        for path in [own, others] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_by_its_length_and_never_shown() {
        let message = read("too short\n", "chap-short").unwrap_err().to_string();
        assert!(message.contains("12 to 64 bytes, not 9"), "{message}");
        assert!(!message.contains("too short"), "{message}");
        let message = account_from_file("u", Path::new("/nowhere")).unwrap_err().to_string();
        assert!(message.contains("'u'") && message.contains("/nowhere"), "{message}");
    }
}
