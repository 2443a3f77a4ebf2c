//! The URL of a node for the direct protocol.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash_direct::wire::SealToken;

use crate::url::{Encoded, Scheme, UrlError, decode, digests, not_empty, split_options};

/// The scheme over TCP, with the default port of `nearflash serve --direct`.
static TCP: Scheme = Scheme { name: "direct", port: 4421, path: "VOLUME" };
/// The scheme over TCP with TLS.
static TLS: Scheme = Scheme { name: "direct+tls", port: TCP.port, path: "VOLUME" };
/// The end of a Unix socket's path, which separates it from the volume.
const SOCKET_SUFFIX: &str = ".sock";

/// `direct://HOST:PORT[/VOLUME]`, `direct+tls://HOST:PORT[/VOLUME]` or `direct+local:PATH.sock[/VOLUME]`,
/// optionally followed by a question mark and the options `digest=header,data`, `key=ID`, `secret-file=PATH` and `seal=TOKEN`, separated
/// by `&`. With a seal, the volume is the object of the seal, whatever its name here. Parts are percent-encoded: a question mark in a path is written `%3F`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    /// The node's address.
    pub place: Place,
    /// The volume, if one is named.
    pub volume: Option<String>,
    /// Whether every header has a checksum.
    pub header_digest: bool,
    /// Whether all payload has a checksum.
    pub data_digest: bool,
    /// The key id of the credential.
    pub key: Option<String>,
    /// The file of its secret.
    pub secret_file: Option<PathBuf>,
    /// The token of a seal, as `nearflash grant seal` prints it: the client enters with its bearer unless it
    /// has credentials, and the volume is its object.
    pub seal: Option<Box<SealToken>>,
}

/// The address of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// A TCP address.
    Tcp {
        /// The host name or IP address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A TCP address, over TLS.
    Tls {
        /// The host name or IP address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket on this machine, over which shared memory can be set up.
    Local(PathBuf),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (body, options) = split_options(text)?;
        let (place, volume) = if let Some(rest) = body.strip_prefix("direct://") {
            let (host, port, volume) = TCP.divide(text, rest)?;
            (Place::Tcp { host, port }, volume)
        } else if let Some(rest) = body.strip_prefix("direct+tls://") {
            let (host, port, volume) = TLS.divide(text, rest)?;
            (Place::Tls { host, port }, volume)
        } else if let Some(rest) = body.strip_prefix("direct+local:") {
            divide_local(text, rest)?
        } else {
            return Err(UrlError::Scheme { text: text.to_owned() });
        };
        let volume = Some(volume).filter(|name| !name.is_empty()).map(decode).transpose()?;
        let mut url = Self {
            place,
            volume,
            header_digest: false,
            data_digest: false,
            key: None,
            secret_file: None,
            seal: None,
        };
        for (key, value) in options {
            url.apply_option(key, value)?;
        }
        Ok(url)
    }
}

impl Url {
    /// The place with the digests, as text that can be parsed again.
    pub(super) fn without_credentials(&self) -> String {
        let digests = [(self.header_digest, "header"), (self.data_digest, "data")];
        let names: Vec<&str> = digests.iter().filter(|it| it.0).map(|it| it.1).collect();
        match names.is_empty() {
            true => self.place.to_string(),
            false => format!("{}?digest={}", self.place, names.join(",")),
        }
    }

    fn apply_option(&mut self, key: &str, value: String) -> Result<(), UrlError> {
        match key {
            "digest" => (self.header_digest, self.data_digest) = digests(&value)?,
            "key" => {
                let expected = "the ID given to `nearflash credential create`";
                self.key = Some(not_empty(("key", value), expected)?);
            }
            "secret-file" => {
                let expected = "the path of a file that holds the secret";
                self.secret_file = Some(not_empty(("secret-file", value), expected)?.into());
            }
            "seal" => {
                // The value is as good as a secret, so no message repeats it.
                self.seal = Some(Box::new(value.parse().map_err(UrlError::Seal)?));
            }
            _ => {
                let expected = "digest=header,data, key=ID, secret-file=PATH or seal=TOKEN";
                return Err(UrlError::UnknownKey { key: key.to_owned(), expected });
            }
        }
        Ok(())
    }
}

/// The path ends with the last `.sock` that is followed by a slash, or with the text.
fn divide_local<'a>(text: &str, rest: &'a str) -> Result<(Place, &'a str), UrlError> {
    let (path, volume) = match rest.rfind(&format!("{SOCKET_SUFFIX}/")) {
        Some(at) => {
            let end = at + SOCKET_SUFFIX.len();
            (&rest[..end], &rest[end + 1..])
        }
        None => (rest, ""),
    };
    let is_socket = path.ends_with(SOCKET_SUFFIX) && path != SOCKET_SUFFIX;
    if !is_socket || volume.contains('/') {
        return Err(UrlError::NoSocket { text: text.to_owned() });
    }
    Ok((Place::Local(decode(path)?.into()), volume))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "direct://{}:{port}", Encoded::Host(host)),
            Self::Tls { host, port } => write!(f, "direct+tls://{}:{port}", Encoded::Host(host)),
            Self::Local(path) => {
                write!(f, "direct+local:{}", Encoded::Path(&path.to_string_lossy()))
            }
        }
    }
}

