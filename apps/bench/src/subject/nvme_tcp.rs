//! `nvme-tcp://HOST:PORT/NAME` with its query.

use std::fmt;
use std::path::PathBuf;

use nearflash::nvme_tcp::Derivation;
use nearflash::url::{
    Encoded, Scheme, UrlError, decode, digests, not_empty, number, split_options,
};

use super::TargetError;

/// Prefix of a nearflash volume's name in its NQN.
pub const VOLUME_NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";
/// The scheme, with the port that IANA assigned to NVMe over Fabrics.
static NVME_TCP: Scheme = Scheme { name: "nvme-tcp", port: 4420, path: "NAME" };
/// Maximum number of queue pairs per job; more are considered a typing error.
const QUEUES_MAX: u16 = 128;

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
    /// The host NQN (HOSTNQN). Without it, the host has a new one.
    pub host_nqn: Option<String>,
    /// TLS with a pre-shared key.
    pub tls: Option<PskFile>,
}

/// A file that holds a host's PSK.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PskFile {
    /// The file.
    pub path: PathBuf,
    /// The derivation of the key.
    pub derivation: Derivation,
}

/// The NQN for a name: an NQN is kept, any other name is taken as that of a nearflash volume.
pub fn nqn_of(name: &str) -> String {
    if name.starts_with("nqn.") { name.to_owned() } else { format!("{VOLUME_NQN_PREFIX}{name}") }
}

/// Parses `text`, of which `rest` follows the scheme.
pub(super) fn parse(text: &str, rest: &str) -> Result<NvmeTcpTarget, TargetError> {
    let (body, given) = split_options(rest)?;
    let (host, port, name) = NVME_TCP.divide(text, body)?;
    if name.is_empty() {
        return Err(TargetError::NoName { text: text.to_owned(), or: " or a subsystem's NQN" });
    }
    let mut options = Options::default();
    for (key, value) in given {
        options.apply(key, value)?;
    }
    Ok(NvmeTcpTarget {
        host,
        port,
        nqn: nqn_of(&decode(name)?),
        namespace: options.namespace.unwrap_or(1),
        header_digest: options.header_digest,
        data_digest: options.data_digest,
        queues: options.queues.unwrap_or(1),
        tls: options.tls(text)?,
        host_nqn: options.host_nqn,
    })
}

/// The query.
#[derive(Default)]
struct Options {
    namespace: Option<u32>,
    queues: Option<u16>,
    header_digest: bool,
    data_digest: bool,
    host_nqn: Option<String>,
    psk_file: Option<PathBuf>,
    psk_derivation: Option<Derivation>,
}

impl Options {
    fn apply(&mut self, key: &str, value: String) -> Result<(), UrlError> {
        match key {
            "ns" => {
                let expected = "a namespace number from 1";
                self.namespace = Some(number(("ns", &value), 1..=u32::MAX, expected)?);
            }
            "queues" => {
                let expected = "a number from 1 to 128";
                self.queues = Some(number(("queues", &value), 1..=QUEUES_MAX, expected)?);
            }
            "digest" => (self.header_digest, self.data_digest) = digests(&value)?,
            "host-nqn" => {
                self.host_nqn = Some(not_empty(("host-nqn", value), "the NQN of this host")?);
            }
            "psk-file" => self.psk_file = Some(not_empty(("psk-file", value), "a path")?.into()),
            "psk-derivation" => {
                let derivation = value.parse().map_err(|_| UrlError::Value {
                    key: "psk-derivation",
                    value,
                    expected: "standard or legacy",
                })?;
                self.psk_derivation = Some(derivation);
            }
            _ => {
                let expected = "ns=1, digest=header,data, queues=N, host-nqn=NQN, psk-file=PATH or \
                                psk-derivation=legacy";
                return Err(UrlError::UnknownKey { key: key.to_owned(), expected });
            }
        }
        Ok(())
    }

    /// A PSK belongs to a host, whose NQN must be known.
    fn tls(&self, text: &str) -> Result<Option<PskFile>, TargetError> {
        let half = |named, missing| TargetError::Half { text: text.to_owned(), named, missing };
        match (&self.psk_file, self.psk_derivation, &self.host_nqn) {
            (None, Some(_), _) => Err(half("a derivation", "psk-file")),
            (Some(_), _, None) => Err(half("a PSK", "host-nqn")),
            (Some(path), derivation, Some(_)) => {
                let (path, derivation) = (path.clone(), derivation.unwrap_or_default());
                Ok(Some(PskFile { path, derivation }))
            }
            (None, None, _) => Ok(None),
        }
    }
}

/// Without options.
impl fmt::Display for NvmeTcpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, nqn, .. } = self;
        write!(f, "nvme-tcp://{}:{port}/{}", Encoded::Host(host), Encoded::Name(nqn))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;

    fn nvme_tcp(text: &str) -> NvmeTcpTarget {
        match text.parse().unwrap() {
            Target::NvmeTcp(target) => target,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_option_is_read() {
        let target = nvme_tcp("nvme-tcp://[::1]:4421/data?ns=2&digest=header,data&queues=4");
        assert_eq!((target.host.as_str(), target.port), ("::1", 4421));
        assert_eq!(target.nqn, "nqn.2026-11.io.nearflash:data");
        assert_eq!((target.namespace, target.queues), (2, 4));
        assert!(target.header_digest && target.data_digest);
        assert_eq!((target.host_nqn, target.tls), (None, None));
        let text = "nvme-tcp://a/data?psk-file=/run/a%26b&psk-derivation=legacy&host-nqn=nqn.x:h";
        let target = nvme_tcp(text);
        assert_eq!(target.host_nqn.as_deref(), Some("nqn.x:h"));
        let (path, derivation) = ("/run/a&b".into(), Derivation::Legacy);
        assert_eq!(target.tls, Some(PskFile { path, derivation }));
    }

    #[test]
    fn the_port_defaults_to_4420_and_an_nqn_stands_for_itself() {
        let target = nvme_tcp("nvme-tcp://flash.example/nqn.2014-08.org.example:disk");
        assert_eq!(target.port, 4420);
        assert_eq!(target.nqn, "nqn.2014-08.org.example:disk");
        assert_eq!((target.namespace, target.queues), (1, 1));
    }
}
