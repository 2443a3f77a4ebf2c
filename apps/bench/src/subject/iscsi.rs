//! `iscsi://HOST:PORT/NAME[/LUN]` with its query.

use std::fmt;
use std::path::PathBuf;

use nearflash::iscsi::name_part;
use nearflash::url::{
    Encoded, Scheme, UrlError, decode, digests, not_empty, number, split_options,
};

use super::TargetError;

/// Prefix of a nearflash volume's name in its IQN.
const VOLUME_IQN_PREFIX: &str = "iqn.2026-11.io.nearflash:";
/// The scheme, with the port that IANA assigned to iSCSI.
static ISCSI: Scheme = Scheme { name: "iscsi", port: 3260, path: "NAME" };
/// Maximum LUN with flat space addressing: SAM-5, 4.7.7.3.
const LUN_MAX: u16 = (1 << 14) - 1;
/// Maximum number of sessions per job and of connections per session; more are considered a typing
/// error.
const COUNT_MAX: u16 = 64;

/// A logical unit over iSCSI.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IscsiTarget {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The target's name.
    pub name: String,
    /// The logical unit number.
    pub lun: u16,
    /// HeaderDigest.
    pub header_digest: bool,
    /// DataDigest.
    pub data_digest: bool,
    /// Sessions of each job.
    pub sessions: u16,
    /// Connections of each session.
    pub connections: u16,
    /// The CHAP account of the initiator.
    pub account: Option<AccountFile>,
    /// The CHAP account by which the target authenticates itself.
    pub mutual: Option<AccountFile>,
}

/// A CHAP account with a file that holds the secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccountFile {
    /// CHAP_N.
    pub user: String,
    /// The file that holds the secret.
    pub secret_file: PathBuf,
}

/// The IQN for a name: an iSCSI name is kept, any other is taken as that of a nearflash volume.
pub fn iqn_of(name: &str) -> String {
    match ["iqn.", "eui.", "naa."].iter().any(|prefix| name.starts_with(prefix)) {
        true => name.to_owned(),
        false => format!("{VOLUME_IQN_PREFIX}{}", name_part(name)),
    }
}

/// Parses `text`, of which `rest` follows the scheme.
pub(super) fn parse(text: &str, rest: &str) -> Result<IscsiTarget, TargetError> {
    let (body, given) = split_options(rest)?;
    let (host, port, unit) = ISCSI.divide(text, body)?;
    let (name, lun) = match unit.split_once('/') {
        Some((name, lun)) => (name, parse_lun(lun)?),
        None => (unit, 0),
    };
    if name.is_empty() {
        return Err(TargetError::NoName { text: text.to_owned(), or: " or a target's IQN" });
    }
    let mut options = Options::default();
    for (key, value) in given {
        options.apply(key, value)?;
    }
    let Options { user, secret_file, mutual_user, mutual_secret_file, .. } = &mut options;
    let own = [("a user", "user"), ("a secret", "secret-file")];
    let account = account(text, (user.take(), secret_file.take()), own)?;
    let others = [("a mutual user", "mutual-user"), ("a mutual secret", "mutual-secret-file")];
    let mutual = self::account(text, (mutual_user.take(), mutual_secret_file.take()), others)?;
    if mutual.is_some() && account.is_none() {
        let (text, missing) = (text.to_owned(), "user");
        return Err(TargetError::Half { text, named: "a mutual user", missing });
    }
    Ok(IscsiTarget {
        host,
        port,
        name: iqn_of(&decode(name)?),
        lun,
        header_digest: options.header_digest,
        data_digest: options.data_digest,
        sessions: options.sessions.unwrap_or(1),
        connections: options.connections.unwrap_or(1),
        account,
        mutual,
    })
}

fn parse_lun(digits: &str) -> Result<u16, TargetError> {
    let lun = digits.parse().ok().filter(|lun| *lun <= LUN_MAX);
    lun.ok_or_else(|| TargetError::Lun { text: digits.to_owned() })
}

