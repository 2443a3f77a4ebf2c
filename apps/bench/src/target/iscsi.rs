//! `iscsi://HOST:PORT/NAME[/LUN]`, and what may stand behind the question mark.

use std::fmt;
use std::path::PathBuf;

use super::{TargetError, parse_authority};

/// Stands before a nearflash volume's name to make its IQN.
const VOLUME_IQN_PREFIX: &str = "iqn.2026-11.io.nearflash:";
/// The port that IANA assigned to iSCSI.
const PORT_DEFAULT: u16 = 3260;
/// What flat space addressing of a LUN holds. SAM-5, 4.7.7.3.
const LUN_MAX: u16 = (1 << 14) - 1;
/// More sessions or connections than this per job is a typing error.
const COUNT_MAX: u16 = 64;

/// A logical unit behind iSCSI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IscsiTarget {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The target's name.
    pub name: String,
    /// Which logical unit of it.
    pub lun: u16,
    /// HeaderDigest.
    pub header_digest: bool,
    /// DataDigest.
    pub data_digest: bool,
    /// Sessions of each job.
    pub sessions: u16,
    /// Connections of each session.
    pub connections: u16,
    /// The CHAP account.
    pub account: Option<AccountFile>,
}

/// A CHAP account whose secret stands in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccountFile {
    /// CHAP_N.
    pub user: String,
    /// Where its secret stands.
    pub secret_file: PathBuf,
}

/// An iSCSI name stands for itself, any other for the nearflash volume of that name.
pub fn iqn_of(name: &str) -> String {
    match ["iqn.", "eui.", "naa."].iter().any(|prefix| name.starts_with(prefix)) {
        true => name.to_owned(),
        false => format!("{VOLUME_IQN_PREFIX}{name}"),
    }
}

/// Reads `text`, whose part behind the scheme is `rest`.
pub(super) fn parse(text: &str, rest: &str) -> Result<IscsiTarget, TargetError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let or = " or a target's IQN";
    let no_name = || TargetError::NoName { text: text.to_owned(), or };
    let (authority, unit) = place.split_once('/').ok_or_else(no_name)?;
    let (host, port) = parse_authority(text, authority, ("iscsi", PORT_DEFAULT))?;
    let (name, lun) = match unit.split_once('/') {
        Some((name, lun)) => (name, parse_lun(lun)?),
        None => (unit, 0),
    };
    if name.is_empty() {
        return Err(no_name());
    }
    let mut options = Options::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        options.apply(key, value)?;
    }
    Ok(IscsiTarget {
        host,
        port,
        name: iqn_of(name),
        lun,
        header_digest: options.header_digest,
        data_digest: options.data_digest,
        sessions: options.sessions.unwrap_or(1),
        connections: options.connections.unwrap_or(1),
        account: account(text, options)?,
    })
}

fn parse_lun(digits: &str) -> Result<u16, TargetError> {
    let lun = digits.parse().ok().filter(|lun| *lun <= LUN_MAX);
    lun.ok_or_else(|| TargetError::Lun { text: digits.to_owned() })
}

/// Both of them, or none.
fn account(text: &str, options: Options) -> Result<Option<AccountFile>, TargetError> {
    let half = |named, missing| TargetError::HalfAccount { text: text.to_owned(), named, missing };
    match (options.user, options.secret_file) {
        (Some(user), Some(secret_file)) => Ok(Some(AccountFile { user, secret_file })),
        (Some(_), None) => Err(half("a user", "secret-file")),
        (None, Some(_)) => Err(half("a secret", "user")),
        (None, None) => Ok(None),
    }
}

/// What stands behind the question mark.
#[derive(Default)]
struct Options {
    header_digest: bool,
    data_digest: bool,
    sessions: Option<u16>,
    connections: Option<u16>,
    user: Option<String>,
    secret_file: Option<PathBuf>,
}

impl Options {
    fn apply(&mut self, key: &str, value: &str) -> Result<(), TargetError> {
        let refused = |key, expected| TargetError::Value { key, value: value.to_owned(), expected };
        match key {
            "sessions" => self.sessions = Some(parse_count("sessions", value)?),
            "connections" => self.connections = Some(parse_count("connections", value)?),
            "digest" => {
                for digest in value.split(',') {
                    match digest {
                        "header" => self.header_digest = true,
                        "data" => self.data_digest = true,
                        _ => return Err(refused("digest", "header, data or header,data")),
                    }
                }
            }
            "user" if value.is_empty() => {
                return Err(refused("user", "the USER that `nearflash chap add` was given"));
            }
            "user" => self.user = Some(value.to_owned()),
            "secret-file" if value.is_empty() => {
                return Err(refused("secret-file", "a path"));
            }
            "secret-file" => self.secret_file = Some(PathBuf::from(value)),
            _ => {
                let expected = "sessions=N, connections=N, digest=header,data, user=U or \
                                secret-file=PATH";
                return Err(TargetError::UnknownKey { key: key.to_owned(), expected });
            }
        }
        Ok(())
    }
}

fn parse_count(key: &'static str, value: &str) -> Result<u16, TargetError> {
    let count = value.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    let expected = "a number from 1 to 64";
    count.ok_or_else(|| TargetError::Value { key, value: value.to_owned(), expected })
}

/// Without account and digests: what is measured is named, not how one gets there.
impl fmt::Display for IscsiTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, name, lun, .. } = self;
        match host.contains(':') {
            true => write!(f, "iscsi://[{host}]:{port}/{name}/{lun}"),
            false => write!(f, "iscsi://{host}:{port}/{name}/{lun}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn iscsi(text: &str) -> IscsiTarget {
        match text.parse().unwrap() {
            Target::Iscsi(target) => target,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_volumes_name_stands_for_its_iqn_and_lun_0_of_port_3260() {
        let target = iscsi("iscsi://flash.example/data");
        assert_eq!((target.host.as_str(), target.port), ("flash.example", 3260));
        assert_eq!((target.name.as_str(), target.lun), ("iqn.2026-11.io.nearflash:data", 0));
        assert_eq!((target.sessions, target.connections), (1, 1));
        assert_eq!(target.account, None);
        assert_eq!(
            target.to_string(),
            "iscsi://flash.example:3260/iqn.2026-11.io.nearflash:data/0"
        );
    }

    #[test]
    fn iscsi_names_of_every_form_stand_for_themselves() {
        for name in ["iqn.2001-04.com.example:disk", "eui.02004567A425678D", "naa.52004567BA64678D"]
        {
            assert_eq!(iscsi(&format!("iscsi://a/{name}/7")).name, name);
        }
    }

    #[test]
    fn every_option_is_read() {
        let text = "iscsi://[::1]:3261/data/3?sessions=2&connections=4&digest=header,data&user=u\
                    &secret-file=/run/u";
        let target = iscsi(text);
        assert_eq!((target.host.as_str(), target.port, target.lun), ("::1", 3261, 3));
        assert_eq!((target.sessions, target.connections), (2, 4));
        assert!(target.header_digest && target.data_digest);
        let account = AccountFile { user: "u".to_owned(), secret_file: "/run/u".into() };
        assert_eq!(target.account, Some(account));
        assert_eq!(target.to_string(), "iscsi://[::1]:3261/iqn.2026-11.io.nearflash:data/3");
    }
}
