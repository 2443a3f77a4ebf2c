//! The token: one file that lets a machine join the cluster.
//!
//! The file is text: lines that begin with `#` for people, and base64. The decoded bytes are a
//! magic number, a CRC-32C of the rest, and JSON. `join` checks the length first, the sum next, and
//! then the content.
//!
//! A token expires, so that a forgotten copy cannot be used by mistake. This is no protection against
//! an attacker: the secrets in the token stay valid. The join certificate itself must not expire,
//! because it is part of the certificate chain of every machine that has joined with it.

use std::fmt::Write as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroize;

use super::endpoint::Endpoint;
use super::external::{Certificates, ENDPOINTS_MAX, External};
use super::pki::Keyed;

/// The maximum length of a token's file.
pub const TOKEN_LEN_MAX: usize = 16 << 10;

/// The width of its lines.
const LINE_LEN: usize = 76;

const MAGIC: &[u8; 4] = b"NFT1";
const SCHEMA: u32 = 1;
/// Of the token of a cluster whose etcd is external.
const EXTERNAL_SCHEMA: u32 = 2;
const HEADER_LEN: usize = 8;

/// The reason why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The argument is not of the form `@FILE`.
    #[error(
        "write @FILE: a token is a file, because all users of a machine can see its command lines"
    )]
    NoFile,
    /// The file cannot be read.
    #[error("token file {}: {source}: correct the path or its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error(
        "token file {}: it is not a token: copy the file that 'nearflash cluster init' named",
        path.display()
    )]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
    /// The file is incomplete or changed.
    #[error("token file {}: it is damaged or incomplete: copy it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file has a later form.
    #[error(
        "token file {}: it was made by a later version of nearflash: install that version here",
        path.display()
    )]
    Later {
        /// The file.
        path: PathBuf,
    },
    /// The token is too old.
    #[error(
        "the token of cluster '{name}' expired at {}: make a new one with 'nearflash cluster token' on \
         a machine of the cluster, or correct the clock of this machine",
        moment(*.at)
    )]
    Expired {
        /// The cluster's name.
        name: Box<str>,
        /// The end of its lifetime, in seconds since 1970.
        at: u64,
    },
}

/// A time in UTC: `2026-11-21T13:55:00Z`.
fn moment(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The decoded text's defects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Defect {
    NotAToken,
    Damaged,
    Later,
}

/// All that a machine needs to join a cluster. It is the cluster's root secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    schema: u32,
    /// The cluster.
    pub cluster: Uuid,
    /// Its name.
    pub name: String,
    /// etcd's addresses for clients.
    pub endpoints: Vec<Endpoint>,
    /// The authority's certificate, in PEM.
    pub(super) authority: String,
    /// For an external etcd, this is the certificate that machines show to it; otherwise it signs theirs.
    join_certificate: String,
    join_key: String,
    /// The secret of the connections between nodes.
    pub(super) peer_secret: PeerSecret,
    /// Set if nearflash does not run the cluster's etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) external: Option<External>,
    /// The time from which no machine can join with it, in seconds since 1970; absent for a token that does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
}

/// The secret of the connections between nodes.
pub type PeerSecret = [u8; 32];

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

impl Token {
    pub(super) fn new(
        cluster: Uuid,
        name: &str,
        endpoints: Vec<Endpoint>,
        authority: String,
        (join, peer_secret): (Keyed, PeerSecret),
    ) -> Self {
        let Keyed { certificate: join_certificate, key: join_key } = join;
        let name = name.to_owned();
        let schema = SCHEMA;
        Self {
            schema,
            cluster,
            name,
            endpoints,
            authority,
            join_certificate,
            join_key,
            peer_secret,
            external: None,
            expires_at: None,
        }
    }

    /// Checks that a machine may still join with it.
    pub(super) fn check_time(&self, now: u64) -> Result<(), TokenError> {
        match self.expires_at {
            Some(at) if at <= now => {
                Err(TokenError::Expired { name: self.name.as_str().into(), at })
            }
            _ => Ok(()),
        }
    }

    /// The token of a cluster whose etcd is external.
    pub(super) fn of_external(
        (cluster, name): (Uuid, &str),
        (endpoints, external): (&[Endpoint], External),
        files: Certificates,
        peer_secret: PeerSecret,
    ) -> Self {
        let Certificates { authority, own } = files;
        let mut token = Self::new(cluster, name, endpoints.to_vec(), authority, (own, peer_secret));
        (token.schema, token.external) = (EXTERNAL_SCHEMA, Some(external));
        token
    }