/// Shows the address and the volume; options are left out.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.volume {
            Some(volume) => write!(f, "{}/{}", self.place, Encoded::Name(volume)),
            None => write!(f, "{}", self.place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tcp(host: &str, port: u16) -> Place {
        Place::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn every_form_of_url_is_read() {
        let parsed = url("direct://[::1]:4500/data?digest=header,data&key=app&secret-file=/s");
        assert_eq!(parsed.place, tcp("::1", 4500));
        assert_eq!(parsed.volume.as_deref(), Some("data"));
        assert!(parsed.header_digest && parsed.data_digest);
        assert_eq!(parsed.key.as_deref(), Some("app"));
        assert_eq!(parsed.secret_file, Some("/s".into()));
        assert_eq!(url("direct://flash").place, tcp("flash", TCP.port));
        let tls = url("direct+tls://flash/data?key=app&secret-file=/s");
        assert_eq!(tls.place, Place::Tls { host: "flash".to_owned(), port: 4421 });
        assert_eq!((tls.volume.as_deref(), tls.key.as_deref()), (Some("data"), Some("app")));
        assert_eq!(url("direct://flash:1/").volume, None);
        let local = url("direct+local:/run/a.sock/data");
        assert_eq!(local.place, Place::Local("/run/a.sock".into()));
        assert_eq!(local.volume.as_deref(), Some("data"));
        assert_eq!(url("direct+local:a.sock").volume, None);
    }

    #[test]
    fn a_seal_is_read_whole_and_never_shown() {
        let terms = nearflash_direct::SealTerms {
            object: 1,
            uuid: [2; 16],
            version: 1,
            rights: nearflash_direct::wire::Rights::READ,
            good_until: u64::MAX,
            runs: [nearflash_direct::Run { start: 0, len: 4096 }].into(),
        };
        let secret = nearflash_direct::Secret::new([0xAB; 32]);
        let key = nearflash_direct::wire::SealKey::of_operator(3, &secret, [4; 16]);
        let token = SealToken::mint(&key, terms, u64::MAX).unwrap();
        let text = format!("direct://a:1/data?digest=header&seal={token}");
        let parsed = url(&text);
        assert_eq!(
            (parsed.seal.as_deref(), parsed.volume.as_deref()),
            (Some(&token), Some("data"))
        );
        assert_eq!(parsed.to_string(), "direct://a:1/data");
        let message = text[..text.len() - 2].parse::<Url>().unwrap_err().to_string();
        assert!(
            message.contains("copy the whole URL") && !message.contains("4e46534c"),
            "{message}"
        );
        assert!(url("direct://a/data").seal.is_none());
    }

    #[test]
    fn a_url_is_written_as_it_is_read() {
        for text in [
            "direct://[::1]:4500/data",
            "direct://flash:1",
            "direct+tls://[::1]:4500/data",
            "direct+tls://flash:1",
            "direct+local:a.sock/data",
            "direct+local:/run/100%25%3F.sock/a%2Fb",
        ] {
            assert_eq!(url(text).to_string(), text);
        }
    }

    #[test]
    fn every_part_is_percent_decoded() {
        let local = url("direct+local:/run/a%3F/n.sock/a%20b?key=a%26b&secret-file=/a%25b");
        assert_eq!(local.place, Place::Local("/run/a?/n.sock".into()));
        assert_eq!(local.volume.as_deref(), Some("a b"));
        assert_eq!(local.key.as_deref(), Some("a&b"));
        assert_eq!(local.secret_file, Some("/a%b".into()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy_on_one_line() {
        let cases = [
            ("nvme-tcp://a/data", "direct://HOST:PORT/VOLUME"),
            ("direct://:1/data", "direct://HOST:PORT/VOLUME"),
            ("direct+tls://:1/data", "direct+tls://HOST:PORT/VOLUME"),
            ("direct+tls:a/data", "direct+tls://HOST:PORT/VOLUME"),
            ("direct+tls://a:0", "usually 4421"),
            ("direct://[::1/data", "direct://HOST:PORT/VOLUME"),
            ("direct://a:0", "1 to 65535"),
            ("direct://a:http", "1 to 65535"),
            ("direct+local:/run/a", "ending in .sock"),
            ("direct+local:.sock", "ending in .sock"),
            ("direct+local:a.sock/b/c", "ending in .sock"),
            ("direct://a?depth=3", "seal=TOKEN"),
            ("direct://a?digest=both", "header,data"),
            ("direct://a?key=", "credential create"),
            ("direct://a?secret-file", "path of a file"),
            ("direct://::1/data", "in brackets"),
            ("direct://[::1]4421", "1 to 65535"),
            ("direct://a/100%", "%25"),
            ("direct://a?secret-file=100%", "%25"),
        ];
        for (text, remedy) in cases {
            let message = text.parse::<Url>().unwrap_err().to_string();
            assert!(message.contains(remedy), "{text}: {message}");
            assert!(!message.contains('\n'), "{text}: {message}");
        }
    }
}
