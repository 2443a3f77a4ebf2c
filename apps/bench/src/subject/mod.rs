//! The subject of a measurement, as named on the command line.

mod iscsi;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash::direct::{Url, UrlError};
use nearflash_units::{ByteLen, ParseSizeError, parse_size};

use crate::floor::Headers;

pub use iscsi::{AccountFile, IscsiTarget, iqn_of};

/// Prefix of a nearflash volume's name in its NQN.
pub const VOLUME_NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";
/// The port that IANA assigned to NVMe over Fabrics.
const NVME_TCP_PORT: u16 = 4420;
/// Maximum length of a header; a longer one is considered a typing error.
const HEADER_LEN_MAX: u64 = 4096;
/// Maximum number of queue pairs per job; more are considered a typing error.
const QUEUES_MAX: u16 = 128;

/// The subject of a measurement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// A file or block device of this machine, over io_uring.
    File(PathBuf),
    /// The null engine with this size: the overhead of the tool itself.
    Null(ByteLen),
    /// A namespace over NVMe/TCP.
    NvmeTcp(NvmeTcpTarget),
    /// A volume over the direct protocol, by TCP or by shared memory.
    Direct(Url),
    /// A logical unit over iSCSI.
    Iscsi(IscsiTarget),
    /// The bare exchange over loopback TCP, with headers of these lengths.
    Floor(Headers),
}

/// A namespace over NVMe/TCP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NvmeTcpTarget {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The subsystem's NQN.
    pub nqn: String,
    /// The namespace ID.
    pub namespace: u32,
    /// HDGST.
    pub header_digest: bool,
    /// DDGST.
    pub data_digest: bool,
    /// Queue pairs of each job.
    pub queues: u16,
}

/// The reason why a target is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is unknown.
    #[error(
        "'{text}' is not a valid target: write file:PATH, null:SIZE, nvme-tcp://HOST:PORT/NAME, \
         iscsi://HOST:PORT/NAME, direct://HOST:PORT/VOLUME, direct+local:PATH.sock/VOLUME or \
         floor://"
    )]
    Scheme {
        /// The target as given.
        text: String,
    },
    /// Not a valid URL of the direct protocol.
    #[error(transparent)]
    Direct(#[from] UrlError),
    /// Not a valid floor.
    #[error(
        "'{text}' is not a valid floor: write floor:// or floor://?headers=REQUEST,ANSWER in bytes"
    )]
    Floor {
        /// The target as given.
        text: String,
    },
    /// `file:` without a path.
    #[error("'file:' names no file: write file:PATH, for example file:/tmp/test.img")]
    NoPath,
    /// `null:` without a valid size.
    #[error("null: {0}")]
    Size(#[from] ParseSizeError),
    /// The host is missing.
    #[error(
        "'{text}' names no host: write {scheme}://HOST:PORT/NAME, for example \
         {scheme}://[::1]:{port}/data"
    )]
    NoHost {
        /// The target as given.
        text: String,
        /// Its scheme.
        scheme: &'static str,
        /// The scheme's default port.
        port: u16,
    },
    /// The port is not a valid number.
    #[error("'{text}' is not a valid TCP port: write a number from 1 to 65535, usually {usual}")]
    Port {
        /// The port as given.
        text: String,
        /// The scheme's default port.
        usual: u16,
    },
    /// The name of the subsystem, target or volume is missing.
    #[error("'{text}' names no volume: append /NAME, a volume's name{or}")]
    NoName {
        /// The target as given.
        text: String,
        /// An alternative to a volume's name.
        or: &'static str,
    },
    /// The LUN is not a valid number.
    #[error(
        "'{text}' is not a valid LUN: write a number from 0 to 16383 after the name, for example \
         /data/0"
    )]
    Lun {
        /// The LUN as given.
        text: String,
    },
    /// The key is unknown.
    #[error("'{key}' is not a valid option of a target: use {expected}")]
    UnknownKey {
        /// The key as given.
        key: String,
        /// The valid keys.
        expected: &'static str,
    },
    /// A user without a secret, or a secret without a user.
    #[error("'{text}' names {named} without {missing}: append &{missing}=")]
    HalfAccount {
        /// The target as given.
        text: String,
        /// The part that is given.
        named: &'static str,
        /// The part that is missing.
        missing: &'static str,
    },
    /// The value is not valid for its key.
    #[error("'{value}' is not a valid value of {key}: use {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Some(rest) = text.strip_prefix("nvme-tcp://") {
            return parse_nvme_tcp(text, rest).map(Self::NvmeTcp);
        }
        if let Some(rest) = text.strip_prefix("iscsi://") {
            return iscsi::parse(text, rest).map(Self::Iscsi);
        }
        match text.split_once(':') {
            Some(("floor", rest)) => parse_floor(text, rest).map(Self::Floor),
            Some(("direct" | "direct+local", _)) => parse_direct(text).map(Self::Direct),
            Some(("file", "")) => Err(TargetError::NoPath),
            Some(("file", path)) => Ok(Self::File(PathBuf::from(path))),
            Some(("null", size)) => Ok(Self::Null(parse_size(size)?)),
            _ => Err(TargetError::Scheme { text: text.to_owned() }),
        }
    }
}