    /// The certificates of an external etcd.
    pub(super) fn certificates(&self) -> Certificates {
        Certificates { authority: self.authority.clone(), own: self.join() }
    }

    /// The certificate that signs those of machines, with its key.
    pub(super) fn join(&self) -> Keyed {
        Keyed { certificate: self.join_certificate.clone(), key: self.join_key.clone() }
    }

    /// The content of the token's file.
    ///
    /// # Panics
    /// Never: a token is plain data.
    pub fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("a token is plain data");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(crc32c::crc32c(&json).to_be_bytes());
        bytes.extend(json);
        let text = STANDARD.encode(&bytes);
        bytes.zeroize();
        let mut file = format!(
            "# Token of nearflash cluster '{}' ({}).\n# It is the cluster's root secret: anyone who \
             has it can join, read and change everything.\n",
            self.name, self.cluster
        );
        if let Some(at) = self.expires_at {
            // Writing to a string cannot fail.
            let _ = writeln!(file, "# Machines can join with it until {}.", moment(at));
        }
        for line in text.as_bytes().chunks(LINE_LEN) {
            file.extend(line.iter().map(|&byte| char::from(byte)));
            file.push('\n');
        }
        file
    }

    /// The token in a file's content.
    pub(super) fn decode(file: &[u8]) -> Result<Self, Defect> {
        if file.len() > TOKEN_LEN_MAX {
            return Err(Defect::NotAToken);
        }
        let text = std::str::from_utf8(file).map_err(|_| Defect::NotAToken)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let text: String = lines.collect();
        // The first bytes tell a damaged token from another file.
        let start = text.get(..4).and_then(|start| STANDARD.decode(start).ok());
        if start.is_none_or(|start| start != MAGIC[..3]) {
            return Err(Defect::NotAToken);
        }
        let bytes = STANDARD.decode(&text).map_err(|_| Defect::Damaged)?;
        let (header, json) = bytes.split_at_checked(HEADER_LEN).ok_or(Defect::Damaged)?;
        if header[4..] != crc32c::crc32c(json).to_be_bytes() {
            return Err(Defect::Damaged);
        }
        let Schema { schema } = serde_json::from_slice(json).map_err(|_| Defect::Damaged)?;
        if header[..4] != MAGIC[..] || !matches!(schema, SCHEMA | EXTERNAL_SCHEMA) {
            return Err(Defect::Later);
        }
        let token: Self = serde_json::from_slice(json).map_err(|_| Defect::Damaged)?;
        let is_bounded = (1..=ENDPOINTS_MAX).contains(&token.endpoints.len());
        let is_whole = token.external.is_some() == (schema == EXTERNAL_SCHEMA);
        if is_bounded && is_whole { Ok(token) } else { Err(Defect::Damaged) }
    }

    /// Reads the token that the argument `@FILE` names.
    ///
    /// # Errors
    /// When there is no such file, or it is not a token.
    pub fn read(argument: &str) -> Result<Self, TokenError> {
        use std::io::Read as _;

        let path = PathBuf::from(argument.strip_prefix('@').ok_or(TokenError::NoFile)?);
        let mut bytes = Vec::new();
        let limit = u64::try_from(TOKEN_LEN_MAX).unwrap_or(u64::MAX) + 1;
        let read =
            std::fs::File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        if let Err(source) = read {
            return Err(TokenError::Read { path, source });
        }
        let decoded = Self::decode(&bytes);
        bytes.zeroize();
        decoded.map_err(|defect| match defect {
            Defect::NotAToken => TokenError::NotAToken { path },
            Defect::Damaged => TokenError::Damaged { path },
            Defect::Later => TokenError::Later { path },
        })
    }
}

/// Secrets are not printed.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, name, endpoints, .. } = self;
        f.debug_struct("Token")
            .field("cluster", cluster)
            .field("name", name)
            .field("endpoints", endpoints)
            .finish_non_exhaustive()
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.join_key.zeroize();
        self.peer_secret.zeroize();
    }
}

/// Any file is refused, or is a token that is written as it was read.
///
/// # Panics
/// When the property does not hold.
pub fn check_token(file: &[u8]) {
    // The sum is made right, so that the content is examined, too.
    let json = std::str::from_utf8(file).unwrap_or_default().as_bytes();
    let sum = crc32c::crc32c(json).to_be_bytes();
    let text = STANDARD.encode([&MAGIC[..], &sum, json].concat());
    for file in [file, text.as_bytes()] {
        if let Ok(token) = Token::decode(file) {
            let _ = token.check_time(0);
            assert_eq!(Token::decode(token.encode().as_bytes()), Ok(token));
        }
    }
}
