//! The identity of an application towards a node.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Url;
use nearflash_direct::wire::{NAME_LEN_MAX, PROOF_LEN};
use nearflash_direct::{Bearer, Secret};

/// The maximum number of bytes that are read from a secret's file, which holds its digits and a
/// line end.
const FILE_LEN_MAX: u64 = 4096;

/// The identity of an application towards a node: anonymous, or the holder of a credential or of a
/// [`Bearer`].
#[derive(Clone, Default)]
pub struct Credentials(Option<Key>);

#[derive(Clone)]
struct Key {
    id: Box<str>,
    secret: Secret,
}

/// The error of a credential.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum CredentialsError {
    /// The key id is not valid.
    #[error("'{id}' is not a valid key id: a key id has 1 to {NAME_LEN_MAX} bytes")]
    Name { id: String },
    /// The secret is not a string of 64 hexadecimal digits.
    #[error(
        "the secret of '{id}' is not 64 hexadecimal digits, as `nearflash credential create` prints them"
    )]
    Secret { id: String },
    /// The file of the secret cannot be read.
    #[error("cannot read the secret of '{id}' from {path}: {source}")]
    File { id: String, path: PathBuf, source: Arc<std::io::Error> },
    /// The URL has a key id without a secret.
    #[error("the URL names the key '{id}' without its secret: append &secret-file=PATH")]
    NoSecret { id: String },
    /// The URL has a secret without a key id.
    #[error("the URL names a secret without its key: append &key=ID")]
    NoKey,
    /// The URL is one with TLS, and has no credential.
    #[error(
        "TLS needs the secret of a credential, or a seal: append ?key=ID&secret-file=PATH, or ?seal=TOKEN"
    )]
    NoneForTls,
}

impl Credentials {
    /// Anonymous: for a node without credentials, which admits every client that can reach it.
    pub const NONE: Self = Self(None);

    /// The holder of the credential `id`, with the secret that `nearflash credential create`
    /// printed: 64 hexadecimal digits.
    ///
    /// # Errors
    /// When the key id or the secret is not valid.
    pub fn new(id: &str, secret: &str) -> Result<Self, CredentialsError> {
        if id.is_empty() || id.len() > NAME_LEN_MAX {
            return Err(CredentialsError::Name { id: id.to_owned() });
        }
        let refused = || CredentialsError::Secret { id: id.to_owned() };
        let secret = parse_secret(secret.trim()).ok_or_else(refused)?;
        Ok(Self(Some(Key { id: id.into(), secret })))
    }

    /// The holder of the credential `id`, with its secret read from a file.
    ///
    /// # Errors
    /// When the file cannot be read or does not hold a secret.
    pub fn from_file(id: &str, path: &Path) -> Result<Self, CredentialsError> {
        let text = read_start(path).map_err(|source| CredentialsError::File {
            id: id.to_owned(),
            path: path.to_owned(),
            source: Arc::new(source),
        })?;
        Self::new(id, &text)
    }

    /// Those that a URL names.
    ///
    /// # Errors
    /// When the URL names only a part of them, or the secret's file cannot be used.
    pub fn of(url: &Url) -> Result<Self, CredentialsError> {
        match (&url.key, &url.secret_file) {
            (Some(id), Some(path)) => Self::from_file(id, path),
            (None, None) => Ok(match &url.seal {
                Some(token) => token.bearer().clone().into(),
                None => Self::NONE,
            }),
            (Some(id), None) => Err(CredentialsError::NoSecret { id: id.clone() }),
            (None, Some(_)) => Err(CredentialsError::NoKey),
        }
    }

    /// The key id.
    pub fn id(&self) -> Option<&str> {
        self.0.as_ref().map(|key| &*key.id)
    }

    /// The key id and the secret, for the handshake.
    pub fn key(&self) -> Option<(Box<str>, Secret)> {
        self.0.as_ref().map(|key| (key.id.clone(), key.secret.clone()))
    }
}

/// With a bearer, an application can open seals, and nothing else.
impl From<Bearer> for Credentials {
    fn from(bearer: Bearer) -> Self {
        Self(Some(Key { id: bearer.id().into(), secret: bearer.secret().clone() }))
    }
}

fn read_start(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse_secret(digits: &str) -> Option<Secret> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * PROOF_LEN {
        return None;
    }
    let mut secret = [0; PROOF_LEN];
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(value(pair[0])? << 4 | value(pair[1])?).ok()?;
    }
    Some(Secret::new(secret))
}

/// Shows the key id only, never the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.id()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    #[test]
    fn a_secret_is_64_hexadecimal_digits_from_a_text_or_a_file() {
        let credentials = Credentials::new("app", DIGITS).unwrap();
        let expected: Vec<u8> = (0..32).collect();
        assert_eq!(credentials.0.as_ref().unwrap().secret.bytes()[..], expected);
        let path = std::env::temp_dir().join(format!("nearflash-secret-{}", std::process::id()));
        std::fs::write(&path, format!("{DIGITS}\n")).unwrap();
        let read = Credentials::from_file("app", &path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap().0.unwrap().secret.bytes()[..], expected);
    }

    #[test]
    fn what_is_no_secret_is_refused_and_never_shown() {
        for text in ["", "00", &DIGITS[1..], &DIGITS.replace('a', "g"), &DIGITS.replace("0a", "é")]
        {
            let message = Credentials::new("app", text).unwrap_err().to_string();
            assert!(message.contains("'app'") && message.contains("credential create"));
        }
        let shown = format!("{:?}", Credentials::new("app", DIGITS).unwrap());
        assert_eq!(shown, "Credentials(Some(\"app\"))");
    }
}