/// The volume is required, since it is the subject.
fn parse_direct(text: &str) -> Result<Url, TargetError> {
    let url: Url = text.parse()?;
    match url.volume {
        Some(_) => Ok(url),
        None => Err(TargetError::NoName { text: text.to_owned(), or: "" }),
    }
}

/// The length of both headers, or of each; by default those of NVMe/TCP.
fn parse_floor(text: &str, rest: &str) -> Result<Headers, TargetError> {
    let refused = || TargetError::Floor { text: text.to_owned() };
    let query = rest.strip_prefix("//").unwrap_or(rest);
    if query.is_empty() {
        return Ok(Headers::NVME_TCP);
    }
    let lens = query.strip_prefix("?headers=").ok_or_else(refused)?;
    let (request, answer) = lens.split_once(',').unwrap_or((lens, lens));
    let len = |digits: &str| {
        let len = digits.parse().ok().filter(|len| (1..=HEADER_LEN_MAX).contains(len));
        len.map(ByteLen).ok_or_else(refused)
    };
    Ok(Headers { request_len: len(request)?, answer_len: len(answer)? })
}

fn parse_nvme_tcp(text: &str, rest: &str) -> Result<NvmeTcpTarget, TargetError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let or = " or a subsystem's NQN";
    let no_name = || TargetError::NoName { text: text.to_owned(), or };
    let (authority, name) = place.split_once('/').ok_or_else(no_name)?;
    if name.is_empty() {
        return Err(no_name());
    }
    let (host, port) = parse_authority(text, authority, ("nvme-tcp", NVME_TCP_PORT))?;
    let mut target = NvmeTcpTarget {
        host,
        port,
        nqn: nqn_of(name),
        namespace: 1,
        header_digest: false,
        data_digest: false,
        queues: 1,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        apply_option(&mut target, key, value)?;
    }
    Ok(target)
}

/// The NQN for a name: an NQN is kept, any other name is taken as that of a nearflash volume.
pub fn nqn_of(name: &str) -> String {
    if name.starts_with("nqn.") { name.to_owned() } else { format!("{VOLUME_NQN_PREFIX}{name}") }
}

/// Parses host and port; the scheme has a default port.
fn parse_authority(
    text: &str,
    authority: &str,
    (scheme, usual): (&'static str, u16),
) -> Result<(String, u16), TargetError> {
    let no_host = || TargetError::NoHost { text: text.to_owned(), scheme, port: usual };
    // An IPv6 address is in brackets, since it contains colons.
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (host, after) = inside.split_once(']').ok_or_else(no_host)?;
            (host, after.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(no_host());
    }
    let port = match port {
        None => usual,
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| TargetError::Port { text: digits.to_owned(), usual })?,
    };
    Ok((host.to_owned(), port))
}

fn apply_option(target: &mut NvmeTcpTarget, key: &str, value: &str) -> Result<(), TargetError> {
    let refused = |key, expected| TargetError::Value { key, value: value.to_owned(), expected };
    match key {
        "ns" => {
            target.namespace = value
                .parse()
                .ok()
                .filter(|namespace| *namespace != 0)
                .ok_or_else(|| refused("ns", "a namespace number from 1"))?;
        }
        "queues" => {
            target.queues = value
                .parse()
                .ok()
                .filter(|queues| (1..=QUEUES_MAX).contains(queues))
                .ok_or_else(|| refused("queues", "a number from 1 to 128"))?;
        }
        "digest" => {
            for digest in value.split(',') {
                match digest {
                    "header" => target.header_digest = true,
                    "data" => target.data_digest = true,
                    _ => return Err(refused("digest", "header, data or header,data")),
                }
            }
        }
        _ => {
            let expected = "ns=1, digest=header,data or queues=N";
            return Err(TargetError::UnknownKey { key: key.to_owned(), expected });
        }
    }
    Ok(())
}