/// User and secret file, or neither. Each comes with its description and its key.
fn account(
    text: &str,
    given: (Option<String>, Option<PathBuf>),
    [user_named, secret_named]: [(&'static str, &'static str); 2],
) -> Result<Option<AccountFile>, TargetError> {
    let half = |named, missing| TargetError::Half { text: text.to_owned(), named, missing };
    match given {
        (Some(user), Some(secret_file)) => Ok(Some(AccountFile { user, secret_file })),
        (Some(_), None) => Err(half(user_named.0, secret_named.1)),
        (None, Some(_)) => Err(half(secret_named.0, user_named.1)),
        (None, None) => Ok(None),
    }
}

/// The query.
#[derive(Default)]
struct Options {
    header_digest: bool,
    data_digest: bool,
    sessions: Option<u16>,
    connections: Option<u16>,
    user: Option<String>,
    secret_file: Option<PathBuf>,
    mutual_user: Option<String>,
    mutual_secret_file: Option<PathBuf>,
}

impl Options {
    fn apply(&mut self, key: &str, value: String) -> Result<(), UrlError> {
        match key {
            "sessions" => self.sessions = Some(count(("sessions", &value))?),
            "connections" => self.connections = Some(count(("connections", &value))?),
            "digest" => (self.header_digest, self.data_digest) = digests(&value)?,
            "user" => {
                let expected = "the USER given to `nearflash chap add`";
                self.user = Some(not_empty(("user", value), expected)?);
            }
            "secret-file" => {
                self.secret_file = Some(not_empty(("secret-file", value), "a path")?.into());
            }
            "mutual-user" => {
                let expected = "the --mutual-user given to `nearflash chap add`";
                self.mutual_user = Some(not_empty(("mutual-user", value), expected)?);
            }
            "mutual-secret-file" => {
                let path = not_empty(("mutual-secret-file", value), "a path")?;
                self.mutual_secret_file = Some(path.into());
            }
            _ => {
                let expected = "sessions=N, connections=N, digest=header,data, user=U, \
                                secret-file=PATH, mutual-user=U or mutual-secret-file=PATH";
                return Err(UrlError::UnknownKey { key: key.to_owned(), expected });
            }
        }
        Ok(())
    }
}

fn count(given: (&'static str, &str)) -> Result<u16, UrlError> {
    number(given, 1..=COUNT_MAX, "a number from 1 to 64")
}

/// Without account and digests, which are not part of the target's identity.
impl fmt::Display for IscsiTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, name, lun, .. } = self;
        write!(f, "iscsi://{}:{port}/{}/{lun}", Encoded::Host(host), Encoded::Name(name))
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
    fn what_is_half_of_an_account_is_refused_by_the_other_half() {
        for (query, missing) in [
            ("user=u", "secret-file"),
            ("secret-file=/u", "user"),
            ("user=u&secret-file=/u&mutual-user=n", "mutual-secret-file"),
            ("user=u&secret-file=/u&mutual-secret-file=/n", "mutual-user"),
            ("mutual-user=n&mutual-secret-file=/n", "user"),
        ] {
            let refused = format!("iscsi://a/data?{query}").parse::<Target>().unwrap_err();
            assert!(refused.to_string().ends_with(&format!("append &{missing}=")), "{refused}");
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
        assert_eq!((target.account, target.mutual), (Some(account.clone()), None));
        let mutual = iscsi(&format!("{text}&mutual-user=node&mutual-secret-file=/run/n"));
        let node = AccountFile { user: "node".to_owned(), secret_file: "/run/n".into() };
        assert_eq!((mutual.account, mutual.mutual), (Some(account), Some(node)));
        let target = iscsi(text);
        assert_eq!(target.to_string(), "iscsi://[::1]:3261/iqn.2026-11.io.nearflash:data/3");
    }
}
