//! The subject of a measurement, as named on the command line.

mod error;
mod iscsi;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash::direct::Url;
use nearflash::url::{Encoded, Scheme, UrlError, decode, digests, number, split_options};
use nearflash_units::{ByteLen, parse_size};

use crate::floor::Headers;

pub use error::TargetError;
pub use iscsi::{AccountFile, IscsiTarget, iqn_of};

/// Prefix of a nearflash volume's name in its NQN.
pub const VOLUME_NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";
/// The scheme, with the port that IANA assigned to NVMe over Fabrics.
static NVME_TCP: Scheme = Scheme { name: "nvme-tcp", port: 4420, path: "NAME" };
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
    /// The bare exchange with a server that passes each request on to a third party.
    Relay(Headers),
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
            Some(("floor", rest)) => parse_floor(text, rest),
            Some(("direct" | "direct+tls" | "direct+local", _)) => {
                parse_direct(text).map(Self::Direct)
            }
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
fn parse_floor(text: &str, rest: &str) -> Result<Target, TargetError> {
    let refused = || TargetError::Floor { text: text.to_owned() };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (query, target): (_, fn(Headers) -> Target) = match rest.strip_prefix("relay") {
        Some(query) => (query, Target::Relay),
        None => (rest, Target::Floor),
    };
    if query.is_empty() {
        return Ok(target(Headers::NVME_TCP));
    }
    let lens = query.strip_prefix("?headers=").ok_or_else(refused)?;
    let (request, answer) = lens.split_once(',').unwrap_or((lens, lens));
    let len = |digits: &str| {
        let len = digits.parse().ok().filter(|len| (1..=HEADER_LEN_MAX).contains(len));
        len.map(ByteLen).ok_or_else(refused)
    };
    Ok(target(Headers { request_len: len(request)?, answer_len: len(answer)? }))
}

fn parse_nvme_tcp(text: &str, rest: &str) -> Result<NvmeTcpTarget, TargetError> {
    let (body, options) = split_options(rest)?;
    let (host, port, name) = NVME_TCP.divide(text, body)?;
    if name.is_empty() {
        return Err(TargetError::NoName { text: text.to_owned(), or: " or a subsystem's NQN" });
    }
    let mut target = NvmeTcpTarget {
        host,
        port,
        nqn: nqn_of(&decode(name)?),
        namespace: 1,
        header_digest: false,
        data_digest: false,
        queues: 1,
    };
    for (key, value) in options {
        apply_option(&mut target, key, &value)?;
    }
    Ok(target)
}

/// The NQN for a name: an NQN is kept, any other name is taken as that of a nearflash volume.
pub fn nqn_of(name: &str) -> String {
    if name.starts_with("nqn.") { name.to_owned() } else { format!("{VOLUME_NQN_PREFIX}{name}") }
}

fn apply_option(target: &mut NvmeTcpTarget, key: &str, value: &str) -> Result<(), UrlError> {
    match key {
        "ns" => {
            let expected = "a namespace number from 1";
            target.namespace = number(("ns", value), 1..=u32::MAX, expected)?;
        }
        "queues" => {
            target.queues = number(("queues", value), 1..=QUEUES_MAX, "a number from 1 to 128")?;
        }
        "digest" => (target.header_digest, target.data_digest) = digests(value)?,
        _ => {
            let expected = "ns=1, digest=header,data or queues=N";
            return Err(UrlError::UnknownKey { key: key.to_owned(), expected });
        }
    }
    Ok(())
}

impl Target {
    /// Whether the target is reached by a remote protocol.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::NvmeTcp(_) | Self::Direct(_) | Self::Iscsi(_))
    }

    /// Whether the target is the bare exchange.
    pub fn is_floor(&self) -> bool {
        matches!(self, Self::Floor(_) | Self::Relay(_))
    }

    /// The headers around a payload on its way to the target.
    pub fn headers(&self) -> Headers {
        match self {
            Self::Direct(_) => Headers::DIRECT,
            Self::Iscsi(_) => Headers::ISCSI,
            Self::Floor(headers) | Self::Relay(headers) => *headers,
            Self::File(_) | Self::Null(_) | Self::NvmeTcp(_) => Headers::NVME_TCP,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Null(len) => write!(f, "null:{len}"),
            Self::NvmeTcp(NvmeTcpTarget { host, port, nqn, .. }) => {
                write!(f, "nvme-tcp://{}:{port}/{}", Encoded::Host(host), Encoded::Name(nqn))
            }
            Self::Direct(url) => write!(f, "{url}"),
            Self::Iscsi(target) => write!(f, "{target}"),
            Self::Floor(headers) => write_floor(f, "", *headers),
            Self::Relay(headers) => write_floor(f, "relay", *headers),
        }
    }
}

fn write_floor(f: &mut fmt::Formatter<'_>, way: &str, headers: Headers) -> fmt::Result {
    write!(f, "floor://{way}")?;
    match headers {
        Headers::NVME_TCP => Ok(()),
        Headers { request_len, answer_len } => {
            write!(f, "?headers={},{}", request_len.0, answer_len.0)
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
        assert_eq!("floor://relay".parse(), Ok(Target::Relay(Headers::NVME_TCP)));
        assert_eq!("floor://relay?headers=32".parse(), Ok(Target::Relay(Headers::DIRECT)));
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
            ("floor://relays", "headers=REQUEST,ANSWER"),
        ];
        for (text, remedy) in cases {
            let message = text.parse::<Target>().unwrap_err().to_string();
            assert!(message.contains(remedy), "{text}: {message}");
            assert!(!message.contains('\n'), "{text}: {message}");
        }
    }
}