impl Target {
    /// Whether the target is reached by a remote protocol.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::NvmeTcp(_) | Self::Direct(_) | Self::Iscsi(_))
    }

    /// The headers around a payload on its way to the target.
    pub fn headers(&self) -> Headers {
        match self {
            Self::Direct(_) => Headers::DIRECT,
            Self::Iscsi(_) => Headers::ISCSI,
            Self::Floor(headers) => *headers,
            Self::File(_) | Self::Null(_) | Self::NvmeTcp(_) => Headers::NVME_TCP,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Null(len) => write!(f, "null:{len}"),
            Self::NvmeTcp(target) => {
                write!(f, "nvme-tcp://{}:{}/{}", target.host, target.port, target.nqn)
            }
            Self::Direct(url) => write!(f, "{url}"),
            Self::Iscsi(target) => write!(f, "{target}"),
            Self::Floor(Headers::NVME_TCP) => f.write_str("floor://"),
            Self::Floor(Headers { request_len, answer_len }) => {
                write!(f, "floor://?headers={},{}", request_len.0, answer_len.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nvme_tcp(text: &str) -> NvmeTcpTarget {
        match text.parse().unwrap() {
            Target::NvmeTcp(target) => target,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_form_of_target_is_read() {
        assert_eq!("file:/tmp/a:b".parse(), Ok(Target::File("/tmp/a:b".into())));
        assert_eq!("null:1GiB".parse(), Ok(Target::Null(ByteLen(1 << 30))));
        assert_eq!("floor://".parse(), Ok(Target::Floor(Headers::NVME_TCP)));
        assert_eq!("floor://?headers=32".parse(), Ok(Target::Floor(Headers::DIRECT)));
        let Ok(Target::Direct(url)) = "direct://[::1]:4421/data?digest=data".parse() else {
            panic!("a direct target")
        };
        assert_eq!((url.volume.as_deref(), url.data_digest), (Some("data"), true));
        assert!(matches!("direct+local:a.sock/data".parse(), Ok(Target::Direct(_))));
        let target = nvme_tcp("nvme-tcp://[::1]:4421/data?ns=2&digest=header,data&queues=4");
        assert_eq!((target.host.as_str(), target.port), ("::1", 4421));
        assert_eq!(target.nqn, "nqn.2026-11.io.nearflash:data");
        assert_eq!((target.namespace, target.queues), (2, 4));
        assert!(target.header_digest && target.data_digest);
    }

    #[test]
    fn the_port_defaults_to_4420_and_an_nqn_stands_for_itself() {
        let target = nvme_tcp("nvme-tcp://flash.example/nqn.2014-08.org.example:disk");
        assert_eq!(target.port, 4420);
        assert_eq!(target.nqn, "nqn.2014-08.org.example:disk");
        assert_eq!((target.namespace, target.queues), (1, 1));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy_on_one_line() {
        let cases = [
            ("/dev/sda", "file:PATH"),
            ("file:", "file:PATH"),
            ("null:big", "8GiB"),
            ("null:", "8GiB"),
            ("nvme-tcp://:4420/data", "nvme-tcp://HOST:PORT/NAME"),
            ("nvme-tcp://[::1/data", "nvme-tcp://HOST:PORT/NAME"),
            ("nvme-tcp://a:http/data", "1 to 65535"),
            ("nvme-tcp://a:0/data", "1 to 65535"),
            ("nvme-tcp://a:4420", "append /NAME"),
            ("nvme-tcp://a:4420/", "append /NAME"),
            ("nvme-tcp://a/data?depth=3", "queues=N"),
            ("nvme-tcp://a/data?queues=0", "1 to 128"),
            ("nvme-tcp://a/data?ns=x", "from 1"),
            ("nvme-tcp://a/data?digest=both", "header,data"),
            ("direct://a", "append /NAME"),
            ("iscsi://:3260/data", "iscsi://HOST:PORT/NAME, for example iscsi://[::1]:3260/data"),
            ("iscsi://a:http/data", "usually 3260"),
            ("iscsi://a:3260", "append /NAME, a volume's name or a target's IQN"),
            ("iscsi://a/", "append /NAME"),
            ("iscsi://a/data/x", "from 0 to 16383"),
            ("iscsi://a/data/16384", "from 0 to 16383"),
            ("iscsi://a/data/0/1", "from 0 to 16383"),
            ("iscsi://a/data?queues=2", "sessions=N"),
            ("iscsi://a/data?sessions=0", "1 to 64"),
            ("iscsi://a/data?connections=65", "1 to 64"),
            ("iscsi://a/data?digest=none", "header,data"),
            ("iscsi://a/data?user=", "chap add"),
            ("iscsi://a/data?secret-file=", "a path"),
            ("iscsi://a/data?user=u", "append &secret-file="),
            ("iscsi://a/data?secret-file=f", "append &user="),
            ("direct:a", "direct://HOST:PORT/VOLUME"),
            ("direct+local:/run/a", "ending in .sock"),
            ("floor://?headers=0", "headers=REQUEST,ANSWER"),
            ("floor://?size=32", "headers=REQUEST,ANSWER"),
        ];
        for (text, remedy) in cases {
            let message = text.parse::<Target>().unwrap_err().to_string();
            assert!(message.contains(remedy), "{text}: {message}");
            assert!(!message.contains('\n'), "{text}: {message}");
        }
    }
}
