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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nearflash_units::UnixTime;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroize;

use crate::endpoint::Endpoint;

/// The maximum length of a token's file.
pub const TOKEN_LEN_MAX: usize = 16 << 10;

/// The maximum number of addresses of etcd in it.
pub const ENDPOINTS_MAX: usize = 16;

/// The width of its lines.
const LINE_LEN: usize = 76;

pub(crate) const MAGIC: &[u8; 4] = b"NFT1";
const SCHEMA: u32 = 1;
/// Of the token of a cluster whose etcd is external.
const EXTERNAL_SCHEMA: u32 = 2;
const HEADER_LEN: usize = 8;

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// A time in UTC, as `2026-11-21 13:55:00Z`.
fn moment(time: UnixTime) -> String {
    let seconds = time.0.min(LAST);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Years begin with March, so that a leap day is the last of its year; eras have 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Error: the token is too old.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the token of cluster '{name}' expired at {}: make a new one with 'nearflash cluster token' on a machine \
     of the cluster, or correct the clock of this machine",
    moment(*at)
)]
pub struct Expired {
    /// The cluster's name.
    pub name: Box<str>,
    /// The end of its lifetime.
    pub at: UnixTime,
}

/// The reason why a file's content is not a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Defect {
    /// It is something else.
    NotAToken,
    /// It is incomplete or changed.
    Damaged,
    /// It has a later form.
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
    pub authority: String,
    /// For an external etcd, this is the certificate that machines show to it; otherwise it signs theirs.
    join_certificate: String,
    join_key: String,
    /// The secret of the connections between nodes.
    pub peer_secret: PeerSecret,
    /// Set if nearflash does not run the cluster's etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// The time from which no machine can join with it, in seconds since 1970; absent for a token that does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// The secret of the connections between nodes.
pub type PeerSecret = [u8; 32];

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Keyed {
    /// The certificate, followed by that which signed it if that is not the authority's.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// The certificates of an external etcd, in PEM. Those that are not used are empty.
#[derive(Clone)]
pub struct Certificates {
    /// The authority that signed etcd's.
    pub authority: String,
    /// The one that machines show to etcd.
    pub own: Keyed,
}

/// The way of a cluster to an etcd that nearflash does not run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Before the name of each key.
    pub prefix: String,
    /// The protection of the connections.
    pub tls: Tls,
}

/// The protection of the connections.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// None: plain HTTP/2.
    None,
    /// etcd shows a certificate.
    Server,
    /// Both ends show one.
    Mutual,
}

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

impl Token {
    /// The token of a cluster whose etcd nearflash runs.
    pub fn new(
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
    ///
    /// # Errors
    /// When its lifetime is over.
    pub fn check_time(&self, now: UnixTime) -> Result<(), Expired> {
        let at = self.expires_at.map(UnixTime).filter(|at| *at <= now);
        at.map_or(Ok(()), |at| Err(Expired { name: self.name.as_str().into(), at }))
    }

    /// The token of a cluster whose etcd is external.
    pub fn of_external(
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
    pub fn certificates(&self) -> Certificates {
        Certificates { authority: self.authority.clone(), own: self.join() }
    }

    /// The certificate that signs those of machines, with its key.
    pub fn join(&self) -> Keyed {
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
            let _ = writeln!(file, "# Machines can join with it until {}.", moment(UnixTime(at)));
        }
        for line in text.as_bytes().chunks(LINE_LEN) {
            file.extend(line.iter().map(|&byte| char::from(byte)));
            file.push('\n');
        }
        file
    }

    /// The token in a file's content.
    ///
    /// # Errors
    /// When it is not a token of this version.
    pub fn decode(file: &[u8]) -> Result<Self, Defect> {
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

#[cfg(test)]
mod tests;
