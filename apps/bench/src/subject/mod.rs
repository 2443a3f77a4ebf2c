//! The subject of a measurement, as named on the command line.

mod error;
mod iscsi;
mod nvme_tcp;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash::direct::Url;
use nearflash_units::{ByteLen, parse_size};

use crate::floor::Headers;

pub use error::TargetError;
pub use iscsi::{AccountFile, IscsiTarget, iqn_of};
pub use nvme_tcp::{NvmeTcpTarget, PskFile, VOLUME_NQN_PREFIX, nqn_of};

/// Maximum length of a header; a longer one is considered a typing error.
const HEADER_LEN_MAX: u64 = 4096;

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

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Some(rest) = text.strip_prefix("nvme-tcp://") {
            return nvme_tcp::parse(text, rest).map(Self::NvmeTcp);
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
            Self::NvmeTcp(target) => write!(f, "{target}"),
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
            ("nvme-tcp://a/data?psk-file=", "a path"),
            ("nvme-tcp://a/data?psk-file=f", "append &host-nqn="),
            ("nvme-tcp://a/data?psk-derivation=legacy", "append &psk-file="),
            ("nvme-tcp://a/data?psk-derivation=new", "standard or legacy"),
            ("nvme-tcp://a/data?host-nqn=", "the NQN of this host"),
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
